"""False alarms of the auditor: audits of mechanisms whose claims are true, at a confidence of 95 %.

Run ``python -m benchmarks.null_audits``. Each mechanism's claim is true by proof, and for most of them no smaller one
would be. The printed bound on the rate of false alarms is the exact binomial one (Clopper-Pearson), at 95 %.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from nearveil import SRR, PlanarLaplace, Square
from nearveil.audit.auditor import audit
from nearveil.audit.claim import Claim
from nearveil.audit.lower_bound import clopper_pearson_high
from nearveil.audit.pair_choice import audit_pairs
from nearveil.audit.report import AuditReport, Verdict
from nearveil.audit.subject import PublishedSubject
from nearveil.privacy.guarantee import Notion
from nearveil.region_names import named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")
CONFIDENCE = 0.95

Publish = Callable[[FloatArray, np.random.Generator], FloatArray]

_LAPLACE = PlanarLaplace(hide_within_m=500)
_SQUARE = Square(epsilon=1.0)
_SRR = SRR(epsilon=1.0, levels=4)
_METRIC = Claim(Notion.METRIC, 0.004, 0.0, "0.004 per metre")
_LOCAL = Claim(Notion.LOCAL, 1.0, 0.0, "1 for any two places")


class Innocent(PublishedSubject):
    """A mechanism that keeps its promise, seen from outside."""

    def __init__(self, function: Publish) -> None:
        super().__init__(REGION)
        self._function = function

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Publish a place for every row."""
        return self._function(points, rng)


def _rounded(decimals: int) -> Publish:
    """An output grid: rounding a published place adds nothing to the loss."""
    return lambda points, rng: REGION.clip(np.round(_LAPLACE.perturb(points, rng), decimals))


def _wider_in_places(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Three times the noise for whoever is published in the north-east: that looks at the published place only."""
    published = _LAPLACE.perturb(points, rng)
    there = (published > REGION.centre).all(axis=1)[:, None]
    more = _LAPLACE.draw(np.zeros_like(points), rng) * 3
    return REGION.clip(np.where(there, REGION.from_metres(REGION.to_metres(published) + more), published))


def _heavy_tails(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Noise of density (1 + r²/s²)^(-3/2): its logarithm falls by at most 1.5 / s per metre, 0.004 at s = 375 m."""
    east_north = rng.standard_normal((len(points), 2)) / np.abs(rng.standard_normal((len(points), 1)))
    return REGION.clip(REGION.from_metres(REGION.to_metres(points) + 375 * east_north))


def _uniform(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    return rng.uniform((REGION.south, REGION.west), (REGION.north, REGION.east), points.shape)


def _randomised_response(points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """East or west, true with odds of e to one: the loss is 1 exactly."""
    north, east = REGION.centre
    says_east = (points[:, 1] > east) == (rng.random(len(points)) < math.e / (1 + math.e))
    return np.column_stack([np.full(len(points), north), east + np.where(says_east, 0.1, -0.1)])


INNOCENT: dict[str, tuple[Publish, Claim]] = {
    "planar Laplace": (_LAPLACE.perturb, _METRIC),
    "on a grid of 110 m": (_rounded(3), _METRIC),
    "on a grid of 1.1 km": (_rounded(2), _METRIC),
    "wider noise in places": (_wider_in_places, _METRIC),
    "heavy tails": (_heavy_tails, _METRIC),
    "uniform, epsilon = 0": (_uniform, Claim(Notion.LOCAL, 0.0, 0.0, "nothing is lost")),
    "randomised response": (_randomised_response, _LOCAL),
    "Square": (_SQUARE.perturb, _LOCAL),
    "SRR": (_SRR.perturb, _LOCAL),
}


def audit_innocent(name: str, samples: int, seed: int) -> AuditReport:
    """Audit one of them from outside."""
    function, claim = INNOCENT[name]
    pairs = audit_pairs(REGION, claim)
    return audit(Innocent(function), claim, pairs, samples=samples, confidence=CONFIDENCE, seed=seed)


def main() -> None:
    """Audit all of them and print how many were accused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=20, help="audits of each mechanism (20)")
    parser.add_argument("--samples", type=int, default=100_000, help="outputs drawn in each audit (100,000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first audit (1)")
    options = parser.parse_args()
    accused = audits = 0
    for name in INNOCENT:
        seeds = range(options.seed, options.seed + options.audits)
        reports = [audit_innocent(name, options.samples, seed) for seed in seeds]
        violated = sum(report.verdict is Verdict.VIOLATED for report in reports)
        untested = sum(report.verdict is Verdict.INCONCLUSIVE for report in reports)
        shown = float(np.median([report.epsilon_lower for report in reports]))
        claimed = reports[0].claim.epsilon
        print(
            f"{name:24} {violated} of {len(reports)} accused, {untested} inconclusive; "
            f"epsilon {claimed:.4g} claimed, {shown:.4g} shown (median)",
            flush=True,
        )
        accused, audits = accused + violated, audits + len(reports)
    bound = float(clopper_pearson_high(accused, audits, 0.05))
    print(f"{accused} of {audits} accused: at most {bound:.3f} of true claims, with 95 % confidence")


if __name__ == "__main__":
    main()
