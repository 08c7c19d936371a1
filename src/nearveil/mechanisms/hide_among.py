"""Hide among people: publish a random cell that is few steps away, and a uniform point of it.

A step is short where people are dense and long where they are sparse (`nearveil.mechanisms.cells`), so that everybody
is hidden among about equally many. The idea of such a metric is Chatzikokolakis, Palamidessi and Stronati's (2015).
`nearveil.mechanisms.step_channel` has the probabilities and the proof.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cell_steps import graph_of, steps_from
from nearveil.mechanisms.cells import SOURCE_NAMES, Calibration, Cells, cells_from_document
from nearveil.mechanisms.fit_cells import LARGEST_CELL_M, LEAST_CELL_M, CellPlan, build_private_cells
from nearveil.mechanisms.fit_cost import with_fit_cost
from nearveil.mechanisms.step_channel import (
    StepChannel,
    channel_for_epsilon,
    channel_for_people,
    given_channel,
    rescaled_channel,
)
from nearveil.privacy.guarantee import FURTHER_RELEASES, Basis, Guarantee, PrivacyDefinition, check_epsilon
from nearveil.randomness import FIT_STREAM, Randomness, RowKeystream
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, Progress


class HideAmong(Mechanism):
    """Hide everybody among about equally many people.

    `fit` makes cells from people's places, at a cost to their privacy, and keeps them alone, as ``cells_``; with
    ``cells`` given, nothing is fitted. Read ``guarantee`` for what is true of the result.

    Parameters
    ----------
    hide_among : int
        N: how many other users are nearer to the true location than the published one, on average over users, where a
        cell counts as at most three cells of users. Half of all users have fewer than about N/2 others nearer. A cell
        holds about N/10 users.
    epsilon : float, optional
        The largest loss per step, instead: ``hide_among`` then says only how large cells are made by `fit`.
    cells : Cells, optional
        Cells made before, from public data, from places published before, or by a private quadtree.
    fit_epsilon : float
        What `fit` costs each person in the data.
    least_cell_m, largest_cell_m : float
        Sides of the smallest and the largest cells that `fit` makes, in metres.
    calibration : Calibration, optional
        The numbers of the channel between cells, as found before and written down with a certificate.
    region : Region or str, optional
        Public region: a Region, a name, "south,west,north,east", or a GeoJSON file. By default that of ``cells``.
    seed : int, optional
        For experiments only: makes fit and result repeatable.

    Examples
    --------
    >>> from nearveil import cells_from_points, named_region
    >>> from nearveil.io.synthetic import synthetic_city
    >>> region = named_region("san-francisco")
    >>> cells = cells_from_points(synthetic_city(2_000, region, rng=1), region)
    >>> HideAmong(100, cells=cells, seed=1).perturb([[37.77, -122.42]]).shape
    (1, 2)
    """

    frame = "square"
    learns = "cells"
    places = "cells"

    def __init__(
        self,
        hide_among: int = 100,
        *,
        epsilon: float | None = None,
        cells: Cells | None = None,
        fit_epsilon: float = 1.0,
        least_cell_m: float = LEAST_CELL_M,
        largest_cell_m: float = LARGEST_CELL_M,
        calibration: Calibration | None = None,
        region: Region | str | None = None,
        seed: int | None = None,
    ) -> None:
        if epsilon is not None:
            check_epsilon(epsilon)
        check_epsilon(fit_epsilon, "fit_epsilon")
        if calibration is not None and cells is None:
            raise UsageError("a calibration goes with the cells that it was found for; give them")
        self.hide_among = hide_among
        self.epsilon = epsilon
        self.cells = cells
        self.fit_epsilon = fit_epsilon
        self.least_cell_m = least_cell_m
        self.largest_cell_m = largest_cell_m
        self.calibration = calibration
        self.region = region
        self.seed = seed
        self._noise_factor = 1.0
        _ = self.cell_plan  # checks its part of the parameters
        _ = self.resolved_region

    # -- cells -----------------------------------------------------------------------------------------------

    @property
    def cell_plan(self) -> CellPlan:
        """How `fit` makes cells."""
        return CellPlan(hide_among=self.hide_among, least_cell_m=self.least_cell_m, largest_cell_m=self.largest_cell_m)

    def fit(self, points: object, y: object = None, *, progress: Progress | None = None) -> Self:
        """Make private cells from people's places; with ``cells`` given, only check the places."""
        if self.cells is not None:
            return super().fit(points, y)
        self.cells_ = build_private_cells(
            points,
            self.resolved_region,
            epsilon=self.fit_epsilon,
            plan=self.cell_plan,
            rng=self._own_randomness(FIT_STREAM),
        )
        if progress:
            progress(1)
        return self

    @property
    def current_cells(self) -> Cells:
        """The cells in use: those given, or else those fitted."""
        cells: Cells | None = self.cells if self.cells is not None else getattr(self, "cells_", None)
        if cells is None:
            raise UsageError("fit the cells first, or give cells made before")
        return cells

    # -- what cards, audits and attackers ask ----------------------------------------------------------------

    @property
    def fit_settings(self) -> tuple[Any, ...]:
        """The plan of the cells and what they cost."""
        return self.cell_plan, self.fit_epsilon

    def distance(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Steps between the cells of two locations, 0 within one."""
        cells = self.current_cells
        sources, targets = (cells.find(self.enter(points)) for points in (first, second))
        steps = np.empty(len(sources))
        for source in np.unique(sources):
            here = sources == source
            steps[here] = steps_from(cells, int(source))[targets[here]]
        return steps

    @property
    def finite(self) -> StepChannel | None:
        """The channel between cells."""
        return self.channel

    # -- release ---------------------------------------------------------------------------------------------

    @property
    def channel(self) -> StepChannel:
        """The finite channel between cells, calibrated."""
        channel, factor = self._calibrated, self._noise_factor
        return channel if factor == 1.0 else rescaled_channel(self.current_cells, channel, factor)

    @property
    def _calibrated(self) -> StepChannel:
        """The channel that the guarantee is about, also where a test has rescaled the noise."""
        if self.calibration is not None:
            return given_channel(self.current_cells, self.calibration)
        if self.epsilon is not None:
            return channel_for_epsilon(self.current_cells, self.epsilon)
        return channel_for_people(self.current_cells, self.hide_among)

    def settled(self) -> Self:
        """Return it with its cells and its calibration given, which another machine may round differently."""
        other = copy.copy(self)
        other.cells, other.calibration = self.current_cells, self._calibrated.calibration
        return other

    @classmethod
    def from_spec_params(cls, params: dict[str, Any]) -> Self:
        """Return a copy, of parameters from a file."""
        calibration = Calibration.from_document(params["calibration"])
        return cls(**{**params, "cells": cells_from_document(params["cells"]), "calibration": calibration})

    def _prepare(self) -> None:
        _ = self.channel.tables

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw a cell for every row of ``x``, and a uniform point of it, in the square."""
        return self.channel.draw(x, rows.blocks(0))

    def perturb_users(
        self, users: IntArray, points: object, rng: Randomness | np.random.Generator | int | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Publish a location for every user and cell where the user has been."""
        checked, cells = self.area.check(points), self.current_cells
        of_user = np.unique(users, return_inverse=True)[1]
        visited = of_user * len(cells) + cells.find(self.enter(checked))
        _, first, place = np.unique(visited, return_index=True, return_inverse=True)
        return self.perturb(checked[first], self.seed if rng is None else rng)[place], place

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per unit of the square: the cell's probability over its area."""
        cells = self.current_cells
        x, t = np.asarray(x, dtype=np.float64), np.asarray(t, dtype=np.float64)
        sources, answers = (cells.find(part.reshape(-1, 2)).reshape(part.shape[:-1]) for part in (x, t))
        inside = (np.abs(t) <= np.array(cells.region.half_extent_square) * (1 + 1e-12)).all(axis=-1)
        logs = self.channel.log_probability(sources, answers) - np.log(cells.areas)[answers]
        return np.where(inside, logs, -np.inf)

    def rescaled(self, factor: float) -> Self:
        """Return a copy that publishes cells ``factor`` times as many steps away, cells and all."""
        other = copy.copy(self)
        other._noise_factor = self._noise_factor * factor
        return other

    @property
    def guarantee(self) -> Guarantee:
        """Any two locations are alike up to epsilon times the steps between them."""
        cells, channel = self.current_cells, self._calibrated
        epsilon = channel.bound if self.epsilon is None else max(self.epsilon, channel.bound)
        among = channel.people_within(2 / epsilon)
        meaning = (
            f"Hidden among {self.hide_among:,} is an average over users, where a cell counts as at most three cells of "
            f"users: half of all users have fewer than about {self.hide_among / 2:,.0f} others nearer to them than "
            "what is published."
        )
        release = Guarantee(
            title="Every published location",
            definition=PrivacyDefinition.ELASTIC,
            epsilon=epsilon,
            unit=PrivacyDefinition.ELASTIC.unit,
            delta=0.0,
            neighbors=(
                "any two locations that one published location may stand for, at a loss of epsilon times the steps "
                "between their cells; a step leads to a cell that touches"
            ),
            promise=(
                f"the published location is at most e^2 = 7.4 times likelier from your cell than from any cell within "
                f"{2 / epsilon:.2g} steps; for half of the users these held about {among:,.0f} users or more when "
                "the cells were made"
            ),
            not_covered=(
                f"locations many steps apart are not hidden from each other; crowds move after the cells were made; "
                f"{FURTHER_RELEASES}"
            ),
            basis=Basis.CERTIFICATE,
            because=(
                f"the largest loss per step over each of the {len(graph_of(cells).neighbors) // 2:,} pairs of cells "
                "that touch, computed from the whole numbers that are drawn from; it adds up along the shortest way"
            ),
            notes=(
                *self._notes(),
                *((meaning,) if self.epsilon is None else ()),
                f"{len(cells):,} cells from {SOURCE_NAMES[cells.source]}, {cells.sides_m.min():,.0f} to "
                f"{cells.sides_m.max():,.0f} m wide and with about {np.median(cells.people):,.3g} users each, as "
                "counted when they were made.",
            ),
            certificate=channel.certificate,
        )
        return with_fit_cost(release, cells, "cells")
