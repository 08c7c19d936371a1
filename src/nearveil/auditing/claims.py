"""What a mechanism is said to promise, as something that can be put to the test."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from typing import Any

from nearveil.auditing.pairs import Pair
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import Basis, Guarantee, PrivacyDefinition, round_up

# Distances and densities are computed in floating point; a claim is not broken by the last digits.
_ROUND_OFF = 1e-9
_METRES = {"per meter": 1.0, "per kilometre": 1e-3, "per km": 1e-3}
# A number is spelt out, or the plus of 4e+2 would pass for the one before an offset.
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_DEFINITIONS = "|".join(PrivacyDefinition)
_CLAIM_PATTERN = re.compile(rf"({_DEFINITIONS}):({_NUMBER})(/km|/m)?(?:\+({_NUMBER}))?(?::({_NUMBER}))?", re.IGNORECASE)
_DEFINITION_FIRST = re.compile(rf"\s*({_DEFINITIONS}):", re.IGNORECASE)

CLAIM_FORMS = (
    "words such as local:1, interval:1, metric:0.004/m, metric:4/km, metric:4/km+2 (and 2 more, however near two "
    "places are), elastic:1.5 (per step between cells) or local:1:1e-6 (a delta)"
)
"""How a claim is written, for messages."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise about pairs of places.

    Parameters
    ----------
    definition : PrivacyDefinition
        Which pairs it speaks of: all of them (local; metric, by distance; elastic, by steps, where cells are known), or
        those that share an interval. A central claim is about data sets and covers no pair of places.
    epsilon : float
        The largest loss; per meter on the ground for the metric privacy definition, per step for the elastic one.
    delta : float
        What an event may have beyond e^epsilon times its probability in the other world.
    text : str
        The claim as text.
    offset : float
        Metric and elastic definition: a loss that is claimed on top of epsilon times the distance, however near two
        places are.
    """

    definition: PrivacyDefinition
    epsilon: float
    delta: float
    text: str
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (_is_number(self.epsilon) and self.epsilon >= 0):
            raise UsageError("a claim's epsilon must be a number, 0 or more")
        if not (_is_number(self.delta) and 0 <= self.delta < 1):
            raise UsageError("a claim's delta must be a number from 0 up to but not including 1")
        if not (_is_number(self.offset) and self.offset >= 0):
            raise UsageError("a claim's offset must be a number, 0 or more")
        if self.offset and not self.definition.is_by_distance:
            raise UsageError(f"a claim that is {self.definition} has no offset; add it to epsilon")

    @property
    def unit(self) -> str:
        """What epsilon is counted in."""
        return self.definition.unit

    @property
    def amount(self) -> str:
        """What is claimed, in numbers: ``epsilon = 0.004 per meter + 2``."""
        return f"epsilon = {self.epsilon:.6g} {self.unit}{self._and_offset}"

    def shown(self, epsilon_lower: float) -> str:
        """Say what an audit has shown: the epsilon, with the offset that it comes on top of, if there is one."""
        if self.offset and epsilon_lower <= 0:
            return f"nothing beyond the offset of {self.offset:.4g}"
        if math.isinf(epsilon_lower):
            return f"a loss between two places of one cell, which no epsilon {self.unit} allows"
        return f"epsilon at least {epsilon_lower:.4g} {self.unit}{self._and_offset}"

    @property
    def _and_offset(self) -> str:
        return f" + {self.offset:.4g}" if self.offset else ""

    def claimed_loss(self, pair: Pair) -> float | None:
        """Return the largest loss claimed between the two places; None if the claim does not speak of them."""
        if self.definition is PrivacyDefinition.CENTRAL or (
            self.definition is PrivacyDefinition.INTERVAL and pair.same_interval is not True
        ):
            return None
        distance = self._distance(pair)
        if distance is None:
            return None
        return (self.epsilon * distance + self.offset) * (1 + _ROUND_OFF) + _ROUND_OFF

    def epsilon_of(self, loss: float, pair: Pair) -> float:
        """Return a loss between the two places in the unit of the claim: per meter or step, what exceeds the offset.

        Two places of one cell are 0 steps apart and may lose nothing, so that any loss there is infinite.
        """
        distance, excess = self._distance(pair), loss - self.offset
        if distance is None or excess <= _ROUND_OFF:
            return 0.0
        return excess / distance if distance > 0 else math.inf

    def _distance(self, pair: Pair) -> float | None:
        """How far apart the two places are in what epsilon is counted by; 1 for a claim that is not by distance."""
        if self.definition is PrivacyDefinition.ELASTIC:
            return pair.steps
        return pair.distance_m if self.definition is PrivacyDefinition.METRIC else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as plain values for JSON."""
        return {
            "definition": str(self.definition),
            "epsilon": self.epsilon,
            "unit": self.unit,
            "offset": self.offset,
            "delta": self.delta,
            "text": self.text,
        }


