"""The attacker who combines all points that were published of somebody who stays put."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from scipy.ndimage import gaussian_filter

from nearveil.attacks.bayes import BACKGROUND, BayesAttacker, Prior, geometric_median
from nearveil.attacks.channels import DensityChannel, Likelihood
from nearveil.attacks.oracle import Spot
from nearveil.errors import UsageError
from nearveil.mechanisms.planar_laplace import DEFAULT_HIDE_WITHIN_M
from nearveil.nearby.publishing.keys import SecretKeys, new_keys
from nearveil.nearby.publishing.protection import PlaceGrid, Policy, Protection, Schedule
from nearveil.nearby.publishing.publisher import Publisher
from nearveil.nearby.stores.base import STEP_M
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

# With more points than this, where people live in general tells an attacker nothing that the points do not.
_PRIOR_MATTERS_UP_TO = 50
_SMOOTHED_OVER_CELLS = 2.0
_PRIOR_GRID_M = 125.0


@dataclass(frozen=True, slots=True)
class _SnappedChannel:
    """Noise around the centre of the cell that somebody is in."""

    inner: DensityChannel
    grid: PlaceGrid
    prepares_fast: bool = True

    @property
    def region(self) -> Region:
        return self.inner.region

    def at(self, places_m: FloatArray) -> Likelihood:
        return self.inner.at(np.round(places_m / self.grid.side_m) * self.grid.side_m)


class CombiningAttacker:
    """Knows the policy, the noise and where people live in general; two ways to guess from all points of a person.

    Parameters
    ----------
    protection : Protection
        What the service does.
    population : ndarray of shape (n, 2)
        Where people live, in degrees; the person attacked need not be among them.
    tau_m : float
        Radius of the disc that counts as found.
    """

    def __init__(self, protection: Protection, population: FloatArray, tau_m: float) -> None:
        self._region = protection.region
        channel = DensityChannel(protection.noise)
        places = protection.grid
        # Among people, the density itself looks at nothing but the cell.
        grid = places if isinstance(places, PlaceGrid) else PlaceGrid(_PRIOR_GRID_M)
        snapped = protection.policy is Policy.PLACE and grid is places
        self._bayes = BayesAttacker(
            mechanism=_SnappedChannel(channel, grid) if snapped else channel,
            prior=_density_prior(protection.region, population, grid),
            tau_m=tau_m,
        )

    def likeliest(self, points_m: FloatArray) -> Spot:
        """The place from which all points together are likeliest: the density falls evenly with the distance."""
        return geometric_median(points_m, np.full(len(points_m), 1 / len(points_m)))

    def best_guess(self, points_m: FloatArray) -> Spot:
        """The disc that most likely holds the person."""
        if len(points_m) > _PRIOR_MATTERS_UP_TO:
            return self.likeliest(points_m)
        return self._bayes.estimate(self._region.publish(self._region.from_metres(points_m))).best_disc


def _density_prior(region: Region, population: FloatArray, grid: PlaceGrid) -> Prior:
    """How many people live in each cell of the grid, smoothed: what is known of people in general."""
    columns, rows = (math.ceil(half / grid.side_m) for half in region.half_extent_m)
    x, y = (np.arange(-count, count + 1) * grid.side_m for count in (columns, rows))
    edges = [np.append(centres, centres[-1] + grid.side_m) - grid.side_m / 2 for centres in (x, y)]
    people_m = region.to_metres(population)
    counts, _, _ = np.histogram2d(people_m[:, 0], people_m[:, 1], bins=edges)
    smooth = gaussian_filter(counts, _SMOOTHED_OVER_CELLS)
    inhabited = np.argwhere(smooth > 1e-6 * smooth.max())
    weights = smooth[tuple(inhabited.T)]
    half_extent = np.array(region.half_extent_m)
    places = np.clip(np.column_stack([x[inhabited[:, 0]], y[inhabited[:, 1]]]), -half_extent, half_extent)
    numbers = np.arange(len(places), dtype=np.int64)
    return Prior(region, places, (1 - BACKGROUND) * weights / weights.sum(), numbers, BACKGROUND)


# Somebody who stays put, and an attacker who combines everything that is published about them.
#
# The publisher of a running service and a store in memory publish people who report from home at every epoch, off by
# what a phone is off. The attacker knows the policy, the noise and where people live in general, takes all different
# points published of a person, and guesses.


HOUR = timedelta(hours=1)
MONTH = timedelta(days=30)


def noise_per_place(region: Region, hide_within_m: float = DEFAULT_HIDE_WITHIN_M) -> Protection:
    """Return the policy of a service by default: hourly epochs, windows of 30 days."""
    return Protection(region=region, hide_within_m=hide_within_m, schedule=Schedule(epoch=HOUR, window=MONTH))


def fresh_noise(region: Region, hide_within_m: float = DEFAULT_HIDE_WITHIN_M) -> Protection:
    """Return a bad practice: the same noise, drawn anew every hour, as if each hour were on its own."""
    hourly = Schedule(epoch=HOUR, window=HOUR)
    return Protection(region=region, policy=Policy.FRESH, hide_within_m=hide_within_m, schedule=hourly)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wobble:
    """How far reports of somebody who stays put lie from where they are.

    Parameters
    ----------
    radius_m : float
        Radius in metres within which reports lie evenly.
    sigma_m : float
        Or, with no bound, by a Gaussian of this standard deviation along each axis.
    """

    radius_m: float = 0.0
    sigma_m: float = 0.0

    def around(self, homes_m: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return one report of everybody."""
        lengths = self.radius_m * np.sqrt(rng.random(len(homes_m)))
        angles = 2 * math.pi * rng.random(len(homes_m))
        even = lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
        return homes_m + even + rng.normal(size=homes_m.shape) * self.sigma_m


