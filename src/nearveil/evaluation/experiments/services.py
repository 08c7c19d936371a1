"""Defences that services use today: the same city behind rounding, bands, filters and lists, and behind noise.

The same people are looked for through every service, by the adaptive attack. Where people are protected, the Bayes
attacker stands beside it: the best guess from what is published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from nearveil.attacks.answers import Answers
from nearveil.attacks.policies import PRESETS, AnswerPolicy
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import (
    AttackExperiment,
    AttackProtocol,
    AttackScore,
    Instance,
    ScoredAttack,
    instances_of_person,
    score_attempts,
    set_up_attacks,
)
from nearveil.evaluation.best_attacker import TARGETS, measure_best_attacker
from nearveil.evaluation.campaign import attack_campaign
from nearveil.evaluation.cells import TAU_M, publish, ready
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.experiments.scope import SHARE_NOTE, Results, Scope
from nearveil.evaluation.families import among_family
from nearveil.evaluation.results import Column, DotPanel, DotPlot, Dots, ExperimentResult, Table, Value, exact
from nearveil.evaluation.runner import Cell, Result
from nearveil.evaluation.stats import Mean, Share, share_over_runs
from nearveil.io.datasets import Dataset, DatasetName
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.region import named_region

NAME = "services"
TITLE = "Defences that services use today, judged"

CITY = "demo city"
ACCOUNTS = 4
"""Accounts of the attacker where a service lists people."""
K = 10
MAPPED_PEOPLE = 5000
"""How many people a campaign maps: 25,000 take minutes."""

_EVERYBODY = 0
_MAPPED_K = 50
_AROUND = 21
_QUICK_PEOPLE = 400
_QUICK_TARGETS = 100
_TARGET_STREAM, _PEOPLE_STREAM = 11, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A kind of service.

    Attributes
    ----------
    label : str
        What tables and pictures call it.
    answers, policy : str
        What it answers, and what it does to lists; as on the command line of ``nearveil attack``.
    k : int
        How many people a list has; 0 for everybody whom the policy leaves.
    mapped_k : int
        How many people of each list a campaign uses; 0 where lists have no order that one could use.
    defence : Defence or None
        What publishes people's places.
    """

    label: str
    answers: str = "list"
    policy: str = ""
    k: int = K
    mapped_k: int = 0
    defence: Defence | None = None

    @property
    def name(self) -> str:
        """Its settings, for tables."""
        if self.defence is not None:
            return self.defence.parameter
        return self.policy or self.answers


def _preset(name: str, label: str, mapped_k: int) -> Service:
    shape = PRESETS[name]
    return Service(
        label=f"{label} ({name})", policy=str(shape.policy), k=_EVERYBODY if shape.lists_everybody else K,
        mapped_k=mapped_k,
    )  # fmt: skip


SERVICES = (
    _preset("sort-by-distance", f"ranked list of {K}", K),
    Service(label=f"ranked list of {K}, snapped to 100 m", policy="snap:100m", mapped_k=K),
    _preset("three-decimals", f"ranked list of {K}, 111 m grid", K),
    Service(label=f"list of {K}, ordered by bands of 500 m", policy="bands:500m"),
    _preset("nearest-50-or-30km", "list of all within 30 km", _MAPPED_K),
    _preset("check-in-500m", "list of all within 500 m, no order", 0),
    Service(label='"1 km away"', answers="distance:1km"),
    Service(label='"within 5 km": yes or no', answers="filter:5km-fixed"),
    Service(label="circle of 2 km or more: yes or no", answers="circle:2km"),
)
"""Services without noise, as people build them."""

PROTECTED = (
    Service(
        label=f"ranked list of {K}, noise of 500 m",
        defence=Defence(label="planar Laplace", mechanism="planar-laplace", noise_m=500.0, region="isotropic"),
        mapped_k=K,
    ),
    Service(
        label=f"ranked list of {K}, hidden among 100",
        defence=replace(among_family("privtree").members[0], hide_among=100),
        mapped_k=K,
    ),
)
"""The same with noise."""


