import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearveil.cli._mechanism import MechanismChoice
from nearveil.errors import UsageError
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.families import sound_families
from nearveil.evaluation.planning import people as planning_people
from nearveil.evaluation.planning import plan as planning
from nearveil.evaluation.planning.measuring import Sizes
from nearveil.evaluation.planning.people import PeopleSource, synthetic_people
from nearveil.evaluation.planning.plan import Effort
from nearveil.io.people import ReadOptions
from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region
from nearveil.types import FloatArray
from tests.cli.conftest import Run, write_people

TINY = Effort(2, 1, 2, 2, Sizes(100, 3), Sizes(100, 6), Sizes(200, 4))
QUICKLY = ("--quick", "--cores", 1)


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
    assert document["met"]
    assert document["recommended"]["noise_m"] == 400
    # What is called met holds for the people of the file, and is not that of a release alone.
    assert document["recommended"]["mechanism"] == "planar Laplace"
    assert all(one["fit_loss"] == 0 for one in document["alternatives"] if one["met"])
    assert "metric, private grid: a person that the intervals are fitted on loses 2 more" in document["left_out"][0]
    assert 0 < document["recommended"]["recall"]["value"] < 1
    assert document["recommended"]["error_m"]["half_width"] > 0
    assert "not covered by any guarantee" in document["words"]
    assert document["covered_by_a_guarantee"] is False
    assert document["planning_guarantee"] is None
    assert (few_csv.parent / "plan.png").read_bytes().startswith(b"\x89PNG")
    command = shlex.split(document["recommended"]["command"])
    assert command[:4] == ["nearveil", "protect", "people.csv", "protected.csv"]
    done = run(*command[1:], "--json")
    assert done.code == 0, done.err
    card = json.loads(done.out)["guarantee"]
    # The card of the plan is that of the mechanism that then runs.
    assert (card["epsilon"], card["notion"]) == (document["guarantee"]["epsilon"], document["guarantee"]["notion"])
    assert [one["epsilon"] for one in card["also"]] == [one["epsilon"] for one in document["guarantee"]["also"]]
    assert "seed" not in " ".join(document["guarantee"]["notes"])


@pytest.mark.parametrize("defence", [family.members[1] for family in sound_families()], ids=lambda one: one.label)
def test_every_command_means_the_defence_that_was_measured(
    defence: Defence, run: Run, few_csv: Path, san_francisco: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    build = MechanismChoice.build

    def spy(choice: MechanismChoice, region: Region, seed: int | None = None) -> object:
        built.append(build(choice, region, seed))
        raise UsageError("seen enough")

    monkeypatch.setattr(MechanismChoice, "build", spy)
    read = ReadOptions(latitude="latitude", longitude="longitude", clip=True)
    source = PeopleSource(people=few_csv, region=san_francisco, region_text="san-francisco", read=read)
    run(*shlex.split(source.protect_command(defence))[1:])
    wanted, found = defence.build(san_francisco, 1).get_params(), built[0].get_params()
    assert found.pop("seed") is None
    assert wanted.pop("seed") == 1
    if defence.mechanism == "dprs" and defence.release == "metric":
        assert found["release"] == "metric"
    assert found == wanted


def test_a_goal_that_cannot_be_met_is_no_failure(run: Run, few_csv: Path) -> None:
    outcome = run("plan", few_csv, "--recall", 0.9999, "--k", 100, "--between-all-places", *QUICKLY)
    assert outcome.code == 0, outcome.err
    assert "No mechanism tried meets the goal; the closest is" in re.sub(r"\s+", " ", outcome.out)
    assert "Recommended" not in outcome.out
    assert "within an interval" not in outcome.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "give one goal"),
        (("--recall", 0.5, "--noise", "500m"), "give one goal"),
        (("--recall", 1.5), "--recall is a share"),
        (("--attacker-error", "far"), "--attacker-error takes a length"),
        (("--recall", 0.5, "--k", 0), "--k must be"),
        (("--recall", 0.5, "--picture", "plan.jpg"), ".png"),
        (("--recall", 0.5, "--private-epsilon", 0), "--private-epsilon must lie between"),
        (("--recall", 0.5, "--seed", -1), "--seed"),
    ],
)
def test_wrong_usage_is_one_sentence(options: tuple[object, ...], words: str, run: Run, few_csv: Path) -> None:
    outcome = run("plan", few_csv, *options)
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_a_private_plan_says_nothing_of_the_file_but_through_the_made_up_people(
    run: Run, tmp_path: Path, city: FloatArray, san_francisco: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files that differ in rows, places, repetitions and ids, and one outcome of the noise: word for word alike."""
    made_up = synthetic_city(700, san_francisco, rng=9)
    monkeypatch.setattr(planning_people, "synthetic_people", lambda *_args, **_kwargs: made_up)
    said = []
    for places in (city[:1000], np.vstack([city[2000:2030], city[2000:2010]])):
        path = write_people(tmp_path / "people.csv", places)
        outcome = run("plan", path, "--noise", "300m", "--private-epsilon", 1, *QUICKLY, "--json")
        assert outcome.code == 0, outcome.err
        document = json.loads(outcome.out)
        document.pop("seconds")
        said.append((document, outcome.err))
    assert said[0] == said[1]
    assert said[0][1] == ""
    assert said[0][0]["people"] == 700


def test_a_private_plan_states_its_cost(run: Run, few_csv: Path) -> None:
    asked = ("plan", few_csv, "--noise", "300m", "--private-epsilon", 0.5, *QUICKLY)
    first, second = (json.loads(run(*asked, "--json").out) for _ in range(2))
    assert first["planning_guarantee"]["epsilon"] == 0.5
    assert first["covered_by_a_guarantee"]
    assert "not covered" not in first["words"]
    # Unseeded: not the same made-up people again, and the number of them is noisy.
    assert first["sweep"] != second["sweep"]
    text = run(*asked, "--seed", 3)
    assert "protects nobody" in text.err
    assert "so this plan protects nobody" in re.sub(r"\s+", " ", text.out)
    assert "1,000" not in text.out.split("GUARANTEE")[0]


def test_private_people_spend_the_budget_once(run: Run, few_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = []

    def spy(*args: object, **kwargs: object) -> FloatArray:
        spent.append(kwargs["epsilon"])
        return synthetic_people(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(planning_people, "synthetic_people", spy)
    assert run("plan", few_csv, "--noise", "300m", "--private-epsilon", 2, *QUICKLY).code == 0
    assert spent == [2.0]


def test_plan_says_what_months_give_away(run: Run, few_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "QUICK", replace(TINY, months=(1, 12), followed=5))
    asked = ("plan", few_csv, "--noise", "400m", *QUICKLY, "--months", "2,1")
    figures = json.loads(run(*asked, "--json").out)["service_after_months"]
    assert [(one["months"], one["people"]) for one in figures] == [(1, 5), (2, 5)]
    assert all(one["found_within_100_m"]["low"] <= one["found_within_100_m"]["value"] for one in figures)
    said = run(*asked).out
    assert "with planar Laplace, noise of 400 m, gives away over months: of 5 of these people" in re.sub(
        r"\s+", " ", said
    )
    assert "Longer was not measured" in said
    assert "over months" not in run(*asked[:-1], "none").out
