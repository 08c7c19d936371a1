"""The city of ``nearveil demo``, and three services that have its people: an open one and two protected ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import AttackResult
from nearveil.cli.attack_pictures import draw_one
from nearveil.cli.made_up_city import PEOPLE
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, AttackRow, compare
from nearveil.evaluation.attack_trials import Contender, Instance, Trial, contenders, run_trials
from nearveil.evaluation.best_attacker import BestAttacker, measure_best_attacker
from nearveil.evaluation.utility import (
    Displacement,
    QueryProtocol,
    Utility,
    draw_queries,
    measure_utility,
    summarise_displacement,
)
from nearveil.io.atomic import replacing
from nearveil.io.datasets import Dataset
from nearveil.io.files import write_people
from nearveil.io.people import Layout, People, Place
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.region import named_region
from nearveil.report.before_after import AttackedService, draw_before_after
from nearveil.server.console.demonstration import made_up_people
from nearveil.types import FloatArray, Progress

INSTANCES = 40
QUERIES = 2_000
K = 10
PROTOCOLS: tuple[QueryProtocol, ...] = ("uniform", "users")
EPSILON = 1.0
HIDE_WITHIN_M = 500.0

_CENTRES = 800
_ATTACKS = {"gi-lia": "GI-LIA", "adaptive": "adaptive, 1 account", "unfolding": "unfolding"}
_SURE_WITHIN_M = 10.0
_ACCOUNTS = 4
_A_WALK_M = 500.0


@dataclass(slots=True, eq=False)
class Service:
    """A service that has the city's people, and what attacks on it found.

    Attributes
    ----------
    rows : list of AttackRow
        How each attack did.
    misses_m : dict
        For each attack how far east and north of the person every estimate is; the start where there is none.
    best : BestAttacker or None
        What the Bayes attacker gets from one published place.
    """

    name: str
    setting: str
    experiment: AttackExperiment
    rows: list[AttackRow] = field(default_factory=list)
    misses_m: dict[str, FloatArray] = field(default_factory=dict)
    best: BestAttacker | None = None

    @property
    def mechanism(self) -> Mechanism | None:
        """What protects its people."""
        return self.experiment.published(0).mechanism

    @property
    def served(self) -> FloatArray:
        """Where it has people, in degrees."""
        return self.experiment.published(0).served

    @property
    def moved(self) -> Displacement:
        """How far that is from where they are."""
        return summarise_displacement(self.experiment.dataset.places, self.served)

    @property
    def most_found(self) -> str:
        """How many people the most successful of the attacks found."""
        return f"{round(INSTANCES * max(row.score.acc.value for row in self.rows))} of {INSTANCES}"

    def record(self, trial: Trial, results: Sequence[AttackResult]) -> None:
        """Put the results of one attack beside the truth."""
        experiment, attack = self.experiment, trial.contender
        true_m, pairs = experiment.true_m, list(zip(results, trial.instances, strict=True))
        attempts = [
            compare(
                result, instance, true_m=true_m, served_m=trial.setup.served_m,
                half_extent_m=trial.setup.region.half_extent_m, tau_m=experiment.protocol.tau_m,
            )
            for result, instance in pairs
        ]  # fmt: skip
        self.rows.append(experiment.row(K, attack, [attempts]))
        guesses = np.array(
            [instance.start if result.estimate is None else result.estimate for result, instance in pairs]
        )
        self.misses_m[_ATTACKS[attack.attack.name]] = guesses - true_m[[instance.target for _, instance in pairs]]


class City:
    """People who are attacked through three services: one of them alone, and many."""

    def __init__(self, seed: int, cores: int) -> None:
        self._seed, self._cores = seed, cores
        region = named_region("san-francisco")
        self.people = Dataset("a made-up city", region, made_up_people(region, PEOPLE, seed))
        self.protocol = AttackProtocol(runs=1, instances=INSTANCES, seed=seed)
        self._fighters = contenders(tuple(_ATTACKS), region, colluders=(1,), tau_m=self.protocol.tau_m)
        self.open = self._service("open", "true places", None)
        self.paper = self._service(
            "the paper's DPRS", f"epsilon = {EPSILON:g}",
            DPRS(release="paper", epsilon=EPSILON, centres=_CENTRES, region=region),
        )  # fmt: skip
        self.default = self._service(
            "planar Laplace", f"hide within {HIDE_WITHIN_M:g} m",
            PlanarLaplace(hide_within_m=HIDE_WITHIN_M, region=region),
        )  # fmt: skip
        self.true_m = self.open.experiment.true_m
        # Somebody about a walk away, not next door and not out in the country.
        self.instance = min(
            self.open.experiment.instances(0, K),
            key=lambda one: abs(math.dist(one.start, self.true_m[one.target]) - _A_WALK_M),
        )

    def _service(self, name: str, setting: str, mechanism: Mechanism | None) -> Service:
        return Service(name, setting, AttackExperiment(self.people, self.protocol, mechanism))

    @property
    def services(self) -> tuple[Service, Service, Service]:
        """The open one, that of the paper, and what Nearveil does by default."""
        return self.open, self.paper, self.default

    def protect(self, progress: Progress) -> None:
        """Publish everybody's place in the protected services."""
        for service in (self.paper, self.default):
            service.experiment.publish_all(progress)

    def attack_one(self, service: Service) -> AttackResult:
        """Attack the one person, with several accounts and a tight certificate, from where the service lists them."""
        half_extent_m = self.people.region.half_extent_m
        attack = Adaptive(half_extent_m=half_extent_m, tau_m=_SURE_WITHIN_M, colluders=_ACCOUNTS)
        setup = service.experiment.setup(0)
        trial = Trial(setup, Contender(attack, _ACCOUNTS), K, (self._start(service),))
        return trial.run_one(0, setup.open())

    def _start(self, service: Service) -> Instance:
        if service.mechanism is None:
            return self.instance
        try:
            return service.experiment.instances(0, K, self.instance.target)[0]
        except UsageError:
            # Published so far off that nobody near lists them.
            return self.instance

    @property
    def attacks_in_all(self) -> int:
        """How many attacks `attack_many` makes."""
        return len(self.services) * len(self._fighters) * INSTANCES

    def attack_many(self, progress: Progress) -> None:
        """Attack people of each service from the same places."""
        for service in self.services:
            setup, instances = service.experiment.setup(0), service.experiment.instances(0, K)
            trials = [Trial(setup, fighter, K, instances) for fighter in self._fighters]
            for trial, results in zip(trials, run_trials(trials, cores=self._cores, progress=progress), strict=True):
                service.record(trial, results)

    def guess_best(self, progress: Progress) -> None:
        """Let the Bayes attacker guess from the published places of both protected services."""
        for service in (self.paper, self.default):
            service.best = measure_best_attacker(service.experiment, progress)

    def utility(self, service: Service) -> list[Utility]:
        """How many true neighbours the lists of a service still have."""
        region, rng = self.people.region, np.random.default_rng(self._seed)
        served_m = region.to_metres(service.served)
        found = []
        for protocol in PROTOCOLS:
            queries = draw_queries(self.true_m, region, protocol, QUERIES, rng)
            found.append(measure_utility(self.true_m, served_m, queries, k=K))
        return found

    def draw(self, result: AttackResult, service: Service, picture: Path, page: Path | None) -> None:
        """Draw the attack on the one person."""
        draw_one(result, service.experiment, self.instance.target, picture, page, tau_m=_SURE_WITHIN_M, force=True)


