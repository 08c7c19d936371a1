"""Rows that cannot be published are found by reason, and errors name a row and no coordinate."""

import math
import re

import numpy as np
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.lengths import meters
from nearveil.points import NO_LOCATION, NOT_ON_EARTH, OUTSIDE, as_points, check_points, unusable
from nearveil.region import Region

BERLIN = Region(52.33, 13.08, 52.68, 13.77)
FIJI = Region(-19.5, 176.8, -15.5, -178.0)
HOME = [52.5, 13.4]


def test_rows_are_found_by_reason() -> None:
    points = np.array(
        [HOME, [math.nan, 13.4], [52.5, math.inf], [95.0, 13.4], [52.5, 400.0], [52.5, -181.0], [48.0, 2.0], HOME]
    )
    found = {reason: rows.tolist() for reason, rows in unusable(points, BERLIN).items()}
    assert found == {NO_LOCATION: [1, 2], NOT_ON_EARTH: [3, 4, 5], OUTSIDE: [6]}
    assert set(unusable(points)) == {NO_LOCATION, NOT_ON_EARTH}
    assert unusable(points[[0, 7]], BERLIN) == {}
    assert unusable(np.empty((0, 2)), BERLIN) == {}


def test_longitudes_go_around_once() -> None:
    points = np.array([[-17.0, 181.5], [-17.0, 178.0], [-17.0, -178.5]])
    assert unusable(points, FIJI) == {}
    assert check_points(points, FIJI)[:, 1].tolist() == [-178.5, 178.0, -178.5]
    assert list(unusable(points, BERLIN)) == [OUTSIDE]


@pytest.mark.parametrize(
    ("row", "region", "words", "error"),
    [
        ([math.nan, 13.4], None, "row 13 has no readable location; correct or remove", DataError),
        ([95.0, 123.4], None, "row 13 is not on Earth: a latitude is from -90 to 90", DataError),
        ([91.0, 13.4], None, "row 13 is not on Earth: .* if they are exchanged, name the right columns", DataError),
        ([13.4, 52.5], BERLIN, "row 13 has latitude and longitude exchanged; name .* with latitude= and", DataError),
        ([48.0, 2.0], BERLIN, "row 13 lies outside the region 52.33,13.08,52.68,13.77; leave region= out", DataError),
        ([5.8e6, 3.9e5], BERLIN, "row 13 has coordinates that look like meters; .* crs=.* EPSG:25833", DataError),
    ],
)
def test_the_first_row_is_named_and_no_coordinate(
    row: list[float], region: Region | None, words: str, error: type[DataError]
) -> None:
    with pytest.raises(error, match=f"^{words}") as caught:
        check_points(np.array([HOME, HOME, row]), region, rows_before=10)
    shown = str(caught.value).replace(str(region), "").replace("EPSG", "")
    assert not any(str(value) in re.findall(r"[\d.e+-]+", shown) for value in row)


def test_others_are_counted() -> None:
    for count, words in ((2, r"\(and 1 more row\)"), (4_001, r"\(and 4,000 more rows\)")):
        with pytest.raises(DataError, match=f"row 1 lies outside .* {words}; leave"):
            check_points(np.tile([[48.0, 2.0]], (count, 1)), BERLIN)


def test_other_shapes_are_refused() -> None:
    for points in ([[1.0]], [1.0, 2.0], [["a", "b"]], [[1, 2, 3]], None):
        with pytest.raises(DataError, match=r"^points must"):
            as_points(points)


def test_lengths_are_numbers_or_text() -> None:
    texts: list[float | str] = ["500", "500m", " 0.5 km", "1e3M", "0.3mi", 12.5]
    assert [meters(text, "noise_m") for text in texts] == [500, 500, 500, 1000, pytest.approx(482.8032), 12.5]
    for text in ("", "m", "-5m", "0", "5 ft", "1.2.3", "1e999", "nan"):
        with pytest.raises(
            UsageError, match=r"^noise_m takes a length greater than 0, such as 500m, 0\.5km or 0\.3mi$"
        ):
            meters(text, "noise_m")
