"""The conformance suite: every mechanism passes it, and it catches mechanisms that do not deserve to."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.auditing.judged import other_stream
from tests.evidence import for_evidence

from nearveil import DPRS, SRR, AxisLaplace, HideAmong, Mechanism, PlanarLaplace, Square
from nearveil.auditing import conformance
from nearveil.auditing.conformance import CHECKS, ConformanceError, MechanismUnderTest
from nearveil.mechanisms import registry
from nearveil.randomness import NumberedRows, RowKeystream, numbered_rows, stream_key
from nearveil.types import FloatArray

pytestmark = pytest.mark.statistical

SF = "san-francisco"
SPARSE = [(column, row) for column in range(16) for row in range(16) if (7 * column + 3 * row) % 5 < 2]

# Few intervals and little noise, so that a scale 30 % off can be seen; seeded, so that intervals are always the same.
MECHANISMS: dict[str, Callable[[], Mechanism]] = {
    "paper-laplace": lambda: DPRS(release="paper", epsilon=20.0, centres=12, seed=3, region=SF),
    "paper-gaussian": lambda: DPRS(release="paper", epsilon=30.0, centres=3, noise="gaussian", seed=3, region=SF),
    "paper-overlapping": lambda: DPRS(release="paper", epsilon=20.0, centres=12, gamma=0.8, seed=3, region=SF),
    "paper-private-grid": lambda: DPRS(
        release="paper", epsilon=20.0, centres=12, fit_method="private-grid", seed=3, region=SF
    ),
    "interval-laplace": lambda: DPRS(epsilon=3.0, centres=12, seed=3, region=SF),
    "interval-gaussian": lambda: DPRS(epsilon=3.0, noise="gaussian", fit_method="pic", centres=12, seed=3, region=SF),
    "interval-overlapping": lambda: DPRS(epsilon=3.0, gamma=0.8, centres=12, seed=3, region=SF),
    "metric": lambda: DPRS(release="metric", noise_m=800, centres=12, seed=3, region=SF),
    "hide-among": lambda: HideAmong(200, epsilon=1.5, seed=3, region=SF),
    "planar-laplace": lambda: PlanarLaplace(noise_m=800, region=SF),
    "axis-laplace": lambda: AxisLaplace(epsilon=4.0, region=SF),
    "srr": lambda: SRR(epsilon=3.0, region=SF),
    "srr-sparse": lambda: SRR(epsilon=2.0, levels=4, cells=SPARSE, region=SF),
    "square": lambda: Square(epsilon=2.0, region=SF),
}

FEW_DRAWS = 50_000
# As many as it takes to tell noise that is 1.3 times as wide, and to audit a loss of 9: staircase noise is very wide.
DRAWS = {"paper-laplace": 100_000, "paper-gaussian": 100_000, "paper-overlapping": 100_000, "srr": 400_000}


def test_every_mechanism_of_the_registry_is_in_the_list() -> None:
    assert {entry.mechanism for entry in registry.MECHANISMS.values()} == {type(make()) for make in MECHANISMS.values()}


# Of each law and each release one; what differs by a parameter only, or needs many draws, is run for evidence.
QUICK = ("paper-laplace", "interval-laplace", "metric", "hide-among", "planar-laplace", "srr-sparse", "square")


@pytest.fixture(scope="module", params=[*QUICK, *for_evidence(*(name for name in MECHANISMS if name not in QUICK))])
def subject(request: pytest.FixtureRequest, city: FloatArray) -> MechanismUnderTest:
    return MechanismUnderTest(MECHANISMS[request.param]().fit(city), city, DRAWS.get(request.param, FEW_DRAWS))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conforms(subject: MechanismUnderTest, check: Callable[[MechanismUnderTest], None]) -> None:
    """False-alarm rate 1e-6 for each place tried in a statistical check, three places and six pairs at most."""
    check(subject)


def test_published_places_of_a_batch_equal_those_of_its_people_one_at_a_time(city: FloatArray) -> None:
    intervals = DPRS(release="interval", centres=50, seed=1, region=SF).fit(city)
    for mechanism in (PlanarLaplace(), Square(region=SF), intervals):
        together, key = mechanism.perturb(city[:40], rng=5), stream_key(5)
        alone = [mechanism.perturb_rows(city[i : i + 1], NumberedRows(key, i, 1)) for i in range(40)]
        assert (together == np.vstack(alone)).all()


class TooNarrow(PlanarLaplace):
    """Noise of 0.7 times the width that the guarantee speaks of."""

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        return PlanarLaplace.draw(self.with_params(noise_m=0.7 * self.noise_m), x, rows)


class HonestButNarrow(TooNarrow):
    """The same, with a density that owns up to it: only the audit can tell."""

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        return PlanarLaplace(0.7 * self.noise_m).log_density(x, t)


class Heavy(PlanarLaplace):
    """Its density is off by a factor."""

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        return super().log_density(x, t) + 0.02


class DrawnTwiceAndAveraged(PlanarLaplace):
    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        return (super().draw(x, rows) + super().draw(x, other_stream(rows))) / 2


class TruthTeller(Square):
    """Publishes the true place, and its density owns up to it."""

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        del rows
        return x.copy()

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        same = (np.asarray(x) == np.asarray(t)).all(axis=-1)
        return np.where(same, 0.0, -np.inf)


class InOneGo(PlanarLaplace):
    """Draws for all rows from one generator, so that a batch differs from its people one at a time."""

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        return x + 1e-3 * np.random.default_rng(rows.blocks(0)[0]).normal(size=x.shape)


class Forgetful(PlanarLaplace):
    """Ignores the keystream it is given."""

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        return super().draw(x, numbered_rows(len(rows)))


class InDegrees(PlanarLaplace):
    """Takes a degree of longitude for a degree of latitude: metres are not metres."""

    frame = "metres"  # type: ignore[assignment]

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        return x + 1000 * (rows.uniforms(2) - 0.5)

    def enter(self, points: FloatArray) -> FloatArray:
        return (points - np.array(self.resolved_region.centre))[:, ::-1] * 111_000.0

    def leave(self, xy: FloatArray) -> FloatArray:
        return xy[:, ::-1] / 111_000.0 + np.array(self.resolved_region.centre)


class Unrounded(PlanarLaplace):
    def perturb(self, points: object, rng: object = None, *, progress: object = None) -> FloatArray:  # type: ignore[override]
        return super().perturb(points, rng) + 3e-7  # type: ignore[arg-type]


class FewerSteps(HideAmong):
    """Cells 0.7 times as many steps away as the density says."""

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        return HideAmong.draw(self.rescaled(0.7), x, rows)


@pytest.mark.evidence
def test_a_fall_over_steps_that_is_faster_than_certified_is_caught(city: FloatArray) -> None:
    """A tenth, by the audit alone: density and draws agree."""
    certified = MECHANISMS["hide-among"]().fit(city)
    assert isinstance(certified, HideAmong)
    with pytest.raises(ConformanceError, match="HideAmong: violated"):
        conformance.check_guarantee_survives_audit(MechanismUnderTest(certified.rescaled(1 / 1.1), city))
    fewer = FewerSteps(200, epsilon=1.5, cells=certified.current_cells)
    with pytest.raises(ConformanceError, match="FewerSteps: violated"):
        conformance.check_guarantee_survives_audit(MechanismUnderTest(fewer, city, draws=50_000))


def test_fewer_steps_than_the_density_says_are_caught(city: FloatArray) -> None:
    fewer = FewerSteps(200, epsilon=1.5, seed=3, region=SF).fit(city)
    with pytest.raises(ConformanceError, match="FewerSteps: draws do not follow the density"):
        conformance.check_sampler_matches_density(MechanismUnderTest(fewer, city))


@pytest.mark.parametrize(
    ("bad", "check"),
    [
        (Heavy, conformance.check_density_integrates_to_one),
        (TooNarrow, conformance.check_sampler_matches_density),
        (HonestButNarrow, conformance.check_guarantee_survives_audit),
        (TruthTeller, conformance.check_guarantee_survives_audit),
        (DrawnTwiceAndAveraged, conformance.check_sampler_matches_density),
        (InOneGo, conformance.check_rows_draw_alike_in_any_split),
        (Forgetful, conformance.check_seed_repeats),
        (InDegrees, conformance.check_displacement_on_the_ground),
        (Unrounded, conformance.check_output_in_support),
    ],
)
def test_catches(bad: type[Mechanism], check: Callable[[MechanismUnderTest], None], city: FloatArray) -> None:
    with pytest.raises(ConformanceError, match=bad.__name__):
        check(MechanismUnderTest(bad(region=SF), city, FEW_DRAWS))  # type: ignore[call-arg]


def test_bins_of_a_density_on_small_pieces_are_integrated_well(city: FloatArray) -> None:
    """Against the exact sum over cells: off by less than chance, in each bin, and by nothing that a test would see."""
    mechanism = HideAmong(200, epsilon=1.5, seed=3, region=SF).fit(city)
    cells, subject = mechanism.current_cells, MechanismUnderTest(mechanism, city)
    place = subject.places[0]
    columns, rows = conformance._grid(subject, place)
    density = np.exp(mechanism.log_density(place, cells.centres))
    west, south, east, north = cells.boxes().T[:, :, None]
    across = np.clip(np.minimum(east, columns[1:]) - np.maximum(west, columns[:-1]), 0.0, None)
    up = np.clip(np.minimum(north, rows[1:]) - np.maximum(south, rows[:-1]), 0.0, None)
    exact = np.einsum("c,ci,cj->ij", density, across, up).ravel()
    off = (subject.bin_masses(place) - exact) / np.sqrt(np.maximum(exact, 1 / subject.draws) / subject.draws)
    assert exact.sum() == pytest.approx(1.0)
    assert np.abs(off).max() < 1
    assert (off**2).sum() < 2
