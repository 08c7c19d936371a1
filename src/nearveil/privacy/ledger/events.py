"""What happened: a release or a fit, to whom, when, under which notion. What it costs is decided elsewhere.

An amount is the decimal number that it prints as: 0.1 is one tenth. Sums and comparisons are exact, so that ten
releases of 0.1 fill a budget of 1 and nothing more fits in, however many and however small the amounts are. Where a
result must be a float again it is rounded against the spender: a cost up, what is left down.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.privacy.accounting import LaplaceAnswers, epsilon_from_log_moment, gaussian_log_moment, laplace_log_moment
from nearveil.privacy.guarantee import Guarantee, Notion

LEAST_AMOUNT = sys.float_info.min
"""The least normal number: below it floats lose their digits one by one."""

# Floats reach from 1e-324 to 1e309, so that exact sums have some 650 digits; running out of digits is an error.
_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation])


def as_epsilon(value: float) -> float:
    """Return a usable epsilon as a float, or say what is wrong with it."""
    number = _as_amount(value, "epsilon")
    if number == 0:
        raise UsageError("epsilon must be greater than 0; what costs nothing needs no place in the ledger")
    return number


def as_delta(value: float) -> float:
    """Return a usable delta as a float, or say what is wrong with it."""
    number = _as_amount(value, "delta")
    if number >= 1:
        raise UsageError("delta must be less than 1; a delta of 1 promises nothing, and 1e-5 is a usual choice")
    return number


def exact(value: float) -> Decimal:
    """Return the number that a float prints as."""
    return Decimal(repr(value))


def exact_sum(values: Iterable[float]) -> Decimal:
    """Return the sum of the printed numbers, without any error."""
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, exact(value))
    return total


def exact_difference(first: Decimal, second: Decimal) -> Decimal:
    """Return the difference without any error."""
    return _EXACT.subtract(first, second)


def float_at_least(value: Decimal) -> float:
    """Return the least float that prints as no less than ``value``.

    Examples
    --------
    >>> float_at_least(exact_sum([0.1] * 10)), sum([0.1] * 10)
    (1.0, 0.9999999999999999)
    """
    number = float(value)
    return number if exact(number) >= value else math.nextafter(number, math.inf)


def float_at_most(value: Decimal) -> float:
    """Return the largest float that prints as no more than ``value``."""
    number = float(value)
    return number if exact(number) <= value else math.nextafter(number, -math.inf)


def written_down(value: float, digits: int = 6) -> str:
    """Write a number with ``digits`` significant digits, rounded down."""
    shortened = Context(prec=digits, rounding="ROUND_FLOOR").create_decimal(repr(value))
    return f"{float_at_most(shortened):g}"


def _as_amount(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"{name} must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError(f"{name} must be a finite number; what has no finite {name} must not be published")
    if number < 0:
        raise UsageError(f"{name} must not be negative; nothing that is published gives privacy back")
    if 0 < number < LEAST_AMOUNT:
        raise UsageError(f"{name} is too small to be counted exactly; round it up to {LEAST_AMOUNT:.3g} or more")
    # Adding 0 makes a plain zero of a negative one.
    return number + 0.0


# Rényi curves: what is known of a loss beyond its epsilon, where the noise is known.


LEAST_SCALE = 1e-9
LARGEST_SCALE = 1e12
MOST_ANSWERS = 10**9


@dataclass(frozen=True, slots=True)
class GaussianAnswers:
    """What happened: ``count`` numbers of sensitivity 1, each answered with Gaussian noise of deviation ``sigma``."""

    count: int
    sigma: float


Noise = LaplaceAnswers | GaussianAnswers


class Law(StrEnum):
    """Which family of curves a loss belongs to."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    PURE = "pure"
    """Nothing is known but epsilon: the curve of randomised response, which is the worst that epsilon allows."""


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """One loss with a Rényi curve: the noise scale in units of the sensitivity, or epsilon for ``Law.PURE``."""

    law: Law
    parameter: float

    def log_moment(self, order: float) -> float:
        """Return (order - 1) times the Rényi divergence."""
        if self.law is Law.LAPLACE:
            return laplace_log_moment(order, self.parameter)
        if self.law is Law.GAUSSIAN:
            return gaussian_log_moment(order, self.parameter)
        return pure_log_moment(order, self.parameter)


def pure_log_moment(order: float, epsilon: float) -> float:
    """Return (order - 1) times the largest Rényi divergence that pure epsilon allows.

    That of randomised response, from which every pure mechanism follows by post-processing (Kairouz, Oh and
    Viswanath, 2015): ln(cosh(ε (a - 1/2)) / cosh(ε / 2)).
    """
    if epsilon * order > 1:
        tails = math.log1p(math.exp(-epsilon * (2 * order - 1))) - math.log1p(math.exp(-epsilon))
        return epsilon * (order - 1) + tails
    # The two logarithms nearly cancel; cosh a - cosh b as a product does not.
    excess = 2 * math.sinh(epsilon * order / 2) * math.sinh(epsilon * (order - 1) / 2)
    return math.log1p(excess / math.cosh(epsilon / 2))


