"""Everybody at once: all published places matched to all addresses, each person at one address.

An attacker who looks at one person alone asks which addresses explain that person's published place. One who has all
published places knows more: where two people could be at one address, only one of them is. The best use of that are
the marginals of a random assignment, each weighted by its likelihood. Exactly they are ratios of permanents, which
nobody can compute for more than some dozens of people. Here they are approximated as by belief propagation (Huang and
Jebara, 2009; with a fractional term, Chertkov and Yedidia, 2013).

For each person the likeliest addresses are listed; the others count together, each with their mean likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import logsumexp

from nearveil.attacks.bayes import BayesEstimate, Candidates, best_guesses
from nearveil.attacks.channels import CellChannel, Channel, Likelihood, channel_of
from nearveil.errors import UsageError
from nearveil.kernels import inlined_kernel, kernel
from nearveil.mechanisms.base import Mechanism
from nearveil.types import FloatArray, IntArray, Progress, ShortFloatArray, ShortIntArray

_MOST_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class AddressBook:
    """Every address, how many people live there, and which addresses look alike to an attacker.

    Attributes
    ----------
    places_m : ndarray of shape (addresses, 2)
        In metres, no two the same.
    residents : ndarray of int
        How many people live at each.
    kind : ndarray of int
        For each address, the number of its kind: those of one cell look alike, otherwise each is its own.
    lives_at : ndarray of int
        For each person of the list that the book was made from, the number of the address.
    likelihood : callable
        Published places to the log-likelihood of each kind.
    """

    places_m: FloatArray
    residents: IntArray
    kind: IntArray
    lives_at: IntArray
    likelihood: Likelihood

    @classmethod
    def of(cls, channel: Channel, places: FloatArray) -> Self:
        """Return the book of the people at these places, in degrees."""
        addresses, lives_at, residents = np.unique(places, axis=0, return_inverse=True, return_counts=True)
        places_m = channel.region.to_metres(addresses)
        kind = np.arange(len(residents))
        if isinstance(channel, CellChannel):
            kind = np.unique(channel.cells_at(places_m), return_inverse=True)[1]
        one_of_kind = np.unique(kind, return_index=True)[1]
        return cls(places_m, residents, kind, lives_at.reshape(-1), channel.at(places_m[one_of_kind]))

    @property
    def capacity(self) -> IntArray:
        """How many people live at the addresses of each kind."""
        return np.bincount(self.kind, self.residents).astype(np.int64)

    @property
    def people_at_once(self) -> int:
        """How many published places to look at in one step, to bound memory."""
        return max(1, _MOST_AT_ONCE // (int(self.kind.max()) + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """What an attacker believes who matched everybody to addresses.

    Attributes
    ----------
    book : AddressBook
        The addresses.
    published : ndarray of shape (n, 2)
        Everybody's published places.
    steps : int
        Rounds until prices did not change any more.
    """

    book: AddressBook
    published: FloatArray
    steps: int
    _listed: _Listed
    _prices: FloatArray
    _own_prices: FloatArray

    def log_likelihoods(self, people: IntArray) -> FloatArray:
        """Return how likely each kind of address is for each of some people, others considered, as logarithms.

        Shape (people, kinds). It is the likelihood of the person alone times a price: high where others leave a place
        free, low where many could live.
        """
        rows = np.asarray(people, dtype=np.int64)
        found: FloatArray = self.book.likelihood(self.published[rows]).T.copy()
        for number, person in enumerate(rows):
            prices, edges = self._prices.copy(), self._listed.of(person)
            prices[self._listed.kinds[edges]] = self._own_prices[edges]
            found[number] += prices
        return found

    def guess(self, logs: FloatArray, middle_m: FloatArray, tau_m: float) -> BayesEstimate:
        """Guess a person's place from a row of `log_likelihoods`."""
        book = self.book
        by_address = logs[book.kind] + np.log(book.residents)
        addresses = Candidates(book.places_m, by_address, np.zeros(len(by_address)))
        return best_guesses(addresses, by_address, middle_m, tau_m)

    def probabilities(self, people: IntArray) -> FloatArray:
        """Return how likely each of some people lives at each address of the list, shape (people, addresses).

        Who shares an address shares its probability: with ten residents a tenth of it is in each of their ten columns.
        """
        logs = self.log_likelihoods(people)
        logs -= logsumexp(logs + np.log(self.book.capacity), axis=1, keepdims=True)
        found: FloatArray = np.exp(logs[:, self.book.kind[self.book.lives_at]])
        return found


