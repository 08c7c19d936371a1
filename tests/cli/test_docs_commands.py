"""Commands that README and docs show are run, as a reader would paste them, one block after the other."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.test_docs import blocks

# Run elsewhere, in a test of their own or by hand: they set up an environment or take minutes.
NOT_HERE = ("make ", "git ", "pip ")


# What stands on two pages is run once.
BLOCKS = {body: name for name, body in blocks("console")}


@pytest.mark.parametrize("body", BLOCKS, ids=BLOCKS.values())
def test_commands_run(body: str, run: Run, people_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(people_csv.parent)
    for line in body.splitlines():
        command = line.removeprefix("$ ")
        if not line.startswith("$ ") or command.startswith(NOT_HERE):
            continue
        words = shlex.split(command, comments=True)
        assert words[0] == "nearveil"
        # A verdict has an exit code; a command that ends with one says so in a comment.
        expected = re.search(r"# exit code (\d)", command)
        outcome = run(*words[1:])
        assert outcome.code == (int(expected[1]) if expected else 0), f"{command}\n{outcome.err}"
