"""Which pairs of places to try for a mechanism and a claim: by the region, intervals, cells, or the density."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nearveil.auditing.claims import Claim
from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import Place, audited_region
from nearveil.kernels import kernel
from nearveil.mechanisms.base import Learned, Mechanism
from nearveil.mechanisms.cell_steps import STEP, graph_of, steps_from
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import Intervals, cell_polygons, diameter
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.mechanisms.step_channel import StepChannel
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray

# Enough digits for a tenth of a millimetre, and few enough for people and CSV files.
_DECIMALS = 9
_NEAR_M = (50.0, 500.0)
_STEP_M = 30.0
# Losses at which a wrong scale, or noise that is confined and not paid for, shows best.
_TELLING_LOSSES = (0.5, 1.0, 2.0, 4.0)
_AROUND_LOSSES = (0.5, 1.0, 2.0)
_DIAGONAL = np.array([1.0, 1.0]) / math.sqrt(2)
# Mostly east and a little north: two places that are a whole number of metres apart on an axis have the same low
# digits there, and a mechanism that leaves the low digits alone would go unseen.
_ASKEW = np.array([math.cos(0.3), math.sin(0.3)])


def audit_pairs(region: Region, claim: Claim, learned: Learned | None = None) -> list[Pair]:
    """Return pairs for anything that works in a region: with intervals or cells, where they are known."""
    pairs = region_pairs(region)
    if claim.definition is PrivacyDefinition.METRIC:
        pairs += pairs_by_distance(region, claim.epsilon)
    if isinstance(learned, Intervals):
        pairs = [*interval_pairs(learned), *pairs]
    if isinstance(learned, Cells):
        pairs = [*cell_pairs(learned), *pairs]
    return with_learned(pairs, learned)


def place_pairs(
    region: Region,
    place: Place,
    claim: Claim,
    learned: Learned | None = None,
    kind: str = "around the place that was asked for",
) -> list[Pair]:
    """Return pairs of a given place and others around it."""
    if claim.definition is PrivacyDefinition.ELASTIC and isinstance(learned, Cells):
        return with_steps(_cells_around(learned, place, kind), learned)
    per_metre = claim.epsilon if claim.definition is PrivacyDefinition.METRIC else None
    return with_learned(pairs_around(region, place, per_metre, kind), learned)


def mechanism_pairs(mechanism: Mechanism, claim: Claim, region: Region | None = None) -> list[Pair]:
    """Return pairs for one of our mechanisms: its own, by its channel, by what it learned, and by its density."""
    box = audited_region(mechanism) if region is None else region
    named = [pair for pair in mechanism.pairs() if box.contains(pair[:2]).all()]
    own = [Pair(as_place(box, first), as_place(box, second), kind) for first, second, kind in named]
    pairs = audit_pairs(box, claim, mechanism.learned)
    if mechanism.finite is not None:
        pairs = [*own, *channel_pairs(mechanism.finite, mechanism.guarantee.epsilon), *pairs]
    else:
        # Of pairs that show the same loss the first is reported: those across a border are the easiest to understand.
        pairs += own
    if claim.definition is PrivacyDefinition.LOCAL and mechanism.has_density:
        pairs += density_pairs(mechanism, claim.epsilon, box)
    return with_learned(pairs, mechanism.learned)


def with_learned(pairs: list[Pair], learned: Learned | None) -> list[Pair]:
    """Return pairs, each once, with what intervals or cells say of them."""
    once: dict[frozenset[Place], Pair] = {}
    for pair in pairs:
        once.setdefault(frozenset((pair.first, pair.second)), pair)
    pairs = list(once.values())
    if isinstance(learned, Cells):
        return with_steps(pairs, learned)
    return with_intervals(pairs, learned) if isinstance(learned, Intervals) else pairs


# By the region alone: its corners and edges, near and far, across the lines of a quadtree.


def as_place(region: Region, degrees: FloatArray) -> Place:
    """Return a place of the region with a readable number of digits."""
    latitude, longitude = region.clip(np.round(degrees, _DECIMALS)[None, :])[0]
    return float(latitude), float(longitude)


def region_pairs(region: Region) -> list[Pair]:
    """Return corners, middle and edges, near and far pairs, and pairs across the lines that cut the region in four."""
    half = np.array(region.half_extent_m)
    origin = np.zeros(2)
    pairs = [
        *_corner_pairs(region),
        _between(region, origin, half * [1, 0], "the middle of the region and its eastern edge"),
        _between(region, half * [-1, 0], half * [1, 0], "at opposite edges of the region"),
    ]
    pairs += [
        _between(region, origin, origin + near_m * _DIAGONAL, "near the middle of the region")
        for near_m in _NEAR_M
        if near_m < half.min()
    ]
    for name, line in (("the line that halves the region", 0.0), ("a line that quarters the region", -half[0] / 2)):
        step = np.array([min(_STEP_M, half[0] / 8), 0.0])
        # Off the other axis' lines, so that only one line is crossed.
        at = np.array([line, 0.3 * half[1]])
        pairs.append(_between(region, at - step, at + step, f"on either side of {name}"))
    return pairs


def pairs_by_distance(region: Region, epsilon_per_m: float) -> list[Pair]:
    """Return pairs at distances where a claim per meter can be tested: in the middle, at an edge, in a corner."""
    half = np.array(region.half_extent_m)
    corner = region.to_metres([(region.south, region.west)])[0]
    edge = region.to_metres([(region.centre[0], region.west)])[0]
    pairs = []
    for loss in _TELLING_LOSSES:
        distance = loss / epsilon_per_m if epsilon_per_m > 0 else math.inf
        if distance < half.min():
            pairs += [
                _between(region, np.zeros(2), distance * _ASKEW, "in the middle of the region"),
                _between(region, edge, edge + distance * _ASKEW, "at an edge of the region and inwards from it"),
                _between(
                    region, corner, corner + distance * _DIAGONAL, "in a corner of the region and inwards from it"
                ),
            ]
    return pairs


def pairs_around(region: Region, place: Place, epsilon_per_m: float | None, kind: str) -> list[Pair]:
    """Return pairs of a place and others around it, towards the middle of the region.

    They lie at distances where a claim per meter can be tested; without one near by, and in the farthest corner.
    """
    at = region.to_metres([place])[0]
    away = float(np.hypot(*at))
    inwards = -at / away if away > 0 else np.array([1.0, 0.0])
    askew = np.array([[_ASKEW[0], -_ASKEW[1]], [_ASKEW[1], _ASKEW[0]]]) @ inwards
    if epsilon_per_m is None:
        distances = [*_NEAR_M]
    else:
        distances = [loss / epsilon_per_m for loss in _AROUND_LOSSES] if epsilon_per_m > 0 else []
    within = max(away, min(region.half_extent_m))
    pairs = [_between(region, at, at + distance * askew, kind) for distance in distances if distance < within]
    if epsilon_per_m is None:
        corners = [
            (latitude, longitude)
            for latitude in (region.south, region.north)
            for longitude in (region.west, region.east)
        ]
        farthest = max(corners, key=lambda corner: float(np.hypot(*(region.to_metres([corner])[0] - at))))
        pairs.append(Pair(as_place(region, np.array(place)), farthest, kind))
    return pairs


def _corner_pairs(region: Region) -> list[Pair]:
    south_west, south_east = (region.south, region.west), (region.south, region.east)
    north_west, north_east = (region.north, region.west), (region.north, region.east)
    return [
        Pair(south_west, north_east, "in opposite corners of the region"),
        Pair(south_east, north_west, "in opposite corners of the region"),
        Pair(south_west, south_east, "in neighboring corners of the region"),
        Pair(region.centre, north_west, "in the middle and a corner of the region"),
    ]


def _between(region: Region, first_m: FloatArray, second_m: FloatArray, kind: str) -> Pair:
    first, second = region.from_metres(np.vstack([first_m, second_m]))
    return Pair(as_place(region, first), as_place(region, second), kind)


# By the intervals: within one, and on either side of a boundary between two.


_ACROSS_M = (60.0, 1.0)
# A cell's own corners belong to its neighbors as well.
_INWARDS = 1e-4


def interval_pairs(intervals: Intervals) -> list[Pair]:
    """Return pairs across boundaries of the median and the smallest interval, and within them and the largest.

    What reads best as a witness comes first: where several pairs are equally suspect, the first is taken.
    """
    by_radius = _inside_the_region(intervals)
    some = {"median": by_radius[len(by_radius) // 2], "smallest": by_radius[0], "largest": by_radius[-1]}
    across = [pair for name in ("median", "smallest") for pair in _across(intervals, int(some[name]), name)]
    polygons = cell_polygons(intervals)
    widest = int(np.argmax([diameter(polygon, "laplace") for polygon in polygons]))
    within = [_cell_ends(intervals, widest, polygons, "widest interval")]
    for name, index in some.items():
        within += [
            *_within(intervals, int(index), name),
            _cell_ends(intervals, int(index), polygons, f"{name} interval"),
        ]
    # At the region's edge, which bends on the map, a cell's corner may have been moved into a neighbor.
    kept = [pair for pair in with_intervals(within, intervals) if pair.same_interval]
    return [*with_intervals(across, intervals), *kept]


def with_intervals(pairs: list[Pair], intervals: Intervals) -> list[Pair]:
    """Return the same pairs, each with the answer to whether its places share an interval."""
    places = intervals.region.to_square([place for pair in pairs for place in (pair.first, pair.second)])
    own = NearestCentre(intervals.centres)(places).reshape(-1, 2)
    return [
        replace(pair, same_interval=bool(first == second)) for pair, (first, second) in zip(pairs, own, strict=True)
    ]


def _inside_the_region(intervals: Intervals) -> IntArray:
    """Intervals by radius, those whose discs lie in the region if there are any."""
    half = np.array(intervals.region.half_extent_square)
    inside: BoolArray = np.all(np.abs(intervals.centres) + intervals.radii[:, None] <= half, axis=1)
    order: IntArray = np.argsort(intervals.radii, kind="stable")
    return order[inside[order]] if inside.any() else order


def _within(intervals: Intervals, index: int, name: str) -> list[Pair]:
    centre, reach = intervals.centres[index], intervals.radii[index]
    east = np.array([reach, 0.0])
    # Laplace noise is counted along the axes, so that the ends of a diagonal are farthest apart.
    diagonal = reach * _DIAGONAL
    return [
        _pair(
            intervals.region, centre - diagonal, centre + diagonal, f"at the ends of a diagonal of the {name} interval"
        ),
        _pair(intervals.region, centre - east, centre + east, f"at opposite edges of the {name} interval"),
        _pair(intervals.region, centre, centre + diagonal, f"at the centre and the edge of the {name} interval"),
    ]


def _cell_ends(intervals: Intervals, index: int, polygons: list[FloatArray], name: str) -> Pair:
    """The two corners of a cell that are farthest apart; the disc need not reach them."""
    corners = polygons[index] + _INWARDS * (intervals.centres[index] - polygons[index])
    apart = np.abs(corners[:, None, :] - corners[None, :, :]).sum(axis=-1)
    first, second = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return _pair(intervals.region, corners[first], corners[second], f"in far corners of the {name}")


def _across(intervals: Intervals, index: int, name: str) -> list[Pair]:
    """Places on the line between two neighboring centres, on either side of the boundary between them."""
    distances = np.hypot(*(intervals.centres - intervals.centres[index]).T)
    other = int(np.argsort(distances)[1])
    middle = (intervals.centres[index] + intervals.centres[other]) / 2
    step = (intervals.centres[other] - intervals.centres[index]) / distances[other]
    kind = f"on either side of a boundary between two intervals (the {name} one and its neighbor)"
    # Not beyond the centres themselves, where they are that near.
    gaps = [min(gap_m / intervals.region.metres_per_unit, distances[other]) for gap_m in _ACROSS_M]
    return [_pair(intervals.region, middle - gap / 2 * step, middle + gap / 2 * step, kind) for gap in gaps]


def _pair(region: Region, first: FloatArray, second: FloatArray, kind: str) -> Pair:
    ends = region.from_square(np.vstack([first, second]))
    return Pair(as_place(region, ends[0]), as_place(region, ends[1]), kind)


# By the cells: in neighbors, along the shortest way to cells farther off, and within one cell.


_STEPS_APART = (2.0, 3.0)
_AROUND_STEPS = (1.0, 2.0, 3.0)
_BY_BOUND, _BY_LOSS = 2, 3
_EDGES_TRIED = 64
# A corner belongs to the neighbors as well.
_FROM_CORNER = 0.01


def cell_pairs(cells: Cells) -> list[Pair]:
    """Return pairs in the smallest, the largest and the most unequal neighbors, beyond them, and in one cell."""
    first, second, _ = graph_of(cells).edges
    sides = cells.sides
    together, ratio = sides[first] + sides[second], np.abs(np.log(sides[first] / sides[second]))
    chosen = {
        "smallest": np.flatnonzero(together == together.min()),
        "largest": np.flatnonzero(together == together.max()),
        "most unequal": np.flatnonzero(ratio == ratio.max()),
    }
    pairs = []
    for name, edges in chosen.items():
        edge = int(edges[len(edges) // 2])
        source, target = int(first[edge]), int(second[edge])
        pairs.append(_cell_pair(cells, source, target, f"in two of the {name} neighboring cells"))
        pairs += _beyond(cells, source, target, f"in two of the {name} neighboring cells")
    for name, cell in (("smallest", int(np.argmin(sides))), ("largest", int(np.argmax(sides)))):
        west, south, east, north = cells.boxes()[cell]
        inwards = _FROM_CORNER * np.array([east - west, north - south])
        ends = np.array([west, south]) + inwards, np.array([east, north]) - inwards
        pairs.append(_pair(cells.region, *ends, f"in opposite corners of one of the {name} cells"))
    return pairs


def channel_pairs(channel: StepChannel, epsilon: float) -> list[Pair]:
    """Return pairs in neighboring cells that a channel's own numbers say lose most, and beyond them.

    These are the neighbors with the largest bounds, and those with most probability of a loss near ``epsilon`` per
    step or above it. The numbers may be wrong: they only say where to look.
    """
    cells = channel.cells
    first, second, length = graph_of(cells).edges
    # The loss is largest from where log-sums are small to where they are large.
    sums = np.log(channel.sums.astype(np.float64))
    first, second = np.where(sums[first] <= sums[second], (first, second), (second, first))
    by_bound = np.argsort(-channel.edge_bounds, kind="stable")[:_EDGES_TRIED]
    everywhere = np.arange(len(cells))
    excess = []
    for edge in by_bound:
        here, there = (np.exp(channel.log_probability(int(cell), everywhere)) for cell in (first[edge], second[edge]))
        ratio = math.exp(_SHARE_OF_CLAIM * epsilon * length[edge] / STEP)
        excess.append(np.maximum(here - ratio * there, 0.0).sum())
    by_loss = by_bound[np.argsort(-np.array(excess), kind="stable")]
    pairs = []
    for edges, number, kind in (
        (by_bound, _BY_BOUND, "in neighboring cells with the largest bound"),
        (by_loss, _BY_LOSS, "in neighboring cells whose probabilities differ most"),
    ):
        pairs += [_cell_pair(cells, int(first[edge]), int(second[edge]), kind) for edge in edges[:number]]
    worst = int(by_loss[0])
    kind = "in neighboring cells whose probabilities differ most"
    return [*pairs, *_beyond(cells, int(first[worst]), int(second[worst]), kind, sums)]


def with_steps(pairs: list[Pair], cells: Cells) -> list[Pair]:
    """Return the same pairs, each with the number of steps between its places."""
    first, second = np.array([(pair.first, pair.second) for pair in pairs]).reshape(-1, 2, 2).swapaxes(0, 1)
    steps = HideAmong(cells=cells).distance(first, second)
    return [replace(pair, steps=float(away)) for pair, away in zip(pairs, steps, strict=True)]


def _cell_pair(cells: Cells, first: int, second: int, kind: str) -> Pair:
    return _pair(cells.region, cells.centres[first], cells.centres[second], kind)


def _beyond(cells: Cells, first: int, second: int, kind: str, sums: FloatArray | None = None) -> list[Pair]:
    """Cells two and three steps from the first whose shortest way leads over the second; of these, where sums grow."""
    from_first, from_second = steps_from(cells, np.array([first, second]))
    on_the_way = from_first == from_first[second] + from_second
    pairs = []
    for steps in _STEPS_APART:
        near = np.flatnonzero(on_the_way & (np.abs(from_first - steps) < 0.5))
        if len(near):
            away = from_first[near]
            merit = -np.abs(away - steps) if sums is None else (sums[near] - sums[first]) / away
            farther = int(near[np.argmax(merit)])
            pairs.append(_cell_pair(cells, first, farther, f"farther on the way that begins {kind}"))
    return pairs


def _cells_around(cells: Cells, place: Place, kind: str) -> list[Pair]:
    """Pairs of a place with others of its own cell and one, two and three steps away."""
    at = cells.region.to_square([place])
    source = int(cells.find(at)[0])
    away, centre = steps_from(cells, source), cells.centres[source]
    # Through the centre to the other side of the cell.
    others = [centre - (1 - _FROM_CORNER) * (at[0] - centre) if (at[0] != centre).any() else cells.boxes()[source][:2]]
    others += [
        cells.centres[int(np.argmin(np.where(away > 0, np.abs(away - steps), np.inf)))] for steps in _AROUND_STEPS
    ]
    return [Pair(place, as_place(cells.region, cells.region.from_square(other[None])[0]), kind) for other in others]


# By a mechanism's own density: the pairs that it says lose most, of all pairs of a lattice.


_PLACES_PER_SIDE = 16
_OUTPUTS_PER_SIDE = 32
_MOST = 3
# Looking for losses a little below the claim finds a pair to try also where the claim is true.
_SHARE_OF_CLAIM = 0.8


def density_pairs(mechanism: Mechanism, epsilon: float, region: Region) -> list[Pair]:
    """Return the pairs with most probability of a loss near or above ``epsilon``, by the mechanism's density.

    The density may be wrong: it only says where to look.
    """
    half = np.array(region.half_extent_m)
    degrees = region.from_metres(_lattice(half, _PLACES_PER_SIDE))
    places = mechanism.enter(degrees)
    # The places themselves are outputs too: where a cell is published, each place's own cell must be among them.
    outputs = np.vstack([mechanism.enter(region.from_metres(_lattice(half, _OUTPUTS_PER_SIDE))), places])
    density = np.exp(np.array([mechanism.log_density(place, outputs) for place in places]))
    density /= np.maximum(density.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    excess = _excess(density, np.exp(epsilon * _SHARE_OF_CLAIM))
    pairs = []
    for _ in range(_MOST):
        first, second = np.unravel_index(int(np.argmax(excess)), excess.shape)
        if excess[first, second] <= 0:
            break
        ends = (as_place(region, degrees[first]), as_place(region, degrees[second]))
        pairs.append(Pair(*ends, "where the mechanism's own density differs most"))
        excess[[first, second], :] = excess[:, [first, second]] = -1.0
    return pairs


@kernel
def _excess(density: FloatArray, ratio: float) -> FloatArray:
    """Return for every two rows p and q the sum of max(0, p - ratio q) over the outputs."""
    places, outputs = density.shape
    excess = np.zeros((places, places))
    # All q at a time, one beside the other in memory: so the processor takes several in one step.
    allowed = (ratio * density).T.copy()
    for first in range(places):
        for output in range(outputs):
            likely = density[first, output]
            for second in range(places):
                more = likely - allowed[output, second]
                excess[first, second] += more if more > 0.0 else 0.0
    return excess


def _lattice(half: FloatArray, per_side: int) -> FloatArray:
    steps = (np.arange(per_side) + 0.5) / per_side * 2 - 1
    grid: FloatArray = np.stack(np.meshgrid(steps * half[0], steps * half[1]), axis=-1).reshape(-1, 2)
    return grid
