"""The mechanisms that are compared, each with the parameter that is swept and how it is built for a population."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from nearveil.auditing.conformance import failure_of
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_published
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import PAPER_CENTRES
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.registry import MECHANISMS, Strength, entry_of_class, is_own, mechanism_entry
from nearveil.mechanisms.square import Square
from nearveil.mechanisms.srr import SRR
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import named_region

# What private cells and intervals cost each user that they are made from.
FIT_EPSILON = 1.0
# Cells are also made from locations published before with this noise.
PUBLISHED_BEFORE_M = 500.0

# Some constructors need a region before there are users; it is replaced by theirs.
_ANYWHERE = named_region("san-francisco")
_WORDS: Mapping[Strength, tuple[str, str, str]] = {
    "noise_m": ("noise of {:,.7g} m", "--noise", "{:.12g}m"),
    "hide_among": ("among {:,.0f} users", "--hide-among", "{:.0f}"),
    "epsilon": ("epsilon {:g}", "--epsilon", "{:g}"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A mechanism along one parameter, ``swept``, with values from weak to strong.

    ``name`` is its key in settings of experiments, ``FILE.py:CLASS`` for others' classes; ``label`` is what tables call
    it. ``mechanism`` has its other parameters and is not fitted. Without a parameter to sweep there is one value,
    whatever it is. ``sound`` says whether its guarantee holds as stated, ``between_all_places`` whether between any two
    locations and not only within an interval; ``failure`` is the check of the conformance suite that it fails.
    ``published_cells`` makes cells from locations published before, in place of a private quadtree of users' own;
    ``arguments`` are what ``nearveil protect`` needs besides the parameter.
    """

    name: str
    label: str
    mechanism: Mechanism
    swept: Strength | None
    values: tuple[float, ...]
    sound: bool = True
    between_all_places: bool = True
    published_cells: bool = False
    arguments: tuple[str, ...] = ()
    failure: str | None = None

    def fitted(self, value: float, dataset: Dataset, seed: int | None) -> Mechanism:
        """Return the mechanism with a value of its parameter, ready to publish the users of a population."""
        # Users to hide among are counted in whole numbers.
        given = {} if self.swept is None else {self.swept: int(value) if self.swept == "hide_among" else value}
        region = dataset.region.with_scaling("isotropic")
        mechanism = self.mechanism.with_params(region=region, seed=seed, **given)
        if self.published_cells:
            return mechanism.with_params(cells=_published_cells(CellPlan(hide_among=int(value)), dataset))
        return mechanism.fitted_on(dataset.places)

    def suits(self, value: float, users: int) -> bool:
        """Whether there are enough users: hidden among more than a quarter of all, nothing is left of a list."""
        return users >= (4 * value if self.swept == "hide_among" else getattr(self.mechanism, "centres", None) or 1)

    def parameter(self, value: float) -> str:
        """Say what the parameter is, with its unit: ``noise of 500 m``."""
        return "default settings" if self.swept is None else _WORDS[self.swept][0].format(value)

    def protect_arguments(self, value: float) -> tuple[str, ...]:
        """Return what ``nearveil protect`` is called with to use it."""
        if self.swept is None:
            return self.arguments
        _, option, form = _WORDS[self.swept]
        return (*self.arguments, option, form.format(value))

    @property
    def fit_loss(self) -> float:
        """What users lose whose locations it learns from, at any distance; twice the cost, for another location."""
        pays = not self.published_cells and self.mechanism.is_to_be_fitted and self.sound
        return 2 * float(getattr(self.mechanism, "fit_epsilon", None) or 0.0) if pays else 0.0

    @property
    def promise(self) -> str:
        """What the guarantee is, in a few words."""
        if not self.sound:
            return "claim refuted" if is_own(self.mechanism) or self.failure else "none"
        if not self.between_all_places:
            return "within an interval"
        return "between all locations, by steps" if self.swept == "hide_among" else "between all locations"


@lru_cache(maxsize=8)
def _published_cells(plan: CellPlan, dataset: Dataset) -> Cells:
    """Return the same cells for the same population: what is computed from them once is kept on them."""
    before = PlanarLaplace(PUBLISHED_BEFORE_M, dataset.region, seed=101).perturb(dataset.places)
    return cells_from_published(before, dataset.region.with_scaling("isotropic"), PUBLISHED_BEFORE_M, plan)


