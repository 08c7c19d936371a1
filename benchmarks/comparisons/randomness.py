"""Secure numbers beside NumPy's and the operating system's."""

import os
from collections.abc import Iterator

import numpy as np

from benchmarks.measuring.results import Beside, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns
from nearveil.randomness import NumberedRows, secure_generator, stream_key

ROWS, GENERATOR, PCG64, SYSTEM = "the keystream of rows", "the secure generator", "NumPy's PCG64", "os.urandom"


def compare(effort: Effort) -> Iterator[Result]:
    """Time 64-bit words, from 65,536 rows at a time as mechanisms take them."""
    words = 1 << 17
    rows = NumberedRows(stream_key(), 0, words // 2)
    secure, plain = secure_generator(), np.random.Generator(np.random.PCG64())
    times = in_turns(
        [
            Contender(ROWS, lambda: rows.blocks(0), words),
            Contender(GENERATOR, lambda: secure.random(words), words),
            Contender(PCG64, lambda: plain.random(words), words),
            Contender(SYSTEM, lambda: os.urandom(8 * words), words),
        ],
        effort.of(201, 21),
        effort.tell,
    )
    for name in (ROWS, GENERATOR):
        for peer in (PCG64, SYSTEM):
            yield Beside(what=f"64 random bits, {name}", peer=peer, ours=times[name], theirs=times[peer], unit="word")
