"""Guessing cells of a service with noise per place: what is believed about a person, and which guess tells most.

Somebody who can report for a person reports a guess, and looks at what is published afterwards. The right cell brings
the person's earlier point back. What a wrong cell brings depends on the service's `Rules`: a fresh point, which is
replaced by the oldest one that is near; the point of another cell that is known; or nothing, if the budget is spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.ndimage import gaussian_filter

from nearveil.attacks.bayes import BACKGROUND, best_disc
from nearveil.attacks.oracle import Spot
from nearveil.nearby.publishing.protection import NEAR_SHARE, Cell, PlaceGrid, least_new_places
from nearveil.region import Region
from nearveil.types import FloatArray

_REACH_SHARE = 6.0
"""How far from the published place cells are looked at, in mean lengths of the noise: 1 in 12,000 is beyond."""

_SPOTS_PER_SIDE = 5
_SMOOTHED_OVER_CELLS = 2.0
_BLOCKS_TRIED = 40
_NOISE_SAMPLES = 256
_LEAST_INFORMATION = 1e-4
_FAR_CELLS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a service treats reports: from its card and ledger, and learnt by accounts of the attacker's own.

    Attributes
    ----------
    noise_m : float
        Mean length of the noise of a place.
    new_places : int
        How many places are drawn in a window at most.
    dwell_epochs : int or None
        In how many epochs a place must be reported before it counts; None if a second place was not seen to count.
    returns_when_spent : bool
        Whether a known place is published again although the budget is spent.
    known_cells_attract : bool
        Whether a report near a known cell counts as in it.
    same_noise_anew : bool
        Whether somebody who is erased and created anew gets the point of a place again.
    """

    noise_m: float
    new_places: int
    dwell_epochs: int | None = None
    returns_when_spent: bool = False
    known_cells_attract: bool = False
    same_noise_anew: bool = False

    @property
    def least_places(self) -> int:
        """How many places are drawn at least, before the budget of somebody ends."""
        return least_new_places(self.new_places)

    @property
    def grid(self) -> PlaceGrid:
        """What counts as one place."""
        return PlaceGrid(self.noise_m / 4)


class City:
    """Where people live in general: how many in each cell, smoothed, and a few just anywhere.

    Parameters
    ----------
    region : Region
        Of the service.
    grid : PlaceGrid
        Its places.
    population_m : ndarray of shape (n, 2)
        A sample of people, in metres; those attacked are not among them.
    """

    def __init__(self, region: Region, grid: PlaceGrid, population_m: FloatArray) -> None:
        self.region, self.grid = region, grid
        self._most = np.array([math.ceil(half / grid.side_m) for half in region.half_extent_m])
        columns, rows = (np.rint(population_m / grid.side_m).astype(np.int64) + self._most).T
        counts = np.zeros(tuple(2 * self._most + 1))
        np.add.at(counts, (np.clip(columns, 0, 2 * self._most[0]), np.clip(rows, 0, 2 * self._most[1])), 1.0)
        smooth = gaussian_filter(counts, _SMOOTHED_OVER_CELLS)
        self._share = (1 - BACKGROUND) * smooth / smooth.sum() + BACKGROUND / smooth.size

    def around(self, point_m: Spot, reach_m: float) -> tuple[FloatArray, Cell]:
        """Return people's share in the cells around a point, and the cell of the first column and row."""
        middle = np.rint(np.array(point_m) / self.grid.side_m).astype(np.int64)
        across = math.ceil(reach_m / self.grid.side_m)
        first, last = np.maximum(middle - across, -self._most), np.minimum(middle + across, self._most)
        columns, rows = (slice(low, high + 1) for low, high in zip(first + self._most, last + self._most, strict=True))
        return self._share[columns, rows].copy(), (int(first[0]), int(first[1]))

    def far_cells(self, point_m: Spot, count: int) -> list[Cell]:
        """Return cells far from a point, the farthest first, none near another."""
        inner = np.maximum(self._most - 2, 0)
        columns, rows = (np.arange(-most, most + 1, 3) for most in inner)
        cells = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
        away = np.hypot(*(cells * self.grid.side_m - np.array(point_m)).T)
        return [(int(column), int(row)) for column, row in cells[np.argsort(-away, kind="stable")[:count]]]


