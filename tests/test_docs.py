"""What README and docs show is so: Python blocks run as they stand, and links lead somewhere.

Commands are run by tests/cli/test_docs_commands.py.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from nearveil.evaluation import paper
from nearveil.evaluation.studies import BEYOND, PAPER
from nearveil.types import FloatArray

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{number}", body)
        for page in PAGES
        for number, (found, body) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
        if found == kind
    ]


@pytest.fixture
def folder(tmp_path: Path, city: FloatArray, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the people.csv that the pages speak of."""
    rows = np.column_stack([np.arange(len(city)), city])
    header = "id,latitude,longitude"
    np.savetxt(tmp_path / "people.csv", rows, delimiter=",", header=header, comments="", fmt=["%d", "%.6f", "%.6f"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in blocks("python")])
def test_python_blocks_run(body: str, folder: Path) -> None:
    exec(compile(body, str(folder), "exec"), {"__name__": "docs"})  # noqa: S102


def test_pages_link_to_what_exists() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_and_report_name_the_paper_as_the_citation_does() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").split("references:")[1]
    title, year = re.findall(r"title: (.+)|year: (.+)", citation)
    authors = re.findall(r"family-names: (.+)\n\s+given-names: (.+)", citation)
    named = [f"{given} {family}" for family, given in authors]
    assert len(named) == 5
    page = ROOT / "src" / "nearveil" / "report" / "templates" / "report.html"
    for text in (one.read_text(encoding="utf-8") for one in (ROOT / "README.md", page)):
        words = " ".join(re.sub("</?cite>", "", text).split())
        assert f"{', '.join(named[:-1])} and {named[-1]}" in words
        assert title[0] in words
        assert re.search(rf"Attacks\S* \({year[1]}", words)


def test_the_paper_map_names_modules_and_verbs_that_exist() -> None:
    text = (ROOT / "docs" / "reference" / "paper-map.md").read_text(encoding="utf-8")
    modules = re.findall(r"`([a-z_0-9/]+\.py)`", text)
    assert len(modules) > 30
    for module in modules:
        assert (ROOT / "src" / "nearveil" / module).exists(), module
    for name in re.findall(r"`paper\.(\w+)", text):
        assert hasattr(paper, name), name
    named = set(re.findall(r"`nearveil reproduce (\w+)`", text))
    assert named <= {*PAPER, *BEYOND, "paper", "beyond"}
    for kind, last in (("Theorem", 8), ("Lemma", 5), ("Definition", 4), ("Algorithm", 4), ("Table", 3), ("Figure", 9)):
        said = re.findall(rf"\b{kind}s? (\d)(?: (?:to|and) (\d))?", text)
        numbers = {n for first, end in said for n in range(int(first), int(end or first) + 1)}
        # "Theorems 4 and 7" names two, and ranges are read too widely; what matters is that none is missing.
        assert numbers >= set(range(1, last + 1)), f"{kind}: {sorted(numbers)}"
