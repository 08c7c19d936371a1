"""Names of rows on Spark: 128 bits from the key column alone, different for different keys.

A row's noise, and its place among the published rows, follow from its name and the key of the job. So a row always gets
the same result, wherever and however often it is computed.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.errors import UsageError
from nearveil.randomness import KEY_BYTES, NamedRows, new_stream_key, subkey
from nearveil.types import BoolArray, FloatArray, IntArray, WordArray

# The first word of names that are whole numbers; the second is the number.
_WHOLE_NUMBER = 1


def checked_secret(secret: bytes | None) -> bytes:
    """Return the secret of a job: the caller's, or a fresh one."""
    if secret is None:
        return new_stream_key()
    if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
        raise UsageError(f"a secret is {KEY_BYTES} random bytes; leave it out to get a fresh one")
    return secret


def missing_keys(keys: pa.Array) -> BoolArray:
    """Which rows have no key: null, or an empty text."""
    missing: BoolArray = keys.is_null().to_numpy(zero_copy_only=False)
    if not pa.types.is_integer(keys.type):
        empty = pc.equal(pc.binary_length(keys), 0).fill_null(True)
        missing = missing | empty.to_numpy(zero_copy_only=False)
    return missing


def row_hashes(keys: pa.Array, secret: bytes) -> WordArray:
    """Return the name of every row, shape (n, 2): a whole number unchanged, a text as a keyed 128-bit hash."""
    if pa.types.is_integer(keys.type):
        names = np.empty((len(keys), 2), dtype=np.uint64)
        names[:, 0] = _WHOLE_NUMBER
        names[:, 1] = keys.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
        return names
    blank = hashlib.blake2b(key=subkey(secret, "names"), person=b"text", digest_size=KEY_BYTES)
    digests = bytearray()
    for text in keys.cast(pa.large_binary()).to_pylist():
        state = blank.copy()
        state.update(text or b"")
        digests += state.digest()
    return np.frombuffer(bytes(digests), dtype="<u8").reshape(-1, 2)


def noise_of(names: WordArray, secret: bytes) -> NamedRows:
    """Return the randomness of the rows."""
    return NamedRows(subkey(secret, "noise"), names)


def order_of(names: WordArray, secret: bytes) -> IntArray:
    """Return two numbers for every row, to deal and to sort rows by: they look random without the secret."""
    return NamedRows(subkey(secret, "order"), names).blocks(0).view(np.int64)


def rows_digest(names: WordArray, points: FloatArray, secret: bytes) -> WordArray:
    """Return two words that stand for the rows, names and places, in whatever order: they add up over batches."""
    masked = NamedRows(subkey(secret, "rows"), names).blocks(0) ^ _bits(points)
    digests = NamedRows(subkey(secret, "rows", b"sum"), masked).blocks(0)
    total: WordArray = digests.sum(axis=0, dtype=np.uint64)
    return total


def place_digest(point: FloatArray, secret: bytes) -> bytes:
    """Return a keyed hash of one place, which does not reveal it."""
    return NamedRows(subkey(secret, "places"), _bits(point.reshape(1, 2))).blocks(0).tobytes()


def _bits(points: FloatArray) -> WordArray:
    # Adding 0 makes -0 the same number as 0.
    bits: WordArray = (np.ascontiguousarray(points) + 0.0).view(np.uint64)
    return bits
