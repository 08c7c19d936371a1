"""The story of an attack and its pictures: an attack that tracks what is possible, and one that finds circles."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Attack, AttackResult, Outcome, Trace, TraceStep
from nearveil.attacks.gi_lia import GILIA
from nearveil.attacks.oracle import Point, point_of
from nearveil.attacks.simulator import SimulatedService
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.report import attack_gif
from nearveil.report.attack_figure import draw_attack
from nearveil.report.attack_page import write_page
from nearveil.report.attack_scene import Scene, frames_of, heading, summary, verdict
from nearveil.report.land import land_in
from nearveil.report.style import PUBLISHED_COLOUR, TRUE_COLOUR
from nearveil.types import FloatArray

TAU_M = 100.0


def attacked(attack: Attack, region: Region, city: FloatArray) -> Scene:
    """An attack on the tenth in the list near somebody."""
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
        *questions, result = frames = frames_of(scene)
        assert [frame.number for frame in questions] == list(range(1, scene.result.queries + 1))
        assert result.step is None
        assert result.view.half_m < 4 * TAU_M
        assert all(later.view.half_m <= earlier.view.half_m + 1e-6 for earlier, later in pairwise(frames))
        assert all(frame.view.holds(scene.truth) for frame in frames)
        assert all(frame.view.holds(frame.step.place) for frame in questions if frame.step is not None)


def plain(words: str) -> str:
    return words.replace("\N{NO-BREAK SPACE}", " ")


def test_a_miss_is_never_called_found(gi_lia: Scene, adaptive: Scene) -> None:
    """What the attacker finds in a protected service is the published place."""
    missed = "published place found, person missed by 500 m"
    assert plain(heading(protected(gi_lia), "One attack")) == f"One attack: {missed}"
    result = plain(frames_of(protected(gi_lia))[-1].text)
    assert result.startswith(f"Result: {missed}. The estimate is 500 m from the person and ")
    for words in (summary(protected(gi_lia)), summary(protected(adaptive))):
        assert "found" not in words
    far = replace(gi_lia, result=replace(gi_lia.result, estimate=(gi_lia.truth[0] + 300, gi_lia.truth[1])))
    told = [plain(verdict(one)) for one in (gi_lia, far, replace(far, published=far.truth))]
    assert told == ["person found", "person missed by 300 m", "published place missed by 300 m, person missed by 300 m"]


def test_circles_a_protected_user_and_others_located_are_drawn(gi_lia: Scene, tmp_path: Path) -> None:
    others: dict[Person, Point] = {number: (gi_lia.truth[0] + 40.0 * number, gi_lia.truth[1]) for number in (1, 2, 3)}
    unfolded = replace(gi_lia, result=replace(gi_lia.result, others=others))
    for name, scene in {"plain": gi_lia, "protected": protected(gi_lia), "unfolded": unfolded}.items():
        draw_attack(scene, tmp_path / name, title="One attack")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 3
    with Image.open(tmp_path / "plain") as picture:
        picture.load()
        assert (picture.format, picture.width > 1500) == ("PNG", True)


def test_a_gif_has_a_frame_for_each_query_in_true_colors_and_a_long_one_at_the_end(
    adaptive: Scene, gi_lia: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "attack.partial"
    attack_gif.draw_gif(protected(adaptive), path, title="One attack")
    assert path.stat().st_size < 3_000_000
    with Image.open(path) as gif:
        assert (gif.format, getattr(gif, "n_frames", 1)) == ("GIF", adaptive.result.queries + 1)
        assert gif.info["duration"] == 900
        gif.seek(adaptive.result.queries)
        assert gif.info["duration"] == 3000
        pixels = np.asarray(gif.convert("RGB")).astype(int)
    # The small marks keep their colors.
    for color in (TRUE_COLOUR, PUBLISHED_COLOUR):
        wanted = [int(color[at : at + 2], 16) for at in (1, 3, 5)]
        assert (np.abs(pixels - wanted).max(axis=2) <= 6).sum() > 50
    # Of a longer attack frames are left out.
    monkeypatch.setattr(attack_gif, "_MOST_FRAMES", 4)
    attack_gif.draw_gif(gi_lia, path, title="One attack")
    with Image.open(path) as gif:
        assert (len(gi_lia.steps) > 20, getattr(gif, "n_frames", 1)) == (True, 4)


def test_a_page_holds_the_whole_story_and_asks_nobody(adaptive: Scene, gi_lia: Scene, tmp_path: Path) -> None:
    evil = "</title><script>alert(1)</script>"
    for scene in (adaptive, gi_lia, protected(adaptive), replace(gi_lia, result=replace(gi_lia.result, attack=evil))):
        write_page(scene, tmp_path / "attack.html", title=f'{evil} & @@STORY@@ of "Zoë"')
        page = (tmp_path / "attack.html").read_text(encoding="utf-8")
        assert len(re.findall("<script", page)) == 2
        assert f"&lt;script&gt;alert(1)&lt;/script&gt; &amp; @@STORY@@ of &#34;Zoë&#34;: {verdict(scene)}</h1>" in page
        assert not re.search(r"https?://|src=|@import|url\(|fetch\(", page)
        story = json.loads(re.findall(r'>({"steps".*?})</script>', page, re.DOTALL)[0])
        assert [step["text"] for step in story["steps"]] == [frame.text for frame in frames_of(scene)[:-1]]
        rings = [scene.region.to_metres(ring) - np.array(scene.truth) for ring in land_in(scene.region)]
        for told, ring in zip(story["land"], rings, strict=True):
            assert np.allclose(np.reshape(told, (-1, 2)), ring, atol=0.51)


@pytest.mark.parametrize("asked", [0, 1])
def test_an_attack_that_ended_at_once_can_be_shown(adaptive: Scene, tmp_path: Path, asked: int) -> None:
    scene = empty(adaptive, (TraceStep((0.0, 0.0), None),) * asked)
    for draw, name in ((draw_attack, "a.png"), (attack_gif.draw_gif, "a.gif"), (write_page, "a.html")):
        draw(scene, tmp_path / name, title="One attack")
    with Image.open(tmp_path / "a.gif") as gif:
        assert getattr(gif, "n_frames", 1) == asked + 1
    assert "no estimate" in (tmp_path / "a.html").read_text(encoding="utf-8")
