"""How often a fit whose claim is true is accused: many audits at a confidence of 0.95.

The tests make a few of them. ``python -m tests.auditing.null_fit_audits 400 1000`` makes 400 audits of 1,000 fits each
for every case, and prints how many accuse and the exact bound (Clopper-Pearson, 95 %) on how often they do.
"""

import sys

from nearveil.auditing.auditor import Verdict
from nearveil.auditing.bounds import clopper_pearson_high
from nearveil.auditing.claims import Claim
from nearveil.auditing.fit import AnswersFit, audit_fit
from nearveil.auditing.fit_witness import Fit, KnowingFit, worst_case_data
from nearveil.mechanisms.fitting import FitPlan, build_intervals
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import Region, named_region

# The whole square is the region, so that a person at the corner changes both sums by 1: the claims are tight.
REGION = named_region("san-francisco").with_scaling("per-axis")
DATA = worst_case_data(REGION, 4)
CONFIDENCE = 0.95
EPSILON = 0.5
GRID = FitPlan(method="private-grid", centres=2)
PIC = FitPlan(method="pic", centres=2, rounds=1)


def intervals_fit(region: Region, plan: FitPlan, budget: float) -> Fit:
    """Return the whole fit as it is published: the centres of the intervals, in the square."""
    return lambda points, rng: build_intervals(points, region, plan, budget, rng=rng).centres


CASES: dict[str, Fit | KnowingFit] = {
    "answers of the private grid": AnswersFit(REGION, GRID, EPSILON),
    "answers of private k-means": AnswersFit(REGION, PIC, 3 / EPSILON),
    "centres of private k-means": intervals_fit(REGION, PIC, 3 / EPSILON),
}
"""Fits that cost exactly `EPSILON`."""


def accusations(fit: Fit | KnowingFit, audits: int, fits: int) -> int:
    """Count the audits that call the claim violated."""
    claim = Claim(PrivacyDefinition.CENTRAL, EPSILON, 0.0, "as it is")
    verdicts = [
        audit_fit(fit, claim, DATA[2:3], REGION, fits=fits, confidence=CONFIDENCE, seed=seed).verdict
        for seed in range(audits)
    ]
    return verdicts.count(Verdict.VIOLATED)


if __name__ == "__main__":
    for name, fit in CASES.items():
        number, each = map(int, sys.argv[1:])
        accused = accusations(fit, number, each)
        bound = float(clopper_pearson_high(accused, number, 0.05))
        print(f"{name}: {accused} of {number} audits accuse; at most {bound:.4f} do, and 0.05 is allowed", flush=True)
