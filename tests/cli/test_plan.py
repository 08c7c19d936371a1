import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from nearveil.cli._mechanism import MechanismChoice
from nearveil.errors import UsageError
from nearveil.evaluation import plan as planning
from nearveil.evaluation import plan_users
from nearveil.evaluation.contenders import Contender, deployable
from nearveil.evaluation.plan import Effort
from nearveil.evaluation.plan_users import UserSource
from nearveil.evaluation.tradeoff import Sizes
from nearveil.io.datasets import Dataset
from nearveil.io.people import ReadOptions
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_grid import synthetic_people
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.cli.conftest import Run, write_people

TINY = Effort(Sizes(60, 5, 60), Sizes(60, 5, 60), 2, (), 5)
QUICKLY = ("--quick", "--cores", 1, "--region", "san-francisco")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """These are about what is said, not about how well it is measured."""
    monkeypatch.setattr(planning, "QUICK", TINY)


@pytest.fixture
def few_csv(tmp_path: Path, city: FloatArray) -> Path:
    return write_people(tmp_path / "people.csv", city[:1000])


def test_plan_recommends_a_command_that_runs(run: Run, few_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(few_csv.parent)
    planned = run("plan", "people.csv", "--noise", "400m", *QUICKLY, "--json", "--picture", "plan.png")
    assert planned.code == 0, planned.err
    document = json.loads(planned.out)
    best = document["recommended"]
    assert (document["met"], best["noise_m"], best["mechanism"]) == (True, 400, "planar Laplace")
    assert 0 < best["recall"]["value"] < 1
    assert best["error_m"]["half_width"] > 0
    assert "no guarantee covers it" in document["words"]
    assert (document["covered_by_a_guarantee"], document["planning_guarantee"]) == (False, None)
    assert (few_csv.parent / "plan.png").read_bytes().startswith(b"\x89PNG")
    command = shlex.split(best["command"])
    assert command[:4] == ["nearveil", "protect", "people.csv", "protected.csv"]
    done = run(*command[1:], "--json")
    assert done.code == 0, done.err
    # The guarantee of the plan is that of the mechanism that then runs.
    said, stated = json.loads(done.out)["guarantee"], document["guarantee"]
    assert (said["epsilon"], said["notion"]) == (stated["epsilon"], stated["notion"])
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
    read = ReadOptions(latitude="latitude", longitude="longitude", clip=True)
    source = UserSource(path=few_csv, region="san-francisco", read=read)
    run(*shlex.split(source.protect_command(made.protect_arguments(made.values[1])))[1:])
    measured = made.fitted(made.values[1], Dataset("few", san_francisco, city[:200]), None)
    assert built[0].get_params() == measured.get_params()


def test_the_first_line_is_the_recommendation(run: Run, few_csv: Path) -> None:
    done = run("plan", few_csv, "--quick", "--cores", 1, names_region=False)
    said = re.sub(r"\s+", " ", done.out)
    # A goal that nothing meets is no failure.
    assert done.code == 0, done.err
    assert re.match(
        r"(Recommended:|No mechanism tried meets the goal; the closest is) planar Laplace, noise of [\d,]+ m: the best "
        r"attacker still finds \d+% of users within 100 m and names \d+% of the sparsest tenth, and the 10 users "
        r"listed are on average [\d,]+ m away instead of [\d,]+ m\.",
        said,
    )
    assert "nearveil protect" in said
    assert "--region" not in done.out.split("GUARANTEE")[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--recall", 0.5, "--noise", "500m"), "give one goal"),
        (("--recall", 1.5), "a share is more than 0 and less than 1, such as --recall 0.1"),
        (("--attacker-error", "far"), "--attacker-error takes a length"),
        (("--recall", 0.5, "--k", 0), "such as --k 10"),
        (("--recall", 0.5, "--picture", "plan.jpg"), ".png"),
        (("--recall", 0.5, "--private-epsilon", 0, "--region", "berlin"), "must lie between"),
        (("--recall", 0.5, "--private-epsilon", 1), "name it, such as --region berlin"),
        (("--recall", 0.5, "--seed", -1), "--seed"),
        (("--months", "soon"), "--months takes"),
        (("--months", "0"), "--months 1,6,12"),
    ],
)
def test_wrong_usage_is_one_sentence(options: tuple[object, ...], words: str, run: Run, few_csv: Path) -> None:
    done = run("plan", few_csv, *options, names_region=False)
    assert done.code == 2
    assert words in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


def test_a_private_plan_says_nothing_of_the_file_but_through_the_synthetic_users(
    run: Run, tmp_path: Path, city: FloatArray, san_francisco: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files that differ in rows, locations and repetitions, and one result of the noise: word for word alike."""
    made = synthetic_city(700, san_francisco, rng=9)
    monkeypatch.setattr(plan_users, "synthetic_people", lambda *_args, **_kwargs: made)
    said = []
    for places in (city[:1000], np.vstack([city[2000:2030], city[2000:2010]])):
        path = write_people(tmp_path / "people.csv", places)
        done = run("plan", path, "--noise", "300m", "--private-epsilon", 1, *QUICKLY, "--json")
        assert done.code == 0, done.err
        document = json.loads(done.out)
        document.pop("seconds")
        said.append((document, done.err))
    assert said[0] == said[1]
    assert said[0][1] == ""
    assert said[0][0]["people"] == 700


def test_a_private_plan_states_its_cost_and_spends_it_once(
    run: Run, few_csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = []

    def spy(*args: object, **kwargs: object) -> FloatArray:
        spent.append(kwargs["epsilon"])
        return synthetic_people(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(plan_users, "synthetic_people", spy)
    asked = ("plan", few_csv, "--noise", "300m", "--private-epsilon", 0.5, *QUICKLY)
    first, second = (json.loads(run(*asked, "--json").out) for _ in range(2))
    assert spent == [0.5, 0.5]
    assert first["planning_guarantee"]["epsilon"] == 0.5
    assert first["covered_by_a_guarantee"]
    # Without a seed: not the same synthetic users again.
    assert first["recommended"]["error_m"] != second["recommended"]["error_m"]
    text = run(*asked, "--seed", 3)
    assert "protects nobody" in text.err
    assert "so this plan protects nobody" in re.sub(r"\s+", " ", text.out)
    assert "1,000" not in text.out.split("GUARANTEE")[0]


def test_plan_says_what_months_give_away(run: Run, few_csv: Path) -> None:
    asked = ("plan", few_csv, "--noise", "400m", *QUICKLY, "--months", "2,1")
    figures = json.loads(run(*asked, "--json").out)["service_after_months"]
    assert [(one["months"], one["people"]) for one in figures] == [(1, 5), (2, 5)]
    assert all(one["found_within_100_m"]["low"] <= one["found_within_100_m"]["value"] for one in figures)
    said = re.sub(r"\s+", " ", run(*asked).out)
    assert "with planar Laplace, noise of 400 m gives away over months: of 5 of these users" in said
    assert "Longer was not measured" in said
    assert "over months" not in run(*asked[:-1], "none").out
