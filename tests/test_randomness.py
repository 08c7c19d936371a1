import pickle
from collections import Counter

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import ECB
from scipy.stats import chi2

from nearveil import Region, build_grid_intervals
from nearveil.errors import UsageError
from nearveil.randomness import as_randomness, secure_generator, secure_randomness, seeded_randomness, stream_key
from nearveil.types import FloatArray


def test_secure_numbers_are_aes_in_counter_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """What we draw equals OpenSSL's AES-128 of 0, 1, 2, … under the same key, however it is cut."""
    key = bytes(range(16))
    monkeypatch.setattr("secrets.token_bytes", lambda size: key[:size])
    generator = secure_generator()
    drawn = np.concatenate([generator.random(3), generator.random((20, 7)).ravel(), [generator.random()]])
    counters = b"".join(block.to_bytes(16, "big") for block in range(72))
    words = np.frombuffer(Cipher(AES128(key), ECB()).encryptor().update(counters), dtype=np.uint64)  # noqa: S305
    assert (drawn == (words[:144] >> np.uint64(11)) * 2.0**-53).all()


def test_secure_generators_have_fresh_keys_also_as_copies() -> None:
    first, second = secure_generator(), secure_generator()
    assert (first.random(8) != second.random(8)).any()
    copied = pickle.loads(pickle.dumps(first))  # noqa: S301
    assert type(copied) is type(first)
    assert (copied.random(8) != first.random(8)).any()
    assert not secure_randomness().seeded


@pytest.mark.statistical
def test_secure_permutations_are_alike() -> None:
    """All 24 of four; a chi-squared test at level 1e-6. Rows of arrays are put in order likewise."""
    generator = secure_generator()
    counts = Counter(tuple(generator.permutation(4).tolist()) for _ in range(4800))
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) + 200 * (24 - len(counts)) < chi2.isf(1e-6, 23)
    rows = np.arange(10).reshape(5, 2)
    assert sorted(generator.permutation(rows).tolist()) == rows.tolist()


def test_laws_that_could_be_predicted_are_refused() -> None:
    """NumPy's own would draw from the generator below, which is none for secrets."""
    generator = secure_generator()
    for name in ("normal", "integers", "choice", "shuffle", "multinomial", "standard_exponential", "spawn"):
        with pytest.raises(UsageError, match=name):
            getattr(generator, name)(3)
    assert (np.abs(generator.uniform(-2, 3, (50, 2)) - 0.5) <= 2.5).all()


def test_seeds_repeat_and_streams_differ() -> None:
    assert seeded_randomness(5).generator.random() == seeded_randomness(5).generator.random()
    assert seeded_randomness(5).generator.random() != seeded_randomness(6).generator.random()
    assert seeded_randomness(5).generator.random() != seeded_randomness(5, stream=9).generator.random()
    assert seeded_randomness(5).generator.random() != np.random.default_rng(5).random()
    parts = [seeded_randomness(5, 9, *part).generator.random() for part in ((), (0,), (1,), (0, 1), (0, 1))]
    assert len(set(parts)) == 4
    assert parts[3] == parts[4]


def test_what_comes_from_a_seed_says_so() -> None:
    assert not as_randomness(None).seeded
    assert as_randomness(3).seeded
    assert as_randomness(np.random.default_rng()).seeded
    kept = seeded_randomness(3)
    assert as_randomness(kept) is kept
    assert not as_randomness(secure_randomness()).seeded


@pytest.mark.parametrize("seed", [-1, True, 1.5, "x"])
def test_bad_seeds_are_refused(seed: object) -> None:
    for take in (as_randomness, stream_key):
        with pytest.raises(UsageError, match="seed"):
            take(seed)  # type: ignore[arg-type]


def test_secure_randomness_that_is_copied_draws_something_else(city: FloatArray, san_francisco: Region) -> None:
    """As one that is sent to several processes would."""
    source = secure_randomness()
    copied = pickle.loads(pickle.dumps(source))  # noqa: S301
    first, second = (
        build_grid_intervals(city[:500], region=san_francisco, epsilon=1.0, centres=5, rng=rng)
        for rng in (source, copied)
    )
    assert not first.seeded
    assert (first.centres != second.centres).any()
