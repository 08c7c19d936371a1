"""Cells: a public partition of the region into boxes that hold about equally many people.

The region is cut into ``columns`` x ``rows`` largest boxes, and each of them is halved both ways again and again where
people are dense: a quadtree. `nearveil.mechanisms.cell_steps` counts the steps between cells.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import read_text, replacing
from nearveil.kernels import inlined_kernel, kernel
from nearveil.mechanisms.srr import deinterleave, interleave
from nearveil.privacy.guarantee import SEEDED_CELLS_NOTE, Basis, Guarantee, Notion, check_count, check_positive
from nearveil.randomness import EXPONENTIAL_REACH
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, ShortIntArray

FORMAT = "nearveil-cells"
FORMAT_VERSION = 1

MOST_CELLS = 250_000
MOST_BOXES = 1 << 24
MOST_LEVELS = 12

PRIVTREE_RATIO = 7 / 3
"""Scale of the noise of a private quadtree times its epsilon: (2 b - 1) / (b - 1) for a tree that splits into b = 4."""
COUNTING_SHARE = 0.1
"""Share of what a private quadtree costs that goes into counting people in its largest boxes."""

CELLS_TO_HIDE_AMONG = 10
"""A cell holds about a tenth of the people to hide among."""

CellSource = Literal["public", "published", "privtree"]

SOURCE_NAMES: dict[CellSource, str] = {
    "public": "public data",
    "published": "places published before",
    "privtree": "a private quadtree (PrivTree)",
}

_NO_CELLS = "this is not a file of cells, or it is damaged; make it again"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a region is cut into boxes, before it is known where people are.

    Attributes
    ----------
    region : Region
        What is cut.
    columns, rows : int
        How many largest boxes there are, from west to east and from south to north.
    levels : int
        How often a largest box may be halved both ways.
    """

    region: Region
    columns: int
    rows: int
    levels: int

    def __post_init__(self) -> None:
        possible = min(self.columns, self.rows) >= 1 and 0 <= self.levels <= MOST_LEVELS
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


