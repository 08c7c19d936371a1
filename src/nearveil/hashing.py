"""Keyed hashes: SipHash-2-4 for the order of people at one distance, and row ids for noise and order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.errors import UsageError
from nearveil.kernels import inlined_kernel, kernel
from nearveil.randomness import KEY_BYTES, NamedRows, new_stream_key, subkey
from nearveil.types import BoolArray, FloatArray, IntArray, WordArray

HashArray = npt.NDArray[np.uint64]
Key = tuple[np.uint64, np.uint64]


_START_0 = np.uint64(0x736F6D6570736575)
_START_1 = np.uint64(0x646F72616E646F6D)
_START_2 = np.uint64(0x6C7967656E657261)
_START_3 = np.uint64(0x7465646279746573)
_END_MARK = np.uint64(0xFF)
_BYTE_BITS = np.uint64(8)
_LENGTH_SHIFT = np.uint64(56)
_WORD_BITS = np.uint64(64)

# Public: it only spreads ids over 64 bits. The order of equals is secret by the epoch's key.
_ID_KEY = b"nearveil id hash"


def split_key(key: bytes) -> Key:
    """Return the two words of a key of 16 bytes."""
    if len(key) != KEY_BYTES:
        raise UsageError("the key of the order of equals has 16 bytes")
    words = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    return words[0], words[1]


def hash_ids(people: Sequence[str]) -> HashArray:
    """Return 64 bits for each id, the same in every process."""
    encoded = list(map(str.encode, people))
    ends = np.fromiter(accumulate(map(len, encoded)), dtype=np.int64, count=len(encoded))
    hashes = np.empty(len(encoded), dtype=np.uint64)
    hash_parts(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends, *split_key(_ID_KEY), hashes)
    return hashes


@inlined_kernel
def _rotated(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> (_WORD_BITS - np.uint64(bits)))


@inlined_kernel
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> tuple[np.uint64, ...]:
    v0 += v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 += v3
    v3 = _rotated(v3, 16) ^ v2
    v0 += v3
    v3 = _rotated(v3, 21) ^ v0
    v2 += v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@kernel
def _absorbed(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64, word: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@kernel
def _finished(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> np.uint64:
    v2 ^= _END_MARK
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def hash_word(word: np.uint64, key_0: np.uint64, key_1: np.uint64) -> np.uint64:
    """SipHash-2-4 of the eight bytes of a word, lowest first."""
    v0, v1, v2, v3 = key_0 ^ _START_0, key_1 ^ _START_1, key_0 ^ _START_2, key_1 ^ _START_3
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, word)
    v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, np.uint64(8) << _LENGTH_SHIFT)
    return _finished(v0, v1, v2, v3)


@kernel
def hash_words(words: HashArray, key_0: np.uint64, key_1: np.uint64, out: HashArray) -> None:
    """Hash every word by itself."""
    for i in range(len(words)):
        out[i] = hash_word(words[i], key_0, key_1)


@kernel
def hash_parts(
    text: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], key_0: np.uint64, key_1: np.uint64, out: HashArray
) -> None:
    """SipHash-2-4 of every part of a text; a part goes from the end of the one before to its own end."""
    start = 0
    for i in range(len(ends)):
        v0, v1, v2, v3 = key_0 ^ _START_0, key_1 ^ _START_1, key_0 ^ _START_2, key_1 ^ _START_3
        length = ends[i] - start
        word = shift = np.uint64(0)
        for at in range(start, ends[i]):
            word |= np.uint64(text[at]) << shift
            shift += _BYTE_BITS
            if shift == _WORD_BITS:
                v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, word)
                word = shift = np.uint64(0)
        word |= np.uint64(length & 0xFF) << _LENGTH_SHIFT
        v0, v1, v2, v3 = _absorbed(v0, v1, v2, v3, word)
        out[i] = _finished(v0, v1, v2, v3)
        start = ends[i]


# Names of rows: 128 bits from the key column alone, different for different keys.
#
# A row's noise, and its place among the published rows, follow from its name and the key of the job. So a row
# always gets the same result, wherever and however often it is computed.


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