@dataclass(frozen=True, slots=True)
class StayingPut:
    """How well the attacker does.

    Attributes
    ----------
    people : int
        How many were attacked.
    points : tuple of int
        Different points published of each person.
    found_without_prior, found_with_prior : int
        Found within tau by the likeliest place alone, and by the best guess of one who knows where people live.
    """

    people: int
    tau_m: float
    epochs: int
    points: tuple[int, ...]
    found_without_prior: int
    found_with_prior: int

    @property
    def found(self) -> int:
        """What the stronger of the two finds."""
        return max(self.found_without_prior, self.found_with_prior)

    @property
    def share_found(self) -> float:
        """The same as a share."""
        return self.found / self.people

    def __str__(self) -> str:
        return (
            f"{self.epochs:,} epochs, {max(self.points):,} different points of a person at most: found within "
            f"{self.tau_m:g} m in {self.share_found:.1%} of {self.people:,} people"
        )


def attack_who_stays_put(
    protection: Protection,
    homes: FloatArray,
    population: FloatArray,
    *,
    lasts: timedelta = MONTH,
    begins: timedelta = timedelta(0),
    wobble: Wobble | None = None,
    tau_m: float = 100.0,
    rng: np.random.Generator | int = 1,
    progress: Progress | None = None,
) -> StayingPut:
    """Let people stay at home and report at every epoch, and let the attacker guess from all that is published.

    Parameters
    ----------
    protection : Protection
        What the service does.
    homes : ndarray of shape (n, 2)
        Where people stay, in degrees.
    population : ndarray of shape (m, 2)
        What the attacker knows of where people live, in degrees.
    lasts, begins : timedelta
        How long they stay, and how far into a window they begin: where that reaches into the next window, everybody has
        one more point.
    wobble : Wobble, optional
        How far off reports are; not at all by default.
    tau_m : float
        Found means within this distance.
    rng
        For the reports; the noise has keys of its own.
    """
    if len(homes) < 1 or lasts < protection.schedule.epoch:
        raise UsageError("there must be at least one person who stays for at least one epoch")
    published_m = publish_who_stays_put(
        protection, homes, lasts=lasts, begins=begins, wobble=wobble, rng=rng, progress=progress
    )
    homes_m = protection.region.to_metres(homes)
    attacker = CombiningAttacker(protection, population, tau_m)
    likeliest = [attacker.likeliest(points) for points in published_m]
    best = [attacker.best_guess(points) for points in published_m]
    return StayingPut(
        people=len(homes),
        tau_m=tau_m,
        epochs=lasts // protection.schedule.epoch,
        points=tuple(len(points) for points in published_m),
        found_without_prior=_within(likeliest, homes_m, tau_m),
        found_with_prior=_within(best, homes_m, tau_m),
    )


def publish_who_stays_put(
    protection: Protection,
    homes: FloatArray,
    *,
    lasts: timedelta = MONTH,
    begins: timedelta = timedelta(0),
    wobble: Wobble | None = None,
    rng: np.random.Generator | int = 1,
    keys: SecretKeys | None = None,
    progress: Progress | None = None,
) -> list[FloatArray]:
    """Return, for each person, all different points published while they stay at home, in metres."""
    region, schedule = protection.region, protection.schedule
    generator, error = np.random.default_rng(rng), wobble or Wobble()
    homes_m = region.to_metres(region.check(homes))
    people = [f"person-{number}" for number in range(len(homes))]
    # A report counts in the epoch of the next boundary, so that one epoch before a window its first report arrives.
    first = 600 * schedule.epochs_per_window - 1 + begins // schedule.epoch
    now_s = schedule.starts_at(first)
    store = SqliteStore.in_memory()
    store.add_people(people)
    publisher = Publisher(protection, keys or new_keys(), store, clock=lambda: now_s)
    seen: dict[str, dict[tuple[int, int], None]] = {person: {} for person in people}
    for number in range(lasts // schedule.epoch):
        reports = region.clip(region.from_metres(error.around(homes_m, generator))).tolist()
        publisher.receive([publisher.accept(person, *place) for person, place in zip(people, reports, strict=True)])
        now_s = schedule.starts_at(first + number + 1)
        publisher.publish_due()
        for batch in store.published(since_epoch=publisher.epoch):
            for person, steps in zip(batch.people, batch.steps.tolist(), strict=True):
                seen[person][steps[0], steps[1]] = None
        if progress:
            progress(1)
    store.close()
    return [np.array(list(seen[person]), dtype=np.float64) * STEP_M for person in people]


def _within(guesses: list[Spot], homes_m: FloatArray, tau_m: float) -> int:
    return int((np.hypot(*(np.array(guesses) - homes_m).T) <= tau_m).sum())
