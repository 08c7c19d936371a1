"""A witness against a fit: made-up people with and without one of them, an event, and its counts on fresh fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nearveil.auditing._fit_statistics import FitEvent, event_from_dict
from nearveil.auditing.subjects import RECHECK_STREAM, AuditError, chosen_seed
from nearveil.auditing.witness import CountedEvent, Counts, read_counted
from nearveil.errors import DataError, UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.mechanisms.fit_cells import CellPlan, tree_noise
from nearveil.mechanisms.fit_pic import FIXED_POINT
from nearveil.region import Region
from nearveil.types import FloatArray

_ROUND_OFF = 1e-9
# In scales of the noise: e^-20 of the crowds are not seen to be above the threshold.
_FAR_ABOVE = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitWitness(CountedEvent):
    """What was counted, on fits made after data and event were chosen.

    Attributes
    ----------
    data : DataPair
        Made-up people, with and without one of them.
    event : FitEvent
        The outputs that were counted.
    speaks_for_person : bool
        Whether the event is likelier with the person (its hits are counted there), or without.
    """

    format = "nearveil-fit-witness"

    data: DataPair
    event: FitEvent
    speaks_for_person: bool

    @property
    def claimed_loss(self) -> float:
        """The largest loss claimed, but for round-off."""
        return self.claim.epsilon * (1 + _ROUND_OFF) + _ROUND_OFF

    def explain(self) -> str:
        """Say in a sentence or two what was seen."""
        counts = self.counts
        sides = ("with", "without") if self.speaks_for_person else ("without", "with")
        times = (
            f"at least {math.exp(self.bound):,.3g} times as likely" if self.bound > 0 else "not shown to be likelier"
        )
        return (
            f"{len(self.data.without)} people, {sides[0]} and {sides[1]} one person {self.data.name}: outputs "
            f"{self.event.describe()} came {counts.hits:,} times of {counts.trials:,} {sides[0]} and "
            f"{counts.false_hits:,} times of {counts.false_trials:,} {sides[1]}. The claim allows "
            f"{math.exp(min(self.claim.epsilon, 700.0)):,.3g} times as likely; they are {times}."
        )

    def about(self) -> dict[str, Any]:
        """Return data and event as plain values for JSON."""
        event = {"event": self.event.to_dict(), "speaks_for_person": self.speaks_for_person}
        return {"data": self.data.to_dict(), **event}


def fit_witness_from_json(text: str) -> FitWitness:
    """Read a witness that `FitWitness.to_json` wrote."""
    try:
        return read_counted(text, FitWitness, _about)
    except ValueError:
        raise DataError("this is not a witness against a fit, or it is damaged; audit the fit again") from None


def _about(document: dict[str, Any]) -> dict[str, Any]:
    event = {"event": event_from_dict(document["event"]), "speaks_for_person": bool(document["speaks_for_person"])}
    return {"data": data_from_dict(document["data"]), **event}


def recheck_fit(witness: FitWitness, fit: Fit | KnowingFit, *, fits: int, seed: int | None = None) -> FitWitness:
    """Count the same event again on fresh fits, half of them with the person; return the witness with the new counts.

    The fits draw from a stream that no audit uses. Nothing is chosen again, so the new bound holds with the witness's
    confidence, whatever the witness says.
    """
    seed = chosen_seed(seed)
    return count_events([replace(witness, events_counted=1)], fit, fits, seed, RECHECK_STREAM)[0]


def count_events(
    witnesses: Sequence[FitWitness], fit: Fit | KnowingFit, fits: int, seed: int, stream: int
) -> list[FitWitness]:
    """Return witnesses about the same data with their counts on ``fits`` fresh fits, half of them with the person."""
    each = max(fits // 2, 1)
    outputs = fit_both(fit, witnesses[0].data, each, seed, (stream,))
    return [replace(witness, counts=_counted(witness, outputs), seed=seed) for witness in witnesses]


def _counted(witness: FitWitness, outputs: tuple[FloatArray, FloatArray]) -> Counts:
    hits = [int(witness.event.happened(part).sum()) for part in outputs]
    likely, unlikely = hits if witness.speaks_for_person else hits[::-1]
    return Counts(hits=likely, trials=len(outputs[0]), false_hits=unlikely, false_trials=len(outputs[1]))


# Data in which one person shows as much as they can.


@dataclass(frozen=True, slots=True, eq=False)
class DataPair:
    """Two data sets that differ in one person.

    Attributes
    ----------
    name : str
        What makes the pair a hard one.
    without : ndarray of shape (n, 2)
        Everybody but the person, in degrees.
    person : ndarray of shape (2,)
        The person's place, in degrees.
    """

    name: str
    without: FloatArray
    person: FloatArray

    @property
    def with_person(self) -> FloatArray:
        """The larger of the two data sets; the person comes last."""
        return np.vstack([self.without, self.person])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, from which `data_from_dict` makes the pair again. The people are made up."""
        return {"name": self.name, "without": self.without.tolist(), "person": self.person.tolist()}


