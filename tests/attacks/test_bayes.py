"""The best attacker: exact where the answer is known, never worse than reading off, and right about its own chances.

Seeds are fixed throughout, so nothing here fails by chance; the false-alarm rates are those of a fresh seed.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.evidence import for_evidence

from nearveil import DPRS, SRR, AxisLaplace, Mechanism, PlanarLaplace, Square
from nearveil.attacks.bayes import BayesAttacker, Prior, best_disc, geometric_median, prior_from_points
from nearveil.attacks.channels import DensityChannel, RemappedChannel, SampledChannel, channel_of, edge_sides
from nearveil.attacks.scores import score_attacker
from nearveil.errors import UsageError
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.region import Region
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray

TAU_M = 100.0
SF = "san-francisco"
MECHANISMS = [
    PlanarLaplace(noise_m=400, seed=1, region=SF),
    AxisLaplace(epsilon=30.0, seed=1, region=SF),
    # So wide that most published locations lie on the region's edge, many in its corners.
    *for_evidence(
        AxisLaplace(epsilon=1.0, seed=1, region=SF),
        DPRS(epsilon=1.0, centres=100, fit_method="private-grid", seed=1, region=SF),
        SRR(epsilon=5.0, seed=1, region=SF),
    ),
    DPRS(epsilon=5.0, noise="gaussian", centres=100, fit_method="private-grid", seed=1, region=SF),
    Square(epsilon=5.0, seed=1, region=SF),
    # Small discs and much noise: most locations are moved to an edge.
    DPRS(release="metric", noise_m=500, gamma=0.02, centres=200, seed=1, region=SF),
]


def flat_prior(region: Region) -> Prior:
    """Nothing is known of the population."""
    return Prior(region, np.empty((0, 2)), np.empty(0), background=1.0)


def test_with_a_flat_prior_the_guess_is_the_published_location(san_francisco: Region) -> None:
    mechanism = PlanarLaplace(noise_m=200, region=san_francisco)
    published_m = np.array([1234.0, -2345.0])
    attacker = BayesAttacker(mechanism=mechanism, prior=flat_prior(san_francisco))
    guess = attacker.estimate(san_francisco.from_metres(published_m[None]))
    for point, slack_m in ((guess.mean, 1.0), (guess.median, 1.0), (guess.best_disc, 30.0)):
        assert math.dist(point, published_m) < slack_m
    assert guess.expected_error_m == pytest.approx(200.0, rel=0.01)
    # The noise's length is Gamma(2, 100 m).
    assert guess.disc_probability == pytest.approx(1 - 2 / math.e, rel=0.06)
    # A location in the corner stands for those beyond it: the guess is inside.
    assert max(np.abs(attacker.estimate(np.array([37.9, -122.2])).median) - san_francisco.half_extent_m) < -50


@pytest.mark.parametrize("releases", [1, 3])
def test_two_addresses_have_the_exact_odds(san_francisco: Region, releases: int) -> None:
    mechanism = PlanarLaplace(noise_m=500, region=san_francisco)
    homes_m = np.array([[0.0, 0.0], [1000.0, 0.0]])
    prior = Prior(san_francisco, homes_m, np.array([0.4, 0.6]), background=1e-12)
    published_m = np.array([[300.0, 100.0], [650.0, -200.0], [550.0, 900.0]])[:releases]
    homes, published = san_francisco.from_metres(homes_m), san_francisco.from_metres(published_m)
    lead_m = great_circle_m(homes[1], published) - great_circle_m(homes[0], published)
    odds = 0.4 / 0.6 * math.exp(lead_m.sum() * mechanism.epsilon_per_m)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior)
    guess = attacker.estimate(published)
    assert guess.mean == pytest.approx((1000 / (1 + odds), 0.0), abs=0.2)
    assert guess.median == pytest.approx(homes_m[0] if odds > 1 else homes_m[1], abs=0.01)
    assert guess.disc_probability == pytest.approx(max(odds, 1.0) / (1 + odds), abs=1e-3)
    assert guess.expected_error_m == pytest.approx(1000 * min(odds, 1.0) / (1 + odds), abs=0.2)
    among_others = np.concatenate([np.broadcast_to(homes[1], (releases, 100, 2)), published[:, None]], axis=1)
    assert attacker.estimate_many(among_others)[-1].mean == pytest.approx(guess.mean)


def test_geometric_median_of_known_sets(rng: np.random.Generator) -> None:
    square = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0], [100.0, 100.0]])
    assert geometric_median(square, np.full(4, 0.25)) == pytest.approx((50.0, 50.0), abs=0.2)
    # Half of the weight at one point: that point, however far the others are.
    assert geometric_median(square, np.array([0.5, 0.2, 0.2, 0.1])) == (0.0, 0.0)
    points, weights = rng.normal(0, 1000, (200, 2)), rng.dirichlet(np.ones(200))
    best = minimize(lambda x: weights @ np.hypot(*(points - x).T), np.zeros(2), method="Nelder-Mead", tol=1e-4)
    assert geometric_median(points, weights) == pytest.approx(best.x, abs=2.0)


def test_best_disc_lies_between_two_points_that_it_can_hold() -> None:
    pair = np.array([[0.0, 0.0], [180.0, 60.0]])
    assert best_disc(pair, np.array([0.5, 0.5]), TAU_M)[2] == pytest.approx(1.0)
    assert best_disc(pair, np.array([0.7, 0.3]), 50.0)[2] == pytest.approx(0.7)


def test_best_disc_is_as_good_as_a_fine_search(rng: np.random.Generator) -> None:
    for _ in range(4):
        points, weights = rng.normal(0, 150, (300, 2)), rng.dirichlet(np.ones(300))
        x, y = np.meshgrid(*(np.arange(-400, 400, 5.0),) * 2)
        inside = (x[..., None] - points[:, 0]) ** 2 + (y[..., None] - points[:, 1]) ** 2 <= TAU_M**2
        assert best_disc(points, weights, TAU_M)[2] >= 0.98 * (inside @ weights).max()


# -- against mechanisms ------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
def test_the_attacker_is_right_about_its_own_chances(mechanism: Mechanism, city: FloatArray) -> None:
    """Where the prior is the truth, the error it expects is the error it makes, on average, and so is its share of
    users found, and each guess is best at its own. A likelihood that is 30 % off is for the next test. False-alarm
    rate: 4 standard errors, about 1e-4 for each figure; differences between guesses have a much smaller error."""
    users, region = city[:400], mechanism.fit(city[:400]).resolved_region
    attacker = BayesAttacker(mechanism=mechanism, prior=prior_from_points(users, region, background=1e-9), tau_m=TAU_M)
    published = mechanism.perturb(users)[:120]
    guesses, errors_m = attacker.estimate_many(published), score_attacker(attacker, users[:120], published)
    assert all(guess.possible for guess in guesses)
    surplus = errors_m["median"] - [guess.expected_error_m for guess in guesses]
    assert abs(surplus.mean()) < 4 * surplus.std() / math.sqrt(len(surplus))
    chances = np.array([guess.disc_probability for guess in guesses])
    found = {name: (errors <= TAU_M).mean() for name, errors in errors_m.items()}
    slack = 4 * math.sqrt((chances * (1 - chances)).mean() / len(chances))
    assert abs(found["best_disc"] - chances.mean()) < slack
    for best, power in (("median", 1), ("mean", 2)):
        for errors in (errors**power for errors in errors_m.values()):
            assert (errors_m[best] ** power).mean() <= errors.mean() + errors.std() / math.sqrt(len(errors))
    assert found["best_disc"] >= max(found.values()) - slack / 2


def surplus_in_standard_errors(mechanism: Mechanism, assumed: Mechanism, users: FloatArray, draws: int) -> float:
    """How much better the true locations explain what was published than an attacker expects who assumes a mechanism.

    The true location is one of ``users``, each as likely. What the attacker expects is the mean over its own belief.
    """
    who = np.tile(np.arange(len(users)), draws // len(users))
    published = mechanism.perturb(users[who], rng=7)
    likelihood = channel_of(assumed).at(mechanism.resolved_region.to_metres(users))
    surplus = []
    for part in np.array_split(np.arange(len(who)), 8):
        logs = likelihood(published[part])
        belief = np.exp(logs - logs.max(axis=0))
        belief /= belief.sum(axis=0)
        expected = (belief * np.where(belief > 0, logs, 0.0)).sum(axis=0)
        surplus.append(logs[who[part], np.arange(logs.shape[1])] - expected)
    found = np.concatenate(surplus)
    return float(found.mean() / found.std() * math.sqrt(len(found)))


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
def test_a_likelihood_that_is_30_percent_too_wide_or_too_narrow_is_seen(mechanism: Mechanism, city: FloatArray) -> None:
    """The attacker's likelihood is right: true locations explain what was published as well as it expects, on average.

    False-alarm rate: 4 standard errors, 6e-5. Where noise is so wide that one location says little, there are more.
    """
    mechanism.fit(city[:400])
    users, draws = city[:30], 24_000 if mechanism.get_params().get("epsilon") == 1.0 else 3_000
    if mechanism.remaps:
        # Neighbors: among them it matters how rays spread.
        users, draws = city[np.argsort(great_circle_m(city[9:10], city))[:30]], 5_000
    elif (disc := mechanism.groups(city)) is not None:
        # From another disc than the published location's nobody can be, whatever the noise.
        users, draws = city[disc == np.bincount(disc).argmax()][:100], 2 * draws
    assert abs(surplus_in_standard_errors(mechanism, mechanism, users, draws)) < 4
    assert surplus_in_standard_errors(mechanism, mechanism.rescaled(1.3), users, draws) > 4
    assert surplus_in_standard_errors(mechanism, mechanism.rescaled(0.7), users, draws) < -4


# -- edges, supports, sampling -----------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("corner", "window_m"), [(False, 300.0), (True, 0.0)])
def test_likelihood_on_the_edge_is_that_of_clamped_draws(san_francisco: Region, corner: bool, window_m: float) -> None:
    """Against counts of draws clamped to a stretch of the northern edge, or to the corner. False-alarm rate 1e-4."""
    mechanism = PlanarLaplace(noise_m=2000, region=san_francisco)
    half_width, half_height = np.array(san_francisco.half_extent_m)
    edge_m = np.array([half_width if corner else 0.0, half_height])
    edge = san_francisco.publish(san_francisco.from_metres(edge_m[None]))
    # Beside the edge point as well as behind it: straight behind it the density there has the same ratio by itself.
    points = edge_m - np.array([[1500.0, 1500.0], [100.0, 2500.0]] if corner else [[0.0, 1500.0], [2500.0, 100.0]])
    counts = []
    for point in points:
        users = np.repeat(san_francisco.from_metres(point[None]), 400_000, axis=0)
        published = mechanism.perturb(users, rng=1)
        sides = edge_sides(published, san_francisco)
        beside = np.abs(san_francisco.to_metres(published)[:, 0] - edge_m[0]) <= window_m
        counts.append(((sides == [1, 1]).all(axis=1) if corner else (sides[:, 1] == 1) & beside).sum())
    logs = DensityChannel(mechanism).at(points)(edge)[:, 0]
    noise = math.sqrt(1 / counts[0] + 1 / counts[1])
    assert logs[0] - logs[1] == pytest.approx(math.log(counts[0] / counts[1]), abs=4 * noise + 0.01)


@pytest.mark.parametrize("settings", [{}, {"gamma": 0.8}, {"release": "paper", "gamma": 0.8}, {"region": "per-axis"}])
def test_only_the_support_is_evaluated_and_nothing_else_is_possible(
    settings: dict[str, Any], san_francisco: Region, city: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    region, users = san_francisco.with_scaling("per-axis" if "region" in settings else "isotropic"), city[:1000]
    mechanism = DPRS(**{"epsilon": 2.0, "release": "interval", "seed": 1, **settings, "region": region}).fit(users)
    intervals, angles = mechanism.current_intervals, np.linspace(0, 2 * np.pi, 24)
    rim = intervals.centres[7] + intervals.radii[7] * np.column_stack([np.cos(angles), np.sin(angles)]) * (1 - 1e-9)
    published = np.vstack([mechanism.perturb(users)[::9], region.publish(region.from_square(rim))])
    published = published[(edge_sides(published, region) == 0).all(axis=1)]
    by_definition = mechanism.log_density(mechanism.enter(users)[:, None], mechanism.enter(published)[None])
    evaluated, given = 0, DPRS.density_given

    def counted(self: DPRS, x: FloatArray) -> Callable[[FloatArray], FloatArray]:
        density = given(self, x)

        def counting(t: FloatArray) -> FloatArray:
            nonlocal evaluated
            evaluated += len(x) * len(t)
            return density(t)

        return counting

    monkeypatch.setattr(DPRS, "density_given", counted)
    found = channel_of(mechanism).at(region.to_metres(users))(published)
    # Rounding leaves the support at the rim, and is averaged over then.
    inside = np.isfinite(by_definition).any(axis=0)
    assert 0.8 < inside.mean() < 1
    assert found[:, inside] == pytest.approx(by_definition[:, inside], abs=1e-6)
    assert np.isfinite(found).any(axis=0).all()
    assert np.isfinite(by_definition).sum() <= evaluated < 2 * np.isfinite(by_definition).sum() < 0.4 * found.size


def test_a_published_location_beyond_every_disc_is_impossible(san_francisco: Region, city: FloatArray) -> None:
    intervals = build_public_intervals(region=san_francisco, centres=60, rng=1)
    mechanism = DPRS(release="interval", intervals=intervals)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior_from_points(city, san_francisco))
    tried = san_francisco.to_square(city)
    gaps = np.hypot(*(tried[:, None] - intervals.centres).transpose(2, 0, 1)) - intervals.radii
    outside = city[gaps.min(axis=1).argmax()]
    guess = attacker.estimate(outside)
    assert not guess.possible
    assert guess.median == guess.best_disc == pytest.approx(san_francisco.to_metres(outside[None])[0])


def test_sampling_comes_close_to_the_density(city: FloatArray, san_francisco: Region) -> None:
    users = city[:400]
    mechanism = PlanarLaplace(noise_m=1000, region=san_francisco, seed=1)
    sampled = SampledChannel(publish=mechanism.perturb, region=san_francisco, draws=1000)
    prior, rng = prior_from_points(users, san_francisco), np.random.default_rng(4)
    published = np.stack([mechanism.perturb(users[:100], rng=rng) for _ in range(3)])
    attackers = [BayesAttacker(mechanism=channel, prior=prior) for channel in (mechanism, sampled)]
    for releases in (1, 3):
        guesses = [each.estimate_many(published[:releases]) for each in attackers]
        exact, near = (np.mean([guess.expected_error_m for guess in some]) for some in guesses)
        assert near == pytest.approx(exact, rel=0.1)


class Opaque(PlanarLaplace):
    """Somebody's mechanism without a density."""

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        raise NotImplementedError


