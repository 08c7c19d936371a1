"""``python -m benchmarks.guesses_over_windows``: what guesses in people's names tell over many budget windows.

The attacker of ``nearveil attack --stolen-key --strategy patient``, on the publisher of a service with its defaults, a
store in memory and a clock that is set. Phones are silent from the first report on.

``--phones-return`` is another attacker, for phones that report in some hours of every day and are silent in the others.
While a phone is silent, it lets a far place count. When the phone reports again, it reports a guess after it in each
epoch: a wrong guess keeps the person from coming back, and a right one does not, at no cost. With ``--chained`` each
phone sends the receipt of its last report with the next, which the attacker does not have. ``--recreate`` is another
attacker, with the scopes ``people`` and ``report``: at the end of each window it erases people and creates them anew.
The point of the right cell is then the one from before.
"""

import argparse
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import stats

from nearveil.attacks.oracle import Spot
from nearveil.client import guessing
from nearveil.client.guessing import Belief, City, Guess, Rules, Victim
from nearveil.io.synthetic import synthetic_city
from nearveil.nearby.publishing import publisher
from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.publishing.protection import NEAR_SHARE, Cell, Protection
from nearveil.nearby.publishing.publisher import Publisher, Report
from nearveil.nearby.stores.base import STEP_M
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")
POPULATION = 20_000
TAU_M = 100.0
SHOWN = (1, 3, 6, 12, 24)
DAYS = 30
"""Of a window."""
EVENING_EPOCHS = 6
"""In which a phone that returns reports, every day."""


class Service:
    """A publisher whose time passes when it is told to."""

    def __init__(self, people: Sequence[str], *, chained: bool = False) -> None:
        self.chained = chained
        self.refused = 0
        self._receipts: dict[str, str] = {}
        self.protection = Protection(region=REGION)
        self._schedule = self.protection.schedule
        self._now_s = self._schedule.starts_at(700 * self._schedule.epochs_per_window)
        self._store = SqliteStore.in_memory()
        # Without chains: as with --chained-reports if-sent, or where whoever guesses has revoked tokens before.
        self._publisher = Publisher(
            self.protection, new_keys(), self._store, clock=lambda: self._now_s, always_chained=chained
        )
        self._publisher.add_people(people)

    def stay(
        self, guesses: Sequence[tuple[str, Spot]], epochs: int, *, phones: Sequence[tuple[str, Spot]] = ()
    ) -> dict[str, Spot]:
        """Report the same places in some epochs, phones first; return what is published of everybody then."""
        for _ in range(epochs):
            of_phones = [Report(person, *spot, self._receipts.get(person)) for person, spot in phones]
            answers = self._publisher.receive([*of_phones, *(Report(person, *spot) for person, spot in guesses)])
            self.refused += sum(not answer.status.is_kept for answer in answers)
            if self.chained:
                self._receipts |= {one.person: answer.receipt for one, answer in zip(of_phones, answers, strict=False)}
            self._now_s = self._schedule.starts_at(self._publisher.epoch + 1)
            self._publisher.publish_due()
        return {
            person: (x_steps * STEP_M, y_steps * STEP_M)
            for batch in self._store.published()
            for person, (x_steps, y_steps) in zip(batch.people, batch.steps.tolist(), strict=True)
        }

    def recreate(self, people: Sequence[str]) -> None:
        """Erase people and create them anew."""
        for person in people:
            self._publisher.erase(person)
        self._publisher.add_people(people)

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
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--phones-return", action="store_true", help="phones report from home again, every day")
    kind.add_argument("--recreate", action="store_true", help="people are erased and created anew in every window")
    parser.add_argument("--chained", action="store_true", help="with --phones-return: phones send the last receipt")
    options = parser.parse_args()
    if options.chained and not options.phones_return:
        parser.error("--chained needs --phones-return; add it")
    if options.open_end:
        for module in (publisher, guessing):
            vars(module)["least_new_places"] = lambda most: most
    places_m = REGION.to_metres(synthetic_city(options.people + POPULATION, REGION, rng=options.seed))
    homes_m = places_m[: options.people]
    names = [f"person-{number}" for number in range(options.people)]
    service = Service(names, chained=options.chained)
    protection = service.protection
    rules = Rules(
        noise_m=protection.noise_m or 0.0,
        new_places=protection.new_places,
        dwell_epochs=protection.dwell_epochs,
    )
    city = City(REGION, rules.grid, places_m[options.people :])
    homes = {name: (x, y) for name, (x, y) in zip(names, homes_m.tolist(), strict=True)}
    published = service.stay([], 1, phones=list(homes.items()))
    rng = np.random.default_rng(options.seed)
    seen = [Seen(name, city, rules, published[name]) for name in names]
    victims = [Victim(name, city, rules, published[name], rng, guesses_per_window=options.guesses) for name in names]
    beliefs = [one.belief for one in seen]
    guess = partial(_guess_anew, service, seen, protection.dwell_epochs)
    if options.phones_return:
        guess = partial(_guess_in_turns, service, seen, protection.dwell_epochs, homes)
    elif not options.recreate:
        beliefs = [victim.belief for victim in victims]
        guess = partial(_guess, service, victims, protection.dwell_epochs)
    print(f"from what is published: {_found(beliefs, homes_m)}", flush=True)
    for window in range(1, options.windows + 1):
        if options.recreate:
            service.recreate(names)
        service.begin_window()
        guess()
        if window in SHOWN or window == options.windows:
            refused = f"; {service.refused:,} reports refused" if options.chained else ""
            print(f"with guesses in {window} windows: {_found(beliefs, homes_m)}{refused}", flush=True)


