"""The command itself, and the small commands."""

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.helpers import done, run, run_process

VERBS = "protect plan attack audit certify guarantee reproduce fit serve import serve-demo demo datasets keys"


def test_help_lists_the_verbs_and_each_explains_itself() -> None:
    listed = done("--help").out
    for verb in VERBS.split():
        assert re.search(rf"\b{verb}\b", listed), verb
        assert "--help" in done(verb, "--help").out


def test_the_version() -> None:
    assert re.search(r"\b\d+\.\d+\.\d+", done("--version").out)


@pytest.mark.parametrize("arguments", [(), ("magic",), ("--magic",), ("datasets", "--magic"), ("protect",), ("keys",)])
def test_wrong_usage_has_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).code == 2


def test_a_process_has_the_same_exit_codes() -> None:
    assert run_process("guarantee", "--region", "atlantis").returncode == 2
    assert json.loads(run_process("guarantee", "--json").stdout)["epsilon"] == 0.004


def test_the_populations_of_the_paper_are_listed() -> None:
    listed = {each["name"]: each["people"] for each in done("datasets", "--json").json["datasets"]}
    assert set(listed) == {"gaussian", "beta", "brightkite", "gowalla"}
    assert listed["gaussian"] == listed["beta"] == 25_000


def test_keys_are_for_their_owner_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    created = done("keys", "create", path)
    first = path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    assert not [value for value in re.findall(r"[0-9A-Za-z+/=_-]{32,}", first.decode()) if value in created.out]
    assert run("keys", "create", path).code != 0
    assert path.read_bytes() == first
    done("keys", "create", tmp_path / "other.json")
    assert (tmp_path / "other.json").read_bytes() != first
