"""Attacks as one call from Python: one user of a service, or a population in numbers."""

import math
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

import nearveil as nv
from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import OutputError, UsageError
from nearveil.region import Region
from nearveil.types import FloatArray, Progress, no_bar


@pytest.fixture(scope="module")
def points() -> FloatArray:
    return np.random.default_rng(5).normal([37.75, -122.44], 0.02, (400, 2))


def test_a_user_is_found(points: FloatArray, san_francisco: Region) -> None:
    sure = Adaptive(half_extent_m=san_francisco.half_extent_m, tau_m=10.0, accounts=3)
    for method, accounts, tau_m in (
        ("gi-lia", 1, 100.0),
        ("unfolding", 1, 100.0),
        ("adaptive", 4, 100.0),
        (sure, 3, 10),
    ):
        service = nv.simulate(points, region=san_francisco)
        outcome = nv.attack(service, target=17, method=method, accounts=accounts, tau_m=tau_m)
        assert outcome.found
        assert outcome.estimate is not None
        apart_m = math.dist(*san_francisco.to_metres([outcome.estimate, tuple(points[17])]))
        assert outcome.error_m == pytest.approx(apart_m, abs=0.01)
        assert outcome.certified == (method in ("adaptive", sure))
        assert outcome.questions == len(outcome.result.trace.steps) > 3
        # Nothing true is in a repr, which ends up in logs.
        assert "truth" not in repr(outcome)
        assert str(points[17, 0])[:7] not in repr(outcome)


def test_anything_that_answers_can_be_attacked(points: FloatArray, san_francisco: Region) -> None:
    service = SimulatedService(san_francisco, san_francisco.to_metres(points), rng=1)
    start, truth = tuple(points[17] + 0.0005), tuple(points[17])
    oracle = service.oracle(k=10, accounts=2)
    outcome = nv.attack(oracle, target=17, start=start, region=san_francisco, truth=truth)
    assert outcome.found
    assert outcome.questions == oracle.queries
    unknown = nv.attack(service.oracle(k=10, accounts=2), target=17, start=start, region=san_francisco)
    assert (unknown.error_m, unknown.found, unknown.certified) == (None, False, True)
    with pytest.raises(UsageError, match="truth"):
        unknown.plot("attack.png")


def test_pictures(points: FloatArray, tmp_path: Path) -> None:
    outcome = nv.attack(nv.simulate(points), target=17)
    for name in ("attack.png", "attack.html"):
        outcome.plot(tmp_path / name)
    assert (tmp_path / "attack.png").read_bytes().startswith(b"\x89PNG")
    assert "shows true locations, keep it private" in (tmp_path / "attack.html").read_text(encoding="utf-8")
    assert (tmp_path / "attack.html").stat().st_mode & 0o777 == 0o600
    with pytest.raises(OutputError, match="exists already"):
        outcome.plot(tmp_path / "attack.png")
    with pytest.raises(UsageError, match="end it in"):
        outcome.plot(tmp_path / "a.gif")
    assert len(list(tmp_path.iterdir())) == 2


def test_services_and_attacks_that_cannot_be(points: FloatArray, san_francisco: Region) -> None:
    with pytest.raises(UsageError, match="k must lie between 1 and the number of people, 400"):
        nv.simulate(points, k=401)
    with pytest.raises(UsageError, match="another region"):
        nv.simulate(points, mechanism=nv.Square(region="paris"), region="san-francisco")
    open_one = nv.simulate(points)
    oracle = SimulatedService(san_francisco, san_francisco.to_metres(points)).oracle(k=10, accounts=1)
    for service, options, says in (
        (open_one, {"target": 400}, "0 to 399"),
        (open_one, {"target": 1, "method": "nobodys"}, "no attack"),
        (open_one, {"target": 1, "accounts": 40}, "1 to 32"),
        (open_one, {"target": 1, "truth": (37.7, -122.4)}, "leave region and truth out"),
        (oracle, {"target": 1, "region": san_francisco}, "where the attack begins"),
        (oracle, {"target": 1, "start": (37.7, -122.4)}, "where the service is"),
    ):
        with pytest.raises(UsageError, match=says):
            nv.attack(service, **options)  # type: ignore[arg-type]


def test_a_population_and_its_example(points: FloatArray) -> None:
    steps: list[str] = []

    def bar(title: str, total: int | None) -> AbstractContextManager[Progress]:
        steps.append(title)
        return no_bar(title, total)

    found = nv.attack_population(
        points, name="a town", attacks=["gi-lia", "adaptive"], ks=(5, 10), accounts=(1, 2), cores=1,
        mechanism=nv.PlanarLaplace(noise_m=2000), protocol=nv.AttackProtocol(runs=1, instances=1), progress=bar,
    )  # fmt: skip
    assert [(row.k, row.attack, row.accounts) for row in found.rows] == [
        (k, *one) for k in (5, 10) for one in (("gi-lia", 1), ("adaptive", 1), ("adaptive", 2))
    ]
    assert found.best is not None
    assert found.best.found.value < 0.5
    assert steps == [f"{what} a town" for what in ("protecting", "attacking", "the best attacker on")]
    example = found.example()
    assert (example.result.attack, example.title) == ("adaptive", "adaptive on a town, protected")
    assert example.published is not None
    # What is found is the published location.
    assert not example.found
    assert math.dist(example.result.estimate or (0, 0), example.published) < 100
