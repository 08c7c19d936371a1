"""Guarantees: what a release promises, to whom, and on what ground.

A `Guarantee` prints as a card of at most twelve lines, or in full. A `Certificate` is a computed bound behind one.
Below them are the checks of privacy parameters that all mechanisms share.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.html_card import html_card, html_details

CARD_WIDTH = 88
_INNER_WIDTH = CARD_WIDTH - 4
_SHORT_CARD_LINES = 12
_NUMERICAL_DELTA = 1e-9

FURTHER_RELEASES = "each further release of a person's place adds its loss"
NOT_COVERED_BY_METRIC = f"places far apart are not hidden from each other; {FURTHER_RELEASES}"


SEEDED_NOTE = "Drawn from a seed, for experiments: this protects nobody. Anyone who knows the seed can undo the noise."
SEEDED_INTERVALS_NOTE = "The intervals were drawn from a seed. Anyone who knows it can undo their noise."
SEEDED_CELLS_NOTE = "The cells were drawn from a seed. Anyone who knows it can undo their noise."
SEED_NOTES = (SEEDED_NOTE, SEEDED_INTERVALS_NOTE, SEEDED_CELLS_NOTE)


class Notion(StrEnum):
    """What kind of promise an epsilon is part of. Numbers of different notions must not be compared."""

    CENTRAL = "central"
    """Differential privacy of something learned from everybody's data together."""
    LOCAL = "local"
    """Any two places of the region are alike up to epsilon."""
    INTERVAL = "interval"
    """Two places that share an interval are alike up to epsilon; the interval itself is disclosed."""
    METRIC = "metric"
    """Any two places are alike up to epsilon times their distance (geo-indistinguishability)."""
    ELASTIC = "elastic"
    """Any two places are alike up to epsilon times the steps between them, which are short where people are dense."""

    @property
    def is_by_distance(self) -> bool:
        """Whether the loss grows with how far apart two places are, in metres or in steps."""
        return self in (Notion.METRIC, Notion.ELASTIC)

    @property
    def unit(self) -> str:
        """What epsilon is counted in."""
        return {Notion.METRIC: "per metre", Notion.ELASTIC: "per step"}.get(self, "per person")


class Basis(StrEnum):
    """Why a guarantee may be believed."""

    THEOREM = "theorem"
    CERTIFICATE = "numerical certificate"
    REFUTED_CLAIM = "claimed by the paper, refuted"
    NOBODY = "claimed by nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """One statement about privacy.

    Parameters
    ----------
    title : str
        What the statement is about.
    notion : Notion
        The kind of promise.
    epsilon : float
        The largest privacy loss, in ``unit``.
    unit : str
        What epsilon is counted in: ``"per person"``, ``"per metre"``, ``"per step"``.
    delta : float
        What an event may have beyond e^epsilon times its probability in the other world.
    neighbours : str
        Which two worlds are hard to distinguish.
    promise : str
        What is protected, in one plain sentence.
    not_covered : str
        What is not protected, in the same way.
    basis : Basis
        Why it may be believed.
    because : str
        The theorem, the certificate or the counterexample, in one sentence.
    also : tuple of Guarantee
        Further statements about the same release.
    notes : tuple of str
        What a reader must know besides.
    offset : float
        Metric and elastic notion: a loss that comes on top of epsilon times the distance, however near two places are.
    per_row : bool
        Whether it speaks of rows, of which a person may have several.
    certificate : Certificate, optional
        The largest loss as computed, with the places and the output that attain it.
    """

    title: str
    notion: Notion
    epsilon: float
    unit: str
    delta: float
    neighbours: str
    promise: str
    basis: Basis
    because: str
    not_covered: str = ""
    also: tuple[Guarantee, ...] = ()
    notes: tuple[str, ...] = ()
    offset: float = 0.0
    per_row: bool = False
    certificate: Certificate | None = None

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0 or not 0 <= self.delta <= 1:
            raise ValueError("a guarantee needs epsilon >= 0 and delta between 0 and 1")
        if not 0 <= self.offset < math.inf or (self.offset and not self.notion.is_by_distance):
            raise ValueError("only a metric or elastic guarantee has an offset, of at least 0")
        # What is printed must cover what was computed.
        if self.certificate is not None and self.certificate.bound > self.epsilon * (1 + 1e-12):
            raise ValueError("the certificate's bound exceeds the epsilon it is to back")

    @classmethod
    def claimed_by_nobody(cls) -> Guarantee:
        """Return the guarantee of a mechanism that has none: it promises nothing, and its card says so.

        Examples
        --------
        >>> Guarantee.claimed_by_nobody().is_promised
        False
        """
        return cls(
            title="Every published place",
            notion=Notion.LOCAL,
            epsilon=math.inf,
            unit="per person",
            delta=1.0,
            neighbours="any two places of one person in the region",
            promise="nothing",
            not_covered="everything: what is published may give the true place away",
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
    def number(self) -> str:
        """The notion and its parameters, rounded up: ``metric, epsilon = 0.004 per metre``."""
        if not self.is_promised:
            return "no loss is bounded"
        offset = f" + {round_up(self.offset)}" if self.offset else ""
        return f"{self.notion}, epsilon = {round_up(self.epsilon)} {self.unit}{offset}"

    def counted_per_row(self) -> Guarantee:
        """Return what is left of the statement where a person may have several rows: it holds for each row."""
        return replace(
            self,
            per_row=True,
            unit="per row" if self.unit == "per person" else self.unit,
            also=tuple(other.counted_per_row() for other in self.also),
        )

    def with_note(self, note: str) -> Guarantee:
        """Return the same with one more thing to know."""
        return replace(self, notes=(*self.notes, note))

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain values for JSON."""
        return {
            "title": self.title,
            "notion": str(self.notion),
            # JSON has no infinity; null says that there is no bound.
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "unit": self.unit,
            "delta": self.delta,
            "neighbours": self.neighbours,
            "promise": self.promise,
            "not_covered": self.not_covered,
            "basis": str(self.basis),
            "because": self.because,
            "holds": self.holds,
            "offset": self.offset,
            "per_row": self.per_row,
            "certificate": self.certificate.to_dict() if self.certificate else None,
            "also": [statement.to_dict() for statement in self.also],
            "notes": list(self.notes),
        }

    def card(self, *, full: bool = False, full_is_at: str = "guarantee.card(full=True)") -> str:
        """Return the card: what is promised and what is not, in at most twelve lines or in full.

        The last of the twelve lines says where the full card is.
        """
        notes = (*self.notes, *(note for other in self.also for note in other.notes))
        return _boxed("GUARANTEE", _full_card(self, notes) if full else _short_card(self, notes, full_is_at))

    def __str__(self) -> str:
        return self.card()

    def _repr_html_(self) -> str:
        """The card, for a notebook."""
        notes = (*self.notes, *(note for other in self.also for note in other.notes))
        statements = (self, *self.also)
        promise = [("Promise", self.promise), ("Not covered", self.not_covered)]
        details = [
            (f"{statement.title}: {label}.", text)
            for statement in statements
            for label, text in (
                ("between", statement.neighbours), ("promise", statement.promise),
                ("basis", f"{statement.basis}: {statement.because}"),
            )
            if text
        ]  # fmt: skip
        return html_card(
            "Guarantee",
            [*map(_heading, statements), *((label, text) for label, text in promise if text)],
            notes=[f"Note: {note}" for note in dict.fromkeys(notes)],
            more=[html_details("Between which places, and why it holds", details)],
        )


