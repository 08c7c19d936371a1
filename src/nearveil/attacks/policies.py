"""Answer policies: what services do to a ranked list before they show it, and presets of services people build.

A policy is written as ``snap:100m,bands:500m,cutoff:1km,at-least:50,drop:0.1,order-noise:0.1,group:5,delay:2``, each
part at most once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nearveil.attacks.oracle import Point
from nearveil.errors import UsageError
from nearveil.lengths import meters
from nearveil.nearby.index import Person
from nearveil.types import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPolicy:
    """What is done to a list; 0 means that it is not done.

    - ``snap_m``: everybody, accounts too, is moved to the nearest point of a grid with this spacing.
    - ``bands_m``: users are listed by bands of distance of this width; within a band in an order that never changes.
    - ``cutoff_m``: nobody farther than this is listed.
    - ``at_least``: with a cut-off, so many of the nearest are listed all the same.
    - ``drop``: share of users who are left out, others in each answer.
    - ``order_noise``: every distance is multiplied by a random factor before users are put in order, another one in
      each answer: the exponential of a normal deviate with this standard deviation.
    - ``group``: a list with fewer users than this is not shown; the answer is empty.
    - ``delay``: a move of an account shows after so many further queries.
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
        for field, (takes, fits, example) in _PARTS.items():
            if not fits(getattr(self, field)):
                raise UsageError(f"{_written(field)} takes {takes}, such as {example}")
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
        values: dict[str, Any] = {}
        named = {_written(field): field for field in _PARTS}
        for part in text.split(","):
            name, _, value = (piece.strip() for piece in part.partition(":"))
            if name not in named:
                known = ", ".join(named)
                raise UsageError(f"there is no answer policy {name!r}; write one such as drop:0.1, of {known}")
            if (field := named[name]) in values:
                raise UsageError(f"the answer policy {name} is given twice; give it once")
            values[field] = meters(value, name) if field.endswith("_m") else _number(value)
        return cls(**values)

    def __str__(self) -> str:
        given = [(field, getattr(self, field)) for field in self.__slots__ if getattr(self, field)]
        return ",".join(f"{_written(field)}:{value:g}{'m' if field.endswith('_m') else ''}" for field, value in given)

    @property
    def is_plain(self) -> bool:
        """Whether lists are shown as they are."""
        return self == AnswerPolicy()

    def snapped(self, places_m: FloatArray, half_extent_m: tuple[float, float]) -> FloatArray:
        """Where the service has users: on its grid, and in the region."""
        if not self.snap_m:
            return places_m
        last = np.floor(np.array(half_extent_m) / self.snap_m)
        return np.asarray(np.clip(np.round(places_m / self.snap_m), -last, last) * self.snap_m)


def _is_length(value: float) -> bool:
    return value == 0 or 1 <= value < 1e9


# What each part takes, how that is checked, and an example.
_LENGTH = "a distance of at least 1 m", _is_length
_COUNT = "a whole number from 0 to 10,000", range(10_001).__contains__
_PARTS: dict[str, tuple[str, Callable[[float], bool], str]] = {
    "snap_m": (*_LENGTH, "snap:100m"), "bands_m": (*_LENGTH, "bands:500m"), "cutoff_m": (*_LENGTH, "cutoff:1km"),
    "at_least": (*_COUNT, "at-least:50"), "group": (*_COUNT, "group:5"), "delay": (*_COUNT, "delay:2"),
    "drop": ("a number from 0 to below 1", lambda value: 0 <= value < 1, "drop:0.1"),
    "order_noise": ("a number from 0 to 1, a share of the distance", lambda value: 0 <= value <= 1, "order-noise:0.1"),
}  # fmt: skip


def _written(field: str) -> str:
    return field.removesuffix("_m").replace("_", "-")


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return int(value) if value.is_integer() else value


class PolicedLists:
    """The lists of one service under a policy, for one attacker.

    ``ties`` draws the order of equals once, and ``rng`` what is anew in each answer. User i is row i of ``places_m``.
    """

    def __init__(
        self, policy: AnswerPolicy, places_m: FloatArray, half_extent_m: tuple[float, float], *,
        ties: np.random.Generator, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self._policy, self._half_extent_m, self._rng, self._tie_rng = policy, half_extent_m, rng, ties
        self._users_m = policy.snapped(places_m, half_extent_m)
        self._ties = ties.random(len(places_m))
        self._accounts: dict[Person, FloatArray] = {}
        self._account_ties: dict[Person, float] = {}
        self._moves: deque[tuple[int, Person, FloatArray | None]] = deque()
        self._asked = 0

    def put(self, account: Person, point: FloatArray | None) -> None:
        """Move an account to a point, or take it off the map; it shows when the delay is over."""
        if point is not None:
            point = self._policy.snapped(point, self._half_extent_m)
        self._account_ties.setdefault(account, float(self._tie_rng.random()))
        self._moves.append((self._asked + self._policy.delay, account, point))

    def ranked(self, point: Point, k: int) -> Sequence[Person]:
        """Return the list as the service shows it."""
        while self._moves and self._moves[0][0] <= self._asked:
            _, account, moved = self._moves.popleft()
            self._accounts.pop(account, None)
            if moved is not None:
                self._accounts[account] = moved
        self._asked += 1
        policy, accounts = self._policy, list(self._accounts)
        ties = np.concatenate([self._ties, [self._account_ties[account] for account in accounts]])
        distances_m = np.hypot(*(np.vstack([self._users_m, *self._accounts.values()]) - point).T)
        rows = np.arange(len(distances_m))
        if policy.drop:
            rows = rows[self._rng.random(len(rows)) >= policy.drop]
        if policy.cutoff_m:
            nearest = rows[np.argsort(distances_m[rows], kind="stable")]
            within = int((distances_m[rows] <= policy.cutoff_m).sum())
            rows = nearest[: max(within, policy.at_least)]
        key = distances_m[rows]
        if policy.order_noise:
            key = key * np.exp(policy.order_noise * self._rng.standard_normal(len(rows)))
        if policy.bands_m:
            key = np.floor(key / policy.bands_m)
        listed = rows[np.lexsort((ties[rows], key))][:k].tolist()
        if len(listed) < policy.group:
            return []
        return [row if row < len(self._users_m) else accounts[row - len(self._users_m)] for row in listed]


@dataclass(frozen=True, slots=True)
class Preset:
    """A shape of service that people build: a policy, whether a list ends only where that ends it, and in words."""

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
