"""Which query to ask next: the one whose answer is expected to tell most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from nearveil.attacks.belief import Sample
from nearveil.types import FloatArray

# Worth of ending the attack, in bits: about what one more query would bring.
_WORTH_OF_ENDING = 2.0

Q = TypeVar("Q")


def best_query(queries: Sequence[Q], chances: Callable[[Q, Sample], FloatArray], sample: Sample, tau_m: float) -> Q:
    """Return the query with the highest expected worth in bits.

    ``chances`` of a query has a row for each sampled point and a column for each answer; the last tells nothing.
    """
    return queries[int(np.argmax([_worth(chances(query, sample), sample, tau_m) for query in queries]))]


def _worth(chances: FloatArray, sample: Sample, tau_m: float) -> float:
    telling = chances[:, :-1]
    share = telling.mean(axis=0)
    total = float(share.sum())
    if total <= 0:
        return 0.0
    # What the answer says of the point, for answers that say anything.
    among = telling.sum(axis=1)
    bits = _surprise(share / total).sum() - float(
        (among @ _surprise(telling / np.maximum(among, 1e-12)[:, None]).sum(axis=1)) / (total * len(telling))
    )
    return float(bits * total) + _WORTH_OF_ENDING * _chance_to_end(telling, sample, tau_m)


def _chance_to_end(telling: FloatArray, sample: Sample, tau_m: float) -> float:
    """Chance of an answer after which all that is possible is within tau of one point."""
    may_be = (telling > 0.01)[:, :, None]
    low = np.where(may_be, (sample.points - sample.half_m[:, None])[:, None], np.inf).min(axis=0)
    high = np.where(may_be, (sample.points + sample.half_m[:, None])[:, None], -np.inf).max(axis=0)
    is_small = np.hypot(*np.where(np.isfinite(high), high - low, 0.0).T) <= 2 * tau_m
    return float(((sample.weight @ telling) * is_small).sum())


def _surprise(chances: FloatArray) -> FloatArray:
    return np.asarray(-chances * np.log2(chances + 1e-12))