def _guess(service: Service, victims: Sequence[Victim], dwell_epochs: int) -> None:
    """Guess until no guess tells anything more in this window."""
    for victim in victims:
        victim.begin_window()
    while True:
        chosen = [(victim, victim.choose()) for victim in victims]
        turns: list[tuple[Victim, Guess]] = [(victim, guess) for victim, guess in chosen if guess is not None]
        if not turns:
            return
        published = service.stay([(victim.person, guess.spot) for victim, guess in turns], dwell_epochs)
        for victim, guess in turns:
            victim.observe(guess, published[victim.person])


class Seen:
    """A person as attackers see them who watch whether the point from before comes back."""

    def __init__(self, person: str, city: City, rules: Rules, published_m: Spot) -> None:
        self.person, self.before_m, self.rules = person, published_m, rules
        self.belief = Belief(city, published_m, rules.noise_m)
        self.grid = city.grid
        self.far_m = self.grid.centre_of(city.far_cells(published_m, 1)[0])

    def corner_of(self, block: Cell) -> Spot:
        """Return where four cells meet, of which this is the first: a report there may count as in each of them."""
        return (block[0] + 0.5) * self.grid.side_m, (block[1] + 0.5) * self.grid.side_m

    def is_near(self, point_m: Spot) -> bool:
        """Whether the person's own point would replace this one, or this one the person's."""
        return math.dist(point_m, self.before_m) <= NEAR_SHARE * self.rules.noise_m


def _guess_in_turns(service: Service, people: Sequence[Seen], dwell_epochs: int, homes: dict[str, Spot]) -> None:
    """Every day, move people away while their phones are silent, and see which guesses let them come back."""
    phones = list(homes.items())
    for _ in range(DAYS):
        published = service.stay([(one.person, one.far_m) for one in people], dwell_epochs)
        away = [one for one in people if published[one.person] != one.before_m]
        for _ in range(EVENING_EPOCHS // dwell_epochs):
            blocks = [one.belief.halving_blocks(1)[0] for one in away]
            spots = [one.corner_of(block) for one, block in zip(away, blocks, strict=True)]
            guesses = [(one.person, spot) for one, spot in zip(away, spots, strict=True)]
            published = service.stay(guesses, dwell_epochs, phones=phones)
            for one, spot in zip(away, spots, strict=True):
                is_back = published[one.person] == one.before_m
                one.belief.update(one.grid.cells_near(*spot), float(is_back), float(not is_back))
            away = [one for one in away if published[one.person] != one.before_m]


def _guess_anew(service: Service, people: Sequence[Seen], dwell_epochs: int) -> None:
    """Report the likeliest cells, until a point is published that would replace the person's."""
    open_ones, epochs, count = list(people), 1, 0
    while open_ones and count < open_ones[0].rules.least_places:
        turns = [(one, one.belief.likeliest_cells(1)[0]) for one in open_ones]
        places = [(one.person, one.grid.centre_of(cell)) for one, cell in turns]
        published = service.stay(places, epochs)
        for one, cell in turns:
            is_right = published[one.person] == one.before_m
            one.belief.update([cell], float(is_right), float(not is_right))
        open_ones = [one for one, _ in turns if not one.is_near(published[one.person])]
        epochs, count = dwell_epochs, count + 1


def _found(beliefs: Sequence[Belief], homes_m: FloatArray) -> str:
    spots = np.array([belief.best_guess(TAU_M)[0] for belief in beliefs])
    found = int((np.hypot(*(spots - homes_m).T) <= TAU_M).sum())
    interval = stats.binomtest(found, len(beliefs)).proportion_ci(0.95)
    return f"{found / len(beliefs):.3f} (95 % {interval.low:.3f} to {interval.high:.3f}) found within {TAU_M:g} m"


if __name__ == "__main__":
    main()
