"""Everybody matched at once: marginals as by counting all assignments, calibrated, and better than one person alone."""

import math
from itertools import permutations

import numpy as np
import pytest

from nearveil import SRR, Mechanism, PlanarLaplace
from nearveil.attacks.channels import Likelihood, SampledChannel
from nearveil.attacks.matching import match_everybody
from nearveil.attacks.scores import named_by, score_naming
from nearveil.errors import UsageError
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.region import Region, named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")


def by_counting(logs: FloatArray) -> FloatArray:
    """Exact marginals of people (rows) at places (columns): the weight of every assignment."""
    people, places = logs.shape
    ways = np.array(list(permutations(range(places), people)))
    weights = np.exp(logs[np.arange(people), ways].sum(axis=1))
    found = np.array([np.bincount(ways[:, person], weights, minlength=places) for person in range(people)])
    return found / weights.sum()


def by_balancing(logs: FloatArray) -> FloatArray:
    """Sinkhorn's marginals; places that stay empty have people to whom all are alike."""
    shares = np.exp(np.vstack([logs, np.zeros((logs.shape[1] - len(logs), logs.shape[1]))]))
    for _ in range(500):
        shares /= shares.sum(axis=0)
        shares /= shares.sum(axis=1, keepdims=True)
    return shares[: len(logs)]


def scattered(rng: np.random.Generator, homes: int, side_m: float) -> FloatArray:
    return REGION.from_metres(rng.uniform(-side_m / 2, side_m / 2, (homes, 2)))


@pytest.mark.parametrize("noise_m", [150, 500, 1500])
@pytest.mark.parametrize(("residents", "people"), [((1,) * 6, 6), ((1, 2, 1, 3), 7), ((1,) * 7, 5)])
def test_marginals_are_near_those_of_all_assignments(noise_m: int, residents: tuple[int, ...], people: int) -> None:
    """Also where several live at one address, and where some addresses have nobody who was published.

    The method is not exact: its mean error here is 0.0004 to 0.017, that of balancing alone 0.005 to 0.048.
    """
    rng = np.random.default_rng(3)
    mechanism = PlanarLaplace(noise_m=noise_m, region=REGION)
    errors: dict[str, list[float]] = {"matched": [], "balanced": []}
    for _ in range(20):
        homes = np.repeat(scattered(rng, len(residents), 2500), residents, axis=0)
        published = mechanism.perturb(rng.permutation(homes)[:people], rng)
        logs = mechanism.log_density(mechanism.enter(homes)[None], mechanism.enter(published)[:, None])
        logs -= logs.max(axis=1, keepdims=True)
        exact = by_counting(logs)
        matched = match_everybody(mechanism, homes, published).probabilities(np.arange(people))
        assert matched.sum(axis=1) == pytest.approx(1)
        errors["matched"].append(float(np.abs(matched - exact).mean()))
        errors["balanced"].append(float(np.abs(by_balancing(logs) - exact).mean()))
    assert np.mean(errors["matched"]) < 0.02
    assert np.mean(errors["matched"]) < 0.6 * np.mean(errors["balanced"])


def test_two_people_who_could_be_exchanged() -> None:
    """Two people and two addresses: exact, where belief propagation would be sure of the likelier way."""
    mechanism = PlanarLaplace(noise_m=500, region=REGION)
    homes = REGION.from_metres(np.array([[0.0, 0.0], [300.0, 0.0]]))
    published = REGION.from_metres(np.array([[80.0, 200.0], [260.0, -300.0]]))
    logs = mechanism.log_density(mechanism.enter(homes)[None], mechanism.enter(published)[:, None])
    exact = by_counting(logs)
    assert 0.6 < exact[0, 0] < 0.9
    assert match_everybody(mechanism, homes, published).probabilities(np.arange(2)) == pytest.approx(exact, abs=0.005)


@pytest.mark.evidence
def test_of_those_named_with_probability_p_about_p_are_right() -> None:
    """Fails by chance once in 70,000 runs (|z| > 4.5 in one of two ranges); errors of the method add less than 1."""
    rng = np.random.default_rng(5)
    mechanism = PlanarLaplace(noise_m=500, region=REGION)
    sure, right = np.empty(1200), np.empty(1200)
    for number in range(len(sure)):
        homes = scattered(rng, 15, 3500)
        found = match_everybody(mechanism, homes, mechanism.perturb(homes, rng)).probabilities(np.arange(1))[0]
        # One person of each population, so that cases are independent.
        sure[number], right[number] = found.max(), found.argmax() == 0
    for chosen in (sure < 0.7, sure >= 0.7):
        z = (right[chosen] - sure[chosen]).sum() / math.sqrt((sure * (1 - sure))[chosen].sum())
        assert chosen.sum() > 300
        assert abs(z) < 4.5


def mechanisms(people: FloatArray) -> list[Mechanism]:
    return [
        PlanarLaplace(noise_m=3000, region=REGION, seed=3),
        HideAmong(30, cells=cells_from_points(people, REGION, CellPlan(hide_among=30)), seed=3),
        SRR(epsilon=12.0, region=REGION, seed=3),
    ]


@pytest.mark.parametrize("number", range(3))
def test_every_address_has_its_people(number: int, city: FloatArray) -> None:
    """Also where more addresses are likely than are listed, and for mechanisms of other shapes."""
    people = np.vstack([city[: (1480, 380, 380)[number]], city[:20]])
    mechanism = mechanisms(people)[number]
    matching = match_everybody(mechanism, people, mechanism.perturb(people))
    found = matching.probabilities(np.arange(len(people)))
    assert found.sum(axis=1) == pytest.approx(1)
    assert np.abs(found.sum(axis=0) - 1).mean() < 0.01


def test_matching_names_more_people_than_one_by_one() -> None:
    """The same 400 people both ways, with a seed."""
    people = scattered(np.random.default_rng(1), 400, 20_000)
    mechanism = PlanarLaplace(noise_m=500, region=REGION, seed=1)
    published = mechanism.perturb(people)
    matching = match_everybody(mechanism, people, published)
    everybody = np.arange(len(people))
    together = named_by(matching.book, matching.log_likelihoods(everybody), matching.book.lives_at)
    alone = score_naming(mechanism, people, published).probabilities
    assert 0.4 < alone.mean() < together.mean() - 0.03
    tau_m = 100.0
    guess = matching.guess(matching.log_likelihoods(everybody[:1])[0], REGION.to_metres(published[:1])[0], tau_m)
    assert guess.possible


class Impossible:
    """A channel in which nobody could have published anything, as where rounding left the support."""

    region: Region = REGION
    prepares_fast = True

    def at(self, places_m: FloatArray) -> Likelihood:
        return lambda published: np.full((len(places_m), len(published)), -np.inf)


def test_what_cannot_be_explains_nothing() -> None:
    homes = scattered(np.random.default_rng(1), 3, 3000)
    matching = match_everybody(Impossible(), homes, homes)
    assert not matching.guess(matching.log_likelihoods(np.arange(1))[0], np.zeros(2), 100.0).possible


def test_what_cannot_be_matched_is_refused() -> None:
    homes = scattered(np.random.default_rng(1), 3, 3000)
    mechanism = PlanarLaplace(noise_m=500, region=REGION)
    with pytest.raises(UsageError, match="3 published places for 2 addresses"):
        match_everybody(mechanism, homes[:2], homes)
    with pytest.raises(UsageError, match="needs the density"):
        match_everybody(SampledChannel(publish=mechanism.perturb, region=REGION), homes, homes)
