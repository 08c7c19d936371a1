"""``nearveil demo``: the whole story on a made-up city, in a minute or so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli.console import progress_bar, say
from nearveil.cli.demo_city import City, K, write_files
from nearveil.cli.demo_words import before_and_after, best_attacker, ending, finding, price, second_finding
from nearveil.cli.made_up_city import PEOPLE
from nearveil.errors import OutputError
from nearveil.evaluation.best_attacker import TARGETS, measure_best_attacker
from nearveil.evaluation.displacement import summarise_displacement


def demo(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the pictures; made if need be.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="The city, the attacks and the protection depend on it.", min=0)] = 2026,
    cores: Annotated[int | None, typer.Option(help="Processes to use.", show_default="all cores", min=1)] = None,
) -> None:
    """Find a person of a made-up city through ranked lists alone, protect the city, and attack again."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} cannot be made: {error.strerror}") from None
    city = City(seed, cores or os.cpu_count() or 1)
    _find_one_person(city, out)
    _protect_everybody(city)
    _find_the_same_person_again(city, out)
    _attack_many(city)
    write_files(city, out)
    say(ending(city, out))


def _find_one_person(city: City, out: Path) -> None:
    say(
        f"A made-up city of {PEOPLE:,} people in the San Francisco region. A service tells who is near a place:\n"
        f"the {K} nearest, in order, no distances, no coordinates. An attacker with four accounts of its own looks\n"
        "for one person, and wants to be sure within 10 m.\n"
    )
    result = city.attack_one(city.open)
    say(finding(result, city) + "\n")
    city.draw(result, city.open, out / "attack-before.png", out / "attack-before.html")


def _protect_everybody(city: City) -> None:
    with progress_bar("protecting the city", 2) as advance:
        city.protect(advance)
    moved = summarise_displacement(city.people.places, city.closed.published(0).served)
    say(
        "Now everybody is hidden within 500 m, as 'nearveil protect' does unless told otherwise: moved by\n"
        f"{moved.mean_m:,.0f} m on average (median {moved.p50_m:,.0f} m, 95 % under {moved.p95_m:,.0f} m). The service "
        "answers from published places only.\n"
    )


def _find_the_same_person_again(city: City, out: Path) -> None:
    result = city.attack_one(city.closed)
    say(second_finding(result, city) + "\n")
    city.draw(result, city.closed, out / "attack-after.png", None)


def _attack_many(city: City) -> None:
    with progress_bar("attacking many", city.attacks_in_all) as advance:
        city.attack_many(advance)
    with progress_bar("the best attacker", TARGETS) as advance:
        best = measure_best_attacker(city.closed, advance)
    say(before_and_after(city.rows))
    if best is not None:
        say("\n" + best_attacker(best))
    say("\n" + price(city.utility))
    say(f"\n{city.mechanism.guarantee}")
