"""Which privacy parameters can be asked for."""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from nearveil.errors import DataError, UsageError

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
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number") from None
    if not math.isfinite(number):
        raise UsageError(f"{name} must be a finite number")
    return number


# Guarantee: what a release promises, to whom, and on what ground. It prints as a card.


CARD_WIDTH = 88


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
        What the statement is about, in a few words.
    notion : Notion
        The kind of promise.
    epsilon : float
        The largest privacy loss, in ``unit``.
    unit : str
        What epsilon is counted in: ``"per person"``, ``"per metre"``.
    delta : float
        What an event may have beyond e^epsilon times its probability in the other world.
    neighbours : str
        Which two worlds cannot be told apart.
    protects : str
        What is protected and what is not, in one plain sentence.
    basis : Basis
        Why it may be believed.
    because : str
        The theorem, the certificate or the counterexample, in one sentence.
    also : tuple of Guarantee
        Further statements about the same release.
    notes : tuple of str
        What a reader must know besides.
    offset : float
        Metric notion only: a loss that comes on top of epsilon times the distance, however near two places are.
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
    protects: str
    basis: Basis
    because: str
    also: tuple[Guarantee, ...] = ()
    notes: tuple[str, ...] = ()
    offset: float = 0.0
    per_row: bool = False
    certificate: Certificate | None = None

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0 or not 0 <= self.delta <= 1:
            raise ValueError("a guarantee needs epsilon >= 0 and delta between 0 and 1")
        if not 0 <= self.offset < math.inf or (self.offset and self.notion is not Notion.METRIC):
            raise ValueError("only a metric guarantee has an offset, of at least 0")
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
            protects="nothing is promised: what is published may give the true place away",
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

    def counted_per_row(self) -> Guarantee:
        """Return what is left of the statement where a person may have several rows: it holds for each row."""
        return replace(
            self,
            title=_rows_for_persons(self.title),
            per_row=True,
            unit="per row" if self.unit == "per person" else self.unit,
            neighbours=_rows_for_persons(self.neighbours),
            protects=_rows_for_persons(self.protects),
            because=_rows_for_persons(self.because),
            also=tuple(other.counted_per_row() for other in self.also),
            notes=tuple(_rows_for_persons(note) for note in self.notes),
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
            "protects": self.protects,
            "basis": str(self.basis),
            "because": self.because,
            "holds": self.holds,
            "offset": self.offset,
            "per_row": self.per_row,
            "certificate": self.certificate.to_dict() if self.certificate else None,
            "also": [statement.to_dict() for statement in self.also],
            "notes": list(self.notes),
        }

    def card(self) -> str:
        """Return the card: every statement of the release, then the notes."""
        lines: list[str] = []
        for statement in (self, *self.also):
            lines += [*_statement_lines(statement), ""]
        for note in (*self.notes, *(note for other in self.also for note in other.notes)):
            lines += _wrapped("Note", note)
        return _boxed("GUARANTEE", lines)

    def __str__(self) -> str:
        return self.card()


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
            **{name: str(document[name]) for name in ("title", "unit", "neighbours", "protects", "because")},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise DataError("this is no guarantee, or a damaged one; 'nearveil protect --json' prints one") from None


def round_up(value: float, digits: int = 3) -> str:
    """Write a number with so many significant digits, never less than it is.

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


def _rows_for_persons(text: str) -> str:
    """Say of rows what was said of persons."""
    for person, row in (("people", "rows"), ("person's", "row's"), ("person", "row"), ("their place", "its place")):
        text = re.sub(rf"\b{person}\b", row, text)
    return text


def _statement_lines(statement: Guarantee) -> list[str]:
    if not statement.is_promised:
        return [
            f"{statement.title}  ** NOTHING IS PROMISED **",
            *_wrapped("  Means", statement.protects),
            *_wrapped("  Basis", f"{statement.basis}: {statement.because}"),
        ]
    verdict = "" if statement.holds else "  ** DOES NOT HOLD **"
    delta = f", delta = {round_up(statement.delta)}" if statement.delta else ""
    offset = f" + {round_up(statement.offset)}" if statement.offset else ""
    return [
        f"{statement.title}{verdict}",
        f"  {statement.notion}, epsilon = {round_up(statement.epsilon)} {statement.unit}{offset}{delta}",
        *_wrapped("  Between", statement.neighbours),
        *_wrapped("  Means", statement.protects),
        *_wrapped("  Basis", f"{statement.basis}: {statement.because}"),
    ]


def _wrapped(label: str, text: str) -> list[str]:
    head = f"{label}: "
    indent = " " * (len(label) - len(label.lstrip()) + 4)
    return textwrap.wrap(head + text, CARD_WIDTH - 4, subsequent_indent=indent, break_long_words=False)


def _boxed(title: str, lines: list[str]) -> str:
    while lines and not lines[-1]:
        lines.pop()
    inner = CARD_WIDTH - 2
    top = f"┌─ {title} " + "─" * (inner - len(title) - 3) + "┐"
    body = [f"│ {line:<{inner - 2}} │" for line in lines]
    return "\n".join([top, *body, "└" + "─" * inner + "┘"])


# Certificate: the largest privacy loss of a mechanism, computed, and where it is attained.


class Method(StrEnum):
    """How the bound was computed."""

    EXHAUSTIVE = "every pair and every output"
    """A finite channel, gone through completely: the bound is the loss itself."""
    MESH = "mesh and Lipschitz term"
    """Values on a mesh, plus the most that the loss can rise between its points: an upper bound, not an estimate."""
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
        raise DataError("this is no certificate, or a damaged one; make one with 'nearveil certify'") from None


def _place(values: list[float]) -> tuple[float, float]:
    east, north = values
    return float(east), float(north)
