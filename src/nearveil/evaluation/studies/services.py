"""Defenses that services use today, judged: one city behind rounding, bands, filters and lists, and behind noise.

The adaptive attack looks for the same users through every service, and a campaign maps all users at once where lists
have an order. Where users are protected, the Bayes attacker guesses from what is published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.answers import Answers
from nearveil.attacks.campaign import Campaign
from nearveil.attacks.policies import PRESETS, AnswerPolicy
from nearveil.attacks.scores import NAMING_TARGETS
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.evaluation import attack_experiment
from nearveil.evaluation.attack_experiment import AttackSetup, Instance, compare, instances_of_person
from nearveil.evaluation.contenders import contender
from nearveil.evaluation.stats import Share, mean_over_runs, share_over_runs
from nearveil.evaluation.study import TAU_M, Part, Scope, generator
from nearveil.evaluation.tradeoff import Sizes, what_attackers_get
from nearveil.io.datasets import Dataset, DatasetName
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.region import named_region
from nearveil.types import FloatArray

CITY = "demo city"
USERS, SLOW_USERS, MAPPED_USERS = 100, 40, 2_000
"""Users attacked, those where an attack takes over a second, and users that a campaign maps."""

# Users in a list, the attacker's accounts, users that a start is near to.
_K, _ACCOUNTS, _AROUND = 10, 4, 21
_QUICK_CITY, _QUICK_USERS, _QUICK_GUESSES = 400, 20, 100
_MOST = 0.5
_TARGETS, _STARTS, _ORACLE, _NOISE, _CITY = range(11, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A kind of service.

    Attributes
    ----------
    answers, policy : str
        What it answers, and what it does to lists; as for ``nearveil attack``.
    k : int
        How many users a list has; 0 for all that the policy leaves.
    mapped_k : int
        How many users of each list a campaign uses; 0 where lists have no order that it could use.
    protection : (str, float), optional
        Name and setting of the contender that publishes users' locations.
    is_slow : bool
        Whether an attack takes over a second.
    """

    answers: str = "list"
    policy: str = ""
    k: int = _K
    mapped_k: int = 0
    protection: tuple[str, float] | None = None
    is_slow: bool = False


def _preset(name: str, mapped_k: int, *, is_slow: bool = False) -> Service:
    shape = PRESETS[name]
    k = 0 if shape.lists_everybody else _K
    return Service(policy=str(shape.policy), k=k, mapped_k=mapped_k, is_slow=is_slow)


SERVICES: Mapping[str, Service] = {
    "ranked list of 10 (sort-by-distance)": _preset("sort-by-distance", _K),
    "ranked list of 10, 111 m grid (three-decimals)": _preset("three-decimals", _K, is_slow=True),
    "ranked list of 10, a tenth of users left out": Service(policy="drop:0.1", mapped_k=_K, is_slow=True),
    "ranked list of 10, distances 10 % off": Service(policy="order-noise:0.1", mapped_k=_K, is_slow=True),
    "list of 10, ordered by bands of 500 m": Service(policy="bands:500m", is_slow=True),
    "list of all within 30 km (nearest-50-or-30km)": _preset("nearest-50-or-30km", 50),
    "list of all within 500 m, no order (check-in-500m)": _preset("check-in-500m", 0),
    '"1 km away"': Service(answers="distance:1km"),
    '"0 to 500 m away"': Service(answers="bands:500m"),
    '"within 5 km": yes or no': Service(answers="filter:5km-fixed"),
    "circle of 2 km or more: yes or no": Service(answers="circle:2km"),
    "ranked list of 10, noise of 500 m": Service(protection=("planar-laplace", 500.0), mapped_k=_K),
    "ranked list of 10, hidden among 100": Service(protection=("among", 100.0), mapped_k=_K),
}
"""Services as people build them; the last two with noise."""


def own_city(scope: Scope) -> list[str]:
    """Return your own users; the paper's are check-ins and nobody's homes, and there is a city in their place."""
    return [name for name in scope.datasets if name not in set(DatasetName)] or [CITY]


