"""Goal: what is wanted of a protection, and what is made as large as possible beyond it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nearveil.errors import UsageError
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.families import Family
from nearveil.evaluation.planning.measuring import Point
from nearveil.evaluation.stats import Share
from nearveil.mechanisms.fit_cells import check_hide_among
from nearveil.mechanisms.intervals import PAPER_CENTRES, PEOPLE_PER_CENTRE
from nearveil.mechanisms.planar_laplace import check_noise_m
from nearveil.privacy.guarantee import Notion
from nearveil.region import Region, named_region

Kind = Literal["attacker-error", "recall", "named", "named-sparsest", "noise", "hide-among"]

MOST_K = 100

# What is measured is aimed at a little beyond the goal, since the last measurement has fresh noise, and overshoots
# where it lies far beyond.
_ERROR_MARGIN, _RECALL_MARGIN, _NAMED_MARGIN = 0.04, 0.004, 0.08
_OVERSHOOT_ERROR, _OVERSHOOT_RECALL, _OVERSHOOT_NAMED = 1.1, 0.015, 0.75
# Fewer than that are nobody, as far as can be measured.
_LEAST_NAMED = 1e-4
# What noise of a length means: a loss of 2 for two places that far apart.
_LOSS_AT_LENGTH = 2 * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a plan is for.

    `Goal.attacker_error`, `Goal.recall`, `Goal.named`, `Goal.named_sparsest`, `Goal.noise` and `Goal.hide_among`
    make one.

    Attributes
    ----------
    kind : str
        ``attacker-error``: the best attacker's mean error in metres is to be at least ``value``, with as much recall
        as possible. ``recall``: recall@k is to be at least ``value``, with the largest error of the attacker.
        ``named``, ``named-sparsest``: the best attacker's first guess of an address is right for at most this share of
        people, or of the tenth of them who live sparsest, with as much recall as possible.
        ``noise``: the metric promise at a length of ``value`` metres for the people that are protected, with as
        much recall as possible. ``hide-among``: the same for hiding among ``value`` people.
    k : int
        How many people a list has.

    Examples
    --------
    >>> print(Goal.recall(0.5, k=20))
    recall@20 of at least 0.5; then the largest error of the best attacker
    """

    kind: Kind
    value: float
    k: int = 10

    @classmethod
    def attacker_error(cls, metres: float, *, k: int = 10) -> Goal:
        """The best attacker is wrong by at least ``metres`` on average; then as much recall as possible."""
        return cls("attacker-error", metres, k)

    @classmethod
    def recall(cls, share: float, *, k: int = 10) -> Goal:
        """Recall@k of at least this; then the largest error of the best attacker."""
        return cls("recall", share, k)

    @classmethod
    def noise(cls, metres: float, *, k: int = 10) -> Goal:
        """The metric promise at this length for the people that are protected; then as much recall as possible."""
        return cls("noise", metres, k)

    @classmethod
    def named(cls, share: float, *, k: int = 10) -> Goal:
        """The best attacker names at most this share of people; then as much recall as possible."""
        return cls("named", share, k)

    @classmethod
    def named_sparsest(cls, share: float, *, k: int = 10) -> Goal:
        """The best attacker names at most this share of the sparsest tenth; then as much recall as possible."""
        return cls("named-sparsest", share, k)

    @classmethod
    def hide_among(cls, people: int, *, k: int = 10) -> Goal:
        """Everybody is hidden among so many people; then as much recall as possible."""
        return cls("hide-among", people, k)

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MOST_K:
            raise UsageError(f"--k must be a whole number from 1 to {MOST_K}")
        if self.kind == "recall" and not 0 < self.value < 1:
            raise UsageError("--recall is a share: more than 0 and less than 1, such as 0.5")
        if self.kind == "attacker-error" and not 1 <= self.value < math.inf:
            raise UsageError("--attacker-error takes a length of at least 1 metre such as 300m or 0.5km")
        if self.is_about_naming and not 0 < self.value < 1:
            raise UsageError(f"--{self.kind} is a share of people: more than 0 and less than 1, such as 0.05")
        if self.kind == "noise":
            check_noise_m(self.value)
        if self.kind == "hide-among":
            check_hide_among(int(self.value) if self.value == round(self.value) else -1)

    @property
    def is_about_naming(self) -> bool:
        """Whether it bounds how many people are named."""
        return self.kind in ("named", "named-sparsest")

    @property
    def is_setting(self) -> bool:
        """Whether it is the parameter itself, so that nothing is searched for."""
        return self.kind in ("noise", "hide-among")

    def __str__(self) -> str:
        if self.kind == "attacker-error":
            return (
                f"the best attacker is wrong by at least {self.value:,.4g} m on average; "
                f"then as much recall@{self.k} as possible"
            )
        if self.kind == "recall":
            return f"recall@{self.k} of at least {self.value:g}; then the largest error of the best attacker"
        if self.is_about_naming:
            whom = "people" if self.kind == "named" else "the sparsest tenth of people"
            return (
                f"the best attacker names at most {self.value:.3g} of {whom}; then as much recall@{self.k} as possible"
            )
        if self.kind == "hide-among":
            return f"everybody hidden among {self.value:,.0f} people; then as much recall@{self.k} as possible"
        return (
            f"the metric promise at a length of {self.value:,.4g} m for the people of the file; "
            f"then as much recall@{self.k} as possible"
        )

    def met(self, point: Point) -> bool:
        """Whether a point has what was asked for, by its point estimate; a length is met by what promises it."""
        if self.kind == "attacker-error":
            return point.error_m.value >= self.value
        if self.is_about_naming:
            return self._named_in(point) <= self.value
        return self.is_setting or point.recall.value >= self.value

    def may_be_chance(self, point: Point) -> bool:
        """Whether a point has what was asked for by its estimate, but not at the worse end of its 95 % interval.

        Without an interval nobody knows.
        """
        if self.is_setting or not self.met(point):
            return False
        if self.is_about_naming:
            return self._share_named(point).high > self.value
        low = (point.error_m if self.kind == "attacker-error" else point.recall).low
        return low is None or low < self.value

    def _named_in(self, point: Point) -> float:
        return self._share_named(point).value

    def _share_named(self, point: Point) -> Share:
        share = point.named if self.kind == "named" else point.named_sparsest
        if share is None:
            raise TypeError("a plan for naming measures naming")
        return share

    def can_be_promised(self, defence: Defence) -> bool:
        """Whether a defence can promise what was asked for to the very people that it is fitted on.

        A loss in proportion to the distance has no part that is paid at any distance, such as that of a fit.
        """
        if self.kind == "hide-among":
            return defence.hide_among is not None
        if self.kind != "noise":
            return True
        if defence.noise_m is None or defence.fit_loss:
            return False
        if defence.entry.is_own:
            return True
        stated = replace(defence, noise_m=self.value).build(named_region("san-francisco"), seed=0).guarantee
        per_metre = stated.notion is Notion.METRIC and not stated.offset and stated.holds
        return per_metre and stated.epsilon * self.value <= _LOSS_AT_LENGTH

    def overshoots(self, point: Point) -> bool:
        """Whether a point has far more than was asked for, which something else pays for."""
        if self.kind == "attacker-error":
            return point.error_m.value > _OVERSHOOT_ERROR * self.value
        if self.is_about_naming:
            return self._named_in(point) < _OVERSHOOT_NAMED * self.value
        return self.kind == "recall" and point.recall.value > self.value + _OVERSHOOT_RECALL

    def objective(self, point: Point) -> float:
        """What is made as large as possible once the goal is met."""
        return point.error_m.value if self.kind == "recall" else point.recall.value

    def shortfall(self, point: Point) -> float:
        """How far a point is from the goal; 0 where it is met."""
        if self.met(point):
            return 0.0
        return abs(self.target_level(0.0) - self.level(point))

    def level(self, point: Point) -> float:
        """What the goal is about, as a number that grows nearly straight with the setting."""
        if self.is_about_naming:
            return -math.log(max(self._named_in(point), _LEAST_NAMED))
        return -point.recall.value if self.kind == "recall" else math.log(max(point.error_m.value, 1e-3))

    def target_level(self, margins: float = 1.0) -> float:
        """The level to aim at: that of the goal, and ``margins`` margins on its safe side."""
        if self.kind == "recall":
            return -self.value - margins * _RECALL_MARGIN
        if self.is_about_naming:
            return -math.log(self.value) + margins * _NAMED_MARGIN
        return math.log(self.value) + margins * _ERROR_MARGIN


