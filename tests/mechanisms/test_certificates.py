"""Certificates: the bound covers the loss, the places named attain what is said, and a file is enough to see it."""

import json
import math

import numpy as np
import pytest

from nearveil import DPRS, SRR, AxisLaplace, Mechanism, PlanarLaplace, Region, Square
from nearveil.auditing.spec import mechanism_from_spec, mechanism_to_spec
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.intervals import Intervals
from nearveil.privacy.guarantee import Basis, Certificate, Guarantee, PrivacyDefinition, guarantee_from_dict
from nearveil.sphere import great_circle_m

# A dense quarter and a few cells far from it and from each other.
SPARSE = [*np.ndindex(8, 8), *((63 - 5 * i, 20 + 3 * i) for i in range(12))]


def public_intervals() -> Intervals:
    return build_public_intervals(region=Region(37.5, -122.6, 37.9, -122.2), centres=30, rng=5)


MECHANISMS: dict[str, Mechanism] = {
    "planar": PlanarLaplace(noise_m=300),
    "planar, in a region": PlanarLaplace(noise_m=300, region="berlin"),
    "axis": AxisLaplace(epsilon=1.3, region="san-francisco"),
    "square": Square(epsilon=1.3, region="san-francisco"),
    "srr": SRR(epsilon=1.3, region="san-francisco"),
    "srr, large grid": SRR(epsilon=1.3, levels=8, region="san-francisco"),
    "srr, listed cells": SRR(epsilon=1.3, cells=SPARSE, region="san-francisco"),
    "paper": DPRS(release="paper", epsilon=1.3, intervals=public_intervals()),
    "paper, gaussian": DPRS(release="paper", noise="gaussian", epsilon=1.3, intervals=public_intervals()),
    "interval": DPRS(epsilon=1.3, intervals=public_intervals()),
    "interval, gaussian": DPRS(epsilon=1.3, noise="gaussian", intervals=public_intervals()),
    "metric": DPRS(release="metric", noise_m=300, intervals=public_intervals()),
}


@pytest.fixture(params=MECHANISMS, scope="module")
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    return MECHANISMS[request.param]


def certificate_of(mechanism: Mechanism) -> Certificate:
    certificate = mechanism.guarantee.certificate
    assert certificate is not None
    return certificate


def test_the_places_named_attain_what_is_said(mechanism: Mechanism) -> None:
    certificate = certificate_of(mechanism)
    first, second, output = (np.array(place) for place in (certificate.first, certificate.second, certificate.output))
    loss = float(mechanism.log_density(first, output) - mechanism.log_density(second, output))
    if mechanism.guarantee.definition is PrivacyDefinition.METRIC:
        loss /= float(great_circle_m(first, second))
    assert loss == pytest.approx(certificate.attained, rel=1e-6)
    assert certificate.attained <= certificate.bound * (1 + 1e-9)
    assert certificate.bound <= mechanism.guarantee.epsilon * (1 + 1e-12)
    assert certificate.frame == mechanism.frame
    # Bounds are tight, but for the paper's release.
    paper = isinstance(mechanism, DPRS) and mechanism.release == "paper"
    assert certificate.bound <= certificate.attained * (2.1 if paper else 1.001)


def test_no_card_has_more_than_twelve_lines(mechanism: Mechanism) -> None:
    stated = mechanism.guarantee
    for guarantee in (stated, stated.counted_per_row(), stated.counted_per_place(12)):
        assert len(str(guarantee).splitlines()) <= 12
    assert " ..." not in str(stated)


def test_a_file_is_enough_to_rebuild_the_mechanism(mechanism: Mechanism) -> None:
    document = json.loads(json.dumps(mechanism_to_spec(mechanism)))
    again = mechanism_from_spec(document)
    assert type(again) is type(mechanism)
    assert again.guarantee.to_dict() == mechanism.guarantee.to_dict()
    assert guarantee_from_dict(json.loads(json.dumps(again.guarantee.to_dict()))) == mechanism.guarantee


def test_a_fitted_mechanism_is_written_with_its_intervals_and_without_its_seed(city: np.ndarray) -> None:
    fitted = DPRS(release="interval", centres=60, seed=4, region="san-francisco").fit(city)
    spec = mechanism_to_spec(fitted)
    assert "seed" not in spec["params"]
    again = mechanism_from_spec(spec)
    assert isinstance(again, DPRS)
    assert (again.current_intervals.centres == fitted.current_intervals.centres).all()


def test_what_is_no_certificate_and_no_mechanism() -> None:
    stated = MECHANISMS["square"].guarantee.to_dict()
    for wrong in ({"bound": 1.0}, {**stated["certificate"], "bound": math.nan}):
        with pytest.raises(DataError, match="not a guarantee"):
            guarantee_from_dict({**stated, "certificate": wrong})
    for damaged in ({}, {"mechanism": "magic", "params": {}}, {"mechanism": "square", "params": {"region": {}}}):
        with pytest.raises(DataError, match="damaged"):
            mechanism_from_spec(damaged)

    with pytest.raises(UsageError, match="rescaled"):
        mechanism_to_spec(MECHANISMS["interval"].rescaled(0.1))

    class Mine(Square):
        pass

    with pytest.raises(UsageError, match="Mine"):
        mechanism_to_spec(Mine())


def test_a_card_cannot_claim_less_than_its_certificate() -> None:
    certificate = certificate_of(MECHANISMS["square"])
    with pytest.raises(ValueError, match="exceeds the epsilon"):
        Guarantee(
            title="", definition=PrivacyDefinition.LOCAL, epsilon=1.0, unit="", delta=0.0, neighbors="", promise="",
            basis=Basis.THEOREM, because="", certificate=certificate,
        )  # fmt: skip
