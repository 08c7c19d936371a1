"""Open a file of people, and watch whether one person has one row."""

from __future__ import annotations

from pathlib import Path

from nearveil.cli.console import warn
from nearveil.io.files import open_people
from nearveil.io.people import PeopleStream
from nearveil.streaming.people_watch import PeopleWatch


def open_checked(
    path: Path,
    *,
    latitude: str | None,
    longitude: str | None,
    drop: tuple[str, ...],
    person: str | None,
    per_row: bool,
    keep_ids: bool,
    carry: bool = True,
) -> tuple[PeopleStream, PeopleWatch]:
    """Open a file, print warnings, and return it with what is to look at every batch of it."""
    stream = open_people(path, latitude=latitude, longitude=longitude, drop=drop, carry=carry)
    watch = PeopleWatch(stream.carried, person, per_row=per_row, keep_ids=keep_ids)
    for warning in stream.warnings:
        warn(warning)
    return stream, watch
