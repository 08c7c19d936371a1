"""Names of rows: different for different keys, and a matter of the key and the secret alone."""

import numpy as np
import pyarrow as pa
import pytest

from nearveil.errors import UsageError
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.randomness import subkey
from nearveil.release.row_names import (
    checked_secret,
    missing_keys,
    noise_of,
    order_of,
    place_digest,
    row_hashes,
    rows_digest,
)
from nearveil.release.spark import job_key
from nearveil.release.spark_tasks import Tally

SECRET = bytes(range(16))


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([0, 1, -1, 2**63 - 1, -(2**63)], pa.int64()),
        pa.array([0, 1, -1, 127, -128], pa.int8()),
        pa.array(["", "a", "b", "ab", "é"]),
        pa.array(["0", "1", "-1", "01", " 1"], pa.large_string()),
    ],
)
def test_different_keys_have_different_names(keys: pa.Array) -> None:
    names = row_hashes(keys, SECRET)
    assert names.shape == (5, 2)
    assert len(np.unique(names, axis=0)) == 5


def test_a_name_does_not_depend_on_its_company() -> None:
    for keys in (pa.array([5, 6, 7]), pa.array(["x", "y", "z"])):
        assert np.array_equal(row_hashes(keys, SECRET)[1:2], row_hashes(keys.slice(1, 1), SECRET))


def test_whole_numbers_of_any_width_have_one_name() -> None:
    narrow, wide = (row_hashes(pa.array([3, -4], kind), SECRET) for kind in (pa.int8(), pa.int64()))
    assert np.array_equal(narrow, wide)


def test_missing_keys_are_found() -> None:
    assert missing_keys(pa.array([1, None, 3])).tolist() == [False, True, False]
    assert missing_keys(pa.array(["a", None, ""])).tolist() == [False, True, True]


def test_noise_and_order_are_unrelated_and_secret() -> None:
    names = row_hashes(pa.array(np.arange(1000)), SECRET)
    order = order_of(names, SECRET)
    assert len(np.unique(order, axis=0)) == 1000
    assert not np.array_equal(order, order_of(names, subkey(SECRET, "job")))
    noise = noise_of(names, SECRET).blocks(0).view(np.int64)
    assert not np.isin(noise, order).any()


def test_the_digest_of_rows_does_not_depend_on_their_order_but_on_everything_else() -> None:
    rng = np.random.default_rng(1)
    keys, points = np.arange(50), rng.random((50, 2))
    shuffle = rng.permutation(50)
    whole = rows_digest(row_hashes(pa.array(keys), SECRET), points, SECRET)
    parts = [
        rows_digest(row_hashes(pa.array(keys[part]), SECRET), points[part], SECRET)
        for part in (shuffle[:20], shuffle[20:])
    ]
    assert np.array_equal(whole, parts[0] + parts[1])
    moved = points.copy()
    moved[7, 1] = np.nextafter(moved[7, 1], 2)
    swapped = points[[1, 0, *range(2, 50)]]
    for other in (moved, swapped):
        assert not np.array_equal(whole, rows_digest(row_hashes(pa.array(keys), SECRET), other, SECRET))
    assert not np.array_equal(whole, rows_digest(row_hashes(pa.array(keys), bytes(16)), points, bytes(16)))


def test_a_place_has_one_digest() -> None:
    first, second = np.array([0.0, 1.0]), np.array([-0.0, 1.0])
    assert place_digest(first, SECRET) == place_digest(second, SECRET)
    assert place_digest(first, SECRET) != place_digest(second + 1, SECRET)


def test_a_secret_is_fresh_or_sixteen_bytes() -> None:
    assert checked_secret(None) != checked_secret(None)
    assert checked_secret(SECRET) == SECRET
    for wrong in (b"short", "0123456789abcdef", bytes(17)):
        with pytest.raises(UsageError, match="16 random bytes"):
            checked_secret(wrong)  # type: ignore[arg-type]


def test_every_number_of_a_parameter_counts_for_the_key_of_a_release() -> None:
    """Equal keys for two mechanisms would give a row the same noise twice, and the difference would tell its place."""

    class Others(PlanarLaplace):
        table: np.ndarray

    first, second = Others(), Others()
    first.table, second.table = np.arange(5000.0), np.arange(5000.0)
    assert job_key(SECRET, first, Tally()) == job_key(SECRET, second, Tally())
    second.table[2500] += 1e-9
    assert job_key(SECRET, first, Tally()) != job_key(SECRET, second, Tally())
