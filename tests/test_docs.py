"""What README and docs show is run: Python blocks as they stand, commands as a reader would paste them."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nearveil.types import FloatArray

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Run elsewhere, in a test of their own or by hand: they set up an environment or take minutes.
NOT_HERE = ("make ", "git ", "pip ")


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


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in blocks("python")])
def test_python_blocks_run(body: str, folder: Path) -> None:
    exec(compile(body, str(folder), "exec"), {"__name__": "docs"})  # noqa: S102


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in blocks("console")])
def test_commands_run(body: str, folder: Path) -> None:
    for line in body.splitlines():
        command = line.removeprefix("$ ")
        if not line.startswith("$ ") or command.startswith(NOT_HERE):
            continue
        words = shlex.split(command, comments=True)
        assert words[0] == "nearveil"
        # A verdict has an exit code; a command that ends with one says so in a comment.
        expected = re.search(r"# exit code (\d)", command)
        result = subprocess.run(
            [sys.executable, "-c", "from nearveil.cli.main import main; main()", *words[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == (int(expected[1]) if expected else 0), f"{command}\n{result.stderr}"


def test_pages_link_to_what_exists() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_opens_with_the_two_commands() -> None:
    opening = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")
    assert "make demo" in opening[1]
    assert "make test" in opening[1]
