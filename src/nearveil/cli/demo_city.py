"""The city of ``nearveil demo``: open, and protected."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.result import AttackResult
from nearveil.cli.attack_pictures import draw_one
from nearveil.cli.made_up_city import PEOPLE
from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, AttackRow
from nearveil.evaluation.attack_trials import Trial
from nearveil.evaluation.contenders import Contender, contenders
from nearveil.evaluation.utility import QueryProtocol, Utility, draw_queries, measure_utility
from nearveil.io.atomic import replacing
from nearveil.io.datasets import Dataset
from nearveil.io.files import write_people
from nearveil.io.people import Layout, People, Place
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.dprs import DPRS
from nearveil.region_names import named_region
from nearveil.report.before_after import draw_before_after
from nearveil.types import FloatArray, Progress

INSTANCES = 40
QUERIES = 2_000
K = 10
PROTOCOLS: tuple[QueryProtocol, ...] = ("uniform", "users")

_ATTACKS = ("gi-lia", "adaptive", "unfolding")
_SURE_WITHIN_M = 10.0
_ACCOUNTS = 4
_A_WALK_M = 500.0


class City:
    """People, one of whom is attacked twice and many of whom are attacked once, before and after protection."""

    def __init__(self, seed: int, cores: int) -> None:
        self._seed, self._cores = seed, cores
        region = named_region("san-francisco")
        self.people = Dataset("a made-up city", region, synthetic_city(PEOPLE, region, rng=seed))
        self.protocol = AttackProtocol(runs=1, instances=INSTANCES, seed=seed)
        self._fighters = contenders(_ATTACKS, region, colluders=(1,), tau_m=self.protocol.tau_m)
        self.open = AttackExperiment(self.people, self.protocol, None)
        # Somebody about a walk away, not next door and not out in the country.
        self.instance = min(
            self.open.instances(0, K),
            key=lambda one: abs(math.dist(one.start, self.open.true_m[one.target]) - _A_WALK_M),
        )
        self.rows: list[list[AttackRow]] = []

    def protect(self, progress: Progress) -> None:
        """Protect everybody; once more for a service that moves the attacker's accounts as well."""
        mechanism = DPRS(release="metric", region=self.people.region)
        strict = AttackProtocol(runs=1, instances=INSTANCES, seed=self._seed, published_colluders=True)
        self.closed = AttackExperiment(self.people, self.protocol, mechanism).publish_all(progress)
        self.closed_to_accounts = AttackExperiment(self.people, strict, mechanism).publish_all(progress)

    @property
    def mechanism(self) -> DPRS:
        """What protects the city."""
        return cast(DPRS, self.closed.published(0).mechanism)

    def attack_one(self, experiment: AttackExperiment) -> AttackResult:
        """Attack the one person, with several accounts and a tight certificate."""
        half_extent_m = self.people.region.half_extent_m
        attack = Adaptive(half_extent_m=half_extent_m, tau_m=_SURE_WITHIN_M, colluders=_ACCOUNTS)
        setup = experiment.setup(0)
        return Trial(setup, Contender(attack, _ACCOUNTS), K, (self.instance,)).run_one(0, setup.open())

    @property
    def attacks_in_all(self) -> int:
        """How many attacks `attack_many` makes."""
        return 3 * len(self._fighters) * INSTANCES

    def attack_many(self, progress: Progress) -> None:
        """Attack the same people in the open city, the protected one, and the one that moves accounts as well."""
        for experiment in (self.open, self.closed, self.closed_to_accounts):
            self.rows.append(experiment.run(self._fighters, [K], cores=self._cores, progress=progress))

    @property
    def utility(self) -> list[Utility]:
        """How many true neighbours the published lists still have."""
        region, rng = self.people.region, np.random.default_rng(self._seed)
        served_m = region.to_metres(self.closed.published(0).served)
        found = []
        for protocol in PROTOCOLS:
            queries = draw_queries(self.open.true_m, region, protocol, QUERIES, rng)
            found.append(measure_utility(self.open.true_m, served_m, queries, k=K))
        return found

    def draw(self, result: AttackResult, experiment: AttackExperiment, picture: Path, page: Path | None) -> None:
        """Draw the attack on the one person."""
        draw_one(result, experiment, self.instance.target, picture, page, tau_m=_SURE_WITHIN_M, force=True)


def write_files(city: City, out: Path) -> None:
    """Draw the city before and after, and write its people."""
    true, served = city.people.places, city.closed.published(0).served
    with replacing(out / "before-after.png", force=True) as partial:
        draw_before_after(
            true,
            served,
            city.people.region,
            partial,
            title="Hidden within 500 m: noise, then the nearest point of the private discs",
            intervals=city.mechanism.current_intervals,
        )
    for name, places in (("people.csv", true), ("published.csv", served)):
        write_people(_as_people(places), out / name, force=True)


def _as_people(places: FloatArray) -> People:
    layout = Layout(latitude=Place("latitude", 1), longitude=Place("longitude", 2))
    return People(places.round(6), pa.table({"person": np.arange(1, len(places) + 1)}), layout)