LEAST_REACH, LARGEST_REACH = 3, 24
LEAST_WEIGHT, LARGEST_WEIGHT = 8, 32767


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The numbers of a channel between cells (`nearveil.mechanisms.step_channel`), as they were found.

    Attributes
    ----------
    rate : float
        a: how fast probabilities fall with the number of steps.
    farthest : int
        M: beyond so many steps all cells are alike.
    weights : tuple of int
        w(z) of each cell.
    """

    rate: float
    farthest: int
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        check_positive(self.rate, "rate")
        check_count(self.farthest, "farthest", least=LEAST_REACH, most=LARGEST_REACH)
        whole = bool(self.weights) and all(isinstance(weight, int) for weight in self.weights)
        if not whole or min(self.weights) < LEAST_WEIGHT or max(self.weights) > LARGEST_WEIGHT:
            raise UsageError(f"weights of cells are whole numbers from {LEAST_WEIGHT} to {LARGEST_WEIGHT:,}")

    def to_document(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {"rate": self.rate, "farthest": self.farthest, "weights": list(self.weights)}

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read what `to_document` gave."""
        return cls(**{**document, "weights": tuple(document["weights"])})


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """A partition of a region into cells, and about how many people each of them held. Nothing in it is private.

    Attributes
    ----------
    layout : Layout
        The region and its boxes.
    depths : ndarray
        For each cell, how often a largest box was halved to make it. The order of the cells (largest boxes row by row,
        and in each the quarters south-west, south-east, north-west, north-east) makes this the whole partition.
    people : ndarray
        About how many people were in each cell when it was made, from public data or with noise.
    people_per_cell : float
        How many people a cell was to hold at most.
    source : {"public", "published", "privtree"}
        Where the cells are from.
    fit_epsilon : float
        What the cells cost each person in the data: 0 but for ``privtree``.
    seeded : bool
        Whether their noise came from a seed, which undoes its protection for anyone who knows the seed.
    unit : {"person", "row"}
        Whose data the cost counts: a row's, where a person may have had several.
    calibration : Calibration, optional
        The channel that hides among ``hide_among`` people, found before: it takes seconds to find where cells are many.
    """

    layout: Layout
    depths: npt.NDArray[np.int8]
    people: FloatArray
    people_per_cell: float
    source: CellSource
    fit_epsilon: float = 0.0
    seeded: bool = False
    unit: Literal["person", "row"] = "person"
    calibration: Calibration | None = None
    _kept: dict[str, dict[Any, Any]] = field(default_factory=dict, init=False, repr=False)

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
        starts, sizes = self._starts, self._sizes
        whole = self.layout.columns * self.layout.rows << 2 * levels
        if starts[-1] + sizes[-1] != whole or (starts % sizes).any():
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
        return {**self.__dict__, "_kept": {}}

    @property
    def region(self) -> Region:
        """The region that is cut into cells."""
        return self.layout.region

    @property
    def _sizes(self) -> IntArray:
        """How many smallest boxes each cell is made of."""
        return np.left_shift(np.int64(1), 2 * (self.layout.levels - self.depths.astype(np.int64)))

    @property
    def _starts(self) -> IntArray:
        """The number of the first smallest box of each cell, in the order of the cells."""
        return np.cumsum(self._sizes) - self._sizes

    @property
    def sides(self) -> IntArray:
        """How many smallest boxes wide each cell is."""
        return np.left_shift(np.int64(1), self.layout.levels - self.depths.astype(np.int64))

    @property
    def corners(self) -> IntArray:
        """Column and row of the south-western smallest box of each cell, shape (n, 2)."""
        levels, starts = self.layout.levels, self._starts
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

    # -- places and neighbours -------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """What all cells with the same boundaries have in common, and no others: the same steps between places."""
        region, layout = self.region, self.layout
        edges = [region.south, region.west, region.north, region.east, region.scaling]
        header = json.dumps([*edges, layout.columns, layout.rows, layout.levels])
        return hashlib.sha256(header.encode() + self.depths.astype(np.int8).tobytes()).hexdigest()

    def find(self, x: FloatArray) -> ShortIntArray:
        """Return the number of the cell of each place of the square, shape (n, 2)."""
        found: ShortIntArray = _find(np.ascontiguousarray(x, dtype=np.float64), _finder(self))
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
        promise = (
            _free_guarantee(self.source)
            if self.is_free
            else private_cells_guarantee(self.fit_epsilon, self.layout.levels, seeded=self.seeded)
        )
        return promise if self.unit == "person" else promise.counted_per_row()

    # -- one file --------------------------------------------------------------------------------------------

    def to_document(self) -> dict[str, Any]:
        """Return the cells as plain values for JSON, without a calibration."""
        region = self.region
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "region": {
                "south": region.south,
                "west": region.west,
                "north": region.north,
                "east": region.east,
                "scaling": region.scaling,
                "name": region.name,
            },
            "columns": self.layout.columns,
            "rows": self.layout.rows,
            "levels": self.layout.levels,
            "depths": self.depths.tolist(),
            "people": self.people.tolist(),
            "people_per_cell": self.people_per_cell,
            "source": self.source,
            "fit_epsilon": self.fit_epsilon,
            "unit": self.unit,
            "seeded": self.seeded,
        }

    def _file_document(self) -> dict[str, Any]:
        document = self.to_document()
        return document if self.calibration is None else {**document, "calibration": self.calibration.to_document()}

    def to_json(self) -> str:
        """Write the cells as one GeoJSON document, which maps show and `cells_from_json` reads back."""
        outlines = self.outlines()
        features = [
            {
                "type": "Feature",
                "properties": {"people": float(f"{people:.3g}"), "side_m": round(side_m, 1)},
                "geometry": {"type": "Polygon", "coordinates": [outline[:, ::-1].round(7).tolist()]},
            }
            for people, side_m, outline in zip(self.people, self.sides_m, outlines, strict=True)
        ]
        return json.dumps({"type": "FeatureCollection", "nearveil": self._file_document(), "features": features})

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
    """Return what cells from a private quadtree of so many levels cost each person they are made from."""
    # The finite range of the noise adds a delta: one noisy count a level for each person, and one in the end.
    tree, counting = (1 - COUNTING_SHARE) * fit_epsilon, COUNTING_SHARE * fit_epsilon
    in_tree = (levels + 1) * math.exp(tree / PRIVTREE_RATIO - EXPONENTIAL_REACH)
    return Guarantee(
        title="The cells",
        notion=Notion.CENTRAL,
        epsilon=fit_epsilon,
        unit="per person",
        delta=min(1.0, 4 * (in_tree + math.exp(counting - EXPONENTIAL_REACH))),
        neighbours=(
            "the data that the cells are made from, with and without one row, both such as can be fitted at all (two "
            "people or more, not all at one place)"
        ),
        promise="how much the cells can depend on any one row is bounded by epsilon",
        not_covered="the cells show where people in general are; replacing the place of one row counts twice",
        basis=Basis.THEOREM,
        because=(
            "PrivTree (Zhang, Xiao and Xie, 2016): noisy counts with a bias that grows with the depth lose at most "
            "one epsilon, however deep the tree; the numbers of people have Laplace noise and cost the rest"
        ),
        notes=(SEEDED_CELLS_NOTE,) if seeded else (),
    )


