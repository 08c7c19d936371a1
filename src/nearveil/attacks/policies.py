"""Answer policies: what services do to a ranked list before they show it, and presets of services people build.

A policy is written as ``snap:100m,bands:500m,cutoff:1km,at-least:50,drop:0.1,order-noise:0.1,group:5,delay:2``, each
part at most once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from nearveil.attacks.oracle import Point
from nearveil.errors import UsageError
from nearveil.lengths import meters
from nearveil.nearby.index import Person
from nearveil.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPolicy:
    """What is done to a list; 0 means that it is not done.

    Attributes
    ----------
    snap_m : float
        Everybody, the attacker's accounts too, is moved to the nearest point of a grid with this spacing.
    bands_m : float
        People are listed by bands of distance of this width; within a band in an order that never changes.
    cutoff_m : float
        Nobody farther than this is listed.
    at_least : int
        With a cut-off: where fewer people are within it, so many of the nearest are listed all the same.
    drop : float
        Share of people who are left out, others in each answer.
    order_noise : float
        Every distance is multiplied by a random factor before people are put in order, another one in each answer:
        the exponential of a normal deviate with this standard deviation.
    group : int
        A list with fewer people than this is not shown: the answer is empty.
    delay : int
        A move of an account shows after so many further questions.
    """

    snap_m: float = 0.0
    bands_m: float = 0.0
    cutoff_m: float = 0.0
    at_least: int = 0
    drop: float = 0.0
    order_noise: float = 0.0
    group: int = 0
    delay: int = 0

    def __post_init__(self) -> None:
        for name in ("snap_m", "bands_m", "cutoff_m"):
            value = getattr(self, name)
            if value and not 1 <= value < 1e9:
                raise UsageError(f"{_written(name)} takes a distance of at least 1 m, such as {_written(name)}:100m")
        if not 0 <= self.drop < 1:
            raise UsageError("drop takes a share from 0 to below 1, such as drop:0.1")
        if not 0 <= self.order_noise <= 1:
            raise UsageError("order-noise takes a share of the distance from 0 to 1, such as order-noise:0.1")
        for name in ("at_least", "group", "delay"):
            if not 0 <= getattr(self, name) <= _MOST_COUNT:
                raise UsageError(f"{_written(name)} takes a whole number from 0 to {_MOST_COUNT}")
        if self.at_least and not self.cutoff_m:
            raise UsageError("at-least is for lists that are cut off; add cutoff:30km, say")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a policy as it is written on the command line.

        Examples
        --------
        >>> AnswerPolicy.parse("snap:100m,drop:0.1")
        AnswerPolicy(snap_m=100.0, bands_m=0.0, cutoff_m=0.0, at_least=0, drop=0.1, ...)
        """
        values: dict[str, float | int] = {}
        for part in text.split(","):
            name, colon, value = (piece.strip() for piece in part.partition(":"))
            if not part.strip() and "," in text:
                raise UsageError(f"{text!r} has a comma too many; write policies such as snap:100m,drop:0.1")
            if name not in _READERS:
                raise UsageError(f"there is no answer policy {name!r}; write one such as drop:0.1, of {_NAMES}")
            if not colon or not value:
                raise UsageError(f"the answer policy {name} needs a value, such as {_EXAMPLES[name]}")
            field, read = _READERS[name]
            if field in values:
                raise UsageError(f"the answer policy {name} is given twice; give it once")
            values[field] = read(value, name)
        return cls(**values)  # type: ignore[arg-type]  # each reader returns what its field takes

    def __str__(self) -> str:
        given = [(field.name, getattr(self, field.name)) for field in fields(self) if getattr(self, field.name)]
        return ",".join(f"{_written(name)}:{value:g}{'m' if name.endswith('_m') else ''}" for name, value in given)

    @property
    def is_plain(self) -> bool:
        """Whether lists are shown as they are."""
        return self == AnswerPolicy()

    def snapped(self, places_m: FloatArray, half_extent_m: tuple[float, float]) -> FloatArray:
        """Where the service has people: on its grid, and in the region."""
        if not self.snap_m:
            return places_m
        last = np.floor(np.array(half_extent_m) / self.snap_m)
        return np.asarray(np.clip(np.round(places_m / self.snap_m), -last, last) * self.snap_m)


def as_policy(policy: AnswerPolicy | str | None) -> AnswerPolicy:
    """Return a policy that was given as one, as text, or not at all."""
    if isinstance(policy, str):
        return AnswerPolicy.parse(policy)
    return AnswerPolicy() if policy is None else policy


_MOST_COUNT = 10_000


def _written(field: str) -> str:
    return field.removesuffix("_m").replace("_", "-")


def _share(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"the answer policy {name} takes a number, such as {_EXAMPLES[name]}")
    return value


def _count(text: str, name: str) -> int:
    # Ten digits and more are far out of range, and int() takes long for very many.
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"the answer policy {name} takes a whole number, such as {_EXAMPLES[name]}")
    return int(text)


