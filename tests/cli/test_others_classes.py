"""A mechanism and an attack from outside the package, by file and by entry point, everywhere that ours are."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from nearveil.errors import UsageError
from nearveil.evaluation import plan as planning
from nearveil.evaluation.contenders import contender, deployable
from nearveil.evaluation.plan import Effort
from nearveil.evaluation.studies import frontier
from nearveil.evaluation.tradeoff import Sizes
from nearveil.mechanisms.registry import mechanism_entry
from nearveil.types import FloatArray
from tests.cli.conftest import Run

OWN = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import nearveil as nv
from nearveil.attacks.base import Finding, Outcome


class Rounded(nv.Mechanism):
    """Round to a grid: no noise, no density, and nothing is promised."""

    name = "rounded"

    def __init__(self, *, cell_m=500.0, region="san-francisco"):
        self.cell_m, self.region = cell_m, region

    def draw(self, x, rows):
        return np.rint(x / self.cell_m) * self.cell_m

    @property
    def guarantee(self):
        return nv.Guarantee.claimed_by_nobody()


class Planar(nv.PlanarLaplace):
    """With a parameter, a density and a guarantee of its own."""

    name = "planar of mine"


class Lying(nv.PlanarLaplace):
    """Publishes true places, with the density and the guarantee of noise."""

    name = "lying"

    def draw(self, x, rows):
        return x.copy()


class Namesake(nv.PlanarLaplace):
    name = "planar-laplace"


class Shared(Rounded):
    """Everybody is moved by the same generator."""

    def draw(self, x, rows):
        return x + np.random.default_rng().normal(size=x.shape)


class Short(Rounded):
    def draw(self, x, rows):
        return x[:-1]


class Nowhere(Rounded):
    def draw(self, x, rows):
        return x * np.nan


class NoRegion(Rounded):
    def __init__(self, *, cell_m=500.0):
        self.cell_m, self.region = cell_m, "san-francisco"


class Needy(Rounded):
    def __init__(self, *, cell_m, region="san-francisco"):
        self.cell_m, self.region = cell_m, region


class Broken(Rounded):
    def draw(self, x, rows):
        raise RuntimeError("out of order")


class NoGuarantee(Rounded):
    guarantee = None


class NoMechanism:
    pass


@dataclass(frozen=True)
class StartIsIt(nv.Attack):
    """Says that the target is where the attack starts."""

    name: ClassVar[str] = "start-is-it"
    colluders_needed: ClassVar[int] = 0

    def _run(self, inquiry, start):
        inquiry.ask(start)
        return Finding(Outcome.FOUND, start)
'''
# Beside others' classes, one family of ours is enough.
OURS = deployable()[:1]
TINY = Effort(Sizes(60, 5, 60), Sizes(60, 5, 60), 2, (), 5)


@pytest.fixture
def own_file(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Modules are there once in a process, so each test has its own.
    path = tmp_path / f"others_{abs(hash(request.node.name))}.py"
    path.write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return path


@pytest.fixture
def announced(own_file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same classes as those of an installed package."""
    folder = own_file.parent / "others-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        f"[nearveil.mechanisms]\ntheir-rounding = {own_file.stem}:Rounded\n"
        f"[nearveil.attacks]\ntheir-attack = {own_file.stem}:StartIsIt\n"
    )
    monkeypatch.syspath_prepend(str(own_file.parent))
    return "their-rounding"


@pytest.fixture
def few_csv(tmp_path: Path, city: FloatArray) -> Path:
    path = tmp_path / "people.csv"
    np.savetxt(path, city[:300], delimiter=",", header="latitude,longitude", comments="", fmt="%.7f")
    return path


