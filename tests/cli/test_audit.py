"""``nearveil audit`` as a person runs it. Exit codes: 0 consistent, 1 violated, 3 inconclusive; 2 and 4 no verdict."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nearveil.audit.auditor import audit
from tests.cli.conftest import Outcome, Run

pytestmark = pytest.mark.statistical

SMALL = ("--samples", 40_000, "--seed", 1)
VERDICTS = ("consistent", "violated", "inconclusive")
SHIFTED = """
import os, sys, time
import numpy as np

def noisy(points, rng):
    return points + rng.normal(0, 0.002, points.shape).clip(-0.003, 0.003) * inwards(points)

def inwards(points):
    return np.where((points > [37.51, -122.59]) & (points < [37.89, -122.21]), 1.0, 0.0)

def uniform(points, rng):
    return rng.uniform([37.5, -122.6], [37.9, -122.2], points.shape)

def crashing(points, rng):
    raise RuntimeError("somebody is at 37.7123")

def leaving(points, rng):
    os._exit(0)

def hanging(points, rng):
    time.sleep(60)

def nothing(points, rng):
    return points * np.nan

def too_few(points, rng):
    return points[:-1]

def elsewhere(points, rng):
    return points + 5.0

def words(points, rng):
    return ["here"] * len(points)
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(SHIFTED, encoding="utf-8")
    return str(path)


