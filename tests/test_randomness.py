"""Secure randomness is AES of counters, and seeded randomness repeats."""

import pickle
import re
from collections import Counter

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import ECB
from scipy.stats import chi2, kstest

from nearveil.errors import UsageError
from nearveil.randomness import (
    RELEASE_STREAM,
    NamedRows,
    NumberedRows,
    Randomness,
    RowKeystream,
    as_randomness,
    numbered_rows,
    secure_generator,
    seeded_randomness,
    stream_key,
)


def test_secure_numbers_are_aes_in_counter_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """What we draw equals OpenSSL's AES-128 of 0, 1, 2, … under the same key, however it is cut."""
    key = bytes(range(16))
    monkeypatch.setattr("secrets.token_bytes", lambda size: key[:size])
    generator = secure_generator()
    drawn = np.concatenate([generator.random(3), generator.random((20, 7)).ravel(), [generator.random()]])
    counters = b"".join(block.to_bytes(16, "big") for block in range(72))
    words = np.frombuffer(Cipher(AES128(key), ECB()).encryptor().update(counters), dtype=np.uint64)  # noqa: S305
    assert (drawn == (words[:144] >> np.uint64(11)) * 2.0**-53).all()


def test_secure_generators_have_fresh_keys_and_are_not_copied() -> None:
    first, second = secure_generator(), secure_generator()
    assert (first.random(8) != second.random(8)).any()
    with pytest.raises(TypeError):
        pickle.dumps(first)


@pytest.mark.statistical
def test_secure_permutations_are_alike() -> None:
    """All 24 of four; a chi-squared test at level 1e-6."""
    generator = secure_generator()
    counts = Counter(tuple(generator.permutation(4).tolist()) for _ in range(4800))
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) + 200 * (24 - len(counts)) < chi2.isf(1e-6, 23)
    assert (np.abs(generator.uniform(-2, 3, (50, 2)) - 0.5) <= 2.5).all()


def test_seeds_repeat_and_streams_differ() -> None:
    same, other = (seeded_randomness(5).generator.random() for _ in range(2))
    assert same == other
    parts = [seeded_randomness(5, 9, *part).generator.random() for part in ((), (0,), (1,), (0, 1))]
    assert len({same, seeded_randomness(6).generator.random(), np.random.default_rng(5).random(), *parts}) == 7


def test_what_comes_from_a_seed_says_so() -> None:
    kept = seeded_randomness(3)
    assert as_randomness(kept) is kept
    sources = (None, 3, np.random.default_rng(), kept)
    assert [as_randomness(source).seeded for source in sources] == [False, True, True, True]


@pytest.mark.parametrize("seed", [-1, True, 1.5, "x"])
def test_bad_seeds_are_refused(seed: object) -> None:
    for take in (as_randomness, stream_key):
        with pytest.raises(UsageError, match="seed"):
            take(seed)  # type: ignore[arg-type]


# Rows: their randomness is AES of their own counter, whoever asks for it, in whatever order.

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
    assert np.array_equal(rows.uniforms(3, rows=some), rows.uniforms(3)[some])
    assert len(rows) == 5
    assert len(rows.blocks(0, np.array([], dtype=np.int64))) == 0


def test_keys_are_not_shown() -> None:
    for rows in (NumberedRows(KEY, 0, 4), named()):
        assert not {"key", "nonces", repr(KEY)} & set(re.split(r"[(=, ]", repr(rows)))


@pytest.mark.parametrize("rows", [NumberedRows(KEY, 9, 5), named()], ids=["numbered", "named"])
def test_uniforms_are_the_first_53_bits_of_consecutive_words(rows: RowKeystream) -> None:
    words = np.hstack([rows.blocks(0), rows.blocks(1)])
    expected = (words // 2**11).astype(np.float64) / 2**53
    for columns in (1, 2, 3, 4):
        assert np.array_equal(rows.uniforms(columns), expected[:, :columns])
    some = np.array([3, 1])
    assert np.array_equal(rows.uniforms(2, first_block=1, rows=some), expected[some, 2:])


@pytest.mark.statistical
def test_uniforms_are_uniform() -> None:
    """Kolmogorov and Smirnov, 300,000 numbers under a fixed key, at level 1e-6; and no two are alike."""
    for rows in (NumberedRows(KEY, 0, 100_000), named(100_000)):
        numbers = rows.uniforms(3)
        assert kstest(numbers.ravel(), "uniform").pvalue > 1e-6
        assert len(np.unique(numbers)) == numbers.size


def test_a_seed_has_a_key_for_each_stream_and_a_generator_one_for_each_call() -> None:
    assert stream_key(5) == stream_key(5) == stream_key(5, RELEASE_STREAM)
    assert len({stream_key(5), stream_key(6), stream_key(5, 9), stream_key(59), stream_key()}) == 5
    first, second = np.random.default_rng(5), np.random.default_rng(5)
    assert stream_key(first) == stream_key(second) == stream_key(Randomness(np.random.default_rng(5), seeded=True))
    assert stream_key(first) != stream_key(np.random.default_rng(5))
    assert stream_key(as_randomness(None)) != stream_key(as_randomness(None))
    assert {len(stream_key(source)) for source in (None, 5, first, as_randomness(None))} == {16}
    assert numbered_rows(3, rng=5) == NumberedRows(stream_key(5), 0, 3)
