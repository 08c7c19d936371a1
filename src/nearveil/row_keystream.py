"""Secure randomness that belongs to rows: the same row draws the same, in whatever order, batch or process.

A row has a stream of blocks of two 64-bit words each. Block ``number`` of a row is AES-128 of the row's nonce and the
number, under a key that nobody else has: counter mode, with a counter that can be entered anywhere. So work can be cut
and repeated at will, compiled code and NumPy see the same words, and a task that Spark runs twice draws nothing twice.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from randomgen import AESCounter

from nearveil.types import IntArray, WordArray

KEY_BYTES = 16
BLOCK_BYTES = 16
# Blocks beyond any that are asked for by number: keys of generators, for what cannot say how much it will need.
_GENERATOR_BLOCK = 1 << 48


def new_stream_key() -> bytes:
    """Return a fresh key from the operating system's randomness."""
    return secrets.token_bytes(KEY_BYTES)


class RowKeystream(ABC):
    """The streams of the rows of one batch."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all, shape (rows, 2)."""

    @abstractmethod
    def generators(self) -> list[tuple[slice, np.random.Generator]]:
        """Return generators for whoever cannot use blocks, each with the rows that it is for."""

    def generator_of(self, row: int) -> np.random.Generator:
        """Return a generator of one row's own."""
        high, low = self.blocks(_GENERATOR_BLOCK, np.array([row]))[0]
        return np.random.Generator(AESCounter(key=int(high) << 64 | int(low), counter=0))


@dataclass(frozen=True, slots=True)
class NumberedRows(RowKeystream):
    """Rows with consecutive numbers, under a key that is used for one release only.

    Parameters
    ----------
    key : bytes
        `new_stream_key` makes one.
    first, count : int
        The numbers of the rows.
    """

    key: bytes = field(repr=False)
    first: int
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def key_words(self) -> WordArray:
        """The key, for compiled code that makes blocks itself."""
        return np.frombuffer(self.key, dtype=np.uint64)

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all."""
        if rows is None:
            # Consecutive rows are consecutive counters: one stream.
            start = number.to_bytes(8, "big") + self.first.to_bytes(8, "big")
            return _encrypted(Cipher(AES128(self.key), CTR(start)), np.zeros((self.count, 2), dtype=np.uint64))
        counters = np.empty((len(rows), 2), dtype=">u8")
        counters[:, 0] = number
        counters[:, 1] = rows
        counters[:, 1] += np.uint64(self.first)
        return _encrypted(Cipher(AES128(self.key), ECB()), counters)  # noqa: S305 - of counters, that is counter mode

    def generators(self) -> list[tuple[slice, np.random.Generator]]:
        """Return one generator for all rows: these numbers are drawn for once."""
        return [(slice(0, self.count), self.generator_of(0))] if self.count else []


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows(RowKeystream):
    """Rows with names of their own, 128 bits each that no other row has, wherever and however often they are drawn for.

    Parameters
    ----------
    key : bytes
        Of one job.
    nonces : array of shape (n, 2)
        The names.
    """

    key: bytes = field(repr=False)
    nonces: WordArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.nonces)

    def blocks(self, number: int, rows: IntArray | None = None) -> WordArray:
        """Return block ``number`` of these rows, or of all."""
        names = self.nonces if rows is None else self.nonces[rows]
        # Encrypted once, names are scattered over all counters, so that adding a number to one meets no other.
        counters = _encrypted(Cipher(AES128(_subkey(self.key, b"names")), ECB()), names)  # noqa: S305
        counters[:, 0] ^= np.uint64(number)
        return _encrypted(Cipher(AES128(_subkey(self.key, b"blocks")), ECB()), counters)  # noqa: S305

    def generators(self) -> list[tuple[slice, np.random.Generator]]:
        """Return a generator for each row."""
        return [(slice(row, row + 1), self.generator_of(row)) for row in range(len(self))]


def _subkey(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(key=key, person=purpose, digest_size=KEY_BYTES).digest()


def _encrypted(cipher: Cipher[CTR] | Cipher[ECB], counters: WordArray) -> WordArray:
    out = np.empty(counters.nbytes + BLOCK_BYTES - 1, dtype=np.uint8)
    cipher.encryptor().update_into(np.ascontiguousarray(counters).view(np.uint8).reshape(-1).data, out.data)
    words: WordArray = out[: counters.nbytes].view("<u8").reshape(-1, 2)
    return words
