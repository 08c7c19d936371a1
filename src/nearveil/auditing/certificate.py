"""Certificates as files, and how to check them.

The file holds the mechanism as plain values and its guarantee with the certificate. Checking rebuilds the mechanism,
computes the certificate anew, looks up the density at the places named, and tries many more places at random.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.auditing.conformance import failure_of
from nearveil.auditing.spec import mechanism_from_spec, mechanism_to_spec
from nearveil.auditing.subjects import audited_region
from nearveil.errors import DataError
from nearveil.html_card import html_card
from nearveil.io.atomic import read_text, replacing
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.registry import is_own
from nearveil.privacy.guarantee import Certificate, Guarantee, PrivacyDefinition, guarantee_from_dict
from nearveil.randomness import numbered_rows
from nearveil.types import FloatArray, ProgressBar, no_bar

FORMAT = "nearveil-certificate"
# Raise the version when a sentence of any card changes: sentences are compared.
FORMAT_VERSION = 1

_TRIES = 20_000
_SOURCES = 50
_PARTS = 25
# Two computers may differ in the last digits.
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class CertificateCheck:
    """What checking a certificate found.

    Attributes
    ----------
    bound, attained : float
        As the file says them.
    tried : int
        How many pairs of places were tried at random.
    worst_tried : float
        The largest loss among them, in the unit of the bound.
    faults : tuple of str
        What is wrong with the certificate; nothing, if it holds.
    """

    bound: float
    attained: float
    tried: int
    worst_tried: float
    faults: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.faults


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MechanismCertificate:
    """A mechanism, what is stated of it, and the largest loss that was computed.

    Attributes
    ----------
    mechanism : Mechanism
        With everything that decides its law, intervals or cells too.
    stated : dict
        Its guarantee with the certificate, as plain values: of a file, word by word as the file has them.
    """

    mechanism: Mechanism
    stated: dict[str, Any] = field(repr=False)

    @property
    def guarantee(self) -> Guarantee:
        """What is stated."""
        return guarantee_from_dict(self.stated)

    @property
    def certificate(self) -> Certificate:
        """The bound, the places and the output that attain nearly as much, and how they were found."""
        return _certificate_of(self.guarantee)

    @property
    def bound(self) -> float:
        """The largest loss over all pairs of places that the promise covers, in the unit of the guarantee."""
        return self.certificate.bound

    def check(
        self, *, tries: int = _TRIES, seed: int | None = None, progress: ProgressBar = no_bar
    ) -> CertificateCheck:
        """Hold what is stated, word by word, against the mechanism itself, and try many more places at random.

        What intervals or cells cost the people they were made from cannot be computed from them, and is not checked.
        """
        with progress("computing everything anew", None):
            certificate, anew = self.certificate, self.mechanism.guarantee
        mechanism, faults = self.mechanism, []
        if not _alike(_without_numbers(self.stated), _without_numbers(anew.to_dict())):
            faults.append("the mechanism described does not promise what the file states")
        if certificate.bound < _certificate_of(anew).bound * (1 - _TOLERANCE):
            faults.append("the bound is below the one computed anew")
        places = (np.array([place]) for place in (certificate.first, certificate.second, certificate.output))
        found = float(_losses(mechanism, *places)[0])
        if not math.isclose(found, certificate.attained, rel_tol=1e3 * _TOLERANCE):
            faults.append("the places named do not attain the loss stated")
        failure = None if is_own(mechanism) else failure_of(mechanism)
        if failure is not None:
            faults.append(f"the class fails the conformance suite ({failure})")
        losses = _losses_of_many(mechanism, anew.definition, tries, np.random.default_rng(seed), progress)
        worst = float(losses.max(initial=0.0))
        if not worst <= certificate.bound * (1 + _TOLERANCE):
            faults.append("two places were found that lose more than the bound")
        return CertificateCheck(certificate.bound, certificate.attained, len(losses), worst, tuple(faults))

    def _repr_html_(self) -> str:
        """The bound and the card, for a notebook."""
        guarantee, certificate = self.guarantee, self.certificate
        unit = "" if guarantee.unit == "per user" else f" {guarantee.unit}"
        facts = [
            ("Of", guarantee.title),
            ("Loss at most", f"{certificate.bound:.6g}{unit}, {certificate.method}"),
            ("Attained", f"{certificate.attained:.6g}{unit}"),
            ("How", certificate.how),
        ]
        return html_card("Certificate", facts, more=[guarantee._repr_html_()])

    def to_json(self) -> str:
        """Return the file as text."""
        document = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "subject": mechanism_to_spec(self.mechanism),
            "guarantee": self.stated,
        }
        return json.dumps(document, indent=1, allow_nan=False)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the file, with which anyone can check the certificate."""
        text = self.to_json()
        with replacing(Path(path), force=force) as partial:
            partial.write_text(text, encoding="utf-8")


