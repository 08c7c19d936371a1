"""``nearveil demo``: the whole story on a made-up city, in a minute or so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli.console import progress_bar, say
from nearveil.cli.demo_city import City, K, write_files
from nearveil.cli.demo_words import ending, finding, notes, promises, second_finding, side_by_side
from nearveil.cli.made_up_city import PEOPLE
from nearveil.errors import OutputError
from nearveil.evaluation.best_attacker import TARGETS


def demo(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the pictures; made if need be.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="The city, the attacks and the protection depend on it.", min=0)] = 2026,
    cores: Annotated[int | None, typer.Option(help="Processes to use.", show_default="all cores", min=1)] = None,
) -> None:
    """Find a person of a made-up city through ranked lists, protect the city in two ways, and attack again."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} cannot be made: {error.strerror}") from None
    city = City(seed, cores or os.cpu_count() or 1)
    _find_one_person(city, out)
    _find_the_same_person_again(city, out)
    _attack_many(city, out)


def _find_one_person(city: City, out: Path) -> None:
    say(
        f"A made-up city of {PEOPLE:,} people in the San Francisco region. A service tells who is near a place:\n"
        f"the {K} nearest, in order, no distances, no coordinates. An attacker with four accounts of its own looks\n"
        "for one person, and wants to be sure within 10 m.\n"
    )
    result = city.attack_one(city.open)
    say(finding(result, city) + "\n")
    city.draw(result, city.open, out / "attack-before.png", out / "attack-before.html")


def _find_the_same_person_again(city: City, out: Path) -> None:
    protected = city.paper, city.default
    with progress_bar("protecting the city", len(protected)) as advance:
        city.protect(advance)
    say(
        "Now two services answer from published places only: by the paper's DPRS, and by planar Laplace noise.\n"
        "The same attack on the same person:\n"
    )
    for service in protected:
        result = city.attack_one(service)
        say(second_finding(result, service, city))
        if service is city.default:
            city.draw(result, service, out / "attack-after.png", None)
    say("")


def _attack_many(city: City, out: Path) -> None:
    with progress_bar("attacking many", city.attacks_in_all) as advance:
        city.attack_many(advance)
    with progress_bar("the best guess", 2 * TARGETS) as advance:
        city.guess_best(advance)
    utilities = [city.utility(service) for service in city.services]
    say(side_by_side(city, utilities))
    say("\n" + notes(city))
    say("\n" + promises(city))
    write_files(city, out)
    say(ending(city, utilities, out))
