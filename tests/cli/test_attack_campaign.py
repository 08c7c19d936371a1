"""``nearveil attack --campaign`` as a person runs it."""

import json
from pathlib import Path

import numpy as np
import pytest

from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region
from tests.cli.conftest import Run

K = ("--k", 20)


@pytest.fixture
def village_csv(tmp_path: Path, san_francisco: Region) -> Path:
    path = tmp_path / "village.csv"
    places = synthetic_city(60, san_francisco, rng=1)
    np.savetxt(path, places, delimiter=",", header="latitude,longitude", comments="", fmt="%.7f")
    return path


@pytest.mark.usefixtures("two_further_people")
def test_a_sentence_a_table_and_a_picture(run: Run, village_csv: Path, tmp_path: Path) -> None:
    picture = tmp_path / "campaign.png"
    outcome = run("attack", village_csv, "--campaign", *K, "--tau", "300m", "--picture", picture)
    assert outcome.code == 0, outcome.err
    first, _, header, *_ = outcome.out.splitlines()
    assert " of 58 users located within 300 m, " in first
    assert header.startswith("lists of")
    assert picture.read_bytes().startswith(b"\x89PNG")
    # It shows true locations.
    assert picture.stat().st_mode & 0o777 == 0o600
    assert "true locations can be seen" in outcome.err
    refused = run("attack", village_csv, "--campaign", *K, "--picture", "a.html")
    assert (refused.code, "ends in .png" in refused.err) == (2, True)


def test_an_answer_policy_changes_the_lists(run: Run, village_csv: Path) -> None:
    """Lists with fewer than 21 users are not shown, and none has more than 20."""
    outcome = run("attack", village_csv, "--campaign", *K, "--policy", "group:21", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert (found["seen"], found["outcome"]) == (0, "nobody is listed anywhere")
