"""Attack one user of a nearby service: a simulated one, or anything else that answers (`nearveil.attacks.oracle`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearveil.attacks.adapter import Adapter, AdapterResult
from nearveil.attacks.base import Attack, AttackResult
from nearveil.attacks.oracle import Oracle, PersonOracle, Point, point_of
from nearveil.attacks.registry import attack_class
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.attack_experiment import AttackSetup, Instance, set_up_attacks
from nearveil.evaluation.simulation import Simulation
from nearveil.io.atomic import replacing
from nearveil.nearby.index import Person
from nearveil.region import Region, as_region
from nearveil.types import FloatArray

PICTURES = (".png", ".html")
"""What an attack can be saved as."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AttackOutcome:
    """One attack on one user, beside the truth where it is known; found means within ``tau_m``.

    ``result`` is what the attack itself returned, in meters, with its trace. ``truth`` is where the user is, and
    ``published`` where a protected service publishes it, in meters; None where unknown or the same. ``people_m`` is
    where the service has its users, for pictures, which ``title`` heads.
    """

    result: AttackResult
    region: Region
    tau_m: float
    truth: Point | None = None
    published: Point | None = None
    people_m: FloatArray | None = None
    title: str = ""

    @property
    def estimate(self) -> tuple[float, float] | None:
        """Latitude and longitude of where the user is believed to be; None if nothing is believed."""
        if self.result.estimate is None:
            return None
        return point_of(self.region.from_metres(np.array([self.result.estimate]))[0])

    @property
    def error_m(self) -> float | None:
        """From the estimate to where the user is; None without an estimate or without the truth."""
        estimate = self.result.estimate
        return None if estimate is None or self.truth is None else math.dist(estimate, self.truth)

    @property
    def found(self) -> bool:
        """Whether the estimate is within tau of the user."""
        return self.error_m is not None and self.error_m <= self.tau_m

    @property
    def queries(self) -> int:
        """How many queries the attack asked."""
        return self.result.queries

    @property
    def certified(self) -> bool:
        """Whether the answers leave no place but within tau of the estimate: of where the service has the user."""
        return self.result.certified

    @property
    def radius_m(self) -> float | None:
        """Everything that the answers leave possible is this near to the estimate; None if that is not known."""
        return self.result.radius_m

    def __repr__(self) -> str:
        """Say what the attack found, and nothing true: it ends up in logs."""
        known = self.truth is not None
        parts = ["found" if self.found else "not found"] * known
        parts += [] if self.error_m is None else [f"error_m={self.error_m:.0f}"]
        parts += [f"queries={self.queries}", *["certified"] * self.certified]
        return f"AttackOutcome({', '.join(parts)})"

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Draw the attack as ``.png``, or as a ``.html`` page that plays it query by query. It shows true locations."""
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in PICTURES:
            raise UsageError(f"{path.name} does not name a picture of an attack; end it in .png or .html")
        require_package("matplotlib", "a picture of an attack")
        from nearveil.report import attack_figure, attack_player, attack_scene  # noqa: PLC0415

        scene = attack_scene.scene_of(self)
        draw = {".png": attack_figure.draw_attack, ".html": attack_player.write_player}[kind]
        with replacing(path, force=force, private=True) as partial:
            draw(scene, partial, title=self.title)


def outcome_of(simulation: Simulation, instance: Instance, result: AttackResult, tau_m: float) -> AttackOutcome:
    """Put an attack on a user of a simulated service beside the truth."""
    service, protected = simulation.service, simulation.is_protected
    return AttackOutcome(
        result=result, region=service.region, tau_m=tau_m, people_m=service.served_m,
        truth=point_of(simulation.true_m[instance.target]),
        published=point_of(service.served_m[instance.target]) if protected else None,
        title=f"{result.attack} on {simulation.name}" + (", protected" if protected else ""),
    )  # fmt: skip


def attack(
    service: Simulation | Adapter | Oracle | PersonOracle, *,
    target: Person | tuple[float, float] | None = None, user: str | None = None, method: str | Attack = "adaptive",
    accounts: int = 4, tau_m: float = 100.0, start: tuple[float, float] | None = None,
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
    >>> outcome.found, outcome.certified, outcome.queries < 30
    (True, True, True)
    >>> hidden = nv.simulate(points, mechanism=nv.PlanarLaplace(noise_m=2000, seed=1))
    >>> nv.attack(hidden, target=17).found
    False
    """
    if isinstance(service, Simulation):
        if region is not None or truth is not None:
            raise UsageError("a simulated service knows its region and where users are; leave region and truth out")
        return _attack_simulation(service, target, method, accounts, tau_m, start)
    if isinstance(service, Adapter):
        if not isinstance(target, tuple):
            raise UsageError("say where your test account truly is: target=(latitude, longitude)")
        name = method if isinstance(method, str) else method.name
        return outcome_of_adapter(service.attack(target, user=user, region=region, method=name, tau_m=tau_m), tau_m)
    if isinstance(target, tuple):
        raise UsageError("target= is a location with an adapter only; name the user")
    if isinstance(service, np.ndarray) or hasattr(service, "columns"):
        raise UsageError("an attack needs a service; make one of users: nv.attack(nv.simulate(users), target=17)")
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
    service, number = simulation.service, simulation.number_of(target)
    begin = None if start is None else point_of(service.region.to_metres([start])[0])
    instance = simulation.instances(1, number)[0] if begin is None else Instance(begin, number)
    setup = _attack_setup(method, service.region, accounts, tau_m)
    (result,) = service.attack(setup, simulation.k, [instance], near=begin)
    return outcome_of(simulation, instance, result, tau_m)


def _attack_setup(method: str | Attack, region: Region, accounts: int, tau_m: float) -> AttackSetup:
    if isinstance(method, Attack):
        return AttackSetup(method, max(accounts, method.accounts_needed))
    # An oracle may have accounts that the attack has no use for.
    wanted = max(accounts, attack_class(method).accounts_needed, 1)
    return set_up_attacks([method], region, accounts=[wanted], tau_m=tau_m)[0]
