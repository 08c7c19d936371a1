"""Cells: a public partition of the region into boxes that hold about equally many people.

The region is cut into ``columns`` x ``rows`` largest boxes, and each of them is halved both ways again and again where
people are dense: a quadtree. `nearveil.mechanisms.cell_steps` counts the steps between cells.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import read_text, replacing
from nearveil.mechanisms.srr import deinterleave, interleave
from nearveil.privacy.guarantee import (
    SEEDED_CELLS_NOTE,
    Basis,
    Guarantee,
    PrivacyDefinition,
    check_count,
    check_positive,
)
from nearveil.randomness import EXPONENTIAL_REACH
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, ShortIntArray

FORMAT = "nearveil-cells"
FORMAT_VERSION = 1

MOST_CELLS = 250_000
MOST_BOXES = 1 << 24
_MOST_LEVELS = 12

PRIVTREE_RATIO = 7 / 3
"""Scale of the noise of a private quadtree times its epsilon: (2 b - 1) / (b - 1) for a tree that splits into b = 4."""
COUNTING_SHARE = 0.1
"""Share of what a private quadtree costs that goes into counting people in its largest boxes."""

CELLS_TO_HIDE_AMONG = 10
"""A cell holds about a tenth of the people to hide among."""

CellSource = Literal["public", "published", "privtree"]

SOURCE_NAMES: dict[CellSource, str] = {
    "public": "public data",
    "published": "locations published before",
    "privtree": "a private quadtree (PrivTree)",
}

_NO_CELLS = "this is not a file of cells that this Nearveil reads, or it is damaged; make it again"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a region is cut into boxes, before it is known where people are.

    There are ``columns`` x ``rows`` largest boxes, from west to east and from south to north, and each may be halved
    both ways ``levels`` times.
    """

    region: Region
    columns: int
    rows: int
    levels: int

    def __post_init__(self) -> None:
        possible = min(self.columns, self.rows) >= 1 and 0 <= self.levels <= _MOST_LEVELS
        if not possible or self.columns * self.rows << 2 * self.levels > MOST_BOXES:
            raise UsageError(f"cells need at least one box, and at most {MOST_BOXES:,} of the smallest boxes")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid of smallest boxes."""
        return self.rows << self.levels, self.columns << self.levels

    @property
    def box(self) -> FloatArray:
        """Width and height of a smallest box, in the square."""
        rows, columns = self.shape
        return 2 * np.array(self.region.half_extent_square) / (columns, rows)

    @property
    def box_m(self) -> FloatArray:
        """Width and height of a smallest box, in metres."""
        rows, columns = self.shape
        return 2 * np.array(self.region.half_extent_m) / (columns, rows)


REACHES = 3, 24
WEIGHTS = 8, 32767


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The numbers of a channel between cells (`nearveil.mechanisms.step_channel`), as they were found."""

    rate: float
    """a: how fast probabilities fall with the number of steps."""
    farthest: int
    """M: beyond so many steps all cells are alike."""
    weights: tuple[int, ...]
    """w(z) of each cell."""

    def __post_init__(self) -> None:
        check_positive(self.rate, "rate")
        check_count(self.farthest, "farthest", least=REACHES[0], most=REACHES[1])
        whole = bool(self.weights) and all(isinstance(weight, int) for weight in self.weights)
        if not whole or min(self.weights) < WEIGHTS[0] or max(self.weights) > WEIGHTS[1]:
            raise UsageError(f"weights of cells are whole numbers from {WEIGHTS[0]} to {WEIGHTS[1]:,}")

    def to_document(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {**asdict(self), "weights": list(self.weights)}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read what `to_document` gave."""
        return cls(**{**document, "weights": tuple(document["weights"])})


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """A partition of a region into cells, and about how many people each of them held. Nothing in it is private.

    The order of the cells (largest boxes row by row, and in each the quarters south-west, south-east, north-west,
    north-east) makes their depths the whole partition.
    """

    layout: Layout
    depths: npt.NDArray[np.int8]
    """For each cell, how often a largest box was halved to make it."""
    people: FloatArray
    """About how many people were in each cell when it was made, from public data or with noise."""
    people_per_cell: float
    """How many people a cell was to hold at most."""
    source: CellSource
    fit_epsilon: float = 0.0
    """What the cells cost each user in the data: 0 but for ``privtree``."""
    seeded: bool = False
    """Whether their noise came from a seed, which undoes its protection for anyone who knows the seed."""
    unit: Literal["user", "row"] = "user"
    """Whose data the cost counts: a row's, where a user may have had several."""
    calibration: Calibration | None = None
    """The channel that hides among ``hide_among`` people, found before: that takes seconds where cells are many."""
    _kept: dict[str, tuple[Any, Any]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        levels = self.layout.levels
        if self.depths.ndim != 1 or self.people.shape != self.depths.shape:
            raise UsageError("cells need one number of people for each cell")
        if self.calibration is not None and len(self.calibration.weights) != len(self.depths):
            raise UsageError("there must be one weight for each cell")
        if not 2 <= len(self.depths) <= MOST_CELLS:
            more, wider = ("fewer", "smaller") if len(self.depths) < 2 else ("more", "larger")
            raise UsageError(
                f"there must be from 2 to {MOST_CELLS:,} cells, and there would be {len(self.depths):,}; hide among "
                f"{more} people, or ask for {wider} cells"
            )
        if self.depths.min() < 0 or self.depths.max() > levels:
            raise UsageError("a cell is larger or smaller than the layout allows")
        sizes = self._sizes
        whole = self.layout.columns * self.layout.rows << 2 * levels
        if sizes.sum() != whole or (self._starts % sizes).any():
            raise UsageError("the cells do not cover the region, each place once")
        if not (np.isfinite(self.people.sum()) and (self.people >= 0).all() and 0 < self.people_per_cell < math.inf):
            raise UsageError("numbers of people in cells must be 0 or more, and finite")
        if (self.fit_epsilon > 0) != (self.source == "privtree") or not math.isfinite(self.fit_epsilon):
            raise UsageError("cells from a private quadtree cost something, and others nothing")
        # A file has six digits of them: cells that are read back are the same, and so is what is said of them.
        object.__setattr__(self, "people", np.array([float(f"{people:.6g}") for people in self.people.tolist()]))
        for array in (self.depths, self.people):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.depths)

    def __getstate__(self) -> dict[str, Any]:
        # What is worked out from cells is large, and does not travel along.
        return {field.name: {} if field.name == "_kept" else getattr(self, field.name) for field in fields(self)}

    @property
    def region(self) -> Region:
        """The region that is cut into cells."""
        return self.layout.region

    @property
    def _sizes(self) -> IntArray:
        """How many smallest boxes each cell is made of."""
        return np.left_shift(np.int64(1), 2 * (self.layout.levels - self.depths.astype(np.int64)))

    @cached_property
    def _starts(self) -> ShortIntArray:
        """The number of the first smallest box of each cell, in the order of the cells."""
        return (np.cumsum(self._sizes) - self._sizes).astype(np.int32)

    @property
    def sides(self) -> IntArray:
        """How many smallest boxes wide each cell is."""
        return np.left_shift(np.int64(1), self.layout.levels - self.depths.astype(np.int64))

    @property
    def corners(self) -> IntArray:
        """Column and row of the south-western smallest box of each cell, shape (n, 2)."""
        levels, starts = self.layout.levels, self._starts.astype(np.int64)
        largest, within = starts >> 2 * levels, starts & ((1 << 2 * levels) - 1)
        column, row = deinterleave(within)
        column += (largest % self.layout.columns) << levels
        row += (largest // self.layout.columns) << levels
        return np.column_stack([column, row])

    @property
    def centres(self) -> FloatArray:
        """Centres of the cells in the square, shape (n, 2)."""
        return self._in_square(self.corners + self.sides[:, None] / 2)

    @property
    def sides_m(self) -> FloatArray:
        """Side of each cell in metres: the mean of its width and height."""
        return self.sides.astype(np.float64) * float(self.layout.box_m.mean())

    @property
    def areas(self) -> FloatArray:
        """Area of each cell in the square."""
        return self.sides.astype(np.float64) ** 2 * float(self.layout.box.prod())

    def boxes(self) -> FloatArray:
        """West, south, east and north edge of each cell in the square, shape (n, 4)."""
        corners, sides = self.corners, self.sides[:, None]
        return np.hstack([self._in_square(corners), self._in_square(corners + sides)])

    def _in_square(self, boxes: FloatArray | IntArray) -> FloatArray:
        return boxes * self.layout.box - np.array(self.region.half_extent_square)

    # -- places and neighbors -------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """What all cells with the same boundaries have in common, and no others: the same steps between places."""
        region, layout = self.region, self.layout
        edges = [region.south, region.west, region.north, region.east, region.scaling]
        header = json.dumps([*edges, layout.columns, layout.rows, layout.levels])
        return hashlib.sha256(header.encode() + self.depths.astype(np.int8).tobytes()).hexdigest()

    def find(self, x: FloatArray) -> ShortIntArray:
        """Return the cell of each place of the square, shape (n, 2); those beyond the region count as on its edge."""
        layout, half_extent = self.layout, self.region.half_extent_square
        rows, columns = layout.shape
        column, row = (
            np.clip((x[:, axis] / half_extent[axis] + 1) * (most / 2), 0, most - 1).astype(np.int32)
            for axis, most in enumerate((columns, rows))
        )
        largest = (row >> layout.levels) * layout.columns + (column >> layout.levels)
        mask = (1 << layout.levels) - 1
        box = (largest << 2 * layout.levels) | interleave(column & mask, row & mask)
        # The cell is the last that starts at this box or before. A search in order stays in a processor's cache.
        order, found = np.argsort(box), np.empty(len(box), dtype=np.int32)
        found[order] = np.searchsorted(self._starts, box[order], side="right") - 1
        return found

    @property
    def hide_among(self) -> int:
        """Among how many people they are made to hide everybody: a cell holds about a tenth of them."""
        return max(2, round(CELLS_TO_HIDE_AMONG * self.people_per_cell))

    def check_holds(self, hide_among: int) -> None:
        """Refuse to hide among more people than there are."""
        if (held := float(self.people.sum())) < hide_among:
            # What was counted in true places is said with the cells, when these are paid for.
            counted = f"about {held:,.0f} people, " if self.is_free else ""
            raise UsageError(
                f"the cells hold {counted}fewer than the {hide_among:,} to hide among; hide among fewer, or make the "
                "cells from more people"
            )

    def of_largest_box(self, number: int) -> slice:
        """Return which cells a largest box is cut into."""
        box = 1 << 2 * self.layout.levels
        return slice(*np.searchsorted(self._starts, [number * box, (number + 1) * box]).tolist())

    @property
    def is_free(self) -> bool:
        """Whether they cost nobody anything."""
        return not self.fit_epsilon

    def guarantee(self, delta: float = 0.0) -> Guarantee:
        """Return what holds for the cells themselves, once they are published; no delta makes it any less."""
        del delta
        if self.is_free:
            promise = Guarantee(
                title="The cells",
                definition=PrivacyDefinition.CENTRAL,
                epsilon=0.0,
                unit="per user",
                delta=0.0,
                neighbors="the data that the cells are made from, with and without one row",
                promise=f"the cells were made from {SOURCE_NAMES[self.source]}, and cost no user anything more",
                basis=Basis.THEOREM,
                because="what looks at public or published data alone adds nothing to what that has cost",
            )
        else:
            promise = private_cells_guarantee(self.fit_epsilon, self.layout.levels, seeded=self.seeded)
        return promise if self.unit == "user" else promise.counted_per_row()

    # -- one file --------------------------------------------------------------------------------------------

    def to_document(self) -> dict[str, Any]:
        """Return the cells as plain values for JSON, without a calibration."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "region": asdict(self.region),
            "columns": self.layout.columns,
            "rows": self.layout.rows,
            "levels": self.layout.levels,
            "depths": self.depths.tolist(),
            "people": self.people.tolist(),
            **{name: getattr(self, name) for name in ("people_per_cell", "source", "fit_epsilon", "unit", "seeded")},
        }

    def to_json(self) -> str:
        """Write the cells as one GeoJSON document, which maps show and `cells_from_json` reads back."""
        features = [
            {
                "type": "Feature",
                "properties": {"people": float(f"{people:.3g}"), "side_m": round(side_m, 1)},
                "geometry": {"type": "Polygon", "coordinates": [outline[:, ::-1].round(7).tolist()]},
            }
            for people, side_m, outline in zip(self.people, self.sides_m, self.outlines(), strict=True)
        ]
        document = self.to_document()
        if self.calibration is not None:
            document["calibration"] = self.calibration.to_document()
        return json.dumps({"type": "FeatureCollection", "nearveil": document, "features": features})

    def outlines(self) -> FloatArray:
        """Corners of each cell in degrees, closed and counter-clockwise, shape (n, 5, 2)."""
        west, south, east, north = self.boxes().T
        ring = np.stack([[west, south], [east, south], [east, north], [west, north], [west, south]])
        places: FloatArray = self.region.from_square(np.moveaxis(ring, 2, 0).reshape(-1, 2)).reshape(-1, 5, 2)
        return places

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a GeoJSON file that maps show and `load_cells` reads back; ``force`` replaces one that is there."""
        target = Path(path)
        check_cells_file(target)
        with replacing(target, force=force) as partial:
            partial.write_text(self.to_json(), encoding="utf-8")


def private_cells_guarantee(fit_epsilon: float, levels: int, *, seeded: bool = False) -> Guarantee:
    """Return what cells from a private quadtree of so many levels cost each user they are made from."""
    # The finite range of the noise adds a delta: one noisy count a level for each user, and one in the end.
    tree, counting = (1 - COUNTING_SHARE) * fit_epsilon, COUNTING_SHARE * fit_epsilon
    in_tree = (levels + 1) * math.exp(tree / PRIVTREE_RATIO - EXPONENTIAL_REACH)
    return Guarantee(
        title="The cells",
        definition=PrivacyDefinition.CENTRAL,
        epsilon=fit_epsilon,
        unit="per user",
        delta=min(1.0, 4 * (in_tree + math.exp(counting - EXPONENTIAL_REACH))),
        neighbors=(
            "the data that the cells are made from, with and without one row, both such as can be fitted at all (two "
            "users or more, not all at one location)"
        ),
        promise="how much the cells can depend on any one row is bounded by epsilon",
        not_covered="the cells show where users in general are; replacing the location of one row counts twice",
        basis=Basis.THEOREM,
        because=(
            "PrivTree (Zhang, Xiao and Xie, 2016): noisy counts with a bias that grows with the depth lose at most "
            "one epsilon, however deep the tree; the numbers of users have Laplace noise and cost the rest"
        ),
        notes=(SEEDED_CELLS_NOTE,) if seeded else (),
    )


def check_cells_file(path: Path) -> None:
    """Refuse a name that does not say GeoJSON."""
    if path.suffix.lower() not in (".json", ".geojson"):
        raise UsageError("a file of cells is GeoJSON; give it the extension .geojson or .json")


def load_cells(path: str | Path) -> Cells:
    """Read cells that `Cells.save` wrote."""
    check_cells_file(Path(path))
    return cells_from_json(read_text(Path(path), "cells"))


def cells_from_json(text: str) -> Cells:
    """Read cells that `Cells.to_json` wrote."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(_NO_CELLS) from None
    if isinstance(document, dict):
        document = document.get("nearveil", document)
    return cells_from_document(document)


def cells_from_document(document: Any) -> Cells:
    """Read what `Cells.to_document` gave."""
    try:
        known = (document["format"], document["version"]) == (FORMAT, FORMAT_VERSION)
        if not known or document["source"] not in SOURCE_NAMES or document["unit"] not in ("user", "row"):
            raise ValueError("format")
        sizes = (int(document[name]) for name in ("columns", "rows", "levels"))
        return Cells(
            layout=Layout(Region(**document["region"]), *sizes),
            depths=np.array(document["depths"], dtype=np.int8),
            people=np.array(document["people"], dtype=np.float64),
            people_per_cell=float(document["people_per_cell"]),
            source=document["source"],
            fit_epsilon=float(document["fit_epsilon"]),
            seeded=bool(document["seeded"]),
            unit=document["unit"],
            calibration=Calibration.from_document(document["calibration"]) if "calibration" in document else None,
        )
    except UsageError as error:
        raise DataError(f"the file of cells is damaged: {error}; make it again") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise DataError(_NO_CELLS) from None


# What is worked out from cells is kept on them.


_Made = TypeVar("_Made", bound=Callable[..., Any])


def kept_by_cells(make: _Made) -> _Made:
    """Keep the last result of a function on the cells that it is given first: it lives as long as these."""

    @wraps(make)
    def kept(cells: Cells, *given: Any) -> Any:
        last = cells._kept.get(make.__name__)
        if last is None or last[0] != given:
            last = cells._kept[make.__name__] = given, make(cells, *given)
        return last[1]

    return cast(_Made, kept)
