"""What to look at in something that was fitted: numbers that may give one person away, and events on them.

Outputs come as an array of shape (fits, rows, columns): a row is a centre, if the output has centres.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from nearveil.types import BoolArray, FloatArray

Kind = Literal["coordinate", "sorted", "equal", "distance", "near", "likelihood", "shift"]

_BINS = 16
_MOST_ROWS = 64
_ATOMS = 3


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number taken from each output.

    Attributes
    ----------
    kind : str
        ``coordinate``: the entry at (row, column). ``sorted``: the column's row-th smallest entry. ``equal``: 1 if some
        entry of the column is exactly ``values[0]``. ``distance``: from the nearest row to the place ``values``.
        ``near``: the column of that row. ``likelihood``: the sum over all entries of a table's value for the bin
        that the entry falls into; ``values`` holds, for each entry, the edges of its bins and then the table.
        ``shift``: the sum over the rows of column 1 of how much the entry speaks for 1 and not 0, from -1 to 1, times
        the row's weight in ``values``: the likelihood ratio for Laplace noise, whatever its scale.
    """

    kind: Kind
    row: int = 0
    column: int = 0
    values: tuple[float, ...] = ()

    def __call__(self, outputs: FloatArray) -> FloatArray:
        """Return the number for each output."""
        return _TAKE[self.kind](self, outputs)

    @property
    def text(self) -> str:
        """The statistic as text."""
        return {
            "coordinate": f"entry ({self.row + 1}, {self.column + 1})",
            "sorted": f"the {self.row + 1}. smallest entry of column {self.column + 1}",
            "equal": f"an entry of column {self.column + 1} equal to a fixed number",
            "distance": "distance from the person's place to the nearest row",
            "near": f"column {self.column + 1} of the row nearest to the person's place",
            "likelihood": "likelihood ratio, learned entry by entry from other fits,",
            "shift": "likelihood ratio for Laplace noise, over all answers that the person has a part in,",
        }[self.kind]


