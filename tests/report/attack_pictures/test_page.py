"""The page of an attack: the whole story, and nothing let in or out."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearveil.report.attack_scene import Scene
from nearveil.report.land import land_in
from tests.report.attack_pictures.samples import Page, empty, protected


@pytest.mark.parametrize("which", ["adaptive", "gi_lia"])
def test_a_page_holds_the_whole_story_and_asks_nobody(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    scene: Scene = request.getfixturevalue(which)
    page = Page(scene, tmp_path / "attack.partial")
    assert page.tags[0] == "html"
    assert {"canvas", "button", "input"} <= set(page.tags)
    assert len(page.story["steps"]) == len(scene.steps)
    assert page.story["steps"][0]["text"].startswith("Question 1 of")
    rings = [scene.region.to_metres(ring) - np.array(scene.truth) for ring in land_in(scene.region)]
    for told, ring in zip(page.story["land"], rings, strict=True):
        assert np.allclose(np.reshape(told, (-1, 2)), ring, atol=0.51)
    assert not re.search(r"https?://|src=|@import|url\(|fetch\(|@@", page.text)


def test_a_page_says_that_a_protected_user_is_missed(adaptive: Scene, tmp_path: Path) -> None:
    page = Page(protected(adaptive), tmp_path / "a.html")
    said = "One attack: published place found, person missed by 5"
    assert f"<title>{said}" in page.text
    assert f"<h1>{said}" in page.text


def test_words_cannot_become_part_of_the_page(adaptive: Scene, tmp_path: Path) -> None:
    page = Page(empty(adaptive), tmp_path / "a.html", '</title><script>alert(1)</script> & @@STORY@@ of "Zoë"')
    assert page.tags.count("script") == 2
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; @@STORY@@" in page.text
    odd = replace(adaptive, result=replace(adaptive.result, attack="</script><script>alert(1)</script>"))
    assert Page(odd, tmp_path / "b.html").tags.count("script") == 2
