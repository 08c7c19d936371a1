"""The mechanisms that are compared, each with the parameter that is swept and how it is built for a population."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from nearveil.audit.conformance import failure_of
from nearveil.io.datasets import Dataset
from nearveil.io.density import Density
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_density, cells_from_published
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import PAPER_CENTRES
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.registry import MECHANISMS, Strength, entry_of_class, is_own, mechanism_entry
from nearveil.mechanisms.square import Square
from nearveil.mechanisms.srr import SRR
from nearveil.privacy.guarantee import Guarantee, Notion, round_up
from nearveil.region import Region, named_region

FIT_EPSILON = 1.0
"""What private cells and intervals cost each user that they are made from."""
PUBLISHED_BEFORE_M = 500.0
"""Noise of the locations published before, that cells are made from."""
PUBLIC_SHARE = 0.5
"""Share of the users whose locations count as public data, that cells are made from."""

# A constructor may ask for a region before there are users; it is replaced by theirs.
_ANYWHERE = named_region("san-francisco")
_PUBLISHED_STREAM, _PUBLIC_STREAM = 101, 102

MakeCells = Callable[[CellPlan, Dataset], Cells]
"""Makes cells that cost users nothing more; a function of a module, or a partial of one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contender:
    """A mechanism along one parameter.

    Attributes
    ----------
    name : str
        Its key in settings of experiments: short, or ``FILE.py:CLASS`` for others' classes.
    label : str
        What tables and pictures call it.
    mechanism : Mechanism
        With its other parameters, not fitted.
    swept : str, optional
        The parameter that is turned; None where there is none.
    values : tuple of float
        Of that parameter, from weak to strong; one, whatever it is, where there is none.
    sound, between_all_places : bool
        Whether its guarantee holds as stated, and between any two locations rather than within an interval.
    cells : callable, optional
        Makes cells to hide among users with, instead of a private quadtree of their own locations.
    arguments : tuple of str
        What ``nearveil protect`` needs besides the parameter.
    failure : str, optional
        Which check of the conformance suite somebody else's class fails.
    """

    name: str
    label: str
    mechanism: Mechanism
    swept: Strength | None
    values: tuple[float, ...]
    sound: bool = True
    between_all_places: bool = True
    cells: MakeCells | None = None
    arguments: tuple[str, ...] = ()
    failure: str | None = None

    def at(self, value: float, region: Region, seed: int | None) -> Mechanism:
        """Return the mechanism with a value of its parameter, in a region, not fitted."""
        # The numbers of users to hide among are whole.
        given = {} if self.swept is None else {self.swept: int(value) if self.swept == "hide_among" else value}
        return self.mechanism.with_params(region=region.with_scaling("isotropic"), seed=seed, **given)

    def fitted(self, value: float, dataset: Dataset, seed: int | None) -> Mechanism:
        """Return it ready to publish the users of a population."""
        mechanism = self.at(value, dataset.region, seed)
        if self.cells is not None and isinstance(mechanism, HideAmong):
            return mechanism.with_params(cells=self.cells(mechanism.cell_plan, dataset))
        return mechanism.fitted_on(dataset.places)

    def parameter(self, value: float) -> str:
        """Say what the parameter is, with its unit.

        Examples
        --------
        >>> contender("planar-laplace").parameter(500)
        'noise of 500 m'
        """
        if self.swept is None:
            return "default settings"
        texts = {
            "noise_m": f"noise of {value:,.4g} m",
            "hide_among": f"among {value:,.0f} users",
            "epsilon": f"epsilon {value:g}",
        }
        return texts[self.swept]

    def protect_arguments(self, value: float) -> tuple[str, ...]:
        """Return what ``nearveil protect`` is called with to use it."""
        strengths = {
            "noise_m": ("--noise", f"{value:.12g}m"),
            "hide_among": ("--hide-among", f"{value:.0f}"),
            "epsilon": ("--epsilon", f"{value:g}"),
        }
        return (*self.arguments, *(() if self.swept is None else strengths[self.swept]))

    @property
    def is_own(self) -> bool:
        """Whether it is one of ours."""
        return is_own(self.mechanism)

    @property
    def fit_loss(self) -> float:
        """What users lose whose locations it learns from, at any distance; twice the cost, for another location."""
        pays = self.cells is None and self.mechanism.is_to_be_fitted and self.sound
        return 2 * float(getattr(self.mechanism, "fit_epsilon", None) or 0.0) if pays else 0.0

    @property
    def promise(self) -> str:
        """What the guarantee is, in a few words."""
        if not self.sound:
            return "claim refuted" if self.is_own or self.failure else "none"
        if self.swept == "hide_among":
            return "between all locations, by steps"
        return "between all locations" if self.between_all_places else "within an interval"


def stated_loss(mechanism: Mechanism) -> str:
    """Return what the users of a population lose by a fitted mechanism, its fit included, in a few words."""
    guarantee = mechanism.guarantee
    stated = next((one for one in guarantee.also if one.title.startswith("Together")), guarantee)
    return _loss(stated)


def _loss(guarantee: Guarantee) -> str:
    if not guarantee.is_promised:
        return "nothing is promised"
    offset = f" + {round_up(guarantee.offset)}" if guarantee.offset else ""
    return f"{round_up(guarantee.epsilon)} {guarantee.unit}{offset}".removesuffix(" per person")


# Ours.