def failed(outcome: Outcome, code: int, *words: str) -> None:
    """One sentence on standard error, nothing on standard output, and no verdict anywhere."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert len(outcome.err.strip().splitlines()) == 1, outcome.err
    for word in words:
        assert word in outcome.err
    for secret in ("Traceback", "7123"):
        assert secret not in outcome.err
    for verdict in VERDICTS:
        assert verdict.upper() not in outcome.err


def audited(outcome: Outcome, code: int, verdict: str) -> dict[str, Any]:
    assert outcome.code == code, outcome
    document: dict[str, Any] = json.loads(outcome.out)
    assert document["verdict"] == verdict
    return document


def test_the_papers_claim_for_its_release_is_violated(run: Run, tmp_path: Path) -> None:
    """No outputs are shared between cells, so it is found for certain."""
    witness, picture = tmp_path / "w.json", tmp_path / "p.png"
    paper = ("audit", "--release", "paper", "--claim", "paper", *SMALL)
    found = audited(run(*paper, "--json", "--witness", witness, "--picture", picture), 1, "violated")
    assert found.keys() >= {"verdict", "epsilon_lower", "epsilon_claimed", "witness"}
    assert found["epsilon_claimed"] == pytest.approx(1.0)
    assert found["epsilon_lower"] > 5
    assert found["witness"] == json.loads(witness.read_text())
    assert found["witness"]["violates"] is True
    assert found["witness"]["pair"]["same_interval"] is False
    assert found["witness"]["counts"]["false_hits"] == 0
    assert picture.stat().st_size > 20_000
    text = run(*paper)
    assert text.code == 1
    assert text.out.startswith("VIOLATED: epsilon = 1 per person is claimed")
    for words in ("Witness: Two places 60 m apart", "came 15,0", "made-up city (25,000 people, seed 2026", "--check"):
        assert words in text.out
    assert "certify" not in text.out


@pytest.mark.parametrize("release", ["interval", "metric", None])
def test_the_sound_releases_are_consistent(run: Run, release: str | None) -> None:
    """False alarms: 1e-6 each, and none at this seed."""
    options = () if release is None else ("--release", release)
    found = audited(run("audit", *options, *SMALL, "--json"), 0, "consistent")
    assert 0 < found["epsilon_lower"] <= found["epsilon_claimed"]
    assert found["epsilon_claimed"] == pytest.approx(1.0 if release == "interval" else 0.004)
    assert found["witness"]["violates"] is False


def test_consistent_is_said_to_be_no_proof(run: Run) -> None:
    outcome = run("audit", "--mechanism", "planar-laplace", *SMALL)
    assert outcome.code == 0, outcome
    assert outcome.out.startswith("CONSISTENT: epsilon = 0.004 per metre is claimed")
    assert "no proof" in outcome.out
    assert "nearveil certify" in outcome.out
    assert "estimated loss" in outcome.out


def test_the_same_seed_gives_the_same_audit(run: Run) -> None:
    square = ("audit", "--mechanism", "square", "--samples", 10_000, "--json")
    first, again, other = (json.loads(run(*square, "--seed", seed).out) for seed in (3, 3, 4))
    assert first["witness"] == again["witness"]
    assert first["witness"]["counts"] != other["witness"]["counts"]


@pytest.mark.parametrize(("delta", "code"), [(0.0, 1), (0.9, 0)])
def test_a_claim_from_a_file(run: Run, tmp_path: Path, delta: float, code: int) -> None:
    """Half of the noise that is claimed; with a delta of 0.9 that breaks nothing. False alarms: 1e-6."""
    claim = tmp_path / "claim.json"
    claim.write_text(json.dumps({"notion": "metric", "epsilon": 2, "unit": "per kilometre", "delta": delta}))
    outcome = run("audit", "--mechanism", "planar-laplace", "--claim", claim, *SMALL, "--json")
    assert outcome.code == code, outcome
    assert json.loads(outcome.out)["epsilon_claimed"] == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("words", "code"), [("metric:0.004", 0), ("metric:2/km", 1), ("local:40", 3), ("local:1:1e-6", 1), ("central:1", 3)]
)
def test_a_claim_in_words(run: Run, words: str, code: int) -> None:
    """False alarms: 1e-6 each, and none at this seed."""
    outcome = run("audit", "--mechanism", "planar-laplace", "--claim", words, *SMALL)
    assert outcome.code == code, outcome


def test_an_audit_that_could_find_nothing_says_so_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    witness, picture = tmp_path / "w.json", tmp_path / "p.png"
    outcome = run(
        "audit", "--mechanism", "srr", "--epsilon", 20, *SMALL, "--witness", witness, "--picture", picture,
    )  # fmt: skip
    assert outcome.code == 3, outcome
    assert outcome.out.startswith("INCONCLUSIVE")
    assert "times as many samples" in outcome.out
    assert outcome.err.count("nothing was counted") == 2
    assert list(tmp_path.iterdir()) == []


# -- somebody else's ----------------------------------------------------------------------------------------------


def test_a_function_of_ones_own(run: Run, module: str, tmp_path: Path) -> None:
    """Uniform noise loses nothing (false alarms: 1e-6); bounded noise loses without bound."""
    assert run("audit", "--callable", f"{module}:uniform", "--claim", "local:1", *SMALL).code == 0
    picture = tmp_path / "p.png"
    outcome = run("audit", "--callable", f"{module}:noisy", "--claim", "local:1", *SMALL, "--picture", picture)
    assert outcome.code == 1, outcome
    assert f"{module}:noisy" in outcome.out
    assert picture.stat().st_size > 20_000


def test_a_command(run: Run, tmp_path: Path) -> None:
    """A program that copies its input hides nothing."""
    copy = f"{sys.executable} -c 'import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])' {{input}} {{output}}"
    witness = tmp_path / "w.json"
    outcome = run("audit", "--command", copy, "--claim", "local:1", *SMALL, "--witness", witness)
    assert outcome.code == 1, outcome
    check = ("audit", "--check", witness, "--samples", 4000)
    failed(run(*check), 2, "not run because a file says so", "--command")
    failed(run(*check, "--command", "true"), 2, "not run because a file says so")
    failed(run(*check, "--callable", copy), 2, "not run because a file says so")
    assert run(*check, "--command", copy).code == 1


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("crashing", "RuntimeError"),
        ("leaving", "ended its process"),
        ("nothing", "not a number"),
        ("too_few", "gave"),
        ("elsewhere", "outside the region"),
        ("words", "no array of numbers"),
    ],
)
@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_mechanism_that_fails_gets_no_verdict(
    run: Run, module: str, function: str, says: str, as_json: tuple[str, ...]
) -> None:
    outcome = run("audit", "--callable", f"{module}:{function}", "--claim", "local:1", *SMALL, *as_json)
    failed(outcome, 4, says)


def test_a_mechanism_that_hangs_gets_no_verdict(run: Run, module: str) -> None:
    outcome = run("audit", "--callable", f"{module}:hanging", "--claim", "local:1", *SMALL, "--timeout", 0.5)
    failed(outcome, 4, "time limit")


def test_a_command_that_fails_gets_no_verdict(run: Run) -> None:
    failed(run("audit", "--command", "false", "--claim", "local:1", *SMALL), 4, "exit code 1")
    failed(run("audit", "--command", "no-such-program-here", "--claim", "local:1", *SMALL), 2, "no program")


# -- witnesses ----------------------------------------------------------------------------------------------------


@pytest.fixture
def witness(run: Run, tmp_path: Path) -> Path:
    """Against a claim of half the loss."""
    path = tmp_path / "witness.json"
    outcome = run("audit", "--release", "interval", "--centres", 50, "--epsilon", 4, "--claim", "interval:2",
                  "--samples", 200_000, "--seed", 1, "--witness", path)  # fmt: skip
    assert outcome.code == 1, outcome
    return path


def test_a_witness_stands_on_fresh_samples(run: Run, witness: Path, tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    found = audited(run("audit", "--check", witness, "--seed", 1, "--json", "--picture", picture), 1, "violated")
    before = json.loads(witness.read_text())
    assert found["witness"]["event"] == before["event"]
    assert found["witness"]["subject"] == before["subject"]
    assert found["witness"]["counts"] != before["counts"]
    assert found["epsilon_lower"] > found["epsilon_claimed"] == 2
    assert picture.stat().st_size > 20_000
    text = run("audit", "--check", witness, "--seed", 1)
    assert (text.code, text.out.startswith("VIOLATED")) == (1, True)
    assert "The witness stands" in text.out


def test_a_witness_that_lies_does_not_stand(run: Run, witness: Path) -> None:
    """Counts are not believed, nor is the confidence. False alarms: 1e-6, and none at this seed."""
    document = json.loads(witness.read_text())
    document["counts"].update(hits=90_000, trials=100_000, false_hits=0, false_trials=100_000)
    document["claim"]["epsilon"] = 4.0
    document["confidence"] = 0.01
    witness.write_text(json.dumps(document))
    found = audited(run("audit", "--check", witness, "--seed", 1, "--json"), 0, "consistent")
    assert found["confidence"] == 1 - 1e-6
    assert "no proof" in run("audit", "--check", witness, "--seed", 1).out


def test_too_few_samples_to_check_with_are_inconclusive(run: Run, witness: Path) -> None:
    assert run("audit", "--check", witness, "--samples", 40, "--seed", 1).code == 3


def test_places_of_a_witness_are_looked_up(run: Run, tmp_path: Path) -> None:
    """A pair across a border, said to share an interval: an interval claim does not speak of it."""
    path = tmp_path / "witness.json"
    outcome = run("audit", "--release", "interval", "--centres", 50, "--claim", "local:1", *SMALL, "--witness", path)
    assert outcome.code == 1, outcome
    document = json.loads(path.read_text())
    document["claim"]["notion"] = "interval"
    document["pair"]["same_interval"] = True
    path.write_text(json.dumps(document))
    assert run("audit", "--check", path, "--samples", 4000).code == 3
    document["pair"]["first"] = [10.0, 10.0]
    path.write_text(json.dumps(document))
    failed(run("audit", "--check", path, "--samples", 4000), 4, "outside")


def test_a_witness_from_a_stranger_cannot_steer_the_terminal(run: Run, witness: Path) -> None:
    document = json.loads(witness.read_text())
    document["pair"]["kind"] = "\x1b[31mred\x07"
    document["claim"]["text"] = "\x1b]0;title\x07"
    witness.write_text(json.dumps(document))
    outcome = run("audit", "--check", witness, "--samples", 4000)
    assert "red" in outcome.out
    assert "\x1b" not in outcome.out + outcome.err


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "",
        lambda text: text[:-200],
        lambda _: "[1, 2]",
        lambda text: text.replace('"hits"', '"bits"'),
        lambda text: text.replace('"kind": "mechanism"', '"kind": "magic"'),
        lambda text: text.replace('"mechanism": "dprs"', '"mechanism": "dprz"'),
        lambda text: text.replace('"release": "interval"', '"release": 7'),
        lambda text: text.replace('"threshold": ', '"threshold": 1e'),
    ],
)
def test_a_damaged_witness(run: Run, witness: Path, damage: Any) -> None:
    text = witness.read_text()
    assert damage(text) != text
    witness.write_text(damage(text))
    failed(run("audit", "--check", witness, "--samples", 4000), 4)


# -- the fit ------------------------------------------------------------------------------------------------------


def test_the_fit(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarms: 1e-6, and none at this seed."""
    monkeypatch.setattr("nearveil.mechanisms.nearest_centre._COARSE", 4)
    monkeypatch.setattr("nearveil.mechanisms.nearest_centre._FINER", 4)
    witness = tmp_path / "w.json"
    fit = ("audit", "--stage", "fit", "--release", "paper", "--seed", 1)
    found = audited(run(*fit, "--json", "--witness", witness), 0, "consistent")
    assert found["witness"] == json.loads(witness.read_text())
    assert found["epsilon_lower"] <= found["epsilon_claimed"] < 1
    assert "no proof" in run("audit", "--check", witness, "--seed", 1).out
    text = run(*fit, "--claim", "central:5")
    assert (text.code, text.out.startswith("INCONCLUSIVE")) == (3, True)
    document = json.loads(witness.read_text())
    for damaged in ({**document, "subject": {}}, {**document, "subject": None}, {**document, "counts": 1}):
        witness.write_text(json.dumps(damaged))
        failed(run("audit", "--check", witness), 4, "damaged")


