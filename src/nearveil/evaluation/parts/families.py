"""The defences of the frontier: every mechanism and release, with the parameter that is swept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nearveil.evaluation.defences import Centres, Defence, Kind
from nearveil.privacy.accounting import Noise

LENGTHS_M = (50.0, 100.0, 200.0, 350.0, 500.0, 800.0, 1500.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
PAPER_EPSILONS = (0.5, 1.0, 3.0, 5.0, 10.0, 20.0)
# Where each of them begins to be of use: below, nothing is left of a list.
SRR_EPSILONS = (6.0, 8.0, 9.0, 10.0, 11.0, 12.0, 14.0, 20.0)
SQUARE_EPSILONS = (6.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 25.0)
AXIS_EPSILONS = (10.0, 20.0, 45.0)
CENTRES = (50, 100, 200, 400, 1600)
FIT_EPSILON = 1.0


@dataclass(frozen=True, slots=True)
class Family:
    """A defence along its parameter.

    Attributes
    ----------
    sound : bool
        Whether its guarantee holds as stated; only such can be recommended.
    between_all_places : bool
        Whether the guarantee holds between any two places, and not only within an interval.
    """

    label: str
    members: tuple[Defence, ...]
    sound: bool = True
    between_all_places: bool = True

    def thinned(self, steps: int) -> Family:
        """Return the family with a few members, two at least, the ends among them."""
        last = len(self.members) - 1
        kept = sorted({round(last * step / (steps - 1)) for step in range(steps)})
        return replace(self, members=tuple(self.members[index] for index in kept))

    def inner(self) -> Family:
        """Return the family without its ends."""
        return replace(self, members=self.members[1:-1])


def all_families() -> tuple[Family, ...]:
    """Return every mechanism and release, in an isotropic region."""
    return (
        *sound_families(),
        _paper("paper, private k-means"),
        _paper("paper, Gaussian, private k-means", noise="gaussian"),
        _paper("paper, private grid", centres_from="private-grid"),
        _paper("paper, public random centres", centres_from="public"),
        _local("SRR", "srr", SRR_EPSILONS),
        _local("Square", "square", SQUARE_EPSILONS),
        _local("per-axis Laplace", "axis-laplace", AXIS_EPSILONS),
    )


def sound_families() -> tuple[Family, ...]:
    """Return those that one could deploy: planar Laplace, and the sound releases of DPRS."""
    return (
        _by_length(Defence(label="planar Laplace", kind="planar-laplace", region="isotropic")),
        _by_length(_metric("metric, private grid", "private-grid")),
        _by_length(_metric("metric, private k-means", "pic")),
        _interval("interval, private grid", _by_epsilon(_confined("private-grid"), EPSILONS)),
        _interval("interval, Gaussian, private grid", _by_epsilon(_confined("private-grid", "gaussian"), EPSILONS)),
        _interval("interval, private k-means", _by_epsilon(_confined("pic"), EPSILONS)),
        _interval(
            "interval, private grid, by centres",
            tuple(replace(_confined("private-grid"), epsilon=1.0, centres=centres) for centres in CENTRES[::-1]),
        ),
    )


def _by_length(defence: Defence) -> Family:
    return Family(defence.label, tuple(replace(defence, hide_within_m=length_m) for length_m in LENGTHS_M))


def _by_epsilon(defence: Defence, epsilons: tuple[float, ...]) -> tuple[Defence, ...]:
    # From strong protection to weak would be the other way round; the order is that of growing attacker error.
    return tuple(replace(defence, epsilon=epsilon) for epsilon in sorted(epsilons, reverse=True))


def _local(label: str, kind: Kind, epsilons: tuple[float, ...]) -> Family:
    return Family(label, _by_epsilon(Defence(label=label, kind=kind, region="isotropic"), epsilons))


def _metric(label: str, centres_from: Centres) -> Defence:
    return Defence(
        label=label,
        kind="dprs",
        release="metric",
        centres_from=centres_from,
        fit_epsilon=FIT_EPSILON,
        region="isotropic",
    )


def _confined(centres_from: Centres, noise: Noise = "laplace") -> Defence:
    return Defence(
        label="",
        kind="dprs",
        release="interval",
        noise=noise,
        centres_from=centres_from,
        fit_epsilon=FIT_EPSILON,
        region="isotropic",
    )


def _interval(label: str, members: tuple[Defence, ...]) -> Family:
    named = tuple(replace(member, label=label) for member in members)
    return Family(label, named, between_all_places=False)


def _paper(label: str, *, noise: Noise = "laplace", centres_from: Centres = "pic") -> Family:
    defence = Defence(label=label, kind="dprs", noise=noise, centres_from=centres_from, region="isotropic")
    return Family(label, _by_epsilon(defence, PAPER_EPSILONS), sound=False, between_all_places=False)