def data_from_dict(document: dict[str, Any]) -> DataPair:
    """Make a pair of data sets again from `DataPair.to_dict`."""
    without, person = (np.array(document[part], dtype=np.float64) for part in ("without", "person"))
    if without.ndim != 2 or without.shape[1] != 2 or person.shape != (2,):
        raise ValueError("data")
    return DataPair(str(document["name"]), without, person)


def worst_case_data(region: Region, people: int) -> tuple[DataPair, ...]:
    """Return pairs in which one person moves something learned from the data as far as they can.

    Somebody far from all others has a cluster of their own, along one diagonal of the region or the other, wherever
    the clusters begin; at a corner the sums of coordinates change most; where all are at one place, they change along
    with the count only. No data set has all its people at one place: a fit
    may refuse those, and what it refuses tells nothing apart.

    Parameters
    ----------
    people : int
        How many there are without the person: few, so that one counts, and at least as many as the fit needs.
    """
    if people < 2:
        raise UsageError("a fit is audited on at least 2 people besides the one; give more people")
    crowd = np.linspace(-0.01, 0.01, people)
    corner = _widest_corner(region)
    middle = np.full(2, 0.5)
    south_west, north_west = np.array([0.1, 0.1]), np.array([0.9, 0.1])
    settings = (
        ("alone in the north-east", south_west + crowd[:, None], 1 - south_west),
        ("alone in the south-east", north_west + crowd[:, None], 1 - north_west),
        ("at a corner", middle + np.outer(crowd, [1.0, -1.0]), corner),
        ("at the place of all others but one", np.vstack([np.tile(south_west, (people - 1, 1)), middle]), south_west),
    )
    return tuple(DataPair(name, _places(region, others), _places(region, place)) for name, others, place in settings)


def tree_data(region: Region, plan: CellPlan, epsilon: float) -> tuple[DataPair, ...]:
    """Return four crowds that one person more shows in as much as they can, if a private quadtree is made from them.

    In the first one the count of the deepest box that may be halved comes out, less its bias, at the least that
    matters: there the depths lose most together. In the second one the person takes it to the threshold, where noise
    that is far too narrow shows. In the third one the person takes the crowd itself to the threshold, before any bias:
    if no bias is taken off, all depths are at the threshold, and every one of them loses. In the fourth one all counts
    are so far above the threshold that every box around the crowd is halved.
    """
    noise, levels = tree_noise(epsilon, plan), plan.layout(region).levels
    deepest = noise.threshold + max(levels - 1, 0) * noise.bias
    crowds = {
        "in a crowd below the threshold": deepest - noise.bias,
        "who takes a crowd to the threshold": deepest - FIXED_POINT,
        "who takes a crowd to the threshold of no bias": noise.threshold - FIXED_POINT,
        "in a crowd far above the threshold": deepest + noise.bias + _FAR_ABOVE * noise.scale * FIXED_POINT,
    }
    # Well inside the boxes of a few levels.
    crowded, elsewhere = np.array([0.28, 0.28]), np.array([0.8, 0.8])
    pairs = []
    for name, counts in crowds.items():
        people = max(math.ceil(counts / FIXED_POINT), 1)
        others = np.vstack([np.tile(crowded, (people, 1)), elsewhere])
        pairs.append(DataPair(name, _places(region, others), _places(region, crowded)))
    return tuple(pairs)


