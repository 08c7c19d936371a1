"""The paper's theorems: what Theorem 3 claims put to an audit, and a counterexample for each that does not hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.integrate import quad

from nearveil.audit.auditor import audit
from nearveil.audit.subjects import MechanismSubject
from nearveil.evaluation import paper
from nearveil.evaluation.studies.figure8 import PART as FIGURE8
from nearveil.evaluation.studies.protected import CENTERS, seed_of
from nearveil.evaluation.study import Part, Scope, generator
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.dprs import DPRS
from nearveil.privacy.accounting import Noise, gaussian_log_moment, laplace_log_moment

_SAMPLES, _QUICK_SAMPLES = 400_000, 100_000
_DRAWS = 40_000


AUDITED = "theorem3"


class Shown(NamedTuple):
    """What a theorem says of an example, and what is the case."""

    claimed: float
    found: float


def confined_divergence() -> Shown:
    """Lemma 5, on which Theorem 2 rests: the divergence of Laplace noise before and after it is confined to [-1, 1]."""
    order = 8

    def moment(low: float, high: float, first: float, second: float) -> float:
        def integrand(t: float) -> float:
            return float((math.exp(-abs(t - 1)) / first) ** order * (math.exp(-abs(t)) / second) ** (1 - order))

        return float(quad(integrand, low, high, points=[0, 1])[0])

    mass = {at: quad(lambda t, at=at: math.exp(-abs(t - at)), -1, 1, points=[0])[0] for at in (0, 1)}
    before = math.log(moment(-50, 50, 2, 2)) / (order - 1)
    return Shown(before, math.log(moment(-1, 1, mass[1], mass[0])) / (order - 1))


def laplace_sensitivity() -> Shown:
    """Theorem 2 counts a shift of 1 in each coordinate of [-1, 1]², where two users differ by up to 2."""
    (_, lambda_p), alpha = paper.scales_for(1.0), paper.least_order(1.0)
    claimed, found = (2 * laplace_log_moment(alpha, lambda_p, shift) for shift in (1.0, 2.0))
    return Shown(claimed, found)


def gaussian_sensitivity() -> Shown:
    """Theorem 5 counts a distance of √2, where the diagonal of [-1, 1]² is 2√2."""
    (_, sigma), alpha = paper.scales_for(1.0, noise="gaussian"), paper.least_order(1.0, noise="gaussian")
    claimed, found = (gaussian_log_moment(alpha, sigma, root) for root in (2**0.5, 2 * 2**0.5))
    return Shown(claimed, found)


def displacement(noise: Noise) -> Shown:
    """Theorems 6 and 8 bound the displacement for the whole square; at a corner it is larger."""
    bound = paper.theorem_8 if noise == "laplace" else paper.theorem_6
    return Shown(bound(0.1), paper.expected_displacement(np.array([1.0, 1.0]), 0.1, noise=noise))


def printed_bound() -> Shown:
    """Algorithm 2 tests with norm 1 whether x is inside the disc, and so takes too small an M where it is not."""
    x = np.array([0.55, 0.55])
    moved = paper.rsm(np.tile(x, (_DRAWS, 1)), np.zeros((_DRAWS, 2)), np.ones(_DRAWS), 0.1, generator(1, 0, 1), norm=1)
    return Shown(paper.expected_displacement(x, 0.1), float(np.abs(moved - x).sum(axis=1).mean()))


class Example(NamedTuple):
    """What is shown of a theorem; without a function it is the theorem that holds."""

    theorem: str
    says: str
    what: str
    shown: Callable[[], Shown] | None = None


EXAMPLES = {
    "theorem1": Example(
        "Theorem 1", "PIC is (α, ε_c/(α-1))-RDP",
        "one user more or less; first centers and range of the data public",
    ),
    "theorem2": Example(
        "Theorem 2", "RSM is (α, ε_p/(α-1))-RDP", "cost ε_p, counted with a shift of 1 and of 2", laplace_sensitivity
    ),
    AUDITED: Example("Theorem 3", "DPRS is (ε, δ)-differentially private", "audits, below"),
    "lemma5": Example(
        "Lemma 5", "confining noise does not raise the divergence", "divergence of order 8, before and after",
        confined_divergence,
    ),
    "theorem4": Example("Theorem 4", "Gaussian RSM draws the density that it should", "its norm is the Euclidean one"),
    "theorem5": Example(
        "Theorem 5", "Gaussian RSM is (α, α|μ|²/2σ²)-RDP", "cost, with |μ| = √2 and 2√2", gaussian_sensitivity
    ),
    "theorem6": Example(
        "Theorem 6", "Gaussian RSM moves nobody farther than a bound, on average",
        "mean displacement at a corner of the square, σ = 0.1", partial(displacement, "gaussian"),
    ),
    "theorem7": Example(
        "Theorem 7", "RSM, as Algorithm 2 is printed, draws the density that it should",
        "mean displacement of x = (0.55, 0.55), λ = 0.1, by that density and as printed (norm 1 in line 1)",
        printed_bound,
    ),
    "theorem8": Example(
        "Theorem 8", "Laplace RSM moves nobody farther than a bound, on average",
        "mean displacement at a corner of the square, λ = 0.1", partial(displacement, "laplace"),
    ),
}  # fmt: skip


def _grid(scope: Scope) -> list[dict[str, Any]]:
    samples = _QUICK_SAMPLES if scope.quick else _SAMPLES
    epsilons = scope.epsilons[-1:] if scope.quick else scope.epsilons
    run = {"seed": scope.seed, "run": 0}
    audits = [
        {"dataset": name, "what": AUDITED, "epsilon": epsilon, "samples": samples} | run
        for name in scope.datasets for epsilon in epsilons
    ]  # fmt: skip
    none = {"epsilon": math.nan, "samples": 0}
    return audits + [{"dataset": "nobody", "what": name} | none | run for name in EXAMPLES if name != AUDITED]


def measure(dataset: Dataset, *, what: str, epsilon: float, samples: int, seed: int, run: int) -> dict[str, Any]:
    """Compute one example, or audit the paper's claim for the whole of DPRS."""
    if what != AUDITED:
        shown = EXAMPLES[what].shown
        if shown is None:
            return {"verdict": "holds"}
        claimed, found = shown()
        return {"claimed": claimed, "found": found, "verdict": "violated" if differ(claimed, found) else "not violated"}
    region = dataset.region.with_scaling("isotropic")
    number = seed_of(seed, run)
    dprs = DPRS(release="paper", epsilon=epsilon, centres=CENTERS, region=region, seed=number).fit(dataset.places)
    report = audit(MechanismSubject(dprs), "paper", samples=samples, seed=number % 2**31)
    counts = None if report.witness is None else report.witness.counts
    return {
        "claimed": report.claim.epsilon,
        "found": report.epsilon_lower,
        "verdict": str(report.verdict),
        "event_under_one": None if counts is None else counts.hits / counts.trials,
        "event_under_other": None if counts is None else counts.false_hits / counts.false_trials,
        "confidence": report.confidence,
    }


