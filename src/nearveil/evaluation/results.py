"""What an experiment has to say: tables and pictures as values, before anybody prints or draws them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nearveil.evaluation.stats import Estimate, Mean, Share
from nearveil.region import Region
from nearveil.types import FloatArray

Value = str | int | float | Estimate | None
"""What a cell of a table can hold; None where there is nothing to say."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
        Its header; unique within its table.
    group : str
        A header above it that neighbouring columns share; empty for none.
    form : str
        How its numbers are written, as in `format`.
    in_terminal : bool
        Whether the command prints it; else it is in the table's files and in the report alone.
    """

    name: str
    group: str = ""
    form: str = ".3f"
    in_terminal: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values, with the protocol that they were measured under.

    Attributes
    ----------
    name : str
        Of its files.
    in_files_alone : bool
        Whether it is too long to be read, and neither printed nor in the report.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    protocol: str
    in_files_alone: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel.

    Attributes
    ----------
    label : str
        What the legend calls it. Series with one label look the same in every panel of a report.
    x, y : tuple of Mean or Share
        Where its points are, with 95 % intervals.
    kind : str
        ``line``: points joined by a line; ``points``: points alone; ``paper``: the paper's values.
    colour_of : str
        The label of another series, in whose colour this one is drawn; empty for a colour of its own.
    emphasis : str
        ``own``: the reader's own, in front of all others and with its name beside it; ``background``: a thin line
        behind, without an entry of its own in the legend; empty for the others.
    """

    label: str
    x: tuple[Estimate, ...]
    y: tuple[Estimate, ...]
    kind: Literal["line", "points", "paper"] = "line"
    colour_of: str = ""
    emphasis: Literal["", "own", "background"] = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes; labels have units. ``reverse_x`` has small values to the right."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    reverse_x: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """What a reader can choose to see along an axis; the label has a unit."""

    name: str
    label: str
    is_log: bool = False
    is_reversed: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of an exploration: for each axis by name its values, and what to say of each point."""

    label: str
    notes: tuple[str, ...]
    values: Mapping[str, tuple[Estimate, ...]]
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Exploration:
    """The same measurements for a page where a reader chooses the axes and asks each point what it is."""

    x: tuple[Axis, ...]
    y: tuple[Axis, ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels side by side, ``columns`` in a row.

    Attributes
    ----------
    name : str
        Of its file.
    description : str
        What it shows, for those who cannot see it.
    caption : str
        What to see in it, below its title.
    exploration : Exploration, optional
        What the report shows instead, where scripts run.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    columns: int
    description: str
    caption: str = ""
    exploration: Exploration | None = None


@dataclass(frozen=True, slots=True)
class Dots:
    """One kind of value in the rows of a dot plot, with 95 % intervals; None where a row has none.

    Attributes
    ----------
    form : str
        How the number beside each dot is written, as in `format`.
    """

    label: str
    values: tuple[Estimate | None, ...]
    form: str = ".1f"


@dataclass(frozen=True, slots=True)
class DotPanel:
    """One pair of axes of a dot plot; the label has a unit."""

    title: str
    x_label: str
    series: tuple[Dots, ...]
    log_x: bool = False


@dataclass(frozen=True, slots=True)
class DotPlot:
    """Things to compare, one in a row, with dots in panels side by side.

    Attributes
    ----------
    sections : tuple of (str, tuple of str)
        Headings, and the labels of the rows below each. Values of panels are in the order of all rows.
    """

    name: str
    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    panels: tuple[DotPanel, ...]
    description: str


@dataclass(frozen=True, slots=True, eq=False)
class MapLayer:
    """Places on a map, in degrees; ``radii_m`` makes discs of them."""

    label: str
    kind: Literal["people", "published", "centres", "attacker"]
    places: FloatArray
    radii_m: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MapPanel:
    """One map of the region."""

    title: str
    layers: tuple[MapLayer, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Maps of one region side by side, ``columns`` in a row."""

    name: str
    title: str
    region: Region
    panels: tuple[MapPanel, ...]
    columns: int
    description: str


Picture = Chart | DotPlot | Map


@dataclass(frozen=True, slots=True, eq=False)
class ExperimentResult:
    """Everything that one table or figure of the paper, or one experiment of ours, has to say.

    Attributes
    ----------
    name : str
        On the command line, and of its section.
    title : str
        Of its section.
    question : str
        What it is to show, in a sentence or two.
    tables, pictures
        The first picture and table are the main ones.
    remarks : tuple of str
        What came out, and a sentence on every difference from the paper.
    """

    name: str
    title: str
    question: str
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyFinding:
    """One of the main findings, and the section that shows it."""

    headline: str
    text: str
    evidence: tuple[str, ...]


def exact(value: float) -> Mean:
    """Return a number that was set and not measured."""
    return Mean(float(value), None)


def cut_to_share(mean: Mean) -> Estimate:
    """Return a mean of shares as it is shown: its interval ends at 0 and 1.

    Examples
    --------
    >>> print(cut_to_share(Mean(0.5, 1.09)), cut_to_share(Mean(0.5, None)))
    0.5 (0–1) 0.5
    """
    if mean.low is None or mean.high is None:
        return mean
    return Share(mean.value, max(mean.low, 0.0), min(mean.high, 1.0))
