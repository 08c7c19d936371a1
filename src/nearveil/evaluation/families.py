"""Families of defences: what the frontier sweeps and a plan searches, a curve each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from nearveil.audit.conformance import failure_of
from nearveil.evaluation.defences import CellsFrom, Centres, Defence, FreeCells
from nearveil.mechanisms.registry import MECHANISMS, mechanism_entry
from nearveil.privacy.accounting import Noise
from nearveil.privacy.guarantee import Notion
from nearveil.region import named_region

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PAPER_EPSILONS = (0.5, 1.0, 3.0, 5.0, 10.0, 20.0)
CENTRES = (50, 100, 200, 400, 1600)
FIT_EPSILON = 1.0


@dataclass(frozen=True, slots=True)
class Family:
    """A defence along its parameter.

    Attributes
    ----------
    sound : bool
        Whether its guarantee holds as stated; only such can be recommended.
    between_all_places : bool
        Whether the guarantee holds between any two places, and not only within an interval.
    promised : bool
        Whether there is a guarantee at all.
    is_own : bool
        Whether it is one of ours, and not somebody else's class.
    failure : str, optional
        Which check of the conformance suite somebody else's class fails.
    """

    label: str
    members: tuple[Defence, ...]
    sound: bool = True
    between_all_places: bool = True
    promised: bool = True
    is_own: bool = True
    failure: str | None = None

    def thinned(self, steps: int) -> Family:
        """Return the family with a few members, the ends among them."""
        last, steps = len(self.members) - 1, max(steps, 2)
        kept = sorted({round(last * step / (steps - 1)) for step in range(steps)})
        return replace(self, members=tuple(self.members[index] for index in kept))

    def inner(self) -> Family:
        """Return the family without its ends, where something is left."""
        return replace(self, members=self.members[1:-1] or self.members)


def all_families() -> tuple[Family, ...]:
    """Return every mechanism and release, in an isotropic region."""
    return (
        *sound_families(),
        *(among_family(cells_from) for cells_from in AMONG_LABELS if cells_from != "privtree"),
        _paper("paper, private k-means"),
        _paper("paper, Gaussian, private k-means", noise="gaussian"),
        _paper("paper, private grid", centres_from="private-grid"),
        _paper("paper, public random centres", centres_from="public"),
        *(
            family_of(name)
            for name, entry in MECHANISMS.items()
            if entry.strengths and not entry.in_plans and not entry.mechanism.learns
        ),
    )


def sound_families() -> tuple[Family, ...]:
    """Return those that one could deploy: of the registry, hide-among with private cells, sound releases of DPRS."""
    return (
        *(family_of(name) for name, entry in MECHANISMS.items() if entry.in_plans),
        among_family("privtree"),
        _by_length(_metric("metric, private grid", "private-grid")),
        _by_length(_metric("metric, private k-means", "pic")),
        _interval("interval, private grid", _by_epsilon(_confined("private-grid"), EPSILONS)),
        _interval("interval, Gaussian, private grid", _by_epsilon(_confined("private-grid", "gaussian"), EPSILONS)),
        _interval("interval, private k-means", _by_epsilon(_confined("pic"), EPSILONS)),
        _interval(
            "interval, private grid, by centres",
            tuple(replace(_confined("private-grid"), epsilon=1.0, centres=centres) for centres in CENTRES[::-1]),
        ),
    )


@cache
def family_of(name: str) -> Family:
    """Return a mechanism of the registry, or somebody else's, along its parameter, with what its guarantee says."""
    entry = mechanism_entry(name)
    defence = Defence(label=entry.label, mechanism=entry.name, region="isotropic")
    members: tuple[Defence, ...] = (defence,)
    if entry.strength == "noise_m":
        members = tuple(replace(defence, noise_m=value) for value in entry.strengths)
    elif entry.strength == "epsilon":
        members = tuple(replace(defence, epsilon=value) for value in entry.strengths)
    region = named_region("san-francisco")
    stated = members[0].build(region, seed=0).guarantee
    failure = None if entry.is_own else failure_of(members[len(members) // 2].build(region, seed=0))
    return Family(
        entry.label,
        members,
        sound=stated.holds and all(one.holds for one in stated.also) and failure is None,
        failure=failure,
        between_all_places=stated.is_promised and stated.notion in (Notion.LOCAL, Notion.METRIC),
        promised=stated.is_promised,
        is_own=entry.is_own,
    )


AMONG_LABELS: dict[CellsFrom, str] = {
    "privtree": "among, PrivTree",
    "published": "among, published places",
    "public": "among, public data",
}
"""Hide among people, by where the cells are from; those of a private quadtree cost something, the others nothing."""


def among_family(cells_from: CellsFrom, *, fit_epsilon: float = FIT_EPSILON) -> Family:
    """Return hide-among along the number of people, for one source of cells."""
    defence = Defence(
        label=AMONG_LABELS[cells_from],
        mechanism="hide-among",
        cells_from=cells_from,
        fit_epsilon=fit_epsilon if cells_from == "privtree" else None,
        region="isotropic",
    )
    numbers = MECHANISMS["hide-among"].strengths
    return Family(defence.label, tuple(replace(defence, hide_among=int(number)) for number in numbers))


def family_of_cells(free_cells: FreeCells) -> Family:
    """Return hide-among along the number of people, with cells that cost nobody anything."""
    family = among_family("privtree")
    label = f"among, {free_cells.source}"
    members = (replace(one, label=label, fit_epsilon=None, free_cells=free_cells) for one in family.members)
    return replace(family, label=label, members=tuple(members))


def _by_length(defence: Defence) -> Family:
    lengths_m = MECHANISMS["planar-laplace"].strengths
    return Family(defence.label, tuple(replace(defence, noise_m=length_m) for length_m in lengths_m))


def _by_epsilon(defence: Defence, epsilons: tuple[float, ...]) -> tuple[Defence, ...]:
    # From strong protection to weak would be the other way round; the order is that of growing attacker error.
    return tuple(replace(defence, epsilon=epsilon) for epsilon in sorted(epsilons, reverse=True))


def _metric(label: str, centres_from: Centres) -> Defence:
    return Defence(
        label=label,
        mechanism="dprs",
        release="metric",
        centres_from=centres_from,
        fit_epsilon=FIT_EPSILON,
        region="isotropic",
    )


def _confined(centres_from: Centres, noise: Noise = "laplace") -> Defence:
    return Defence(
        label="",
        mechanism="dprs",
        release="interval",
        noise=noise,
        centres_from=centres_from,
        fit_epsilon=FIT_EPSILON,
        region="isotropic",
    )


def _interval(label: str, members: tuple[Defence, ...]) -> Family:
    named = tuple(replace(member, label=label) for member in members)
    return Family(label, named, between_all_places=False)


def _paper(label: str, *, noise: Noise = "laplace", centres_from: Centres = "pic") -> Family:
    defence = Defence(label=label, mechanism="dprs", noise=noise, centres_from=centres_from, region="isotropic")
    return Family(label, _by_epsilon(defence, PAPER_EPSILONS), sound=False, between_all_places=False)


def promise(family: Family) -> str:
    """What the guarantee of a family is, in a few words."""
    if not family.promised:
        return "none"
    if not family.sound:
        return "claim refuted"
    if family.members and family.members[0].hides_among:
        return "between all places, by steps"
    return "between all places" if family.between_all_places else "within an interval"
