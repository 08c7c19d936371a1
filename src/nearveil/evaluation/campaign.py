"""A campaign against a population: everybody is mapped through ranked lists, then further users join and are found.

The campaign sees where the service has its users. Where a mechanism protects them, that is where they are published, so
errors are given to both locations, and what the best attacker finds stands beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from nearveil.attacks.campaign import Campaign, CampaignResult
from nearveil.attacks.from_map import FromMap
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import instances_of_person
from nearveil.evaluation.simulation import Simulation
from nearveil.evaluation.stats import Estimate, Mean, Share, mean_over_runs, share_over_runs
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, Progress, ProgressBar, no_bar


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherPeople:
    """Users who joined after the campaign, searched for with everybody on its map as landmarks.

    Queries count from the one in which the user was first seen; ``found`` is the share within tau of where the service
    has them. Those who were ``never_listed``, as others are at the very same location, are not in ``people``.
    """

    people: int
    queries: Mean
    found: Share
    never_listed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CampaignOutcome:
    """A campaign beside the truth: ``result`` is what the attacker has, in meters.

    Of each user on the map ``rows`` has the row in ``true_m`` and ``served_m``: where users are, and where the service
    has them. ``protection`` is what `Simulation.protection` measures; None where nothing protects.
    """

    name: str
    region: Region
    k: int
    tau_m: float
    result: CampaignResult
    rows: IntArray = field(repr=False)
    true_m: FloatArray = field(repr=False)
    served_m: FloatArray = field(repr=False)
    further: FurtherPeople | None
    protection: dict[str, Estimate] | None
    is_protected: bool

    @property
    def people(self) -> int:
        """How many users the service had."""
        return len(self.true_m)

    @property
    def queries(self) -> int:
        """How many lists the campaign asked for."""
        return self.result.queries

    @property
    def errors_m(self) -> FloatArray:
        """From the estimates to where the service has users; of those who were seen."""
        return np.asarray(np.hypot(*(self.result.estimates_m - self.served_m[self.rows]).T))

    @property
    def true_errors_m(self) -> FloatArray:
        """From the estimates to where users are; of those who were seen."""
        return np.asarray(np.hypot(*(self.result.estimates_m - self.true_m[self.rows]).T))

    @property
    def located(self) -> int:
        """How many users the map has within tau of where the service has them."""
        return int((self.errors_m <= self.tau_m).sum())

    @property
    def truly_located(self) -> int:
        """How many users the map has within tau of where they are."""
        return int((self.true_errors_m <= self.tau_m).sum())

    @property
    def queries_per_located(self) -> float | None:
        """Queries of the campaign for each user located; None if nobody was."""
        return self.queries / self.located if self.located else None

    @property
    def coverage(self) -> float | None:
        """Share of users seen whom their radius holds; None if nobody was seen."""
        return float(np.mean(self.errors_m <= self.result.radii_m)) if len(self.rows) else None


def attack_campaign(
    simulation: Simulation, *, tau_m: float = 100.0, further: int = 100, progress: ProgressBar = no_bar
) -> CampaignOutcome:
    """Map a whole crowd by asking ranked lists from many locations, then find further users with the map.

    The map takes two queries for each user at most.

    Parameters
    ----------
    simulation : Simulation
        A service that lists users.
    tau_m : float
        Located means within this distance.
    further : int
        So many of the users, drawn at random and a tenth at most, join only after the campaign.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> points = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (100, 2))
    >>> outcome = nv.attack_campaign(nv.simulate(points, k=20), further=1)
    >>> outcome.located > 80, outcome.queries_per_located < 1
    (True, True)
    """
    service, k, true_m, served_m = simulation.service, simulation.k, simulation.true_m, simulation.service.served_m
    if not service.answers.is_list:
        raise UsageError(f"a campaign reads lists, and this service has answers={service.answers}; leave it out")
    count, seed = len(true_m), service.seed
    rng = np.random.default_rng(seed)
    later = np.sort(rng.choice(count, min(further, count // 10), replace=False))
    at_first = np.setdiff1d(np.arange(count), later)
    if k > len(at_first):
        raise UsageError(f"k must lie between 1 and the number of users at first, {len(at_first):,}")
    most = max(2 * len(at_first), 200)
    campaign = Campaign(half_extent_m=service.region.half_extent_m, tau_m=tau_m, most_queries=most, seed=seed)
    mapped = SimulatedService(service.region, served_m[at_first], rng=seed, policy=service.policy)
    result = campaign.run(mapped.oracle(k=k, accounts=0, most_queries=most), progress)
    with progress("finding further users", len(later)) as advance:
        joined = _find_further(simulation, result, at_first, later, tau_m, advance)
    return CampaignOutcome(
        name=simulation.name, region=service.region, k=k, tau_m=tau_m, result=result,
        rows=np.array(result.people, dtype=np.int64), true_m=true_m[at_first], served_m=served_m[at_first],
        further=joined, protection=simulation.protection(tau_m, progress), is_protected=simulation.is_protected,
    )  # fmt: skip


def _find_further(
    simulation: Simulation, result: CampaignResult, at_first: IntArray, later: IntArray, tau_m: float,
    progress: Progress,
) -> FurtherPeople | None:  # fmt: skip
    """Let the rest join, and find each of them from a location where they are listed."""
    joined, k = simulation.service, simulation.k
    # The map calls users by their rows among those of the campaign.
    known = replace(result, people=tuple(int(at_first[row]) for row in result.people if isinstance(row, int)))
    attack = FromMap.of(known, joined.region.half_extent_m, tau_m=tau_m)
    service, rng = joined.open(), np.random.default_rng(joined.seed)
    queries, found = list[float](), 0
    for target in later.tolist():
        progress(1)
        try:
            (instance,) = instances_of_person(service, joined.served_m, target, k=k, count=1, rng=rng)
        except UsageError:
            # Listed nowhere near: others are at the very same location.
            continue
        one = attack.infer(service.oracle(k=k, accounts=0), target, instance.start)
        queries.append(float(one.queries))
        found += one.estimate is not None and math.dist(one.estimate, joined.served_m[target]) <= tau_m
    if not queries:
        return None
    count = len(queries)
    share = share_over_runs([found], count)
    return FurtherPeople(people=count, queries=mean_over_runs(queries), found=share, never_listed=len(later) - count)
