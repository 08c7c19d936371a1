"""SipHash-2-4: a keyed hash for the order of people at one distance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from nearveil.errors import UsageError
from nearveil.kernels import inlined_kernel, kernel
from nearveil.randomness import KEY_BYTES

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
