"""Scenes made from others, and how to draw them."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from nearveil.attacks.base import AttackResult, Outcome, Trace, TraceStep
from nearveil.report.attack_figure import draw_attack
from nearveil.report.attack_gif import AnimationKind, animate_attack
from nearveil.report.attack_scene import Scene

TAU_M = 100.0


def empty(scene: Scene, steps: tuple[TraceStep, ...] = ()) -> Scene:
    """The same place, where the attack came to nothing."""
    nothing = AttackResult(
        attack="gi-lia",
        outcome=Outcome.NOT_LISTED,
        estimate=None,
        queries=len(steps),
        seconds=0.0,
        trace=Trace(steps),
    )
    return replace(scene, result=nothing)


def protected(scene: Scene) -> Scene:
    """As if the service knew the person elsewhere: the attack finds that place, and the person is 500 m off."""
    return replace(scene, truth=(scene.truth[0] - 400, scene.truth[1] - 300), published=scene.truth)


def drawn(scene: Scene, path: Path, title: str = "One attack") -> Path:
    draw_attack(scene, path, title=title)
    return path


def animated(scene: Scene, path: Path, kind: AnimationKind, title: str = "One attack") -> Path:
    animate_attack(scene, path, kind=kind, title=title)
    return path


class Page(HTMLParser):
    """Collects the start tags and the embedded story of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.data.append(data)

    @property
    def story(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(next(data for data in self.data if data.startswith('{"steps"')))
        return found
