"""A row's randomness is AES of its own counter, whoever asks for it, in whatever order."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import ECB
from scipy import stats

from nearveil.randomness import (
    RELEASE_STREAM,
    NamedRows,
    NumberedRows,
    Randomness,
    RowKeystream,
    new_stream_key,
    numbered_rows,
    secure_randomness,
    stream_key,
)

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
    assert np.array_equal(rows.uniforms(3)[17:18], alone.uniforms(3))


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


@pytest.mark.parametrize("rows", [NumberedRows(KEY, 9, 5), named()], ids=["numbered", "named"])
def test_uniforms_are_the_first_53_bits_of_consecutive_words(rows: RowKeystream) -> None:
    words = np.hstack([rows.blocks(0), rows.blocks(1)])
    expected = (words // 2**11).astype(np.float64) / 2**53
    for columns in (1, 2, 3, 4):
        assert np.array_equal(rows.uniforms(columns), expected[:, :columns])
    assert (expected >= 0).all()
    assert (expected < 1).all()
    some = np.array([3, 1])
    assert np.array_equal(rows.uniforms(2, first_block=1, rows=some), expected[some, 2:])


@pytest.mark.statistical
def test_uniforms_are_uniform() -> None:
    """Kolmogorov and Smirnov, 300,000 numbers under a fixed key, at level 1e-6."""
    assert stats.kstest(NumberedRows(KEY, 0, 100_000).uniforms(3).ravel(), "uniform").pvalue > 1e-6


def test_a_seed_has_a_key_for_each_stream_and_a_generator_one_for_each_call() -> None:
    assert stream_key(5) == stream_key(5) == stream_key(5, RELEASE_STREAM)
    assert len({stream_key(5), stream_key(6), stream_key(5, 9), stream_key(59), stream_key()}) == 5
    first, second = np.random.default_rng(5), np.random.default_rng(5)
    assert stream_key(first) == stream_key(second) == stream_key(Randomness(np.random.default_rng(5), seeded=True))
    assert stream_key(first) != stream_key(np.random.default_rng(5))
    assert stream_key(secure_randomness()) != stream_key(secure_randomness())
    assert {len(stream_key(source)) for source in (None, 5, first, secure_randomness())} == {16}
    assert numbered_rows(3, rng=5) == NumberedRows(stream_key(5), 0, 3)