def differ(claimed: float, found: float) -> bool:
    """Whether more is the case than is claimed, and not by chance: examples by draws are good to a percent."""
    return found > 1.05 * claimed


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    audits, rows = runs[runs.what == AUDITED], []
    for row in runs[runs.what != AUDITED].to_dict("records"):
        example = EXAMPLES[row["what"]]
        verdict = {"violated": "disproved", "holds": "holds"}.get(row["verdict"], row["verdict"])
        found = {} if example.shown is None else {"claimed": row["claimed"], "found": row["found"]}
        first = {"theorem": example.theorem, "it says": example.says, "example": example.what}
        rows.append(first | {"claimed": None, "found": None} | found | {"verdict": verdict})
    names = {
        "dataset": "data set", "epsilon": "epsilon claimed", "found": "loss shown, at least",
        "event_under_one": "event under one location", "event_under_other": "under the other", "verdict": "verdict",
    }  # fmt: skip
    return {"theorems": pd.DataFrame(rows), "theorems-audit": audits[list(names)].rename(columns=names)}


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    audits = runs[runs.what == AUDITED]
    return {"audits": len(audits), "violated": int((audits.verdict == "violated").sum())}


PART = Part("theorems", "Theorems 1 to 8", _grid, measure, _tables, _facts, FIGURE8.populations)
