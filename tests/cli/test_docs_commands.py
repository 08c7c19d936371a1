"""Commands that README and docs show are run, as a reader would paste them, one block after the other."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from _pytest.mark import ParameterSet

from nearveil.auditing.external import INPUT, OUTPUT, CommandSubject, _CallFiles
from nearveil.cli.main import nearveil
from nearveil.types import FloatArray
from tests.cli.conftest import Run, write_people
from tests.test_docs import ROOT, blocks

# Run elsewhere, in a test of their own or by hand: they set up an environment or take minutes.
NOT_HERE = ("make ", "git ", "pip ")
SLOW = ("nearveil attack", "nearveil audit", "nearveil plan", "nearveil reproduce table1")


@pytest.fixture
def people_csv(tmp_path: Path, city: FloatArray) -> Path:
    """A thousand people: the best attacker weighs each published location against everybody."""
    return write_people(tmp_path / "people.csv", city[:1000])


def run_in_this_process(run: Run) -> Callable[[CommandSubject, _CallFiles, int], None]:
    """Return what runs a command that an audit is given: a hundred processes would take minutes to start."""

    def run_one(subject: CommandSubject, files: _CallFiles, rows: int) -> None:
        del rows
        program, *arguments = (
            argument.replace(INPUT, str(files.input)).replace(OUTPUT, str(files.output))
            for argument in subject.arguments
        )
        assert program == "nearveil"
        outcome = run(*arguments, names_region=False)
        assert outcome.code == 0, outcome.err

    return run_one


def commands_of(body: str) -> tuple[str, ...]:
    commands = [line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")]
    return tuple(command for command in commands if not command.startswith(NOT_HERE))


# What stands on two pages is run once.
BLOCKS = {commands: name for name, body in blocks("console") if (commands := commands_of(body))}


def case_of(commands: tuple[str, ...], name: str) -> ParameterSet:
    """Attacks, audits and plans take seconds: they are run for evidence, and otherwise read only."""
    is_slow = any(command.startswith(SLOW) for command in commands)
    return pytest.param(commands, id=name, marks=[pytest.mark.evidence] if is_slow else [])


@pytest.mark.parametrize("commands", BLOCKS, ids=BLOCKS.values())
def test_commands_have_the_options_that_pages_name(commands: tuple[str, ...]) -> None:
    for command in commands:
        _, verb, *rest = shlex.split(command, comments=True)
        found = nearveil.get_command(click.Context(nearveil), verb)
        assert found is not None
        found.make_parser(click.Context(found)).parse_args(rest)


@pytest.mark.usefixtures("one_core", "two_further_people")
@pytest.mark.parametrize("commands", [case_of(commands, name) for commands, name in BLOCKS.items()])
def test_commands_run(commands: tuple[str, ...], run: Run, people_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(people_csv.parent)
    monkeypatch.setattr(CommandSubject, "_run", run_in_this_process(run))
    for command in commands:
        words = shlex.split(command, comments=True)
        assert words[0] == "nearveil"
        # A verdict has an exit code; a command that ends with one says so in a comment.
        expected = re.search(r"# exit code (\d)", command)
        outcome = run(*words[1:], names_region=False)
        assert outcome.code == (int(expected[1]) if expected else 0), f"{command}\n{outcome.err}"


def test_the_odd_file_of_the_tutorial(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/tutorials/protecting-a-file.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("clients.csv").write_text(rows, encoding="latin-1")
    outcome = run(*shlex.split(command.replace("\\\n", " "))[1:], names_region=False)
    assert outcome.code == 0, outcome.err
    assert len(Path("public.csv").read_text(encoding="utf-8").splitlines()) == 4
    assert "row 3" in outcome.err
