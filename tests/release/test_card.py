"""Cards of releases: short enough to read, and the warnings that matter most are on them."""

import itertools

import pytest

from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.square import Square
from nearveil.region import Region
from nearveil.release.card import card_of


@pytest.fixture
def mechanisms(san_francisco: Region) -> list[Mechanism]:
    discs = build_public_intervals(region=san_francisco, centres=30, rng=1)
    releases = [
        DPRS(release="paper", epsilon=1.0, intervals=discs, seed=1),
        DPRS(release="interval", epsilon=1.0, intervals=discs, seed=1),
        DPRS(release="metric", noise_m=12_345.0, intervals=discs),
    ]
    return [
        PlanarLaplace(seed=1),
        Square(epsilon=1.0, region="san-francisco"),
        AxisLaplace(epsilon=0.123, seed=1, region="san-francisco"),
        *releases,
    ]


def test_no_card_has_more_than_twelve_lines(mechanisms: list[Mechanism]) -> None:
    for mechanism, flags in itertools.product(mechanisms, itertools.product((False, True), repeat=4)):
        names = ("several_rows", "fitted_here", "clip", "keeps_order")
        card = card_of(mechanism, **dict(zip(names, flags, strict=True))).card()
        assert len(card.splitlines()) <= 12, card


def test_a_seed_and_a_kept_order_are_on_the_short_card(mechanisms: list[Mechanism]) -> None:
    for mechanism in mechanisms:
        card = str(card_of(mechanism, several_rows=True, fitted_here=True, clip=True, keeps_order=True))
        assert ("protects nobody" in card) == (mechanism.seed is not None), card
        assert "order of the rows is kept" in card, card
