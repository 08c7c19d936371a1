"""A Python callable of this process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearveil.audit.external.subject import DEFAULT_TIMEOUT_S, ExternalSubject
from nearveil.audit.external.time_limit import TookTooLongError, within
from nearveil.audit.subject import AuditError
from nearveil.errors import UsageError
from nearveil.region import Region
from nearveil.types import FloatArray

Publish = Callable[[FloatArray, np.random.Generator], object]
"""``publish(points, rng)``: degrees in, degrees out, a row for a row."""


class CallableSubject(ExternalSubject):
    """A callable ``points, rng -> points``, in degrees.

    It runs in this process: an exception becomes an error, a hang is given up on (and goes on in a thread of its own),
    but code that ends the process ends the audit. `ModuleSubject` survives that too.
    """

    def __init__(self, publish: Publish, region: Region, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        super().__init__(region, timeout_s)
        if not callable(publish):
            raise UsageError("a mechanism is a callable that takes points and a generator; this is none")
        self._publish = publish

    def publish(self, points: FloatArray, rng: np.random.Generator) -> object:
        """Call it, with a time limit."""
        try:
            return within(self.timeout_s, lambda: self._publish(points, rng))
        except TookTooLongError:
            raise AuditError(
                f"the mechanism gave no answer within {self.timeout_s:g} s for {len(points):,} places; "
                "raise the time limit, or ask for fewer samples"
            ) from None
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            # The error's own words may hold a coordinate.
            raise AuditError(f"the mechanism failed with {type(error).__name__}; there is no verdict on it") from None
