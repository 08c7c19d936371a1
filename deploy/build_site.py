"""Build the site from docs/: ``python -m deploy.build_site site``.

The pages are copied to build/docs, where reference pages get what they show of the code, pictures lead to themselves in
full size, and links to other files of the repository lead to copies. Zensical makes the site of them. A warning of
Zensical, and a link to a file or a heading that the built site does not have, is an error: the site must work from a
folder on disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from deploy.site_reference import filled_in, openapi

ROOT = Path(__file__).parents[1]
_STAGED = ROOT / "build" / "docs"
# Pages of the repository that are pages of the site too.
_PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
# Lets workers, such as that of the search, run on pages that are read from disk; docs/ has a copy.
_SHIM = "https://unpkg.com/iframe-worker/shim"
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_CODE = re.compile(r"<code>.*?</code>", re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_PICTURE = re.compile(r"^(!\[[^\]]+\]\(([^)\s]+)\))$", re.MULTILINE)


def main(target: Path) -> int:
    """Build the site into the target folder; 1 if anything is wrong with it."""
    stage(_STAGED)
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=False, env=_environment()
    )
    if built.returncode:
        return 1
    made = ROOT / "site"
    finish(made)
    broken = broken_links(made)
    for line in broken:
        print(line, file=sys.stderr)
    if broken:
        print(f"error: {len(broken)} links lead nowhere; mend them in docs/", file=sys.stderr)
        return 1
    if target.resolve() != made:
        shutil.copytree(made, target, dirs_exist_ok=True)
    print(f"{len(list(target.rglob('*.html')))} pages, every link leads somewhere: {target}/index.html")
    return 0


def stage(target: Path) -> None:
    """Write the pages that Zensical reads."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target)
    for name in _PROJECT:
        (target / "project").mkdir(exist_ok=True)
        shutil.copy(ROOT / name, target / "project" / name.lower())
    for page in target.rglob("*.md"):
        source = page.relative_to(target)
        came_from = Path(source.name.upper()).with_suffix(".md") if source.parts[0] == "project" else "docs" / source
        text = _PICTURE.sub(r"[\1](\2){ .picture }", filled_in(page.read_text(encoding="utf-8")))
        page.write_text(_relinked(text, ROOT / came_from, page, target), encoding="utf-8")
    (target / "reference" / "openapi.json").write_text(json.dumps(openapi(), indent=1), encoding="utf-8")


def _relinked(text: str, came_from: Path, page: Path, target: Path) -> str:
    """Return the text with links from where a page was to where the pages and files are now."""

    def new_link(link: re.Match[str]) -> str:
        if urlsplit(link[2]).scheme:
            return link[0]
        wanted = Path(os.path.normpath(came_from.parent / link[2]))
        if wanted.is_relative_to(ROOT / "docs"):
            found = target / wanted.relative_to(ROOT / "docs")
        elif wanted.name in _PROJECT and wanted.parent == ROOT:
            found = target / "project" / wanted.name.lower()
        elif wanted == ROOT / "README.md":
            found = target / "index.md"
        elif wanted.is_file():
            # A name that begins with a dot would be left out of the site.
            found = target / "files" / str(wanted.relative_to(ROOT)).lstrip(".")
            found.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(wanted, found)
        else:
            return link[0]
        return f"{link[1]}{os.path.relpath(found, page.parent)}{link[3] or ''}{link[4]}"

    return _LINK.sub(new_link, text)


def finish(site: Path) -> None:
    """Change the pages that Zensical has made where it has no setting.

    The one script that they would take from a network is loaded from the site itself, and options in code are marked,
    so that no line ends at one of their hyphens.
    """
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8").replace(_SHIM, os.path.relpath(site / "iframe-worker.js", page.parent))
        text = _CODE.sub(lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), text)
        page.write_text(text, encoding="utf-8")


class _Page(HTMLParser):
    """The names that a page has, and the addresses that it links to and loads."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names.update(value for key in ("id", "name") if (value := found.get(key)))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        elif tag in ("img", "script", "link", "iframe", "source"):
            address = found.get("src") or found.get("href")
            if address and found.get("rel") != "canonical":
                self.loads.append(address)


def broken_links(site: Path) -> list[str]:
    """Return a line for each address in a site that leads nowhere, or that a page loads from a network."""
    pages = {path: _read(path) for path in site.rglob("*.html")}
    return [
        f"{path.relative_to(site)}: {address} {reason}"
        for path, page in sorted(pages.items())
        if path.name != "404.html"  # its addresses begin at the root of a server
        for address in page.links + page.loads
        if (reason := _wrong_with(address, path, pages, loads=address in page.loads))
    ]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _wrong_with(address: str, path: Path, pages: dict[Path, _Page], *, loads: bool) -> str | None:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return "is loaded from a network" if loads and parts.scheme != "data" else None
    wanted = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    if not wanted.is_file():
        return "is not there"
    if parts.fragment and wanted in pages and unquote(parts.fragment) not in pages[wanted].names:
        return "has no such heading"
    return None


def _environment() -> dict[str, str]:
    # Plain text: colours of warnings are put around every letter.
    return {**os.environ, "NO_COLOR": "1"}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
