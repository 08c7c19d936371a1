"""One attack as a picture: what was asked from where, and what it found out."""

from __future__ import annotations

from pathlib import Path

from nearveil.attacks.oracle import Spot
from nearveil.attacks.result import AttackResult
from nearveil.region import Region
from nearveil.report.attack_pictures.scene import Scene
from nearveil.types import FloatArray


def draw_attack(
    result: AttackResult,
    region: Region,
    path: Path,
    *,
    people_m: FloatArray,
    truth: Spot,
    tau_m: float,
    title: str,
    published: Spot | None = None,
) -> None:
    """Draw the whole region, the attack close up, and its last stretch; save as PNG, whatever the path's suffix.

    It shows true places, so it is for made-up people, or for the operator's eyes only.

    Parameters
    ----------
    people_m : ndarray of shape (n, 2)
        Where people are, in metres from the region's centre.
    truth : Spot
        Where the target is.
    tau_m : float
        How near counts as found.
    published : Spot, optional
        Where a protected service publishes the target.
    """
    # Heavy, and only needed where a picture is drawn.
    from nearveil.report.attack_pictures.panels import save_panels  # noqa: PLC0415

    save_panels(Scene(result, region, people_m, truth, tau_m, published), path, title)
