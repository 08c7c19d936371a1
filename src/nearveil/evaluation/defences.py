"""The defences that experiments compare, as plain values: what a mechanism is built from, before any data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from nearveil.evaluation.utility import SCALING_OF, RegionProtocol
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.dprs import DPRS, ReleaseName
from nearveil.mechanisms.fit_cells import CellPlan
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import PAPER_CENTRES
from nearveil.mechanisms.registry import MechanismEntry, mechanism_entry
from nearveil.privacy.accounting import Noise
from nearveil.privacy.guarantee import Guarantee, round_up
from nearveil.region import Region, named_region

Centres = Literal["pic", "private-grid", "public"]
"""Where intervals come from: the paper's private k-means, the private grid, or public random points without data."""

CellsFrom = Literal["privtree", "published", "public", "exact"]
"""Where cells come from: a private quadtree, places published before, other people, or exact counts of everybody.

Exact counts protect nobody: they are what the others are compared with.
"""


@dataclass(frozen=True, slots=True, eq=False)
class FreeCells:
    """Cells that cost the people nothing more, to be made for any number of people to hide among.

    Attributes
    ----------
    source : str
        What tables call where they are from.
    make : callable
        Makes them by a `CellPlan`; those of a file are as they are.
    arguments : tuple of str
        What ``nearveil protect`` is told, to use them.
    """

    source: str
    make: Callable[[CellPlan], Cells]
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Defence:
    """A mechanism with its parameters.

    Attributes
    ----------
    label : str
        What tables and pictures call it; two that differ in nothing else are the same.
    mechanism : str
        Its name in the registry; for somebody else's class ``module:Class``.
    epsilon, noise_m, hide_among : float, optional
        One of them, or none where the mechanism takes none. For planar Laplace epsilon is the loss between opposite
        corners of the region.
    fit_epsilon : float, optional
        What finding private intervals or cells costs, for the sound releases; the paper's spends half of epsilon on it.
    cells_from : str
        Where the cells of hide-among are from, in experiments.
    free_cells : FreeCells, optional
        Where they are from in a plan for somebody who has public data or places published before.
    """

    label: str = field(compare=False)
    mechanism: str
    epsilon: float | None = None
    noise_m: float | None = None
    hide_among: int | None = None
    release: ReleaseName = "paper"
    noise: Noise = "laplace"
    centres_from: Centres = "pic"
    centres: int = PAPER_CENTRES
    gamma: float = 0.5
    fit_epsilon: float | None = None
    region: RegionProtocol = "paper"
    cells_from: CellsFrom = "privtree"
    free_cells: FreeCells | None = None

    def build(self, region: Region, seed: int) -> Mechanism:
        """Return the mechanism for a region, not fitted yet."""
        scaled = region.with_scaling(SCALING_OF[self.region])
        if self.is_dprs:
            return self._dprs(scaled, seed)
        if self.hides_among:
            return self.hide_among_people(scaled, seed)
        length_m = self._length_m(scaled) if self.entry.strength == "noise_m" else None
        return self.entry.build(region=scaled, seed=seed, epsilon=self.epsilon, noise_m=length_m)

    @property
    def entry(self) -> MechanismEntry:
        """What the registry knows of its mechanism."""
        return mechanism_entry(self.mechanism)

    @property
    def is_dprs(self) -> bool:
        """Whether it is one of DPRS, with intervals that are fitted."""
        return self.mechanism == "dprs"

    @property
    def hides_among(self) -> bool:
        """Whether it hides people among people, with cells."""
        return self.mechanism == "hide-among"

    @property
    def parameter(self) -> str:
        """The parameter that is swept, with its unit."""
        if self.noise_m is not None:
            return f"noise of {self.noise_m:,.0f} m"
        if self.hide_among is not None:
            return f"hide among {self.hide_among:,} people"
        return "default settings" if self.epsilon is None else f"epsilon = {self.epsilon:g}"

    @property
    def fit_loss(self) -> float:
        """What somebody loses by being among those that intervals or cells are fitted on, at any distance.

        Another place is one person less and another more, so that the fit counts twice. The paper's release makes no
        promise for it.
        """
        fitted = (self.is_dprs and self.centres_from != "public") or (
            self.hides_among and self.cells_from == "privtree" and self.free_cells is None
        )
        return 2 * self.fit_epsilon if fitted and self.fit_epsilon is not None else 0.0

    @property
    def loss(self) -> str:
        """What holds for the people that a sound defence is run on, in a few words."""
        if not self.entry.is_own:
            return stated_loss(self.build(named_region("san-francisco"), seed=0).guarantee)
        if self.hides_among:
            return "by the cells"
        if self.noise_m is None:
            return f"{self._epsilon + self.fit_loss:g}"
        return f"{2 / self.noise_m:.3g} per metre" + (f" + {self.fit_loss:g}" if self.fit_loss else "")

    @property
    def loss_at_any_distance(self) -> float | None:
        """The loss between any two places that it protects, with that of fitting; None where it is by distance."""
        if not self.entry.is_own or self.hides_among or self.noise_m is not None:
            return None
        return self._epsilon + self.fit_loss

    def _dprs(self, region: Region, seed: int) -> DPRS:
        public = self.centres_from == "public"
        intervals = (
            build_public_intervals(region=region, centres=self.centres, gamma=self.gamma, rng=seed) if public else None
        )
        return DPRS(
            release=self.release,
            epsilon=self.epsilon,
            noise_m=self.noise_m,
            noise=self.noise,
            centres=self.centres,
            gamma=self.gamma,
            # Public centres stand in for those of private k-means, under the same noise scales.
            fit_method="pic" if self.centres_from != "private-grid" else "private-grid",
            fit_epsilon=self.fit_epsilon,
            intervals=intervals,
            region=region,
            seed=seed,
        )

    def hide_among_people(self, region: Region, seed: int) -> HideAmong:
        """Return the mechanism of one that `hides_among`, not fitted yet."""
        mechanism = HideAmong(
            100 if self.hide_among is None else self.hide_among,
            epsilon=self.epsilon,
            fit_epsilon=1.0 if self.fit_epsilon is None else self.fit_epsilon,
            region=region,
            seed=seed,
        )
        if self.free_cells is None:
            return mechanism
        return mechanism.with_params(cells=self.free_cells.make(mechanism.cell_plan))

    @property
    def _epsilon(self) -> float:
        if self.epsilon is None:
            raise TypeError(f"{self.mechanism} takes an epsilon")
        return self.epsilon

    def _length_m(self, region: Region) -> float:
        """A loss of 2 for each length: over the diameter, epsilon in all."""
        return self.noise_m if self.noise_m is not None else 4 * region.radius_m / self._epsilon


def stated_loss(guarantee: Guarantee) -> str:
    """Return the loss that a guarantee states, in a few words."""
    if not guarantee.is_promised:
        return "nothing is promised"
    offset = f" + {round_up(guarantee.offset)}" if guarantee.offset else ""
    return f"{round_up(guarantee.epsilon)} {guarantee.unit}{offset}".removesuffix(" per person")


def paper_defences(epsilon: float, *, region: RegionProtocol = "paper") -> tuple[Defence, ...]:
    """The paper's four mechanisms at one epsilon, and the per-axis Laplace noise whose density DPRS uses.

    Each is calibrated by its own definition to the whole region; nothing is tuned to match the paper's numbers.
    """
    return (
        Defence(label="DPRS", mechanism="dprs", epsilon=epsilon, region=region),
        Defence(label="SRR", mechanism="srr", epsilon=epsilon, region=region),
        Defence(label="Square", mechanism="square", epsilon=epsilon, region=region),
        Defence(label="2D Laplace", mechanism="planar-laplace", epsilon=epsilon, region=region),
        Defence(label="per-axis Laplace", mechanism="laplace", epsilon=epsilon, region=region),
    )