def _among(name: str, label: str, cells: MakeCells | None = None, arguments: tuple[str, ...] = ()) -> Contender:
    return Contender(
        name=name,
        label=label,
        mechanism=HideAmong(fit_epsilon=FIT_EPSILON, region=_ANYWHERE),
        swept="hide_among",
        values=MECHANISMS["hide-among"].strengths,
        cells=cells,
        arguments=arguments,
    )


def among_cells(label: str, cells: MakeCells, arguments: tuple[str, ...]) -> Contender:
    """Return hide-among with cells that somebody has."""
    return _among("among-cells", f"among, {label}", cells, arguments)


def _published_before(plan: CellPlan, dataset: Dataset) -> Cells:
    before = PlanarLaplace(noise_m=PUBLISHED_BEFORE_M, region=dataset.region)
    published = before.perturb(dataset.places, np.random.default_rng(_PUBLISHED_STREAM))
    return cells_from_published(published, _isotropic(dataset), PUBLISHED_BEFORE_M, plan)


def _public_data(plan: CellPlan, dataset: Dataset) -> Cells:
    public = np.random.default_rng(_PUBLIC_STREAM).random(len(dataset.places)) < PUBLIC_SHARE
    density = Density.of_points(dataset.places[public])
    return cells_from_density(density, _isotropic(dataset), plan, population=len(dataset.places))


def _isotropic(dataset: Dataset) -> Region:
    return dataset.region.with_scaling("isotropic")


def _set(**parameters: object) -> tuple[str, ...]:
    return tuple(word for name, value in parameters.items() for word in ("--set", f"{name}={value}"))


_LENGTHS_M = MECHANISMS["planar-laplace"].strengths
_GRID = {"fit_method": "private-grid", "fit_epsilon": FIT_EPSILON}

_DEPLOYABLE = (
    Contender(
        name="planar-laplace",
        label="planar Laplace",
        mechanism=PlanarLaplace(),
        swept="noise_m",
        values=_LENGTHS_M,
        arguments=("--mechanism", "planar-laplace"),
    ),
    _among("among", "among, PrivTree", arguments=_set(fit_epsilon=FIT_EPSILON)),
    Contender(
        name="metric",
        label="DPRS, metric",
        mechanism=DPRS(release="metric", **_GRID, region=_ANYWHERE),  # type: ignore[arg-type]
        swept="noise_m",
        # With more noise, much of it leaves a city, and the attacker has to sample.
        values=_LENGTHS_M[:-1],
        arguments=_set(release="metric", **_GRID),
    ),
    Contender(
        name="interval",
        label="DPRS, interval",
        mechanism=DPRS(release="interval", epsilon=1.0, **_GRID, region=_ANYWHERE),  # type: ignore[arg-type]
        swept="epsilon",
        values=(16.0, 8.0, 4.0, 2.0, 1.0, 0.5),
        between_all_places=False,
        arguments=_set(release="interval", **_GRID),
    ),
)

_OTHERS = (
    _among("among-published", "among, published locations", _published_before),
    _among("among-public", "among, public data", _public_data),
    Contender(
        name="paper",
        label="DPRS, the paper's",
        mechanism=DPRS(release="paper", epsilon=1.0, centres=PAPER_CENTRES, region=_ANYWHERE),
        swept="epsilon",
        values=(20.0, 10.0, 5.0, 3.0, 1.0, 0.5),
        sound=False,
        between_all_places=False,
    ),
    # Where little enough is lost for a promise that means something, next to nothing is left of a list.
    Contender(
        name="srr",
        label="SRR",
        mechanism=SRR(epsilon=10.0, region=_ANYWHERE),
        swept="epsilon",
        values=(14.0, 12.0, 10.0, 8.0),
    ),
    Contender(
        name="square",
        label="Square",
        mechanism=Square(epsilon=14.0, region=_ANYWHERE),
        swept="epsilon",
        values=(20.0, 16.0, 12.0),
    ),
)

ALL: Mapping[str, Contender] = {one.name: one for one in (*_DEPLOYABLE, *_OTHERS)}
"""Nearveil's mechanisms and releases by name, in the order of tables."""


_RELEASE_OF = {"dprs": "metric", "hide-among": "among"}
"""Which of them a plain name stands for: what the class does by default."""


def deployable() -> tuple[Contender, ...]:
    """Return those that a plan may recommend: sound, and with nothing but the users' own locations to learn from."""
    return _DEPLOYABLE


@cache
def contender(name: str | type[Mechanism]) -> Contender:
    """Return a contender by its name; somebody else's by ``FILE.py:CLASS``, with what its guarantee says."""
    if isinstance(name, str) and name in ALL:
        return ALL[name]
    entry = mechanism_entry(name) if isinstance(name, str) else entry_of_class(name)
    if entry.is_own and (ours := _RELEASE_OF.get(entry.name, entry.name)) in ALL:
        return ALL[ours]
    middle = entry.strengths[len(entry.strengths) // 2 :][:1]
    given: dict[str, Any] = {str(entry.strength): value for value in middle}
    mechanism = entry.build(region=_ANYWHERE, **given)
    stated = mechanism.guarantee
    failure = None if entry.is_own else failure_of(mechanism)
    return Contender(
        name=name if isinstance(name, str) else entry.name,
        label=entry.label,
        mechanism=mechanism,
        swept=entry.strength if entry.strengths else None,
        values=entry.strengths or (1.0,),
        sound=stated.holds and all(one.holds for one in stated.also) and failure is None,
        between_all_places=stated.is_promised and stated.notion in (Notion.LOCAL, Notion.METRIC),
        arguments=("--mechanism", str(name) if isinstance(name, str) else entry.name),
        failure=failure,
    )
