"""What happened: a release or a fit, to whom, when, under which notion. What it costs is another file's business."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Self

from nearveil.errors import UsageError
from nearveil.privacy.guarantee import Guarantee, Notion
from nearveil.privacy.ledger.amounts import as_delta, as_epsilon
from nearveil.privacy.ledger.noise import Noise, check_noise, epsilon_at, pure_epsilon


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
            raise UsageError("the guarantee does not hold, so its epsilon is no cost; record one that does hold")
        if guarantee.offset:
            raise UsageError(
                "the guarantee has a loss beside that per metre, that of the fit; record release and fit, each alone"
            )
        if guarantee.per_row or guarantee.unit != unit_of(guarantee.notion):
            raise UsageError(
                f"the guarantee counts {'rows' if guarantee.per_row else guarantee.unit}, the ledger "
                f"{unit_of(guarantee.notion)}; name the column that says which rows are of one person"
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
        return unit_of(self.notion)

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
        raise UsageError(f"a {type(event).__name__} is no event that the ledger knows; give a Release or a Fit")
    assert isinstance(event, Event)  # noqa: S101
    return event


def unit_of(notion: Notion) -> str:
    """Return what an epsilon of this notion is counted in."""
    return "per metre" if notion is Notion.METRIC else "per person"


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
    if event.notion is Notion.METRIC:
        raise UsageError("noise must be left out for the metric notion: a loss per metre has no Rényi curve")
    # Counts and scales are rounded once each, so the claim may be short by a few units in the last place.
    if event.delta == 0 and event.epsilon < pure_epsilon(event.noise) * (1 - 1e-12):
        raise UsageError("the noise costs more than epsilon without a delta; state its true epsilon, or a delta")
    if event.delta and event.epsilon < epsilon_at(event.noise, event.delta) * (1 - 1e-6):
        raise UsageError("the noise costs more than epsilon at this delta; state its true epsilon, or leave noise out")


def _identity(event: Event) -> tuple[object, ...]:
    return (event.kind, event.draw_id, event.notion, event.epsilon, event.delta, event.noise, event.who)
