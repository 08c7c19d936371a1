"""``nearveil attack``: locate people through what a service answers, on simulated services or on a running one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nearveil.attacks.answers import EXAMPLES, Answers
from nearveil.attacks.oracle import OracleError
from nearveil.attacks.policies import PRESETS, AnswerPolicy, Preset, preset_or_policy
from nearveil.attacks.registry import ATTACKS, attack_class, attacks_for
from nearveil.cli._command import Length, command, option, under
from nearveil.cli._mechanism import MechanismChoice, few_mechanism_options
from nearveil.cli._options import (
    FILE,
    PEOPLE_FILE,
    chosen_region,
    cores_option,
    force_option,
    latitude_option,
    longitude_option,
    numbers,
    region_option,
)
from nearveil.cli._output import progress_bar, say, say_json, waiting, warn
from nearveil.cli.attack_campaign import run_campaigns, say_best_attacker
from nearveil.cli.attack_own import KEY_VARIABLE, attack_adapter, attack_url, init_adapter, read_location
from nearveil.cli.populations import dataset_population, file_population
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.attack import AttackOutcome, PopulationAttack, attack_population
from nearveil.evaluation.attack_experiment import LEAST_TAU_M, AttackProtocol
from nearveil.io.atomic import check_output
from nearveil.io.datasets import Dataset, DatasetName
from nearveil.io.location import ReadOptions
from nearveil.report.tables import attack_document, table_notes, with_paper
from nearveil.report.text_table import text_table

_RUNS, _INSTANCES = 5, 50

# Which options have no effect beside one that chooses what is attacked, and which need such a one.
_OF_SIMULATIONS = {
    "source", "dataset", "latitude", "longitude", "person", "policy", "runs", "instances", "campaign", "mechanism",
    "noise_m", "settings", "cores",
}  # fmt: skip
_NOT_WITH = {
    "adapter": {*_OF_SIMULATIONS, "answers", "k", "accounts", "url", "key", "targets"},
    "url": {*_OF_SIMULATIONS, "answers", "region", "trace", "animate", "force"},
    "campaign": {"person", "method", "answers", "accounts", "runs", "instances", "animate"},
    "dataset": {"source", "region", "latitude", "longitude"},
}
_NEEDS = {"key": ("url",), "targets": ("url",), "target": ("url", "adapter"), "truth": ("url", "adapter")}


def _read_numbers(_: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    return numbers(text, parameter.opts[0])


def _read_location(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, float] | None:
    try:
        return None if text is None else read_location(text)
    except click.BadParameter as error:
        raise UsageError(f"{parameter.opts[0]}: {error.message}") from None


@command()
@under(
    "Whom to attack",
    option("--input", "source", type=FILE, metavar="FILE", help=PEOPLE_FILE),
    option(
        "--dataset",
        type=click.Choice([each.value for each in DatasetName]),
        multiple=True,
        help="Population used in the paper; may be repeated.",
    ),
    region_option,
    latitude_option,
    longitude_option,
    option(
        "--person",
        metavar="ID",
        help="Attack only this person: an id of a column person, id or user, or else the number of a row. --runs and "
        "--instances are then 1 by default.",
    ),
)
@under(
    "Attack",
    option(
        "--attack",
        "method",
        multiple=True,
        metavar="ATTACK",
        help=f"{', '.join(ATTACKS)}, or your own as FILE.py:CLASS; may be repeated.",
        show_default="all",
    ),
    option("--answers", help=f"What the service answers: {EXAMPLES}; lengths of your choice.", show_default="list"),
    option(
        "--policy",
        help=f"What the service does to a list: parts such as snap:100m,drop:0.1, or {', '.join(PRESETS)}.",
    ),
    option(
        "--k",
        default="10",
        callback=_read_numbers,
        metavar="K",
        help="Number of people in a list; several values as 10,30,50.",
    ),
    option(
        "--accounts",
        default="1",
        callback=_read_numbers,
        metavar="L",
        help="Number of accounts of the adaptive attacker; several values as 1,4,8. An --adapter names its own.",
    ),
    option(
        "--tau",
        "tau_m",
        type=Length(),
        default="100m",
        help="A person counts as found if the estimate is within this distance.",
    ),
    option("--runs", type=int, help="Number of runs, each with its own seed.", show_default=str(_RUNS)),
    option("--instances", type=int, help="Number of targets in each run.", show_default=str(_INSTANCES)),
    option(
        "--campaign",
        is_flag=True,
        help="Map everybody, without an account, by asking from many places; then find further people.",
    ),
)
@under("Protection", few_mechanism_options)
@under(
    "Your own service",
    option("--adapter", type=FILE, metavar="FILE.py", help="Python file with a function that asks your service."),
    option(
        "--init-adapter",
        "init_adapter_path",
        type=FILE,
        metavar="FILE.py",
        help="Write such a file, which runs at once.",
    ),
    option("--url", help="Address of a running service of Nearveil, such as http://127.0.0.1:8000."),
    option("--key", metavar="FILE", help="File with the platform key of --url.", show_default=KEY_VARIABLE),
    option(
        "--targets",
        type=int,
        help="Number of synthetic users to create at --url and attack.",
        show_default="20",
    ),
    option("--target", metavar="ID", help="Attack this account of your own."),
    option("--truth", metavar="LAT,LON", callback=_read_location, help="True location of your account."),
)
@under(
    "Output",
    option("--trace", type=FILE, metavar="FILE.png", help="Draw one attack."),
    option("--animate", type=FILE, metavar="FILE.gif|FILE.html", help="Draw one attack step by step."),
    option("--seed", type=click.IntRange(min=0), default=1, metavar="N", help="Seed of the targets, ties and noise."),
    cores_option,
    option("--json", is_flag=True, help="Print JSON instead of text: a list, or with --adapter or --url an object."),
    force_option,
)
def attack(  # noqa: PLR0912 - one branch for each thing that can be attacked
    *,
    source: Path | None,
    dataset: tuple[str, ...],
    region: str | None,
    latitude: str | None,
    longitude: str | None,
    person: str | None,
    method: tuple[str, ...],
    answers: str | None,
    policy: str | None,
    k: list[int],
    accounts: list[int],
    tau_m: float,
    runs: int | None,
    instances: int | None,
    campaign: bool,
    mechanism: MechanismChoice,
    adapter: Path | None,
    init_adapter_path: Path | None,
    url: str | None,
    key: str | None,
    targets: int | None,
    target: str | None,
    truth: tuple[float, float] | None,
    trace: Path | None,
    animate: Path | None,
    seed: int,
    cores: int | None,
    json: bool,
    force: bool,
) -> None:
    """Locate users through ranked lists or other answers: the paper's users or your own, protected or not.

    The attack runs on a simulated service in memory, with the people of --input or --dataset. Any option under
    Protection protects them first; --set also takes epsilon, hide_among, cells and intervals. With --campaign everybody
    is mapped at once. With --adapter or --url a service of your own is attacked instead; at --url, which is a service
    of Nearveil, the command creates accounts and removes them afterwards.
    """
    given = _check_given(click.get_current_context())
    if tau_m < LEAST_TAU_M:
        raise UsageError("--tau must be a distance of at least 1 m, such as 100m")
    _check_pictures(trace, animate, force=force)
    if init_adapter_path is not None:
        init_adapter(init_adapter_path, force=force)
        return
    if adapter is not None or url is not None:
        if len(method) > 1 or len(k) > 1 or len(accounts) > 1:
            raise UsageError("with --adapter and --url, --attack, --k and --accounts take one value each")
        own: dict[str, Any] = {
            "truth": truth, "target": target, "method": "".join(method) or None, "tau_m": tau_m, "seed": seed,
        }  # fmt: skip
        if adapter is None:
            if target is not None and targets is not None:
                raise UsageError("--target attacks one user, --targets several test users; give one of them")
            attack_url(str(url), key=key, targets=targets, k=k[0], accounts=accounts[0], json=json, **own)
            return
        outcome, failure = attack_adapter(adapter, region=region, json=json, **own)
        _draw(outcome, trace, animate, force=force)
        if failure:
            raise OracleError(f"the attack ended early, with what it knew by then: {failure}")
        return
    said = Answers.parse("list" if answers is None else answers)
    names = attacks_for(said) if not method or "all" in method else list(dict.fromkeys(method))
    for name in names:
        attack_class(name)
    lists = _lists_of_service(said, policy, given)
    if not dataset and source is None:
        raise UsageError("give the people to attack: either --dataset gaussian (or another), or --input FILE")
    populations = [dataset_population(DatasetName(name)) for name in dict.fromkeys(dataset)]
    if source is not None:
        read = ReadOptions(latitude=latitude, longitude=longitude)
        populations = [file_population(source, chosen_region(region, mechanism.learned), read)]
    _check_learned(mechanism, populations[0].dataset)
    if campaign:
        run_campaigns(
            populations, mechanism=mechanism, ks=k, tau_m=tau_m, seed=seed, cores=cores, policy=lists.policy,
            trace=trace, json=json, force=force,
        )  # fmt: skip
        return
    protocol = AttackProtocol(
        runs=(1 if person else _RUNS) if runs is None else runs,
        instances=(1 if person else _INSTANCES) if instances is None else instances,
        tau_m=tau_m,
        seed=seed,
        policy=lists.policy,
    )
    found = []
    for people in populations:
        data = people.dataset
        found.append(
            attack_population(
                data.places,
                region=data.region,
                name=data.name,
                attacks=names,
                ks=[len(data.places)] if lists.lists_everybody else k,
                accounts=accounts,
                mechanism=mechanism.build(data.region) if mechanism.is_given else None,
                answers=str(said),
                person=None if person is None else people.number_of(person),
                protocol=protocol,
                cores=cores,
                progress=progress_bar,
            )
        )
    if json:
        say_json([attack_document(row, one.best) for one in found for row in one.rows])
    else:
        _say_table(found, protocol)
    false = sum(row.score.false_certificates for one in found for row in one.rows)
    if false:
        warn(f"{false} certificates are false: the service does not have the target at the certified location")
    # Last, so that the results are printed even if a picture cannot be written.
    _draw(found[0], trace, animate, force=force)


def _check_given(context: click.Context) -> dict[str, str]:
    """Return the options that were given, by parameter; refuse those that do not go with what is attacked."""
    sources = {each: context.get_parameter_source(each.name or "") for each in context.command.params}
    given = {each.name or "": each.opts[0] for each, source in sources.items() if source is ParameterSource.COMMANDLINE}
    for what, useless in _NOT_WITH.items():
        for name, flag in given.items():
            if what in given and name in useless:
                raise UsageError(f"{flag} cannot be used with --{what}; leave it out")
    for name, needed in _NEEDS.items():
        if name in given and given.keys().isdisjoint(needed):
            raise UsageError(f"{given[name]} needs {' or '.join(f'--{one}' for one in needed)}")
    return given


def _lists_of_service(answers: Answers, policy: str | None, given: dict[str, str]) -> Preset:
    """Return what the service does to lists and how long they are; refuse --k and --accounts without effect."""
    lists = Preset(AnswerPolicy(), False, "") if policy is None else preset_or_policy(policy)
    for name, flag in given.items():
        if name in ("k", "accounts") and not answers.is_list:
            raise UsageError(f"{flag} is for ranked lists, not for --answers {answers}; leave it out")
    if lists.lists_everybody and "k" in given:
        raise UsageError(f"--k cannot be used with --policy {policy}, which lists {lists.meaning}; leave it out")
    if lists.lists_everybody and "campaign" in given:
        raise UsageError(f"--campaign reads lists of --k people, and --policy {policy} lists {lists.meaning}")
    return lists


def _check_learned(chosen: MechanismChoice, people: Dataset) -> None:
    """Refuse intervals or cells of another region; all populations are in one."""
    if chosen.learned is not None and not chosen.learned.region.same_edges(people.region):
        kind = "cells" if "cells" in chosen.files else "intervals"
        raise UsageError(f"the {kind} file is for another region than {people.name}; fit {kind} for its region")


def _say_table(found: list[PopulationAttack], protocol: AttackProtocol) -> None:
    rows = [row for one in found for row in one.rows]
    say(text_table(*with_paper(rows, tau_m=protocol.tau_m)))
    say("\n" + table_notes(tau_m=protocol.tau_m, runs=protocol.runs, instances=protocol.instances))
    for one in found:
        say_best_attacker(one.best, one.experiment.dataset.name, protocol.tau_m)


def _check_pictures(trace: Path | None, animate: Path | None, *, force: bool) -> None:
    """Refuse a picture that could not be written, before the attack runs."""
    if trace is not None and trace.suffix.lower() != ".png":
        raise UsageError("--trace draws a PNG picture; name a file that ends in .png")
    if animate is not None and animate.suffix.lower() not in (".gif", ".html"):
        raise UsageError("--animate takes a file that ends in .gif or .html")
    for path in (trace, animate):
        if path is not None:
            require_package("matplotlib", "a picture of an attack")
            check_output(path, force=force)


def _draw(found: PopulationAttack | AttackOutcome, trace: Path | None, animate: Path | None, *, force: bool) -> None:
    paths = [path for path in (trace, animate) if path is not None]
    if not paths:
        return
    with waiting("drawing the attack"):
        outcome = found.example() if isinstance(found, PopulationAttack) else found
        for path in paths:
            outcome.plot(path, force=force)
    # Not on standard output, which may be JSON.
    warn(f"true locations can be seen in {' and '.join(map(str, paths))}; do not publish")
