"""The conformance suite: every mechanism passes it, and it catches mechanisms that do not deserve to."""

from collections.abc import Callable
from typing import Self

import numpy as np
import pytest

from nearveil import DPRS, SRR, AxisLaplace, Mechanism, PlanarLaplace, Square
from nearveil.audit import conformance
from nearveil.audit.conformance import CHECKS, ConformanceError, Subject
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical

SPARSE = [(column, row) for column in range(16) for row in range(16) if (7 * column + 3 * row) % 5 < 2]

# Few intervals and little noise, so that a scale 30 % off can be seen; seeded, so that intervals are always the same.
MECHANISMS: dict[str, Callable[[], Mechanism]] = {
    "paper-laplace": lambda: DPRS(release="paper", epsilon=20.0, centres=12, seed=3),
    "paper-gaussian": lambda: DPRS(release="paper", epsilon=30.0, centres=3, noise="gaussian", seed=3),
    "paper-overlapping": lambda: DPRS(release="paper", epsilon=20.0, centres=12, gamma=0.8, seed=3),
    "paper-private-grid": lambda: DPRS(release="paper", epsilon=20.0, centres=12, fit_method="private-grid", seed=3),
    "interval-laplace": lambda: DPRS(epsilon=3.0, centres=12, seed=3),
    "interval-gaussian": lambda: DPRS(epsilon=3.0, noise="gaussian", fit_method="pic", centres=12, seed=3),
    "interval-overlapping": lambda: DPRS(epsilon=3.0, gamma=0.8, centres=12, seed=3),
    "metric": lambda: DPRS(release="metric", hide_within_m=800, centres=12, seed=3),
    "planar-laplace": lambda: PlanarLaplace(hide_within_m=800),
    "axis-laplace": lambda: AxisLaplace(epsilon=4.0),
    "srr": lambda: SRR(epsilon=3.0),
    "srr-sparse": lambda: SRR(epsilon=2.0, levels=4, cells=SPARSE),
    "square": lambda: Square(epsilon=2.0),
    "square-worst-case": lambda: Square(epsilon=1.0, aim="worst-case"),
}


@pytest.fixture(scope="module", params=MECHANISMS)
def subject(request: pytest.FixtureRequest, city: FloatArray) -> Subject:
    return Subject(MECHANISMS[request.param]().fit(city), city)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conforms(subject: Subject, check: Callable[[Subject], None]) -> None:
    """False-alarm rate 1e-6 for each place tried in a statistical check, three places and six pairs at most."""
    check(subject)


def test_published_places_of_a_batch_equal_those_of_its_people_one_at_a_time(city: FloatArray) -> None:
    for mechanism in (PlanarLaplace(), DPRS(release="interval", centres=50, seed=1).fit(city)):
        together = mechanism.perturb(city[:40], np.random.default_rng(5))
        rng = np.random.default_rng(5)
        assert (together == np.vstack([mechanism.perturb(place[None], rng) for place in city[:40]])).all()


class TooNarrow(PlanarLaplace):
    """Noise of 0.7 times the width that the guarantee speaks of."""

    def draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return x + 0.7 * (super().draw(x, rng) - x)


class HonestButNarrow(TooNarrow):
    """The same, with a density that owns up to it: only the audit can tell."""

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        return self.with_params(hide_within_m=0.7 * self.hide_within_m)._plain_density(x, t)

    def _plain_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        return PlanarLaplace.log_density(self, x, t)

    def rescaled(self, factor: float) -> Self:
        return self.with_params(hide_within_m=self.hide_within_m * factor)


class DrawnTwiceAndAveraged(PlanarLaplace):
    def draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return (super().draw(x, rng) + super().draw(x, rng)) / 2


class TruthTeller(Square):
    """Publishes the true place, and its density owns up to it."""

    def draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        del rng
        return x.copy()

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        same = (np.asarray(x) == np.asarray(t)).all(axis=-1)
        return np.where(same, 0.0, -np.inf)


class ColumnWise(PlanarLaplace):
    """Draws column by column, so that a batch differs from its people one at a time."""

    def draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return x + 100 * np.column_stack([rng.normal(size=len(x)), rng.normal(size=len(x))])


class Forgetful(PlanarLaplace):
    """Ignores the generator it is given."""

    def draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        del rng
        return super().draw(x, np.random.default_rng())


class InDegrees(PlanarLaplace):
    """Takes a degree of longitude for a degree of latitude: metres are not metres."""

    def enter(self, points: FloatArray) -> FloatArray:
        return (points - np.array(self.resolved_region.centre))[:, ::-1] * 111_000.0

    def leave(self, xy: FloatArray) -> FloatArray:
        return xy[:, ::-1] / 111_000.0 + np.array(self.resolved_region.centre)


class Unrounded(PlanarLaplace):
    def perturb(self, points: object, rng: object = None, *, progress: object = None) -> FloatArray:  # type: ignore[override]
        return super().perturb(points, rng) + 3e-7  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "check"),
    [
        (TooNarrow, conformance.check_sampler_matches_density),
        (HonestButNarrow, conformance.check_guarantee_survives_audit),
        (TruthTeller, conformance.check_guarantee_survives_audit),
        (DrawnTwiceAndAveraged, conformance.check_sampler_matches_density),
        (ColumnWise, conformance.check_batch_equals_single),
        (Forgetful, conformance.check_seed_repeats),
        (InDegrees, conformance.check_displacement_on_the_ground),
        (Unrounded, conformance.check_output_in_support),
    ],
)
def test_catches(bad: type[Mechanism], check: Callable[[Subject], None], city: FloatArray) -> None:
    with pytest.raises(ConformanceError, match=bad.__name__):
        check(Subject(bad(), city))


def test_a_density_that_is_off_by_a_factor_is_caught(city: FloatArray) -> None:
    class Heavy(PlanarLaplace):
        def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
            return super().log_density(x, t) + 0.02

    with pytest.raises(ConformanceError, match=r"integrates to 1\.02"):
        conformance.check_density_integrates_to_one(Subject(Heavy(), city))
