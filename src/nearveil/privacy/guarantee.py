"""Guarantees: what a release promises, to whom, and why.

A `Guarantee` prints as a card of at most twelve lines, and explains itself. A `Certificate` is a computed bound
behind one. Below them are the checks of privacy parameters that all mechanisms share.
"""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from html import escape
from typing import Any

import numpy as np

from nearveil.errors import DataError, UsageError

CARD_WIDTH = 88
_INNER_WIDTH = CARD_WIDTH - 4
_CARD_LINES = 12
NUMERICAL_DELTA = 1e-9
"""Up to here, a delta only stands for the finite precision of numbers; the card leaves it out."""

FURTHER_RELEASES = "each further release of a user's location adds its loss"
NOT_COVERED_BY_METRIC = f"locations far apart are not hidden from each other; {FURTHER_RELEASES}"

SEEDED_NOTE = "Drawn from a seed, for experiments: this protects nobody. Anyone who knows the seed can undo the noise."
SEEDED_INTERVALS_NOTE = "The intervals were drawn from a seed. Anyone who knows it can undo their noise."
SEEDED_CELLS_NOTE = "The cells were drawn from a seed. Anyone who knows it can undo their noise."
SEED_NOTES = (SEEDED_NOTE, SEEDED_INTERVALS_NOTE, SEEDED_CELLS_NOTE)


class PrivacyDefinition(StrEnum):
    """What kind of promise an epsilon is part of. Epsilons of different privacy definitions must not be compared."""

    CENTRAL = "central"
    """Differential privacy of something learned from the data of all users together."""
    LOCAL = "local"
    """Any two locations of the region are alike up to epsilon."""
    INTERVAL = "interval"
    """Two locations that share an interval are alike up to epsilon; the interval itself is disclosed."""
    METRIC = "metric"
    """Any two locations are alike up to epsilon times their distance (geo-indistinguishability)."""
    ELASTIC = "elastic"
    """Any two locations are alike up to epsilon times the steps between them, which are short where users are dense."""

    @property
    def is_by_distance(self) -> bool:
        """Whether the loss grows with how far apart two locations are, in meters or in steps."""
        return self in (PrivacyDefinition.METRIC, PrivacyDefinition.ELASTIC)

    @property
    def unit(self) -> str:
        """What epsilon is counted in."""
        return {PrivacyDefinition.METRIC: "per meter", PrivacyDefinition.ELASTIC: "per step"}.get(self, "per user")


class Counted(StrEnum):
    """What a guarantee speaks of; losses of one user's rows or places add up."""

    USERS = "users"
    ROWS = "rows"
    PLACES = "places"