def _places(region: Region, shares: FloatArray) -> FloatArray:
    """Degrees of places given as shares of the region's height and width, from the south and the west."""
    latitude = region.south + shares[..., 0] * region.height_deg
    longitude = wrap_longitude(region.west + shares[..., 1] * region.width_deg)
    return np.stack([latitude, longitude], axis=-1)


def _widest_corner(region: Region) -> FloatArray:
    """Of the eastern corners, as shares, the one that lies farther out: sums of coordinates change most there."""
    corners = np.array([[0.0, 1.0], [1.0, 1.0]])
    reach = np.abs(region.to_square(_places(region, corners))).sum(axis=1)
    widest: FloatArray = corners[int(np.argmax(reach))]
    return widest


# Fitting many times, and taking nothing for an output that is none.


Fit = Callable[[FloatArray, np.random.Generator], object]
"""Learns from people's places in degrees. Gives an array of fixed shape: rows of two columns are
taken for centres in the square of the region."""


@runtime_checkable
class KnowingFit(Protocol):
    """A fit seen by somebody who knows everybody but one person, such as `AnswersFit`."""

    def about(self, data: DataPair) -> Fit:
        """Return what they see of a fit on either of the two data sets, whichever it is made on."""


def fit_both(
    fit: Fit | KnowingFit, data: DataPair, fits: int, seed: int, stream: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Fit with the person and without, equally often; shape (fits, rows, columns) each.

    Each call names its stream, which no other call may use: generators of different streams are independent.
    """
    outputs = []
    seen = fit.about(data) if isinstance(fit, KnowingFit) else fit
    for side, people in enumerate((data.with_person, data.without)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*stream, side)))
        outputs.append(_fit_often(seen, people, fits, data.name, rng))
    if outputs[0].shape != outputs[1].shape:
        raise AuditError(f"with one person more ({data.name}) the fit gives another shape; the shape must be public")
    return outputs[0], outputs[1]


def _fit_often(fit: Fit, people: FloatArray, fits: int, name: str, rng: np.random.Generator) -> FloatArray:
    """Fit again and again; one that draws no fresh noise each time is judged as what it is, a fit without noise."""
    first = _fit_once(fit, people, name, rng)
    outputs = np.empty((fits, *first.shape))
    outputs[0] = first
    for number in range(1, fits):
        output = _fit_once(fit, people, name, rng)
        if output.shape != first.shape:
            raise AuditError(f"fitted again on the same people ({name}) the fit gives another shape; it must not")
        outputs[number] = output
    return outputs


def _fit_once(fit: Fit, people: FloatArray, name: str, rng: np.random.Generator) -> FloatArray:
    try:
        output = np.array(fit(people.copy(), rng), dtype=np.float64)
    except Exception as error:
        # The error message may quote the data.
        raise AuditError(
            f"the fit failed with {type(error).__name__} on {len(people)} people ({name}); there is no verdict on what "
            "fails"
        ) from None
    if output.ndim not in (1, 2) or output.size == 0:
        raise AuditError("the fit gives no numbers, or in more than two dimensions; it must give rows of numbers")
    if not np.isfinite(output).all():
        raise AuditError(f"the fit gives something that is not a number on {len(people)} people ({name})")
    return output if output.ndim == 2 else output[:, None]
