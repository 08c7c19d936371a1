"""Rows that cannot be used: they are left out of what is published, and written to a file for their owner.

That file holds true locations, as the input does. Only its owner can read it, it replaces nothing but the same rows
written before, and it is not there if there are no such rows.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.errors import BadRowError, DataError, UsageError
from nearveil.io.atomic import check_output, replacing
from nearveil.io.input_file import is_standard
from nearveil.io.people import People, PeopleStream
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray

_ON_EARTH = "without coordinates on earth"
_OUTSIDE = "outside the region"
_UNREADABLE = "with too many or too few values"


class UsablePeople(PeopleStream):
    """The people of a stream whose rows can be used, by every pass over it.

    Parameters
    ----------
    stream : PeopleStream
        Rows whose location cannot be read have NaN there.
    path : Path
        For the other rows, when the first pass ends.
    region : Region or None
        Public. Rows outside it cannot be used; None if they can.
    """

    def __init__(self, stream: PeopleStream, path: Path, region: Region | None) -> None:
        self.layout = stream.layout
        self.carried = stream.carried
        # Those that can be used are counted in the first pass; until then, all of them.
        self.rows = stream.rows
        self.skipped = 0
        self._stream = stream
        self._path = path
        self._region = region
        self._summary: tuple[str, ...] = ()
        self._has_ended = False

    @property
    def warnings(self) -> tuple[str, ...]:  # type: ignore[override]
        """What was noticed: also how many rows were left out, once they have been read."""
        return (*self._stream.warnings, *self._summary)

    def batches(self, carried: Sequence[int] | None = None) -> Iterator[People]:
        """Read the rows that can be used from the first on; after the first time, write the others down."""
        bad_rows: list[IntArray] = []
        bad_points: list[FloatArray] = []
        first_bad: FloatArray | None = None
        rows = usable = 0
        for people in self._stream.batches(carried):
            good = self._usable(people.points)
            if first_bad is None and not good.all():
                first_bad = people.points
            bad_rows.append(rows + np.flatnonzero(~good))
            bad_points.append(people.points[~good])
            rows += len(people)
            usable += int(good.sum())
            if good.all():
                yield people
            elif good.any():
                yield people.taken(np.flatnonzero(good))
        if not usable and first_bad is not None and self._region is not None:
            # What is wrong with the whole file is said as if no row could be left out.
            with suppress(BadRowError):
                self._region.check(first_bad)
        if not self._has_ended:
            self._has_ended = True
            self._write(np.concatenate([np.empty(0, int), *bad_rows]), np.vstack([np.empty((0, 2)), *bad_points]), rows)
        if not usable:
            raise DataError(f"no row can be used; {self._path} says what is wrong with each, and holds true locations")

    @property
    def names_as_read(self) -> list[str]:
        """Names of all columns of the file."""
        return self._stream.names_as_read

    def rows_as_read(self, rows: IntArray) -> Iterator[Sequence[Any]]:
        """Give some rows of the whole file as they stand there."""
        return self._stream.rows_as_read(rows)

    def _usable(self, points: FloatArray) -> BoolArray:
        usable = _on_earth(points)
        if self._region is not None:
            usable[usable] = self._region.contains(points[usable])
        return usable

    def _write(self, bad: IntArray, points: FloatArray, rows: int) -> None:
        unreadable = self._stream.unreadable
        if not len(bad) and not unreadable:
            # Rows of another file would be taken for those of this one.
            check_output(self._path, force=False)
            return
        # Rows without values for the columns are not counted among the others.
        numbers = np.setdiff1d(np.arange(1, rows + len(unreadable) + 1), list(unreadable))
        counts = Counter({_UNREADABLE: len(unreadable)})
        with (
            # Planned, attacked and then protected: the same command line holds the same file each time.
            replacing(self._path, force=False, private=True, same_again=True) as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(["bad_row", "bad_because", *self.names_as_read])
            for number, point, values in zip(numbers[bad], points, self._stream.rows_as_read(bad), strict=True):
                is_outside = bool(_on_earth(point[None])[0])
                counts[_OUTSIDE if is_outside else _ON_EARTH] += 1
                because = self._outside(point) if is_outside else self._no_place(values)
                writer.writerow([int(number), because, *map(_as_text, values)])
            for number, (because, text) in sorted(unreadable.items()):
                writer.writerow([number, because, text])
        self.skipped = counts.total()
        listed = ", ".join(f"{counts[name]:,} {name}" for name in (_ON_EARTH, _OUTSIDE, _UNREADABLE) if counts[name])
        self._summary = (
            f"{self.skipped:,} of {rows + len(unreadable):,} rows {'was' if self.skipped == 1 else 'were'} left out "
            f"({listed}) and written to "
            f"{self._path}, which holds true locations; do not publish it",
        )

    # What is wrong with a row, for the file. It names columns and edges, and quotes nothing: the row stands beside it.

    def _no_place(self, values: Sequence[Any]) -> str:
        """Say what is wrong with a row that has no place on earth."""
        names, layout, faults = self.names_as_read, self.layout, []
        for column, most in ((layout.latitude, 90), (layout.longitude, 180)):
            if column is not None:
                limit = most if layout.crs is None else math.inf
                faults.append(_wrong_number(column.name, values[names.index(column.name)], limit))
        if layout.text is not None:
            empty = _is_empty(values[names.index(layout.text.name)])
            faults.append(f"{layout.text.name} is {'empty' if empty else 'not a point that can be read'}")
        if layout.geometry is not None and not any(faults):
            faults.append(f"{layout.geometry.name} is missing, no plain point, or not where the columns say")
        return "; ".join(fault for fault in faults if fault) or f"no place on earth in {layout.crs}"

    def _outside(self, point: FloatArray) -> str:
        """Say where a row is that is outside the region."""
        region = self._region
        assert region is not None  # noqa: S101 - nobody is outside otherwise
        if not point.any():
            return "outside the region: both coordinates are 0, as where a place is missing"
        if _on_earth(point[None, ::-1])[0] and region.contains(point[None, ::-1])[0]:
            return "outside the region, but inside with latitude and longitude exchanged"
        north = "north" if point[0] > region.north else "south" if point[0] < region.south else ""
        inside_if_moved = region.contains([[region.centre[0], point[1]]])[0]
        east = "" if inside_if_moved else "east" if (point[1] - region.centre[1]) % 360 < 180 else "west"
        return f"outside the region, to the {'-'.join(part for part in (north, east) if part)}"


def _on_earth(points: FloatArray) -> BoolArray:
    on_earth: BoolArray = np.all(np.abs(points) <= (90.0, 180.0), axis=1)
    return on_earth


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _wrong_number(name: str, value: Any, most: float) -> str:
    """What is wrong with a coordinate; empty if nothing is."""
    if _is_empty(value):
        return f"{name} is empty"
    try:
        number = float(value.replace(",", ".").strip(" °") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return f"{name} is not a number"
    if not math.isfinite(number):
        return f"{name} is not finite"
    return f"{name} is not between -{most:.0f} and {most:.0f}" if abs(number) > most else ""


def check_bad_rows_file(bad: Path, source: Path, output: Path) -> None:
    """Refuse a file of bad rows that would be published, or would replace what is read."""
    if bad.resolve() in (source.resolve(), output.resolve()):
        raise UsageError("skip_bad= names the INPUT or the OUTPUT; name a file of its own, which holds true locations")
    if is_standard(output):
        return
    # A folder that is published holds no true locations. Where the input is, there are some already.
    folder, beside = bad.resolve().parent, [path.resolve().parent for path in (output, source)]
    is_below = folder.is_relative_to(beside[0]) and not beside[1].is_relative_to(beside[0])
    if is_below or (folder == beside[0] and folder != beside[1]):
        raise UsageError(
            "skip_bad= would write true locations beside the OUTPUT, which is to be published; name a file in another "
            "folder, such as that of the INPUT"
        )


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return "" if value is None else json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
