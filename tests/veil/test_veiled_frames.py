"""Frames by Veil: a location for each row, the same for a user's rows in one cell."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from nearveil import ReadOptions, Veil, protect_frame
from nearveil.errors import DataError, UsageError

VEIL = Veil("9f" * 32)


@pytest.fixture
def table(rng: np.random.Generator) -> pa.Table:
    """Three users who were 100 times each at a home of their own, one of them across the antimeridian."""
    homes = np.repeat([[52.52, 13.405], [48.1, 11.5], [-17, 179.9999]], 100, axis=0)
    users = np.repeat([7, 8, 9], 100)
    return pa.table({"user": users, "lat": homes[:, 0], "lon": homes[:, 1], "number": rng.permutation(300)})


@pytest.mark.parametrize("kind", [pa.table, pl.DataFrame, lambda table: table.to_pandas()])
def test_rows_get_their_users_answers_in_a_new_order(kind: Any, table: pa.Table) -> None:
    frame = kind(table)
    published = protect_frame(frame, VEIL, user="user")
    assert type(published) is type(frame)
    rows, before = pl.DataFrame(published).to_dicts(), {row["number"]: row for row in table.to_pylist()}
    assert [row["number"] for row in rows] != list(before)
    for row in rows:
        true = before.pop(row["number"])
        latitude, longitude = VEIL.blur(str(true["user"]), true["lat"], true["lon"])
        assert row == {**true, "lat": latitude, "lon": longitude}


def test_what_is_refused_or_warned_of(table: pa.Table) -> None:
    with pytest.warns(UserWarning, match="order of the rows is kept"):
        kept = protect_frame(table, VEIL, user="user", keep_order=True)
    assert kept["number"].equals(table["number"])
    halves = pa.array([None, *[1.5] * 299])
    twice = table.append_column("twice", pa.array([f"{row['lat']} {row['lon']}" for row in table.to_pylist()]))
    for given, options, words in (
        (table, {}, "name the column of users with user="),
        (table, {"user": "id"}, "no column 'id' of users"),
        (table, {"user": "user", "region": "berlin"}, "Veil works everywhere"),
        (table, {"user": "user", "read": ReadOptions(person="user")}, "takes user= alone"),
        (table.set_column(0, "user", halves.cast(pa.string())), {"user": "user"}, "row 1 has no 'user'"),
        (table.set_column(1, "lat", halves), {"user": "user"}, "row 1 has a missing"),
        (twice, {"user": "user"}, "'twice'"),
    ):
        with pytest.raises((DataError, UsageError), match=words):
            protect_frame(given, VEIL, **options)
    with pytest.raises(UsageError, match="user= is for a Veil"):
        protect_frame(table, user="user")