def _free_guarantee(source: CellSource) -> Guarantee:
    return Guarantee(
        title="The cells",
        notion=Notion.CENTRAL,
        epsilon=0.0,
        unit="per person",
        delta=0.0,
        neighbours="the data that the cells are made from, with and without one row",
        promise=f"the cells were made from {SOURCE_NAMES[source]}, and cost nobody anything more",
        basis=Basis.THEOREM,
        because="what looks at public or published data alone adds nothing to what that has cost",
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
        if document["format"] != FORMAT:
            raise KeyError("format")
        version = document["version"]
        if version == FORMAT_VERSION:
            return _from_document(document)
    except UsageError as error:
        raise DataError(f"the file of cells is damaged: {error}; make it again") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise DataError(_NO_CELLS) from None
    raise DataError(f"the file of cells has format version {version}, this Nearveil reads {FORMAT_VERSION}; fit again")


def _from_document(document: dict[str, Any]) -> Cells:
    if document["source"] not in SOURCE_NAMES or document["unit"] not in ("person", "row"):
        raise ValueError("source")
    layout = Layout(
        Region(**document["region"]), int(document["columns"]), int(document["rows"]), int(document["levels"])
    )
    return Cells(
        layout=layout,
        depths=np.array(document["depths"], dtype=np.int8),
        people=np.array(document["people"], dtype=np.float64),
        people_per_cell=float(document["people_per_cell"]),
        source=document["source"],
        fit_epsilon=float(document["fit_epsilon"]),
        seeded=bool(document["seeded"]),
        unit=document["unit"],
        calibration=Calibration.from_document(document["calibration"]) if "calibration" in document else None,
    )


# What is worked out from cells is kept on them.


_Made = TypeVar("_Made", bound=Callable[..., Any])


def kept_by_cells(most: int) -> Callable[[_Made], _Made]:
    """Keep the last results of a function on the cells that it is given first: they live as long as these."""

    def keeping(make: _Made) -> _Made:
        @wraps(make)
        def kept(cells: Cells, *given: Hashable) -> Any:
            results = cells._kept.setdefault(make.__name__, {})
            if given in results:
                return results[given]
            while len(results) >= most:
                results.pop(next(iter(results)), None)
            return results.setdefault(given, make(cells, *given))

        return cast(_Made, kept)

    return keeping


# Which cell a place is in: the smallest box around it, numbered as the cells are ordered, by bisection among the few
# cells of a block of such boxes.


_MOST_BLOCKS = 1 << 17


class _Finder(NamedTuple):
    """What compiled code needs to find cells.

    Attributes
    ----------
    half_extent : ndarray
        Half width and half height of the region in the square.
    columns, rows, levels : int
        Of the layout.
    bits : int
        How many bits of a smallest box's number are not its block's.
    starts : ndarray
        Number of the first smallest box of each cell.
    first : ndarray
        For each block of smallest boxes, the cell that it begins in; and at the end, the last cell.
    """

    half_extent: FloatArray
    columns: int
    rows: int
    levels: int
    bits: int
    starts: ShortIntArray
    first: ShortIntArray


@kept_by_cells(1)
def _finder(cells: Cells) -> _Finder:
    layout, starts = cells.layout, cells._starts
    boxes = layout.columns * layout.rows << 2 * layout.levels
    # A small table is found in a processor's cache.
    bits = max(0, (boxes - 1).bit_length() - _MOST_BLOCKS.bit_length() + 1)
    blocks = np.arange((boxes - 1 >> bits) + 1) << bits
    first = np.append(np.searchsorted(starts, blocks, side="right") - 1, len(starts) - 1)
    half_extent = np.array(layout.region.half_extent_square)
    return _Finder(
        half_extent, layout.columns, layout.rows, layout.levels, bits, starts.astype(np.int32), first.astype(np.int32)
    )


_interleaved = inlined_kernel(interleave)


@kernel
def _find(x: FloatArray, finder: _Finder) -> ShortIntArray:
    """The number of the cell of each place; places beyond the region count as on its edge."""
    levels, mask = finder.levels, (1 << finder.levels) - 1
    across, up = finder.columns << levels, finder.rows << levels
    found = np.empty(len(x), dtype=np.int32)
    for i in range(len(x)):
        column = min(max(int((x[i, 0] / finder.half_extent[0] + 1.0) * 0.5 * across), 0), across - 1)
        row = min(max(int((x[i, 1] / finder.half_extent[1] + 1.0) * 0.5 * up), 0), up - 1)
        largest = (row >> levels) * finder.columns + (column >> levels)
        box = (largest << 2 * levels) | _interleaved(column & mask, row & mask)
        block = box >> finder.bits
        low, high = finder.first[block], finder.first[block + 1]
        while low < high:
            middle = (low + high + 1) >> 1
            if finder.starts[middle] <= box:
                low = middle
            else:
                high = middle - 1
        found[i] = low
    return found