def losses_of(noise: Iterable[Noise]) -> Counter[Loss]:
    """Return how often each loss occurs in a description of noise."""
    counted: Counter[Loss] = Counter()
    for part in noise:
        counted[_one_loss(part)] += part.count
    return counted


def pure_epsilon(noise: Iterable[Noise]) -> float:
    """Return the epsilon of the noise without delta; Gaussian noise has none."""
    return sum(part.count / part.scale if isinstance(part, LaplaceAnswers) else math.inf for part in noise)


def epsilon_at(noise: Iterable[Noise], delta: float) -> float:
    """Return the epsilon of the noise at a delta: by Rényi, or without delta where that is less."""
    parts = tuple(noise)

    def log_moment(order: float) -> float:
        return sum(
            part.count * laplace_log_moment(order, part.scale)
            if isinstance(part, LaplaceAnswers)
            else part.count * gaussian_log_moment(order, part.sigma)
            for part in parts
        )

    return min(pure_epsilon(parts), epsilon_from_log_moment(log_moment, delta)[0])


def check_noise(noise: object) -> tuple[Noise, ...]:
    """Return a description of noise as a tuple, or say what is wrong with it."""
    if not isinstance(noise, tuple | list):
        raise UsageError("noise must be a tuple of LaplaceAnswers and GaussianAnswers")
    return tuple(_checked(part) for part in noise)


def _checked(part: object) -> Noise:
    if not isinstance(part, LaplaceAnswers | GaussianAnswers):
        raise UsageError("noise must be made of LaplaceAnswers and GaussianAnswers; leave it out for any other noise")
    count, scale = part.count, _one_loss(part).parameter
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= MOST_ANSWERS:
        raise UsageError(f"noise must have a whole number of answers from 1 to {MOST_ANSWERS:,}")
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:
        raise UsageError(f"noise must have a scale from {LEAST_SCALE:g} to {LARGEST_SCALE:g} sensitivities")
    return type(part)(int(count), float(scale))


def _one_loss(part: Noise) -> Loss:
    if isinstance(part, LaplaceAnswers):
        return Loss(Law.LAPLACE, part.scale)
    return Loss(Law.GAUSSIAN, part.sigma)


# What happened: a release or a fit, to whom, when, under which notion. What it costs is another file's business.


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What the two kinds of event have in common; `Release` and `Fit` are the kinds there are.

    Parameters
    ----------
    who : tuple of str
        The ids of the people whose places went in, each once. An id says who, never where.
    when : datetime
        The moment of the places that went in, with a time zone; kept in UTC.
    notion : Notion
        The kind of promise that ``epsilon`` is part of.
    epsilon : float
        The loss of each person, in `unit`; greater than 0.
    draw_id : str
        Names the draw of noise. Whatever is published again from one draw is one event and has one name.
    delta : float
        What an event may have beyond e^epsilon times its probability in the other world; at least 0 and less than 1.
    noise : tuple of LaplaceAnswers or GaussianAnswers
        The noise, where it is plain additive noise on numbers of known sensitivity, so that a Rényi curve follows.
        Leave it out for anything else: truncated noise, for one, may lose more than its plain kin.
    """

    kind: ClassVar[str] = ""

    who: tuple[str, ...]
    when: datetime
    notion: Notion
    epsilon: float
    draw_id: str
    delta: float = 0.0
    noise: tuple[Noise, ...] = ()

    def __post_init__(self) -> None:
        if not self.kind:
            raise UsageError("an event must be a Release or a Fit; use one of these")
        checked = {
            "who": _check_people(self.who),
            "when": as_utc(self.when),
            "notion": as_notion(self.notion),
            "epsilon": as_epsilon(self.epsilon),
            "draw_id": check_id(self.draw_id, "draw_id"),
            "delta": as_delta(self.delta),
            "noise": check_noise(self.noise),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        _check_noise_against_claim(self)

    @classmethod
    def under(cls, guarantee: Guarantee, *, who: tuple[str, ...], when: datetime, draw_id: str) -> Self:
        """Return the event that one statement of a guarantee describes; its ``also`` are statements of their own."""
        if not guarantee.holds:
            raise UsageError("the guarantee does not hold, so its epsilon is not a cost; record one that does hold")
        if guarantee.offset:
            raise UsageError(
                f"the guarantee has a loss beside that {guarantee.unit}, that of the fit; record release and fit, each "
                "alone"
            )
        if guarantee.per_row or guarantee.unit != guarantee.notion.unit:
            raise UsageError(
                f"the guarantee counts {'rows' if guarantee.per_row else guarantee.unit}, the ledger "
                f"{guarantee.notion.unit}; name the column that says which rows are of one person"
            )
        return cls(
            who=who,
            when=when,
            notion=guarantee.notion,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            draw_id=draw_id,
        )

    @property
    def unit(self) -> str:
        """What epsilon is counted in."""
        return self.notion.unit

    def is_same_draw(self, other: Event) -> bool:
        """Tell whether both say the same of one draw; the moment of saying it again does not matter."""
        return _identity(self) == _identity(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Event):
    """Somebody's place was perturbed and published. Parameters as of `Event`."""

    kind: ClassVar[str] = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Event):
    """Something was learned from the places of everybody in ``who`` together. Parameters as of `Event`."""

    kind: ClassVar[str] = "fit"


