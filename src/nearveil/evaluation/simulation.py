"""A nearby service in memory: made of users from anywhere, with or without protection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nearveil.attacks.answers import Answers
from nearveil.attacks.policies import AnswerPolicy, Preset, preset_or_policy
from nearveil.errors import UsageError
from nearveil.evaluation.area import Area, densest_area
from nearveil.evaluation.attack_experiment import Instance, Service, draw_instances, instances_of_person
from nearveil.evaluation.stats import Estimate
from nearveil.evaluation.tradeoff import Sizes, together, what_attackers_get, what_users_get
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.base import Mechanism
from nearveil.region import WHOLE_EARTH, Region, as_region
from nearveil.types import FloatArray, ProgressBar, no_bar

_SIZES = Sizes(queries=2_000, targets=1_000)
_LEAST_MEASURED, _MANY = 2, 100_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Simulation:
    """A nearby service in memory, and the truth about its users, which attacks do not see.

    ``places`` are where its users are, in degrees, and ``area`` says which of those given they are.
    """

    name: str
    places: FloatArray
    service: Service
    k: int
    area: Area

    @property
    def published(self) -> FloatArray:
        """Where the service has its users, latitude and longitude: true locations, or those of the mechanism."""
        return self.service.places

    @property
    def is_protected(self) -> bool:
        """Whether a mechanism publishes its users."""
        return self.service.mechanism is not None

    @cached_property
    def true_m(self) -> FloatArray:
        """Where users are, in meters."""
        return self.service.region.to_metres(self.places)

    def __repr__(self) -> str:
        lists = f"k={self.k}" if self.service.answers.is_list else f"answers={str(self.service.answers)!r}"
        return f"Simulation({len(self.places):,} users, {lists})"

    def number_of(self, target: object) -> int:
        """Return the number in this service of the user in a row of those given."""
        if isinstance(target, bool) or not isinstance(target, int | np.integer) or not 0 <= target < self.area.users:
            raise UsageError(f"there is no such user; users are called by their row, 0 to {self.area.users - 1:,}")
        number = int(np.searchsorted(self.area.rows, target))
        if number == len(self.area.rows) or self.area.rows[number] != target:
            raise UsageError("this user is outside the densest area, which is simulated; give around= that row instead")
        return number

    def instances(self, count: int, target: int | None = None) -> tuple[Instance, ...]:
        """Return whom to attack from where, the same for every attack: different users by the paper's protocol, or one.

        Answers other than lists are about anybody, and attacks begin without a location near them.
        """
        rng, opened = np.random.default_rng([self.service.seed, self.k]), self.service.open()
        if not self.service.answers.is_list:
            targets = rng.permutation(len(self.places))[:count].tolist() if target is None else [target]
            return tuple(Instance((0.0, 0.0), each) for each in targets)
        if target is not None:
            return tuple(instances_of_person(opened, self.service.served_m, target, k=self.k, count=1, rng=rng))
        drawn = draw_instances(opened, self.true_m, k=self.k, count=3 * count, rng=rng)
        by_target = {one.target: one for one in reversed(drawn)}
        return tuple(one for one in drawn if by_target[one.target] is one)[:count]

    def protection(self, tau_m: float = 100.0, progress: ProgressBar = no_bar) -> dict[str, Estimate] | None:
        """Return what the best attacker finds and names and what lists cost, by their names in `Plan`'s rows.

        None where nothing protects, and where there are too few users to measure it.
        """
        mechanism, count = self.service.mechanism, len(self.places)
        if mechanism is None or count < _LEAST_MEASURED:
            return None
        sizes, seed = _SIZES if count <= _MANY else replace(_SIZES, targets=200), self.service.seed
        rng = np.random.default_rng([seed, count])
        data = Dataset(self.name, self.service.region, self.places)
        listed = what_users_get(data, self.published, k=min(self.k, count - 1), queries=sizes.queries, rng=rng)
        with progress("the best attacker", None):
            found = what_attackers_get(mechanism, self.places, self.published, sizes=sizes, seed=seed, tau_m=tau_m)
        return together([{**listed, **found}])


def simulate(
    points: object, *, region: Region | str | None = None, k: int | None = None, mechanism: Mechanism | None = None,
    policy: AnswerPolicy | str | None = None, seed: int = 1, answers: str = "list", around: int | None = None,
    name: str = "a simulated service",
) -> Simulation:  # fmt: skip
    """Return a nearby service in memory that lists the ``k`` nearest users, in order and without distances.

    Users are called by their row, from 0. If they live farther apart than in one city, the service has those of the
    densest area. With ``answers`` it says something else than a list, about one user at a time.

    Parameters
    ----------
    points : array of shape (n, 2) or frame
        Where its users are: latitude and longitude in degrees.
    region : Region or str, optional
        Public; by default that of the mechanism, or a box around the users.
    k : int, optional
        10 by default, or as many as the policy leaves.
    mechanism : Mechanism, optional
        Publishes everybody, and is fitted on them if it learns; without it the service answers from true locations.
    policy : AnswerPolicy or str, optional
        What is done to a list before it is shown, such as ``"snap:100m,drop:0.1"`` or ``"check-in-500m"``; see
        `nearveil.attacks.policies`.
    seed : int
        Ties, starts and noise depend on it.
    answers : str
        ``"list"``; or a distance, rounded in a way that the attacker is not told (``"distance:1km"``,
        ``"distance:1mi"``, ``"distance:1km-floor"``), a band (``"bands:500m"``), or whether the user is within a
        radius: a multiple of a length (``"filter:1km"``), always the same (``"filter:5km-fixed"``), or any from a
        least one on (``"circle:2km"``).
    around : int, optional
        Take the area around the user of this row in place of the densest.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> points = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (500, 2))
    >>> nv.simulate(points, k=5)
    Simulation(500 users, k=5)
    """
    preset = preset_or_policy(policy) if isinstance(policy, str) else Preset(policy or AnswerPolicy(), False, "")
    said = Answers.parse(answers)
    _check_answers(said, preset, k)
    everybody = WHOLE_EARTH.check(points)
    own = mechanism.resolved_region if mechanism is not None and mechanism.has_region else None
    box = own if region is None else as_region(region)
    if box is None:
        area = densest_area(everybody, around)
    else:
        box.check(everybody)
        area = Area(box, np.arange(len(everybody)), box.centre, len(everybody), 0.0)
    if mechanism is not None and own is not None and not area.region.same_edges(own):
        raise UsageError("the mechanism is for another region than the service; give both the same region")
    places = everybody[area.rows]
    most = len(places)
    k = (most if preset.lists_everybody else 10) if k is None else k
    if said.is_list and not 1 <= k <= most:
        raise UsageError(
            f"k must lie between 1 and the number of users, {most:,}" + (f"; give k={most}" if 1 < most < k else "")
        )
    published = places
    if mechanism is not None:
        mechanism = mechanism if own is not None else mechanism.with_params(region=area.region)
        mechanism = mechanism.with_params(seed=seed, **mechanism.learned_params).fitted_on(places)
        published = mechanism.perturb(places)
    service = Service(
        region=area.region, places=published, mechanism=mechanism, answers=said, policy=preset.policy, seed=seed
    )
    return Simulation(name=name, places=places, service=service, k=k, area=area)


def _check_answers(answers: Answers, preset: Preset, k: int | None) -> None:
    """Refuse what has no effect."""
    if k is not None and not answers.is_list:
        raise UsageError(f"k= is for ranked lists, not for answers={answers}; leave it out")
    if k is not None and preset.lists_everybody:
        raise UsageError(f"k= has no effect on this policy=, which lists {preset.meaning}; leave it out")
    lists_only = replace(preset.policy, snap_m=0.0)
    if not answers.is_list and not lists_only.is_plain:
        raise UsageError(
            f"the answer policy {lists_only} is for ranked lists and has no effect on answers={answers}; leave it "
            "out, or keep snap alone"
        )