# What is measured.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCell(Cell):
    """Some people of a city, behind one service; ``people`` limits how many the city has, 0 for all."""

    answers: str
    policy: str
    defence: Defence | None
    people: int

    def city(self, dataset: Dataset) -> Dataset:
        """The people behind the service."""
        if not 0 < self.people < len(dataset.places):
            return dataset
        # The same in every run, as all people are.
        rows = np.random.default_rng([self.seed, _PEOPLE_STREAM]).choice(
            len(dataset.places), self.people, replace=False
        )
        return replace(dataset, places=dataset.places[np.sort(rows)])

    def experiment(self, city: Dataset, instances: int = 1) -> AttackExperiment:
        """The service in every run."""
        protocol = AttackProtocol(
            runs=self.run + 1, instances=instances, tau_m=TAU_M, seed=self.seed, policy=_policy(self.policy)
        )
        mechanism = None if self.defence is None else ready(self.defence, city, self.run_seed)
        return AttackExperiment(city, protocol, mechanism, Answers.parse(self.answers))


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCell(ServiceCell):
    """The adaptive attack on some people, one after another."""

    k: int
    instances: int

    @property
    def seconds(self) -> float:
        """Answers about one person take more thought, and so do lists that are not plain."""
        each = 0.4 if self.answers != "list" else 1.0 if self.policy else 0.1
        return 1.0 + each * self.instances

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Attack them; the result has every attempt, to be put together with those of other runs."""
        city = self.city(dataset)
        experiment = self.experiment(city, self.instances)
        k = self.k or len(city.places)
        (setup,) = set_up_attacks(
            ["adaptive"], city.region, colluders=[ACCOUNTS], tau_m=TAU_M, answers=experiment.answers
        )
        attempts = experiment.attempts(self.run, setup, k, self._instances(experiment, k))
        return {"attempts": [astuple(attempt) for attempt in attempts]}

    def _instances(self, experiment: AttackExperiment, k: int) -> tuple[Instance, ...]:
        """The same people for every service; for lists from a place near them where they are listed."""
        rng = self.rng(_TARGET_STREAM)
        targets = rng.permutation(len(experiment.true_m)).tolist()
        if not experiment.answers.is_list:
            return tuple(Instance((0.0, 0.0), target) for target in targets[: self.instances])
        setup, found = experiment.service(self.run), list[Instance]()
        service = setup.open()
        for target in targets:
            if len(found) == self.instances:
                break
            # Nobody may be near enough to somebody who lives alone, but they are near themselves.
            for around in (min(_AROUND, len(targets)), 1):
                try:
                    found += instances_of_person(service, setup.served_m, target, k=k, count=1, rng=rng, around=around)
                except UsageError:
                    # In no list: more people than it takes may be at the same point of a grid.
                    continue
                break
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCell(ServiceCell):
    """A campaign: everybody at once."""

    k: int

    @property
    def seconds(self) -> float:
        """By the number of people."""
        return 0.006 * self.people

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Map everybody where the service has them."""
        city = self.city(dataset)
        places = city.places if self.defence is None else publish(city, self.defence, self.run_seed).places
        found = attack_campaign(
            places, region=city.region, k=self.k, policy=_policy(self.policy), tau_m=TAU_M, further=0,
            seed=self.run_seed, cores=1,
        )  # fmt: skip
        return {"questions": found.result.questions, "located": found.located, "people": found.people}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessCell(ServiceCell):
    """The Bayes attacker on a protected service, on each person alone and on everybody at once."""

    targets: int

    @property
    def seconds(self) -> float:
        """Mostly matching everybody."""
        return 30.0 + 0.04 * self.targets if not self.people else 10.0

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Guess from what is published in the run."""
        experiment = self.experiment(self.city(dataset))
        found: dict[str, Any] = {}
        for name, joint in (("alone", False), ("joint", True)):
            best = measure_best_attacker(experiment, targets=self.targets, joint=joint)
            if best is not None:
                found |= {f"{name} found": best.found.value, f"{name} named": best.named.value, "targets": best.targets}
        return found


def _policy(text: str) -> AnswerPolicy:
    return AnswerPolicy.parse(text) if text else AnswerPolicy()


def generated_populations() -> dict[str, Dataset]:
    """Return the city that commands show things on."""
    region = named_region("san-francisco")
    return {CITY: Dataset(CITY, region, synthetic_city(PEOPLE, region, rng=SEED), "generated")}


def cells(scope: Scope) -> list[Cell]:
    """Everything that is measured, for each population and service."""
    found: list[Cell] = []
    for dataset in _populations(scope):
        for service in (*SERVICES, *PROTECTED):
            found += _find_cells(scope, dataset, service)
            found += [cell for cell in (_map_cell(scope, dataset, service),) if cell is not None]
            found += [cell for cell in (_guess_cell(scope, dataset, service),) if cell is not None]
    return found


def _populations(scope: Scope) -> list[str]:
    """One's own people where there are any, else a made-up city."""
    papers = {name.value for name in DatasetName}
    return [name for name in scope.datasets if name not in papers] or [CITY]


