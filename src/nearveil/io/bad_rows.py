"""Rows that cannot be used: they are left out of what is published, and written to a file for their owner.

That file holds true locations, as the input does. Only its owner can read it, it replaces nothing but the same rows
written before, and it is not there if there are no such rows.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import check_output, replacing
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
        reasons: dict[str, list[IntArray]] = {_ON_EARTH: [], _OUTSIDE: []}
        first_bad: FloatArray | None = None
        rows = usable = 0
        for people in self._stream.batches(carried):
            on_earth, inside = self._sorted_out(people.points)
            good = on_earth & inside
            if first_bad is None and not good.all():
                first_bad = people.points
            reasons[_ON_EARTH].append(rows + np.flatnonzero(~on_earth))
            reasons[_OUTSIDE].append(rows + np.flatnonzero(on_earth & ~inside))
            rows += len(people)
            usable += int(good.sum())
            if good.all():
                yield people
            elif good.any():
                yield people.taken(np.flatnonzero(good))
        if not usable:
            if first_bad is not None and self._region is not None:
                # What is wrong with all rows is said as if none could be left out.
                self._region.check(first_bad)
            raise DataError("no row can be used: all would be left out; check the columns and the region")
        if not self._has_ended:
            self._has_ended = True
            self._write({name: np.concatenate(found) for name, found in reasons.items()}, rows)

    @property
    def names_as_read(self) -> list[str]:
        """Names of all columns of the file."""
        return self._stream.names_as_read

    def rows_as_read(self, rows: IntArray) -> Iterator[Sequence[Any]]:
        """Give some rows of the whole file as they stand there."""
        return self._stream.rows_as_read(rows)

    def _sorted_out(self, points: FloatArray) -> tuple[BoolArray, BoolArray]:
        on_earth: BoolArray = np.all(np.abs(points) <= (90.0, 180.0), axis=1)
        inside = np.ones(len(points), dtype=bool)
        if self._region is not None:
            inside[on_earth] = self._region.contains(points[on_earth])
        return on_earth, inside

    def _write(self, reasons: Mapping[str, IntArray], rows: int) -> None:
        unreadable = self._stream.unreadable
        reason_of = {int(row): reason for reason, found in reasons.items() for row in found}
        if not reason_of and not unreadable:
            # Rows of another file would be taken for those of this one.
            check_output(self._path, force=False)
            return
        wanted = np.array(sorted(reason_of), dtype=np.int64)
        # Rows without values for the columns are not counted among the others.
        numbers = np.setdiff1d(np.arange(1, rows + len(unreadable) + 1), list(unreadable))
        with (
            # Planned, attacked and then protected: the same command line holds the same file each time.
            replacing(self._path, force=False, private=True, same_again=True) as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(["bad_row", "bad_because", *self.names_as_read])
            for row, values in zip(wanted.tolist(), self._stream.rows_as_read(wanted), strict=True):
                writer.writerow([int(numbers[row]), reason_of[row], *map(_as_text, values)])
            for number, text in sorted(unreadable.items()):
                writer.writerow([number, _UNREADABLE, text])
        counts = Counter(reason_of.values()) + Counter({_UNREADABLE: len(unreadable)})
        self.skipped = counts.total()
        listed = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
        self._summary = (
            f"{self.skipped:,} of {rows + len(unreadable):,} rows were left out ({listed}) and written to "
            f"{self._path}, which holds true locations; do not publish it",
        )


def check_bad_rows_file(bad: Path, source: str, output: str) -> None:
    """Refuse a file of bad rows that would be published, or would replace what is read."""
    if bad.resolve() in (Path(source).resolve(), Path(output).resolve()):
        raise UsageError("--skip-bad names the INPUT or the OUTPUT; name a file of its own, which holds true locations")
    # A folder that is published holds no true locations. Where the input is, there are some already.
    folder, beside = bad.resolve().parent, [Path(path).resolve().parent for path in (output, source)]
    if folder == beside[0] and folder != beside[1]:
        raise UsageError(
            "--skip-bad would write true locations beside the OUTPUT, which is to be published; name a file in another "
            "folder, such as that of the INPUT"
        )


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return "" if value is None else json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