_Reader = Callable[[str, str], float | int]
_READERS: dict[str, tuple[str, _Reader]] = {
    "snap": ("snap_m", meters),
    "bands": ("bands_m", meters),
    "cutoff": ("cutoff_m", meters),
    "at-least": ("at_least", _count),
    "drop": ("drop", _share),
    "order-noise": ("order_noise", _share),
    "group": ("group", _count),
    "delay": ("delay", _count),
}
_EXAMPLES = {
    "snap": "snap:100m", "bands": "bands:500m", "cutoff": "cutoff:1km", "at-least": "at-least:50", "drop": "drop:0.1",
    "order-noise": "order-noise:0.1", "group": "group:5", "delay": "delay:2",
}  # fmt: skip
_NAMES = ", ".join(_READERS)


class PolicedLists:
    """The lists of one service under a policy, for one attacker.

    Parameters
    ----------
    policy : AnswerPolicy
        What is done to lists.
    places_m : ndarray of shape (n, 2)
        Where people are; person i is number i.
    half_extent_m : (float, float)
        Half width and half height of the public region.
    ties : Generator
        Draws the order of equals once.
    rng : Generator
        Draws what is anew in each answer.
    """

    def __init__(
        self,
        policy: AnswerPolicy,
        places_m: FloatArray,
        half_extent_m: tuple[float, float],
        *,
        ties: np.random.Generator,
        rng: np.random.Generator,
    ) -> None:
        self._policy, self._half_extent_m, self._rng, self._tie_rng = policy, half_extent_m, rng, ties
        self._people_m = policy.snapped(places_m, half_extent_m)
        self._ties = ties.random(len(places_m))
        self._accounts: dict[Person, FloatArray] = {}
        self._account_ties: dict[Person, float] = {}
        self._moves: deque[tuple[int, Person, FloatArray | None]] = deque()
        self._asked = 0

    def put(self, account: Person, place_m: FloatArray | None) -> None:
        """Move an account to a place, or take it off the map; it shows when the delay is over."""
        place = None if place_m is None else self._policy.snapped(place_m.reshape(1, 2), self._half_extent_m)[0]
        self._account_ties.setdefault(account, float(self._tie_rng.random()))
        self._moves.append((self._asked + self._policy.delay, account, place))

    def ranked(self, place: Point, k: int) -> Sequence[Person]:
        """Return the list as the service shows it."""
        self._show_moves()
        self._asked += 1
        policy, accounts = self._policy, list(self._accounts)
        places = np.vstack([self._people_m, *self._accounts.values()])
        ties = np.concatenate([self._ties, [self._account_ties[account] for account in accounts]])
        distances = np.hypot(*(places - place).T)
        rows = np.arange(len(places))
        if policy.drop:
            rows = rows[self._rng.random(len(rows)) >= policy.drop]
        if policy.cutoff_m:
            rows = self._within_cutoff(rows, distances)
        key = distances[rows]
        if policy.order_noise:
            key = key * np.exp(policy.order_noise * self._rng.standard_normal(len(rows)))
        if policy.bands_m:
            key = np.floor(key / policy.bands_m)
        listed = rows[np.lexsort((ties[rows], key))][:k].tolist()
        if len(listed) < policy.group:
            return []
        return [row if row < len(self._people_m) else accounts[row - len(self._people_m)] for row in listed]

    def _within_cutoff(self, rows: IntArray, distances: FloatArray) -> IntArray:
        near = rows[distances[rows] <= self._policy.cutoff_m]
        if len(near) >= self._policy.at_least:
            return near
        return rows[np.argsort(distances[rows], kind="stable")][: self._policy.at_least]

    def _show_moves(self) -> None:
        while self._moves and self._moves[0][0] <= self._asked:
            _, account, place = self._moves.popleft()
            self._accounts.pop(account, None)
            if place is not None:
                self._accounts[account] = place


@dataclass(frozen=True, slots=True)
class Preset:
    """A shape of service that people build: an answer policy, and how long a list is.

    Attributes
    ----------
    policy : AnswerPolicy
        What is done to a list.
    lists_everybody : bool
        Whether a list ends only where the policy ends it; otherwise it has k people.
    meaning : str
        In one sentence, for people.
    """

    policy: AnswerPolicy
    lists_everybody: bool
    meaning: str


PRESETS = {
    # One band as wide as the cut-off has everybody in it: a list in no order.
    "check-in-500m": Preset(
        AnswerPolicy(cutoff_m=500, bands_m=501), True, "everybody within 500 m, in no order and without distances"
    ),
    "sort-by-distance": Preset(AnswerPolicy(), False, "the k nearest, nearest first"),
    "nearest-50-or-30km": Preset(
        AnswerPolicy(cutoff_m=30_000, at_least=50), True, "everybody within 30 km, or else the 50 nearest"
    ),
    "three-decimals": Preset(
        AnswerPolicy(snap_m=111), False, "the k nearest by coordinates of three decimals, 111 m apart"
    ),
}
"""Presets by name: shapes, not products."""


def preset_or_policy(text: str) -> Preset:
    """Return a preset by its name, or a policy as it is written, for lists of k people.

    Examples
    --------
    >>> preset_or_policy("drop:0.1").lists_everybody
    False
    """
    if text in PRESETS:
        return PRESETS[text]
    if text.strip() and not set(text) & set(":,"):
        raise UsageError(f"there is no policy {text!r}; write one of {', '.join(PRESETS)}, or parts such as drop:0.1")
    return Preset(AnswerPolicy.parse(text), False, "")
