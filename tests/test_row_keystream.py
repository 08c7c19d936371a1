"""A row's randomness is AES of its own counter, whoever asks for it, in whatever order."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import ECB

from nearveil.randomness import NamedRows, NumberedRows, RowKeystream, new_stream_key

KEY = bytes(range(16))


def named(count: int = 5, seed: int = 1) -> NamedRows:
    return NamedRows(KEY, np.random.default_rng(seed).integers(2**63, size=(count, 2)).astype(np.uint64))


def test_a_block_is_aes_of_number_and_row() -> None:
    words = NumberedRows(KEY, 1000, 3).blocks(7)
    counter = (7).to_bytes(8, "big") + (1002).to_bytes(8, "big")
    expected = Cipher(AES128(KEY), ECB()).encryptor().update(counter)  # noqa: S305
    assert words[2].astype("<u8").tobytes() == expected


@pytest.mark.parametrize("rows", [NumberedRows(KEY, 40, 5), named()], ids=["numbered", "named"])
def test_some_rows_have_the_blocks_that_they_have_among_all(rows: RowKeystream) -> None:
    some = np.array([4, 0, 2])
    for number in (0, 1, 1000):
        assert np.array_equal(rows.blocks(number, some), rows.blocks(number)[some])
    assert len(rows) == 5
    assert len(rows.blocks(0, np.array([], dtype=np.int64))) == 0


def test_cutting_numbered_rows_changes_nothing() -> None:
    whole, part = NumberedRows(KEY, 0, 10), NumberedRows(KEY, 6, 4)
    assert np.array_equal(whole.blocks(3)[6:], part.blocks(3))


def test_named_rows_do_not_depend_on_their_company() -> None:
    rows = named(50)
    alone = NamedRows(KEY, rows.nonces[17:18])
    assert np.array_equal(rows.blocks(2)[17:18], alone.blocks(2))
    assert rows.generator_of(17).random() == alone.generator_of(0).random()


@pytest.mark.parametrize("rows", [NumberedRows(KEY, 0, 2000), named(2000)], ids=["numbered", "named"])
def test_no_two_blocks_are_alike(rows: RowKeystream) -> None:
    blocks = np.concatenate([rows.blocks(number) for number in range(4)])
    assert len(np.unique(blocks, axis=0)) == len(blocks)
    assert len(np.unique(blocks)) == blocks.size


def test_another_key_is_another_stream_and_keys_are_not_shown() -> None:
    assert not np.array_equal(NumberedRows(KEY, 0, 4).blocks(0), NumberedRows(new_stream_key(), 0, 4).blocks(0))
    for rows in (NumberedRows(KEY, 0, 4), named()):
        assert repr(KEY) not in repr(rows)
        assert "nonces" not in repr(rows)


def test_generators_cover_all_rows_once() -> None:
    for rows in (NumberedRows(KEY, 9, 5), named()):
        covered = [row for part, _ in rows.generators() for row in range(5)[part]]
        assert covered == list(range(5))
    first, second = named(2).generators()
    assert first[1].random() != second[1].random()