def write_files(city: City, out: Path) -> None:
    """Draw the attacks on all services, and write the city's people."""
    tau_m = city.protocol.tau_m
    columns = [
        AttackedService(
            title=_title(city, service),
            found=f"{service.most_found} found within {tau_m:g} m",
            places=service.served,
            protected=service.mechanism is not None,
            misses_m=service.misses_m,
            intervals=service.mechanism.current_intervals if isinstance(service.mechanism, DPRS) else None,
        )
        for service in city.services
    ]
    with replacing(out / "before-after.png", force=True) as partial:
        draw_before_after(
            columns,
            city.people.region,
            partial,
            title=f"The same attacks on three services that have the same {PEOPLE:,} made-up people",
            tau_m=tau_m,
        )
    for name, places in (("people.csv", city.people.places), ("published.csv", city.default.served)):
        write_people(_as_people(places), out / name, force=True)


def _title(city: City, service: Service) -> str:
    words = f"{service.name[0].upper()}{service.name[1:]}, {service.setting}"
    return f"{words} (its claim does not hold)" if service is city.paper else words


def _as_people(places: FloatArray) -> People:
    layout = Layout(latitude=Place("latitude", 1), longitude=Place("longitude", 2))
    return People(places.round(6), pa.table({"person": np.arange(1, len(places) + 1)}), layout)