class Basis(StrEnum):
    """Why a guarantee may be believed."""

    THEOREM = "theorem"
    CERTIFICATE = "numerical certificate"
    REFUTED_CLAIM = "claimed by the paper, refuted"
    NOBODY = "claimed by nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """One statement about privacy."""

    title: str
    """What the statement is about."""
    definition: PrivacyDefinition
    """The kind of promise."""
    epsilon: float
    """The largest privacy loss, in ``unit``."""
    unit: str
    """``"per user"``, ``"per row"``, ``"per place"``, ``"per meter"`` or ``"per step"``."""
    delta: float
    """What an event may have beyond e^epsilon times its probability in the other world."""
    neighbors: str
    """Which two worlds are hard to distinguish."""
    promise: str
    """What is protected, in one plain sentence."""
    basis: Basis
    """Why it may be believed."""
    because: str
    """The theorem, the certificate or the counterexample, in one sentence."""
    not_covered: str = ""
    """What is not protected, in one plain sentence."""
    also: tuple[Guarantee, ...] = ()
    """Further statements about the same release."""
    notes: tuple[str, ...] = ()
    """What a reader must know besides."""
    offset: float = 0.0
    """Metric and elastic definition: a loss on top of epsilon times the distance, however near two locations are."""
    counted: Counted = Counted.USERS
    """Whether it speaks of users, or of rows or places, of which a user may have several."""
    most_places: int = 1
    """If it counts places, how many the user with the most has."""
    certificate: Certificate | None = None
    """The largest loss as computed, with the locations and the output that attain it."""

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0 or not 0 <= self.delta <= 1:
            raise ValueError("a guarantee needs epsilon >= 0 and delta between 0 and 1")
        if not 0 <= self.offset < math.inf or (self.offset and not self.definition.is_by_distance):
            raise ValueError("only a metric or elastic guarantee has an offset, of at least 0")
        if self.most_places < 1 or (self.most_places > 1 and self.counted is not Counted.PLACES):
            raise ValueError("only a guarantee that counts places has most_places, of at least 1")
        # What is printed must cover what was computed.
        if self.certificate is not None and not self.certificate.bound <= self.epsilon * (1 + 1e-12):
            raise ValueError("the certificate's bound exceeds the epsilon it is to back")

    @classmethod
    def claimed_by_nobody(cls) -> Guarantee:
        """Return the guarantee of a mechanism that has none: it promises nothing, and its card says so."""
        return cls(
            title="Every published location",
            definition=PrivacyDefinition.LOCAL,
            epsilon=math.inf,
            unit=PrivacyDefinition.LOCAL.unit,
            delta=1.0,
            neighbors="any two locations of one user in the region",
            promise="nothing",
            not_covered="everything: what is published may give the true location away",
            basis=Basis.NOBODY,
            because="nobody has stated a guarantee for this mechanism, so that no loss is bounded",
        )

    @property
    def is_promised(self) -> bool:
        """Whether there is a statement at all; False for `claimed_by_nobody`."""
        return self.basis is not Basis.NOBODY

    @property
    def holds(self) -> bool:
        """Whether the statement is true; False for a claim that is refuted, and where nothing is claimed."""
        return self.basis not in (Basis.REFUTED_CLAIM, Basis.NOBODY)

    @property
    def is_of_release(self) -> bool:
        """Whether it speaks of what is published of each user, not of what was learned from all."""
        return self.definition is not PrivacyDefinition.CENTRAL

    @property
    def number(self) -> str:
        """The definition and its parameters, rounded up: ``metric, epsilon = 0.004 per meter``."""
        if not self.is_promised:
            return "no loss is bounded"
        offset = f" + {round_up(self.offset)}" if self.offset else ""
        number = f"{self.definition}, epsilon = {round_up(self.epsilon)} {self.unit}{offset}"
        if self.counted is not Counted.PLACES:
            return number
        each = "" if self.unit == "per place" else " for each place"
        more = f" + {round_up(self.offset * self.most_places)}" if self.offset else ""
        most = f"{round_up(self.epsilon * self.most_places)}{more}"
        return f"{number}{each}; {most} for the user with the most places, {self.most_places:,}"

    def counted_per_row(self) -> Guarantee:
        """Return what is left of the statement if a user may have several rows: it holds for each row."""
        unit = "per row" if self.unit == "per user" else self.unit
        also = tuple(other.counted_per_row() for other in self.also)
        return replace(self, counted=Counted.ROWS, unit=unit, also=also)

    def counted_per_place(self, most: int) -> Guarantee:
        """Return the statement for users with up to ``most`` places: it holds for each place, and losses add up.

        What was learned from all users is stated as before: it was counted when it was learned.
        """
        disclosed = "how many places a user has, and how often the user is at each, is disclosed"
        return replace(
            self,
            counted=Counted.PLACES,
            most_places=check_count(most, "most", least=1, most=10**9),
            unit="per place" if self.unit == "per user" else self.unit,
            not_covered=f"{disclosed}; {self.not_covered}".removesuffix("; "),
            also=tuple(other.counted_per_place(most) if other.is_of_release else other for other in self.also),
        )

    def with_note(self, note: str) -> Guarantee:
        """Return the same with one more thing to know."""
        return replace(self, notes=(*self.notes, note))

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain values for JSON."""
        document = {
            **asdict(self),
            # JSON has no infinity; null says that there is no bound.
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "holds": self.holds,
            "also": [statement.to_dict() for statement in self.also],
        }
        return dict(json.loads(json.dumps(document)))

    def card(self, *, full_is_at: str = "guarantee.explain()") -> str:
        """Return what is promised and what is not in at most twelve lines, of which the last says where the rest is."""
        return _boxed(_card(self, full_is_at))

    def explain(self) -> str:
        """Return all of it, and what anyone who sees the result may learn, in plain words and numbers."""
        from nearveil.privacy.explain import explain  # noqa: PLC0415 - which speaks of guarantees

        return explain(self)

    __str__ = card

    def _repr_html_(self) -> str:
        """The card, for a notebook."""
        from nearveil.html_card import html_card  # noqa: PLC0415 - for notebooks only

        facts = [*map(_heading, (self, *self.also)), ("Promise", self.promise), ("Not covered", self.not_covered)]
        return html_card(
            "Guarantee",
            [(label, text) for label, text in facts if text],
            notes=[f"Note: {note}" for note in dict.fromkeys(_all_notes(self))],
            more=[f"<details><summary>In full</summary><pre>{escape(self.explain())}</pre></details>"],
        )


