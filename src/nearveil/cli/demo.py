"""``nearveil demo``: the same attacks on three services with the same synthetic city, in about a minute."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from nearveil.cli._command import command, option
from nearveil.cli._options import FILE
from nearveil.cli._output import progress_bar, say, waiting
from nearveil.errors import OutputError
from nearveil.evaluation.attack import attack
from nearveil.evaluation.population import PopulationAttack, attack_population
from nearveil.evaluation.simulation import Simulation, simulate
from nearveil.evaluation.stats import percent
from nearveil.io.atomic import replacing
from nearveil.io.synthetic import PEOPLE, synthetic_city
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M, PlanarLaplace
from nearveil.region import named_region
from nearveil.report.before_after import AttackedService, draw_before_after
from nearveil.report.land import land_in
from nearveil.report.text_table import text_table
from nearveil.types import FloatArray

USERS = 40
K = 10
EPSILON = 1.0

_ATTACKS = {"gi-lia": "GI-LIA", "adaptive": "the adaptive attack"}
_CENTERS = 800
_ACCOUNTS = 4
_TAU_M = 100.0
# One attack is drawn: on a user about a walk away from where it starts, until the attacker is this sure.
_A_WALK_M, _SURE_WITHIN_M = 500.0, 10.0
_OPEN, _PAPER, _NOISE = "unprotected", "the paper's DPRS", f"noise of {DEFAULT_NOISE_M:g} m"


@command()
@option("--out", type=FILE, default=Path("demo"), metavar="FOLDER", help="Folder for the pictures; created if missing.")
@option("--seed", type=click.IntRange(min=0), default=2026, help="Seed of the city, the attacks and the protection.")
def demo(*, out: Path, seed: int) -> None:
    """Find users of a synthetic city through ranked lists, protect the city, and attack again."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} cannot be created: {error.strerror}; choose another with --out") from None
    say(
        f"A synthetic city has {PEOPLE:,} users. A service lists the {K} users nearest to a location, in order and\n"
        f"without distances. An attacker with {_ACCOUNTS} accounts looks for {USERS} users of three such services."
    )
    services = _services(seed)
    attacked = {
        name: attack_population(
            service, attacks=list(_ATTACKS), users=USERS, accounts=_ACCOUNTS, tau_m=_TAU_M, progress=progress_bar
        )
        for name, service in services.items()
    }
    for name, found in attacked.items():
        say("\n" + "\n".join([f"{name[0].upper()}{name[1:]}:", *(f"  {sentence}" for sentence in found.sentences)]))
    say(f"\n{_side_by_side(attacked)}\n\n{_claims(services)}")
    with waiting("drawing"):
        _draw(services, attacked, out)
        _write_files(services, out)
    say(
        f"\nFiles in {out}:\n"
        "  attack-before.png, attack-before.html   one attack on the unprotected service, the page query by query\n"
        f"  attack-after.png                        the same with {_NOISE}\n"
        "  before-after.png                        the three services side by side\n"
        f"  people.csv, published.csv               the synthetic users, and the same with {_NOISE}\n\n"
        f"Next: nearveil attack {out / 'people.csv'}"
    )


def _services(seed: int) -> dict[str, Simulation]:
    region = named_region("san-francisco")
    users = synthetic_city(PEOPLE, region, rng=seed, land=land_in(region))
    mechanisms: dict[str, Mechanism | None] = {
        _OPEN: None,
        _PAPER: DPRS(release="paper", epsilon=EPSILON, centres=_CENTERS, region=region),
        _NOISE: PlanarLaplace(noise_m=DEFAULT_NOISE_M, region=region),
    }
    services = {}
    with progress_bar("protecting the city", len(mechanisms)) as advance:
        for name, mechanism in mechanisms.items():
            city = "a synthetic city"
            services[name] = simulate(users, region=region, k=K, mechanism=mechanism, seed=seed, name=city)
            advance(1)
    return services


def _side_by_side(attacked: dict[str, PopulationAttack]) -> str:
    """Return the table of the three services."""
    rows = []
    for number, label in enumerate(_ATTACKS.values()):
        own = [found.rows[number] for found in attacked.values()]
        rows.append(
            [f"found by {label}, {own[0].queries.value:.0f} queries", *(f"{row.hits} of {USERS}" for row in own)]
        )
    # What nothing protects is found, named and listed as it is.
    (nearest_m,) = {one.protection["nearest_m"].value for one in attacked.values() if one.protection}
    for label, name, before in (
        (f"found by the best attacker, within {_TAU_M:g} m", "found", "–"),
        ("named by it in the sparsest tenth", "named_sparsest", "–"),
        (f"mean distance of the {K} users listed", "listed_m", f"{nearest_m:,.0f} m"),
    ):
        values = [one.protection[name].value for one in attacked.values() if one.protection]
        rows.append([label, before, *(f"{one:,.0f} m" if name == "listed_m" else percent(one) for one in values)])
    return text_table(["", *attacked], rows)


def _claims(services: dict[str, Simulation]) -> str:
    """Return what each protection guarantees."""
    noise = services[_NOISE].service.mechanism
    loss = 0.0 if noise is None else noise.guarantee.epsilon * DEFAULT_NOISE_M
    return (
        f"The paper claims epsilon = {EPSILON:g} for its DPRS (Theorem 3). That claim does not hold: between users of\n"
        "different discs the loss has no limit. Planar Laplace noise keeps its guarantee: of two locations\n"
        f"{DEFAULT_NOISE_M:g} m apart, what is published is at most {math.exp(loss):.1f} times likelier from one."
    )


def _draw(services: dict[str, Simulation], attacked: dict[str, PopulationAttack], out: Path) -> None:
    true_m, region = services[_OPEN].true_m, services[_OPEN].service.region
    one = min(attacked[_OPEN].instances, key=lambda one: abs(math.dist(one.start, true_m[one.target]) - _A_WALK_M))
    latitude, longitude = region.from_metres(np.array([one.start]))[0].tolist()
    sure: dict[str, Any] = {"target": one.target, "accounts": _ACCOUNTS, "tau_m": _SURE_WITHIN_M}
    before = attack(services[_OPEN], start=(latitude, longitude), **sure)
    for name in ("attack-before.png", "attack-before.html"):
        before.save(out / name, force=True)
    attack(services[_NOISE], **sure).save(out / "attack-after.png", force=True)
    columns = [
        AttackedService(
            title=f"{name[0].upper()}{name[1:]}" + (" (its claim does not hold)" if name == _PAPER else ""),
            found=f"{max(row.hits for row in attacked[name].rows)} of {USERS} found within {_TAU_M:g} m",
            places=service.published,
            protected=service.is_protected,
            misses_m=dict(zip(_ATTACKS.values(), attacked[name].offsets_m(), strict=True)),
            intervals=getattr(service.service.mechanism, "learned", None),
        )
        for name, service in services.items()
    ]
    title = f"The same attacks on three services with the same {PEOPLE:,} synthetic users"
    with replacing(out / "before-after.png", force=True) as partial:
        draw_before_after(columns, region, partial, title=title, tau_m=_TAU_M)


def _write_files(services: dict[str, Simulation], out: Path) -> None:
    places: dict[str, FloatArray] = {"people.csv": services[_OPEN].places, "published.csv": services[_NOISE].published}
    for name, degrees in places.items():
        with replacing(out / name, force=True) as partial:
            rows = np.column_stack([np.arange(1, len(degrees) + 1), degrees])
            header = "id,latitude,longitude"
            np.savetxt(partial, rows, fmt=["%d", "%.6f", "%.6f"], delimiter=",", header=header, comments="")