# -- what is no verdict -------------------------------------------------------------------------------------------

WRONG = [
    (("--claim", "paper"), "no claim of the paper's"),
    (("--claim", "papre"), "--claim takes own, paper"),
    (("--claim", "local:many"), "numbers"),
    (("--claim", "local:-1"), "epsilon must be a number"),
    (("--claim", "local:1/km"), "not per distance"),
    (("--callable", "a:b", "--command", "c"), "give one of them"),
    (("--callable", "a:b"), "does not know what this mechanism promises"),
    (("--callable", "a:b", "--claim", "own"), "does not know what this mechanism promises"),
    (("--callable", "a:b", "--claim", "local:1", "--release", "paper"), "--release is for mechanisms of Nearveil"),
    (("--callable", "no_such_module_here:f", "--claim", "local:1"), "there is no module"),
    (("--timeout", "3"), "--timeout goes with"),
    (("--release", "metric", "--epsilon", "1"), "--epsilon cannot be used with the release metric"),
    (("--confidence", "0.5"), "--confidence"),
    (("--confidence", "1"), "--confidence"),
    (("--samples", "100"), "at least 2,000 samples"),
    (("--picture", "p.jpg"), ".png"),
    (("--witness", "w.txt"), ".json"),
    (("--stage", "fit", "--mechanism", "srr"), "--stage fit goes with dprs"),
    (("--stage", "fit", "--picture", "p.png"), "a fit has none"),
    (("--stage", "fit", "--claim", "local:1"), "central"),
    (("--check", "w.json", "--release", "paper"), "from the witness"),
    (("--check", "w.json", "--claim", "local:1"), "from the witness"),
    (("--check", "w.json", "--stage", "fit"), "from the witness"),
    (("--region", "atlantis"), "no region named"),
]


