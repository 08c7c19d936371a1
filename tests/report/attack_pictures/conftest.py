"""Two attacks to draw: a made-up one that keeps count of what is possible, and a real one that finds circles."""

import numpy as np
import pytest

from nearveil.attacks.base import AttackResult, Outcome, Trace, TraceStep
from nearveil.attacks.gi_lia import GILIA
from nearveil.attacks.simulator import SimulatedService
from nearveil.region import Region
from nearveil.report.attack_scene import Scene
from nearveil.types import FloatArray
from tests.report.attack_pictures.samples import TAU_M

TARGET = 27


@pytest.fixture(scope="session")
def people_m(san_francisco: Region, city: FloatArray) -> FloatArray:
    return san_francisco.to_metres(city)


@pytest.fixture(scope="session")
def adaptive(san_francisco: Region, people_m: FloatArray) -> Scene:
    """Each question leaves squares of half the size."""
    x, y = truth = float(people_m[TARGET, 0]), float(people_m[TARGET, 1])
    steps = [TraceStep((x + 900, y), 20)]
    for half in (20_000.0, 1600.0, 400.0, 60.0):
        cells = np.array([[x - half / 4, y, half / 2], [x + half / 4, y + half, half / 2]])
        steps.append(TraceStep((x + half / 2, y), 3, ((x + 1.2 * half, y - half),), (7,), cells))
    result = AttackResult(
        attack="adaptive",
        outcome=Outcome.FOUND,
        estimate=(x + 10, y + 20),
        queries=len(steps),
        seconds=1.0,
        certified=True,
        trace=Trace(tuple(steps)),
    )
    return Scene(result, san_francisco, people_m, truth, TAU_M)


@pytest.fixture(scope="session")
def gi_lia(san_francisco: Region, people_m: FloatArray) -> Scene:
    start = people_m[TARGET] + [30.0, -20.0]
    target = int(np.argsort(np.hypot(*(people_m - start).T))[9])
    oracle = SimulatedService(san_francisco, people_m, rng=1).oracle(k=20, colluders=1)
    result = GILIA().infer(oracle, target, (float(start[0]), float(start[1])))
    truth = float(people_m[target, 0]), float(people_m[target, 1])
    return Scene(result, san_francisco, people_m, truth, TAU_M)
