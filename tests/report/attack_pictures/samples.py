"""Scenes made from others, and how to read a page."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from nearveil.attacks.base import AttackResult, Outcome, Trace, TraceStep
from nearveil.report.attack_page import write_page
from nearveil.report.attack_scene import Scene

TAU_M = 100.0


def empty(scene: Scene, steps: tuple[TraceStep, ...] = ()) -> Scene:
    """The same location, where the attack came to nothing."""
    nothing = AttackResult(
        attack="gi-lia", outcome=Outcome.NOT_LISTED, estimate=None, queries=len(steps), seconds=0.0, trace=Trace(steps)
    )
    return replace(scene, result=nothing)


def protected(scene: Scene) -> Scene:
    """As if the service knew the user elsewhere: the attack finds that location, and the user is 500 m off."""
    return replace(scene, truth=(scene.truth[0] - 400, scene.truth[1] - 300), published=scene.truth)


class Page(HTMLParser):
    """The start tags and the embedded story of the page of an attack."""

    def __init__(self, scene: Scene, path: Path, title: str = "One attack") -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []
        write_page(scene, path, title=title)
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.data.append(data)

    @property
    def story(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(next(data for data in self.data if data.startswith('{"steps"')))
        return found
