"""How things are measured, by name: no number stands without its protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nearveil.evaluation.utility import QueryProtocol
from nearveil.region import Scaling

RegionProtocol = Literal["paper", "isotropic"]
"""How the square is laid over the region: each axis scaled on its own, or both alike."""

ColluderProtocol = Literal["exact", "published"]
"""Whether the service knows an attacker's accounts where they are, or publishes them like everybody else's."""

QUERY_WORDS: dict[QueryProtocol, str] = {
    "uniform": "queries uniform in the region",
    "users": "queries from where people truly are",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What a table says under its numbers; None where it does not apply."""

    queries: QueryProtocol | None = None
    region: RegionProtocol | None = None
    colluders: ColluderProtocol | None = None

    def __str__(self) -> str:
        words = [
            *([QUERY_WORDS[self.queries]] if self.queries else []),
            *([REGION_WORDS[self.region]] if self.region else []),
            *([COLLUDER_WORDS[self.colluders]] if self.colluders else []),
        ]
        return "; ".join(words)

    @property
    def name(self) -> str:
        """Short, for columns: ``uniform/paper``."""
        return "/".join(part for part in (self.queries, self.region, self.colluders) if part)
