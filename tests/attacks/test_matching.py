"""All users matched at once: as by counting all assignments, and better than one user alone."""

from itertools import permutations

import numpy as np
import pytest

from nearveil import PlanarLaplace
from nearveil.attacks.matching import match_everybody
from nearveil.attacks.scores import score_naming
from nearveil.errors import UsageError
from nearveil.region import named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")


def scattered(rng: np.random.Generator, homes: int, side_m: float) -> FloatArray:
    return REGION.from_metres(rng.uniform(-side_m / 2, side_m / 2, (homes, 2)))


@pytest.mark.parametrize(("residents", "users"), [((1,) * 6, 6), ((1, 2, 1, 3), 7), ((1,) * 7, 5)])
def test_the_likeliest_address_is_nearly_always_that_over_all_assignments(
    residents: tuple[int, ...], users: int
) -> None:
    """Also where several live at one address, and where some addresses have nobody who was published."""
    rng, mechanism = np.random.default_rng(3), PlanarLaplace(500, region=REGION)
    chances = []
    for _ in range(25):
        homes = np.repeat(scattered(rng, len(residents), 2500), residents, axis=0)
        published = mechanism.perturb(rng.permutation(homes)[:users], rng)
        logs = mechanism.log_density(mechanism.enter(homes)[None], mechanism.enter(published)[:, None])
        ways = np.array(list(permutations(range(len(homes)), users)))
        weights = np.exp(logs[np.arange(users), ways].sum(axis=1) - logs.max(axis=1).sum())
        exact = np.array([np.bincount(ways[:, user], weights, minlength=len(homes)) for user in range(users)])
        # Of one address, all rows count.
        exact = exact @ (homes[:, None] == homes[None]).all(axis=2) / weights.sum()
        likeliest = match_everybody(mechanism, homes, published)
        chances.append([exact[np.arange(users), rows].mean() for rows in (likeliest, exact.argmax(axis=1))])
    found, best = np.mean(chances, axis=0)
    assert 0.985 * best < found <= best


def test_matching_names_more_users_than_one_by_one() -> None:
    """The same 400 users both ways, with a seed."""
    homes = scattered(np.random.default_rng(1), 400, 20_000)
    mechanism = PlanarLaplace(500, region=REGION, seed=1)
    published = mechanism.perturb(homes)
    alone = score_naming(mechanism, homes, published).mean()
    assert 0.4 < alone < (match_everybody(mechanism, homes, published) == np.arange(400)).mean() - 0.03


def test_what_cannot_be_matched_is_refused() -> None:
    homes, mechanism = scattered(np.random.default_rng(1), 3, 3000), PlanarLaplace(500, region=REGION)
    with pytest.raises(UsageError, match="more published locations than addresses"):
        match_everybody(mechanism, homes[:2], homes)
