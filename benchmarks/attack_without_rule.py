"""How often the adaptive attack certifies a wrong location at a service that answers by no fixed rule.

``python -m benchmarks.attack_without_rule --targets 30`` prints two rows for each kind of service: what happens if the
attack is told that the rule is fixed, which it then believes, and if it is not told. Targets are anywhere in the region
of San Francisco. The last five services do have a fixed rule, and show what the checks cost. Three of them round the
more coarsely, the farther away somebody is.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Outcome
from nearveil.attacks.oracle import CountedDistance, CountedFilter, Point, Radii
from nearveil.region import named_region
from nearveil.report.text_table import text_table

_NOISE_M = 200.0


def rounds_by_chance(target: Point, rng: np.random.Generator) -> CountedDistance | CountedFilter:
    """Show whole kilometres, up or down by chance, right on average."""
    return CountedDistance(lambda place: math.floor(math.dist(place, target) / 1000 + rng.random()))


def noisy_distance(target: Point, rng: np.random.Generator) -> CountedDistance | CountedFilter:
    """Add noise to every distance before it is rounded."""
    return CountedDistance(lambda place: max(0, round((math.dist(place, target) + rng.normal(0, _NOISE_M)) / 1000)))


def noisy_filter(target: Point, rng: np.random.Generator) -> CountedDistance | CountedFilter:
    """Add noise to every distance before it is compared."""
    return CountedFilter(
        lambda place, radius_m: math.dist(place, target) + rng.normal(0, _NOISE_M) <= radius_m,
        radii=Radii(step_m=1000.0),
    )


def lying_filter(target: Point, rng: np.random.Generator) -> CountedDistance | CountedFilter:
    """Say the opposite in a quarter of all answers."""
    return CountedFilter(
        lambda place, radius_m: (math.dist(place, target) <= radius_m) != (rng.random() < 0.25),
        radii=Radii(step_m=1000.0),
    )


def plain_distance(target: Point, rng: np.random.Generator) -> CountedDistance | CountedFilter:
    """Show whole kilometres, rounded down."""
    del rng
    return CountedDistance(lambda place: math.dist(place, target) // 1000)


def plain_filter(target: Point, rng: np.random.Generator) -> CountedDistance | CountedFilter:
    """Compare distances as they are."""
    del rng
    return CountedFilter(lambda place, radius_m: math.dist(place, target) <= radius_m, radii=Radii(step_m=1000.0))


def graded(near_m: float, step_m: float) -> Callable[[Point, np.random.Generator], CountedDistance | CountedFilter]:
    """Show steps of some metres as far as that, and whole kilometres beyond, to the nearest."""

    def service(target: Point, rng: np.random.Generator) -> CountedDistance | CountedFilter:
        del rng

        def shown(place: Point) -> float:
            distance_m = math.dist(place, target)
            step = step_m if distance_m < near_m else 1000.0
            return step * round(distance_m / step)

        return CountedDistance(shown)

    return service


def two_digits(target: Point, rng: np.random.Generator) -> CountedDistance | CountedFilter:
    """Show miles with two digits: 0.75, 7.5, 75."""
    del rng
    return CountedDistance(lambda place: float(f"{math.dist(place, target) / 1609.344:.2g}"))


SERVICES: dict[str, Callable[[Point, np.random.Generator], CountedDistance | CountedFilter]] = {
    "km, rounded up or down by chance": rounds_by_chance,
    "km, noise of 200 m in each answer": noisy_distance,
    "filter, noise of 200 m in each answer": noisy_filter,
    "filter, 1 of 4 answers is wrong": lying_filter,
    "km, rounded down": plain_distance,
    "filter": plain_filter,
    "steps of 100 m, beyond 1 km of 1 km": graded(1000.0, 100.0),
    "steps of 500 m, beyond 5 km of 1 km": graded(5000.0, 500.0),
    "miles with two digits": two_digits,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=30)
    targets = parser.parse_args().targets
    region = named_region("san-francisco")
    attack = Adaptive.for_region(region, tau_m=100.0, accounts=1)
    rows = []
    for name, service in SERVICES.items():
        for told in (True, False):
            rng = np.random.default_rng(7)
            certified = wrong_certificates = said = wrong = questions = 0
            errors_m = []
            for x, y in rng.uniform(-1, 1, (targets, 2)) * region.half_extent_m:
                target = (float(x), float(y))
                oracle = service(target, rng)
                oracle.has_fixed_rule = told
                found = attack.locate(oracle)
                errors_m.append(math.dist(found.estimate or target, target))
                is_found = found.outcome is Outcome.FOUND
                is_wrong = is_found and errors_m[-1] > attack.tau_m
                questions += found.queries
                said, certified = said + is_found, certified + found.certified
                wrong, wrong_certificates = wrong + is_wrong, wrong_certificates + (found.certified and is_wrong)
            counts = map(str, (targets, certified, wrong_certificates, said, wrong))
            near = sum(error_m <= attack.tau_m for error_m in errors_m)
            figures = f"{questions / targets:.1f}", f"{np.median(errors_m):,.0f}", str(near)
            rows.append([name, "yes" if told else "no", *counts, *figures])
    headers = [
        "service", "told it is fixed", "attacks", "certified", "wrongly", "found", "wrongly", "questions",
        "median error (m)", "within 100 m",
    ]  # fmt: skip
    print(text_table(headers, rows))


if __name__ == "__main__":
    main()