def certify(mechanism: Mechanism) -> MechanismCertificate:
    """Compute the largest privacy loss of a mechanism over all pairs of places that it promises to protect.

    DPRS has to be fitted, or to be given intervals, first, and HideAmong cells.

    Examples
    --------
    >>> import nearveil as nv
    >>> certificate = nv.certify(nv.PlanarLaplace(noise_m=500))
    >>> certificate.bound <= certificate.guarantee.epsilon, certificate.check(tries=1000, seed=1).holds
    (True, True)
    """
    guarantee = mechanism.guarantee
    _certificate_of(guarantee)
    return MechanismCertificate(mechanism=mechanism, stated=guarantee.to_dict())


def load_certificate(path: str | Path, *, mechanism: str | None = None) -> MechanismCertificate:
    """Read a file that `MechanismCertificate.save` wrote. Nothing in it is trusted before it is checked.

    ``mechanism`` names somebody else's class that the file may be about: none is run because a file says so.
    """
    text = read_text(Path(path), "certificate")
    try:
        document: dict[str, Any] = json.loads(text)
        if document["format"] != FORMAT or document["version"] != FORMAT_VERSION:
            raise KeyError("format")
        subject, guarantee = document["subject"], document["guarantee"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError("this is not a certificate file, or it is damaged; make one with 'nearveil certify'") from None
    guarantee_from_dict(guarantee)
    rebuilt = mechanism_from_spec(subject, trusted=mechanism)
    return MechanismCertificate(mechanism=rebuilt, stated=guarantee)


def check_certificate(path: str | Path, *, mechanism: str | None = None) -> CertificateCheck:
    """Check a certificate file: the mechanism is rebuilt, and everything is computed anew (`load_certificate`)."""
    return load_certificate(path, mechanism=mechanism).check()


def _without_numbers(guarantee: dict[str, Any]) -> dict[str, Any]:
    """The card without what is looked at on its own: the numbers of the certificate, and the places."""
    apart = ("bound", "attained", "first", "second", "output")
    text = {name: value for name, value in guarantee["certificate"].items() if name not in apart}
    return {**guarantee, "certificate": text}


def _alike(first: Any, second: Any) -> bool:
    """Whether two documents say the same, numbers up to what two computers may differ in."""
    if isinstance(first, int | float) and isinstance(second, int | float) and not isinstance(first, bool):
        return math.isclose(first, second, rel_tol=_TOLERANCE)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_alike(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_alike, first, second))
    return bool(first == second)


def _certificate_of(guarantee: Guarantee) -> Certificate:
    if guarantee.certificate is None:
        raise DataError("there is no certificate for this mechanism; nothing can be checked")
    return guarantee.certificate


def _losses_of_many(
    mechanism: Mechanism, definition: PrivacyDefinition, tries: int, rng: np.random.Generator, progress: ProgressBar
) -> FloatArray:
    first, second = _promised_pairs(mechanism, definition, tries, rng)
    outputs, losses = mechanism.draw(first, numbered_rows(len(first), rng)), np.empty(len(first))
    # Pairs with the same first place stay together: steps are counted from each place once.
    together = np.argsort(first[:, 0], kind="stable")
    with progress("trying random pairs", len(first)) as advance:
        for part in np.array_split(together, _PARTS):
            losses[part] = _losses(mechanism, first[part], second[part], outputs[part])
            advance(len(part))
    return losses


def _losses(mechanism: Mechanism, first: FloatArray, second: FloatArray, outputs: FloatArray) -> FloatArray:
    """Losses in the unit of the guarantee; where it allows none at all, any is more than is promised."""
    loss = mechanism.log_density(first, outputs) - mechanism.log_density(second, outputs)
    distance = mechanism.distance(mechanism.leave(first), mechanism.leave(second))
    alike = np.where(loss > _TOLERANCE, np.inf, 0.0)
    per_unit: FloatArray = np.divide(loss, distance, out=alike, where=distance > 0)
    return per_unit


def _promised_pairs(
    mechanism: Mechanism, definition: PrivacyDefinition, tries: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Pairs at random that the promise covers, in the frame."""
    region = audited_region(mechanism)
    # Not quite to the edge, where the map may leave the region.
    points = region.from_metres(0.99 * np.array(region.half_extent_m) * rng.uniform(-1, 1, (2 * tries, 2)))
    places, groups = mechanism.enter(points), mechanism.groups(points)
    if definition is PrivacyDefinition.ELASTIC:
        # From few places, since steps are counted from each; to places a few steps away, where the loss is largest.
        first = places[np.arange(tries) % _SOURCES]
        return first, mechanism.draw(first, numbered_rows(tries, rng))
    if groups is None:
        return places[:tries], places[tries:]
    order = np.argsort(groups, kind="stable")
    places, groups = places[order], groups[order]
    together = groups[:-1] == groups[1:]
    return places[:-1][together], places[1:][together]
