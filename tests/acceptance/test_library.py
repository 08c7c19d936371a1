"""``import nearveil as nv``: the same from Python."""

from pathlib import Path

import numpy as np
import pytest

import nearveil as nv
from tests.acceptance.helpers import CENTER, REGION, Array, check_planar_laplace, distances_m, is_picture


@pytest.mark.statistical
@pytest.mark.parametrize("region", [REGION, "fiji"])
def test_planar_laplace_on_an_array(region: str) -> None:
    """Also across the antimeridian, and as a transformer (false alarms: 1.2e-6 for each region)."""
    locations = np.tile(nv.named_region(region).centre, (2000, 1))
    mechanism = nv.PlanarLaplace(noise_m=400, region=region)
    published = np.asarray(mechanism.fit(locations).transform(locations))
    check_planar_laplace(distances_m(locations, published), 400)
    assert (distances_m(published, mechanism.perturb(locations)) > 0.5).mean() > 0.99
    assert mechanism.guarantee.epsilon == pytest.approx(2 / 400, rel=0.01)
    assert len(np.unique(published, axis=0)) > 1990


def test_hiding_among_users_moves_them_farther_where_there_are_few(users: Array) -> None:
    """A crowd of 2,000 users and 300 who live far apart: the crowd is moved less."""
    crowd = np.random.default_rng(1).normal((37.6, -122.5), 0.003, (2000, 2))
    everybody = np.vstack([users, crowd])
    moved = distances_m(everybody, nv.HideAmong(40, region="san-francisco").fit(everybody).perturb(everybody))
    assert np.median(moved[: len(users)]) > 2 * np.median(moved[len(users) :])


def test_a_simulated_service_gives_users_away_unless_protected(users: Array, tmp_path: Path) -> None:
    service = nv.simulate(users, region=REGION, k=10)
    found = nv.attack(service, target=17)
    assert found.found
    assert found.certified
    assert found.error_m is not None
    assert found.estimate is not None
    assert found.error_m < 100
    assert distances_m(users[17], found.estimate) == pytest.approx(found.error_m, rel=0.01, abs=1)
    found.save(tmp_path / "attack.png")
    assert is_picture(tmp_path / "attack.png")
    protected = nv.simulate(users, region=REGION, k=10, mechanism=nv.PlanarLaplace(noise_m=1000, seed=2))
    errors = [nv.attack(protected, target=target).error_m or 0.0 for target in range(6)]
    assert np.median(errors) > 80


def test_an_audit_and_a_certificate(tmp_path: Path) -> None:
    """Noise of 500 m against the claim of noise of 1 km; false alarms of the audit: 1e-6."""
    report = nv.audit(nv.PlanarLaplace(noise_m=500), claim="metric:2/km", samples=40_000)
    assert report.verdict == "violated"
    assert nv.audit(nv.PlanarLaplace(noise_m=500), claim="metric:4/km", samples=20_000).verdict == "consistent"
    certificate = nv.certify(nv.PlanarLaplace(noise_m=500))
    assert certificate.bound == pytest.approx(0.004, rel=0.01)
    certificate.save(tmp_path / "certificate.json")
    assert nv.check_certificate(tmp_path / "certificate.json").holds


def test_nearby_in_an_app_of_your_own(tmp_path: Path) -> None:
    """Report, publish, ask, block, erase; and the same after the app has started again."""
    now_s = [1_800_000_000.0]
    receipts: dict[str, str | None] = {}

    def opened() -> nv.Nearby:
        return nv.Nearby(tmp_path / "app.db", region="berlin", noise_m=500, clock=lambda: now_s[0])

    def publish(app: nv.Nearby) -> None:
        now_s[0] += 3600
        app.publish_due()

    with opened() as app:
        for user, latitude, longitude in [("ann", 52.52, 13.405), ("bob", 52.521, 13.409), ("eve", 52.4, 13.6)]:
            receipts[user] = app.report(user, latitude, longitude).receipt
        assert app.nearby(52.52, 13.40, k=10) == []
        publish(app)
        assert set(app.nearby(52.52, 13.40, k=10)) == {"ann", "bob", "eve"}
        assert app.nearby(52.4, 13.6, k=1) == ["eve"]
        assert "ann" not in app.nearby(52.52, 13.40, k=10, exclude="ann")
        assert "ann" not in app.nearby(52.52, 13.40, k=10, asker="ann")
        app.block("ann", "bob")
        assert "ann" not in app.nearby(52.52, 13.40, k=10, asker="bob")
        app.set_tags("eve", ["chess"])
        assert app.nearby(52.52, 13.40, k=10, only=[["chess"]]) == ["eve"]
        before = app.export("ann")
        assert before is not None
        assert distances_m((52.52, 13.405), (before["published"]["latitude"], before["published"]["longitude"])) > 0.2
    with opened() as app:
        assert app.export("ann") == before
        app.report("ann", 52.52, 13.405, previous=receipts["ann"])
        publish(app)
        after = app.export("ann")
        assert after is not None
        assert after["published"] == before["published"]
        app.forget("ann")
        assert set(app.nearby(52.52, 13.40, k=10)) == {"bob", "eve"}
        assert app.export("ann") is None


def test_maps_of_a_release_and_of_an_attack(users: Array) -> None:
    published = nv.PlanarLaplace().perturb(users)
    assert len(nv.protection_map(users, published, region=REGION).data) > 0
    outcome = nv.attack(nv.simulate(users, region=REGION), target=3)
    assert len(nv.attack_map(outcome).data) > 0


def test_regions() -> None:
    region = nv.as_region("37.5,-122.6,37.9,-122.2")
    assert region.contains([CENTER, (38.0, -122.4)]).tolist() == [True, False]
    corners = [(37.5, -122.6), CENTER, (37.9, -122.2)]
    assert distances_m(corners, region.from_metres(region.to_metres(corners))).max() < 0.01
    east, north = (region.to_metres([(37.7, -122.39)]) - region.to_metres([(37.7, -122.40)]))[0]
    assert (east, north) == (pytest.approx(881.5, rel=0.005), pytest.approx(0, abs=5))


def test_errors_have_one_base_and_tell_no_location(tmp_path: Path) -> None:
    with pytest.raises(nv.UsageError):
        nv.PlanarLaplace(noise_m=-5).perturb([CENTER])
    with pytest.raises(nv.DataError) as outside:
        nv.PlanarLaplace(region=REGION).perturb([(57.7123, -122.4)])
    assert "7123" not in str(outside.value)
    for error in (nv.UsageError, nv.DataError, nv.OutputError):
        assert issubclass(error, nv.NearveilError)
