"""The report as a page: everything in it, nothing let in or out."""

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nearveil.evaluation.results import ExperimentResult
from nearveil.report import html
from nearveil.report.html import write_report
from tests.report.outcome_samples import EVIL, EXPLORED, FACTS, FINDINGS, OUTCOME, PLAIN

VOID = {"meta", "img", "link", "br"}


class Page(HTMLParser):
    """Tags with their attributes and text, in order; complains of tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[int] = []
        self._names: list[str] = []
        self.feed(text)
        assert not self._names

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self.texts.append("")
        if tag not in VOID:
            self._open.append(len(self.tags) - 1)
            self._names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._names.pop() == tag
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for number in self._open:
            self.texts[number] += data

    def all(self, tag: str, **wanted: str) -> list[tuple[dict[str, str], str]]:
        return [
            (attributes, text.strip())
            for (name, attributes), text in zip(self.tags, self.texts, strict=True)
            if name == tag and wanted.items() <= attributes.items()
        ]


def write(path: Path, *outcomes: ExperimentResult, title: str = "Report") -> Page:
    write_report(path, title=title, findings=FINDINGS, outcomes=outcomes, facts=FACTS, warnings=["Two runs only"])
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return write(tmp_path_factory.mktemp("report") / "report.html", OUTCOME, PLAIN)


def test_everything_is_there_in_order(page: Page) -> None:
    headings = [
        (tag, text.strip()) for (tag, _), text in zip(page.tags, page.texts, strict=True) if tag in ("h1", "h2", "h3")
    ]
    assert headings == [
        ("h1", "Report"),
        ("h2", "Findings"),
        ("h3", "Lists give people away"),
        ("h2", "How this was made"),
        ("h2", "Table 3: recall"),
        ("h3", "What came out"),
        ("h2", "Nothing to see"),
    ]
    ((_, warnings),) = page.all("aside")
    assert "Two runs only" in warnings
    assert (page.all("th", scope="row")[0][1], page.all("td")[0][1]) == ("Seed", "1")
    assert page.all("p", **{"class": "question"})[0][1] == "How much is left?"
    assert page.all("html")[0][0]["lang"] == "en"
    assert {tag for tag, _ in page.tags} >= {"header", "nav", "main", "footer"}


def test_links_lead_somewhere(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes, _ in page.all("a") if "href" in attributes]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    for _, attributes in page.tags:
        assert attributes.get("aria-labelledby", ids[0]) in ids
    # A finding links its evidence, and says where it has none.
    (card,) = page.all("article")
    assert "elsewhere (not in this report)" in card[1]
    assert links.count("#part-table-3") == 2


def test_no_text_becomes_markup(page: Page) -> None:
    assert len(page.all("script")) == 1
    assert not page.all("b")
    for holder in ("article", "td", "th", "li"):
        assert any(EVIL in text for _, text in page.all(holder)), holder
    assert page.all("img")[0][0]["alt"] == 'Recall "rises" <slowly>'
    assert page.all("figcaption")[-1][1] == "Recall of <everything>"


def test_a_title_cannot_name_another_part(tmp_path: Path) -> None:
    odd = write(tmp_path / "report.html", replace(PLAIN, title="@@SCRIPT@@ \\1"), title=f"@@STYLE@@ {EVIL}")
    assert odd.all("title")[0][1] == odd.all("h1")[0][1] == f"@@STYLE@@ {EVIL}"
    assert odd.all("h2")[-1][1] == "@@SCRIPT@@ \\1"
    assert len(odd.all("script")) == 1


def test_every_picture_is_there_twice(page: Page) -> None:
    for theme in ("light", "dark"):
        images = page.all("img", **{"class": theme})
        assert [attributes["alt"] for attributes, _ in images] == ['Recall "rises" <slowly>', "Two maps of the city"]
        for attributes, _ in images:
            if "data-packed" in attributes:
                assert gzip.decompress(base64.b64decode(attributes["data-packed"], validate=True)).startswith(b"<?xml")
            else:
                assert base64.b64decode(attributes["src"].split(";base64,")[1], validate=True)[8:12] == b"WEBP"
            assert 300 < int(attributes["width"]) < 1100
    light, dark = (page.all("img", **{"class": theme})[0][0] for theme in ("light", "dark"))
    assert light["data-packed"] != dark["data-packed"]
    assert (light["width"], light["height"]) == (dark["width"], dark["height"])


def test_cells_have_what_they_show_and_what_they_are_sorted_by(page: Page) -> None:
    cells = [
        (attributes.get("data-value", text), text.replace("\xa0", " "))
        for attributes, text in page.all("td")
        if "number" in attributes.get("class", "")
    ]
    assert cells == [
        ("0.5", "0.5"), ("0.4642", "0.464 ± 0.010"), ("0.434", "0.434"), ("13931", "13,931"),
        ("1", "1"), ("0.05", "0.050"), ("", "–"), ("900", "900"),
        ("10", "10"), ("", "–"), ("0.398", "0.398"), ("25000", "25,000"),
        ("3", "3"), ("0.4", "0.400 ± 0.200"), ("0.333333", "0.333"), ("900", "900"),
    ]  # fmt: skip
    names = [(text, attributes.get("data-value")) for attributes, text in page.all("th", scope="row")]
    assert [(name, None) for name in ("DPRS", "SRR", EVIL, "a|b")] == names[-4:]


def test_nothing_is_fetched(page: Page) -> None:
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0][0]["content"]
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert "script-src 'sha256-" in policy
    for _, attributes in page.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert not re.search(r"https?://|@import|url\(|fetch\(|@@", page.source)
    assert not page.all("link")


def test_the_same_input_gives_the_same_bytes(page: Page, tmp_path: Path) -> None:
    again = tmp_path / "report.html"
    again.write_text("old", encoding="utf-8")
    write(again, OUTCOME, PLAIN)
    assert again.read_bytes() == page.source.encode()


def test_a_report_of_nothing_is_a_page(tmp_path: Path) -> None:
    write_report(tmp_path / "r.html", title="Nothing", findings=(), outcomes=(), facts=(), warnings=())
    empty = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert not empty.all("section")
    assert not empty.all("aside")


def test_an_interactive_chart_brings_its_script_and_may_run_no_other(tmp_path: Path) -> None:
    page = write(tmp_path / "report.html", EXPLORED)
    (packed,) = page.all("script", id="plotly")
    plain = gzip.decompress(base64.b64decode(packed[1]))
    digest = base64.b64encode(hashlib.sha256(plain).digest()).decode()
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0][0]["content"]
    assert policy.split("script-src ")[1].split(";")[0].count("sha256-") == 3
    assert f"'sha256-{digest}'" in policy
    (data,) = page.all("script", type="application/json")
    found = json.loads(data[1])
    assert [curve["label"] for curve in found["curves"]] == ["planar Laplace", EVIL]
    assert found["curves"][1]["values"]["named"] == [[0.25, 0.125, None], [None, None, None]]
    assert len(page.source) < 3_000_000
    # The drawn picture is there as well, for paper.
    assert len(page.all("img")) == 2


def test_without_plotly_the_picture_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "plotly_script", lambda: None)
    page = write(tmp_path / "report.html", EXPLORED)
    assert not page.all("script", id="plotly")
    assert not page.all("script", type="application/json")
    assert len(page.all("img")) == 2
