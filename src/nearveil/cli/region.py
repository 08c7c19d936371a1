"""``nearveil region``: show a region, or list the named ones."""

from __future__ import annotations

import click

from nearveil.cli._command import command
from nearveil.cli._options import json_option
from nearveil.cli._output import say, say_json
from nearveil.region import NAMED_REGIONS, Region, named_region, parse_region


# A region may start with a minus sign.
@command(context_settings={"ignore_unknown_options": True})
@click.argument(
    "name", metavar="[REGION]", required=False, help="A name, south,west,north,east in degrees, or a GeoJSON file."
)
@json_option
def region(name: str | None, *, json: bool) -> None:
    """Show the bounds, size and scale of a region; without REGION, list the named regions."""
    shown = [named_region(known) for known in NAMED_REGIONS] if name is None else [parse_region(name)]
    if json:
        say_json({"regions": [_to_dict(each) for each in shown]} if name is None else _to_dict(shown[0]))
    elif name is None:
        for each in shown:
            width, height = (2 * extent / 1000 for extent in each.half_extent_m)
            say(f"{each.name:<15} {width:7,.1f} km x {height:6,.1f} km   {_box(each)}")
    else:
        say("\n".join(_lines(shown[0])))


def _box(region: Region) -> str:
    return ",".join(f"{edge:.9g}" for edge in (region.south, region.west, region.north, region.east))


def _area(square_km: float) -> str:
    return f"{square_km:,.0f} km²" if square_km >= 10 else f"{square_km:.3g} km²"


def _to_dict(region: Region) -> dict[str, object]:
    width, height = (2 * extent for extent in region.half_extent_m)
    return {
        "name": region.name,
        "south": region.south,
        "west": region.west,
        "north": region.north,
        "east": region.east,
        "centre": list(region.centre),
        "width_m": round(width, 1),
        "height_m": round(height, 1),
        "area_km2": round(width * height / 1e6, 1),
        "metres_per_unit": round(region.metres_per_unit, 3),
        "largest_stretch": region.largest_stretch,
    }


def _lines(region: Region) -> list[str]:
    width, height = (2 * extent / 1000 for extent in region.half_extent_m)
    latitude, longitude = region.centre
    return [
        f"Region {region}",
        f"  box       latitude {region.south:.9g} to {region.north:.9g}, "
        f"longitude {region.west:.9g} to {region.east:.9g}",
        f"  size      {width:,.1f} km x {height:,.1f} km, about {_area(width * height)}",
        f"  centre    {latitude:g}, {longitude:g} (origin of metres, azimuthal equidistant, WGS84)",
        f"  square    isotropic: one unit is {region.metres_per_unit:,.0f} m both ways; "
        f"per-axis: {width * 500:,.0f} m east, {height * 500:,.0f} m north",
        f"  map       stretches distances by at most {100 * (region.largest_stretch - 1):.2g} %",
    ]
