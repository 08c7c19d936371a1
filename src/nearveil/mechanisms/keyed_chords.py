"""Rows far outside their disc, drawn for by `chord_tries`: each try takes two blocks of the row's keystream."""

from __future__ import annotations

from itertools import count

import numpy as np

from nearveil.kernels import kernel
from nearveil.mechanisms.chord_tries import try_chord
from nearveil.randomness import RowKeystream
from nearveil.types import FloatArray, IntArray, WordArray


def draw_far_rows(
    noise: int,
    x: FloatArray,
    disc: IntArray,
    centres: FloatArray,
    radii: FloatArray,
    scales: FloatArray,
    rows: RowKeystream,
    pending: IntArray,
    out: FloatArray,
) -> None:
    """Draw for the pending rows."""
    for number in count(step=2):
        if not len(pending):
            return
        some = pending if len(pending) < len(x) else None
        words = np.hstack([rows.blocks(number, some), rows.blocks(number + 1, some)])
        pending = pending[: try_each_chord(noise, x, disc, centres, radii, scales, words, pending, out)]


@kernel
def try_each_chord(
    noise: int,
    x: FloatArray,
    disc: IntArray,
    centres: FloatArray,
    radii: FloatArray,
    scales: FloatArray,
    words: WordArray,
    pending: IntArray,
    out: FloatArray,
) -> int:
    """Try once for each pending row; return how many are left, which are moved to the front."""
    left = 0
    for place in range(len(pending)):
        i = pending[place]
        j = disc[i]
        radius, centre_1, centre_2 = radii[j], centres[j, 0], centres[j, 1]
        x1, x2 = (x[i, 0] - centre_1) / radius, (x[i, 1] - centre_2) / radius
        first, second, third, fourth = words[place, 0], words[place, 1], words[place, 2], words[place, 3]
        t1, t2, accepted = try_chord(noise, x1, x2, scales[j] / radius, first, second, third, fourth)
        out[i, 0] = centre_1 + radius * t1
        out[i, 1] = centre_2 + radius * t2
        pending[left] = i
        left += 0 if accepted else 1
    return left
