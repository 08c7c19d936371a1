"""What the guarantees are worth: the paper's claim and ours, each put to the same audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nearveil.evaluation.cells import AuditCell
from nearveil.evaluation.defences import Defence
from nearveil.evaluation.experiments.scope import Results, Scope, span
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, exact
from nearveil.evaluation.runner import Result

NAME = "guarantee"
TITLE = "What the guarantees are worth"

NOISE_M = 500.0
SAMPLES, QUICK_SAMPLES = 400_000, 100_000
_COLUMNS = (
    Column("dataset"),
    Column("release"),
    Column("parameter"),
    Column("claim"),
    Column("claimed loss", "", ".3g"),
    Column("at least", "", ".3g"),
    Column("unit"),
    Column("verdict"),
    Column("event under one place", "", ".4f"),
    Column("under the other", "", ".4f"),
    Column("witness"),
)


def cells(scope: Scope) -> list[AuditCell]:
    """The paper's claim at every epsilon, and the claims of the sound releases."""
    return [cell for _, cell in _named(scope)]


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Put claims and what was found side by side."""
    found = [(label, cell, results[cell]) for label, cell in _named(scope)]
    table = Table(
        NAME,
        "The loss that is claimed, and the loss that was shown to be there at least; the witness says between which "
        "two places, and how often an event of outputs came under each.",
        _COLUMNS,
        tuple(
            (
                cell.dataset,
                label,
                cell.defence.parameter,
                "the paper's" if cell.claim == "paper" else "its own",
                one["claimed"],
                one["at least"],
                one["unit"],
                one["verdict"],
                one["hits"],
                one["false hits"],
                one["pair"],
            )
            for label, cell, one in found
        ),
        f"{_samples(scope):,} outputs for each audit, seed {scope.seed}; a true claim is called violated with "
        f"probability at most {1 - found[0][2]['confidence']:.0e}. "
        "Intervals fitted to each population, isotropic region.",
    )
    return ExperimentResult(
        NAME,
        TITLE,
        "Theorem 3 of the paper promises (epsilon, delta)-differential privacy for the published list. Is it true?",
        (table,),
        (_chart(scope, found),),
        _remarks(found),
    )


def violated(scope: Scope, results: Results) -> tuple[int, int, int, int]:
    """Count audits of the paper's claim that found it violated, of how many; then the same for the sound releases."""
    verdicts = [(cell.claim, results[cell]["verdict"]) for _, cell in _named(scope)]
    paper = [verdict for claim, verdict in verdicts if claim == "paper"]
    own = [verdict for claim, verdict in verdicts if claim == "own"]
    return paper.count("violated"), len(paper), own.count("violated"), len(own)


def _samples(scope: Scope) -> int:
    return QUICK_SAMPLES if scope.quick else SAMPLES


def _named(scope: Scope) -> list[tuple[str, AuditCell]]:
    return [
        (
            defence.release,
            AuditCell(
                dataset=dataset,
                seed=scope.seed,
                run=0,
                defence=defence,
                claim="paper" if defence.release == "paper" else "own",
                samples=_samples(scope),
            ),
        )
        for dataset in scope.datasets
        for defence in _audited(scope)
    ]


def _epsilons(scope: Scope) -> tuple[float, ...]:
    return (1.0,) if scope.quick else scope.epsilons


def _audited(scope: Scope) -> list[Defence]:
    paper = Defence(label="paper", mechanism="dprs", region="isotropic")
    interval = replace(paper, release="interval", centres_from="private-grid")
    return [
        *(replace(paper, epsilon=epsilon) for epsilon in _epsilons(scope)),
        *(replace(interval, epsilon=epsilon) for epsilon in _epsilons(scope)),
        replace(interval, release="metric", noise_m=NOISE_M),
    ]


def _chart(scope: Scope, found: Sequence[tuple[str, AuditCell, Result]]) -> Chart:
    panels = []
    x = tuple(exact(epsilon) for epsilon in _epsilons(scope))
    # Beyond the first and the last, so that there is a line even where there is a single epsilon.
    ends = exact(min(_epsilons(scope)) / 2), exact(2 * max(_epsilons(scope)))
    for dataset in scope.datasets:
        series = [Series("claimed", ends, ends)]
        for label in ("paper", "interval"):
            line = [one for name, cell, one in found if name == label and cell.dataset == dataset]
            series.append(Series(f"{label}, shown", x, tuple(exact(one["at least"]) for one in line)))
        panels.append(Panel(dataset, "epsilon claimed", "loss shown, at least", tuple(series), log_x=True, log_y=True))
    description = (
        "The loss that an audit showed, against the epsilon claimed, for the paper's release and the release interval."
    )
    return Chart(NAME, "What is claimed, and what an audit shows", tuple(panels), len(scope.datasets), description)


def _remarks(found: Sequence[tuple[str, AuditCell, Result]]) -> tuple[str, ...]:
    paper = [one for label, _, one in found if label == "paper"]
    own = [one for label, _, one in found if label != "paper"]
    return (
        f"The paper's claim is violated in {sum(one['verdict'] == 'violated' for one in paper)} of {len(paper)} "
        f"audits: the loss shown is at least {span([one['at least'] for one in paper], '.1f')}. The number "
        "of samples cannot show more; the true loss is infinite: a published place lies in the disc of the nearest "
        "centre, so two places in different cells never have an output in common.",
        f"The claims of the releases 'interval' and 'metric' are violated in "
        f"{sum(one['verdict'] == 'violated' for one in own)} of {len(own)} audits. An audit proves no claim; theirs "
        "rest on proofs.",
        "Theorem 3 can hold at most between places that share an interval, and the interval itself is disclosed to "
        "everybody who sees the list.",
    )
