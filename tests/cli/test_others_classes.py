"""A mechanism and an attack from outside the package, by file and by module, everywhere that ours are."""

import json
import sys
from pathlib import Path

import pytest

from nearveil.types import FloatArray
from tests.cli.conftest import Run, write_people

OWN = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import nearveil as nv
from nearveil.attacks.base import Finding, Outcome


class Rounded(nv.Mechanism):
    name = "rounded"

    def __init__(self, *, cell_m=500.0, region="san-francisco"):
        self.cell_m, self.region = cell_m, region

    def draw(self, x, rows):
        return np.rint(x / self.cell_m) * self.cell_m

    @property
    def guarantee(self):
        return nv.Guarantee.claimed_by_nobody()


class Lying(nv.PlanarLaplace):
    name = "lying"

    def draw(self, x, rows):
        return x.copy()


@dataclass(frozen=True)
class StartIsIt(nv.Attack):
    name: ClassVar[str] = "start-is-it"
    accounts_needed: ClassVar[int] = 0

    def _run(self, inquiry, start):
        inquiry.ask(start)
        return Finding(Outcome.FOUND, start)
"""


@pytest.fixture
def own_file(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module, which is there once in a process, so that each test has its own."""
    path = tmp_path / f"others_{abs(hash(request.node.name))}.py"
    path.write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


@pytest.mark.parametrize("way", ["file", "module"])
def test_protect_and_attack(way: str, run: Run, own_file: Path, city: FloatArray, tmp_path: Path) -> None:
    source, output = write_people(tmp_path / "people.csv", city[:300]), tmp_path / "out.csv"
    module = own_file if way == "file" else own_file.stem
    mechanism, attack = f"{module}:Rounded", f"{module}:StartIsIt"
    named = ("--mechanism", mechanism, "--region", "san-francisco")
    done = run("protect", source, output, *named, "--set", "cell_m=2km")
    assert done.code == 0, done.err
    assert "NOTHING IS PROMISED" in done.out
    assert len(output.read_text().splitlines()) == 301
    wrong = run("protect", source, tmp_path / "o.csv", *named, "--noise", "500m")
    assert (wrong.code, "--noise cannot be used with rounded" in wrong.err) == (2, True)
    assert "Nothing is promised" in run("guarantee", *named).out
    found = run("attack", source, *named, "--attack", attack, "--users", 2, "--json")
    assert found.code == 0, found.err
    assert [row["attack"] for row in json.loads(found.out)["attacks"]] == ["start-is-it"]


def test_a_class_whose_promise_is_not_true(run: Run, own_file: Path, people_csv: Path, tmp_path: Path) -> None:
    refused = run("protect", people_csv, tmp_path / "out.csv", "--mechanism", f"{own_file}:Lying")
    assert (refused.code, "fails the conformance suite" in refused.err) == (2, True)
    assert not (tmp_path / "out.csv").exists()
