"""Protection: what a running service does to every report, and what that promises.

A `Schedule` says when noisy locations are published and in which budget window they count: time alone decides, never
that somebody moved. A `PlaceGrid` in metres, or `PlaceCells` that hold about equally many people, say what counts as
one place.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, lru_cache
from operator import itemgetter

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.cell_steps import graph_of
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M, PlanarLaplace, check_noise_m
from nearveil.privacy.guarantee import Guarantee, PrivacyDefinition, check_count
from nearveil.region import Region
from nearveil.types import FloatArray

Cell = tuple[int, ...]
"""Column and row of the grid of places, counted from the region's centre; or the number of a cell of people."""

CELLS_PER_NOISE = 4
MARGIN_SHARE = 0.5
"""How far beyond its cell somebody may go and still count as in it, as a share of the cell's side.

So somebody has to be a whole side away to leave a cell that they came back to, which the error of a phone is not.
"""

LEAST_MARGIN_M = 50.0
"""The same between cells of people, at least: these may be so small that a phone's error leads beyond half a side."""

NEAR_SHARE = 1.5
"""A new noisy place this near to one that the person had before, in mean lengths of the noise, is replaced by that one;
by the oldest of them, if there are several.

Whoever can report for somebody could guess cells otherwise, and see by what is published whether a guess was right:
only the right cell would bring the same noisy place back. It looks at noisy places alone, and so it costs nothing.
"""


