"""Mechanisms for the auditor to judge: some that keep their promise, some that break it in a small way.

``python -m tests.auditing.judged innocent`` audits the first ones at a confidence of 95 % and counts false alarms; the
bound that it prints is the exact binomial one (Clopper-Pearson), at 95 %.
``python -m tests.auditing.judged broken`` counts how many audits of the others find the fault.
``python -m tests.auditing.judged broken --only "hide among, rate x 1.1" --samples 10000000 --audits 1`` audits a
mechanism that hides among people and falls a tenth faster than certified; ``innocent --only "hide among"`` the one as
certified.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from nearveil import SRR, HideAmong, Mechanism, PlanarLaplace, Square
from nearveil.auditing.auditor import DEFAULT_CONFIDENCE, AuditReport, Verdict, audit
from nearveil.auditing.bounds import clopper_pearson_high
from nearveil.auditing.claims import Claim, own_claim
from nearveil.auditing.pair_search import audit_pairs, place_pairs
from nearveil.auditing.subjects import MechanismSubject, Place, PublishedSubject, Subject, to_plane
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.randomness import NumberedRows, RowKeystream, numbered_rows
from nearveil.region import named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")
SOUND = PlanarLaplace(noise_m=500, region=REGION)
WEAK_PLACE = (37.61, -122.33)
METRIC = Claim(PrivacyDefinition.METRIC, 0.004, 0.0, "0.004 per meter")
LOCAL = Claim(PrivacyDefinition.LOCAL, 1.0, 0.0, "1 for any two places")

Publish = Callable[[FloatArray, np.random.Generator], FloatArray]


class Judged(PublishedSubject):
    """A mechanism seen from outside."""

    def __init__(self, function: Publish) -> None:
        super().__init__(REGION)
        self._function = function

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        return self._function(points, rng)


@dataclass(frozen=True)
class Case:
    """A mechanism, its claim, and a place to look at, if any."""

    publish: Publish
    claim: Claim = METRIC
    place: Place | None = None

    @property
    def subject(self) -> Subject:
        return Judged(self.publish)

    def audit(self, samples: int, seed: int, confidence: float = DEFAULT_CONFIDENCE) -> AuditReport:
        pairs = audit_pairs(REGION, self.claim)
        if self.place is not None:
            pairs += place_pairs(REGION, self.place, self.claim)
        search = self.place is None
        return audit(self.subject, self.claim, pairs, samples=samples, confidence=confidence, seed=seed, search=search)


@dataclass(frozen=True)
class OwnCase:
    """One of our mechanisms, which states its claim itself and is audited at the draw, with its density."""

    make: Callable[[], Mechanism]

    @property
    def claim(self) -> Claim:
        return own_claim(self.make().guarantee)

    @property
    def subject(self) -> Subject:
        return MechanismSubject(self.make())

    def audit(self, samples: int, seed: int, confidence: float = DEFAULT_CONFIDENCE) -> AuditReport:
        return audit(self.make(), samples=samples, confidence=confidence, seed=seed)


@cache
def hiding_among_200() -> HideAmong:
    """5,000 people in 606 cells from 140 m to 4 km wide."""
    plan = CellPlan(hide_among=200)
    return HideAmong(200, cells=cells_from_points(synthetic_city(5000, REGION, rng=3), REGION, plan))


def falling_faster() -> HideAmong:
    """The rate is a tenth larger than certified, and the statement is unchanged."""
    return hiding_among_200().rescaled(1 / 1.1)


def other_stream(rows: RowKeystream) -> NumberedRows:
    """Rows that draw independently of the given ones, and always the same."""
    return NumberedRows(rows.blocks(1 << 40)[0].tobytes(), 0, len(rows))


# -- broken ------------------------------------------------------------------------------------------------------

NARROW = SOUND.rescaled(0.95)


def noise(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Metres east and north."""
    return to_plane(np.zeros(2), SOUND.draw(np.zeros_like(points), numbered_rows(len(points), rng)))


POOL = noise(np.zeros((100_000, 2)), np.random.default_rng(9))


def moved(points: FloatArray, metres: FloatArray) -> FloatArray:
    return REGION.clip(REGION.from_metres(REGION.to_metres(points) + metres))


