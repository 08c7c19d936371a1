"""Keyed hashes for the order of users at one distance."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import ECB

from nearveil.errors import UsageError
from nearveil.randomness import KEY_BYTES
from nearveil.types import WordArray


def hash_ids(ids: Sequence[str]) -> WordArray:
    """Return 64 bits for each id, the same in every process; no secret, the order of equals has a key."""
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in ids]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def hash_words(words: WordArray, key: bytes) -> WordArray:
    """Return 64 bits for each word by AES under a key of 16 bytes."""
    if len(key) != KEY_BYTES:
        raise UsageError("the key of the order of equals has 16 bytes")
    blocks = np.zeros((len(words), 2), dtype="<u8")
    blocks[:, 0] = words
    encrypted = Cipher(AES128(key), ECB()).encryptor().update(blocks.tobytes())  # noqa: S305 - single blocks
    return np.frombuffer(encrypted, dtype="<u8")[::2].astype(np.uint64)
