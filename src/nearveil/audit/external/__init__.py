"""Mechanisms that are not ours, as the auditor takes them: a callable, a function of a module, a command.

Whatever they do instead of publishing places (raise, hang, end the process, give too few rows, NaN or places outside
the region) becomes an `AuditError` of one sentence, never a verdict.

>>> from nearveil.region import named_region
>>> def publish(points, rng):
...     return points + rng.normal(0, 0.001, points.shape)
>>> subject = CallableSubject(publish, named_region("san-francisco"))
>>> import numpy as np
>>> subject.sample((37.77, -122.42), 1000, np.random.default_rng(1)).shape
(1000, 2)
"""

from nearveil.audit.external.callable_subject import CallableSubject
from nearveil.audit.external.command_subject import CommandSubject
from nearveil.audit.external.module_subject import ModuleSubject
from nearveil.audit.external.subject import ExternalSubject

__all__ = ["CallableSubject", "CommandSubject", "ExternalSubject", "ModuleSubject"]
