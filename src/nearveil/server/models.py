"""What requests and answers hold, and how a body becomes a request.

Requests are strict: no unknown field, no text for a number, no infinity. What was sent is never repeated in an error.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError, from_json

from nearveil.nearby.filters import LONGEST_TAG, MOST_BLOCKED, TAG_PATTERN
from nearveil.nearby.publishing.publisher import RECEIPT_BYTES
from nearveil.nearby.stores.base import LONGEST_ID, MOST_TAGS, PERSON_PATTERN
from nearveil.server.auth import LONGEST_TOKEN_S
from nearveil.server.problems import Problem, invalid, malformed_json
from nearveil.server.scopes import Scope

Model = TypeVar("Model", bound=BaseModel)

MOST_PEOPLE_AT_ONCE = 10_000
MOST_REPORTS = 1_000
MOST_NEIGHBORS = 1_000
MOST_EXCLUDED = 5_000
MOST_GROUPS = 16
_SCHEMAS = "#/components/schemas/"
EARTH_HALF_ROUND_M = 20_100_000.0
"""No two places on Earth are farther apart."""

PERSON_ID: dict[str, Any] = {
    "pattern": f"^{PERSON_PATTERN}$",
    "min_length": 1,
    "max_length": LONGEST_ID,
    "description": f"1 to {LONGEST_ID} characters of A-Z a-z 0-9 _ . : @ -, not only dots",
    "examples": ["ann"],
}
PersonId = Annotated[str, Field(**PERSON_ID)]
Tag = Annotated[
    str,
    Field(
        pattern=f"^{TAG_PATTERN}$",
        min_length=1,
        max_length=LONGEST_TAG,
        description=f"1 to {LONGEST_TAG} characters of A-Z a-z 0-9 _ . : @ + -",
        examples=["25-35"],
    ),
]
Latitude = Annotated[float, Field(ge=-90, le=90, description="Degrees north, WGS84.", examples=[37.7749])]
Longitude = Annotated[float, Field(ge=-180, le=180, description="Degrees east, WGS84.", examples=[-122.4194])]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


# -- requests ------------------------------------------------------------------------------------------------


class Place(_Model):
    """Where somebody is. It is perturbed on receipt and never kept."""

    latitude: Latitude
    longitude: Longitude
    previous: Annotated[
        str | None,
        Field(
            pattern=f"^[0-9a-f]{{{2 * RECEIPT_BYTES}}}$",
            description=(
                "The receipt of the last report of this phone that was answered; with its first report, 24 such digits "
                "at random. A report whose answer was lost is sent again with the same. Others are refused, until the "
                "person's tokens are revoked."
            ),
            examples=["5c0d8a2e9f4b7163d0a1c2e3"],
        ),
    ] = None


class LocationReport(Place):
    """Where one of many people is."""

    id: PersonId


class LocationReports(_Model):
    """Where many people are. Each report is checked for itself (`LocationReport`): a wrong one stops no other."""

    reports: Annotated[
        list[Annotated[Any, WithJsonSchema({"$ref": _SCHEMAS + "LocationReport"})]],
        Field(max_length=MOST_REPORTS),
    ]


def _check_groups(value: Any) -> Any:
    if isinstance(value, list) and any(not isinstance(group, list) for group in value):
        raise PydanticCustomError(
            "groups", 'Each group is a list of tags, also a group of one: [["woman", "nonbinary"], ["25-35"]]'
        )
    return value


# Made for each question: pydantic copies a list that is given as the default, which takes longer than the rest of it.
_EMPTY: Any = {"default_factory": list, "json_schema_extra": {"default": []}}


class Question(_Model):
    """Who is near a place."""

    latitude: Latitude
    longitude: Longitude
    k: Annotated[int, Field(ge=1, le=MOST_NEIGHBORS, description="How many people at most.", examples=[10])] = 10
    within_m: Annotated[
        float | None,
        Field(ge=1, le=EARTH_HALF_ROUND_M, description="Only people published within this distance, in metres."),
    ] = None
    asker: Annotated[
        PersonId | None,
        Field(description="Who asks, with a platform's key: left out of the answer. A token says so itself."),
    ] = None
    only: Annotated[
        list[Annotated[list[Tag], Field(min_length=1, max_length=MOST_TAGS)]],
        Field(
            max_length=MOST_GROUPS,
            description="Groups of tags: only people who have at least one tag of each group.",
            examples=[[["woman", "nonbinary"], ["25-35"]]],
            **_EMPTY,
        ),
        BeforeValidator(_check_groups),
    ]
    exclude: Annotated[
        list[PersonId],
        Field(max_length=MOST_EXCLUDED, description="People to leave out; ids that nobody has are ignored.", **_EMPTY),
    ]
    paged: Annotated[bool, Field(description="Whether the answer says how the list goes on.")] = False
    after: Annotated[
        str | None,
        Field(
            pattern="^[A-Za-z0-9_-]+$",
            max_length=256,
            description="'next' of the page before: the same question goes on there, within the epoch.",
        ),
    ] = None


class PeopleToAdd(_Model):
    """People to be known from now on."""

    ids: Annotated[list[PersonId], Field(max_length=MOST_PEOPLE_AT_ONCE, examples=[["ann", "bob"]])]


class TagsToSet(_Model):
    """All tags of a person from now on."""

    tags: Annotated[list[Tag], Field(max_length=MOST_TAGS, examples=[["woman", "25-35"]])]


class PeopleToBlock(_Model):
    """All whom a person has blocked from now on; ids that nobody has are ignored."""

    ids: Annotated[list[PersonId], Field(max_length=MOST_BLOCKED, examples=[["bob"]])]


class TokenRequest(_Model):
    """How long a person's token is to be valid."""

    expires_in_s: Annotated[int, Field(ge=1, le=LONGEST_TOKEN_S, examples=[3600])] = 3600