def match_everybody(
    mechanism: Mechanism | Channel, addresses: FloatArray, published: FloatArray, *, progress: Progress | None = None
) -> Matching:
    """Match all published places to all addresses.

    Parameters
    ----------
    mechanism : Mechanism or Channel
        What everybody was published by, fitted if it needs to be. It must have a density.
    addresses : ndarray of shape (m, 2)
        Latitude and longitude of the homes of m people; an address of several people is in several rows.
    published : ndarray of shape (n, 2)
        Published places of n of these people, n at most m, in any order: who lives where is not known.
    progress : callable, optional
        Called with the number of people whose addresses were just listed.

    Examples
    --------
    >>> from nearveil import PlanarLaplace
    >>> homes = np.array([[37.75, -122.45], [37.75, -122.44], [37.75, -122.40]])
    >>> published = np.array([[37.75, -122.444], [37.75, -122.437], [37.75, -122.41]])
    >>> match_everybody(PlanarLaplace(500, "san-francisco"), homes, published).probabilities([0]).round(2)
    array([[0.94, 0.06, 0.  ]])
    """
    channel = channel_of(mechanism)
    if not channel.prepares_fast:
        # For all pairs of a person and an address sampling takes days.
        raise UsageError(
            "to match everybody at once, the attacker needs the density of the mechanism, and this one has none; "
            "take a mechanism with a density, such as planar-laplace"
        )
    homes, places = (channel.region.check(points) for points in (addresses, published))
    if len(places) > len(homes):
        raise UsageError(
            f"there are {len(places):,} published places for {len(homes):,} addresses, and each person lives at one; "
            "give an address for every person, the same one twice where two live"
        )
    book = AddressBook.of(channel, homes)
    parts = []
    for start in range(0, len(places), book.people_at_once):
        part = places[start : start + book.people_at_once]
        logs = np.ascontiguousarray(book.likelihood(part).T)
        parts.append(_heaviest(logs, book.capacity.astype(np.float64)))
        if progress:
            progress(len(part))
    listed = _Listed.together(parts)
    return Matching(book, places, *_balance(listed, book.capacity, len(homes) - len(places)))


# The likeliest addresses of each person.


_LEFT_OUT = 1e-3
_MOST_LISTED = 1_000
# A matching of everybody exists whatever is listed.
_LEAST_WEIGHT = 1e-12
_BIN_WIDTH = 0.25
_BINS = 200


@dataclass(frozen=True, slots=True, eq=False)
class _Listed:
    """For each person the kinds of addresses that are likely, in runs of one list, and the mean weight of all others.

    Weights are likelihoods, the largest of each person 1.
    """

    first: IntArray
    kinds: ShortIntArray
    weights: ShortFloatArray
    others: FloatArray

    @classmethod
    def together(cls, parts: list[tuple[IntArray, ShortIntArray, ShortFloatArray, FloatArray]]) -> Self:
        counts, kinds, weights, others = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(np.concatenate([[0], np.cumsum(counts)]), kinds, weights, others)

    def of(self, person: int) -> slice:
        return slice(self.first[person], self.first[person + 1])


@kernel
def _heaviest(logs: FloatArray, capacity: FloatArray) -> tuple[IntArray, ShortIntArray, ShortFloatArray, FloatArray]:
    """For each row, the kinds that hold all but a thousandth of the weight, at most a thousand of them."""
    people, kinds = logs.shape
    counts = np.zeros(people, dtype=np.int64)
    listed = np.empty(people * min(kinds, _MOST_LISTED), dtype=np.int32)
    weights = np.empty(len(listed), dtype=np.float32)
    others = np.ones(people)
    total = 0
    places = capacity.sum()
    for i in range(people):
        top = logs[i].max()
        if not np.isfinite(top):
            continue
        in_bin, bin_counts = np.zeros(_BINS), np.zeros(_BINS, dtype=np.int64)
        for j in range(kinds):
            b = int(min((top - logs[i, j]) / _BIN_WIDTH, _BINS - 1.0))
            in_bin[b] += capacity[j] * math.exp(logs[i, j] - top)
            bin_counts[b] += 1
        mass = in_bin.sum()
        last, count, left = 0, bin_counts[0], mass - in_bin[0]
        while left > _LEFT_OUT * mass and count < _MOST_LISTED and last < _BINS - 1:
            last += 1
            count += bin_counts[last]
            left -= in_bin[last]
        # Of the last bin there may not be room for all.
        begin, room = total, _MOST_LISTED - (count - bin_counts[last])
        left, elsewhere = mass, places
        for j in range(kinds):
            b = int(min((top - logs[i, j]) / _BIN_WIDTH, _BINS - 1.0))
            if b < last or (b == last and room > 0):
                room -= b == last
                weight = math.exp(logs[i, j] - top)
                listed[total], weights[total] = j, weight
                left -= capacity[j] * weight
                elsewhere -= capacity[j]
                total += 1
        counts[i] = total - begin
        others[i] = max(left / max(elsewhere, 1.0), _LEAST_WEIGHT)
    return counts, listed[:total].copy(), weights[:total].copy(), others


