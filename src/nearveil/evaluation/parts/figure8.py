"""Figure 8: how long sampling takes, by radius and by epsilon."""

from __future__ import annotations

from nearveil.evaluation.attack_score import Mean
from nearveil.evaluation.cells.cell import NOBODY
from nearveil.evaluation.cells.sampling_cell import POINTS, SamplingCell
from nearveil.evaluation.outcome import Chart, Column, Outcome, Panel, Series, Table, exact
from nearveil.evaluation.parts.scope import Results, Scope, mean_of, span
from nearveil.privacy.accounting import Noise

NAME = "figure8"
TITLE = "Figure 8: the time sampling takes"

RADII = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
FIXED_EPSILON, FIXED_RADIUS = 1.0, 0.5
PAPER_MOST_MS = 40.0
NOISES: tuple[Noise, ...] = ("laplace", "gaussian")
SAMPLERS = {"RSM": "RSM", "noise and resample": "noise and resample", "Nearveil": "Nearveil's sampler"}


def cells(scope: Scope) -> list[SamplingCell]:
    """By radius at epsilon = 1, and by epsilon at R = 0.5."""
    return [
        cell for noise in NOISES for radius, epsilon in _places(scope) for cell in _cells(scope, noise, radius, epsilon)
    ]


def outcome(scope: Scope, results: Results) -> Outcome:
    """Put the samplers side by side."""
    times = {
        (noise, radius, epsilon, name): mean_of(results, _cells(scope, noise, radius, epsilon), name)
        for noise in NOISES
        for radius, epsilon in _places(scope)
        for name in (*(f"{sampler} ms" for sampler in SAMPLERS), "RSM tries", "noise and resample tries")
    }
    columns = (
        Column("noise"), Column("R", form="g"), Column("epsilon", form="g"),
        *(Column(f"{label} (ms)", "time for 100 points") for label in SAMPLERS.values()),
        Column("RSM", "tries per point", ".2f"), Column("noise and resample", "tries per point", ",.0f"),
        Column("paper: RSM below (ms)", "paper", "g"),
    )  # fmt: skip
    rows = tuple(
        (
            noise, radius, epsilon,
            *(times[noise, radius, epsilon, f"{sampler} ms"] for sampler in SAMPLERS),
            times[noise, radius, epsilon, "RSM tries"], times[noise, radius, epsilon, "noise and resample tries"],
            PAPER_MOST_MS,
        )
        for noise in NOISES
        for radius, epsilon in _places(scope)
    )  # fmt: skip
    protocol = (
        f"{POINTS} points uniform in [-1, 1]² moved into a disc of radius R around the origin; noise scales of the "
        f"paper's accounting; best of 9 repeats on one core, {scope.words}. Times vary from machine to machine."
    )
    table = Table(NAME, "Time to move 100 points into a disc, and tries for each point.", columns, rows, protocol)
    ratios = [
        times[noise, *place, "noise and resample ms"].value / times[noise, *place, "RSM ms"].value
        for noise in NOISES
        for place in _places(scope)
    ]
    slowest = max(times[noise, *place, "RSM ms"].value for noise in NOISES for place in _places(scope))
    remarks = (
        f"RSM takes at most {slowest:.3f} ms for 100 points (compiled code; the paper: below {PAPER_MOST_MS:g} ms).",
        f"Noise and resample takes {span(ratios, '.1f')} times as long as RSM; the paper says much longer, in every "
        "setting.",
    )
    question = "The paper: RSM stays below 40 ms, and noise-and-resample takes much longer."
    return Outcome(NAME, TITLE, question, (table,), (_chart(scope, times),), remarks)


def _places(scope: Scope) -> list[tuple[float, float]]:
    by_radius = [(radius, FIXED_EPSILON) for radius in _radii(scope)]
    return by_radius + [(FIXED_RADIUS, epsilon) for epsilon in _epsilons(scope) if epsilon != FIXED_EPSILON]


def _radii(scope: Scope) -> tuple[float, ...]:
    return (0.2, FIXED_RADIUS, 1.0) if scope.quick else RADII


def _epsilons(scope: Scope) -> tuple[float, ...]:
    return (FIXED_EPSILON, 5.0) if scope.quick else EPSILONS


def _cells(scope: Scope, noise: Noise, radius: float, epsilon: float) -> list[SamplingCell]:
    return [
        SamplingCell(dataset=NOBODY, seed=scope.seed, run=run, noise=noise, radius=radius, epsilon=epsilon)
        for run in scope.each_run()
    ]


def _chart(scope: Scope, times: dict[tuple[Noise, float, float, str], Mean]) -> Chart:
    panels = []
    for noise in NOISES:
        for x_label, places in (
            (f"radius R (epsilon = {FIXED_EPSILON:g})", [(radius, FIXED_EPSILON) for radius in _radii(scope)]),
            (f"epsilon (R = {FIXED_RADIUS:g})", [(FIXED_RADIUS, epsilon) for epsilon in _epsilons(scope)]),
        ):
            by_radius = x_label.startswith("radius")
            x = tuple(exact(radius if by_radius else epsilon) for radius, epsilon in places)
            series = [
                Series(label, x, tuple(times[noise, radius, epsilon, f"{sampler} ms"] for radius, epsilon in places))
                for sampler, label in SAMPLERS.items()
            ]
            ends = (x[0], x[-1])
            series.append(Series("the paper: RSM below", ends, (exact(PAPER_MOST_MS),) * 2))
            title = f"{noise.capitalize()} noise"
            panels.append(Panel(title, x_label, "ms for 100 points", tuple(series), log_y=True))
    words = "Time to move 100 points into a disc, against its radius and against epsilon, for both kinds of noise."
    return Chart(NAME, "Time to move 100 points into a disc", tuple(panels), 2, words)
