"""Putting the panels of an audit's picture together."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from nearveil.audit.subject import Subject
from nearveil.audit.witness import Witness
from nearveil.mechanisms.intervals import Intervals
from nearveil.report.audit_picture.frequencies import draw_frequencies
from nearveil.report.audit_picture.maps import BORDER_DASHES, EVENT_COLOUR, draw_map
from nearveil.report.audit_picture.scene import Scene
from nearveil.report.style import DISC_COLOUR, INK, disc_handle, disc_handlers, house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINE = 190
# Left, bottom, width and height; words above.
_PANELS = (0.0, 0.0, 1.0, 0.87)


def draw_audit(
    witness: Witness, subject: Subject, path: Path, *, title: str, intervals: Intervals | None = None
) -> None:
    """Draw the outputs of both places of a witness, the border, the event and its frequencies; save as PNG.

    Parameters
    ----------
    witness : Witness
        Names the places and the event, and has the counts. The dots are outputs drawn for the picture alone.
    subject : Subject
        What was audited.
    path : Path
        File to write.
    title : str
        The verdict.
    intervals : Intervals, optional
        To show discs and the borders between their cells.
    """
    # Heavy, and only needed where a picture is drawn.
    from matplotlib import pyplot as plt  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    scene = Scene(witness, subject, intervals)
    with house_style():
        figure, axes = plt.subplots(
            1, 3, figsize=(15, 6.6), layout=ConstrainedLayoutEngine(rect=_PANELS), width_ratios=(1, 1, 0.62)
        )
        for panel, cloud, view in zip(axes[:2], scene.clouds, scene.views, strict=True):
            draw_map(panel, scene, cloud, view)
        draw_frequencies(axes[2], witness)
        figure.text(0.012, 0.975, title, fontsize=15, fontweight="bold", va="top")
        figure.text(0.012, 0.925, textwrap.fill(_sentence(witness, subject), _LINE), fontsize=10, va="top")
        _add_legend(figure, scene)
        figure.savefig(path, format="png")
        plt.close(figure)


def _sentence(witness: Witness, subject: Subject) -> str:
    pair, event = str(witness.pair), witness.event.describe().replace("the first", "A").replace("the second", "B")
    remaps = getattr(getattr(subject, "mechanism", None), "remaps", False)
    stage = " Outputs are shown as drawn, before they are moved into the intervals." if remaps else ""
    return f"A and B are {pair}. The event: outputs {event}.{stage}"


def _add_legend(figure: Figure, scene: Scene) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    handles: list[Line2D | Patch] = [
        Patch(facecolor=EVENT_COLOUR + "73", edgecolor=INK, label="the event")
        if scene.has_areas
        else Line2D([], [], marker=".", linestyle="", color=INK, markersize=9, label="an output that is the event"),
        Line2D([], [], marker=".", linestyle="", color=INK, label="an output", alpha=1 if scene.has_areas else 0.3),
    ]
    if scene.discs is not None:
        handles += [
            disc_handle("an interval", DISC_COLOUR),
            Line2D([], [], color=INK, linewidth=0.8, linestyle=BORDER_DASHES, label="border between cells"),
        ]
    figure.legend(
        handles=handles, loc="outside lower left", ncols=len(handles), frameon=False, fontsize=9,
        handler_map=disc_handlers(),
    )  # fmt: skip