# The parameter that the members of a family differ in, as a setting: a larger setting hides more.


Swept = Literal["noise_m", "hide_among", "epsilon", "centres", "nothing"]

_LEAST_LENGTH_M = 1.0
# Below, noise is as good as uniform in the disc; above, next to nothing is hidden.
_EPSILONS = (0.1, 50.0)
_LEAST_CENTRES = 4
_LEAST_AMONG = 2
# Among more than a quarter of everybody nothing is left of a list.
_MOST_AMONG_SHARE = 4


@dataclass(frozen=True, slots=True)
class SweptParameter:
    """A parameter of a defence on a logarithmic scale.

    Attributes
    ----------
    swept : str
        Its name; ``nothing`` where a mechanism has no parameter to sweep.
    least, most : float
        Values that make sense.
    """

    swept: Swept
    least: float
    most: float

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest setting."""
        low, high = sorted((self._setting(self.least), self._setting(self.most)))
        return low, high

    def setting_of(self, defence: Defence) -> float:
        """The setting of a defence: larger for a longer length, more people, a smaller epsilon, fewer centres."""
        return 0.0 if self.swept == "nothing" else self._setting(float(getattr(defence, self.swept)))

    def with_setting(self, defence: Defence, setting: float) -> Defence:
        """Return the defence at a setting, with a value of three digits, such as a person would write."""
        if self.swept == "nothing":
            return defence
        low, high = self.ends
        value = math.exp(self._sign * min(max(setting, low), high))
        if self.swept == "centres":
            return replace(defence, centres=round(value))
        if self.swept == "hide_among":
            return replace(defence, hide_among=int(min(max(round(_three_digits(value)), self.least), self.most)))
        value = min(max(_three_digits(value), self.least), self.most)
        return replace(defence, noise_m=value) if self.swept == "noise_m" else replace(defence, epsilon=value)

    @property
    def _sign(self) -> float:
        return 1.0 if self.swept in ("noise_m", "hide_among") else -1.0

    def _setting(self, value: float) -> float:
        return self._sign * math.log(value)


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def parameter_of(family: Family, region: Region, people: int) -> SweptParameter:
    """Return the swept parameter of a family whose members were fitted to a population."""
    first, last = family.members[0], family.members[-1]
    if len(family.members) == 1:
        return SweptParameter("nothing", 1.0, 1.0)
    if first.noise_m is not None:
        return SweptParameter("noise_m", _LEAST_LENGTH_M, _three_digits(2 * region.radius_m))
    if first.hide_among is not None:
        return SweptParameter("hide_among", _LEAST_AMONG, people // _MOST_AMONG_SHARE)
    if first.epsilon != last.epsilon:
        return SweptParameter("epsilon", *_EPSILONS)
    return SweptParameter("centres", _LEAST_CENTRES, people // PEOPLE_PER_CENTRE)


def fitted_to(families: Sequence[Family], people: int) -> tuple[list[Family], list[str]]:
    """Return the families that the number of people is enough for, and a sentence on each that was left out."""
    kept, left_out = [], []
    most = people // PEOPLE_PER_CENTRE
    for family in families:
        members = tuple(_among_fewer(family, people) or _with_fewer_centres(family, most))
        if len(members) >= 2 or members == family.members:
            kept.append(replace(family, members=members))
        elif family.members[0].hides_among:
            left_out.append(f"{family.label}: {people:,} people are too few to hide anybody among them")
        else:
            left_out.append(
                f"{family.label}: {people:,} people are too few to fit intervals on, at {PEOPLE_PER_CENTRE} for each"
            )
    return kept, left_out


def _among_fewer(family: Family, people: int) -> list[Defence]:
    """Members of hide-among that the people are enough for."""
    return [
        member
        for member in family.members
        if member.hide_among is not None and member.hide_among * _MOST_AMONG_SHARE <= people
    ]


def _with_fewer_centres(family: Family, most: int) -> list[Defence]:
    if family.members[0].hides_among:
        return []
    if not family.members[0].is_dprs:
        return list(family.members)
    if most < 2 * _LEAST_CENTRES:
        return []
    if len({member.centres for member in family.members}) > 1:
        return [member for member in family.members if member.centres <= most]
    return [replace(member, centres=min(PAPER_CENTRES, most)) for member in family.members]