def guarantee_from_dict(document: dict[str, Any]) -> Guarantee:
    """Read what `Guarantee.to_dict` gave."""
    try:
        certificate = document.get("certificate")
        return Guarantee(
            notion=Notion(document["notion"]),
            basis=Basis(document["basis"]),
            epsilon=math.inf if document["epsilon"] is None else float(document["epsilon"]),
            delta=float(document["delta"]),
            offset=float(document.get("offset", 0.0)),
            per_row=bool(document.get("per_row", False)),
            also=tuple(guarantee_from_dict(statement) for statement in document.get("also", ())),
            notes=tuple(str(note) for note in document.get("notes", ())),
            certificate=certificate_from_dict(certificate) if certificate else None,
            promise=str(document["promise"]),
            not_covered=str(document["not_covered"]),
            **{name: str(document[name]) for name in ("title", "unit", "neighbours", "because")},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise DataError("this is not a guarantee, or it is damaged; write it again") from None


def round_up(value: float, digits: int = 3) -> str:
    """Write a number with ``digits`` significant digits, rounded up.

    Examples
    --------
    >>> round_up(1.29401)
    '1.3'
    >>> round_up(0.004)
    '0.004'
    """
    text = f"{value:.{digits}g}"
    if float(text) < value * (1 - 1e-12):
        step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
        text = f"{float(text) + step:.{digits}g}"
    return text


def _full_card(guarantee: Guarantee, notes: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    for statement in (guarantee, *guarantee.also):
        verdict = "" if statement.holds else f"  ** {_verdict(statement)} **"
        delta = f", delta = {round_up(statement.delta)}" if statement.delta and statement.is_promised else ""
        lines += [f"{statement.title}{verdict}", f"  {statement.number}{delta}"]
        lines += _wrapped("  Between", statement.neighbours)
        lines += _wrapped("  Promise", statement.promise)
        lines += _wrapped("  Not covered", statement.not_covered) if statement.not_covered else []
        lines += [*_wrapped("  Basis", f"{statement.basis}: {statement.because}"), ""]
    for note in notes:
        lines += _wrapped("Note", note)
    return lines


def _short_card(guarantee: Guarantee, notes: tuple[str, ...], full_is_at: str) -> list[str]:
    """The first statement, the other statements' numbers, and the first sentence of each note, as far as they fit."""
    lines = []
    for statement in (guarantee, *guarantee.also):
        lines += _wrapped(*_heading(statement))
        if statement is guarantee:
            lines += _wrapped("Promise", guarantee.promise)
            lines += _wrapped("Not covered", guarantee.not_covered) if guarantee.not_covered else []
    urgent = [note for note in notes if note in SEED_NOTES]
    left = [_first_sentence(note) for note in (*urgent, *(note for note in notes if note not in SEED_NOTES))]
    # Two lines are the box, and one says where the rest is. That a seed undoes the noise is said in any case.
    while left and (urgent or len(lines) + len(left[0]) <= _SHORT_CARD_LINES - 3):
        lines += left.pop(0)
        urgent = urgent[1:]
    why = "why it holds" if guarantee.holds else "why"
    more = f"{len(left)} more note{'s' if len(left) > 1 else ''}, and {why}" if left else why.capitalize()
    return [*lines, f"{more}: {full_is_at}"]


def _first_sentence(note: str) -> list[str]:
    return _wrapped("Note", note.split(". ", maxsplit=1)[0].removesuffix(".") + ".")


def _heading(statement: Guarantee) -> tuple[str, str]:
    """Return a statement's title, with what is wrong with it, and its number."""
    verdict = "" if statement.holds else f" {_verdict(statement)}"
    # A delta that only stands for the computer's numbers is for the full card.
    has_delta = statement.delta > _NUMERICAL_DELTA and statement.is_promised
    return f"{statement.title}{verdict}", statement.number + (
        f", delta = {round_up(statement.delta)}" if has_delta else ""
    )


def _verdict(statement: Guarantee) -> str:
    return "DOES NOT HOLD" if statement.is_promised else "NOTHING IS PROMISED"


def _wrapped(label: str, text: str) -> list[str]:
    head = f"{label}: "
    indent = " " * (len(label) - len(label.lstrip()) + 4)
    return textwrap.wrap(head + text, _INNER_WIDTH, subsequent_indent=indent, break_long_words=False)


def _boxed(title: str, lines: list[str]) -> str:
    while lines and not lines[-1]:
        lines.pop()
    inner = CARD_WIDTH - 2
    top = f"┌─ {title} " + "─" * (inner - len(title) - 3) + "┐"
    body = [f"│ {line:<{inner - 2}} │" for line in lines]
    return "\n".join([top, *body, "└" + "─" * inner + "┘"])


# Certificates


class Method(StrEnum):
    """How the bound was computed."""

    EXHAUSTIVE = "every pair and every output"
    """A finite channel, gone through completely: the bound is the loss itself."""
    MESH = "mesh and Lipschitz term"
    """Values on a mesh, plus the most that the loss can rise between its points: an upper bound, not an estimate."""
    EDGES = "every pair of neighbours"
    """A bound for each pair of cells that touch, which adds up along the shortest way between any two."""
    CLOSED_FORM = "closed form"
    """A formula that is proven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A number that the privacy loss never exceeds, over all pairs that are promised.

    Attributes
    ----------
    bound : float
        Upper bound on the loss (for the metric notion: per metre on the ground).
    attained : float
        Loss at the pair and the output below, in the same unit: the true largest loss lies between the two.
    first, second, output : tuple of float
        Two places, and an output that is likelier from the first; in ``frame``.
    frame : str
        What the places are counted in: the square [-1, 1]² of the region, or metres east and north of its centre.
    method : Method
        How the bound was computed.
    how : str
        The same in a sentence or two that say why it may be believed.
    """

    bound: float
    attained: float
    first: tuple[float, float]
    second: tuple[float, float]
    output: tuple[float, float]
    frame: str
    method: Method
    how: str

    def __post_init__(self) -> None:
        numbers = (self.bound, self.attained, *self.first, *self.second, *self.output)
        if not all(math.isfinite(number) for number in numbers) or min(self.bound, self.attained) < 0:
            raise ValueError("a certificate needs finite numbers, and losses of at least 0")

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain values for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def certificate_from_dict(document: dict[str, Any]) -> Certificate:
    """Read what `Certificate.to_dict` gave."""
    try:
        places = {name: _place(document[name]) for name in ("first", "second", "output")}
        return Certificate(
            bound=float(document["bound"]),
            attained=float(document["attained"]),
            frame=str(document["frame"]),
            method=Method(document["method"]),
            how=str(document["how"]),
            **places,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise DataError("this is not a certificate, or it is damaged; make one with 'nearveil certify'") from None


def _place(values: list[float]) -> tuple[float, float]:
    east, north = values
    return float(east), float(north)


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
    if not number > 0:
        raise UsageError(f"{name} must be greater than 0")
    return number


def check_count(value: int, name: str, *, least: int, most: int) -> int:
    """Return a whole number within limits, or say which are allowed."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{name} must be a whole number from {least:,} to {most:,}")
    return int(value)


def _number(value: float, name: str) -> float:
    if isinstance(value, str | bool):
        raise UsageError(f"{name} must be a number")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number") from None
    if not math.isfinite(number):
        raise UsageError(f"{name} must be a finite number")
    return number
