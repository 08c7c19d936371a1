"""Scores of the best attacker: who is named, as by comparing every address, and who lives where users are sparse."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nearveil import SRR, Mechanism, PlanarLaplace
from nearveil.attacks.channels import channel_of, edge_sides
from nearveil.attacks.scores import density_tenths, naming_targets, score_naming
from nearveil.mechanisms.cells import Cells, Layout
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.region import named_region
from nearveil.types import FloatArray

REGION = named_region("san-francisco")


def named_by_definition(mechanism: Mechanism, users: FloatArray, releases: FloatArray, target: int) -> float:
    """Address by address and with plain densities."""
    addresses, residents = np.unique(users, axis=0, return_counts=True)
    x, t = mechanism.enter(addresses), mechanism.enter(releases[:, target])
    logs = mechanism.log_density(x[:, None], t[None]).sum(axis=1) + np.log(residents)
    is_first = logs > logs.max() - 1e-9
    own = int(np.flatnonzero((addresses == users[target]).all(axis=1))[0])
    return float(is_first[own]) / is_first.sum()


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("count", [1, 3])
def test_named_as_by_definition(number: int, count: int, city: FloatArray) -> None:
    # Some users share an address, two at one and three at another.
    users = np.vstack([city[:300], city[:20], city[:5]])
    cells = cells_from_points(users, REGION, CellPlan(hide_among=30))
    mechanism = (PlanarLaplace(700, REGION), HideAmong(30, cells=cells), SRR(epsilon=12.0, region=REGION))[number]
    releases = np.stack([mechanism.perturb(users, rng=seed) for seed in range(count)])
    # Locations at the region's edge stand for those beyond it, which a plain density does not know.
    is_inside = np.all([(edge_sides(each, REGION) == 0).all(axis=1) for each in releases], axis=0)
    targets = np.flatnonzero(is_inside)[::4]
    named = score_naming(mechanism, users, releases, targets=targets)
    assert named == pytest.approx([named_by_definition(mechanism, users, releases, int(each)) for each in targets])
    assert 0 < named.mean() < 1


def test_naming_by_distance_is_naming_by_density(city: FloatArray) -> None:
    """Also for locations that were clamped to the region's edge."""
    users, mechanism = city[:1000], PlanarLaplace(4000, REGION, seed=1)
    published = mechanism.perturb(users)
    assert (edge_sides(published, REGION) != 0).any(axis=1).sum() > 10
    by_density: Any = SimpleNamespace(region=REGION, prepares_fast=True, at=channel_of(mechanism).at)
    assert np.array_equal(score_naming(mechanism, users, published), score_naming(by_density, users, published))


def test_addresses_of_one_cell_are_alike() -> None:
    users = REGION.from_metres(np.array([[-9000.0, 0], [-9001.0, 5], [-9002.0, 9], [9000.0, 0]]))
    cells = Cells(layout=Layout(REGION, 2, 1, 0), depths=np.zeros(2, np.int8), people=np.array([3.0, 1.0]),
                  people_per_cell=1.0, source="public")  # fmt: skip
    mechanism = HideAmong(2, cells=cells, epsilon=20.0, seed=1)
    assert score_naming(mechanism, users, mechanism.perturb(users)) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1.0])


def test_tenths_of_density() -> None:
    rng = np.random.default_rng(1)
    places_m = np.vstack([rng.normal(0, 50, (900, 2)), rng.uniform(-9000, 9000, (100, 2))])
    tenths = density_tenths(places_m)
    assert np.bincount(tenths).tolist() == [100] * 10
    assert (tenths[900:] == 9).mean() > 0.9
    targets = naming_targets(tenths, 200, rng)
    assert np.bincount(tenths[targets]).tolist() == [20] * 10
    assert naming_targets(tenths, 1000, rng).tolist() == list(range(1000))
    assert density_tenths(places_m[:1]).tolist() == [9]
    assert density_tenths(places_m[895:902]).max() == 9
