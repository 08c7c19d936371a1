"""SipHash-2-4 against the published vectors."""

import numpy as np
import pytest

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


def hashed(key: bytes, messages: list[bytes]) -> list[int]:
    out = np.empty(len(messages), dtype=np.uint64)
    ends = np.cumsum([len(message) for message in messages], dtype=np.int64)
    hash_parts(np.frombuffer(b"".join(messages), dtype=np.uint8), ends, *split_key(key), out)
    return out.tolist()


def test_agrees_with_the_published_vectors() -> None:
    found = hashed(KEY, [bytes(range(length)) for length in VECTORS])
    assert [value.to_bytes(8, "little").hex() for value in found] == list(VECTORS.values())


def test_a_word_is_its_eight_bytes_and_an_id_its_text() -> None:
    words, out = np.array([0, 1, 2**63 + 5, MASK], dtype=np.uint64), np.empty(4, dtype=np.uint64)
    expected = hashed(KEY, [word.tobytes() for word in words.astype("<u8")])
    hash_words(words, *split_key(KEY), out)
    assert out.tolist() == expected == [int(hash_word(word, *split_key(KEY))) for word in words]
    people = ["ann", "bob", "", "ändern", "x" * 128]
    expected = hashed(b"nearveil id hash", [person.encode() for person in people])
    assert hash_ids(people).tolist() == expected == [int(hash_ids([person])[0]) for person in people]
    assert hash_ids([]).tolist() == []


def test_refuses_a_key_of_another_length() -> None:
    for key in (b"", bytes(15), bytes(17)):
        with pytest.raises(UsageError, match="16 bytes"):
            split_key(key)
