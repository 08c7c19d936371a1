"""One attack as a web page with a player: a single file that loads nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearveil.attacks.oracle import Point
from nearveil.report.attack_figure import shades
from nearveil.report.attack_scene import Frame, Scene, frames_of, heading, legend_name, length, summary
from nearveil.report.land import land_in
from nearveil.report.page import filled, verbatim
from nearveil.report.style import ACCOUNT_COLOUR, CIRCLE_COLOUR, DARK, LIGHT, PUBLISHED_COLOUR, TRUE_COLOUR

_COLOURS = {
    "true": TRUE_COLOUR,
    "published": PUBLISHED_COLOUR,
    "account": ACCOUNT_COLOUR,
    "circle": CIRCLE_COLOUR,
}


def write_page(scene: Scene, path: Path, *, title: str) -> None:
    """Write the page. Its source holds true locations as numbers."""
    page = filled(
        "attack.html",
        title=heading(scene, title),
        summary=summary(scene),
        people=legend_name(scene, "people"),
        others=legend_name(scene, "others located"),
        tau=length(scene.tau_m),
        story=_story(scene),
        colours=_COLOURS,
        light=LIGHT,
        dark=DARK,
        script=verbatim("attack.js"),
    )
    path.write_text(page, encoding="utf-8")


def _story(scene: Scene) -> dict[str, Any]:
    """What the page draws, in metres east and north of the person."""
    origin, half = np.array(scene.truth), np.array(scene.region.half_extent_m)
    *questions, result = (_told(scene, frame) for frame in frames_of(scene))
    return {
        "steps": questions,
        "result": result,
        "land": [
            (scene.region.to_metres(ring) - origin).round().astype(int).ravel().tolist()
            for ring in land_in(scene.region)
        ],
        "people": (scene.dots - origin).round().astype(int).ravel().tolist(),
        "estimate": None if scene.result.estimate is None else _spot(scene, scene.result.estimate),
        "published": None if scene.published is None else _spot(scene, scene.published),
        "others": [_spot(scene, place) for place in scene.result.others.values()],
        "tau": scene.tau_m,
        "region": [*(-half - origin).tolist(), *(half - origin).tolist()],
    }


def _told(scene: Scene, frame: Frame) -> dict[str, Any]:
    """One frame."""
    circles = [[*_spot(scene, circle.centre), circle.radius_m] for circle in scene.circles_after(frame.number)]
    view = [*_spot(scene, frame.view.centre), round(frame.view.half_m, 1)]
    about: dict[str, Any] = {"view": view, "text": frame.text, "circles": circles}
    step = frame.step
    if step is None:
        return about
    about["place"] = _spot(scene, step.place)
    about["accounts"] = [_spot(scene, each) for each in step.accounts]
    about["colour"] = shades(len(scene.steps))[frame.number - 1]
    if step.cells is not None:
        boxes = scene.boxes(step.cells) - np.tile(np.array(scene.truth), 2)
        about["boxes"] = boxes.round(1).ravel().tolist()
    if frame.ring_m is not None and frame.ring_m[0] < frame.ring_m[1]:
        # JSON has no infinity.
        about["ring"] = [min(end, 1e7) for end in frame.ring_m]
    return about


def _spot(scene: Scene, place: Point) -> list[float]:
    return [round(float(part), 1) for part in np.array(place) - np.array(scene.truth)]