def grid(scope: Scope) -> list[dict[str, Any]]:
    """Every service under the attack, run by run; and once under a campaign and before the Bayes attacker."""
    city, mapped, guessed = 0, MAPPED_USERS, NAMING_TARGETS
    if scope.quick:
        city, mapped, guessed = _QUICK_CITY, _QUICK_CITY, _QUICK_GUESSES
    rows = []
    for dataset, (name, service) in product(own_city(scope), SERVICES.items()):
        most = _QUICK_USERS if city else SLOW_USERS if service.is_slow else USERS
        users = math.ceil(min(most, scope.runs * scope.instances) / scope.runs)
        work = [("attack", run, users) for run in range(scope.runs)]
        work += [("campaign", 0, mapped)] if service.mapped_k else []
        work += [("best attacker", 0, guessed)] if service.protection is not None else []
        common = {"dataset": dataset, "service": name, "city": city, "seed": scope.seed}
        rows += [common | {"by": by, "run": run, "users": count} for by, run, count in work]
    return rows


def measure(dataset: Dataset, *, service: str, city: int, by: str, users: int, seed: int, run: int) -> dict[str, Any]:
    """Attack some users, or map all of them, or guess from what is published."""
    kind = SERVICES[service]
    wanted = users if by == "campaign" else city
    known = _some(dataset, wanted, generator(seed, 0, _CITY)) if wanted else dataset
    published = known.places
    if kind.protection is not None:
        name, setting = kind.protection
        mechanism = contender(name).fitted(setting, known, int(generator(seed, run, _NOISE).integers(2**31)))
        published = mechanism.perturb(known.places)
        if by == "best attacker":
            sizes = Sizes(targets=users, named=users)
            return what_attackers_get(mechanism, known.places, published, sizes=sizes, seed=seed, run=run)
    behind = attack_experiment.Service(
        region=known.region, places=published, answers=Answers.parse(kind.answers),
        policy=AnswerPolicy.parse(kind.policy) if kind.policy else AnswerPolicy(),
        seed=int(generator(seed, run, _ORACLE).integers(2**31)),
    )  # fmt: skip
    if by == "campaign":
        return _map(behind, kind.mapped_k, seed)
    targets = generator(seed, run, _TARGETS).permutation(len(known.places))[:users].tolist()
    return _attack(behind, known.region.to_metres(known.places), kind.k, targets, generator(seed, run, _STARTS))


def _some(dataset: Dataset, users: int, rng: np.random.Generator) -> Dataset:
    """The same users for every service."""
    count = len(dataset.places)
    return replace(dataset, places=dataset.places[np.sort(rng.choice(count, min(users, count), replace=False))])


def _attack(
    behind: attack_experiment.Service, true_m: FloatArray, k: int, targets: Sequence[int], rng: np.random.Generator
) -> dict[str, Any]:
    """Attack users, who are the same through every service; whom no list shows is not found."""
    k = min(k or len(true_m), len(true_m))
    drawn = [Instance((0.0, 0.0), target) for target in targets]
    if behind.answers.is_list:
        opened = behind.open()
        starts = [_start(opened, behind.served_m, target, k, rng) for target in targets]
        # More users than a list takes may be at one point of a grid.
        drawn = [start for start in starts if start is not None]
    attack = Adaptive.for_region(behind.region, tau_m=TAU_M, accounts=_ACCOUNTS)
    results = behind.attack(AttackSetup(attack, _ACCOUNTS), k, drawn)
    attempts = [compare(*one, behind, true_m=true_m) for one in zip(results, drawn, strict=True)]
    known = [one for one, result in zip(attempts, results, strict=True) if result.estimate is not None]
    certified = [one for one in attempts if one.certified]
    return {
        "users": len(targets), "unlisted": len(targets) - len(drawn),
        "found": sum(one.error_m <= TAU_M for one in known) / len(targets),
        "queries": float(np.mean([one.queries for one in attempts])) if attempts else None,
        "certified": len(certified) / len(targets), "false": sum(one.served_error_m > TAU_M for one in certified),
    }  # fmt: skip


