"""What a "hide within" costs and gives, measured on the made-up city; ``python -m`` this module measures it again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.attacks.bayes import BayesAttacker, prior_from_points, score_attacker
from nearveil.attacks.channels import DensityChannel, Likelihood
from nearveil.evaluation.utility import draw_queries, measure_utilities
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.region import Region, named_region
from nearveil.report.maps import land_in
from nearveil.server.console.demonstration import published_m, snapped
from nearveil.types import FloatArray

HIDE_WITHIN_M = (50.0, 70.0, 100.0, 140.0, 200.0, 280.0, 400.0, 500.0, 700.0, 1000.0, 1400.0, 2000.0)
TAU_M = 100.0
_KS = (10, 50)
_QUERIES, _TARGETS, _RUNS = 4_000, 400, 5
_FILE = "prediction.json"


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
        return DensityChannel(self.noise).at(snapped(places_m, self.noise.hide_within_m))


def measure(hide_within_m: float, places: FloatArray, region: Region, run: int) -> dict[str, float]:
    """Publish everybody once, ask from where people are, and let the best attacker guess."""
    rng = np.random.default_rng([run, round(hide_within_m)])
    noise = PlanarLaplace(hide_within_m=hide_within_m, region=region)
    true_m = region.to_metres(places)
    served_m = published_m(true_m, noise, rng)
    queries = draw_queries(true_m, region, "users", _QUERIES, rng)
    utilities = measure_utilities(true_m, served_m, queries, ks=_KS)
    attacker = BayesAttacker(
        mechanism=PlaceChannel(noise), prior=prior_from_points(places, region, spread_m=0.0), tau_m=TAU_M
    )
    targets = rng.choice(len(places), size=_TARGETS, replace=False)
    served = region.publish(region.from_metres(served_m))
    score = score_attacker(attacker, places, served, targets=targets, leave_out=False)
    return {
        **{f"recall_{utility.k}": utility.recall for utility in utilities},
        "error_m": score.median.error_m.value,
        "within_100_m": score.best_disc.accuracy.value,
    }


def predictions() -> dict[str, Any]:
    """Return the figures that are shipped."""
    return json.loads(_text())  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _text() -> str:
    return resources.files("nearveil.server.console").joinpath(_FILE).read_text(encoding="utf-8")


def _main() -> None:
    region = named_region("san-francisco")
    places = synthetic_city(PEOPLE, region, rng=SEED, land=land_in(region))
    points = []
    for hide_within_m in HIDE_WITHIN_M:
        runs = [measure(hide_within_m, places, region, run) for run in range(1, _RUNS + 1)]
        means = {name: round(float(np.mean([run[name] for run in runs])), 4) for name in runs[0]}
        points.append({"hide_within_m": hide_within_m, **means})
    document = {
        "population": f"{PEOPLE:,} made-up people on land in the San Francisco region",
        "protocol": (
            f"Means over {_RUNS} runs. Recall: {_QUERIES:,} questions a run, asked from where people are; "
            f"the person who asks is not counted. Best "
            f"attacker: knows the method, the published place and every address, but not who lives where; {_TARGETS} "
            "people a run. Noise per place, one place each, not moved to intervals."
        ),
        "points": points,
    }
    Path(__file__).with_name(_FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
