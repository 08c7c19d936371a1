"""Nearveil: audit and protect "people nearby" services."""

from nearveil.errors import DataError, NearveilError, OutputError, UsageError
from nearveil.mechanisms.axis_laplace import AxisLaplace
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals, intervals_from_json
from nearveil.mechanisms.pic import build_pic_intervals
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.private_grid import build_grid_intervals
from nearveil.mechanisms.square import Square
from nearveil.mechanisms.srr import SRR
from nearveil.privacy.certificate import Certificate
from nearveil.privacy.guarantee import Basis, Guarantee, Notion
from nearveil.randomness import Randomness, secure_randomness, seeded_randomness
from nearveil.region import Region
from nearveil.region_names import named_region, parse_region

__all__ = [
    "DPRS",
    "SRR",
    "AxisLaplace",
    "Basis",
    "Certificate",
    "DataError",
    "Guarantee",
    "Intervals",
    "Mechanism",
    "NearveilError",
    "Notion",
    "OutputError",
    "PlanarLaplace",
    "Randomness",
    "Region",
    "Square",
    "UsageError",
    "build_grid_intervals",
    "build_pic_intervals",
    "intervals_from_json",
    "named_region",
    "parse_region",
    "secure_randomness",
    "seeded_randomness",
]
