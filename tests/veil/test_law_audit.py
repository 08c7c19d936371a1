"""Our own auditor about Veil: its law for one location, over keys, without ``known``.

Every row is drawn under a key of its own: in place of HMAC-SHA-256 stand 32 secure random bytes. So what is audited is
the law that the first sentence of `Veil.guarantee` is about, in the code that `Veil.blur_many` runs. That HMAC-SHA-256
under a secret key looks random is assumed, and traces of several locations are not audited.
"""

import os
from collections.abc import Sequence

import numpy as np
import pytest

from nearveil.audit.auditor import Verdict, audit
from nearveil.audit.claims import Claim
from nearveil.audit.pairs import Pair
from nearveil.audit.subjects import Place
from nearveil.privacy.guarantee import Notion
from nearveil.region import Region
from nearveil.types import FloatArray
from nearveil.veil import R, Veil
from tests.evidence import for_evidence

pytestmark = pytest.mark.statistical

NOISE_M = 500.0


class _FreshKeys(Veil):
    """Draws as if the user had a new key for every row."""

    def _digest(self, *_: object) -> bytes:
        return os.urandom(32)


def unit_vectors(degrees: FloatArray) -> FloatArray:
    phi, lam = np.radians(degrees).T
    return np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])


class OneLocation:
    """Veil as the auditor sees it: answers as meters east and north of a center, seen from above."""

    def __init__(self, center: Place) -> None:
        (south, west), half = center, 0.5
        self.region = Region(
            south=south - half, west=west - half, north=min(90.0, south + half), east=min(180.0, west + half)
        )
        lam = np.radians(center[1])
        up, east = unit_vectors(np.array([center]))[0], np.array([-np.sin(lam), np.cos(lam), 0])
        self._axes = np.array([east, np.cross(up, east), up])
        self._veil = _FreshKeys(bytes(32), NOISE_M)

    def sample(self, place: Place, count: int, rng: np.random.Generator) -> FloatArray:
        return self.sample_each(np.tile(place, (count, 1)), rng)

    def sample_each(self, places: FloatArray, rng: np.random.Generator) -> FloatArray:
        del rng
        users = map(str, range(len(places)))
        return self._in_meters(np.column_stack(self._veil.blur_many(users, *places.T.tolist())))

    def log_ratio(self, first: Place, second: Place, outputs: FloatArray) -> FloatArray | None:
        del first, second, outputs
        return None

    def in_outputs(self, place: Place) -> FloatArray:
        return self._in_meters(np.array([place]))[0]

    def outputs_in_degrees(self, outputs: FloatArray) -> FloatArray:
        flat = outputs / R
        x, y, z = (np.column_stack([flat, np.sqrt(1 - (flat**2).sum(axis=1))]) @ self._axes).T
        return np.round(np.degrees(np.column_stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)])), 5)

    def _in_meters(self, degrees: FloatArray) -> FloatArray:
        return unit_vectors(degrees) @ self._axes[:2].T * R


def pairs(center: Place) -> list[Pair]:
    """Return pairs with the center: to the south, and to the east or, at a pole, across it."""
    latitude, longitude = center
    found = []
    for meters in (150, 400, 900, 1500):
        degrees = np.degrees(meters / R)
        found.append(Pair(center, (latitude - degrees, longitude), "north and south"))
        if latitude == 90:
            ends = (90 - degrees / 2, 0.0), (90 - degrees / 2, 180.0)
        else:
            ends = center, (latitude, longitude + degrees / np.cos(np.radians(latitude)))
        found.append(Pair(*ends, "across the pole" if latitude == 90 else "west and east"))
    return found


# On the ellipsoid, by which the auditor measures, no distance here is shorter than on the sphere.
PLACES: Sequence[Place] = [(52.52, 13.405), (90.0, 0.0), (60.0, 180.0)]


@pytest.mark.parametrize("samples", [80_000, *for_evidence(10_000_000)])
@pytest.mark.parametrize("center", [PLACES[0], *for_evidence(*((place,) for place in PLACES[1:]))])
def test_the_auditor_agrees_with_the_guarantee_and_refutes_a_stronger_one(
    center: Place, samples: int, figure: object
) -> None:
    """An audit of Veil's law of one location finds nothing, and refutes a rate 10 % lower at 10 million samples.

    A true claim is called violated with a probability of at most 1e-6.
    """
    for share, verdict in ((1.0, Verdict.CONSISTENT), (0.9 if samples > 10**6 else 0.7, Verdict.VIOLATED)):
        claim = Claim(Notion.METRIC, share * 2 / NOISE_M, 0.0, "a test's claim")
        report = audit(OneLocation(center), claim, pairs(center), samples=samples, search=False, seed=1)
        print(report.witness.pair if report.witness else None, report.epsilon_lower)
        assert report.verdict == verdict
