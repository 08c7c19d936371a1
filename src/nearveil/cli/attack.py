"""``nearveil attack``: locate people through what a service answers, on simulated services or on a running one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearveil.attacks.answers import EXAMPLES, Answers
from nearveil.attacks.oracle import OracleError
from nearveil.attacks.policies import PRESETS, AnswerPolicy, Preset, preset_named
from nearveil.attacks.registry import ATTACKS, attack_class, attacks_for
from nearveil.cli._old_options import (
    ForceOption,
    RegionOption,
    ScalingOption,
    chosen_region,
    numbers,
    takes_reading,
)
from nearveil.cli._output import progress_bar, say, say_json, waiting, warn
from nearveil.cli._protection import (
    ProtectionOptions,
    build_mechanism,
    takes_protection,
)
from nearveil.cli.attack_adapter import (
    AdapterOption,
    attack_with_adapter,
    refuse_list_options,
    refuse_options_without_adapter,
)
from nearveil.cli.attack_campaign import (
    CampaignOption,
    MostQuestionsOption,
    refuse_without_effect,
    run_campaigns,
)
from nearveil.cli.attack_service import (
    AskersOption,
    KeyOption,
    PlainHttpOption,
    TargetOption,
    TargetsOption,
    TruthOption,
    UrlOption,
    attack_service,
    refuse_other_options,
)
from nearveil.cli.populations import Population, dataset_population, file_population
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.attack import AttackOutcome, PopulationAttack, attack_population
from nearveil.evaluation.attack_experiment import AttackProtocol
from nearveil.io.atomic import check_output
from nearveil.io.datasets import DatasetName
from nearveil.io.people import ReadOptions
from nearveil.region import Region, metres
from nearveil.report.tables import (
    attack_document,
    best_attacker_text,
    joint_attacker_text,
    known_text,
    table_notes,
    text_table,
    with_paper,
)

_RUNS, _INSTANCES = 5, 50
_ALL = "all"


@takes_reading
@takes_protection
def attack(
    *,
    context: typer.Context,
    dataset: Annotated[
        list[DatasetName] | None,
        typer.Option(help="Population used in the paper; may be repeated.", rich_help_panel="Whom to attack"),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="Your own people: a CSV, TSV, GeoJSON or Parquet file; - for standard input.",
            metavar="FILE",
            rich_help_panel="Whom to attack",
        ),
    ] = None,
    region: RegionOption = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the check-ins of brightkite and gowalla.",
            show_default="NEARVEIL_DATA_DIR",
            rich_help_panel="Whom to attack",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            "--name",
            help=f"Attack to run: {', '.join(ATTACKS)}, or your own as FILE.py:CLASS; may be repeated.",
            metavar="ATTACK",
            show_default="all",
            rich_help_panel="Attack",
        ),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            help=f"What the service answers: {EXAMPLES}; lengths of your choice.",
            metavar="ANSWERS",
            show_default="list",
            rich_help_panel="Attack",
        ),
    ] = None,
    k: Annotated[
        str,
        typer.Option(
            "--k",
            help="Number of people in a list; several values as 10,30,50.",
            metavar="K",
            rich_help_panel="Attack",
        ),
    ] = "10",
    colluders: Annotated[
        str,
        typer.Option(
            help="Number of accounts of the adaptive attacker; several values as 1,4,8.",
            metavar="L",
            rich_help_panel="Attack",
        ),
    ] = "1",
    tau: Annotated[
        str,
        typer.Option(
            help="A person counts as found if the estimate is within this distance.",
            metavar="LENGTH",
            rich_help_panel="Attack",
        ),
    ] = "100m",
    runs: Annotated[
        int | None,
        typer.Option(help="Number of runs, each with its own seed.", show_default="5", rich_help_panel="Attack"),
    ] = None,
    instances: Annotated[
        int | None, typer.Option(help="Number of targets in each run.", show_default="50", rich_help_panel="Attack")
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="Attack only this person; --runs and --instances are then 1 by default.",
            metavar="ID",
            rich_help_panel="Whom to attack",
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Column with the ids of people.",
            show_default="person, id or user",
            metavar="COLUMN",
            rich_help_panel="Whom to attack",
        ),
    ] = None,
    protection: ProtectionOptions,
    published_colluders: Annotated[
        bool,
        typer.Option(
            "--published-colluders",
            help="Protect the attacker's own accounts as well, so that their locations are noisy.",
            rich_help_panel="Attack",
        ),
    ] = False,
    joint: Annotated[
        bool,
        typer.Option(
            "--joint",
            help="The Bayes attacker also matches all published locations to all addresses at once.",
            rich_help_panel="Attack",
        ),
    ] = False,
    known_share: Annotated[
        float,
        typer.Option(
            help="Share of the people whose addresses the Bayes attacker knows.",
            metavar="SHARE",
            rich_help_panel="Attack",
        ),
    ] = 0.0,
    policy: Annotated[
        str | None,
        typer.Option(
            help="What the service does to a list, such as snap:100m,drop:0.1; see docs/guides/attacking.md.",
            metavar="POLICY",
            rich_help_panel="Attack",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"A service as people build them: {', '.join(PRESETS)}.", metavar="NAME", rich_help_panel="Attack"
        ),
    ] = None,
    reading: ReadOptions,
    scaling: ScalingOption = None,
    seed: Annotated[
        int,
        typer.Option(help="Seed of the targets, ties and noise.", metavar="N", min=0, rich_help_panel="Attack"),
    ] = 1,
    cores: Annotated[
        int | None,
        typer.Option(help="Number of processes.", show_default="all cores", min=1, rich_help_panel="Attack"),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Draw one attack as a PNG.", metavar="FILE.png", rich_help_panel="Output")
    ] = None,
    animate: Annotated[
        Path | None,
        typer.Option(
            help="Draw one attack step by step, as a GIF or a web page.",
            metavar="FILE.gif|FILE.html",
            rich_help_panel="Output",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a list of JSON objects instead of a table.", rich_help_panel="Output")
    ] = False,
    force: ForceOption = False,
    url: UrlOption = None,
    key: KeyOption = None,
    targets: TargetsOption = None,
    target: TargetOption = None,
    truth: TruthOption = None,
    askers: AskersOption = None,
    plain_http: PlainHttpOption = False,
    adapter: AdapterOption = None,
    campaign: CampaignOption = False,
    most_questions: MostQuestionsOption = None,
) -> None:
    """Locate people through ranked lists or other answers: the paper's people or your own, protected or not.

    The attack runs against a simulated service in memory. With any option under Mechanism (--epsilon, --noise,
    --mechanism ...) everybody is protected first. With --url a running service of your own is attacked instead: the
    command creates its targets and colluders there, and removes them afterwards. With --adapter the service is any
    of your own, behind a Python file with a few functions. With --campaign everybody is mapped at once, without an
    account. With --policy or --preset the simulated service rounds, cuts or disturbs its lists.
    """
    if adapter is not None:
        refuse_options_without_adapter(context)
        _check_pictures(trace, animate, force=force)
        outcome, failure = attack_with_adapter(
            adapter, answers=answers, region=region, names=name or (), tau=tau, target=target, truth=truth, seed=seed,
            json=json,
        )  # fmt: skip
        _draw(outcome, trace, animate, force=force)
        if failure:
            raise OracleError(f"the attack ended early, with what it knew by then: {failure}")
        return
    said = Answers.parse("list" if answers is None else answers)
    names = attacks_for(said) if not name or _ALL in name else list(dict.fromkeys(name))
    for one in names:
        attack_class(one)
    refuse_list_options(context, said)
    refuse_without_effect(context, campaign=campaign)
    refuse_other_options(context, with_service=url is not None)
    if url is not None:
        attack_service(
            url=url, key=key, region=region, names=names, k=k, colluders=colluders, tau=tau, targets=targets,
            target=target, truth=truth, askers=askers, plain_http=plain_http, seed=seed, json=json,
        )  # fmt: skip
        return
    if published_colluders and not protection.is_given:
        raise UsageError("--published-colluders needs a protection, such as --noise 500m")
    shape = _chosen_shape(context, policy, preset)
    _check_pictures(trace, animate, force=force)
    protocol = AttackProtocol(
        runs=(1 if person else _RUNS) if runs is None else runs,
        instances=(1 if person else _INSTANCES) if instances is None else instances,
        tau_m=metres(tau, "--tau"),
        seed=seed,
        published_colluders=published_colluders,
        policy=shape.policy,
    )
    if dataset and region is not None:
        raise UsageError("--region cannot be used with --dataset, whose people are in San Francisco; leave it out")
    own_region = chosen_region(region, scaling, protection.learned)
    populations = _populations(dataset, source, own_region, data_dir, id_column, reading)
    _check_learned(protection, populations)
    if campaign:
        run_campaigns(
            populations, protection=protection, ks=numbers(k, "--k"), tau_m=protocol.tau_m, seed=seed, cores=cores,
            policy=shape.policy, most_questions=most_questions, trace=trace, json=json, force=force,
        )  # fmt: skip
        return
    found = []
    for people in populations:
        data = people.dataset
        mechanism = build_mechanism(protection, data.region) if protection.is_given else None
        found.append(
            attack_population(
                data.places,
                region=data.region,
                name=data.name,
                attacks=names,
                ks=[len(data.places)] if shape.lists_everybody else numbers(k, "--k"),
                accounts=numbers(colluders, "--colluders"),
                mechanism=mechanism,
                answers=str(said),
                person=None if person is None else people.number_of(person),
                protocol=protocol,
                joint=joint,
                known_share=known_share,
                cores=cores,
                progress=progress_bar,
            )
        )
    if json:
        say_json([attack_document(row, one.best, one.joint, one.known_share) for one in found for row in one.rows])
    else:
        _say_table(found, protocol)
    false = sum(row.score.false_certificates for one in found for row in one.rows)
    if false:
        warn(f"{false} certificates are false: the service does not have the target at the certified location")
    # Last, so that the results are printed even if a picture cannot be written.
    _draw(found[0], trace, animate, force=force)


def _chosen_shape(context: typer.Context, policy: str | None, preset: str | None) -> Preset:
    """Return what the service does to lists and how long they are."""
    if preset is None:
        return Preset(AnswerPolicy() if policy is None else AnswerPolicy.parse(policy), False, "")
    if policy is not None:
        raise UsageError("a preset is an answer policy already; give one of --preset and --policy")
    shape, source = preset_named(preset), context.get_parameter_source("k")
    if shape.lists_everybody and source is not None and source.name == "COMMANDLINE":
        raise UsageError(f"--k cannot be used with --preset {preset}, which lists {shape.meaning}; leave it out")
    return shape


def _populations(
    datasets: list[DatasetName] | None, source: Path | None, region: Region, data_dir: Path | None,
    id_column: str | None, read: ReadOptions,
) -> list[Population]:  # fmt: skip
    if (source is None) == (not datasets):
        raise UsageError("give the people to attack: either --dataset gaussian (or another), or --input FILE")
    useless = [*(["--id"] if id_column is not None else []), *read.arguments()[:1]] if datasets else []
    useless += ["--data-dir"] if source is not None and data_dir is not None else []
    if useless:
        raise UsageError(f"{useless[0]} cannot be used with {'--dataset' if datasets else '--input'}; leave it out")
    if source is not None:
        return [file_population(source, region, id_column, read)]
    return [dataset_population(one, data_dir) for one in dict.fromkeys(datasets or [])]


def _check_learned(protection: ProtectionOptions, populations: list[Population]) -> None:
    """Refuse intervals or cells of another region."""
    for people in populations:
        if protection.learned is not None and not protection.learned.region.same_edges(people.dataset.region):
            kind, whose = "intervals" if protection.cells is None else "cells", people.dataset.name
            raise UsageError(f"the --{kind} file is for another region than {whose}; fit {kind} for its region")


def _say_table(found: list[PopulationAttack], protocol: AttackProtocol) -> None:
    rows = [row for one in found for row in one.rows]
    say(text_table(*with_paper(rows, tau_m=protocol.tau_m)))
    say("\n" + table_notes(tau_m=protocol.tau_m, runs=protocol.runs, instances=protocol.instances))
    for one in found:
        best = one.best
        if best is not None:
            say(
                f"\nBayes attacker on {one.experiment.dataset.name}: best guess from one published location (knows the "
                f"mechanism and all addresses{known_text(one.known_share)}; {best.targets:,} targets):\n"
                f"{best_attacker_text(best, protocol.tau_m)}"
            )
        if best is not None and one.joint is not None:
            say(f"\n{joint_attacker_text(best, one.joint, protocol.tau_m)}")


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
        if trace is not None:
            outcome.plot(trace, force=force)
        if animate is not None:
            outcome.animate(animate, force=force)
    # Not on standard output, which may be JSON.
    warn(f"true locations can be seen in {' and '.join(map(str, paths))}; do not publish")
