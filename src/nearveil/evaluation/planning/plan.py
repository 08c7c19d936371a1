"""A plan: every family searched, the best measured again, and one of them recommended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nearveil.errors import DataError, UsageError
from nearveil.evaluation.parts.families import Family, sound_families
from nearveil.evaluation.planning.dial import dial_of, fitted_to
from nearveil.evaluation.planning.measuring import Sizes
from nearveil.evaluation.planning.ranking import most_promising, ranked
from nearveil.evaluation.planning.search import Search, SearchTask, search_family
from nearveil.evaluation.planning.settling import Contender, SettleTask, settle, stage_seed
from nearveil.evaluation.planning.wish import PlanWish
from nearveil.evaluation.workers import map_in_processes
from nearveil.io.datasets import Dataset
from nearveil.types import Progress

LEAST_PEOPLE = 50

_SEARCH_STAGE, _SETTLE_STAGE = 1, 2


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: points of a sweep, steps of refinement, contenders, runs, and the size of each."""

    steps: int
    refinements: int
    contenders: int
    runs: int
    search: Sizes
    check: Sizes
    final: Sizes


FULL = Effort(4, 2, 3, 5, Sizes(1000, 40), Sizes(1000, 150), Sizes(2000, 80))
QUICK = Effort(3, 1, 3, 4, Sizes(500, 20), Sizes(500, 60), Sizes(1000, 40))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What came out.

    Attributes
    ----------
    contenders : tuple of Contender
        The best few, measured; the recommended one first, then those that meet the wish, the best first.
    met : bool
        Whether the first meets the wish. If not, nothing that was tried does, and the first comes nearest.
    searches : tuple of Search
        What was measured on the way, for each family.
    left_out : tuple of str
        Families that were not tried, and why.
    """

    wish: PlanWish
    people: int
    contenders: tuple[Contender, ...]
    searches: tuple[Search, ...]
    left_out: tuple[str, ...]
    seed: int
    effort: Effort

    @property
    def best(self) -> Contender:
        """The one recommended; if the wish is not met, the nearest to it."""
        return self.contenders[0]

    @property
    def met(self) -> bool:
        """Whether it meets the wish."""
        return self.best.met

    @property
    def best_between_all_places(self) -> Contender | None:
        """The best of those that meet the wish and whose guarantee holds between any two places."""
        return next((one for one in self.contenders if one.met and one.family.between_all_places), None)


def steps_of_plan(families: Sequence[Family], effort: Effort) -> int:
    """How often `make_plan` reports progress, at most."""
    return len(families) + effort.contenders + 1


def make_plan(
    dataset: Dataset,
    wish: PlanWish,
    *,
    families: Sequence[Family] | None = None,
    effort: Effort = FULL,
    seed: int = 1,
    cores: int = 1,
    progress: Progress | None = None,
) -> Plan:
    """Search every family for the point where the wish is just met, measure the best again, and choose.

    Parameters
    ----------
    dataset : Dataset
        The people to plan for, one place each.
    wish : PlanWish
        What is wanted.
    families : sequence of Family, optional
        What may be recommended; every sound family by default (`families_for`).
    effort : Effort
        How much is measured.
    seed : int
        Of all measurements.
    cores : int
        Processes to use.
    progress : callable, optional
        Called with 1 after each family and each contender.
    """
    people = len(dataset.places)
    # Whoever asks is not in their own list.
    least = max(LEAST_PEOPLE, wish.k + 1)
    if people < least:
        raise DataError(
            f"there are {people:,} people to plan for, and at least {least} at different places "
            "are needed; measure on more people, or ask for a shorter list (--k)"
        )
    able, unable = _able(wish, families_for(wish) if families is None else families)
    chosen, left_out = fitted_to(able, people)
    searches = _search(dataset, wish, chosen, effort, seed, cores, progress)
    contenders = _settle(dataset, wish, searches, effort, seed, cores, progress)
    return Plan(wish, people, ranked(contenders, wish), tuple(searches), (*unable, *left_out), seed, effort)


def families_for(wish: PlanWish, *, between_all_places: bool = False) -> tuple[Family, ...]:
    """Return the sound families that can have what is wished for; the metric promise is one between all places."""
    strong = between_all_places or wish.kind == "hide-within"
    return tuple(family for family in sound_families() if family.between_all_places or not strong)


def _able(wish: PlanWish, families: Sequence[Family]) -> tuple[list[Family], list[str]]:
    """Return the families that can promise what is wished for, and a sentence on each that cannot."""
    able = [family for family in families if wish.can_be_promised(family.members[0])]
    if not able:
        raise UsageError("none of these mechanisms can promise the length to those it is fitted on; try planar Laplace")
    unable = [
        f"{family.label}: a person that the intervals are fitted on loses {family.members[0].fit_loss:g} more at any "
        "distance, so that the promise does not hold for the people of the file"
        for family in families
        if family not in able
    ]
    return able, unable


def _search(
    dataset: Dataset,
    wish: PlanWish,
    families: Sequence[Family],
    effort: Effort,
    seed: int,
    cores: int,
    progress: Progress | None,
) -> list[Search]:
    tasks = [
        SearchTask(
            dataset,
            wish,
            family.thinned(min(effort.steps, len(family.members))),
            dial_of(family, dataset.region, len(dataset.places)),
            stage_seed(seed, _SEARCH_STAGE),
            effort.search,
            effort.refinements,
        )
        for family in families
    ]
    # Planar Laplace takes a moment and stands first; the others are about as long as each other.
    found: dict[int, Search] = {}
    for index, search in map_in_processes(search_family, tasks[::-1], cores=cores):
        found[len(tasks) - 1 - index] = search
        if progress:
            progress(1)
    return [replace(found[index], family=families[index]) for index in range(len(tasks))]


def _settle(
    dataset: Dataset,
    wish: PlanWish,
    searches: Sequence[Search],
    effort: Effort,
    seed: int,
    cores: int,
    progress: Progress | None,
) -> list[Contender]:
    # Those that are fitted take longest, and go first.
    promising = sorted(
        most_promising(searches, wish, effort.contenders), key=lambda search: search.family.members[0].kind != "dprs"
    )
    own_seed = stage_seed(seed, _SETTLE_STAGE)
    tasks = [
        SettleTask(dataset, wish, search, own_seed, effort.runs, effort.check, effort.final) for search in promising
    ]
    found = []
    for _, contender in map_in_processes(settle, tasks, cores=cores):
        found.append(contender)
        if progress:
            progress(1)
    return found
