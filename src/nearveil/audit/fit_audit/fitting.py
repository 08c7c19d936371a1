"""Fit many times, and take nothing for an output that is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from nearveil.audit.fit_audit.data_pairs import DataPair
from nearveil.audit.subject import AuditError
from nearveil.types import FloatArray

Fit = Callable[[FloatArray, np.random.Generator], object]
"""Learns from people's places in degrees. Gives an array of one shape, whoever the people are: rows of two columns are
taken for centres in the square of the region."""


@runtime_checkable
class KnowingFit(Protocol):
    """A fit seen by somebody who knows everybody but one person, such as `AnswersFit`."""

    def about(self, data: DataPair) -> Fit:
        """Return what they see of a fit on either of the two data sets, whichever it is made on."""


def fit_both(
    fit: Fit | KnowingFit, data: DataPair, fits: int, seed: int, stream: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Fit so many times with the person and so many times without; shape (fits, rows, columns) each.

    Each call names its stream, which no other call may use: generators of different streams are independent.
    """
    outputs = []
    seen = fit.about(data) if isinstance(fit, KnowingFit) else fit
    for side, people in enumerate((data.with_person, data.without)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*stream, side)))
        outputs.append(_fit_often(seen, people, fits, data.name, rng))
    if outputs[0].shape != outputs[1].shape:
        raise AuditError(f"with one person more ({data.name}) the fit gives another shape; the shape must be public")
    return outputs[0], outputs[1]


def _fit_often(fit: Fit, people: FloatArray, fits: int, name: str, rng: np.random.Generator) -> FloatArray:
    """Fit again and again; one that draws no fresh noise each time is judged as what it is, a fit without noise."""
    first = _fit_once(fit, people, name, rng)
    outputs = np.empty((fits, *first.shape))
    outputs[0] = first
    for number in range(1, fits):
        output = _fit_once(fit, people, name, rng)
        if output.shape != first.shape:
            raise AuditError(f"fitted again on the same people ({name}) the fit gives another shape; it must not")
        outputs[number] = output
    return outputs


def _fit_once(fit: Fit, people: FloatArray, name: str, rng: np.random.Generator) -> FloatArray:
    try:
        output = np.array(fit(people.copy(), rng), dtype=np.float64)
    except Exception as error:
        # The error's own words may quote the data.
        raise AuditError(
            f"the fit failed with {type(error).__name__} on {len(people)} people ({name}); there is no verdict on what "
            "fails"
        ) from None
    if output.ndim not in (1, 2) or output.size == 0:
        raise AuditError("the fit gives no numbers, or in more than two dimensions; it must give rows of numbers")
    if not np.isfinite(output).all():
        raise AuditError(f"the fit gives something that is not a number on {len(people)} people ({name})")
    return output if output.ndim == 2 else output[:, None]