class Belief:
    """How likely each cell is to be a person's, given the place that is published of them and what guesses told.

    Parameters
    ----------
    city : City
        Where people live.
    published_m : Spot
        What is published of the person.
    noise_m : float
        Mean length of the noise.
    """

    def __init__(self, city: City, published_m: Spot, noise_m: float) -> None:
        self._grid = city.grid
        self.weights, self._first = city.around(published_m, _REACH_SHARE * noise_m)
        columns, rows = self._centres_m()
        away_m = np.hypot(columns[:, None] - published_m[0], rows[None] - published_m[1])
        self.weights *= np.exp(-2 / noise_m * away_m)
        self.weights /= self.weights.sum()

    def mass(self, cells: list[Cell]) -> float:
        """How likely the person is in one of these cells."""
        return float(sum(self.weights[place] for place in self._places(cells)))

    def update(self, cells: list[Cell], if_inside: float, if_outside: float) -> None:
        """Multiply by how likely an observation is if the person is in one of these cells, and if not."""
        factors = np.full(self.weights.shape, if_outside)
        for place in self._places(cells):
            factors[place] = if_inside
        changed = self.weights * factors
        # What cannot be under any belief tells that the rules are others; then nothing is learnt.
        if changed.sum() > 0:
            self.weights = changed / changed.sum()

    def likeliest_cells(self, count: int) -> list[Cell]:
        """Return the likeliest cells, in order."""
        return self._cells_of(self.weights, count)

    def likeliest_blocks(self, count: int) -> list[Cell]:
        """Return the first cells of the two by two cells that are likeliest together."""
        return self._cells_of(self._block_masses(), count)

    def halving_blocks(self, count: int) -> list[Cell]:
        """The same for those that are the nearest to being as likely as not."""
        return self._cells_of(-np.abs(self._block_masses() - 0.5), count)

    def best_guess(self, tau_m: float) -> tuple[Spot, float]:
        """Return the place that most likely has the person within tau, and how likely."""
        likely = np.argwhere(self.weights > 1e-5 * self.weights.max())
        columns, rows = self._centres_m()
        steps = ((np.arange(_SPOTS_PER_SIDE) + 0.5) / _SPOTS_PER_SIDE - 0.5) * self._grid.side_m
        within = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
        centres = np.column_stack([columns[likely[:, 0]], rows[likely[:, 1]]])
        spots = (centres[:, None] + within).reshape(-1, 2)
        weights = np.repeat(self.weights[tuple(likely.T)] / len(within), len(within))
        x, y, weight = best_disc(spots, weights, tau_m)
        return (x, y), weight

    def _block_masses(self) -> FloatArray:
        return self.weights[:-1, :-1] + self.weights[1:, :-1] + self.weights[:-1, 1:] + self.weights[1:, 1:]

    def _centres_m(self) -> tuple[FloatArray, FloatArray]:
        return tuple(
            (np.arange(count) + first) * self._grid.side_m
            for count, first in zip(self.weights.shape, self._first, strict=True)
        )  # type: ignore[return-value]

    def _places(self, cells: list[Cell]) -> list[tuple[int, int]]:
        """Return where the weights of those cells are that are looked at."""
        found = [(cell[0] - self._first[0], cell[1] - self._first[1]) for cell in cells]
        columns, rows = self.weights.shape
        return [(column, row) for column, row in found if 0 <= column < columns and 0 <= row < rows]

    def _cells_of(self, values: FloatArray, count: int) -> list[Cell]:
        order = np.argsort(-values, axis=None, kind="stable")[:count]
        columns, rows = np.unravel_index(order, values.shape)
        return [(int(c) + self._first[0], int(r) + self._first[1]) for c, r in zip(columns, rows, strict=True)]


@dataclass(frozen=True, slots=True)
class Guess:
    """A place to report.

    Attributes
    ----------
    spot : Spot
        In metres.
    cells : list of Cell
        If the person is in one of these, the earlier point comes back.
    chance : float
        How likely it comes back otherwise.
    own : Cell
        The cell that the spot lies in.
    known : Cell or None
        Which cell's point is published otherwise, if that is known.
    draws : bool
        Whether a fresh point is drawn otherwise.
    """

    spot: Spot = field(repr=False)
    cells: list[Cell] = field(repr=False)
    chance: float
    own: Cell = field(repr=False)
    known: Cell | None = field(default=None, repr=False)
    draws: bool = False