# The marginals.
#
# A person's probability of a place at an address is b = weight x share x price x reaction(1 - b): the price of a place
# and the person's share are such that every person has one place, and every place at most one person. With no reaction
# this is Sinkhorn's balancing, too unsure of itself: the price that a person sees counts that person's own wish. Belief
# propagation has the reaction 1 / (1 - b), right where b is small, but of two people who could be exchanged it takes
# the likelier way for sure. The reaction here agrees with it where b is small, and is exact for two people and two
# places.


# Rounds end when all but so large a share of people have a place of their own.
_CLOSE = 1e-3
_MOST_STEPS = 300
_LEAST_AWAY = 1e-30


@inlined_kernel
def _reaction(away: float) -> float:
    return 1.0 / math.sqrt(away * math.sqrt(away * away + (1.0 - away) * (1.0 - away)))


def _balance(listed: _Listed, capacity: IntArray, spare: int) -> tuple[int, _Listed, FloatArray, FloatArray]:
    """Find the prices at which everybody has a place, where ``spare`` places remain empty.

    An address of several people is several places at one price. A place that remains empty is taken by a person to
    whom all are alike.
    """
    slots = capacity.astype(np.float64)
    prices, away = np.ones(len(slots)), np.ones(len(listed.kinds), dtype=np.float32)
    away_empty = np.ones(len(slots))
    for step in range(1, _MOST_STEPS + 1):  # noqa: B007 - how many there were is told
        wanted = _wanted(listed.first, listed.kinds, listed.weights, listed.others, slots, prices, away)
        wanted += spare * _take_evenly(slots, prices, away_empty)
        prices /= wanted
        if np.abs(wanted - 1) @ slots < _CLOSE * slots.sum():
            break
    return step, listed, np.log(prices), np.log(_own_prices(listed.kinds, prices, away))


@kernel
def _wanted(
    first: IntArray,
    kinds: ShortIntArray,
    weights: ShortFloatArray,
    others: FloatArray,
    slots: FloatArray,
    prices: FloatArray,
    away: ShortFloatArray,
) -> FloatArray:
    """Share everybody out at these prices, and return how many people a place of each kind then has."""
    wanted, unlisted, everywhere = np.zeros(len(slots)), 0.0, (slots * prices).sum()
    offers = np.empty(np.diff(first).max())
    for i in range(len(others)):
        begin, count = first[i], first[i + 1] - first[i]
        # Where a match is sure, all but the largest offer nearly vanish: they are summed on their own.
        rest, top, largest = others[i] * everywhere, 0.0, -1
        for k in range(count):
            kind = kinds[begin + k]
            offers[k] = weights[begin + k] * prices[kind] * _reaction(away[begin + k])
            offer = slots[kind] * offers[k]
            if offer > top:
                rest += top
                top, largest = offer, k
            else:
                rest += offer
        everything = rest + top
        unlisted += others[i] / everything
        for k in range(count):
            kind = kinds[begin + k]
            left = rest + (slots[kind] - 1.0) * offers[k] if k == largest else everything - offers[k]
            away[begin + k] = max(left / everything, _LEAST_AWAY)
            wanted[kind] += offers[k] / everything
    return wanted + unlisted * prices


@kernel
def _take_evenly(slots: FloatArray, prices: FloatArray, away: FloatArray) -> FloatArray:
    """The same for one person to whom all places are alike."""
    offers = np.empty(len(prices))
    for kind in range(len(prices)):
        offers[kind] = prices[kind] * _reaction(away[kind])
    everything = (slots * offers).sum()
    for kind in range(len(prices)):
        away[kind] = max((everything - offers[kind]) / everything, _LEAST_AWAY)
    return offers / everything


@kernel
def _own_prices(kinds: ShortIntArray, prices: FloatArray, away: ShortFloatArray) -> FloatArray:
    """What each listed place costs the person it is listed for."""
    found = np.empty(len(kinds))
    for edge in range(len(kinds)):
        found[edge] = prices[kinds[edge]] * _reaction(away[edge])
    return found