@pytest.mark.parametrize(("options", "says"), WRONG, ids=[" ".join(options) for options, _ in WRONG])
def test_wrong_usage(run: Run, options: tuple[str, ...], says: str) -> None:
    failed(run("audit", *options), 2, says)


def test_words_the_command_line_does_not_know(run: Run) -> None:
    for options in (("--mechanism", "magic"), ("--nope",), ("--samples", "many"), ("--seed", "-1")):
        assert run("audit", *options).code == 2


@pytest.mark.parametrize("option", ["--claim", "--intervals", "--check"])
def test_a_file_that_cannot_be_read_is_a_failure(run: Run, tmp_path: Path, option: str) -> None:
    """4 and not 3, which other commands say of data: 3 is a verdict here."""
    failed(run("audit", option, tmp_path / "none.json"), 4, "cannot be read")
    (tmp_path / "damaged.json").write_text("{")
    failed(run("audit", option, tmp_path / "damaged.json"), 4)


@pytest.mark.parametrize("error", [RuntimeError("at 37.7123"), MemoryError(), SystemExit(1), OSError("disk")])
def test_a_bug_is_no_verdict(run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise error

    monkeypatch.setattr("nearveil.cli.audit.run_audit", fail)
    failed(run("audit", "--mechanism", "square", *SMALL), 4)
    monkeypatch.setenv("NEARVEIL_DEBUG", "1")
    outcome = run("audit", "--mechanism", "square", *SMALL)
    assert outcome.code == 4


def test_an_audit_that_returns_nothing_is_no_verdict(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.cli.audit.leave_with", lambda _verdict: None)
    assert run("audit", "--mechanism", "square", *SMALL).code == 4


def test_files_are_checked_before_the_work(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.cli.audit.run_audit", lambda *_args, **_kwargs: pytest.fail("it has begun"))
    for option, name in (("--witness", "w.json"), ("--picture", "p.png")):
        (tmp_path / name).write_text("precious")
        failed(run("audit", option, tmp_path / name), 4, "exists already", "--force")
        failed(run("audit", option, tmp_path / "no" / name), 4, "folder does not exist")
        assert (tmp_path / name).read_text() == "precious"


@pytest.mark.parametrize(("option", "name"), [("--witness", "w.json"), ("--picture", "p.png")])
def test_a_file_that_cannot_be_written_loses_no_verdict(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, name: str
) -> None:
    """The folder goes away meanwhile."""
    folder = tmp_path / "folder"
    folder.mkdir()

    def slow(*args: Any, **options: Any) -> object:
        folder.rmdir()
        return audit(*args, **options)

    monkeypatch.setattr("nearveil.cli.audit.run_audit", slow)
    outcome = run("audit", "--mechanism", "square", *SMALL, option, folder / name)
    assert outcome.code == 4
    assert outcome.out.startswith("CONSISTENT")
    assert "cannot be written" in outcome.err


# -- a real process -----------------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-c", "from nearveil_command import main; main()"]
QUICK = ["audit", "--mechanism", "square", "--samples", "4000", "--seed", "1"]


def test_the_command_starts_outside_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"nearveil": "nearveil_command:main"}


def test_a_nearveil_that_cannot_be_loaded_gives_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('broken')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    found = subprocess.run([*COMMAND, *QUICK], capture_output=True, text=True, check=False, env=environment)
    assert (found.returncode, found.stdout) == (4, "")
    assert found.stderr == "error: Nearveil failed (ImportError); there is no verdict\n"
    other = subprocess.run([*COMMAND, "region"], capture_output=True, text=True, check=False, env=environment)
    assert other.returncode == 1


def test_output_that_goes_nowhere_is_no_verdict() -> None:
    """A full disk and a reader who left; Python itself would notice too late, or leave with 1."""
    # Where output waits to be printed, as it does by default.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        found = subprocess.run([*COMMAND, *QUICK], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env)
        assert (found.returncode, found.stderr.count("\n")) == (4, 1)
        mute = subprocess.run(
            [*COMMAND, *QUICK, "--claim", "none.json"], stdout=full, stderr=full, check=False, env=env
        )
        assert mute.returncode == 4
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        found = subprocess.run([*COMMAND, *QUICK], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False, env=env)
    assert found.returncode == 4
