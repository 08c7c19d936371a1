"""Our own auditor about Veil: its law for one location, over keys, without ``known``.

Every row is drawn under a key of its own: 32 secure random bytes stand in for HMAC-SHA-256. So what is audited is the
law that the first sentence of `Veil.guarantee` is about, in the code that `Veil.blur_many` runs. That HMAC-SHA-256
under a secret key looks random is assumed, and traces of several locations are not audited.
"""

import os
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from nearveil.auditing.auditor import Verdict, audit
from nearveil.auditing.claims import Claim
from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import Place
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import named_region
from nearveil.types import FloatArray
from nearveil.veil import Veil
from tests.evidence import for_evidence
from tests.veil.plane import Plane

NOISE_M = 500.0
# On the ellipsoid, by which the auditor measures, distances around these are no shorter than on the sphere.
PLACES: Sequence[Place] = [(52.52, 13.405), (90.0, 0.0), (60.0, 180.0)]


class FreshKeys(Veil):
    """Draws as if the user had a new key for every row."""

    def _digest(self, *_: object) -> bytes:
        return os.urandom(32)


class OneLocation:
    """Veil as the auditor sees it: answers as meters around a center. Its region is not searched."""

    region = named_region("berlin")

    def __init__(self, center: Place) -> None:
        self._plane, self._veil = Plane(center), FreshKeys(bytes(32), NOISE_M)

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        return self.sample_each(np.tile(place, (count, 1)), rng)

    def sample_each(self, places: FloatArray, rng: np.random.Generator) -> FloatArray:
        del rng
        parts = [places[start : start + 100_000] for start in range(0, len(places), 100_000)]
        answers = [np.column_stack(self._veil.blur_many(map(str, range(len(part))), *part.T)) for part in parts]
        return self._plane.meters(np.concatenate(answers))

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        del first, second, outputs
        return None

    def in_outputs(self, place: Place) -> FloatArray:
        return self._plane.meters(np.array([place]))[0]

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        return np.round(self._plane.degrees(outputs), 5)


def pairs(center: Place) -> list[Pair]:
    """Return pairs from side to side of a center, which may be a pole, along both axes."""
    steps = [np.array(axis) * meters / 2 for meters in (150, 400, 900, 1500) for axis in ((0, 1), (1, 0))]
    ends = [Plane(center).degrees(np.array([-step, step])).tolist() for step in steps]
    return [Pair((first[0], first[1]), (second[0], second[1]), "side to side") for first, second in ends]


@pytest.mark.statistical
@pytest.mark.parametrize("samples", [40_000, *for_evidence(10_000_000)])
@pytest.mark.parametrize("center", [PLACES[0], *for_evidence(*((place,) for place in PLACES[1:]))])
def test_an_audit_finds_nothing_and_refutes_a_lower_rate(
    center: Place, samples: int, figure: Callable[..., None]
) -> None:
    """An audit of Veil's law of one location finds nothing, and refutes a rate 10 % lower at 10 million samples.

    A true claim is called violated with a probability of at most 1e-6.
    """
    for share, verdict in ((1.0, Verdict.CONSISTENT), (0.9 if samples > 10**6 else 0.7, Verdict.VIOLATED)):
        claim = Claim(PrivacyDefinition.METRIC, share * 2 / NOISE_M, 0.0, "a test's claim")
        report = audit(OneLocation(center), claim, pairs(center), samples=samples, search=False, seed=1)
        assert report.verdict == verdict
        figure(f"lower bound of the rate at {center}, claimed {claim.epsilon:.4g}", report.epsilon_lower, "per meter")
