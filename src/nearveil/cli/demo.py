"""``nearveil demo``: protect a made-up city and look at it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from nearveil.cli.console import progress_bar, say
from nearveil.errors import OutputError
from nearveil.evaluation.displacement import summarise_displacement
from nearveil.evaluation.utility import QueryProtocol, measure_utility, query_points
from nearveil.io.atomic import replacing
from nearveil.io.files import write_people
from nearveil.io.people import Layout, People, Place
from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.dprs import DPRS
from nearveil.region import Region
from nearveil.region_names import named_region
from nearveil.report.before_after import draw_before_after
from nearveil.types import FloatArray

_PEOPLE = 25_000
_QUERIES = 2_000
_K = 10
_PROTOCOLS: tuple[tuple[QueryProtocol, str], ...] = (
    ("uniform", "asked from anywhere in the region"),
    ("users", "asked from where people are"),
)


def demo(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the picture; made if need be.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="The city and its protection depend on it.")] = 2026,
) -> None:
    """Protect a made-up city of 25,000 people with DPRS at epsilon = 1, measure it and draw it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} cannot be made: {error.strerror}") from None
    region = named_region("san-francisco")
    picture = out / "before-after.png"
    say(
        f"You see {_PEOPLE:,} made-up people of a city in the San Francisco region, where they are and where they are "
        f"published to be, in {picture}.\n"
    )
    true = synthetic_city(_PEOPLE, region, rng=seed)
    mechanism = DPRS(epsilon=1.0, region=region, seed=seed)
    with progress_bar("finding intervals", mechanism.rounds) as advance:
        mechanism.fit(true, progress=advance)
    published = mechanism.perturb(true)
    _say_utility(true, published, region, seed)
    moved = summarise_displacement(true, published)
    spread = f"median {moved.p50_m:,.0f} m, 95 % under {moved.p95_m:,.0f} m"
    say(f"\nPeople were moved by {moved.mean_m:,.0f} m on average ({spread}).\n")
    say(str(mechanism.guarantee))
    title = "DPRS at epsilon = 1: everybody is moved into the private disc of their nearest centre"
    with replacing(picture, force=True) as partial:
        draw_before_after(true, published, region, partial, title=title, intervals=mechanism.current_intervals)
    for name, places in (("people.csv", true), ("published.csv", published)):
        write_people(_as_people(places), out / name, force=True)
    say(f"\nPicture: {picture}\nTo try things on: {out / 'people.csv'} (made-up people), {out / 'published.csv'}")


def _as_people(places: FloatArray) -> People:
    layout = Layout(latitude=Place("latitude", 1), longitude=Place("longitude", 2))
    return People(places.round(6), pa.table({"person": np.arange(1, len(places) + 1)}), layout)


def _say_utility(true: FloatArray, published: FloatArray, region: Region, seed: int) -> None:
    true_m, published_m = region.to_metres(true), region.to_metres(published)
    rng = np.random.default_rng(seed)
    say(f"Of the {_K} people nearest to a place, the published list still has (recall@{_K}, {_QUERIES:,} queries):")
    for protocol, meaning in _PROTOCOLS:
        queries = query_points(true_m, region, protocol, _QUERIES, rng)
        found = measure_utility(true_m, published_m, queries, protocol=protocol, k=_K)
        say(f"  {protocol:<8} {found.recall:.2f}   {meaning}")
