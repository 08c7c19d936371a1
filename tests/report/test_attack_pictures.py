"""Pictures of an attack: one that tracks what is possible, and one that finds circles."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import shapely
from PIL import Image

import nearveil as nv
from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Attack, AttackResult, Outcome, Trace, TraceStep
from nearveil.attacks.gi_lia import GILIA
from nearveil.attacks.oracle import Point, point_of
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.report.attack_figure import draw_attack
from nearveil.report.attack_player import write_player
from nearveil.report.attack_scene import Scene, certificate, frames_of, heading, verdict
from nearveil.types import FloatArray
from tests.browser import Tab, launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TAU_M = 100.0


def attacked(attack: Attack, region: Region, city: FloatArray) -> Scene:
    """An attack on the tenth in the list near a user."""
    people_m = region.to_metres(city)
    x, y = (people_m[27] + [30.0, -20.0]).tolist()
    target = int(np.argsort(np.hypot(*(people_m - [x, y]).T))[9])
    oracle = SimulatedService(region, people_m, rng=1).oracle(k=20, accounts=attack.accounts_needed)
    return Scene(attack.infer(oracle, target, (x, y)), region, people_m, point_of(people_m[target]), TAU_M)


@pytest.fixture(scope="module")
def adaptive(san_francisco: Region, city: FloatArray) -> Scene:
    return attacked(Adaptive(half_extent_m=san_francisco.half_extent_m, tau_m=TAU_M), san_francisco, city)


@pytest.fixture(scope="module")
def gi_lia(san_francisco: Region, city: FloatArray) -> Scene:
    return attacked(GILIA(), san_francisco, city)


def empty(scene: Scene, steps: tuple[TraceStep, ...] = ()) -> Scene:
    """The same location, where the attack came to nothing."""
    nothing = AttackResult(
        attack="gi-lia", outcome=Outcome.NOT_LISTED, estimate=None, queries=len(steps), seconds=0.0, trace=Trace(steps)
    )
    return replace(scene, result=nothing)


def protected(scene: Scene) -> Scene:
    """As if the service knew the user elsewhere: the attack finds that location, and the user is 500 m off."""
    return replace(scene, truth=(scene.truth[0] - 400, scene.truth[1] - 300), published=scene.truth)


def test_frames_are_the_queries_and_the_result_and_only_get_closer(adaptive: Scene, gi_lia: Scene) -> None:
    for scene in (adaptive, gi_lia):
        *queries, result = frames = frames_of(scene)
        assert [frame.number for frame in queries] == list(range(1, scene.result.queries + 1))
        assert result.step is None
        assert result.view.half_m < 4 * TAU_M
        assert all(later.view.half_m <= earlier.view.half_m + 1e-6 for earlier, later in pairwise(frames))
        for frame in frames:
            matters = np.array([scene.truth, frame.step.place if frame.step else scene.truth])
            assert (abs(matters - frame.view.centre) <= frame.view.half_m).all()


def test_the_possible_area_shrinks_and_holds_the_user(adaptive: Scene) -> None:
    areas = [area for area in adaptive.areas if area is not None]
    assert [area.area for area in areas] == sorted((area.area for area in areas), reverse=True)
    # The user is at the origin.
    assert all(area.distance(shapely.Point(0, 0)) == 0 for area in areas)


def plain(words: str) -> str:
    return words.replace("\N{NO-BREAK SPACE}", " ")


def test_a_miss_is_never_called_found(gi_lia: Scene, adaptive: Scene) -> None:
    """What the attacker finds in a protected service is the published location."""
    missed, queries = "ublished location found, user missed by 500 m", gi_lia.result.queries
    assert plain(heading(protected(gi_lia))) == f"P{missed} after {queries} queries"
    result = plain(frames_of(protected(gi_lia))[-1].text)
    assert result.startswith(f"Result: p{missed}. The estimate is 500 m from the user and ")
    for scene in (protected(gi_lia), protected(adaptive)):
        assert "found" not in certificate(scene)
    far = replace(gi_lia, result=replace(gi_lia.result, estimate=(gi_lia.truth[0] + 300, gi_lia.truth[1])))
    texts = [plain(verdict(one)) for one in (gi_lia, far, replace(far, published=far.truth))]
    assert texts == ["user found", "user missed by 300 m", "published location missed by 300 m, user missed by 300 m"]
    assert "300 m off" not in plain(heading(far))
    assert re.search(r"found after \d+ queries, [\d.]+ m off", plain(heading(gi_lia)))


def test_circles_a_protected_user_and_others_located_are_drawn(gi_lia: Scene, tmp_path: Path) -> None:
    others: dict[Person, Point] = {number: (gi_lia.truth[0] + 40.0 * number, gi_lia.truth[1]) for number in (1, 2, 3)}
    unfolded = replace(gi_lia, result=replace(gi_lia.result, others=others))
    for name, scene in {"plain": gi_lia, "protected": protected(gi_lia), "unfolded": unfolded}.items():
        draw_attack(scene, tmp_path / name, title="One attack")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 3
    with Image.open(tmp_path / "plain") as picture:
        picture.load()
        assert (picture.format, picture.width > 1500) == ("PNG", True)


def test_without_users_there_is_no_empty_map_of_the_region(adaptive: Scene, tmp_path: Path) -> None:
    """Where the queries are as near as the last stretch, the region is drawn for its users alone."""
    near = empty(adaptive, (TraceStep(adaptive.truth, None),))
    for name, scene in {"users": near, "none": replace(near, people_m=np.empty((0, 2)))}.items():
        draw_attack(scene, tmp_path / name, title="One attack")
    left = [np.asarray(Image.open(tmp_path / name).convert("L"))[300:800, 100:350] for name in ("users", "none")]
    assert [part.min() == part.max() for part in left] == [False, True]


@pytest.mark.parametrize("asked", [0, 1])
def test_an_attack_that_ended_at_once_can_be_shown(adaptive: Scene, tmp_path: Path, asked: int) -> None:
    scene = empty(adaptive, (TraceStep((0.0, 0.0), None),) * asked)
    for draw, name in ((draw_attack, "a.png"), (write_player, "a.html")):
        draw(scene, tmp_path / name, title="One attack")
    assert "No estimate" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_each_query_is_a_frame_with_what_was_known_then(adaptive: Scene) -> None:
    outcome = nv.AttackOutcome(
        result=adaptive.result, region=adaptive.region, tau_m=TAU_M, truth=adaptive.truth, people_m=adaptive.people_m
    )
    figure = nv.attack_map(outcome)
    *queries, result = figure.frames
    assert len(figure.layout.sliders[0].steps) == len(queries) + 1 == len(adaptive.steps) + 1

    def points(frame: Any, name: str) -> FloatArray:
        (trace,) = [trace for trace in frame.data if trace.name == name]
        return np.column_stack([trace.x, trace.y])

    for number, (frame, step) in enumerate(zip(queries, adaptive.steps, strict=True), start=1):
        asked = points(frame, "queries")
        assert len(asked) == number
        assert np.allclose(asked[-1], adaptive.from_user(step.place), atol=0.01)
        assert len(points(frame, "accounts of the attacker")) == len(step.accounts)
        assert len(points(frame, "estimate of the attacker")) == 0
        assert f"Query {number} of" in frame.layout.title.text
    (estimate,) = points(result, "estimate of the attacker")
    assert adaptive.result.estimate is not None
    assert math.hypot(*estimate) == pytest.approx(math.dist(adaptive.result.estimate, adaptive.truth), abs=0.01)
    with pytest.raises(UsageError, match="truth"):
        nv.attack_map(replace(outcome, truth=None))
    with pytest.raises(UsageError, match="asked nothing"):
        nv.attack_map(replace(outcome, result=empty(adaptive).result))


def test_names_in_the_page_stay_text(adaptive: Scene, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    write_player(adaptive, tmp_path / "attack.html", title=f'{evil} & "Zoë"')
    page = (tmp_path / "attack.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#34;Zoë&#34;" in page


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    with launched() as browser:
        yield browser


def test_the_player_steps_through_the_queries_and_loads_nothing(
    chromium: "Browser", adaptive: Scene, tmp_path: Path
) -> None:
    path, tab, scene = tmp_path / "attack.html", Tab(chromium), protected(adaptive)
    write_player(scene, path, title="One attack")
    texts = [frame.text for frame in frames_of(scene)]
    tab.open(path, width=1280)

    def wait_for(text: str) -> None:
        tab.page.wait_for_function("text => document.getElementById('said').textContent === text", arg=text)

    tab.page.wait_for_selector("#attack .slider-group")
    legend = "document.querySelector('#attack .legend').textContent"
    for number, text in enumerate(texts):
        wait_for(text)
        # The estimate is not known before the end.
        assert ("estimate" in tab.run(legend)) == (number == len(texts) - 1)
        tab.page.keyboard.press("ArrowRight")
    tab.page.click("#back")
    wait_for(texts[-2])
    tab.page.click("#play")
    wait_for(texts[-1])
    tab.open(path, width=390)
    assert tab.run("document.documentElement.scrollWidth") <= 390
    assert (tab.complaints, tab.requests) == ([], [path.as_uri()])
    tab.close()