@dataclass(frozen=True, slots=True)
class FitEvent:
    """Something that an output is or is not: the statistic lies above the threshold, or does not."""

    statistic: Statistic
    threshold: float
    above: bool

    def happened(self, outputs: FloatArray) -> BoolArray:
        """Whether it happened, for each output."""
        above: BoolArray = self.statistic(outputs) > self.threshold
        return above if self.above else ~above

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, from which `event_from_dict` makes the event again."""
        return {**asdict(self), "words": self.describe()}

    def describe(self) -> str:
        """Describe the outputs in the event."""
        if self.statistic.kind == "equal":
            return f"{'with' if self.above else 'without'} {self.statistic.text}"
        return f"whose {self.statistic.text} is {'above' if self.above else 'at most'} {self.threshold:.6g}"


def event_from_dict(document: dict[str, Any]) -> FitEvent:
    """Make an event again from `FitEvent.to_dict`."""
    statistic = dict(document["statistic"])
    statistic["values"] = tuple(statistic["values"])
    return FitEvent(Statistic(**statistic), float(document["threshold"]), bool(document["above"]))


def statistics_for(with_person: FloatArray, without: FloatArray, place: FloatArray | None) -> list[Statistic]:
    """Return the statistics to try, learned from some outputs of either data set.

    Parameters
    ----------
    place : ndarray of shape (2,) or None
        The person's place, in the coordinates of the output, used where outputs have two columns; None where outputs
        are answers, of which the first column is 0 without the person and 1 with them, but for noise.
    """
    rows, columns = with_person.shape[1:]
    found = [_likelihood(with_person, without)]
    known: list[float] = []
    if place is None:
        found.append(_shift(with_person, without))
        # What an answer is if its noise is missing.
        known = [0.0, 1.0]
    elif columns == 2:
        values = tuple(place.tolist())
        found.append(Statistic("distance", values=values))
        found += [Statistic("near", column=column, values=values) for column in range(2)]
    for column in range(columns):
        found += [Statistic("coordinate", row, column) for row in range(min(rows, _MOST_ROWS))]
        found += [Statistic("sorted", row, column) for row in range(min(rows, _MOST_ROWS))]
        pooled = np.concatenate([with_person[:, :, column].ravel(), without[:, :, column].ravel()])
        found += [
            Statistic("equal", column=column, values=(atom,)) for atom in dict.fromkeys([*known, *_atoms(pooled)])
        ]
    return found


def _atoms(values: FloatArray) -> list[float]:
    """The most frequent values that occur more than once."""
    unique, counts = np.unique(values, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:_ATOMS]
    return [float(unique[place]) for place in frequent if counts[place] > 1]


def _likelihood(with_person: FloatArray, without: FloatArray) -> Statistic:
    """Learn, for each entry by itself, how much each bin speaks for the person: exact where noise is independent."""
    values: list[float] = []
    for first, second in zip(_entries(with_person).T, _entries(without).T, strict=True):
        edges = np.quantile(np.concatenate([first, second]), np.arange(1, _BINS) / _BINS)
        counts = [np.bincount(np.searchsorted(edges, part), minlength=_BINS) + 0.5 for part in (first, second)]
        values += [*edges.tolist(), *np.log(counts[0] / counts[1]).tolist()]
    return Statistic("likelihood", values=tuple(values))


def _shift(with_person: FloatArray, without: FloatArray) -> Statistic:
    """Weigh each answer by how much likelier a number from 1 on is with the person: by 1 / scale for Laplace noise."""
    beyond = [(part[:, :, 0] >= 1).sum(axis=0) + 0.5 for part in (with_person, without)]
    return Statistic("shift", values=tuple(np.maximum(np.log(beyond[0] / beyond[1]), 0.0).tolist()))


def _entries(outputs: FloatArray) -> FloatArray:
    return outputs[:, :_MOST_ROWS].reshape(len(outputs), -1)


def _coordinate(statistic: Statistic, outputs: FloatArray) -> FloatArray:
    entries: FloatArray = outputs[:, statistic.row, statistic.column]
    return entries


def _sorted(statistic: Statistic, outputs: FloatArray) -> FloatArray:
    ranked: FloatArray = np.partition(outputs[:, :, statistic.column], statistic.row, axis=1)[:, statistic.row]
    return ranked


def _equal(statistic: Statistic, outputs: FloatArray) -> FloatArray:
    equal: BoolArray = outputs[:, :, statistic.column] == statistic.values[0]
    return np.where(equal.any(axis=1), 1.0, 0.0)


def _distances(statistic: Statistic, outputs: FloatArray) -> FloatArray:
    distances: FloatArray = np.linalg.norm(outputs - np.array(statistic.values), axis=2)
    return distances


def _distance(statistic: Statistic, outputs: FloatArray) -> FloatArray:
    nearest: FloatArray = np.minimum.reduce(_distances(statistic, outputs), axis=1)
    return nearest


def _near(statistic: Statistic, outputs: FloatArray) -> FloatArray:
    row = _distances(statistic, outputs).argmin(axis=1)
    entries: FloatArray = outputs[np.arange(len(outputs)), row, statistic.column]
    return entries


def _learned(statistic: Statistic, outputs: FloatArray) -> FloatArray:
    entries = _entries(outputs)
    tables = np.reshape(statistic.values, (entries.shape[1], 2 * _BINS - 1))
    total = np.zeros(len(entries))
    for table, entry in zip(tables, entries.T, strict=True):
        total += table[_BINS - 1 :][np.searchsorted(table[: _BINS - 1], entry)]
    return total


def _shifted(statistic: Statistic, outputs: FloatArray) -> FloatArray:
    total: FloatArray = np.clip(2 * outputs[:, :, 0] - 1, -1.0, 1.0) @ np.array(statistic.values)
    return total


_TAKE: dict[Kind, Callable[[Statistic, FloatArray], FloatArray]] = {
    "coordinate": _coordinate,
    "sorted": _sorted,
    "equal": _equal,
    "distance": _distance,
    "near": _near,
    "likelihood": _learned,
    "shift": _shifted,
}