class Boasting(PlanarLaplace):
    """Somebody's mechanism that states a density twice as wide as its noise."""

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        return PlanarLaplace(2 * self.noise_m, self.region).log_density(x, t)


def test_a_mechanism_without_a_density_or_with_a_wrong_one_is_sampled(san_francisco: Region) -> None:
    channel = channel_of(Opaque(region=san_francisco))
    assert isinstance(channel, SampledChannel)
    assert isinstance(channel_of(Boasting(region=san_francisco)), SampledChannel)
    assert isinstance(channel_of(PlanarLaplace(region=san_francisco)), DensityChannel)
    remapping = DPRS(intervals=build_public_intervals(region=san_francisco, centres=60, rng=1))
    assert isinstance(channel_of(remapping), RemappedChannel)
    homes = np.array([[37.7, -122.4], [37.75, -122.5]])
    prior = prior_from_points(homes, san_francisco)
    guess = BayesAttacker(mechanism=replace(channel, draws=50), prior=prior).estimate(homes[:1])
    assert math.dist(guess.median, san_francisco.to_metres(homes)[0]) < 50


def test_what_cannot_be_asked(city: FloatArray, san_francisco: Region) -> None:
    mechanism = PlanarLaplace(region=san_francisco)
    with pytest.raises(UsageError, match="same region"):
        BayesAttacker(mechanism=mechanism, prior=flat_prior(Region(37.5, -122.6, 37.9, -122.3)))
    with pytest.raises(UsageError, match="prior with addresses"):
        BayesAttacker(mechanism=Opaque(region=san_francisco), prior=flat_prior(san_francisco))
    with pytest.raises(UsageError, match="background"):
        prior_from_points(city, san_francisco, background=0.0)
    with pytest.raises(UsageError, match="shape"):
        BayesAttacker(mechanism=mechanism, prior=flat_prior(san_francisco)).estimate_many(np.empty((0, 3, 2)))
