"""Randomness: a cryptographically secure generator by default, a seeded one only on request."""

from __future__ import annotations

import hashlib
import math
import secrets
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

from nearveil.errors import UsageError
from nearveil.types import FloatArray, IntArray, WordArray

KEY_BYTES = 16
_UNIT = 2.0**-53

RELEASE_STREAM, FIT_STREAM, ORDER_STREAM = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Randomness:
    """A generator, and whether anyone who knows a seed could repeat what it drew."""

    generator: np.random.Generator
    seeded: bool


class SecureGenerator:
    """Draws from AES-128 in counter mode under a fresh random key, on any thread: in as many ways as we need."""

    def __init__(self) -> None:
        self._stream = Cipher(AES128(secrets.token_bytes(KEY_BYTES)), CTR(bytes(KEY_BYTES))).encryptor()
        self._drawing = threading.Lock()

    def bytes(self, length: int) -> bytes:
        """Return random bytes."""
        with self._drawing:
            return self._stream.update(bytes(length))

    def random(self, size: Any = None) -> Any:
        """Return numbers of 53 bits in [0, 1)."""
        numbers = (self._words(math.prod(np.atleast_1d(1 if size is None else size))) >> np.uint64(11)) * _UNIT
        return float(numbers[0]) if size is None else numbers.reshape(size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Return numbers between two others."""
        return low + (np.subtract(high, low)) * self.random(size)

    def permutation(self, x: int) -> IntArray:
        """Return the numbers below ``x`` in a random order; ties have a chance of 2⁻⁶⁴ for each pair."""
        return np.argsort(self._words(x))

    def _words(self, count: int) -> WordArray:
        return np.frombuffer(self.bytes(8 * count), dtype=np.uint64)


def secure_generator() -> np.random.Generator:
    """Return secure randomness under a fresh key; it cannot be copied, as copies would draw the same."""
    return cast(np.random.Generator, SecureGenerator())


def seeded_randomness(seed: int, stream: int = RELEASE_STREAM, *part: int) -> Randomness:
    """Return randomness that the same seed repeats, for experiments alone; streams and their parts are independent."""
    # A spawn key keeps the stream apart from a plain generator of the same seed, which the caller may use as well.
    sequence = np.random.SeedSequence(_checked_seed(seed), spawn_key=(stream, *part))
    return Randomness(np.random.default_rng(sequence), seeded=True)


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError("a seed is a whole number, 0 or more")
    return int(seed)


def as_randomness(source: Randomness | np.random.Generator | int | None) -> Randomness:
    """Turn what a caller passed as ``rng`` into Randomness: nothing gives secure randomness."""
    if source is None:
        return Randomness(secure_generator(), seeded=False)
    if isinstance(source, np.random.Generator):
        return Randomness(source, seeded=True)
    return source if isinstance(source, Randomness) else seeded_randomness(source)


# Secure randomness that belongs to rows: the same row draws the same, in whatever order, batch or process.
#
# A row has a stream of blocks of two 64-bit words each. Block ``number`` of a row is AES-128 of the row's nonce and
# the number, under a secret key. So work can be cut and repeated, and a task that Spark runs twice draws nothing twice.


def stream_key(source: Randomness | np.random.Generator | int | None = None, stream: int = RELEASE_STREAM) -> bytes:
    """Return the key of a stream of rows: a fresh secret one, that of a seed, or the next of a caller's generator."""
    if source is None:
        return secrets.token_bytes(KEY_BYTES)
    if isinstance(source, Randomness | np.random.Generator):
        return (source.generator if isinstance(source, Randomness) else source).bytes(KEY_BYTES)
    text = f"{_checked_seed(source)} {stream}".encode()
    return hashlib.blake2b(text, person=b"nearveil seed", digest_size=KEY_BYTES).digest()


class RowKeystream(ABC):
    """The streams of the rows of one batch."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all, shape (rows, 2)."""

    def uniforms(self, columns: int, *, first_block: int = 0, rows: IntArray | None = None) -> FloatArray:
        """Return numbers of 53 bits in [0, 1), shape (n, columns), which are always the same for the same row.

        Two of them take a block, from ``first_block`` on: for new numbers, continue after the last one.
        """
        numbers = np.empty((len(self) if rows is None else len(rows), columns))
        for start in range(0, columns, 2):
            words = self.blocks(first_block + start // 2, rows)[:, : columns - start]
            np.multiply(words >> np.uint64(11), _UNIT, out=numbers[:, start : start + 2])
        return numbers


@dataclass(frozen=True, slots=True)
class NumberedRows(RowKeystream):
    """Rows with consecutive numbers, under a key that is used for one release only."""

    key: bytes = field(repr=False)
    first: int
    count: int

    def __len__(self) -> int:
        return self.count

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all."""
        if rows is None:
            # Consecutive rows are consecutive counters: one stream.
            start = number.to_bytes(8, "big") + self.first.to_bytes(8, "big")
            return _encrypted(Cipher(AES128(self.key), CTR(start)), np.zeros((self.count, 2), dtype=np.uint64))
        counters = np.column_stack([np.full(len(rows), number), rows + self.first]).astype(">u8")
        return _encrypted(Cipher(AES128(self.key), ECB()), counters)  # noqa: S305 - of counters, that is counter mode


def numbered_rows(count: int, rng: Randomness | np.random.Generator | int | None = None) -> NumberedRows:
    """Return ``count`` rows of a stream of their own: a secret one, or a seed's or generator's, as in `stream_key`."""
    return NumberedRows(stream_key(rng), 0, count)


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows(RowKeystream):
    """Rows with names of their own, of 128 bits each: an array of two words for each row."""

    key: bytes = field(repr=False)
    nonces: WordArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.nonces)

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all."""
        names = self.nonces if rows is None else self.nonces[rows]
        # Encrypted once, names are scattered over all counters, so that adding a number to one meets no other.
        counters = _encrypted(Cipher(AES128(subkey(self.key, "names")), ECB()), names)  # noqa: S305
        counters[:, 0] ^= np.uint64(number)
        return _encrypted(Cipher(AES128(subkey(self.key, "blocks")), ECB()), counters)  # noqa: S305


def subkey(key: bytes, purpose: str) -> bytes:
    """Return a key for one purpose only."""
    return hashlib.blake2b(key=key, person=purpose.encode(), digest_size=KEY_BYTES).digest()


def _encrypted(cipher: Cipher[CTR] | Cipher[ECB], counters: WordArray) -> WordArray:
    out = np.empty(counters.nbytes + KEY_BYTES - 1, dtype=np.uint8)
    cipher.encryptor().update_into(np.ascontiguousarray(counters).view(np.uint8).reshape(-1).data, out.data)
    words: WordArray = out[: counters.nbytes].view("<u8").reshape(-1, 2)
    return words


EXPONENTIAL_TAIL = 2.0**-32
"""The share of exponential noise that takes a second uniform number."""

EXPONENTIAL_REACH = 85 * math.log(2)
"""The longest draw of exponential noise, in mean lengths; a share of 2⁻⁸⁵ of the law lies beyond."""


def exponential_from_uniforms(u: FloatArray) -> FloatArray:
    """Turn pairs of uniform numbers of [0, 1), the last axis, into exponential noise of mean 1 by inverse CDF.

    One 53-bit uniform would end at 37 mean lengths and be coarse before that. So the last 2⁻³² of it are spread
    out by a second uniform: the tail of an exponential is that exponential again.
    """
    near = 1.0 - u[..., 0]
    noise: FloatArray = -np.log(near)
    if (in_tail := near < EXPONENTIAL_TAIL).any():
        noise[in_tail] = -math.log(EXPONENTIAL_TAIL) - np.log1p(-u[..., 1][in_tail])
    return noise
