"""Scores of the best attacker: who is named, as by comparing every address, and who lives where people are sparse."""

import numpy as np
import pytest

from nearveil import SRR, Mechanism, PlanarLaplace
from nearveil.attacks.channels import (
    CellChannel,
    Likelihood,
    channel_of,
    edge_sides,
)
from nearveil.attacks.scores import density_tenths, naming_targets, score_naming
from nearveil.mechanisms.cells import Cells, Layout
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.region import named_region
from nearveil.types import FloatArray


def named_by_brute_force(mechanism: Mechanism, people: FloatArray, published: FloatArray, target: int) -> float:
    """From the definition, address by address and with plain densities."""
    addresses, residents = np.unique(people, axis=0, return_counts=True)
    x, t = mechanism.enter(addresses), mechanism.enter(published[target : target + 1])
    logs = np.array([float(mechanism.log_density(one[None], t)[0]) for one in x]) + np.log(residents)
    first = logs > logs.max() - 1e-9
    own = int(np.flatnonzero((addresses == people[target]).all(axis=1))[0])
    return float(first[own]) / first.sum()


@pytest.fixture(scope="module")
def shared_addresses(city: FloatArray) -> FloatArray:
    """Some people share an address, two at one and three at another."""
    return np.vstack([city[:300], city[:20], city[:5]])


def naming_mechanisms(people: FloatArray) -> list[Mechanism]:
    region = named_region("san-francisco")
    cells = cells_from_points(people, region, CellPlan(hide_among=30))
    return [
        PlanarLaplace(noise_m=700, region=region, seed=3),
        HideAmong(30, cells=cells, seed=3),
        SRR(epsilon=12.0, region=region, seed=3),
    ]


@pytest.mark.parametrize("number", range(3))
def test_named_as_by_brute_force(number: int, shared_addresses: FloatArray) -> None:
    mechanism = naming_mechanisms(shared_addresses)[number]
    published = mechanism.perturb(shared_addresses)
    # Places at the region's edge stand for those beyond it, which a plain density does not know.
    inside = np.flatnonzero((edge_sides(published, mechanism.resolved_region) == 0).all(axis=1))
    targets = np.concatenate([inside[:40], inside[-25:]])
    score = score_naming(mechanism, shared_addresses, published, targets=targets)
    by_hand = [named_by_brute_force(mechanism, shared_addresses, published, int(target)) for target in targets]
    assert score.probabilities == pytest.approx(by_hand)
    assert 0 < score.named.value < 1


def test_naming_by_distance_is_naming_by_density(shared_addresses: FloatArray) -> None:
    mechanism = naming_mechanisms(shared_addresses)[0]
    published = mechanism.perturb(shared_addresses)
    fast = score_naming(mechanism, shared_addresses, published)
    once = score_naming(DensityOnly(mechanism), shared_addresses, published)
    assert np.array_equal(fast.probabilities, once.probabilities)
    assert fast.sparsest.value > fast.in_tenth(0).value


class DensityOnly:
    """A channel that nobody knows to be planar Laplace."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._channel = channel_of(mechanism)
        self.region, self.prepares_fast = self._channel.region, True

    def at(self, places_m: FloatArray) -> Likelihood:
        return self._channel.at(places_m)


def test_ties_are_shared_and_more_releases_name_more(shared_addresses: FloatArray) -> None:
    region = named_region("san-francisco")
    # Two cells that hold everybody: all addresses of a cell look alike.
    people = region.from_metres(np.array([[-9000.0, 0], [-9001.0, 5], [-9002.0, 9], [9000.0, 0]]))
    layout = Layout(region, 2, 1, 0)
    cells = Cells(layout=layout, depths=np.zeros(2, np.int8), people=np.array([3.0, 1.0]), people_per_cell=1.0,
                  source="public")  # fmt: skip
    mechanism = HideAmong(2, cells=cells, epsilon=20.0, seed=1)
    assert isinstance(channel_of(mechanism), CellChannel)
    named = score_naming(mechanism, people, mechanism.perturb(people)).probabilities
    assert named == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1.0])
    planar = naming_mechanisms(shared_addresses)[0]
    releases = np.stack([planar.perturb(shared_addresses, rng=seed) for seed in range(8)])
    shares = [score_naming(planar, shared_addresses, releases[:count]).named.value for count in (1, 8)]
    assert shares[1] > 1.3 * shares[0]


def test_tenths_of_density() -> None:
    rng = np.random.default_rng(1)
    places_m = np.vstack([rng.normal(0, 50, (900, 2)), rng.uniform(-9000, 9000, (100, 2))])
    tenths = density_tenths(places_m)
    assert np.bincount(tenths).tolist() == [100] * 10
    assert (tenths[900:] == 9).mean() > 0.9
    targets = naming_targets(tenths, 200, rng)
    assert np.bincount(tenths[targets]).tolist() == [20] * 10
    assert len(set(targets.tolist())) == 200
    assert naming_targets(tenths, 1000, rng).tolist() == list(range(1000))
    # However few there are, somebody lives sparsest.
    assert density_tenths(places_m[:1]).tolist() == [9]
    assert density_tenths(places_m[895:902]).max() == 9
