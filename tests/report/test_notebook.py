"""Results as HTML in a notebook: readable, in the reader's colours, and whatever is in a name stays text."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearveil as nv
from nearveil.audit.pairs import Pair
from nearveil.html_card import html_card, html_table
from nearveil.region import Region
from nearveil.types import FloatArray

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"
TAGS = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "p", "details", "summary"}


class Page(HTMLParser):
    """The text of some HTML; anything but plain tags with a style is a failure."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attributes} <= {"style"}
        for _, style in attributes:
            # Colours are the reader's: what is set for a light page cannot be read on a dark one.
            assert not re.search(r"color|url|#[0-9a-f]{3}|background:(?!none)", style or "")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def test_whatever_is_in_a_name_stays_text() -> None:
    page = Page(html_card(EVIL, [(EVIL, EVIL)], notes=[EVIL], more=[html_table([EVIL], [[EVIL]])]))
    assert page.text.count(EVIL) == 6


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_a_guarantee(epsilon: float | None) -> None:
    guarantee = (
        nv.PlanarLaplace().guarantee if epsilon is None else nv.SRR(epsilon=epsilon, region="san-francisco").guarantee
    )
    evil = replace(
        guarantee, title=EVIL, promise=EVIL, not_covered=EVIL, because=EVIL, notes=(EVIL,), also=(guarantee,)
    )
    page = Page(evil._repr_html_())
    assert page.text.count(EVIL) >= 5
    assert guarantee.number in page.text
    assert guarantee.title in page.text


def test_what_does_not_hold_is_said_without_colours(city: FloatArray) -> None:
    paper = nv.DPRS(
        epsilon=1.0, release="paper", fit_method="private-grid", centres=5, seed=1, region="san-francisco"
    ).fit(city[:200])
    page = Page(paper.guarantee._repr_html_())
    assert "DOES NOT HOLD" in page.text
    # Nothing matters more than that a seed protects nobody.
    assert page.text.index("seed") < page.text.index("Between which places")
    assert "NOTHING IS PROMISED" in Page(nv.Guarantee.claimed_by_nobody()._repr_html_()).text


def test_a_release(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,latitude,longitude\na,37.7123,-122.4123\nb,37.7456,-122.4456\n")
    region = replace(nv.named_region("san-francisco"), name=EVIL)
    result = nv.protect_file(tmp_path / "in.csv", tmp_path / "out.csv", nv.PlanarLaplace(region=region))
    page = Page(result._repr_html_())
    assert EVIL in page.text
    assert "2, in random order" in page.text
    assert not re.search(r"7123|4123|7456|4456", page.text)


def test_attacks(san_francisco: Region) -> None:
    points = np.random.default_rng(5).normal([37.75, -122.44], 0.02, (200, 2))
    few = nv.AttackProtocol(runs=1, instances=1)
    found = nv.attack_population(points, name=EVIL, attacks=["gi-lia"], ks=(5,), protocol=few, cores=1)
    assert EVIL in Page(found._repr_html_()).text
    outcome = found.example()
    page = Page(outcome._repr_html_())
    assert EVIL in page.text
    assert "do not publish" in page.text
    assert outcome.estimate is not None
    # No place is in it, true or believed.
    places = [*outcome.estimate, *points.ravel()]
    assert not any(f"{place:.3f}" in page.text for place in places)
    unknown: Any = replace(outcome, truth=None)
    assert "not known" in Page(unknown._repr_html_()).text


def test_an_attack_on_somebody_protected_says_what_is_certain_of_which_place() -> None:
    points = np.random.default_rng(5).normal([37.75, -122.44], 0.02, (200, 2))
    open_one = nv.simulate(points)
    found = Page(nv.attack(open_one, target=3)._repr_html_()).text
    assert re.search(r"Found within 100 m +yes", found)
    assert "published" not in found
    hidden = nv.simulate(points, mechanism=nv.PlanarLaplace(noise_m=2000, seed=1))
    missed = Page(nv.attack(hidden, target=3)._repr_html_()).text
    assert re.search(r"Found within 100 m +no", missed)
    assert re.search(r"Certified, of the published place +yes", missed)
    assert re.search(r"Radius, of the published place +\d+ m, certain", missed)
    assert "The error is to the true one." in missed
    # The service itself has a card, too, and no place is in it.
    for service, words in ((open_one, "none: it answers from true places"), (hidden, "PlanarLaplace(")):
        page = Page(service._repr_html_()).text
        assert words in page
        assert "lists of the 10 nearest" in page
        assert not any(f"{place:.3f}" in page for place in points.ravel())


def test_an_audit_and_a_certificate() -> None:
    pair = Pair((37.7512, -122.4412), (37.7612, -122.4312), "anywhere")
    report = nv.audit(nv.PlanarLaplace(), "metric:1/km", [pair], samples=20_000, seed=1, search=False)
    page = Page(report._repr_html_()).text
    assert str(report.verdict) in page
    assert report.claim.amount in page
    assert not re.search(r"7512|4412|7612|4312", page)
    none_covered = nv.audit(nv.PlanarLaplace(), "interval:1", [pair], samples=20_000, seed=1, search=False)
    assert "nothing was tested" in Page(none_covered._repr_html_()).text
    certified = nv.certify(nv.PlanarLaplace())
    page = Page(certified._repr_html_()).text
    assert f"{certified.bound:.6g}" in page
    assert certified.guarantee.promise in page
