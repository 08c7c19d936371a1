"""How things are measured, by name: no number stands without its protocol."""

from __future__ import annotations

from typing import Literal

from nearveil.evaluation.utility import QueryProtocol
from nearveil.region import Scaling

RegionProtocol = Literal["paper", "isotropic"]
"""How the square is laid over the region: each axis scaled on its own, or both alike."""

ColluderProtocol = Literal["exact", "published"]
"""Whether the service knows an attacker's accounts where they are, or publishes them like everybody else's."""

QUERY_WORDS: dict[QueryProtocol, str] = {
    "uniform": "queries uniform in the region",
    "users": "queries from where people truly are (whoever asks is not their own neighbour)",
}
REGION_WORDS: dict[RegionProtocol, str] = {
    "paper": "the paper's region (each axis scaled on its own)",
    "isotropic": "isotropic region (both axes scaled alike)",
}
COLLUDER_WORDS: dict[ColluderProtocol, str] = {
    "exact": "the attacker's accounts known exactly",
    "published": "the attacker's accounts published like everybody else's",
}
SCALING_OF: dict[RegionProtocol, Scaling] = {"paper": "per-axis", "isotropic": "isotropic"}