def _common(scope: Scope, dataset: str, service: Service) -> dict[str, Any]:
    return {
        "dataset": dataset, "seed": scope.seed, "answers": service.answers, "policy": service.policy,
        "defence": service.defence, "people": _QUICK_PEOPLE if scope.quick else 0,
    }  # fmt: skip


def _find_cells(scope: Scope, dataset: str, service: Service) -> list[FindCell]:
    about = _common(scope, dataset, service)
    return [FindCell(**about, run=run, k=service.k, instances=scope.instances) for run in scope.each_run()]


def _map_cell(scope: Scope, dataset: str, service: Service) -> MapCell | None:
    if not service.mapped_k or (scope.quick and (service.policy or service.defence)):
        return None
    about = _common(scope, dataset, service)
    about["people"] = about["people"] or MAPPED_PEOPLE
    return MapCell(**about, run=0, k=service.mapped_k)


def _guess_cell(scope: Scope, dataset: str, service: Service) -> GuessCell | None:
    if service.defence is None:
        return None
    return GuessCell(**_common(scope, dataset, service), run=0, targets=_QUICK_TARGETS if scope.quick else TARGETS)


# What came out.


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """How a service did.

    Attributes
    ----------
    score : AttackScore
        Of the attack on one person after another.
    campaign : float or None
        Questions of a campaign for each person located where the service has them; None where lists allow none.
    mapped : float or None
        Share of everybody located by it.
    guessed, matched : Share or None
        Share that the Bayes attacker has within 100 m, one alone and everybody at once; None where nothing protects.
    """

    dataset: str
    service: Service
    score: AttackScore
    campaign: float | None
    mapped: float | None
    guessed: Share | None
    matched: Share | None

    @property
    def per_person(self) -> float:
        """Questions for each person of the whole city: of the campaign, or one attack after another."""
        return self.score.queries.value if self.campaign is None else self.campaign

    @property
    def most_found(self) -> Share:
        """What the best of the attackers here finds."""
        attackers = [one for one in (self.score.acc, self.guessed, self.matched) if one is not None]
        return max(attackers, key=lambda share: share.value)


def judged_services(scope: Scope, results: Results) -> list[Judged]:
    """Return a row for each population and service."""
    return [
        _judged(scope, results, dataset, service)
        for dataset in _populations(scope)
        for service in (*SERVICES, *PROTECTED)
    ]


def _judged(scope: Scope, results: Results, dataset: str, service: Service) -> Judged:
    runs = [
        [ScoredAttack(*values) for values in results[cell]["attempts"]] for cell in _find_cells(scope, dataset, service)
    ]
    mapped, guessed = _map_cell(scope, dataset, service), _guess_cell(scope, dataset, service)
    campaign = None if mapped is None else results[mapped]
    guesses = None if guessed is None else results[guessed]
    return Judged(
        dataset,
        service,
        score_attempts(runs, tau_m=TAU_M, k=0, farthest_m=1.0),
        None if not campaign or not campaign["located"] else campaign["questions"] / campaign["located"],
        None if campaign is None else campaign["located"] / campaign["people"],
        _share(guesses, "alone found"),
        _share(guesses, "joint found"),
    )