class KeyRequest(_Model):
    """What a new platform key may do: some of the scopes of the key that makes it."""

    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(Scope), examples=[["report"]])]


# -- answers -------------------------------------------------------------------------------------------------


class Health(_Model):
    """The process answers."""

    status: Annotated[str, Field(examples=["ok"])]


class Readiness(_Model):
    """Whether questions and reports are taken."""

    status: Annotated[str, Field(examples=["ready"])]
    epoch: Annotated[int, Field(examples=[486_204])]
    people_on_the_map: Annotated[int, Field(examples=[25_000])]


class PersonAdded(_Model):
    """Whether somebody is new."""

    id: PersonId
    created: bool


class PublishedLocation(_Model):
    """A published (noisy) location."""

    latitude: Latitude
    longitude: Longitude
    x_m: Annotated[float, Field(description="Metres east of the middle of the region.")]
    y_m: Annotated[float, Field(description="Metres north of the middle of the region.")]


class PersonRecord(_Model):
    """What is held about a person."""

    id: PersonId
    created: Annotated[datetime, Field(examples=["2026-01-31T12:00:00+00:00"])]
    published: PublishedLocation | None
    tags: list[str]
    blocked: list[str]


class BlockedPeople(_Model):
    """Whom a person has blocked, in the order of ids."""

    ids: Annotated[list[str], Field(examples=[["bob"]])]


class PeopleAdded(_Model):
    """How many of the people were not known before."""

    created: Annotated[int, Field(examples=[2])]


class Token(_Model):
    """A person's token; only that person should have it."""

    token: Annotated[str, Field(examples=["nvt_…"])]
    expires_at: Annotated[float, Field(description="Seconds since 1970.", examples=[1_750_003_600.0])]


class PlatformKeyShown(_Model):
    """A platform key: its name, and what it may do."""

    name: Annotated[str, Field(examples=["web-shop"])]
    scopes: list[str]


class PlatformKeys(_Model):
    """Which platform keys work."""

    keys: Annotated[list[PlatformKeyShown], Field(examples=[[{"name": "web-shop", "scopes": ["report"]}]])]