KINDS: dict[str, type[Release] | type[Fit]] = {"fit": Fit, "release": Release}


def check_event(event: object) -> Event:
    """Return the event, or say that it is none that the ledger knows."""
    if type(event) not in (Release, Fit):
        raise UsageError(f"a {type(event).__name__} is not an event that the ledger knows; give a Release or a Fit")
    assert isinstance(event, Event)  # noqa: S101
    return event


def as_notion(value: object) -> Notion:
    """Return the notion, or say which ones there are."""
    try:
        return Notion(value)  # type: ignore[arg-type]
    except ValueError:
        raise UsageError(f"notion must be one of {', '.join(Notion)}") from None


def as_utc(moment: object) -> datetime:
    """Return a moment in UTC, or say that a time zone is missing."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise UsageError("a moment must be a datetime with a time zone; datetime.now(UTC) is one")
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        raise UsageError("a moment must lie between the years 1 and 9999 in UTC") from None
    # Rebuilt, since a subclass may hold digits that the ledger would not write.
    return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC)


def check_id(value: object, name: str) -> str:
    """Return an id that can be written and read back, or say what is wrong with it."""
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name} must be a string that is not empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} must be proper Unicode, without lone surrogates") from None
    return str(value)


def _check_people(who: object) -> tuple[str, ...]:
    if isinstance(who, str) or not isinstance(who, Collection) or not who:
        raise UsageError("who must be a tuple of at least one person id; for one person write ('id',)")
    people = sorted(check_id(person, "a person id") for person in who)
    if len(set(people)) < len(people):
        raise UsageError("who must name each person once; several places of one person cost the sum of their epsilons")
    return tuple(people)


def _check_noise_against_claim(event: Event) -> None:
    """Refuse a description of noise that cannot belong to the event."""
    if not event.noise:
        return
    if event.notion.is_by_distance:
        raise UsageError(
            f"noise must be left out for the {event.notion} notion: a loss {event.unit} has no Rényi curve"
        )
    # Counts and scales are rounded once each, so the claim may be short by a few units in the last place.
    if event.delta == 0 and event.epsilon < pure_epsilon(event.noise) * (1 - 1e-12):
        raise UsageError("the noise costs more than epsilon without a delta; state its true epsilon, or a delta")
    if event.delta and event.epsilon < epsilon_at(event.noise, event.delta) * (1 - 1e-6):
        raise UsageError("the noise costs more than epsilon at this delta; state its true epsilon, or leave noise out")


def _identity(event: Event) -> tuple[object, ...]:
    return (event.kind, event.draw_id, event.notion, event.epsilon, event.delta, event.noise, event.who)


# Events as bytes and back: one JSON object each.


def event_to_bytes(event: Event) -> bytes:
    """Write an event as one line of ASCII, without its end."""
    document = {
        "kind": event.kind,
        "draw_id": event.draw_id,
        "when": event.when.isoformat(),
        "notion": str(event.notion),
        "epsilon": event.epsilon,
        "delta": event.delta,
        "noise": [_noise_to_dict(part) for part in event.noise],
        "who": event.who,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def event_from_bytes(line: bytes) -> Event:
    """Read an event that `event_to_bytes` wrote; anything else is refused rather than guessed at."""
    try:
        document = json.loads(line)
        event = _from_document(document)
        if event_to_bytes(event) == line:
            return event
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, UsageError):
        pass
    raise DataError("the ledger holds a record that this Nearveil does not understand; use the one that wrote it")


def _from_document(document: dict[str, Any]) -> Event:
    return KINDS[document["kind"]](
        who=tuple(document["who"]),
        when=datetime.fromisoformat(document["when"]),
        notion=document["notion"],
        epsilon=document["epsilon"],
        draw_id=document["draw_id"],
        delta=document["delta"],
        noise=tuple(_noise_from_dict(part) for part in document["noise"]),
    )


def _noise_to_dict(part: Noise) -> dict[str, Any]:
    if isinstance(part, LaplaceAnswers):
        return {"law": str(Law.LAPLACE), "count": part.count, "scale": part.scale}
    return {"law": str(Law.GAUSSIAN), "count": part.count, "sigma": part.sigma}


def _noise_from_dict(part: dict[str, Any]) -> Noise:
    if part["law"] == Law.LAPLACE:
        return LaplaceAnswers(part["count"], part["scale"])
    return GaussianAnswers(part["count"], part["sigma"])
