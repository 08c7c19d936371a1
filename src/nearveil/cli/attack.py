"""``nearveil attack``: find users through what a service answers, simulated or one of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nearveil.attacks.answers import EXAMPLES
from nearveil.attacks.oracle import OracleError
from nearveil.attacks.policies import PRESETS
from nearveil.attacks.registry import ATTACKS, attack_class
from nearveil.cli._command import Length, command, option, under
from nearveil.cli._mechanism import MechanismChoice, few_mechanism_options
from nearveil.cli._options import (
    FILE,
    PEOPLE_FILE,
    crs_option,
    force_option,
    latitude_option,
    longitude_option,
    optional_region,
    options_as,
    region_option,
)
from nearveil.cli._output import progress_bar, say, say_json, waiting, warn
from nearveil.cli.attack_campaign import run_campaign
from nearveil.cli.attack_own import attack_adapter, attack_url, init_adapter
from nearveil.cli.populations import dataset_population, file_population
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.attack import PICTURES, AttackOutcome
from nearveil.evaluation.population import PopulationAttack, attack_population
from nearveil.evaluation.simulation import simulate
from nearveil.io.atomic import check_output
from nearveil.io.datasets import DatasetName
from nearveil.io.location import ReadOptions
from nearveil.report.text_table import text_table

# Which options have no effect beside one that chooses what is attacked, and which need such a one.
_SIMULATED = {
    "source", "dataset", "user", "users", "policy", "answers", "campaign", "mechanism", "noise_m", "settings",
    "latitude", "longitude", "crs",
}  # fmt: skip
_NOT_WITH = {
    "adapter": {*_SIMULATED, "k", "accounts", "url", "key", "targets", "init_adapter"},
    "url": {*_SIMULATED, "region", "picture", "force", "init_adapter"},
    "dataset": {"source", "region"},
    "campaign": {"user", "users", "method", "answers", "accounts"},
    "user": {"users"},
    "target": {"targets"},
}
_USUAL = ("adaptive",)
_NEEDS = {"key": ("url",), "targets": ("url",), "target": ("url", "adapter"), "truth": ("url", "adapter")}


def _read_location(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        latitude, longitude = (float(part) for part in text.split(","))
    except ValueError:
        name = parameter.opts[0]
        raise UsageError(f"{name} takes latitude and longitude in degrees, such as 37.77,-122.42") from None
    return latitude, longitude


_own_service = options_as(
    "own",
    (
        option("--adapter", type=FILE, metavar="FILE.py", help="Python file with functions that ask your service."),
        option("--init-adapter", type=FILE, metavar="FILE.py", help="Write such a file with comments, to fill in."),
        option("--url", help="Address of a running service of Nearveil, such as http://127.0.0.1:8000."),
        option("--key", metavar="FILE", help="File with the API key of --url.", show_default="NEARVEIL_PLATFORM_KEY"),
        option("--targets", type=int, metavar="N", help="Synthetic users to attack at --url.", show_default="20"),
        option("--target", metavar="ID", help="Attack this account of your own."),
        option("--truth", metavar="LAT,LON", callback=_read_location, help="True location of your account."),
    ),
    dict,
)


@command()
@click.argument("source", metavar="[INPUT]", type=FILE, required=False, help=PEOPLE_FILE)
@under(
    "Users",
    option("--dataset", type=click.Choice([each.value for each in DatasetName]), help="Users of the paper, no INPUT."),
    option("--users", type=int, default=5, metavar="N", help="How many of the users to attack."),
    option("--user", metavar="ID", help="Attack this user: an id of a column user, id or person, or a row number."),
    region_option,
)
@under(
    "Attack",
    option(
        "--attack",
        "method",
        multiple=True,
        metavar="NAME",
        help=f"{', '.join(ATTACKS)}, or your own as FILE.py:CLASS; may be repeated.",
        show_default="adaptive",
    ),
    option("--answers", default="list", help=f"What the service answers: {EXAMPLES}; lengths of your choice."),
    option("--policy", help=f"What it does to lists: parts such as snap:100m,drop:0.1, or {', '.join(PRESETS)}."),
    option("--k", type=int, metavar="K", help="Number of users in a list.", show_default="10"),
    option("--accounts", type=int, default=4, metavar="N", help="Number of the adaptive attacker's own accounts."),
    option("--tau", "tau_m", type=Length(), default="100m", help="A user is found if the estimate is this near."),
    option("--campaign", is_flag=True, help="Map all users instead, by asking from many places, without an account."),
)
@under("Protection", few_mechanism_options)
@under("Your own service", _own_service)
@options_as("reading", (latitude_option, longitude_option, crs_option), ReadOptions)
@under(
    "Output",
    option("--picture", type=FILE, multiple=True, metavar="FILE.png|.html", help="Draw one attack; may be repeated."),
    option("--seed", type=click.IntRange(min=0), default=1, metavar="N", help="Seed of the users, ties and noise."),
    option("--json", is_flag=True, help="Print one JSON object instead of text."),
    force_option,
)
def attack(
    *,
    source: Path | None,
    dataset: str | None,
    users: int,
    user: str | None,
    region: str | None,
    method: tuple[str, ...],
    answers: str,
    policy: str | None,
    k: int | None,
    accounts: int,
    tau_m: float,
    campaign: bool,
    mechanism: MechanismChoice,
    own: dict[str, Any],
    reading: ReadOptions,
    picture: tuple[Path, ...],
    seed: int,
    json: bool,
    force: bool,
) -> None:
    """Find users through ranked lists or other answers.

    The attack runs on a simulated service in memory with the users of INPUT, from anywhere. With an option under
    Protection the service answers from noisy locations; --set also takes epsilon, hide_among, cells and intervals.
    With --adapter or --url a service of your own is attacked instead: attack only a service that you run or are asked
    to test.
    """
    _check_given(click.get_current_context())
    _check_pictures(picture, force=force)
    if own["init_adapter"] is not None:
        init_adapter(own["init_adapter"], force=force)
        return
    for name in method:
        attack_class(name)
    common: dict[str, Any] = {"tau_m": tau_m, "seed": seed, "json": json}
    common |= {name: own[name] for name in ("truth", "target")}
    if own["adapter"] is not None or own["url"] is not None:
        if len(method) > 1:
            raise UsageError("a service of your own is attacked by one attack; give --attack once")
        common["method"] = next(iter(method), None)
    if own["adapter"] is not None:
        outcome, failure = attack_adapter(own["adapter"], region=region, **common)
        _draw(outcome, picture, force=force)
        if failure:
            raise OracleError(f"the attack ended early, with what it knew by then: {failure}")
        return
    if own["url"] is not None:
        attack_url(own["url"], key=own["key"], targets=own["targets"], k=k or 10, accounts=accounts, **common)
        return
    if source is None and dataset is None:
        raise UsageError("give a file of users, as in 'nearveil attack people.csv'; or --dataset, --adapter or --url")
    people = file_population(source, reading) if source is not None else dataset_population(str(dataset))
    row = None if user is None else people.row_of(user)
    box = people.region or optional_region(region, mechanism.learned)
    with waiting("preparing the service"):
        service = simulate(
            people.places, region=box, k=k, mechanism=mechanism.build(box) if mechanism.is_given else None,
            policy=policy, seed=seed, answers=answers, around=row, name=people.name,
        )  # fmt: skip
    if campaign:
        run_campaign(service, tau_m=tau_m, picture=picture, json=json, force=force)
        return
    found = attack_population(
        service,
        attacks=tuple(dict.fromkeys(method)) or _USUAL,
        users=users,
        target=row,
        accounts=accounts,
        tau_m=tau_m,
        progress=progress_bar,
    )
    if json:
        say_json(found.to_dict())
    else:
        say("\n".join(found.sentences) + f"\n\n{text_table(*found.table)}")
    # Last, so that the results are printed even if a picture cannot be written.
    _draw(found, picture, force=force)


def _check_given(context: click.Context) -> None:
    """Refuse options that do not go with what is attacked."""
    sources = {each: context.get_parameter_source(each.name or "") for each in context.command.params}
    given = {each.name or "": each.opts[0] for each, source in sources.items() if source is ParameterSource.COMMANDLINE}
    given |= {"source": "INPUT"} if "source" in given else {}
    for what, useless in _NOT_WITH.items():
        for name, flag in given.items():
            if what in given and name in useless:
                raise UsageError(f"{flag} cannot be used with --{what}; leave it out")
    for name, needed in _NEEDS.items():
        if name in given and given.keys().isdisjoint(needed):
            raise UsageError(f"{given[name]} needs {' or '.join(f'--{one}' for one in needed)}")


def _check_pictures(pictures: tuple[Path, ...], *, force: bool) -> None:
    """Refuse a picture that could not be written, before the attack runs."""
    for path in pictures:
        if path.suffix.lower() not in PICTURES:
            raise UsageError(f"--picture draws a PNG or a page; name a file that ends in {' or '.join(PICTURES)}")
        require_package("matplotlib", "a picture of an attack")
        check_output(path, force=force)


def _draw(found: PopulationAttack | AttackOutcome, pictures: tuple[Path, ...], *, force: bool) -> None:
    if pictures:
        with waiting("drawing the attack"):
            outcome = found.example() if isinstance(found, PopulationAttack) else found
            for path in pictures:
                outcome.save(path, force=force)
        # Not on standard output, which may be JSON.
        warn(f"true locations can be seen in {' and '.join(map(str, pictures))}; do not publish")
