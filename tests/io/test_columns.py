import pytest

from nearveil.errors import DataError
from nearveil.io.columns import (
    exact_location_columns,
    find_coordinates,
    person_columns,
    revealing_columns,
)


@pytest.mark.parametrize(
    "names",
    [
        ["id", "latitude", "longitude"],
        ["x", "Lat", "LON"],
        ["a", "lat", "lng"],
        ["a", "Latitude (deg)", "Longitude_deg"],
        ["a", "Breite", "Länge"],
        ["Ort", "BREITE", "Laenge"],
        ["a", "Breitengrad", "La\u0308ngengrad"],
        ["a", "latitud", "longitud"],
        ["Breite", "lat", "lon", "Länge"],
    ],
)
def test_usual_names(names: list[str]) -> None:
    found = find_coordinates(names)
    assert found is not None
    assert (found.latitude, found.longitude) == (1, 2)


def test_named_columns_win() -> None:
    found = find_coordinates(["lat", "lon", "home_n", "home_e"], "home_n", "home_e")
    assert found is not None
    assert (found.latitude, found.longitude) == (2, 3)


@pytest.mark.parametrize(
    ("names", "latitude", "longitude", "words"),
    [
        (["lat", "x"], None, None, "no longitude column"),
        (["lon", "x"], None, None, "no latitude column"),
        (["lat", "latitude", "lon"], None, None, "several columns could be the latitude: 'lat', 'latitude'"),
        (["a", "b"], "a", None, "name both"),
        (["a", "b"], "a", "c", "there is no column 'c'"),
        (["a", "a", "b"], "a", "b", "2 columns named 'a'"),
        (["lat", "lat", "lon"], None, None, "2 columns named 'lat'; rename all but one"),
        (["lattitude", "lon"], None, None, "no latitude column; did you mean 'lattitude'"),
        (["altitude", "lon"], None, None, "no latitude column; name them"),
    ],
)
def test_doubt_is_not_guessed_away(names: list[str], latitude: str | None, longitude: str | None, words: str) -> None:
    with pytest.raises(DataError, match=words):
        find_coordinates(names, latitude, longitude)


def test_nothing_found_is_none() -> None:
    assert find_coordinates(["a", "b"]) is None
    # A width.
    assert find_coordinates(["a", "Breite"]) is None


@pytest.mark.parametrize(
    "name",
    [
        "address", "home_address", "homeAddress", "Street", "postcode", "post_code", "ZIP", "zip code", "postal-code",
        "geohash", "geohash7", "h3_9", "location_id", "LocationID", "venue", "place", "city", "neighborhood",
        "ip_address", "plus_code", "cell_id", "altitude", "home_lat", "gps", "position", "latlong", "lat2", "x",
        "Adresse", "Anschrift", "Straße", "STRASSE", "Wohnort", "Ort", "wohnOrt", "Längengrad", "domicile", "rue",
        "ville", "Localité", "dirección", "DIRECCIÓN", "direccio\u0301n", "calle_2",
    ],
)  # fmt: skip
def test_revealing_names(name: str) -> None:
    assert revealing_columns([name]) == [name]


@pytest.mark.parametrize(
    "name",
    ["id", "name", "age", "shipment", "email", "recipe", "velocity", "stripe", "score", "Sport", "Sorte", "revenue"],
)
def test_innocent_names(name: str) -> None:
    assert revealing_columns([name]) == []
    assert exact_location_columns([name]) == []


def test_second_locations_are_exact() -> None:
    names = ["lat", "Longitude", "geometry", "wkt", "bbox", "name"]
    assert exact_location_columns(names) == names[:-1]


def test_person_ids() -> None:
    assert person_columns(["id", "user_id", "Person", "name"]) == ["id", "user_id", "Person"]
