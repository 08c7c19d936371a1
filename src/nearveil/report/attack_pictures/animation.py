"""One attack, question by question: an animated GIF, or a page with a player."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from nearveil.errors import UsageError
from nearveil.report.attack_pictures.page import page_of
from nearveil.report.attack_pictures.scene import Scene

AnimationKind = Literal["gif", "html"]


def animation_kind(path: Path) -> AnimationKind:
    """The kind of animation that a file name asks for."""
    for kind in get_args(AnimationKind):
        if path.suffix.lower() == f".{kind}":
            found: AnimationKind = kind
            return found
    raise UsageError(f"{path.name} is not the name of an animation; end it in .gif or .html")


def animate_attack(scene: Scene, path: Path, *, kind: AnimationKind, title: str) -> None:
    """Show one attack question by question, closer and closer; save as GIF or as a page, whatever the path's suffix.

    It shows true places, so it is for made-up people, or for the operator's eyes only. That goes for the page's source
    as well, which holds them as numbers.

    Parameters
    ----------
    kind : {"gif", "html"}
        See `animation_kind`. In a GIF of a long attack questions share frames or are left out; a page has them all.
    """
    if kind == "gif":
        # Heavy, and only needed where a picture is drawn.
        from nearveil.report.attack_pictures.gif import save_gif  # noqa: PLC0415

        save_gif(scene, path, title)
    elif kind == "html":
        path.write_text(page_of(scene, title), encoding="utf-8")
    else:
        raise UsageError("an animation is either 'gif' or 'html'")
