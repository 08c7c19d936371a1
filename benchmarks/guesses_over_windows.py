"""``python -m benchmarks.guesses_over_windows``: what guesses in people's names tell over many budget windows.

The attacker of ``nearveil attack --stolen-key --strategy patient``, on the publisher of a service with its defaults, a
store in memory and a clock that is set. Phones are silent from the first report on.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from scipy import stats

from nearveil.attacks.oracle import Spot
from nearveil.client import guessing
from nearveil.client.guessing import City, Guess, Rules, Victim
from nearveil.io.synthetic import synthetic_city
from nearveil.nearby.publishing import publisher
from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.publisher import Publisher, Report
from nearveil.nearby.stores.base import STEP_M
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")
POPULATION = 20_000
TAU_M = 100.0
SHOWN = (1, 3, 6, 12, 24)


class Service:
    """A publisher whose time passes when it is told to."""

    def __init__(self, people: Sequence[str]) -> None:
        self.protection = Protection(region=REGION)
        self._schedule = self.protection.schedule
        self._now_s = self._schedule.starts_at(700 * self._schedule.epochs_per_window)
        self._store = SqliteStore.in_memory()
        self._publisher = Publisher(self.protection, new_keys(), self._store, clock=lambda: self._now_s)
        self._publisher.add_people(people)

    def stay(self, reports: Sequence[tuple[str, Spot]], epochs: int) -> dict[str, Spot]:
        """Report the same places in some epochs; return what is published of everybody then."""
        for _ in range(epochs):
            self._publisher.receive([Report(person, *spot) for person, spot in reports])
            self._now_s = self._schedule.starts_at(self._publisher.epoch + 1)
            self._publisher.publish_due()
        return {
            person: (x_steps * STEP_M, y_steps * STEP_M)
            for batch in self._store.published()
            for person, (x_steps, y_steps) in zip(batch.people, batch.steps.tolist(), strict=True)
        }

    def begin_window(self) -> None:
        """Go to the beginning of the next window."""
        each = self._schedule.epochs_per_window
        self._now_s = self._schedule.starts_at((self._publisher.epoch // each + 1) * each)
        self._publisher.publish_due()


def main() -> None:
    """Attack, and print how many people are found after some windows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--guesses", type=int, help="guesses near the person in a window; all by default")
    parser.add_argument("--open-end", action="store_true", help="every budget ends at its most, as in older versions")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.open_end:
        for module in (publisher, guessing):
            vars(module)["least_new_places"] = lambda most: most
    places_m = REGION.to_metres(synthetic_city(options.people + POPULATION, REGION, rng=options.seed))
    homes_m = places_m[: options.people]
    names = [f"person-{number}" for number in range(options.people)]
    service = Service(names)
    protection = service.protection
    rules = Rules(
        hide_within_m=protection.hide_within_m or 0.0,
        new_places=protection.new_places,
        dwell_epochs=protection.dwell_epochs,
    )
    city = City(REGION, rules.grid, places_m[options.people :])
    published = service.stay([(name, (x, y)) for name, (x, y) in zip(names, homes_m.tolist(), strict=True)], 1)
    rng = np.random.default_rng(options.seed)
    victims = [Victim(name, city, rules, published[name], rng, guesses_per_window=options.guesses) for name in names]
    print(f"from what is published: {_found(victims, homes_m)}", flush=True)
    for window in range(1, options.windows + 1):
        service.begin_window()
        for victim in victims:
            victim.begin_window()
        _guess(service, victims, protection.dwell_epochs)
        if window in SHOWN or window == options.windows:
            print(f"with guesses in {window} windows: {_found(victims, homes_m)}", flush=True)


def _guess(service: Service, victims: Sequence[Victim], dwell_epochs: int) -> None:
    """Guess until no guess tells anything more in this window."""
    while True:
        chosen = [(victim, victim.choose()) for victim in victims]
        turns: list[tuple[Victim, Guess]] = [(victim, guess) for victim, guess in chosen if guess is not None]
        if not turns:
            return
        published = service.stay([(victim.person, guess.spot) for victim, guess in turns], dwell_epochs)
        for victim, guess in turns:
            victim.observe(guess, published[victim.person])


def _found(victims: Sequence[Victim], homes_m: FloatArray) -> str:
    spots = np.array([victim.belief.best_guess(TAU_M)[0] for victim in victims])
    found = int((np.hypot(*(spots - homes_m).T) <= TAU_M).sum())
    interval = stats.binomtest(found, len(victims)).proportion_ci(0.95)
    return f"{found / len(victims):.3f} (95 % {interval.low:.3f} to {interval.high:.3f}) found within {TAU_M:g} m"


if __name__ == "__main__":
    main()
