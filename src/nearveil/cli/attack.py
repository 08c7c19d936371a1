"""The pictures of ``nearveil attack``: one attack, drawn and animated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from nearveil.attacks.base import AttackResult
from nearveil.attacks.oracle import spot_of
from nearveil.attacks.registry import ATTACKS, attack_class
from nearveil.cli._options import (
    ClipOption,
    ForceOption,
    LatitudeOption,
    LongitudeOption,
    RegionOption,
    ScalingOption,
    Wish,
    build_mechanism,
    chosen_region,
    numbers,
    takes_protection,
)
from nearveil.cli._output import progress_bar, say, say_json, warn
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
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import AttackExperiment, AttackProtocol, AttackRow
from nearveil.evaluation.attack_trials import Contender, Trial, contenders
from nearveil.evaluation.best_attacker import TARGETS, BestAttacker, measure_best_attacker
from nearveil.io.atomic import check_output, replacing
from nearveil.io.datasets import DatasetName
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region, metres
from nearveil.report.attack_figure import draw_attack
from nearveil.report.attack_gif import animate_attack, animation_kind
from nearveil.report.attack_scene import Scene
from nearveil.report.tables import attack_document, table_notes, text_table, with_paper


class AttackPictures:
    """Where to draw, checked before anything takes time."""

    def __init__(self, trace: Path | None, animate: Path | None, *, force: bool) -> None:
        if trace is not None and trace.suffix.lower() != ".png":
            raise UsageError("--trace draws a PNG picture; name a file that ends in .png")
        if animate is not None:
            animation_kind(animate)
        for path in (trace, animate):
            if path is not None:
                check_output(path, force=force)
        self._trace, self._animate, self._force = trace, animate, force

    def draw(self, experiment: AttackExperiment, fighters: list[Contender], k: int, person: int | None) -> None:
        """Repeat the first attack, and draw it."""
        if self._trace is None and self._animate is None:
            return
        chosen = next((one for one in fighters if one.attack.name == "adaptive"), fighters[0])
        setup = experiment.setup(0)
        trial = Trial(setup, chosen, k, experiment.instances(0, k, person))
        result = trial.run_one(0, setup.open())
        draw_one(
            result,
            experiment,
            trial.instances[0].target,
            self._trace,
            self._animate,
            tau_m=experiment.protocol.tau_m,
            force=self._force,
        )

    def say_where(self) -> None:
        """Tell where the pictures are, and what is in them."""
        paths = [path for path in (self._trace, self._animate) if path is not None]
        if paths:
            # Not on standard output, which may be JSON for a program.
            warn(f"where people truly are can be seen in {' and '.join(map(str, paths))}: for your eyes")


def draw_one(
    result: AttackResult,
    experiment: AttackExperiment,
    target: int,
    trace: Path | None,
    animation: Path | None,
    *,
    tau_m: float,
    force: bool,
) -> None:
    """Draw one attack as a picture and as an animation."""
    setup, protected = experiment.setup(0), experiment.published(0).mechanism is not None
    scene = Scene(
        result,
        setup.region,
        setup.served_m,
        truth=spot_of(experiment.true_m[target]),
        tau_m=tau_m,
        published=spot_of(setup.served_m[target]) if protected else None,
    )
    title = f"{result.attack} on {experiment.dataset.name}" + (", protected" if protected else "")
    if trace is not None:
        with replacing(trace, force=force) as partial:
            draw_attack(scene, partial, title=title)
    if animation is not None:
        with replacing(animation, force=force) as partial:
            animate_attack(scene, partial, kind=animation_kind(animation), title=title)


# ``nearveil attack``: how well a ranked list alone gives people away, on simulated services or a running one.


_RUNS, _INSTANCES = 5, 50
_ALL = "all"


@takes_protection
def attack(
    *,
    context: typer.Context,
    dataset: Annotated[
        list[DatasetName] | None,
        typer.Option(help="A population of the paper; may be repeated.", rich_help_panel="Whom"),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input", help="Your own people: CSV, GeoJSON or Parquet.", metavar="FILE", rich_help_panel="Whom"
        ),
    ] = None,
    region: RegionOption = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the check-ins of brightkite and gowalla.",
            show_default="NEARVEIL_DATA_DIR",
            rich_help_panel="Whom",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            "--name",
            help=f"{', '.join(ATTACKS)}, or your own as FILE.py:CLASS; may be repeated.",
            metavar="ATTACK",
            show_default="all",
            rich_help_panel="Attack",
        ),
    ] = None,
    k: Annotated[
        str, typer.Option("--k", help="People in a list; several as 10,30,50.", metavar="K", rich_help_panel="Attack")
    ] = "10",
    colluders: Annotated[
        str,
        typer.Option(
            help="Accounts of the adaptive attacker; several as 1,4,8.", metavar="L", rich_help_panel="Attack"
        ),
    ] = "1",
    tau: Annotated[
        str, typer.Option(help="Found means within this distance.", metavar="LENGTH", rich_help_panel="Attack")
    ] = "100m",
    runs: Annotated[
        int | None, typer.Option(help="Runs with seeds of their own.", show_default="5", rich_help_panel="Attack")
    ] = None,
    instances: Annotated[
        int | None, typer.Option(help="Targets in each run.", show_default="50", rich_help_panel="Attack")
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="Attack this person alone, once unless --instances says more.", metavar="ID", rich_help_panel="Whom"
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", help="Column of ids.", show_default="person, id or user", metavar="COLUMN", rich_help_panel="Whom"
        ),
    ] = None,
    wish: Wish,
    published_colluders: Annotated[
        bool,
        typer.Option(
            "--published-colluders", help="The service moves the attacker's accounts as well.", rich_help_panel="Attack"
        ),
    ] = False,
    latitude: LatitudeOption = None,
    longitude: LongitudeOption = None,
    clip: ClipOption = False,
    scaling: ScalingOption = None,
    seed: Annotated[
        int, typer.Option(help="Targets, ties and noise depend on it.", metavar="N", min=0, rich_help_panel="Attack")
    ] = 1,
    cores: Annotated[
        int | None, typer.Option(help="Processes to use.", show_default="all cores", min=1, rich_help_panel="Attack")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Draw one attack as PNG.", metavar="FILE.png", rich_help_panel="Output")
    ] = None,
    animate: Annotated[
        Path | None,
        typer.Option(help="Show one attack step by step.", metavar="FILE.gif|FILE.html", rich_help_panel="Output"),
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
) -> None:
    """Attack people through ranked lists alone: the paper's populations or your own people, protected or not.

    A simulated service in memory is attacked. Any option that names a protection (--epsilon, --hide-within,
    --mechanism ...) protects everybody first. With --url a running service of your own is audited instead: the command
    makes up its targets and colluders there, and removes them again.
    """
    names = list(ATTACKS) if not name or _ALL in name else list(dict.fromkeys(name))
    for one in names:
        attack_class(one)
    refuse_other_options(context, with_service=url is not None)
    if url is not None:
        attack_service(
            url=url, key=key, region=region, names=names, k=k, colluders=colluders, tau=tau, targets=targets,
            target=target, truth=truth, askers=askers, plain_http=plain_http, seed=seed, json=json,
        )  # fmt: skip
        return
    if published_colluders and not wish.is_given:
        raise UsageError("--published-colluders needs a protection to publish them by; add --hide-within 500m, say")
    pictures = AttackPictures(trace, animate, force=force)
    protocol = AttackProtocol(
        runs=(1 if person else _RUNS) if runs is None else runs,
        instances=(1 if person else _INSTANCES) if instances is None else instances,
        tau_m=metres(tau, "--tau"),
        seed=seed,
        published_colluders=published_colluders,
    )
    if dataset and region is not None:
        raise UsageError("--region does not go with --dataset, whose people are in the San Francisco region")
    own_region = chosen_region(region, scaling, wish.intervals)
    read = ReadOptions(latitude=latitude, longitude=longitude, clip=clip)
    populations = _populations(dataset, source, own_region, data_dir, id_column, read)
    task = _Task(
        names=names,
        ks=numbers(k, "--k"),
        colluders=numbers(colluders, "--colluders"),
        person=person,
        protocol=protocol,
        cores=cores or os.cpu_count() or 1,
    )
    rows: list[tuple[AttackRow, BestAttacker | None]] = []
    for people in populations:
        protection = build_mechanism(wish, people.dataset.region) if wish.is_given else None
        if wish.intervals is not None and not wish.intervals.region.same_edges(people.dataset.region):
            raise UsageError(f"--intervals are for another region than {people.dataset.name} is in; fit them there")
        rows += task.run(people, protection)
    if json:
        say_json([attack_document(row, best) for row, best in rows])
    else:
        _say_table(rows, protocol)
    _warn_of_false_certificates([row for row, _ in rows])
    # Last, so that a picture that cannot be written does not lose the figures.
    task.draw(pictures)


def _populations(
    datasets: list[DatasetName] | None, source: Path | None, region: Region, data_dir: Path | None,
    id_column: str | None, read: ReadOptions,
) -> list[Population]:  # fmt: skip
    if (source is None) == (not datasets):
        raise UsageError("say whom to attack: either --dataset gaussian (or another), or --input FILE")
    elsewhere = {
        "--id": id_column,
        "--latitude": read.latitude,
        "--longitude": read.longitude,
        "--clip": read.clip or None,
    }
    useless = [name for name, value in elsewhere.items() if value is not None] if datasets else []
    useless += ["--data-dir"] if source is not None and data_dir is not None else []
    if useless:
        raise UsageError(f"{useless[0]} does not go with {'--dataset' if datasets else '--input'}; leave it out")
    if source is not None:
        return [file_population(source, region, id_column, read)]
    return [dataset_population(one, data_dir) for one in dict.fromkeys(datasets or [])]


class _Task:
    """What to do to each population."""

    def __init__(
        self, *, names: list[str], ks: list[int], colluders: list[int], person: str | None, protocol: AttackProtocol,
        cores: int,
    ) -> None:  # fmt: skip
        self._names, self._ks, self._colluders = names, ks, colluders
        self._person, self._protocol, self._cores = person, protocol, cores
        self._first: tuple[AttackExperiment, list[Contender], int | None] | None = None

    def draw(self, pictures: AttackPictures) -> None:
        """Draw an attack on the first population."""
        if self._first is not None:
            experiment, fighters, target = self._first
            pictures.draw(experiment, fighters, self._ks[0], target)
            pictures.say_where()

    def run(self, people: Population, protection: Mechanism | None) -> list[tuple[AttackRow, BestAttacker | None]]:
        """Attack one population with everything asked for."""
        dataset, protocol = people.dataset, self._protocol
        fighters = contenders(self._names, dataset.region, colluders=self._colluders, tau_m=protocol.tau_m)
        target = None if self._person is None else people.number_of(self._person)
        _check_k(self._ks, len(dataset.places))
        with progress_bar(f"protecting {dataset.name}", protocol.runs) as advance:
            experiment = AttackExperiment(dataset, protocol, protection).publish_all(advance)
        rows = self._attack(experiment, fighters, target)
        best = None
        if protection is not None:
            with progress_bar(f"the best attacker on {dataset.name}", TARGETS) as advance:
                best = measure_best_attacker(experiment, advance)
        self._first = self._first or (experiment, fighters, target)
        return [(row, best) for row in rows]

    def _attack(self, experiment: AttackExperiment, fighters: list[Contender], target: int | None) -> list[AttackRow]:
        protocol = experiment.protocol
        total = len(self._ks) * len(fighters) * protocol.runs * protocol.instances
        with progress_bar(f"attacking {experiment.dataset.name}", total) as advance:
            return experiment.run(fighters, self._ks, person=target, cores=self._cores, progress=advance)


def _check_k(ks: list[int], people: int) -> None:
    for k in ks:
        if not 1 <= k <= people:
            raise UsageError(f"--k must lie between 1 and the number of people, {people:,}")


def _say_table(rows: list[tuple[AttackRow, BestAttacker | None]], protocol: AttackProtocol) -> None:
    say(text_table(*with_paper([row for row, _ in rows], tau_m=protocol.tau_m)))
    say("\n" + table_notes(tau_m=protocol.tau_m, runs=protocol.runs, instances=protocol.instances))
    for dataset, best in {row.dataset: best for row, best in rows}.items():
        if best is not None:
            say(
                f"Bayes attacker on {dataset}, the best guess from one published place (knows the mechanism and all "
                f"addresses; {best.targets} targets):\n  wrong by {best.dist_m:,.0f} m on average, within "
                f"{protocol.tau_m:g} m in {best.acc:.1%} (95 % interval {best.found.low:.1%} to {best.found.high:.1%})."
            )


def _warn_of_false_certificates(rows: list[AttackRow]) -> None:
    false = sum(row.score.false_certificates for row in rows)
    if false:
        warn(f"{false} certificates are of a place where the service does not have the target")
