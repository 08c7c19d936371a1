"""Audits: a mechanism and what it is said to promise in, a verdict with a witness out.

The package can be called: ``nearveil.audit(mechanism, claim)`` is `nearveil.audit.auditor.audit`, the module to read
first. What is learned from everybody together has an audit of its own (`audit_fit`), a witness can be checked on fresh
samples (`check_witness`), and `certify` computes what an audit only bounds from below.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nearveil._lazy import lazy_names

if TYPE_CHECKING:
    from nearveil.audit.auditor import AuditReport, Verdict
    from nearveil.audit.certificate import (
        CertificateCheck,
        MechanismCertificate,
        certify,
        check_certificate,
        load_certificate,
    )
    from nearveil.audit.check import WitnessCheck, check_witness, read_witness
    from nearveil.audit.claims import Claim
    from nearveil.audit.conformance import check_mechanism
    from nearveil.audit.external import CallableSubject, CommandSubject, ModuleSubject
    from nearveil.audit.fit import FitReport, audit_fit
    from nearveil.audit.fit_witness import FitWitness
    from nearveil.audit.pairs import Pair
    from nearveil.audit.subjects import AuditError, MechanismSubject, PublishedSubject, Subject
    from nearveil.audit.witness import Witness

__all__ = [
    "AuditError",
    "AuditReport",
    "CallableSubject",
    "CertificateCheck",
    "Claim",
    "CommandSubject",
    "FitReport",
    "FitWitness",
    "MechanismCertificate",
    "MechanismSubject",
    "ModuleSubject",
    "Pair",
    "PublishedSubject",
    "Subject",
    "Verdict",
    "Witness",
    "WitnessCheck",
    "audit_fit",
    "certify",
    "check_certificate",
    "check_mechanism",
    "check_witness",
    "load_certificate",
    "read_witness",
]

_NAMES = {
    "subjects": ("AuditError", "MechanismSubject", "PublishedSubject", "Subject"),
    "auditor": ("AuditReport", "Verdict"),
    "external": ("CallableSubject", "CommandSubject", "ModuleSubject"),
    "certificate": ("CertificateCheck", "MechanismCertificate", "certify", "check_certificate", "load_certificate"),
    "claims": ("Claim",),
    "fit": ("FitReport", "audit_fit"),
    "fit_witness": ("FitWitness",),
    "pairs": ("Pair",),
    "witness": ("Witness",),
    "check": ("WitnessCheck", "check_witness", "read_witness"),
    "conformance": ("check_mechanism",),
}
_HOMES = {name: f"nearveil.audit.{module}" for module, names in _NAMES.items() for name in names}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)


class _CallablePackage(ModuleType):
    """The verb and the package have one name, so the package can be called."""

    def __call__(self, *arguments: Any, **options: Any) -> AuditReport:
        report: AuditReport = import_module("nearveil.audit.auditor").audit(*arguments, **options)
        return report

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(import_module("nearveil.audit.auditor").audit)


sys.modules[__name__].__class__ = _CallablePackage
