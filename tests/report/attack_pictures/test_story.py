"""The story of an attack: its frames, where they look, what was possible, and how it is told."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from nearveil.report.attack_scene import Scene, frames_of, heading, summary, verdict
from tests.report.attack_pictures.samples import TAU_M, empty, protected


def test_a_frame_for_each_question_and_one_for_the_result(adaptive: Scene) -> None:
    *questions, result = frames_of(adaptive)
    assert [frame.number for frame in questions] == list(range(1, adaptive.result.queries + 1))
    assert result.step is None
    assert "Certified" in result.text


@pytest.mark.parametrize("which", ["adaptive", "gi_lia"])
def test_views_only_get_closer_and_hold_the_question_and_the_person(which: str, request: pytest.FixtureRequest) -> None:
    scene: Scene = request.getfixturevalue(which)
    frames = frames_of(scene)
    assert all(later.view.half_m <= earlier.view.half_m + 1e-6 for earlier, later in pairwise(frames))
    assert all(frame.view.holds(scene.truth) for frame in frames)
    assert all(frame.view.holds(frame.step.place) for frame in frames if frame.step is not None)
    assert frames[-1].view.half_m < 4 * TAU_M


def test_possible_areas_shrink_and_do_not_leave_the_region(adaptive: Scene) -> None:
    areas = [frame.area_km2 for frame in frames_of(adaptive) if frame.area_km2 is not None]
    assert areas == sorted(areas, reverse=True)
    # Each rule that is kept in mind has cells of its own, of other sizes.
    everything = np.array([[0.0, 0.0, 1e6], [0.0, 0.0, 1e6], [100.0, 100.0, 50.0]])
    unknown = replace(adaptive.steps[0], cells=everything)
    half_width, half_height = adaptive.region.half_extent_m
    assert frames_of(empty(adaptive, (unknown,)))[0].area_km2 == pytest.approx(4 * half_width * half_height / 1e6)


def test_rings_close_in_on_the_circles_found(gi_lia: Scene) -> None:
    frames = [frame for frame in frames_of(gi_lia) if frame.ring_m is not None and frame.step is not None]
    assert len(frames) > 20
    for frame in frames:
        low, high = frame.ring_m or (0.0, 0.0)
        distance = math.dist(frame.step.place, gi_lia.truth) if frame.step else 0.0
        assert low - 0.1 <= distance <= high + 0.1
    assert len(gi_lia.circles_after(1)) == 0
    assert len(gi_lia.circles_after(len(gi_lia.steps))) == 2


def plain(words: str) -> str:
    return words.replace("\N{NO-BREAK SPACE}", " ")


def test_a_miss_is_never_called_found(gi_lia: Scene, adaptive: Scene) -> None:
    """What the attacker finds in a protected service is the published place."""
    missed = "published place found, person missed by 500 m"
    assert plain(verdict(protected(gi_lia))) == missed
    assert plain(heading(protected(gi_lia), "One attack")) == f"One attack: {missed}"
    result = plain(frames_of(protected(gi_lia))[-1].text)
    assert result.startswith(f"Result: {missed}. The estimate is 500 m from the person and ")
    for words in (summary(protected(gi_lia)), summary(protected(adaptive))):
        assert "found" not in words
    assert verdict(gi_lia) == "person found"
    far = replace(gi_lia, result=replace(gi_lia.result, estimate=(gi_lia.truth[0] + 300, gi_lia.truth[1])))
    assert plain(verdict(far)) == "person missed by 300 m"
    assert plain(verdict(replace(far, published=gi_lia.truth))).startswith(
        "published place missed by 300 m, person missed"
    )
    assert verdict(replace(gi_lia, published=gi_lia.truth)) == "published place found, person found"