@pytest.mark.parametrize("way", ["file", "entry point"])
def test_protect_and_attack(way: str, run: Run, own_file: Path, announced: str, few_csv: Path) -> None:
    mechanism = f"{own_file}:Rounded" if way == "file" else announced
    attack = f"{own_file}:StartIsIt" if way == "file" else "their-attack"
    output = few_csv.with_name("out.csv")
    done = run("protect", few_csv, output, "--mechanism", mechanism, "--seed", 3, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["mechanism"] == "rounded"
    assert (document["guarantee"]["epsilon"], document["guarantee"]["holds"]) == (None, False)
    assert (document["epsilon_holds"], document["holds_for_these_people"]) == (False, None)
    assert any("protects nobody" in note for note in document["guarantee"]["notes"])
    card = run("protect", few_csv, output, "--mechanism", mechanism, "--force")
    assert "NOTHING IS PROMISED" in card.out
    assert len(output.read_text().splitlines()) == 301
    assert "Nothing is promised" in run("guarantee", "--mechanism", mechanism).out
    found = run(
        "attack", "--input", few_csv, "--mechanism", mechanism, "--attack", attack, "--runs", 1, "--instances", 2,
        "--cores", 1, "--json",
    )  # fmt: skip
    assert found.code == 0, found.err
    (row,) = json.loads(found.out)
    assert row["attack"] == "start-is-it"


def test_audit_and_certify(run: Run, own_file: Path, tmp_path: Path) -> None:
    named = ("--mechanism", f"{own_file}:Rounded")
    witness, certificate = tmp_path / "witness.json", tmp_path / "certificate.json"
    assert "promises nothing" in run("audit", *named).err
    outcome = run("audit", *named, "--claim", "metric:4/km", "--samples", 20_000, "--seed", 1, "--witness", witness)
    assert outcome.code == 1, outcome.err
    assert "rounded" in outcome.out
    # A file alone does not have somebody's code run.
    assert "not run because a file says so" in run("audit", "--check", witness).err
    assert "not run because a file says so" in run("audit", "--check", witness, "--mechanism", "square").err
    assert run("audit", "--check", witness, *named, "--samples", 20_000).code == 1
    assert "no certificate" in run("certify", *named).err
    named = ("--mechanism", f"{own_file}:Planar")
    assert run("certify", *named, "--out", certificate).code == 0
    assert run("certify", "--check", certificate).code == 2
    assert run("certify", "--check", certificate, *named).code == 0


def test_a_class_whose_promise_is_not_true(
    run: Run, own_file: Path, few_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, certificate = ("--mechanism", f"{own_file}:Lying"), tmp_path / "certificate.json"
    refused = run("protect", few_csv, tmp_path / "out.csv", *named)
    assert (refused.code, "fails the conformance suite" in refused.err) == (2, True)
    assert not (tmp_path / "out.csv").exists()
    run("certify", *named, "--out", certificate)
    checked = run("certify", "--check", certificate, *named)
    assert (checked.code, "fails the conformance suite" in checked.err) == (3, True)
    assert not contender(f"{own_file}:Lying").sound
    assert contender(f"{own_file}:Planar").sound
    monkeypatch.setattr(planning, "QUICK", TINY)
    monkeypatch.setattr(planning, "deployable", lambda: OURS)
    asked = ("plan", few_csv, "--recall", 0.9, "--quick", "--cores", 1, "--with", f"{own_file}:Lying", "--json")
    document = json.loads(run(*asked).out)
    assert document["recommended"]["mechanism"] != "lying"
    assert any("lying is not recommended" in note for note in document["notes"])
    # The best attacker does not believe its density: by its draws people are found.
    (lying,) = [one for one in document["rows"] if one["mechanism"] == "lying"]
    assert lying["error_m"]["value"] < 100
    namesake = run("protect", few_csv, tmp_path / "out.csv", "--mechanism", f"{own_file}:Namesake")
    assert (namesake.code, "give it another name" in namesake.err) == (2, True)


@pytest.mark.evidence
def test_plan_and_its_text(run: Run, own_file: Path, few_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "QUICK", TINY)
    monkeypatch.setattr(planning, "deployable", lambda: OURS)
    asked = ("plan", few_csv, "--attacker-error", "20m", "--quick", "--cores", 1)
    both = ("--with", f"{own_file}:Rounded", "--with", f"{own_file}:Planar")
    document = json.loads(run(*asked, *both, "--json").out)
    tried = {one["mechanism"]: one for one in document["rows"]}
    assert tried["planar of mine"]["met"]
    # It meets the goal, and is not recommended.
    assert (tried["rounded"]["met"], tried["rounded"]["sound"]) == (True, False)
    assert document["recommended"]["mechanism"] in ("planar of mine", "planar Laplace")
    text = run(*asked, *both)
    assert text.code == 0, text.err
    assert text.out.startswith("Recommended: planar")
    length = run("plan", few_csv, "--noise", "400m", "--quick", "--cores", 1, *both, "--json")
    document = json.loads(length.out)
    assert document["left_out"] == ["rounded: it promises the users of the file something else"]
    assert {row["mechanism"] for row in document["rows"]} == {"planar of mine", "planar Laplace"}


def test_reproduce_on_own_people(run: Run, own_file: Path, few_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier, "_QUICK", ("planar-laplace",))
    out = few_csv.with_name("report")
    asked = ("reproduce", "frontier", "--input", few_csv, "--quick", "--runs", 1, "--cores", 1, "--out", out)
    done = run(*asked, "--mechanism", f"{own_file}:Rounded")
    assert done.code == 0, done.err
    assert "computed from true locations" in done.err
    assert (out / "frontier-people.png").exists()
    assert ",rounded," in (out / "frontier.csv").read_text()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nobodys", "there is no mechanism 'nobodys'.*planar-laplace"),
        ("missing.py:Mine", "there is no file missing.py"),
        ("{file}:Missing", "there is no class Missing"),
        ("{file}:NoMechanism", "must be a class that inherits from nearveil.Mechanism"),
        ("{file}:Shared", "rows draw different places when drawn again"),
        ("{file}:Short", "not one published place for each person"),
        ("{file}:Nowhere", "not finite"),
        ("{file}:NoRegion", "its constructor must take region"),
        ("{file}:Needy", "cell_m"),
        ("{file}:Broken", "it fails with RuntimeError: out of order"),
        ("{file}:NoGuarantee", "claimed_by_nobody"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(name: str, sentence: str, own_file: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        mechanism_entry(name.format(file=own_file))


def test_options_that_a_class_does_not_take(run: Run, own_file: Path, few_csv: Path) -> None:
    for options in (("--epsilon", 1), ("--noise", "500m"), ("--set", "gamma=0.5")):
        outcome = run("protect", few_csv, few_csv.with_name("out.csv"), "--mechanism", f"{own_file}:Rounded", *options)
        assert outcome.code == 2
        assert "rounded" in outcome.err
    # Its own parameter is set by its name.
    wider = run(
        "protect", few_csv, few_csv.with_name("out.csv"), "--mechanism", f"{own_file}:Rounded", "--set", "cell_m=2km"
    )
    assert wider.code == 0, wider.err
