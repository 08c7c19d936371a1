"""SipHash-2-4 against the published vectors and a slow copy of the algorithm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import UsageError
from nearveil.hashing import hash_ids, hash_parts, hash_word, hash_words, split_key

KEY = bytes(range(16))
MASK = 2**64 - 1

# Messages 00, 01, 02, … of so many bytes, under the key 00 … 0f; the one of 15 bytes is worked out in the paper.
VECTORS = {
    0: "310e0edd47db6f72",
    1: "fd67dc93c539f874",
    2: "5a4fa9d909806c0d",
    7: "37d1018bf50002ab",
    8: "6224939a79f5f593",
    15: "e545be4961ca29a1",
}


def slow_siphash(key: bytes, message: bytes) -> int:
    words = [int.from_bytes(key[at : at + 8], "little") for at in (0, 8)]
    state = [
        words[i % 2] ^ int.from_bytes(b"somepseudorandomlygeneratedbytes"[8 * i : 8 * i + 8], "big") for i in range(4)
    ]

    def left(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & MASK

    def mix(times: int) -> None:
        a, b, c, d = state
        for _ in range(times):
            a, c = (a + b) & MASK, (c + d) & MASK
            b, d = left(b, 13) ^ a, left(d, 16) ^ c
            a = left(a, 32)
            c, a = (c + b) & MASK, (a + d) & MASK
            b, d = left(b, 17) ^ c, left(d, 21) ^ a
            c = left(c, 32)
        state[:] = a, b, c, d

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        state[3] ^= word
        mix(2)
        state[0] ^= word
    state[2] ^= 0xFF
    mix(4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def hashed(key: bytes, messages: list[bytes]) -> list[int]:
    out = np.empty(len(messages), dtype=np.uint64)
    ends = np.cumsum([len(message) for message in messages], dtype=np.int64)
    hash_parts(np.frombuffer(b"".join(messages), dtype=np.uint8), ends, *split_key(key), out)
    return out.tolist()


def test_agrees_with_the_published_vectors() -> None:
    found = hashed(KEY, [bytes(range(length)) for length in VECTORS])
    assert [value.to_bytes(8, "little").hex() for value in found] == list(VECTORS.values())
    assert [slow_siphash(KEY, bytes(range(length))) for length in VECTORS] == found


@given(key=st.binary(min_size=16, max_size=16), messages=st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_agrees_with_a_slow_copy(key: bytes, messages: list[bytes]) -> None:
    assert hashed(key, messages) == [slow_siphash(key, message) for message in messages]


@given(key=st.binary(min_size=16, max_size=16), words=st.lists(st.integers(0, MASK), min_size=1, max_size=5))
def test_a_word_is_its_eight_bytes(key: bytes, words: list[int]) -> None:
    expected = [slow_siphash(key, word.to_bytes(8, "little")) for word in words]
    out = np.empty(len(words), dtype=np.uint64)
    hash_words(np.array(words, dtype=np.uint64), *split_key(key), out)
    assert out.tolist() == expected
    assert [int(hash_word(np.uint64(word), *split_key(key))) for word in words] == expected


def test_hashes_of_ids_are_the_same_in_every_process() -> None:
    people = ["ann", "bob", "", "ändern", "x" * 128]
    expected = [slow_siphash(b"nearveil id hash", person.encode()) for person in people]
    assert hash_ids(people).tolist() == expected
    assert [int(hash_ids([person])[0]) for person in people] == expected
    assert hash_ids([]).tolist() == []


def test_refuses_a_key_of_another_length() -> None:
    for key in (b"", bytes(15), bytes(17)):
        with pytest.raises(UsageError, match="16 bytes"):
            split_key(key)
