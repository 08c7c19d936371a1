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

import lazy_loader

from nearveil.errors import without_context

if TYPE_CHECKING:
    from nearveil.audit.auditor import AuditReport

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _CallablePackage(ModuleType):
    """The verb and the package have one name, so the package can be called."""

    @without_context()
    def __call__(self, *arguments: Any, **options: Any) -> AuditReport:
        report: AuditReport = import_module("nearveil.audit.auditor").audit(*arguments, **options)
        return report

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(import_module("nearveil.audit.auditor").audit)


sys.modules[__name__].__class__ = _CallablePackage
