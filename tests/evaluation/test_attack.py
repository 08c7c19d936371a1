"""Attacks as one call from Python: one user of a service, or several users in numbers."""

import math
from pathlib import Path

import numpy as np
import pytest

import nearveil as nv
from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import DataError, OutputError, UsageError
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture(scope="module")
def points() -> FloatArray:
    return np.random.default_rng(5).normal([37.75, -122.44], 0.02, (400, 2))


def test_a_user_is_found(points: FloatArray, san_francisco: Region) -> None:
    sure = Adaptive(half_extent_m=san_francisco.half_extent_m, tau_m=10.0, accounts=3)
    for method, accounts, tau_m in (("gi-lia", 1, 100.0), ("adaptive", 4, 100.0), (sure, 3, 10)):
        service = nv.simulate(points, region=san_francisco)
        outcome = nv.attack(service, target=17, method=method, accounts=accounts, tau_m=tau_m)
        assert outcome.found
        assert outcome.estimate is not None
        apart_m = math.dist(*san_francisco.to_metres([outcome.estimate, tuple(points[17])]))
        assert outcome.error_m == pytest.approx(apart_m, abs=0.01)
        assert outcome.certified == (method in ("adaptive", sure))
        assert outcome.queries == len(outcome.result.trace.steps) > 3
        # What was found, and nothing true: it ends up in logs.
        said = f"AttackOutcome(found, error_m={outcome.error_m:.0f}, queries={outcome.queries}"
        assert repr(outcome) == said + ")" * (not outcome.certified) + ", certified)" * outcome.certified


def test_users_from_anywhere_need_no_region(points: FloatArray) -> None:
    """Users of two cities: those of the larger one are attacked, by the rows that they were given in."""
    fiji = points[:40] - points.mean(axis=0) + [-18.0, 179.99]
    fiji[:, 1] = (fiji[:, 1] + 180) % 360 - 180
    service = nv.simulate(np.vstack([fiji, points]), k=5)
    assert repr(service) == "Simulation(400 users, k=5)"
    assert "400 of 440 users" in service.area.note
    assert nv.attack(service, target=57).found
    with pytest.raises(UsageError, match="outside the densest area"):
        nv.attack(service, target=3)
    around = nv.simulate(np.vstack([fiji, points]), k=5, around=3)
    assert len(around.places) == 40
    assert nv.attack(around, target=3).found


def test_anything_that_answers_can_be_attacked(points: FloatArray, san_francisco: Region) -> None:
    service = SimulatedService(san_francisco, san_francisco.to_metres(points), rng=1)
    start, truth = tuple(points[17] + 0.0005), tuple(points[17])
    oracle = service.oracle(k=10, accounts=2)
    outcome = nv.attack(oracle, target=17, start=start, region=san_francisco, truth=truth)
    assert outcome.found
    assert outcome.queries == oracle.queries
    unknown = nv.attack(service.oracle(k=10, accounts=2), target=17, start=start, region=san_francisco)
    assert (unknown.error_m, unknown.found, unknown.certified) == (None, False, True)
    assert repr(unknown) == f"AttackOutcome(queries={unknown.queries}, certified)"
    with pytest.raises(UsageError, match="truth"):
        unknown.save("attack.png")


def test_pictures(points: FloatArray, tmp_path: Path) -> None:
    outcome = nv.attack(nv.simulate(points), target=17)
    for name in ("attack.png", "attack.html"):
        outcome.save(tmp_path / name)
    assert (tmp_path / "attack.png").read_bytes().startswith(b"\x89PNG")
    assert "shows true locations, keep it private" in (tmp_path / "attack.html").read_text(encoding="utf-8")
    assert (tmp_path / "attack.html").stat().st_mode & 0o777 == 0o600
    with pytest.raises(OutputError, match="exists already"):
        outcome.save(tmp_path / "attack.png")
    with pytest.raises(UsageError, match="end it in"):
        outcome.save(tmp_path / "a.gif")
    assert len(list(tmp_path.iterdir())) == 2


def test_services_and_attacks_that_cannot_be(points: FloatArray, san_francisco: Region) -> None:
    with pytest.raises(UsageError, match="k must lie between 1 and the number of users, 3; give k=3"):
        nv.simulate(points[:3])
    with pytest.raises(UsageError, match="another region"):
        nv.simulate(points, mechanism=nv.Square(region="paris"), region="san-francisco")
    with pytest.raises(DataError, match="outside the region"):
        nv.simulate(points, region="paris")
    with pytest.raises(UsageError, match=r"k= .* leave it out"):
        nv.simulate(points, answers="distance:1km", k=5)
    with pytest.raises(UsageError, match=r"k= .* leave it out"):
        nv.simulate(points, policy="check-in-500m", k=5)
    with pytest.raises(UsageError, match="is for ranked lists"):
        nv.simulate(points, answers="distance:1km", policy="drop:0.1")
    open_one = nv.simulate(points)
    oracle = SimulatedService(san_francisco, san_francisco.to_metres(points)).oracle(k=10, accounts=1)
    for service, options, says in (
        (open_one, {"target": 400}, "0 to 399"),
        (open_one, {"target": 1, "method": "nobodys"}, "no attack"),
        (open_one, {"target": 1, "accounts": 40}, "1 to 32"),
        (open_one, {"target": 1, "tau_m": 0.5}, "at least 1 m"),
        (open_one, {"target": 1, "truth": (37.7, -122.4)}, "leave region and truth out"),
        (oracle, {"target": 1, "region": san_francisco}, "where the attack begins"),
        (oracle, {"target": 1, "start": (37.7, -122.4)}, "where the service is"),
        (points, {"target": 1}, "nv.simulate"),
    ):
        with pytest.raises(UsageError, match=says):
            nv.attack(service, **options)  # type: ignore[arg-type]


def test_several_users_and_what_protection_changes(points: FloatArray) -> None:
    def attacked(mechanism: nv.Mechanism | None = None) -> nv.PopulationAttack:
        service = nv.simulate(points, k=5, mechanism=mechanism, name="a town")
        return nv.attack_population(service, attacks=["gi-lia", "adaptive"], users=3, accounts=2)

    found = attacked()
    assert [(row.attack, row.accounts, row.users) for row in found.rows] == [("gi-lia", 1, 3), ("adaptive", 2, 3)]
    # Three users, not one three times.
    assert len({one.target for one in found.instances}) == 3
    (sentence,) = found.sentences
    assert sentence == f"3 of 3 users found within 100 m, {found.rows[1].queries.value:.0f} queries each."
    assert repr(found) == f"PopulationAttack({sentence})"
    hidden = attacked(nv.PlanarLaplace(noise_m=2000))
    assert hidden.protection is not None
    assert hidden.protection["found"].value < 0.5
    assert hidden.protection["listed_m"].value > 1.5 * hidden.protection["nearest_m"].value
    first, best, cost = hidden.sentences
    assert first.startswith("0 of 3 users found within 100 m, ")
    assert best.startswith("The best attacker, who knows the noise and every address, finds ")
    assert cost.startswith("The 5 users listed are on average ")
    example = hidden.example()
    assert (example.result.attack, example.title) == ("adaptive", "adaptive on a town, protected")
    assert example.published is not None
    # What is found is the published location.
    assert not example.found
    assert math.dist(example.result.estimate or (0, 0), example.published) < 100
    assert hidden.rows[1].published_found == 3