def least_new_places(most: int) -> int:
    """Return how many new places of somebody are drawn in a window at least, if it is so many at most.

    How many it is, between these two, is a secret of the person and the window. When a budget ends would tell otherwise
    how many of somebody's reported places cost nothing, since they were known: whoever reports guesses could count.

    Examples
    --------
    >>> least_new_places(20), least_new_places(3)
    (11, 3)
    """
    return most - max(1, most // 2) + 1


_LONGEST = timedelta(days=36_525)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Epochs of one length, counted from 1970-01-01 UTC, and windows of a fixed number of epochs.

    A report that arrives in epoch e is published at the beginning of epoch e + 1, and counts in that epoch's window.

    Parameters
    ----------
    epoch : timedelta
        Time between two publications; whole seconds, at least one.
    window : timedelta
        How long a budget lasts; a whole number of epochs.

    Examples
    --------
    >>> schedule = Schedule(epoch=timedelta(hours=1), window=timedelta(days=30))
    >>> schedule.epochs_per_window
    720
    >>> schedule.epoch_at(7300.0), schedule.starts_at(2)
    (2, 7200.0)
    """

    epoch: timedelta = timedelta(hours=1)
    window: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.epoch <= _LONGEST or self.epoch.microseconds:
            raise UsageError("an epoch lasts a whole number of seconds, at least one; choose for instance 1h")
        if not self.epoch <= self.window <= _LONGEST or self.window % self.epoch:
            raise UsageError("a window lasts a whole number of epochs; choose for instance 30d with epochs of 1h")

    @property
    def epoch_s(self) -> float:
        """Length of an epoch in seconds."""
        return self.epoch.total_seconds()

    @property
    def epochs_per_window(self) -> int:
        """How many epochs a window has."""
        return self.window // self.epoch

    def epoch_at(self, unix_s: float) -> int:
        """Return the epoch in which a moment lies."""
        return int(unix_s // self.epoch_s)

    def starts_at(self, epoch: int) -> float:
        """Return the moment at which an epoch begins, in seconds since 1970."""
        return epoch * self.epoch_s

    def window_of(self, epoch: int) -> int:
        """Return the window of an epoch."""
        return epoch // self.epochs_per_window


_by_distance = itemgetter(0)


@dataclass(frozen=True, slots=True)
class PlaceGrid:
    """Square cells in metres around the region's centre, that of column 0 and row 0 centred on it.

    Parameters
    ----------
    side_m : float
        Side of a cell.

    Examples
    --------
    >>> grid = PlaceGrid(125.0)
    >>> grid.cells_near(60.0, 0.0)
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    """

    side_m: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.side_m) and self.side_m > 0):
            raise UsageError("a grid needs cells of a side greater than 0 metres")

    @property
    def identity(self) -> float:
        """What a key derives other noise for: another side is another grid."""
        return self.side_m

    @property
    def margin_m(self) -> float:
        """How far beyond its cell somebody may go and still count as in it."""
        return MARGIN_SHARE * self.side_m

    @property
    def farthest_from_centre_m(self) -> float:
        """The largest distance between somebody and the centre of the cell they count as in."""
        return math.sqrt(2.0) * (self.side_m / 2 + self.margin_m)

    def cells_near(self, x_m: float, y_m: float) -> list[Cell]:
        """Return every cell that somebody here may count as in, nearest centre first; the first is their own."""
        side_m, margin_m = self.side_m, self.margin_m
        columns, rows = (
            range(math.floor((at_m - margin_m) / side_m + 0.5), math.floor((at_m + margin_m) / side_m + 0.5) + 1)
            for at_m in (x_m, y_m)
        )
        away = [
            (math.hypot(column * side_m - x_m, row * side_m - y_m), (column, row)) for column in columns for row in rows
        ]
        away.sort(key=_by_distance)
        return [cell for _, cell in away]

    def centre_of(self, cell: Cell) -> tuple[float, float]:
        """Return the centre of a cell in metres."""
        return cell[0] * self.side_m, cell[1] * self.side_m


@dataclass(frozen=True, eq=False)
class PlaceCells:
    """Cells that hold about equally many people, as places.

    Somebody who was in a cell before counts as in it from cells that touch it, up to half a side of the smaller of the
    two beyond it, or `LEAST_MARGIN_M`. A new point is always drawn for the cell that somebody is in.

    Parameters
    ----------
    cells : Cells
        Of a region with isotropic scaling.
    strength : str
        How strongly people are hidden among them.
    """

    cells: Cells
    strength: str = ""

    @property
    def identity(self) -> str:
        """What a key derives other noise for: other cells, and another strength, are other places."""
        return f"{cells_digest(self.cells)} {self.strength}"

    def cells_near(self, x_m: float, y_m: float) -> list[Cell]:
        """Return every cell that somebody here may count as in, the nearest first; the first is their own."""
        own = int(self.cells.find(np.array([[x_m, y_m]]) / self.cells.region.metres_per_unit)[0])
        graph = graph_of(self.cells)
        near = graph.neighbors[graph.starts[own] : graph.starts[own + 1]]
        west, south, east, north = self._boxes_m[near].T
        away_m = np.max([west - x_m, x_m - east, south - y_m, y_m - north], axis=0)
        smaller_m = np.minimum(self._sides_m[near], self._sides_m[own])
        margin_m = np.maximum(MARGIN_SHARE * smaller_m, LEAST_MARGIN_M)
        order = np.argsort(away_m, kind="stable")
        return [(own,), *((int(cell),) for cell in near[order][(away_m <= margin_m)[order]])]

    def centre_of(self, cell: Cell) -> tuple[float, float]:
        """Return the centre of a cell in metres."""
        west, south, east, north = self._boxes_m[cell[0]].tolist()
        return (west + east) / 2, (south + north) / 2

    @cached_property
    def _boxes_m(self) -> FloatArray:
        return self.cells.boxes() * self.cells.region.metres_per_unit

    @cached_property
    def _sides_m(self) -> FloatArray:
        return self.cells.sides_m


@lru_cache(maxsize=4)
def cells_digest(cells: Cells) -> str:
    """Return the SHA-256 of cells, however their file is laid out."""
    document = json.dumps(cells.to_document(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(document.encode()).hexdigest()


def grid_for(noise_m: float) -> PlaceGrid:
    """Return the grid of a protection: cells a quarter of the noise."""
    return PlaceGrid(check_noise_m(noise_m) / CELLS_PER_NOISE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """How reports are perturbed, on a schedule: by planar Laplace noise in metres, or among people.

    Each place has noise of its own, drawn once: staying and coming back repeat the same point.

    Parameters
    ----------
    region : Region
        Public.
    noise_m : float, optional
        Mean length of the noise of a place; 500 unless ``among`` is given.
    among : HideAmong, optional
        Hides among people instead: a place is one of its cells.
    new_places : int
        How many new places of a person are drawn in a window at most.
    dwell_epochs : int
        In how many epochs a place must be reported, with no other in between, before it counts. Somebody's first place
        counts at once.
    schedule : Schedule
        Epochs and windows.
    """

    region: Region
    noise_m: float | None = None
    among: HideAmong | None = None
    new_places: int = 20
    dwell_epochs: int = 2
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        check_count(self.dwell_epochs, "dwell_epochs", least=1, most=1000)
        check_count(self.new_places, "new_places", least=1, most=10_000)
        if self.among is not None:
            self._check_among(self.among)
        else:
            # A store remembers it in words, and 500 is the same as 500.0.
            given = self.noise_m
            object.__setattr__(self, "noise_m", DEFAULT_NOISE_M if given is None else float(given))
        _ = self.noise

    def _check_among(self, among: HideAmong) -> None:
        if self.noise_m is not None:
            raise UsageError("give noise in meters or a number of people to hide among, not both")
        cells = among.current_cells.region
        if cells.scaling != "isotropic" or not cells.same_edges(self.region):
            raise UsageError(
                f"the cells are not for the service's region {self.region} with isotropic scaling; make cells for it, "
                "or choose their region"
            )

    @property
    def noise(self) -> PlanarLaplace | HideAmong:
        """The noise of one report."""
        return self.among or self.planar

    @property
    def planar(self) -> PlanarLaplace:
        """The noise in meters of one report, where it is not among people."""
        return PlanarLaplace(noise_m=self._length_m, region=self.region)

    @property
    def _length_m(self) -> float:
        return DEFAULT_NOISE_M if self.noise_m is None else self.noise_m

    @property
    def grid(self) -> PlaceGrid | PlaceCells:
        """What counts as one place: public."""
        if self.among is not None:
            return PlaceCells(self.among.current_cells, f"{self.among.hide_among} {self.among.epsilon}")
        return grid_for(self._length_m)

    @property
    def fixed(self) -> tuple[str, ...]:
        """What cannot change while a store is in use, as text: everything that the noise of a place depends on."""
        region, schedule = self.frame
        return region, self._strength, schedule

    @property
    def frame(self) -> tuple[str, str]:
        """What can never change on a store, as text: what its coordinates and windows are counted by."""
        region, schedule = self.region, self.schedule
        return (
            repr((region.south, region.west, region.north, region.east)),
            repr((schedule.epoch_s, schedule.epochs_per_window)),
        )

    @property
    def _strength(self) -> str:
        if self.among is None:
            return repr(self.noise_m)
        return f"among {self.among.hide_among} {self.among.epsilon!r} {cells_digest(self.among.current_cells)}"

    @property
    def guarantee(self) -> Guarantee:
        """What the published places promise, and what they do not."""
        lasting = Lasting(self.schedule.window, self.dwell_epochs)
        if self.among is not None:
            return among_card(self.among, self.new_places, lasting)
        return place_card(self.planar, grid=grid_for(self._length_m), places=self.new_places, lasting=lasting)


# What is promised, and what is not.

_KEY_NOTE = (
    "This holds against anyone who does not have the key. The noise comes from a keyed function (keyed BLAKE2b), and "
    "the key together with the store gives away which places a person visited since the noise began."
)
_RETURNS_NOTE = (
    "It can be seen when a person is back at a place. Staying and coming back publish the same point again; how often "
    "a person changes places can be seen too, at most once per epoch."
)
_BORDER_NOTE = (
    "Going a few metres farther can be what publishes a new point. Somebody counts as in the cell where they were last "
    "until they are half a side beyond it."
)
_CELL_BORDER_NOTE = (
    "Going a few metres farther can be what publishes a new point. Somebody counts as in the cell where they were last "
    f"until they are half a side of the smaller cell beyond it, or {LEAST_MARGIN_M:.0f} m."
)
_ERASED_NOTE = (
    "Somebody who is erased and created anew is published again from the next window on, with the same noise."
)
_COMPOSITION = "sequential composition over the new places of a window, which the ledger counts"
_ORDER_NOTE = "Being in the service at all, and reporting or not, are not hidden."


@dataclass(frozen=True, slots=True)
class Lasting:
    """How long things last: a budget window, and a stay before it counts."""

    window: timedelta
    dwell_epochs: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What follows from it, for a card."""
        counts = (
            f"A place counts when it was reported in {self.dwell_epochs} epochs, with no other in between."
            if self.dwell_epochs > 1
            else "A place counts as soon as it is reported, also by mistake."
        )
        return (
            "The noise of a place is drawn once and lasts for good, so that staying and coming back cost nothing more. "
            f"Every {_bare(self.window)} begins a new budget of new places, and the losses of new places add up over "
            f"all windows. {counts}",
        )


def place_card(noise: PlanarLaplace, *, grid: PlaceGrid, places: int, lasting: Lasting) -> Guarantee:
    """Noise per place: one place by itself, then all new places of a window together."""
    one = noise.guarantee
    # Two people in their cells are as far apart as the cells' centres at most: their own distance and both ways there.
    offset = one.epsilon * 2 * grid.farthest_from_centre_m
    alone = replace(
        one,
        title="Every new place where somebody was",
        offset=offset,
        neighbors=(
            "any two places that both count as new, at a loss of epsilon times their distance on the "
            f"ground and the constant (whether a place counts as new, as a stay or as a return is disclosed; delta is "
            f"for places up to {10 * noise.noise_m / 1000:,.3g} km apart)"
        ),
        promise=(
            f"of two cells of the public grid of {grid.side_m:,.4g} m whose centres are {noise.noise_m:,.6g} m "
            "apart, the published place is at most e^2 = 7.4 times likelier from one than from the other (a loss of "
            "2), however often a place in a cell is reported"
        ),
        not_covered="places far apart are not hidden from each other",
        because=(
            "planar Laplace noise around the centre of the cell, drawn once for a person and a cell by a keyed "
            "function; repeating it, replacing it by an earlier noisy place near it, moving it to the nearest "
            "interval, clamping and rounding cannot add to the loss; the constant is for the way to the centre and "
            "back, with the margin that keeps borders from flickering"
        ),
        certificate=None,
    )
    together = replace(
        alone,
        title=f"All new places of {_a_window(lasting.window)} together",
        epsilon=one.epsilon * places,
        offset=offset * places,
        delta=min(1.0, one.delta * places),
        neighbors=(
            "two ways of spending the window that stay, leave and return at the same times, each place of the one as "
            "far from the corresponding place of the other as the distance says"
        ),
        promise=_together(places),
        not_covered="",
        because=_COMPOSITION,
    )
    notes = (_RETURNS_NOTE, _BORDER_NOTE, *lasting.notes, _ERASED_NOTE, _ORDER_NOTE, _KEY_NOTE)
    return replace(alone, also=(together,), notes=notes)


def _together(places: int) -> str:
    return (
        f"at most {places:,} new places are drawn in a window, and their losses add up; a budget that is spent leaves "
        "the last published place where it is"
    )


@lru_cache(maxsize=4)
def among_card(mechanism: HideAmong, places: int, lasting: Lasting) -> Guarantee:
    """Noise per place among people: one place by itself, then all new places of a window together, then the cells."""
    one = mechanism.guarantee
    alone = replace(
        one,
        title="Every new place, given the cells",
        neighbors=(
            "any two places that both count as new, at a loss of epsilon times the steps between their cells; a step "
            "leads to a cell that touches (whether a place counts as new, as a stay or as a return is disclosed)"
        ),
        promise=f"{one.promise}, however often you report",
        not_covered="places many steps apart are not hidden from each other; crowds move after the cells were made",
        because=(
            f"{one.because}; a new point is drawn for the cell that somebody is in, once for a person and a cell, by a "
            "keyed function; repeating it, replacing it by an earlier one near it, moving it to the nearest interval "
            "and rounding cannot add to the loss, and a stay or a return draws nothing"
        ),
        certificate=None,
    )
    together = replace(
        alone,
        title=f"All new places of {_a_window(lasting.window)} together",
        epsilon=one.epsilon * places,
        delta=min(1.0, one.delta * places),
        neighbors=(
            "two ways of spending the window that stay, leave and return at the same times, each new place of the one "
            "as many steps from the corresponding place of the other as are counted"
        ),
        promise=_together(places),
        not_covered="",
        because=_COMPOSITION,
        notes=(),
        also=(),
    )
    cells = [
        # For those whom the cells were made from: the cells once, and then every place of the window.
        replace(each, epsilon=together.epsilon) if each.definition is PrivacyDefinition.ELASTIC else each
        for each in one.also
    ]
    notes = (
        *one.notes, _RETURNS_NOTE, _CELL_BORDER_NOTE, *lasting.notes, _ERASED_NOTE, _ORDER_NOTE, _KEY_NOTE
    )  # fmt: skip
    return replace(alone, also=(together, *cells), notes=notes)


def duration_text(duration: timedelta) -> str:
    """Write a duration in the largest unit that divides it.

    Examples
    --------
    >>> duration_text(timedelta(days=7)), duration_text(timedelta(hours=36))
    ('7 days', '36 hours')
    """
    for name, unit in (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1))):
        if duration % unit == timedelta(0):
            return f"{duration // unit:,} {name}{'s' if duration // unit > 1 else ''}"
    return f"{duration.total_seconds():g} seconds"


def _a_window(window: timedelta) -> str:
    return f"a window of {duration_text(window)}"


def _bare(window: timedelta) -> str:
    return duration_text(window).removeprefix("1 ")