def _share(guesses: Result | None, name: str) -> Share | None:
    if guesses is None or name not in guesses:
        return None
    return share_over_runs([guesses[name] * guesses["targets"]], guesses["targets"])


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Put the services side by side."""
    rows = judged_services(scope, results)
    attacks = scope.runs * scope.instances
    protocol = (
        f"{attacks:,} people of each population, the same for every service: {scope.instances} in each of "
        f"{scope.description}. The adaptive attack, not told how the service rounds or what it does to lists. Through "
        f"lists it has {ACCOUNTS} accounts, which the service has exactly where they are put, and begins within 100 m "
        f"of one of the {_AROUND} people nearest to the target, where the target is listed; people whom no list shows "
        "are left out. Other answers need no account and no place to begin. Found: within 100 m of where the person "
        "truly is. Certified: the attack says that nothing else is possible; false: the service does not have the "
        "person within 100 m of there. Everybody: questions of a campaign without accounts, against a service with "
        f"{_QUICK_PEOPLE if scope.quick else MAPPED_PEOPLE:,} of the people, over those whom it locates within 100 m "
        "of where the service has them (one campaign); where there is no campaign, one attack after another. Bayes "
        "attacker: knows the noise and every address, but not who lives "
        f"where; from the published locations of run 1{'' if scope.quick else f', {TARGETS:,} people'}. {SHARE_NOTE}"
    )
    columns = (
        Column("dataset"), Column("service"), Column("settings"),
        Column("questions", "one person", ".1f"), Column("found", "one person"), Column("certified", "one person"),
        Column("false", "one person", "d"),
        Column("questions each", "everybody", ".2f"), Column("how", "everybody"), Column("located", "everybody"),
        Column("one alone", "Bayes attacker finds"), Column("all at once", "Bayes attacker finds"),
    )  # fmt: skip
    table = Table(
        NAME,
        "What a service answers and what that gives away: questions to find a person, share found within 100 m, and "
        "questions for each person of the whole city.",
        columns,
        tuple(_line(row) for row in rows),
        protocol,
    )
    question = (
        "Services round distances, snap locations to grids and answer only yes or no. Does that hide anybody, and "
        "what does?"
    )
    pictures = tuple(_picture(rows, dataset, first=number == 0) for number, dataset in enumerate(_populations(scope)))
    return ExperimentResult(NAME, TITLE, question, (table,), pictures, _remarks(rows))


def _line(row: Judged) -> tuple[Value, ...]:
    score = row.score
    return (
        row.dataset, row.service.label, row.service.name, score.queries, score.acc, score.certified,
        score.false_certificates, row.per_person, "one by one" if row.campaign is None else "campaign", row.mapped,
        row.guessed, row.matched,
    )  # fmt: skip


_ATTACK = "adaptive attack, on one person"
_BAYES = "Bayes attacker, from what is published"
_CAMPAIGN = "campaign, for each of all people"


def _picture(rows: Sequence[Judged], dataset: str, *, first: bool) -> DotPlot:
    own = [row for row in rows if row.dataset == dataset]
    found = DotPanel(
        "People found within 100 m",
        "share of people",
        (
            Dots(_ATTACK, tuple(row.score.acc for row in own), ".1%"),
            Dots(_BAYES, tuple(row.guessed for row in own), ".1%"),
        ),
    )
    asked = DotPanel(
        "Questions that it takes",
        "questions (logarithmic)",
        (
            Dots(_ATTACK, tuple(row.score.queries for row in own), ".1f"),
            Dots(_CAMPAIGN, tuple(_campaign(row) for row in own), ".2f"),
        ),
        log_x=True,
    )
    return DotPlot(
        NAME if first else f"{NAME}-{dataset}",
        _headline(own),
        (
            ("Without noise", tuple(service.label for service in SERVICES)),
            ("With noise", tuple(service.label for service in PROTECTED)),
        ),
        (found, asked),
        "For each kind of service: share of people found within 100 m, and questions that it takes to find one person "
        "and everybody.",
    )


def _campaign(row: Judged) -> Mean | None:
    return None if row.campaign is None else exact(row.campaign)


def _headline(rows: Sequence[Judged]) -> str:
    bare = [row for row in rows if row.service.defence is None]
    hidden = [row for row in rows if row.service.defence is not None]
    exposed = [row for row in bare if row.score.acc.value >= 0.5]
    best = max(row.most_found.value for row in hidden)
    if not exposed:
        return f"What services give away: with noise the best attacker finds {best:.0%}"
    most = max(row.score.queries.value for row in exposed)
    return (
        f"{len(exposed)} of {len(bare)} services without noise let most people be found, with {most:.0f} questions on "
        f"average or fewer; with noise the best attacker finds {best:.0%}"
    )


def _remarks(rows: Sequence[Judged]) -> tuple[str, ...]:
    found = []
    for row in rows:
        score = row.score
        each = f"; a campaign takes {row.campaign:.2f} for each person" if row.campaign is not None else ""
        said = (
            f"{row.service.label}: {score.acc.value:.0%} found within 100 m, with {score.queries.value:.1f} questions "
            f"on average{each}"
        )
        if row.guessed is not None:
            said += f"; the Bayes attacker finds {row.guessed.value:.0%}"
        found.append(f"{said}.")
    return tuple(found)
