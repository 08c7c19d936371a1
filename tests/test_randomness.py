import pickle
import secrets

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from randomgen import AESCounter

from nearveil import Region, build_grid_intervals
from nearveil.errors import UsageError
from nearveil.randomness import as_randomness, secure_generator, secure_randomness, seeded_randomness
from nearveil.types import FloatArray


def test_secure_keystream_is_aes_in_counter_mode() -> None:
    """What we draw from equals OpenSSL's AES-128 of 0, 1, 2, … under the same key."""
    key = secrets.randbits(128)
    drawn = AESCounter(key=key, counter=0).random_raw(2000)
    openssl = Cipher(algorithms.AES(key.to_bytes(16, "little")), modes.ECB()).encryptor()  # noqa: S305
    counters = b"".join(block.to_bytes(16, "little") for block in range(1000))
    assert (drawn == np.frombuffer(openssl.update(counters), dtype="<u8")).all()


def test_secure_generators_use_that_and_fresh_keys() -> None:
    first, second = secure_generator(), secure_generator()
    assert isinstance(first.bit_generator, AESCounter)
    assert (first.random(8) != second.random(8)).any()
    assert not secure_randomness().seeded
    children = secure_randomness().spawn(3)
    assert len({child.random() for child in children}) == 3
    assert all(isinstance(child.bit_generator, AESCounter) for child in children)
    assert len({id(child.bit_generator) for child in children}) == 3


def test_keys_have_128_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def spy(bits: int) -> int:
        asked.append(bits)
        return 7

    monkeypatch.setattr("secrets.randbits", spy)
    secure_generator()
    assert asked == [128]


def test_streams_are_apart_from_a_plain_generator_of_the_same_seed() -> None:
    assert seeded_randomness(5).generator.random() != np.random.default_rng(5).random()


def test_seeds_repeat_and_streams_differ() -> None:
    assert seeded_randomness(5).generator.random() == seeded_randomness(5).generator.random()
    assert seeded_randomness(5).generator.random() != seeded_randomness(6).generator.random()
    assert seeded_randomness(5).generator.random() != seeded_randomness(5, stream=9).generator.random()
    first, second = (seeded_randomness(5).spawn(2) for _ in range(2))
    assert [child.random() for child in first] == [child.random() for child in second]


def test_what_comes_from_a_seed_says_so() -> None:
    assert not as_randomness(None).seeded
    assert as_randomness(3).seeded
    assert as_randomness(np.random.default_rng()).seeded
    kept = seeded_randomness(3)
    assert as_randomness(kept) is kept
    assert not as_randomness(secure_randomness()).seeded


@pytest.mark.parametrize("seed", [-1, True, 1.5, "x"])
def test_bad_seeds_are_refused(seed: object) -> None:
    with pytest.raises(UsageError, match="seed"):
        as_randomness(seed)  # type: ignore[arg-type]


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