def whole_metres(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The true place modulo 1 m is kept."""
    return moved(points, np.round(noise(points, rng)))


def whole_metres_rounded(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The same, published with six decimals."""
    return np.round(whole_metres(points, rng), 6)


def degrees(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Noise in degrees, a metre taken for 1 / 111,320 of a degree."""
    east, north = noise(points, rng).T
    return np.column_stack([north, east / np.cos(np.radians(points[:, 0]))]) / 111_320


def five_decimals(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The noise is rounded and not the place: the sixth decimal and all below are the true ones."""
    return REGION.clip(points + np.round(degrees(points, rng), 5))


def whole_metres_in_degrees(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Whole metres by a rough formula, so that the period in longitude depends on the latitude."""
    east, north = np.round(noise(points, rng)).T
    moves = np.column_stack([north, east / np.cos(np.radians(points[:, 0]))]) / 111_320
    return REGION.clip(points + moves)


def skipped(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One in a thousand is published as it is."""
    return np.where(rng.random((len(points), 1)) < 1e-3, points, SOUND.perturb(points, rng))


def pooled(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """100,000 vectors of noise, used again and again."""
    return moved(points, POOL[rng.integers(len(POOL), size=len(points))])


def patched(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A disc of 300 m across with a third of the noise."""
    away = REGION.to_metres(points) - REGION.to_metres([WEAK_PLACE])
    share = np.where(np.hypot(*away.T) < 150, 1 / 3, 1.0)
    return moved(points, noise(points, rng) * share[:, None])


def narrow(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A twentieth less noise."""
    return NARROW.perturb(points, rng)


BROKEN: dict[str, Case | OwnCase] = {
    "true place modulo 1 m": Case(whole_metres),
    "the same, rounded to 0.1 m": Case(whole_metres_rounded),
    "whole metres, in degrees": Case(whole_metres_in_degrees),
    "noise of five decimals": Case(five_decimals),
    "noise skipped, 1 in 1,000": Case(skipped),
    "a pool of 100,000 vectors": Case(pooled),
    "300 m with a third": Case(patched),
    "300 m, --place": Case(patched, place=(37.6105, -122.3295)),
    "scale x 0.95": Case(narrow),
    "hide among, rate x 1.1": OwnCase(falling_faster),
}


# -- innocent: the claims are true by proof, and for most of them no smaller one would be ------------------------


def rounded(decimals: int) -> Publish:
    """An output grid: rounding a published place adds nothing to the loss."""
    return lambda points, rng: REGION.clip(np.round(SOUND.perturb(points, rng), decimals))


def wider_in_places(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Three times the noise for whoever is published in the north-east: that looks at the published place only."""
    published = SOUND.perturb(points, rng)
    there = np.all(published > REGION.centre, axis=1, keepdims=True)
    more = noise(points, rng) * 3
    return REGION.clip(np.where(there, REGION.from_metres(REGION.to_metres(published) + more), published))


def heavy_tails(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Noise of density (1 + r²/s²)^(-3/2): its logarithm falls by at most 1.5 / s per meter, 0.004 at s = 375 m."""
    east_north = rng.standard_normal((len(points), 2)) / np.abs(rng.standard_normal((len(points), 1)))
    return REGION.clip(REGION.from_metres(REGION.to_metres(points) + 375 * east_north))


def uniform(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    return rng.uniform((REGION.south, REGION.west), (REGION.north, REGION.east), points.shape)


def randomised_response(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """East or west, true with odds of e to one: the loss is 1 exactly."""
    north, east = REGION.centre
    says_east = (points[:, 1] > east) == (rng.random(len(points)) < math.e / (1 + math.e))
    return np.column_stack([np.full(len(points), north), east + np.where(says_east, 0.1, -0.1)])


INNOCENT: dict[str, Case | OwnCase] = {
    "planar Laplace": Case(SOUND.perturb),
    "on a grid of 0.1 m": Case(rounded(6)),
    "on a grid of 110 m": Case(rounded(3)),
    "on a grid of 1.1 km": Case(rounded(2)),
    "wider noise in places": Case(wider_in_places),
    "heavy tails": Case(heavy_tails),
    "uniform, epsilon = 0": Case(uniform, Claim(PrivacyDefinition.LOCAL, 0.0, 0.0, "nothing is lost")),
    "randomised response": Case(randomised_response, LOCAL),
    "Square": Case(Square(epsilon=1.0, region="san-francisco").perturb, LOCAL),
    "SRR": Case(SRR(epsilon=1.0, levels=4, region="san-francisco").perturb, LOCAL),
    "hide among": OwnCase(hiding_among_200),
}


def main() -> None:
    """Audit all of one sort and print how many were accused."""
    parser = argparse.ArgumentParser(description="Audit mechanisms that keep their promise, or that break it.")
    parser.add_argument("sort", choices=("innocent", "broken"))
    parser.add_argument("--only", choices=(*INNOCENT, *BROKEN), help="one mechanism (all)")
    parser.add_argument("--audits", type=int, default=12, help="audits of each mechanism (12)")
    parser.add_argument("--samples", type=int, default=100_000, help="outputs drawn in each audit (100,000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first audit (1)")
    options = parser.parse_args()
    cases, confidence = (INNOCENT, 0.95) if options.sort == "innocent" else (BROKEN, DEFAULT_CONFIDENCE)
    accused = audits = 0
    for name, case in cases.items():
        if options.only not in (None, name):
            continue
        seeds = range(options.seed, options.seed + options.audits)
        reports = [case.audit(options.samples, seed, confidence) for seed in seeds]
        violated = sum(report.verdict is Verdict.VIOLATED for report in reports)
        shown = float(np.median([report.epsilon_lower for report in reports]))
        print(
            f"{name:28} {violated} of {len(reports)} accused; epsilon {case.claim.epsilon:.4g} claimed, "
            f"{shown:.4g} shown (median)",
            flush=True,
        )
        accused, audits = accused + violated, audits + len(reports)
    if options.sort == "innocent":
        bound = float(clopper_pearson_high(accused, audits, 0.05))
        print(f"{accused} of {audits} accused: at most {bound:.3f} of true claims, with 95 % confidence")


if __name__ == "__main__":
    main()