def guarantee_from_dict(document: dict[str, Any]) -> Guarantee:
    """Read what `Guarantee.to_dict` gave."""
    try:
        certificate = document.get("certificate")
        return Guarantee(
            definition=PrivacyDefinition(document["definition"]),
            basis=Basis(document["basis"]),
            epsilon=math.inf if document["epsilon"] is None else float(document["epsilon"]),
            delta=float(document["delta"]),
            offset=float(document.get("offset", 0.0)),
            counted=Counted(document.get("counted", Counted.USERS)),
            most_places=int(document.get("most_places", 1)),
            also=tuple(guarantee_from_dict(statement) for statement in document.get("also", ())),
            notes=tuple(str(note) for note in document.get("notes", ())),
            certificate=_certificate_from_dict(certificate) if certificate else None,
            **{
                name: str(document[name])
                for name in ("title", "unit", "neighbors", "promise", "not_covered", "because")
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise DataError("this is not a guarantee, or it is damaged; write it again") from None


def round_up(value: float, digits: int = 3) -> str:
    """Write a number with ``digits`` significant digits, rounded up: 1.29401 is 1.3."""
    text = f"{value:.{digits}g}"
    if float(text) < value * (1 - 1e-12):
        step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
        text = f"{float(text) + step:.{digits}g}"
    return text


def _all_notes(guarantee: Guarantee) -> list[str]:
    return [*guarantee.notes, *(note for other in guarantee.also for note in other.notes)]


def _card(guarantee: Guarantee, full_is_at: str) -> list[str]:
    """The first statement, the others' numbers, and the first sentence of each note, as far as they fit."""
    notes = sorted(_all_notes(guarantee), key=lambda note: note not in SEED_NOTES)
    left = [("Note", note.split(". ")[0].removesuffix(".") + ".") for note in notes]
    # That a seed undoes the noise is said in any case, and so is what is promised; the longest text is cut first.
    seeds = sum(note in SEED_NOTES for note in notes)
    parts, left = [_heading(guarantee), *left[:seeds]], left[seeds:]
    parts += [("Promise", guarantee.promise), ("Not covered", guarantee.not_covered), *map(_heading, guarantee.also)]
    # Two lines are the box, and one says where the rest is.
    room, sizes = _CARD_LINES - 3, [len(_lines(*part)) for part in parts]
    while sum(sizes) > room and max(sizes) > 1:
        sizes[sizes.index(max(sizes))] -= 1
    lines = [line for part, size in zip(parts, sizes, strict=True) for line in _lines(*part, size)][:room]
    while left and len(lines) + len(note := _lines(*left[0])) <= room:
        lines += note
        del left[0]
    why = "why it holds" if guarantee.holds else "why"
    more = f"{len(left)} more note{'s' if len(left) > 1 else ''}, and {why}" if left else why.capitalize()
    return [*lines, f"{more}: {full_is_at}"]


def _heading(statement: Guarantee) -> tuple[str, str]:
    """Return a statement's title, with what is wrong with it, and its number."""
    if not statement.is_promised:
        return f"{statement.title} NOTHING IS PROMISED", statement.number
    delta = f", delta = {round_up(statement.delta)}" if statement.delta > NUMERICAL_DELTA else ""
    return statement.title if statement.holds else f"{statement.title} DOES NOT HOLD", statement.number + delta


def _lines(label: str, text: str, most: int | None = None) -> list[str]:
    """Return ``label: text`` in at most so many lines, the further ones indented; none if there is no text."""
    how = {"subsequent_indent": " " * 4, "break_long_words": False, "max_lines": most, "placeholder": " ..."}
    return textwrap.wrap(f"{label}: {text}", _INNER_WIDTH, **how) if text else []  # type: ignore[arg-type]


def _boxed(lines: list[str]) -> str:
    top = "┌─ GUARANTEE " + "─" * (CARD_WIDTH - 14) + "┐"
    body = [f"│ {line:<{_INNER_WIDTH}} │" for line in lines]
    return "\n".join([top, *body, "└" + "─" * (CARD_WIDTH - 2) + "┘"])


# Certificates


class Method(StrEnum):
    """How the bound was computed."""

    EXHAUSTIVE = "every pair and every output"
    """A finite channel, gone through completely: the bound is the loss itself."""
    MESH = "mesh and Lipschitz term"
    """Values on a mesh, plus the most that the loss can rise between its points: an upper bound, not an estimate."""
    EDGES = "every pair of neighbors"
    """A bound for each pair of cells that touch, which adds up along the shortest way between any two."""
    CLOSED_FORM = "closed form"
    """A formula that is proven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A number that the privacy loss never exceeds, over all pairs that are promised."""

    bound: float
    """Upper bound on the loss; per meter on the ground for the metric definition."""
    attained: float
    """Loss at the pair and the output below, in the same unit: the true largest loss lies between the two."""
    first: tuple[float, float]
    """One location of the pair, in ``frame``."""
    second: tuple[float, float]
    """The other."""
    output: tuple[float, float]
    """An output that is likelier from the first."""
    frame: str
    """What the locations are counted in: the square [-1, 1]² of the region, or meters east and north of its center."""
    method: Method
    """How the bound was computed."""
    how: str
    """The same in a sentence or two that say why it may be believed."""


def _certificate_from_dict(document: dict[str, Any]) -> Certificate:
    points = {name: (float(x), float(y)) for name in ("first", "second", "output") for x, y in [document[name]]}
    return Certificate(**{**document, **points, "method": Method(document["method"])})


# Privacy parameters that can be asked for


LEAST_EPSILON = 0.001
LARGEST_EPSILON = 50.0
LARGEST_DELTA = 0.1


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """Return epsilon as a float, or say what can be asked for."""
    value = _number(epsilon, name)
    if not LEAST_EPSILON <= value <= LARGEST_EPSILON:
        raise UsageError(
            f"{name} must lie between {LEAST_EPSILON:g} and {LARGEST_EPSILON:g}; 1 is a usual choice, and a larger "
            f"{name} protects less"
        )
    return value


def check_delta(delta: float) -> float:
    """Return delta as a float, or say what can be asked for."""
    value = _number(delta, "delta")
    if not 0 < value <= LARGEST_DELTA:
        raise UsageError(f"delta must be greater than 0 and at most {LARGEST_DELTA:g}; 1e-5 is a usual choice")
    return value


def check_positive(value: float, name: str) -> float:
    """Return a positive, finite number, or say that one is needed."""
    number = _number(value, name)
    if number <= 0:
        raise UsageError(f"{name} must be greater than 0")
    return number


def check_count(value: int, name: str, *, least: int, most: int) -> int:
    """Return a whole number within limits, or say which are allowed."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{name} must be a whole number from {least:,} to {most:,}")
    return int(value)


def _number(value: float, name: str) -> float:
    try:
        number = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{name} must be a finite number")
    return number
