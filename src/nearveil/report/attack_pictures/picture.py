"""One attack as a picture: what was asked from where, and what it found out."""

from __future__ import annotations

from pathlib import Path

from nearveil.report.attack_pictures.scene import Scene


def draw_attack(scene: Scene, path: Path, *, title: str) -> None:
    """Draw the whole region, the attack close up, and its last stretch; save as PNG, whatever the path's suffix.

    It shows true places, so it is for made-up people, or for the operator's eyes only.
    """
    # Heavy, and only needed where a picture is drawn.
    from nearveil.report.attack_pictures.panels import save_panels  # noqa: PLC0415

    save_panels(scene, path, title)
