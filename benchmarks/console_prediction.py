"""What noise in meters or "hide among" costs and gives, measured on the synthetic city: the figures of the console.

``python -m benchmarks.console_prediction`` measures them again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

from nearveil.attacks.bayes import BayesAttacker, prior_from_points
from nearveil.attacks.channels import DensityChannel, Likelihood
from nearveil.attacks.scores import score_attacker
from nearveil.evaluation.utility import draw_queries, measure_utilities
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import Region, named_region
from nearveil.report.land import land_in
from nearveil.server.console.demonstration import hidden_among, published_m, snapped
from nearveil.types import FloatArray, IntArray

NOISE_M = (50.0, 70.0, 100.0, 140.0, 200.0, 280.0, 400.0, 500.0, 700.0, 1000.0, 1400.0, 2000.0)
HIDE_AMONG = (20, 50, 100, 200, 500, 1000)
TAU_M = 100.0
_KS = (10, 50)
_QUERIES, _TARGETS, _RUNS = 4_000, 400, 5
_NEIGHBOR = 50
_AT_ONCE = 50
FIGURES = resources.files("nearveil.server.console").joinpath("prediction.json")


@dataclass(frozen=True, slots=True)
class PlaceChannel:
    """Noise per place as the best attacker sees it: everybody in a cell is published from the cell's centre."""

    noise: PlanarLaplace

    @property
    def region(self) -> Region:
        """Where everybody is."""
        return self.noise.resolved_region

    @property
    def prepares_fast(self) -> bool:
        """Densities need no preparation."""
        return True

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for people at these places."""
        return DensityChannel(self.noise).at(snapped(places_m, self.noise.noise_m))


def measure(protection: Protection, places: FloatArray, run: int, *, attacked: int = _TARGETS) -> dict[str, float]:
    """Publish everybody once, ask from where people are, and let the best attacker guess."""
    among, region = protection.among, protection.region
    strength = protection.planar.noise_m if among is None else among.hide_among
    rng = np.random.default_rng([run, round(strength)])
    channel = PlaceChannel(protection.planar) if among is None else DensityChannel(among)
    true_m = region.to_metres(places)
    served_m = published_m(true_m, protection, rng)
    queries = draw_queries(true_m, region, "users", _QUERIES, rng)
    utilities = measure_utilities(true_m, served_m, queries, ks=_KS)
    attacker = BayesAttacker(mechanism=channel, prior=prior_from_points(places, region), tau_m=TAU_M)
    targets = rng.choice(len(places), size=attacked, replace=False)
    served = region.publish(region.from_metres(served_m))
    errors_m = score_attacker(attacker, places[targets], served[targets])
    sparsest = rng.choice(sparsest_tenth(true_m), size=attacked, replace=False)
    likelihood = channel.at(true_m)
    return {
        **{f"recall_{k}": utility.recall for k, utility in zip(_KS, utilities, strict=True)},
        "error_m": float(errors_m["median"].mean()),
        "within_100_m": float((errors_m["best_disc"] <= TAU_M).mean()),
        "named": named(likelihood, served, targets),
        "named_sparsest": named(likelihood, served, sparsest),
    }


def sparsest_tenth(places_m: FloatArray) -> IntArray:
    """Return the tenth of people whose 50th neighbor is farthest away."""
    away_m = KDTree(places_m).query(places_m, k=[_NEIGHBOR + 1])[0][:, 0]
    return np.argsort(away_m, kind="stable")[-len(places_m) // 10 :]


def named(likelihood: Likelihood, served: FloatArray, targets: IntArray) -> float:
    """Return how often the likeliest address is the target's own; several that are equally likely share."""
    found = []
    for part in np.array_split(targets, max(1, len(targets) // _AT_ONCE)):
        logs = likelihood(served[part])
        likeliest = logs >= logs.max(axis=0) - 1e-9
        found.append(likeliest[part, np.arange(len(part))] / likeliest.sum(axis=0))
    return float(np.concatenate(found).mean())


def _main() -> None:
    region = named_region("san-francisco")
    places = synthetic_city(PEOPLE, region, rng=SEED, land=land_in(region))

    def mean(protection: Protection) -> dict[str, float]:
        runs = [measure(protection, places, run) for run in range(1, _RUNS + 1)]
        return {name: round(float(np.mean([run[name] for run in runs])), 4) for name in runs[0]}

    document = {
        "population": f"{PEOPLE:,} made-up people on land in the San Francisco region",
        "protocol": (
            f"Means over {_RUNS} runs. Recall: {_QUERIES:,} questions a run, asked from where people are; "
            f"the person who asks is not counted. Best "
            f"attacker: knows the method, the published place and every address, but not who lives where; {_TARGETS} "
            "people a run. Named: its likeliest address is the right one. Sparsest tenth: those whose "
            f"{_NEIGHBOR}th neighbor is farthest away. Noise per place, one place each, not moved to intervals. "
            f"Cells are from {PEOPLE:,} other people of the same city."
        ),
        "points": [{"noise_m": length_m, **mean(Protection(region=region, noise_m=length_m))} for length_m in NOISE_M],
        "among_points": [
            {"hide_among": people, **mean(Protection(region=region, among=hidden_among(people, region)))}
            for people in HIDE_AMONG
        ],
    }
    Path(str(FIGURES)).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