# Ours. Each population has a region that is scaled alike in both directions.


def _among(name: str, source: str, **given: Any) -> Contender:
    # The fewer users, the more cells and the slower the attacker.
    values, mechanism = MECHANISMS["hide-among"].strengths[1:], HideAmong(fit_epsilon=FIT_EPSILON, region=_ANYWHERE)
    return Contender(name, f"among, {source}", mechanism, "hide_among", values, **given)


def _release(label: str, swept: Strength, values: tuple[float, ...], *, everywhere: bool, **given: Any) -> Contender:
    chosen = {"release": label, "fit_method": "private-grid", "fit_epsilon": FIT_EPSILON}
    settings = (word for name, value in chosen.items() for word in ("--set", f"{name}={value}"))
    words = ("--mechanism", "dprs", *settings)
    mechanism = DPRS(**chosen, **given, region=_ANYWHERE)  # type: ignore[arg-type]
    return Contender(label, f"DPRS, {label}", mechanism, swept, values, between_all_places=everywhere, arguments=words)


_LENGTHS_M = MECHANISMS["planar-laplace"].strengths
_BY_NAME = ("--mechanism", "planar-laplace")
_PAPER = DPRS(release="paper", epsilon=1.0, centres=PAPER_CENTRES, region=_ANYWHERE)
_DEPLOYABLE = (
    Contender("planar-laplace", "planar Laplace", PlanarLaplace(), "noise_m", _LENGTHS_M, arguments=_BY_NAME),
    _among("among", "PrivTree", arguments=("--set", f"fit_epsilon={FIT_EPSILON}")),
    # With more noise, much of it leaves a city, and the attacker has to sample.
    _release("metric", "noise_m", _LENGTHS_M[1:-1], everywhere=True, noise_m=500.0),
    _release("interval", "epsilon", (8.0, 4.0, 2.0, 1.0, 0.5), everywhere=False, epsilon=1.0),
)
_OTHERS = (
    _among("among-published", "published locations", published_cells=True),
    Contender("paper", "DPRS, the paper's", _PAPER, "epsilon", (5.0, 3.0, 1.0, 0.5), False, False),
    # Where so little is lost that the promise means something, next to nothing is left of a list.
    Contender("srr", "SRR", SRR(region=_ANYWHERE), "epsilon", MECHANISMS["srr"].strengths),
    Contender("square", "Square", Square(region=_ANYWHERE), "epsilon", MECHANISMS["square"].strengths),
)

ALL: Mapping[str, Contender] = {one.name: one for one in (*_DEPLOYABLE, *_OTHERS)}
"""Nearveil's mechanisms and releases by name, in the order of tables."""
_DEFAULTS = {"dprs": "metric", "hide-among": "among"}


def deployable() -> tuple[Contender, ...]:
    """Return those that a plan may recommend: sound, and with nothing but the users' own locations to learn from."""
    return _DEPLOYABLE


@cache
def contender(name: str | type[Mechanism]) -> Contender:
    """Return a contender by its name; somebody else's by ``FILE.py:CLASS``, with what its guarantee says."""
    if isinstance(name, str) and name in ALL:
        return ALL[name]
    entry = mechanism_entry(name) if isinstance(name, str) else entry_of_class(name)
    if entry.is_own and (ours := _DEFAULTS.get(entry.name, entry.name)) in ALL:
        return ALL[ours]
    key, middle = name if isinstance(name, str) else entry.name, entry.strengths[len(entry.strengths) // 2 :][:1]
    given: dict[str, Any] = {str(entry.strength): value for value in middle}
    mechanism = entry.build(region=_ANYWHERE, **given)
    stated, failure = mechanism.guarantee, None if entry.is_own else failure_of(mechanism)
    swept, values = (entry.strength, entry.strengths) if entry.strengths else (None, (1.0,))
    sound = stated.holds and all(one.holds for one in stated.also) and failure is None
    everywhere = stated.is_promised and stated.definition in (PrivacyDefinition.LOCAL, PrivacyDefinition.METRIC)
    arguments = ("--mechanism", key)
    return Contender(key, entry.label, mechanism, swept, values, sound, everywhere, False, arguments, failure)
