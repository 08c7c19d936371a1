"""Results as HTML in a notebook: readable, in the reader's colors, and whatever is in a name stays text."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

import nearveil as nv
from nearveil.html_card import html_card, html_table
from nearveil.types import FloatArray

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"
TAGS = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "p", "details", "summary", "pre"}
POINTS = np.random.default_rng(5).normal([37.75, -122.44], 0.02, (200, 2))


def text_of(html: str) -> str:
    """The text of some HTML; anything but plain tags with a style is a failure."""
    page = ElementTree.fromstring(html)  # noqa: S314 - our own text
    for part in page.iter():
        assert part.tag in TAGS
        assert part.attrib.keys() <= {"style"}
        # Colors are the reader's: what is set for a light page cannot be read on a dark one.
        assert not re.search(r"color|url|#[0-9a-f]{3}|background:(?!none)", part.get("style", ""))
    return " ".join(page.itertext())


def card(result: Any) -> str:
    return text_of(result._repr_html_())


def test_whatever_is_in_a_name_stays_text() -> None:
    assert text_of(html_card(EVIL, [(EVIL, EVIL)], notes=[EVIL], more=[html_table([EVIL], [[EVIL]])])).count(EVIL) == 6


def test_a_guarantee_and_what_does_not_hold(city: FloatArray) -> None:
    said = nv.SRR(epsilon=1.0, region="san-francisco").guarantee
    also = (nv.PlanarLaplace().guarantee,)
    text = card(replace(said, title=EVIL, promise=EVIL, not_covered=EVIL, because=EVIL, notes=(EVIL,), also=also))
    assert text.count(EVIL) >= 5
    assert said.number in text
    assert also[0].title in text
    paper = nv.DPRS(
        epsilon=1.0, release="paper", fit_method="private-grid", centres=5, seed=1, region="san-francisco"
    ).fit(city[:200])
    text = card(paper.guarantee)
    assert "DOES NOT HOLD" in text
    # Nothing matters more than that a seed protects nobody.
    assert text.index("seed") < text.index("In full")
    assert "NOTHING IS PROMISED" in card(nv.Guarantee.claimed_by_nobody())


def test_a_release(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,latitude,longitude\na,37.7123,-122.4123\nb,37.7456,-122.4456\n")
    region = replace(nv.named_region("san-francisco"), name=EVIL)
    text = card(nv.protect(tmp_path / "in.csv", tmp_path / "out.csv", nv.PlanarLaplace(region=region)))
    assert EVIL in text
    assert "2 locations published" in text
    assert not re.search(r"7123|4123|7456|4456", text)


def test_attacks_show_no_location_true_or_believed() -> None:
    found = nv.attack_population(nv.simulate(POINTS, name=EVIL, k=5), attacks=["gi-lia"], users=1)
    assert EVIL in card(found)
    assert "do not publish" in card(found)
    estimate = found.example().estimate
    assert estimate is not None
    for text in (card(found), repr(found.example())):
        assert not any(f"{place:.3f}" in text for place in [*estimate, *POINTS.ravel()])
