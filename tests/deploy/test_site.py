"""The site has every page, and its reference pages show the code; a link that leads nowhere is found.

`make docs` builds the whole site, which continuous integration does after the tests.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from deploy.build_site import broken_links, stage
from deploy.site_reference import GENERATED, MARK, commands, http_routes, settings_table

import nearveil
from nearveil.cli.main import VERBS
from nearveil.server.scopes import ROUTES
from nearveil.server.settings import KNOWN_SETTINGS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def pages_of(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    parts = part.values() if isinstance(part, dict) else part
    return [page for each in parts for page in pages_of(each)]


def test_every_page_is_in_the_navigation_once() -> None:
    shown = pages_of(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert sorted(page for page in shown if not page.startswith("project/")) == sorted(there)


def test_every_mark_is_filled_in() -> None:
    marked = [name for page in DOCS.rglob("*.md") for name in MARK.findall(page.read_text(encoding="utf-8"))]
    assert sorted(marked) == sorted(GENERATED)


def test_the_tables_have_every_command_setting_and_route() -> None:
    text = commands()
    assert [verb for verb in VERBS if f"\n## nearveil {verb}\n" not in f"\n{text}"] == []
    assert "| `--noise" in text
    table = settings_table()
    assert [name for name, each in KNOWN_SETTINGS.items() if each.help and f"`{each.variable}`" not in table] == [
        name for name, each in KNOWN_SETTINGS.items() if each.only == "option"
    ]
    described = set(re.findall(r"```http\n(.+)\n```", http_routes()))
    of_console = {f"{method} {path}" for method, path in ROUTES if "console" in path}
    assert {f"{method} {path}" for method, path in ROUTES} - described == of_console | {"GET /openapi.json"}


def test_the_python_reference_has_every_public_name() -> None:
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    named = [name.rsplit(".", 1)[-1] for name in re.findall(r"^::: (nearveil\.\S+)$", page, re.MULTILINE)]
    assert set(nearveil.__all__) <= set(named)
    assert len(named) == len(set(named))


def test_files_that_pages_link_to_are_in_the_site(tmp_path: Path) -> None:
    stage(tmp_path / "docs")
    page = (tmp_path / "docs" / "guides" / "operating.md").read_text(encoding="utf-8")
    assert "](../files/compose.yaml)" in page
    assert (tmp_path / "docs" / "files" / "compose.yaml").is_file()
    assert not MARK.search((tmp_path / "docs" / "reference" / "settings.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('<a href="b/other.html#there">', []),
        ('<a href="https://example.org">', []),
        ('<a href="#here"><p id="here">', []),
        ('<a href="b/none.html">', ["is not there"]),
        ('<a href="b/other.html#gone">', ["has no such heading"]),
        ('<a href="b">', ["is not there"]),
        ('<img src="picture.png">', ["is not there"]),
        ('<script src="https://example.org/a.js">', ["is loaded from a network"]),
        ('<link rel="stylesheet" href="//example.org/a.css">', ["is loaded from a network"]),
    ],
)
def test_links_that_lead_nowhere_are_found(body: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text(body, encoding="utf-8")
    (tmp_path / "b" / "other.html").write_text('<h1 id="there">', encoding="utf-8")
    assert [line.split(" ", 2)[2] for line in broken_links(tmp_path)] == found
