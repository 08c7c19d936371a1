"""Attack a nearby service: one user of it, or a population in numbers.

`attack` looks for one user through ranked lists or other answers, in a service that `simulate` makes or in anything
else that answers (`nearveil.attacks.oracle`). `attack_population` is the whole experiment of ``nearveil attack``: every
attack on the same users, run after run, and the Bayes attacker beside them where users are protected.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nearveil.attacks.adapter import Adapter, AdapterResult
from nearveil.attacks.answers import Answers
from nearveil.attacks.base import Attack, AttackResult
from nearveil.attacks.oracle import Oracle, PersonOracle, Point, point_of
from nearveil.attacks.policies import AnswerPolicy, as_policy
from nearveil.attacks.registry import attack_class, attacks_for
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.attack_experiment import (
    AttackExperiment,
    AttackProtocol,
    AttackRow,
    AttackSetup,
    Instance,
    set_up_attacks,
)
from nearveil.evaluation.tradeoff import BestAttacker, measure_best_attacker
from nearveil.html_card import html_card, html_table
from nearveil.io.atomic import replacing
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.nearby.index import Person
from nearveil.region import WHOLE_EARTH, Region, as_region, region_around
from nearveil.types import FloatArray, ProgressBar, no_bar

FROM_TRUE_PLACES = "Computed from true locations; do not publish."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackOutcome:
    """One attack on one user, beside the truth where it is known; found means within ``tau_m``.

    ``result`` is what the attack itself returned, in meters, with its trace. ``truth`` is where the user is, and
    ``published`` where a protected service publishes them, in meters; None where unknown or the same. ``people_m`` is
    where the service has its users, for pictures, which ``title`` heads.
    """

    # Nothing true is in the repr, which ends up in logs.
    result: AttackResult = field(repr=False)
    region: Region
    tau_m: float
    truth: Point | None = field(default=None, repr=False)
    published: Point | None = field(default=None, repr=False)
    people_m: FloatArray | None = field(default=None, repr=False)
    title: str = ""

    @property
    def estimate(self) -> tuple[float, float] | None:
        """Latitude and longitude where the person is believed to be; None if nothing is believed."""
        if self.result.estimate is None:
            return None
        return point_of(self.region.from_metres(np.array([self.result.estimate]))[0])

    @property
    def error_m(self) -> float | None:
        """From the estimate to where the person is; None without an estimate or without the truth."""
        estimate = self.result.estimate
        return None if estimate is None or self.truth is None else math.dist(estimate, self.truth)

    @property
    def found(self) -> bool:
        """Whether the estimate is within tau of the person."""
        return self.error_m is not None and self.error_m <= self.tau_m

    @property
    def questions(self) -> int:
        """How many questions the attack asked."""
        return self.result.queries

    @property
    def certified(self) -> bool:
        """Whether the answers leave no place but within tau of the estimate: of where the service has the person."""
        return self.result.certified

    @property
    def radius_m(self) -> float | None:
        """Everything that the answers leave possible is this near to the estimate; None if that is not known."""
        return self.result.radius_m

    def plot(self, path: str | Path, *, force: bool = False) -> None:
        """Draw the attack as ``.png``, or query by query as ``.gif`` or ``.html``. It shows where people truly are."""
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in (".png", ".gif", ".html"):
            raise UsageError(f"{path.name} does not name a picture of an attack; end it in .png, .gif or .html")
        if self.truth is None:
            raise UsageError("the picture shows how far off the attack is; give attack() the truth to draw it")
        require_package("matplotlib", "a picture of an attack")
        from nearveil.report import attack_figure, attack_gif, attack_page, attack_scene  # noqa: PLC0415

        people_m = np.empty((0, 2)) if self.people_m is None else self.people_m
        scene = attack_scene.Scene(self.result, self.region, people_m, self.truth, self.tau_m, self.published)
        draw = {".png": attack_figure.draw_attack, ".gif": attack_gif.draw_gif, ".html": attack_page.write_page}[kind]
        with replacing(path, force=force, private=True) as partial:
            draw(scene, partial, title=self.title)


def outcome_of(experiment: AttackExperiment, target: int, result: AttackResult, *, tau_m: float) -> AttackOutcome:
    """Put an attack on a user of an experiment's first run beside the truth."""
    service, protected = experiment.service(0), experiment.mechanism is not None
    return AttackOutcome(
        result=result, region=service.region, tau_m=tau_m, people_m=service.served_m,
        truth=point_of(experiment.true_m[target]),
        published=point_of(service.served_m[target]) if protected else None,
        title=f"{result.attack} on {experiment.dataset.name}" + (", protected" if protected else ""),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """A nearby service in memory, and the truth about its users, which attacks do not see."""

    experiment: AttackExperiment = field(repr=False)
    k: int

    @property
    def published(self) -> FloatArray:
        """Where the service has its users, latitude and longitude: true locations, or those of the mechanism."""
        return self.experiment.service(0).places


def simulate(
    points: object, *, region: Region | str | None = None, k: int = 10, mechanism: Mechanism | None = None,
    policy: AnswerPolicy | str | None = None, seed: int = 1, answers: str = "list",
) -> Simulation:  # fmt: skip
    """Return a nearby service in memory that lists the ``k`` nearest users, in order and without distances.

    Users are called by their row, from 0. With ``answers`` it says something else instead, about one user at a time.

    Parameters
    ----------
    points : array of shape (n, 2)
        Where its users are: latitude and longitude in degrees.
    region : Region or str, optional
        Public; by default that of the mechanism, or a box around everybody.
    mechanism : Mechanism, optional
        Publishes everybody, and is fitted on them if it learns; without it the service answers from true locations.
    policy : AnswerPolicy or str, optional
        What is done to a list before it is shown, such as ``"snap:100m,drop:0.1"``; see `nearveil.attacks.policies`.
    seed : int
        Ties, starts and noise depend on it.
    answers : str
        ``"list"``; or a distance, rounded in a way that the attacker is not told (``"distance:1km"``,
        ``"distance:1mi"``, ``"distance:1km-floor"``), a band (``"bands:500m"``), or whether the user is within a
        radius: a multiple of a length (``"filter:1km"``), always the same (``"filter:5km-fixed"``), or any from a
        least one on (``"circle:2km"``).

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> points = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (500, 2))
    >>> nv.simulate(points, k=5)
    Simulation(k=5)
    """
    box, mechanism = in_service_region(region, mechanism, points)
    protocol = AttackProtocol(runs=1, instances=1, seed=seed, policy=as_policy(policy))
    data = Dataset("a simulated service", box, box.check(points))
    experiment = AttackExperiment(data, protocol, mechanism, Answers.parse(answers))
    experiment.check_k(k)
    return Simulation(experiment=experiment, k=k)


def attack(
    service: Simulation | Adapter | Oracle | PersonOracle, *,
    target: Person | tuple[float, float] | None = None, user: str | None = None, method: str | Attack = "adaptive",
    accounts: int = 1, tau_m: float = 100.0, start: tuple[float, float] | None = None,
    region: Region | str | None = None, truth: tuple[float, float] | None = None,
) -> AttackOutcome:  # fmt: skip
    """Look for one user through the answers of a service alone.

    Parameters
    ----------
    service : Simulation, Adapter, Oracle or PersonOracle
        What `simulate` or `nearveil.adapter` returns, or anything that answers; see
        `nearveil.attacks.oracle.CountedOracle`.
    target : int, str or (float, float), optional
        Whom to find; an oracle about one user knows it. With an adapter: where your test account truly is.
    user : str, optional
        With an adapter to lists: the id of your test account.
    method : str or Attack
        ``"adaptive"``, ``"gi-lia"``, ``"zo-lia"``, ``"unfolding"``, your own as ``"file.py:Class"``, or
        an attack that is set up already.
    accounts : int
        Accounts of the adaptive attacker; the other attacks take the number they need, and an oracle has its own.
    tau_m : float
        How near counts as found, and how sure the adaptive attacker has to be.
    start : (float, float), optional
        Latitude and longitude where the attack begins: a location where the target is listed. Needed with an oracle; a
        simulated service is searched for one. With other answers than lists: a location that the target is rather near;
        without it the target is taken to be anywhere in the region.
    region : Region or str, optional
        With an oracle: the service's public region.
    truth : (float, float), optional
        With an oracle: where the target is, to measure the error and to draw.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> points = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (500, 2))
    >>> outcome = nv.attack(nv.simulate(points), target=17)
    >>> outcome.found, outcome.certified, outcome.questions < 30
    (True, True, True)
    >>> hidden = nv.simulate(points, mechanism=nv.PlanarLaplace(noise_m=2000, seed=1))
    >>> nv.attack(hidden, target=17).found
    False
    """
    if isinstance(service, Simulation):
        if region is not None or truth is not None:
            raise UsageError("a simulated service knows its region and where people are; leave region and truth out")
        return _attack_simulation(service, target, method, accounts, tau_m, start)
    if isinstance(service, Adapter):
        if not isinstance(target, tuple):
            raise UsageError("say where your test account truly is: target=(latitude, longitude)")
        name = method if isinstance(method, str) else method.name
        return outcome_of_adapter(service.attack(target, user=user, region=region, method=name, tau_m=tau_m), tau_m)
    if isinstance(target, tuple):
        raise UsageError("target= is a location with an adapter only; name the user")
    if region is None:
        raise UsageError("say where the service is: region='berlin', a box, or a GeoJSON file")
    box = as_region(region)
    begin = None if start is None else point_of(box.to_metres([start])[0])
    setup = _attack_setup(method, box, len(service.accounts) if isinstance(service, Oracle) else 1, tau_m)
    if not isinstance(service, Oracle):
        result = setup.attack.locate(service, begin)
    elif begin is None or target is None:
        raise UsageError("say whom to find, and where the attack begins: target=..., start=(latitude, longitude)")
    else:
        result = setup.attack.infer(service, target, begin)
    known = None if truth is None else point_of(box.to_metres([truth])[0])
    return AttackOutcome(result=result, region=box, tau_m=tau_m, truth=known, title=f"{setup.attack.name} on a service")


def outcome_of_adapter(found: AdapterResult, tau_m: float) -> AttackOutcome:
    """Put an attack through an adapter beside the truth."""
    return AttackOutcome(
        result=found.result, region=found.region, tau_m=tau_m, truth=found.truth_m,
        title=f"{found.result.attack} on your service",
    )  # fmt: skip


def _attack_simulation(
    simulation: Simulation, target: Person | tuple[float, float] | None, method: str | Attack, accounts: int,
    tau_m: float, start: tuple[float, float] | None,
) -> AttackOutcome:  # fmt: skip
    experiment, k = simulation.experiment, simulation.k
    service, count = experiment.service(0), len(experiment.true_m)
    if isinstance(target, bool) or not isinstance(target, int | np.integer) or not 0 <= target < count:
        raise UsageError(f"there is no such person; people are called by their row, 0 to {count - 1:,}")
    begin = None if start is None else point_of(service.region.to_metres([start])[0])
    instance = experiment.instances(0, k, int(target))[0] if begin is None else Instance(begin, int(target))
    setup = _attack_setup(method, service.region, accounts, tau_m)
    (result,) = service.attack(setup, k, [instance], near=begin)
    return outcome_of(experiment, instance.target, result, tau_m=tau_m)


def _attack_setup(method: str | Attack, region: Region, accounts: int, tau_m: float) -> AttackSetup:
    if isinstance(method, Attack):
        return AttackSetup(method, max(accounts, method.accounts_needed))
    # An oracle may have accounts that the attack has no use for.
    wanted = max(accounts, attack_class(method).accounts_needed, 1)
    return set_up_attacks([method], region, accounts=[wanted], tau_m=tau_m)[0]


def in_service_region(
    region: Region | str | None, mechanism: Mechanism | None, points: object
) -> tuple[Region, Mechanism | None]:
    """Return the region of a service, given or the mechanism's or a box around everybody, and the mechanism in it."""
    own = mechanism.resolved_region if mechanism is not None and mechanism.has_region else None
    around = own or region_around(WHOLE_EARTH.check(points))
    box = around if region is None else as_region(region)
    if own is not None and not box.same_edges(own):
        raise UsageError("the mechanism is for another region than the service; give both the same region")
    return box, mechanism if mechanism is None or own is not None else mechanism.with_params(region=box)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PopulationAttack:
    """How attacks did on a population: a row for each k, attack and number of accounts.

    ``best`` is the Bayes attacker, the best guess from one published location; None where nothing protects.
    """

    rows: list[AttackRow]
    best: BestAttacker | None
    experiment: AttackExperiment = field(repr=False)
    attack_setups: list[AttackSetup] = field(repr=False)
    ks: Sequence[int]
    person: int | None

    def _repr_html_(self) -> str:
        """Return the table of all attacks, for a notebook."""
        from nearveil.report.tables import with_paper  # noqa: PLC0415

        table = html_table(*with_paper(self.rows, tau_m=self.experiment.protocol.tau_m))
        return html_card(f"Attacks on {self.experiment.dataset.name}", [], notes=[FROM_TRUE_PLACES], more=[table])

    def example(self) -> AttackOutcome:
        """Repeat the first attack, by the adaptive attacker if it took part, with all that can be drawn of it."""
        experiment, k = self.experiment, self.ks[0]
        chosen = next((one for one in self.attack_setups if one.attack.name == "adaptive"), self.attack_setups[0])
        first = experiment.instances(0, k, self.person)[:1]
        (result,) = experiment.service(0).attack(chosen, k, first)
        return outcome_of(experiment, first[0].target, result, tau_m=experiment.protocol.tau_m)


def attack_population(
    points: object, *, region: Region | str | None = None, name: str = "people", attacks: Sequence[str] | None = None,
    ks: Sequence[int] = (10,), accounts: Sequence[int] = (1,), mechanism: Mechanism | None = None,
    person: int | None = None, protocol: AttackProtocol | None = None, answers: str = "list", cores: int | None = None,
    progress: ProgressBar = no_bar,
) -> PopulationAttack:  # fmt: skip
    """Attack many users of a population, each attack the same ones, as ``nearveil attack`` does.

    Parameters
    ----------
    points, region, answers
        As in `simulate`. With other answers than lists the targets are anybody, and ``ks`` and ``accounts`` have no
        meaning.
    name : str
        What tables call the population.
    attacks : sequence of str
        Names as in `attack`; by default all of Nearveil's own that can use the answers.
    ks, accounts : sequence of int
        Lengths of lists, and numbers of the adaptive attacker's accounts, to try.
    mechanism : Mechanism, optional
        Protects everybody, anew in every run.
    person : int, optional
        Attack the user in this row alone.
    protocol : AttackProtocol, optional
        Runs, targets, tau and seed; by default the paper's.
    cores : int, optional
        Processes to use; all cores by default. Results do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> points = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (500, 2))
    >>> few = nv.AttackProtocol(runs=1, instances=3)
    >>> found = nv.attack_population(points, attacks=["gi-lia"], protocol=few, cores=1)
    >>> found.rows[0].attack, found.rows[0].score.acc.value
    ('gi-lia', 1.0)
    """
    protocol, used = protocol or AttackProtocol(), cores or os.cpu_count() or 1
    box, mechanism = in_service_region(region, mechanism, points)
    said = Answers.parse(answers)
    names = attacks_for(said) if attacks is None else attacks
    setups = set_up_attacks(names, box, accounts=accounts, tau_m=protocol.tau_m, answers=said)
    experiment = AttackExperiment(Dataset(name, box, box.check(points)), protocol, mechanism, said)
    ks = tuple(ks) if said.is_list else (0,)
    # What cannot be done is refused before anything is attacked.
    for k in ks:
        experiment.check_k(k)
    with progress(f"protecting {name}", protocol.runs) as advance:
        experiment.publish_all(advance)
    with progress(f"attacking {name}", len(ks) * len(setups) * protocol.runs * protocol.instances) as advance:
        rows = experiment.run(setups, ks, person=person, cores=used, progress=advance)
    best = measure_best_attacker(experiment, progress, cores=used)
    return PopulationAttack(rows=rows, best=best, experiment=experiment, attack_setups=setups, ks=ks, person=person)