class Victim:
    """A person who is attacked by guesses: what is believed, what the service knows, and what is published now.

    Parameters
    ----------
    person : str
        Id.
    city : City
        Where people live.
    rules : Rules
        Of the service.
    published_m : Spot
        What is published of the person before the attack.
    rng : numpy Generator
        For the chance that a fresh point falls near an earlier one.
    guesses_per_window : int, optional
        After so many guesses near the person, places far away are reported until the budget ends: when it does tells
        about these few guesses. Without it the whole budget is for guesses near the person.
    """

    def __init__(
        self,
        person: str,
        city: City,
        rules: Rules,
        published_m: Spot,
        rng: np.random.Generator,
        *,
        guesses_per_window: int | None = None,
    ) -> None:
        self.person, self.before_m = person, published_m
        self.belief = Belief(city, published_m, rules.noise_m)
        self.is_blocked = False
        self._city, self._rules = city, rules
        self._now_m = published_m
        self._known: dict[Cell, Spot] = {}
        self._unclear: set[Cell] = set()
        self._unclear_of_window: set[Cell] = set()
        self._cell_now: Cell | None = None
        # The place from before the attack was drawn in the same window.
        self._counted = 1
        self._is_spent = False
        self._most_guesses, self._guessed = guesses_per_window, 0
        self._chances: dict[Cell, float] = {}
        lengths = rng.gamma(2.0, rules.noise_m / 2, _NOISE_SAMPLES)
        angles = rng.uniform(0, 2 * math.pi, _NOISE_SAMPLES)
        self._noise_m = lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
        # A first place far away shows whether guesses count at all. If known places come back when the budget is
        # spent, it is spent on such places.
        plants = rules.new_places - 1 if rules.returns_when_spent else 1
        far = city.far_cells(published_m, _FAR_CELLS)
        self._plants = far[:plants][::-1]
        # Others, so far from the first that none of their points is replaced by its.
        reach = _REACH_SHARE * rules.noise_m / city.grid.side_m
        self._others = [cell for cell in far[plants:] if math.dist(cell, far[0]) > reach][::-1]

    def begin_window(self) -> None:
        """Go on in another budget window, in which nothing was drawn yet."""
        self._counted, self._guessed, self._is_spent = 0, 0, False
        self._unclear_of_window = set()

    def choose(self) -> Guess | None:
        """Return the guess that tells most; None if none tells anything."""
        rules = self._rules
        if self.is_blocked or (self._is_spent and not rules.returns_when_spent):
            return None
        if self._plants and not self._is_spent:
            return self._plain(self._plants.pop(), draws=True)
        # Only from far away it is seen whether a guess brings a point near it back, or nothing is published any more.
        plant, point = next(iter(self._known.items()))
        if self._now_m != point and (not rules.returns_when_spent or self._now_m == self.before_m):
            return self._plain(plant)
        best = max(self._guesses(), key=self._information, default=None)
        if best is not None and self._information(best) >= _LEAST_INFORMATION:
            return best
        # When the budget ends tells whether one of the guesses was known before, and cost nothing.
        waits_for_end = not rules.returns_when_spent and self._unclear_of_window and self._others
        return self._plain(self._others.pop(), draws=True) if waits_for_end else None

    def _guesses(self) -> list[Guess]:
        if self._guessed == self._most_guesses:
            return []
        pairs: list[tuple[Cell, Cell]]
        if self._rules.known_cells_attract:
            blocks = self.belief.likeliest_blocks(_BLOCKS_TRIED)
            pairs = [((column + i, row + j), (column, row)) for column, row in blocks for i in (0, 1) for j in (0, 1)]
        else:
            # The cell that a report lies in is all that counts; which others are near only matters for who stays.
            cells = self.belief.likeliest_cells(_BLOCKS_TRIED + len(self._unclear))
            pairs = [(cell, cell) for cell in cells if cell not in self._unclear]
        return [guess for own, first in pairs if (guess := self._guess(own, first)) is not None]

    def observe(self, guess: Guess, published_m: Spot | None) -> None:
        """Take what is published after a guess was reported for as long as a place must last."""
        if published_m is None:
            self.is_blocked = True
            return
        is_back = published_m == self.before_m
        if published_m == self._now_m and not self._rules.returns_when_spent:
            if self._known:
                self._end()
            else:
                # A far place that does not count: somebody's phone reports, or places are not published for long.
                self.is_blocked = True
            return
        if guess.cells:
            self._guessed += 1
            likelihood = (1.0, guess.chance) if is_back else (0.0, 1 - guess.chance)
            self.belief.update(guess.cells, *likelihood)
        elif guess.draws and is_back and not self._known:
            self.is_blocked = True
        if guess.draws and not self._is_spent:
            self._counted += 1
            if is_back:
                self._unclear.add(guess.own)
                self._unclear_of_window.update(guess.cells)
            else:
                self._known[guess.own] = published_m
            # A service that lets places return goes on; that its budget is spent is counted, not seen.
            self._is_spent = self._rules.returns_when_spent and self._counted >= self._rules.new_places
        if guess.draws:
            self._cell_now = guess.own
        elif is_back:
            self._cell_now = None
        elif guess.known is not None:
            self._cell_now = guess.known
        self._now_m = published_m

    def _end(self) -> None:
        """The budget is spent. It ends one guess later if the person's own cell, which costs nothing, was guessed."""
        self._is_spent = True
        if self._rules.known_cells_attract:
            # Several guesses may have been free.
            return
        least, most = self._rules.least_places, self._rules.new_places
        shares = [float(least <= self._counted - free <= most) for free in (1, 0)]
        self.belief.update(list(self._unclear_of_window), *shares)

    def _plain(self, cell: Cell, *, draws: bool = False) -> Guess:
        x_m, y_m = self._city.grid.centre_of(cell)
        return Guess((x_m, y_m), [], 0.0, cell, known=None if draws else cell, draws=draws)

    def _guess(self, own: Cell, first: Cell) -> Guess | None:
        """Return a guess of two by two cells, in one of them; None if it tells nothing."""
        side_m = self._city.grid.side_m
        # Off the centre towards the others, and not evenly, so that their order is known.
        x_m = (own[0] + (0.3 if own[0] == first[0] else -0.3)) * side_m
        y_m = (own[1] + (0.2 if own[1] == first[1] else -0.2)) * side_m
        half_width, half_height = self._city.region.half_extent_m
        if abs(x_m) >= half_width or abs(y_m) >= half_height:
            return None
        near = self._city.grid.cells_near(x_m, y_m)
        if self._cell_now in near:
            return None
        if not self._rules.known_cells_attract:
            near = near[:1]
        if not self._unclear.isdisjoint(near):
            return None
        known = next((number for number, cell in enumerate(near) if cell in self._known), None)
        if known is not None:
            cell = near[known]
            useful = known > 0 and self._known[cell] != self.before_m
            return Guess((x_m, y_m), near[:known], 0.0, own, known=cell) if useful else None
        if self._is_spent:
            return Guess((x_m, y_m), near, 0.0, own)
        return Guess((x_m, y_m), near, self._chance_back(own), own, draws=True)

    def _chance_back(self, cell: Cell) -> float:
        """How likely a fresh point of a cell is replaced by the point from before the attack: it is the oldest."""
        if cell not in self._chances:
            fresh = np.array(self._city.grid.centre_of(cell)) + self._noise_m
            away_m = np.linalg.norm(fresh - np.array(self.before_m), axis=-1)
            near, least = away_m <= NEAR_SHARE * self._rules.noise_m, 0.5 / _NOISE_SAMPLES
            self._chances[cell] = float(np.clip(near.mean(), least, 1 - least))
        return self._chances[cell]

    def _information(self, guess: Guess) -> float:
        """Return how many bits the outcome of a guess tells about where the person is."""
        inside = self.belief.mass(guess.cells)
        back = inside + (1 - inside) * guess.chance
        return _entropy(back) - (1 - inside) * _entropy(guess.chance)


def _entropy(share: float) -> float:
    return -sum(p * math.log2(p) for p in (share, 1 - share) if 0 < p < 1)
