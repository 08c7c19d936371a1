"""The best attacker: exact where the answer is known, never worse than reading off, and right about its own chances.

Seeds are fixed throughout, so nothing here fails by chance; the false-alarm rates are those of a fresh seed.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.evidence import for_evidence

from nearveil import DPRS, SRR, AxisLaplace, Mechanism, PlanarLaplace, Square
from nearveil.attacks.bayes import BayesAttacker, best_disc, flat_prior, geometric_median, prior_from_points
from nearveil.attacks.channels import (
    DensityChannel,
    RemappedChannel,
    SampledChannel,
    channel_of,
    edge_sides,
)
from nearveil.attacks.scores import BayesScore, score_attacker
from nearveil.errors import UsageError
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.region import Region
from nearveil.sphere import great_circle_m
from nearveil.types import FloatArray

TAU_M = 100.0
MECHANISMS = [
    PlanarLaplace(noise_m=400, seed=1, region="san-francisco"),
    AxisLaplace(epsilon=30.0, seed=1, region="san-francisco"),
    # So wide that most published places lie on the region's edge, many in its corners.
    *for_evidence(
        AxisLaplace(epsilon=1.0, seed=1, region="san-francisco"),
        DPRS(epsilon=1.0, centres=100, fit_method="private-grid", seed=1, region="san-francisco"),
        SRR(epsilon=5.0, seed=1, region="san-francisco"),
    ),
    DPRS(epsilon=5.0, noise="gaussian", centres=100, fit_method="private-grid", seed=1, region="san-francisco"),
    Square(epsilon=5.0, seed=1, region="san-francisco"),
]


def name_of(mechanism: Mechanism) -> str:
    settings: dict[str, Any] = mechanism.get_params()
    return f"{type(mechanism).__name__}-{settings.get('epsilon', '')}"


def attack(
    mechanism: Mechanism, people: FloatArray, *, leave_out: bool, spread_m: float | None = None, count: int = 120
) -> BayesScore:
    prior = prior_from_points(people, mechanism.resolved_region, spread_m=spread_m)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior, tau_m=TAU_M)
    targets = np.random.default_rng(2).choice(len(people), count, replace=False)
    return score_attacker(attacker, people, mechanism.perturb(people), targets=targets, leave_out=leave_out)


# -- exact answers -----------------------------------------------------------------------------------------------


def test_with_a_flat_prior_the_guess_is_the_published_place(san_francisco: Region) -> None:
    mechanism = PlanarLaplace(noise_m=200, region=san_francisco)
    published_m = np.array([1234.0, -2345.0])
    guess = BayesAttacker(mechanism=mechanism, prior=flat_prior(san_francisco)).estimate(
        san_francisco.from_metres(published_m[None])
    )
    for place, slack_m in ((guess.mean, 1.0), (guess.median, 1.0), (guess.best_disc, 30.0)):
        assert math.dist(place, published_m) < slack_m
    assert guess.expected_error_m == pytest.approx(200.0, rel=0.01)
    # The noise's length is Gamma(2, 100 m).
    assert guess.disc_probability == pytest.approx(1 - 2 / math.e, rel=0.06)


@pytest.mark.parametrize("releases", [1, 3])
def test_two_places_have_the_exact_odds(san_francisco: Region, releases: int) -> None:
    mechanism = PlanarLaplace(noise_m=500, region=san_francisco)
    homes_m = np.array([[0.0, 0.0], [1000.0, 0.0]])
    prior = prior_from_points(san_francisco.from_metres(homes_m), san_francisco, spread_m=0.0, background=1e-12)
    published_m = np.array([[300.0, 100.0], [650.0, -200.0], [550.0, 900.0]])[:releases]
    homes, published = san_francisco.from_metres(homes_m), san_francisco.from_metres(published_m)
    lead_m = great_circle_m(homes[1], published) - great_circle_m(homes[0], published)
    odds = math.exp(lead_m.sum() * mechanism.epsilon_per_m)
    guess = BayesAttacker(mechanism=mechanism, prior=prior).estimate(san_francisco.from_metres(published_m))
    assert guess.mean == pytest.approx((1000 / (1 + odds), 0.0), abs=0.2)
    likelier = homes_m[0] if odds > 1 else homes_m[1]
    assert guess.median == pytest.approx(likelier, abs=0.01)
    assert guess.disc_probability == pytest.approx(max(odds, 1.0) / (1 + odds), abs=1e-3)
    assert guess.expected_error_m == pytest.approx(1000 * min(odds, 1.0) / (1 + odds), abs=0.2)


def test_geometric_median_of_known_sets(rng: np.random.Generator) -> None:
    square = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0], [100.0, 100.0]])
    assert geometric_median(square, np.full(4, 0.25)) == pytest.approx((50.0, 50.0), abs=0.2)
    # Half of the weight in one place: that place, however far the others are.
    assert geometric_median(square, np.array([0.5, 0.2, 0.2, 0.1])) == (0.0, 0.0)
    # Fermat's point of a right-angled triangle with equal legs: on its axis, seeing every side at 120 degrees.
    triangle = np.array([[0.0, 0.0], [600.0, 0.0], [0.0, 600.0]])
    fermat = 300 * (1 - 1 / math.sqrt(3))
    assert geometric_median(triangle, np.full(3, 1 / 3)) == pytest.approx((fermat, fermat), abs=0.5)
    places, weights = rng.normal(0, 1000, (200, 2)), rng.dirichlet(np.ones(200))
    best = minimize(lambda x: weights @ np.hypot(*(places - x).T), np.zeros(2), method="Nelder-Mead", tol=1e-4)
    assert geometric_median(places, weights) == pytest.approx(best.x, abs=2.0)


def test_best_disc_of_known_clusters(rng: np.random.Generator) -> None:
    clusters = np.vstack([rng.normal(0, 20, (50, 2)), rng.normal(5000, 20, (60, 2)), rng.uniform(-1e4, 1e4, (40, 2))])
    x, y, weight = best_disc(clusters, np.full(150, 1 / 150), TAU_M)
    assert math.dist((x, y), (5000, 5000)) < 50
    assert weight == pytest.approx(0.4, abs=0.02)
    # Two places that only a disc between them holds.
    pair = np.array([[0.0, 0.0], [180.0, 60.0]])
    assert best_disc(pair, np.array([0.5, 0.5]), TAU_M)[2] == pytest.approx(1.0)
    assert best_disc(pair, np.array([0.7, 0.3]), 50.0)[2] == pytest.approx(0.7)


def test_best_disc_is_as_good_as_a_fine_search(rng: np.random.Generator) -> None:
    for _ in range(4):
        places, weights = rng.normal(0, 150, (300, 2)), rng.dirichlet(np.ones(300))
        x, y = np.meshgrid(*(np.arange(-400, 400, 5.0),) * 2)
        inside = (x[..., None] - places[:, 0]) ** 2 + (y[..., None] - places[:, 1]) ** 2 <= TAU_M**2
        assert best_disc(places, weights, TAU_M)[2] >= 0.98 * (inside @ weights).max()


# -- against mechanisms ------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name_of)
def test_the_attacker_is_right_about_its_own_chances(mechanism: Mechanism, city: FloatArray) -> None:
    """Where the prior is the truth, the error it expects is the error it makes, on average, and so is its share of
    people found. This sees guesses and chances that are wrong, and a likelihood that is far off; the next test sees
    one that is 30 % off. False-alarm rate: 4 standard errors, about 1e-4 for each of the two figures."""
    people = city[:400]
    mechanism.fit(people)
    prior = prior_from_points(people, mechanism.resolved_region, spread_m=0.0, background=1e-9)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior, tau_m=TAU_M)
    published = mechanism.perturb(people)[:200]
    guesses = attacker.estimate_many(published)
    true_m = attacker.prior.region.to_metres(people[:200])
    errors = np.hypot(*(np.array([guess.median for guess in guesses]) - true_m).T)
    found = np.hypot(*(np.array([guess.best_disc for guess in guesses]) - true_m).T) <= TAU_M
    assert all(guess.possible for guess in guesses)
    surplus = errors - [guess.expected_error_m for guess in guesses]
    assert abs(surplus.mean()) < 4 * surplus.std() / math.sqrt(len(surplus))
    chances = np.array([guess.disc_probability for guess in guesses])
    assert abs((found - chances).sum()) < 4 * math.sqrt((chances * (1 - chances)).sum())


def surplus_in_standard_errors(mechanism: Mechanism, assumed: Mechanism, people: FloatArray, draws: int) -> float:
    """How much better the true places explain what was published than an attacker expects who assumes a mechanism.

    The true place is one of ``people``, each as likely. What the attacker expects is the mean over its own belief.
    """
    who = np.tile(np.arange(len(people)), draws // len(people))
    published = mechanism.perturb(people[who], rng=7)
    likelihood = channel_of(assumed).at(mechanism.resolved_region.to_metres(people))
    surplus = []
    for start in range(0, len(who), 400):
        part = slice(start, start + 400)
        logs = likelihood(published[part])
        belief = np.exp(logs - logs.max(axis=0))
        belief /= belief.sum(axis=0)
        expected = (belief * np.where(belief > 0, logs, 0.0)).sum(axis=0)
        surplus.append(logs[who[part], np.arange(logs.shape[1])] - expected)
    found = np.concatenate(surplus)
    return float(found.mean() / found.std() * math.sqrt(len(found)))


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name_of)
def test_a_likelihood_that_is_30_percent_too_wide_or_too_narrow_is_seen(mechanism: Mechanism, city: FloatArray) -> None:
    """The attacker's likelihood is right: true places explain what was published as well as it expects, on average.

    False-alarm rate: 4 standard errors, 6e-5. Where noise is so wide that one published place says little, there are
    more of them.
    """
    mechanism.fit(city[:400])
    people, draws = city[:30], 24_000 if mechanism.get_params().get("epsilon") == 1.0 else 3_000
    if isinstance(mechanism, DPRS):
        # Of another disc than the published place's nobody can be, whatever the noise.
        intervals = mechanism.current_intervals
        apart = np.linalg.norm(intervals.region.to_square(city)[:, None] - intervals.centres, axis=2)
        disc = apart.argmin(axis=1)
        people, draws = city[disc == np.bincount(disc).argmax()][:100], 2 * draws
    assert abs(surplus_in_standard_errors(mechanism, mechanism, people, draws)) < 4
    assert surplus_in_standard_errors(mechanism, mechanism.rescaled(1.3), people, draws) > 4
    assert surplus_in_standard_errors(mechanism, mechanism.rescaled(0.7), people, draws) < -4


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name_of)
def test_never_worse_than_reading_off_and_each_guess_best_at_its_own(mechanism: Mechanism, city: FloatArray) -> None:
    """The prior is the truth: everybody's address. False-alarm rate: 1 standard error of slack and more, on figures
    whose difference has a much smaller one; below 1e-3 each."""
    people = city[:1000]
    score = attack(mechanism.fit(people), people, leave_out=False, spread_m=0.0)
    read_off = score.read_off
    assert score.median.error_m.value <= read_off.error_m.value + read_off.error_m.standard_error
    assert score.best_disc.accuracy.value >= read_off.accuracy.value - 2 * read_off.accuracy.standard_error
    others = (score.mean, score.best_disc, score.median)
    for other in others:
        assert score.median.error_m.value <= other.error_m.value + other.error_m.standard_error
        assert score.best_disc.accuracy.value >= other.accuracy.value - 2 * other.accuracy.standard_error
        squared = other.squared_error_m2
        assert score.mean.squared_error_m2.value <= squared.value + squared.standard_error


def test_who_is_left_out_is_no_candidate(san_francisco: Region) -> None:
    mechanism = PlanarLaplace(noise_m=500, region=san_francisco)
    homes = san_francisco.from_metres(np.array([[0.0, 0.0], [5000.0, 0.0]]))
    attacker = BayesAttacker(mechanism=mechanism, prior=prior_from_points(homes, san_francisco, spread_m=0.0))
    known = attacker.estimate(homes[0])
    unknown = attacker.estimate_many(homes[:1], leave_out=np.array([0]))[0]
    other_unknown = attacker.estimate_many(homes[:1], leave_out=np.array([1]))[0]
    assert known.disc_probability > 0.95
    assert unknown.disc_probability < 0.1
    assert other_unknown.disc_probability > 0.95


def test_knowing_the_targets_address_helps(city: FloatArray) -> None:
    mechanism = PlanarLaplace(noise_m=400, seed=1, region="san-francisco")
    knows = attack(mechanism, city, spread_m=0.0, leave_out=False)
    does_not = attack(mechanism, city, leave_out=True)
    assert knows.median.error_m.value < does_not.median.error_m.value
    assert knows.best_disc.accuracy.value > 2 * does_not.best_disc.accuracy.value
    assert knows.read_off == does_not.read_off
    assert str(knows).startswith("the best attacker is wrong by ")


def test_published_places_serve_as_a_prior(city: FloatArray, san_francisco: Region) -> None:
    """Noise as wide as neighborhoods: then even the published places tell where people are."""
    mechanism = PlanarLaplace(noise_m=3000, region=san_francisco, seed=1)
    published = mechanism.perturb(city)
    prior = prior_from_points(published, san_francisco, spread_m=mechanism.noise_m / 2, background=0.2)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior)
    score = score_attacker(attacker, city, published, targets=np.arange(60), leave_out=True)
    true_prior = attack(mechanism, city, leave_out=True, count=60)
    assert score.median.error_m.value < 0.95 * score.read_off.error_m.value
    assert true_prior.median.error_m.value < 0.95 * true_prior.read_off.error_m.value


@pytest.mark.statistical
def test_repeated_releases_average_out(san_francisco: Region) -> None:
    """The error falls like one over the root of the number of releases, or a little faster: planar Laplace has a peak.
    False-alarm rate: the bounds are 4 standard errors from 1/4, below 1e-4."""
    mechanism = PlanarLaplace(noise_m=400, region=san_francisco, seed=1)
    people = san_francisco.from_metres(np.random.default_rng(1).uniform(-5000, 5000, (100, 2)))
    rng = np.random.default_rng(2)
    published = np.stack([mechanism.perturb(people, rng=rng) for _ in range(16)])
    attacker = BayesAttacker(mechanism=mechanism, prior=flat_prior(san_francisco))
    errors = [
        score_attacker(attacker, people, published[:releases], leave_out=False).median.error_m.value
        for releases in (1, 4, 16)
    ]
    assert 0.3 < errors[1] / errors[0] < 0.7
    assert 0.14 < errors[2] / errors[0] < 0.36


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
    places = edge_m - np.array([[1500.0, 1500.0], [100.0, 2500.0]] if corner else [[0.0, 1500.0], [2500.0, 100.0]])
    counts = []
    for place in places:
        people = np.repeat(san_francisco.from_metres(place[None]), 400_000, axis=0)
        published = mechanism.perturb(people, rng=1)
        sides = edge_sides(published, san_francisco)
        beside = np.abs(san_francisco.to_metres(published)[:, 0] - edge_m[0]) <= window_m
        counts.append(((sides == [1, 1]).all(axis=1) if corner else (sides[:, 1] == 1) & beside).sum())
    logs = DensityChannel(mechanism).at(places)(edge)[:, 0]
    noise = math.sqrt(1 / counts[0] + 1 / counts[1])
    assert logs[0] - logs[1] == pytest.approx(math.log(counts[0] / counts[1]), abs=4 * noise + 0.01)


def test_a_published_place_beyond_every_disc_is_impossible(san_francisco: Region, city: FloatArray) -> None:
    intervals = build_public_intervals(region=san_francisco, centres=60, rng=1)
    mechanism = DPRS(release="interval", intervals=intervals)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior_from_points(city, san_francisco))
    tried = san_francisco.to_square(city)
    gaps = np.hypot(*(tried[:, None] - intervals.centres).transpose(2, 0, 1)) - intervals.radii
    outside = city[gaps.min(axis=1).argmax()]
    guess = attacker.estimate(outside)
    assert not guess.possible
    assert guess.median == guess.best_disc == pytest.approx(san_francisco.to_metres(outside[None])[0])
    assert math.isnan(guess.expected_error_m)


def test_rounding_may_leave_the_disc(san_francisco: Region, city: FloatArray) -> None:
    intervals = build_public_intervals(region=san_francisco, centres=60, rng=1)
    attacker = BayesAttacker(
        mechanism=DPRS(release="interval", intervals=intervals), prior=prior_from_points(city, san_francisco)
    )
    angles = np.linspace(0, 2 * np.pi, 24)
    inner = intervals.centres[7] + intervals.radii[7] * (1 - 1e-9) * np.column_stack([np.cos(angles), np.sin(angles)])
    published = san_francisco.publish(san_francisco.from_square(inner))
    back = np.hypot(*(san_francisco.to_square(published) - intervals.centres[7]).T)
    assert (back > intervals.radii[7] * (1 + 1e-8)).sum() > 3
    assert all(guess.possible for guess in attacker.estimate_many(published))


def test_sampling_comes_close_to_the_density(city: FloatArray, san_francisco: Region) -> None:
    people = city[:400]
    mechanism = PlanarLaplace(noise_m=1000, region=san_francisco, seed=1)
    prior = prior_from_points(people, san_francisco)
    sampled = SampledChannel(publish=mechanism.perturb, region=san_francisco, draws=1000)
    for releases in (1, 3):
        rng = np.random.default_rng(4)
        published = np.stack([mechanism.perturb(people, rng=rng) for _ in range(releases)])
        errors = [
            score_attacker(
                BayesAttacker(mechanism=channel, prior=prior), people, published, targets=np.arange(100), leave_out=True
            ).median.error_m.value
            for channel in (mechanism, sampled)
        ]
        assert errors[1] == pytest.approx(errors[0], rel=0.08)


def test_a_mechanism_without_a_density_is_sampled(san_francisco: Region) -> None:
    class Opaque(PlanarLaplace):
        def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
            raise NotImplementedError

    channel = channel_of(Opaque(region=san_francisco))
    assert isinstance(channel, SampledChannel)
    assert isinstance(channel_of(PlanarLaplace(region=san_francisco)), DensityChannel)
    homes = np.array([[37.7, -122.4], [37.75, -122.5]])
    prior = prior_from_points(homes, san_francisco, spread_m=0.0)
    guess = BayesAttacker(mechanism=replace(channel, draws=50), prior=prior).estimate(homes[:1])
    assert math.hypot(*guess.median) < 50


def test_progress_and_order(city: FloatArray, san_francisco: Region) -> None:
    mechanism = PlanarLaplace(region=san_francisco, seed=1)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior_from_points(city[:300], san_francisco, spread_m=50))
    published = mechanism.perturb(city[:100])
    done: list[int] = []
    guesses = attacker.estimate_many(published, progress=done.append)
    assert sum(done) == 100
    assert guesses[70].median == pytest.approx(attacker.estimate(published[70]).median, abs=0.1)


def test_what_cannot_be_asked(city: FloatArray, san_francisco: Region) -> None:
    mechanism = PlanarLaplace(region=san_francisco)
    with pytest.raises(UsageError, match="same region"):
        BayesAttacker(mechanism=mechanism, prior=flat_prior(Region(37.5, -122.6, 37.9, -122.3)))
    with pytest.raises(UsageError, match="tau"):
        BayesAttacker(mechanism=mechanism, prior=flat_prior(san_francisco), tau_m=0.0)
    with pytest.raises(UsageError, match="background"):
        prior_from_points(city, san_francisco, background=0.0)
    with pytest.raises(UsageError, match="spread"):
        prior_from_points(city, san_francisco, spread_m=-1.0)
    attacker = BayesAttacker(mechanism=mechanism, prior=prior_from_points(city, san_francisco))
    with pytest.raises(UsageError, match="shape"):
        attacker.estimate_many(np.empty((0, 3, 2)))
    with pytest.raises(UsageError, match="leave out"):
        attacker.estimate_many(city[:5], leave_out=np.arange(3))
    with pytest.raises(UsageError, match="same rows"):
        score_attacker(attacker, city[:5], city[:5], leave_out=True)
    with pytest.raises(UsageError, match="draws"):
        SampledChannel(publish=mechanism.perturb, region=san_francisco, draws=1)


@pytest.mark.statistical
def test_likelihood_of_remapped_places_is_that_of_what_is_published(san_francisco: Region, city: FloatArray) -> None:
    """The mean of L(elsewhere) / L(here) over what is published from here is 1, if both are true up to one constant.

    False-alarm rate: 10 means, each allowed five standard errors and 0.01 for the rays' steps, below 1e-4 in all. Small
    discs and much noise, so that rays spread.
    """
    mechanism = DPRS(release="metric", noise_m=700, gamma=0.1, centres=200, seed=1, region="san-francisco").fit(city)
    channel = channel_of(mechanism)
    assert isinstance(channel, RemappedChannel)
    rng = np.random.default_rng(5)
    for here in city[100:102]:
        here_m = san_francisco.to_metres(here[None])[0]
        places_m = here_m + np.array([[0.0, 0.0], [300, 0], [0, -300], [250, 250], [100, -50], [-250, 80]])
        published = mechanism.perturb(np.tile(here, (12_000, 1)), rng)
        logs = channel.at(places_m)(published)
        ratios = np.exp(logs[1:] - logs[0])
        error = ratios.std(axis=1) / math.sqrt(ratios.shape[1])
        assert (np.abs(ratios.mean(axis=1) - 1) < 5 * error + 0.01).all()