class NewPlatformKey(_Model):
    """A platform key, which is shown once and kept nowhere."""

    name: Annotated[str, Field(examples=["web-shop"])]
    key: Annotated[str, Field(examples=["nvk_…"])]
    scopes: Annotated[list[str], Field(examples=[["report"]])]


class ReportTaken(_Model):
    """A report was taken."""

    status: Annotated[
        str,
        Field(
            description="taken: kept, and answered alike wherever the person is or was.",
            json_schema_extra={"enum": ["taken"]},
            examples=["taken"],
        ),
    ]
    receipt: Annotated[str, Field(description="Names the report, at random; the next report's 'previous'.")]
    publishes_at: Annotated[
        float, Field(description="The next epoch boundary, in seconds since 1970.", examples=[1_750_003_200.0])
    ]


class ReportsAnswered(_Model):
    """The answers to many reports."""

    answers: Annotated[
        list[
            Annotated[
                Any, WithJsonSchema({"anyOf": [{"$ref": _SCHEMAS + name} for name in ("ReportTaken", "Problem")]})
            ]
        ],
        Field(
            description=(
                "For each report, in their order: that it was taken, as of a single one, or the problem for which it "
                "was not, with a number as its status."
            ),
        ),
    ]


class Nearby(_Model):
    """Who is near, nearest first, by published places: no distance and no coordinate."""

    ids: Annotated[list[str], Field(examples=[["bob", "eve"]])]
    next: Annotated[
        str | None, Field(description="If the question was paged: 'after' for the next page; null at the end.")
    ] = None


class RegionShown(_Model):
    """The public region, in degrees; across the antimeridian west is greater than east."""

    south: float
    west: float
    north: float
    east: float


class Card(_Model):
    """What is promised to the people of this service."""

    region: RegionShown
    guarantee: Annotated[dict[str, Any], Field(description="The card's statements; an infinite epsilon is null.")]
    text: Annotated[str, Field(description="The same in plain words.")]


class LedgerState(_Model):
    """The ledger's state; it names nobody."""

    people: int
    published: int
    epoch: int
    window: int
    next_epoch_at: Annotated[float, Field(description="Seconds since 1970.")]
    new_places_per_window: Annotated[
        int, Field(description="How many new places of one person are drawn in a window at most.")
    ]


class IntervalsTaken(_Model):
    """From when on new intervals hold."""

    from_epoch: int


class IntervalsShown(_Model):
    """The intervals in use, and those that wait for an epoch boundary."""

    fingerprint: Annotated[str | None, Field(description="SHA-256 of the intervals; null if there are none.")]
    number: int
    method: str | None
    next_fingerprint: str | None
    next_from_epoch: int | None


class EpochShown(_Model):
    """The epoch that it is now."""

    epoch: int


_TOO_DEEP = "recursion limit exceeded"


def parsed(model: type[Model], body: bytes) -> Model:
    """Return the body as a model; raise a problem that names fields and rules, never values."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise validation_problem(error, set(model.model_fields)) from None


def parsed_value(model: type[Model], value: Any) -> Model:
    """Return a part of a body, read by `parsed` as plain values, as a model; raise a problem as that does."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise validation_problem(error, set(model.model_fields), what="report") from None


def parsed_document(body: bytes) -> Any:
    """Return the body as plain values."""
    try:
        return from_json(body)
    except ValueError as error:
        problem = invalid("The document is nested too deeply.") if _TOO_DEEP in str(error) else malformed_json()
        raise problem from None


def validation_problem(error: ValidationError, fields: AbstractSet[str], *, what: str = "body") -> Problem:
    """Return the problem of the first error; only known fields are named, because other names come from the client."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return invalid("The document is nested too deeply.") if _TOO_DEEP in first["msg"] else malformed_json()
    place = first["loc"][0] if first["loc"] else None
    if place not in fields:
        return invalid(f"The {what} has an unknown field, or is not a JSON object.")
    return invalid(f"{place}: {first['msg']}.")
