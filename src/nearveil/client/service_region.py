"""Which region a service is for."""

from __future__ import annotations

from nearveil.client.http import Client
from nearveil.region import Region, named_region, parse_region

_USUAL = "san-francisco"
_EDGES = ("south", "west", "north", "east")


def region_of(client: Client, asked: str | None) -> Region:
    """Return the region asked for, or the one that the service names, or the one that services have by default."""
    if asked is not None:
        return parse_region(asked)
    said = client.guarantee().document.get("region")
    if isinstance(said, dict) and all(isinstance(said.get(edge), int | float) for edge in _EDGES):
        south, west, north, east = (float(said[edge]) for edge in _EDGES)
        return Region(south, west, north, east)
    return named_region(_USUAL)
