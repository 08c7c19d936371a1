import json
import re
import shlex
from pathlib import Path

import pytest

from nearveil.cli._mechanism import MechanismChoice
from nearveil.errors import UsageError
from nearveil.evaluation import plan as planning
from nearveil.evaluation.contenders import Contender, deployable
from nearveil.evaluation.tradeoff import Sizes
from nearveil.io.datasets import Dataset
from nearveil.io.location import ReadOptions
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.cli.conftest import Run, write_people


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch, one_core: None) -> None:
    """These are about what is said, not about how well it is measured."""
    assert one_core is None
    for name in ("SEARCH", "FINAL"):
        monkeypatch.setattr(planning, name, Sizes(60, 20, 60))


@pytest.fixture
def few_csv(tmp_path: Path, city: FloatArray) -> Path:
    return write_people(tmp_path / "people.csv", city[:1000])


def test_plan_recommends_a_command_that_runs(run: Run, few_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(few_csv.parent)
    asked = ("plan", "people.csv", "--found", 0.5, "--json", "--picture", "plan.png")
    planned = run(*asked, names_region=False)
    assert planned.code == 0, planned.err
    document = json.loads(planned.out)
    best = document["recommended"]
    assert (document["met"], best["mechanism"]) == (True, "planar Laplace")
    assert best["found"]["value"] <= 0.5
    assert best["listed_m"]["half_width"] > 0
    assert "no guarantee covers it" in document["coverage"]
    assert "if they are a sample, give --users-in-total" in planned.err
    picture = few_csv.parent / "plan.png"
    assert (picture.read_bytes()[:4], picture.stat().st_mode & 0o777) == (b"\x89PNG", 0o600)
    command = shlex.split(best["command"])
    assert command[:4] == ["nearveil", "protect", "people.csv", "protected.csv"]
    done = run(*command[1:], "--json")
    assert done.code == 0, done.err
    # The guarantee of the plan is that of the mechanism that then runs.
    said, stated = json.loads(done.out)["guarantee"], document["guarantee"]
    assert (said["epsilon"], said["definition"]) == (stated["epsilon"], stated["definition"])
    assert "seed" not in " ".join(stated["notes"])


@pytest.mark.parametrize("made", deployable(), ids=lambda one: one.name)
def test_every_command_means_what_was_measured(
    made: Contender, run: Run, few_csv: Path, city: FloatArray, san_francisco: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, build = [], MechanismChoice.build

    def spy(choice: MechanismChoice, region: Region, seed: int | None = None) -> object:
        built.append(build(choice, region, seed))
        raise UsageError("seen enough")

    monkeypatch.setattr(MechanismChoice, "build", spy)
    read = ReadOptions(latitude="latitude", longitude="longitude")
    command = planning.protect_command(few_csv, "san-francisco", read, made.protect_arguments(made.values[1]))
    run(*shlex.split(command)[1:])
    measured = made.fitted(made.values[1], Dataset("few", san_francisco, city[:200]), None)
    assert built[0].get_params() == measured.get_params()


def test_the_first_line_is_the_recommendation(run: Run, few_csv: Path) -> None:
    done = run("plan", few_csv, "--users-in-total", 3000, names_region=False)
    said = re.sub(r"\s+", " ", done.out)
    # A goal that nothing meets is no failure.
    assert done.code == 0, done.err
    assert re.match(
        r"(Recommended:|No mechanism tried meets the goal; the closest is) planar Laplace, noise of [\d,]+ m: the best "
        r"attacker still finds [\d.]+ % of users within 100 m and names [\d.]+ % of the sparsest tenth, and the 10 "
        r"users listed are on average [\d,]+ m away instead of [\d,]+ m\.",
        said,
    )
    assert "nearveil protect" in said
    assert "--region" not in done.out.split("GUARANTEE")[0]
    assert "sample" not in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--found", 1.5), "a share is more than 0 and less than 1, such as --found 0.1"),
        (("--named-sparsest", 0), "such as --named-sparsest 0.1"),
        (("--k", 0), "such as --k 10"),
        (("--picture", "plan.jpg"), ".png"),
        (("--seed", -1), "--seed"),
        (("--users-in-total", 20), "--users-in-total is the number"),
    ],
)
def test_wrong_usage_is_one_sentence(options: tuple[object, ...], words: str, run: Run, few_csv: Path) -> None:
    done = run("plan", few_csv, *options, names_region=False)
    assert done.code == 2
    assert words in done.err
    assert (done.out, "Traceback" in done.err) == ("", False)
