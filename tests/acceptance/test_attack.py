"""``nearveil attack``: an unprotected service gives users away, a protected one does not."""

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.helpers import REGION, Array, done, is_picture, run, write_csv


def attacked(users_csv: Path, attack: str, *options: object, instances: int = 8) -> dict[str, Any]:
    """Attack a few users and return the row of the only attack."""
    size = ("--runs", 1, "--instances", instances, "--seed", 1)
    (row,) = done(
        "attack", "--input", users_csv, "--region", REGION, "--attack", attack, *size, *options, "--json"
    ).json
    assert (row["attack"], row["instances"]) == (attack, instances)
    found: dict[str, Any] = row
    return found


@pytest.mark.parametrize(("attack", "error_m", "found"), [("gi-lia", 10, 0.99), ("zo-lia", 200, 0.6)])
def test_attacks_of_the_paper_find_users(users_csv: Path, attack: str, error_m: float, found: float) -> None:
    row = attacked(users_csv, attack, instances=20)
    assert row["dist_m"] < error_m
    assert row["acc"] >= found
    assert 10 < row["queries"] < 120


def test_the_adaptive_attack_finds_users_with_few_queries_and_proves_it(users_csv: Path) -> None:
    row = attacked(users_csv, "adaptive")
    assert (row["acc"], row["certified"], row["false_certificates"]) == (1.0, 1.0, 0)
    assert row["dist_m"] < 70
    assert row["queries"] < 25
    low, high = row["interval_95"]["acc"]
    assert 0.5 < low < high == 1.0


def test_noise_protects_against_the_same_attack(users_csv: Path) -> None:
    """The attack finds the published location, which is some 500 m away; the Bayes attacker makes the best of it."""
    row = attacked(users_csv, "adaptive", "--noise", "500m")
    assert row["protected"] is True
    assert row["acc"] <= 0.5
    assert 100 < row["dist_m"] < 1200
    assert row["acc_served"] == 1.0
    assert 0.05 < row["bayes_acc"] < 0.6
    assert 200 < row["bayes_dist_m"] < 1000


@pytest.mark.parametrize("answers", ["distance:1km", "bands:500m", "filter:1km"])
def test_rounded_distances_bands_and_filters_give_users_away(users_csv: Path, answers: str) -> None:
    row = attacked(users_csv, "adaptive", "--answers", answers, instances=3)
    assert row["answers"] == answers
    assert row["acc"] == 1.0
    assert row["queries"] < 40


def test_a_grid_of_100_m_does_not_protect(users_csv: Path) -> None:
    row = attacked(users_csv, "adaptive", "--policy", "snap:100m", "--k", 30, instances=4)
    assert row["policy"] == "snap:100m"
    assert row["acc_served"] >= 0.5
    assert row["false_certificates"] == 0


def test_a_population_of_the_paper() -> None:
    size = ("--runs", 1, "--instances", 2)
    (row,) = done("attack", "--dataset", "gaussian", "--attack", "gi-lia", *size, "--json").json
    assert (row["dataset"], row["acc"]) == ("gaussian", 1.0)


def test_a_campaign_maps_everybody_without_an_account(users: Array, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "users.csv", users[:100])
    (row,) = done("attack", "--input", source, "--region", REGION, "--campaign", "--k", 30, "--json").json
    assert row["located"] > 0.8 * row["people"] > 70
    assert row["questions_per_located"] < 1
    assert row["median_true_error_m"] < 60


def test_pictures_of_an_attack_on_one_user(users_csv: Path, tmp_path: Path) -> None:
    attack = ("attack", "--input", users_csv, "--region", REGION, "--person", "u17", "--attack", "adaptive")
    png, gif, page = (tmp_path / f"attack.{kind}" for kind in ("png", "gif", "html"))
    done(*attack, "--trace", png, "--animate", gif)
    done(*attack, "--animate", page)
    assert is_picture(png)
    assert is_picture(gif)
    assert is_picture(page)
    # A page that loads something tells somebody that, and when, a true location was looked at.
    assert not [each for each in ('src="http', "src='http", "@import", 'href="http') if each in page.read_text()]
    before = png.read_bytes()
    assert run(*attack, "--trace", png).code == 4
    assert png.read_bytes() == before


def test_a_service_of_your_own(tmp_path: Path) -> None:
    """The file to begin with runs at once, on a simulated service that shows whole kilometers."""
    adapter = tmp_path / "service_to_begin_with.py"
    written = done("attack", "--init-adapter", adapter).out
    truth = written.partition("--truth ")[2].split()[0]
    result = done("attack", "--adapter", adapter, "--truth", truth, "--json").json
    assert result["found"] is True
    assert result["error_m"] <= min(result["radius_m"], 100)
    assert 5 < result["queries"] <= 60
    text = adapter.read_text()
    adapter.with_name("service_that_says_nothing.py").write_text(text.replace("return round(", "return 3  # "))
    result = done("attack", "--adapter", tmp_path / "service_that_says_nothing.py", "--truth", truth, "--json").json
    assert (result["found"], result["certified"]) == (False, False)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--attack", "magic"), 2),
        (("--answers", "magic"), 2),
        (("--k", "0"), 2),
        (("--person", "nobody"), 2),
        (("--adapter", "no-such-file.py"), 2),
        (("--url", "http://127.0.0.1:9", "--key", "no-such-file"), 2),
    ],
)
def test_wrong_options(users_csv: Path, options: tuple[str, ...], code: int) -> None:
    whom = () if options[0] in {"--adapter", "--url"} else ("--input", users_csv, "--region", REGION)
    result = run("attack", *whom, *options)
    assert (result.code, result.out) == (code, "")
    assert result.err