def as_claim(claim: Claim | Guarantee | str | None, mechanism: Mechanism | None) -> Claim:
    """Return what to put to the test.

    Parameters
    ----------
    claim : Claim, Guarantee, str or None
        The claim itself, or a text: ``"metric:4/km"``. None and ``"own"`` stand for what the mechanism itself states,
        ``"paper"`` for what the paper claims for a release of DPRS.
    mechanism : Mechanism or None
        Whose guarantee is asked for only where it is needed; None for one that states nothing.

    Examples
    --------
    >>> as_claim("metric:4/km", None).epsilon
    0.004
    >>> as_claim("elastic:1.5", None).amount
    'epsilon = 1.5 per step'
    """
    if isinstance(claim, Claim):
        return claim
    if isinstance(claim, Guarantee):
        return own_claim(claim)
    if claim is None or claim in ("own", "paper"):
        if mechanism is None:
            raise UsageError(f"Nearveil does not know what this mechanism promises; give a claim in {CLAIM_FORMS}")
        return (paper_claim if claim == "paper" else own_claim)(mechanism.guarantee)
    return parse_claim(claim)


def is_claim_text(text: str) -> bool:
    """Whether a text is meant as a claim, well formed or not: it begins with a privacy definition."""
    return _DEFINITION_FIRST.match(text) is not None


def parse_claim(text: str) -> Claim:
    """Read a claim: ``local:1``, ``metric:4/km``, ``elastic:1.5+2`` (an offset) or ``local:1:1e-6`` (a delta)."""
    match = _CLAIM_PATTERN.fullmatch(text.strip())
    if match is None:
        if re.search(r"\+(:|$)", text.strip()):
            raise UsageError(
                "nothing follows the + of the claim; write an offset behind it, as in metric:4/km+2, or leave it out"
            )
        raise UsageError(f"a claim has numbers behind the privacy definition; give {CLAIM_FORMS}")
    definition, epsilon = PrivacyDefinition(match[1].lower()), float(match[2])
    offset, delta = float(match[4] or 0.0), float(match[5] or 0.0)
    if match[3] and definition is not PrivacyDefinition.METRIC:
        raise UsageError(f"a claim that is {definition} is not per distance in metres; write {definition}:1")
    if not match[3] and definition is PrivacyDefinition.METRIC:
        raise UsageError("a metric claim is per distance; write its unit, as in metric:4/km or metric:0.004/m")
    if match[3] and match[3].lower() == "/km":
        epsilon /= 1000
    claim = Claim(definition, epsilon, delta, "", offset)
    return replace(claim, text=f"{definition}, {claim.amount}" + (f", delta = {delta:.3g}" if delta else ""))


def own_claim(guarantee: Guarantee) -> Claim:
    """Return what a mechanism's guarantee itself states."""
    if not guarantee.is_promised:
        raise UsageError("this mechanism promises nothing, so there is no claim of its own to audit; give a claim")
    return Claim(guarantee.definition, guarantee.epsilon, guarantee.delta, _guarantee_text(guarantee), guarantee.offset)


def paper_claim(guarantee: Guarantee) -> Claim:
    """Return what the paper claims for a release, where that is refuted.

    Theorem 3 speaks of data sets that differ in one person, in a published list of everybody's places: that is any
    two places of the person, whatever interval they are in.
    """
    for statement in guarantee.also:
        if statement.basis is Basis.REFUTED_CLAIM:
            return Claim(PrivacyDefinition.LOCAL, statement.epsilon, statement.delta, _guarantee_text(statement))
    raise UsageError("this release makes no claim of the paper's; audit its own claim, or give one")


def claim_from_json(text: str) -> Claim:
    """Read a claim: definition, epsilon and delta, or a whole guarantee as ``nearveil protect --json`` writes it."""
    try:
        document = json.loads(text)
        return claim_from_dict(document.get("guarantee", document))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f": {error}" if isinstance(error, UsageError) else ""
        raise DataError(
            f'this is not a claim{reason}; write {{"definition": "local", "epsilon": 1.0, "delta": 0}} with a '
            "definition out of local, interval, metric (epsilon per meter) and elastic (epsilon per step)"
        ) from None


def claim_from_dict(document: dict[str, Any]) -> Claim:
    """Read a claim from plain values, as `Claim.to_dict` and `Guarantee.to_dict` give them."""
    definition, epsilon = PrivacyDefinition(document["definition"]), document["epsilon"]
    unit = document.get("unit", definition.unit)
    if definition is PrivacyDefinition.ELASTIC and unit != definition.unit:
        raise UsageError("the unit of an elastic epsilon is 'per step'")
    if definition is PrivacyDefinition.METRIC and _is_number(epsilon):
        if unit not in _METRES:
            raise UsageError("the unit of a metric epsilon is 'per meter' or 'per kilometre'")
        epsilon *= _METRES[unit]
    text = document.get("text") or document.get("title") or f"{definition}, epsilon = {epsilon:.6g}"
    return Claim(definition, epsilon, document.get("delta", 0.0), str(text), document.get("offset", 0.0))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _guarantee_text(guarantee: Guarantee) -> str:
    delta = f", delta = {round_up(guarantee.delta)}" if guarantee.delta else ""
    offset = f" + {round_up(guarantee.offset)}" if guarantee.offset else ""
    return f"{guarantee.title}: epsilon = {round_up(guarantee.epsilon)} {guarantee.unit}{offset}{delta}"
