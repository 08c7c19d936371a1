"""``nearveil attack``: an unprotected service gives users away, a protected one does not."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.acceptance.helpers import Array, done, is_picture, run, write_csv


def attacked(source: Path, *options: object) -> dict[str, Any]:
    """Attack users of a file, from wherever they are, and return the numbers."""
    found: dict[str, Any] = done("attack", source, *options, "--seed", 1, "--json").json
    return found


def test_a_file_of_users_is_all_that_it_takes(users_csv: Path) -> None:
    lines = done("attack", users_csv).out.splitlines()
    assert re.fullmatch(r"5 of 5 users found within 100 m, \d+ queries each\.", lines[0])
    assert lines[2].split() == ["attack", "found", "mean", "error", "(m)", "queries", "certified"]
    assert len(lines) == 4


@pytest.mark.parametrize("center", [(52.5, 13.4), (-18.0, 179.99), (78.2, 15.6)], ids=["Berlin", "Fiji", "Svalbard"])
def test_users_from_anywhere(center: tuple[float, float], users: Array, tmp_path: Path) -> None:
    """Also across the antimeridian, far north, and beside users of the rest of the world."""
    here = users - users.mean(axis=0) + center
    here[:, 1] = (here[:, 1] + 180) % 360 - 180
    world = np.random.default_rng(1).uniform((-80, -180), (80, 180), (100, 2))
    for source, part in ((here, False), (np.vstack([world, here]), True)):
        found = attacked(write_csv(tmp_path / "users.csv", source), "--users", 2)
        assert found["attacks"][0]["found"]["value"] == 1.0
        assert (found["area"] is not None) == part
        assert not part or f" of 400 users, within 25 km of {center[0]:.1f}, " in found["area"]


def test_a_file_with_too_few_users_says_so(users: Array, tmp_path: Path) -> None:
    result = run("attack", write_csv(tmp_path / "three.csv", users[:3]))
    assert (result.code, result.out) == (2, "")
    assert "number of users, 3" in result.err


@pytest.mark.parametrize(("attack", "error_m", "found"), [("gi-lia", 10, 0.99), ("zo-lia", 200, 0.6)])
def test_attacks_of_the_paper_find_users(users_csv: Path, attack: str, error_m: float, found: float) -> None:
    (row,) = attacked(users_csv, "--attack", attack, "--users", 20)["attacks"]
    assert row["error_m"]["value"] < error_m
    assert row["found"]["value"] >= found
    assert 10 < row["queries"]["value"] < 120


def test_the_adaptive_attack_finds_users_with_few_queries_and_proves_it(users_csv: Path) -> None:
    (row,) = attacked(users_csv, "--users", 8)["attacks"]
    assert (row["users"], row["found"]["value"], row["certified"], row["false_certificates"]) == (8, 1.0, 8, 0)
    assert row["error_m"]["value"] < 70
    assert row["queries"]["value"] < 25
    assert 0.5 < row["found"]["low"] < row["found"]["high"] == 1.0


def test_noise_protects_against_the_same_attack(users_csv: Path) -> None:
    """The attack finds the published location, which is some 500 m away; the best attacker makes more of it."""
    noise = ("--noise", "500m", "--users", 8)
    found = attacked(users_csv, *noise)
    (row,) = found["attacks"]
    assert found["protected"] is True
    assert row["found"]["value"] <= 0.5
    assert 100 < row["error_m"]["value"] < 1200
    assert row["published_found"] == 8
    assert 0.05 < found["protection"]["found"]["value"] < 0.6
    assert 200 < found["protection"]["error_m"]["value"] < 1000
    lines = done("attack", users_csv, *noise, "--seed", 1).out.splitlines()
    assert lines[0] == found["sentence"]
    assert re.match(r"The best attacker, who knows the noise and every address, finds \d+ % within 100 m", lines[1])
    assert re.match(r"The 10 users listed are on average [\d,]+ m away instead of [\d,]+ m\.", lines[2])


@pytest.mark.parametrize("answers", ["distance:1km", "bands:500m", "filter:1km"])
def test_rounded_distances_bands_and_filters_give_users_away(users_csv: Path, answers: str) -> None:
    found = attacked(users_csv, "--answers", answers, "--users", 3)
    assert (found["answers"], found["k"]) == (answers, None)
    assert found["attacks"][0]["found"]["value"] == 1.0
    assert found["attacks"][0]["queries"]["value"] < 40


def test_a_grid_of_100_m_does_not_protect(users_csv: Path) -> None:
    found = attacked(users_csv, "--policy", "snap:100m", "--k", 30, "--users", 4)
    assert found["policy"] == "snap:100m"
    assert found["attacks"][0]["published_found"] >= 2
    assert found["attacks"][0]["false_certificates"] == 0


def test_a_population_of_the_paper() -> None:
    found = done("attack", "--dataset", "gaussian", "--attack", "gi-lia", "--users", 2, "--json").json
    assert (found["name"], found["attacks"][0]["found"]["value"]) == ("gaussian", 1.0)


def test_a_campaign_maps_everybody_without_an_account(users: Array, tmp_path: Path) -> None:
    found = attacked(write_csv(tmp_path / "users.csv", users[:100]), "--campaign", "--k", 30)
    assert found["located"] > 0.8 * found["users"] > 70
    assert found["queries_per_located"] < 1
    assert found["median_true_error_m"] < 60


def test_pictures_of_an_attack_on_one_user(users_csv: Path, tmp_path: Path) -> None:
    png, page = (tmp_path / f"attack.{kind}" for kind in ("png", "html"))
    attack = ("attack", users_csv, "--user", "u17", "--picture", png)
    assert done(*attack, "--picture", page).out.startswith("1 of 1 users found within 100 m, ")
    assert is_picture(png)
    assert is_picture(page)
    # A page that loads something tells somebody that, and when, a true location was looked at.
    assert "default-src 'none'" in page.read_text()
    before = png.read_bytes()
    assert run(*attack).code == 4
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
        (("--user", "nobody"), 2),
        (("--adapter", "no-such-file.py"), 2),
        (("--url", "http://127.0.0.1:9", "--key", "no-such-file"), 2),
    ],
)
def test_wrong_options(users_csv: Path, options: tuple[str, ...], code: int) -> None:
    whom = () if options[0] in {"--adapter", "--url"} else (users_csv,)
    result = run("attack", *whom, *options)
    assert (result.code, result.out) == (code, "")
    assert result.err