def _start(
    behind: SimulatedService, served_m: FloatArray, target: int, k: int, rng: np.random.Generator
) -> Instance | None:
    """A location where the target is listed, near it or, where it lives alone, at its own."""
    for around in (min(_AROUND, len(served_m)), 1):
        with suppress(UsageError):
            return instances_of_person(behind, served_m, target, k=k, count=1, rng=rng, around=around)[0]
    return None


def _map(behind: attack_experiment.Service, k: int, seed: int) -> dict[str, Any]:
    served_m = behind.served_m
    campaign = Campaign(
        half_extent_m=behind.region.half_extent_m, tau_m=TAU_M, most_queries=2 * len(served_m), seed=seed
    )
    oracle = behind.open().oracle(k=min(k, len(served_m)), accounts=0, most_queries=2 * len(served_m))
    result = campaign.run(oracle)
    errors_m = np.hypot(*(result.estimates_m - served_m[np.array(result.people, dtype=np.int64)]).T)
    return {"queries": result.queries, "located": int((errors_m <= TAU_M).sum())}


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each population and service, with intervals over users."""
    rows = []
    for (dataset, name), group in runs.groupby(["dataset", "service"], sort=False):
        parts = dict(list(group.groupby("by")))
        attacked = parts["attack"]
        each = int(attacked["users"].iloc[0])
        row = {"dataset": dataset, "service": name, "users": int(attacked["users"].sum())}
        row |= {"queries": mean_over_runs(attacked["queries"].dropna().tolist())}
        row |= {of: share_over_runs((attacked[of] * each).tolist(), each) for of in ("found", "certified")}
        row |= {of: int(attacked[of].sum()) for of in ("false", "unlisted")}
        mapped, best = (parts[by].iloc[0] if by in parts else None for by in ("campaign", "best attacker"))
        row["campaign"] = None if mapped is None or not mapped["located"] else mapped["queries"] / mapped["located"]
        row["located"] = None if mapped is None else mapped["located"] / mapped["users"]
        row["exposed"] = None if best is None else _share(best["found"], int(best["targets"]))
        row["named"] = None if best is None else _share(best["named_sparsest"], int(best["sparsest_cases"]))
        rows.append(row)
    return pd.DataFrame(rows)


def _share(value: float, cases: int) -> Share:
    return share_over_runs([float(value) * cases], cases)


def tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return what is read."""
    names = {
        "queries": "queries to find a user", "found": "found within 100 m", "false": "false certificates",
        "campaign": "queries for each of all users", "located": "located by the campaign",
        "exposed": "best attacker finds within 100 m", "named": "named in the sparsest tenth",
    }  # fmt: skip
    found = summary(runs).rename(columns=names).astype(object)
    idle = ["unlisted", "dataset"] if found["dataset"].nunique() == 1 else ["unlisted"]
    return {"services": found.where(found.notna(), None).drop(columns=idle)}


def facts(runs: pd.DataFrame) -> dict[str, Any]:
    """Return how many services without noise give most users away, and what the best attacker finds with noise."""
    found = summary(runs)
    bare, hidden = found[found["exposed"].isna()], found[found["exposed"].notna()]
    exposed = bare[[share.value >= _MOST for share in bare["found"]]]
    return {
        "bare": len(bare), "exposed": len(exposed),
        "most_queries": max((mean.value for mean in exposed["queries"]), default=None),
        "unlisted": {row["service"]: (row["unlisted"], row["users"]) for _, row in bare.iterrows() if row["unlisted"]},
        "hidden": {row["service"]: (row["exposed"], row["named"]) for _, row in hidden.iterrows()},
        "mapped": int(runs.loc[runs["by"] == "campaign", "users"].max()),
        "users": int(found["users"].max()), "slow_users": int(found["users"].min()),
        "guessed": int(runs["targets"].max()),
    }  # fmt: skip


def populations() -> dict[str, Dataset]:
    """Return the city that commands show things on."""
    region = named_region("san-francisco")
    return {CITY: Dataset(CITY, region, synthetic_city(PEOPLE, region, rng=SEED), "generated")}


PART = Part("services", "Defenses that services use today, judged", grid, measure, tables, facts, populations)
