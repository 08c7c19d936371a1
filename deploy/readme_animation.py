"""Draw found-protected-missed.gif in docs/images, the animation in README: ``python -m deploy.readme_animation``.

A real attack on a made-up city: a person is found through ranked lists; everybody is protected by noise of 500 m on
average; the same attack finds the published place, and misses the person. Seeds are fixed, so that it is the same
animation each time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from PIL import Image

import nearveil as nv
from nearveil.io.synthetic import synthetic_city
from nearveil.report.land import land_in
from nearveil.report.maps import draw_land
from nearveil.report.style import ACCOUNT_COLOUR, LIGHT, PUBLISHED_COLOUR, TRUE_COLOUR

TARGET = Path(__file__).parents[1] / "docs" / "images" / "found-protected-missed.gif"
PEOPLE, PERSON, SEED = 25_000, 20, 2026
HALF_KM = 1.0
QUESTION_MS, LAST_MS, MOVE_MS = 700, 2600, 90
MOVES = 10
REGION = nv.named_region("san-francisco")


def main() -> None:
    """Attack, protect, attack again, and draw it."""
    people = synthetic_city(PEOPLE, REGION, rng=SEED, land=land_in(REGION))
    hidden = nv.simulate(people, region=REGION, mechanism=nv.PlanarLaplace(noise_m=500, seed=SEED))
    before = nv.attack(nv.simulate(people, region=REGION), target=PERSON, accounts=4, tau_m=25)
    after = nv.attack(hidden, target=PERSON, accounts=4, tau_m=25)
    frames = [*_story(before, after, REGION.to_metres(people), REGION.to_metres(hidden.published))]
    first, *others = (image for image, _ in frames)
    first.save(
        TARGET, save_all=True, append_images=others, duration=[milliseconds for _, milliseconds in frames], loop=0,
        optimize=True,
    )  # fmt: skip
    print(f"{TARGET.name}: {len(frames)} frames, {TARGET.stat().st_size:,} bytes")
    for name, outcome in (("before", before), ("after", after)):
        print(f"{name}: {outcome.queries} questions, {outcome.error_m:.0f} m from the person")


def _story(
    before: nv.AttackOutcome, after: nv.AttackOutcome, true_m: np.ndarray, served_m: np.ndarray
) -> Iterator[tuple[Image.Image, int]]:
    person, published = true_m[PERSON], served_m[PERSON]
    yield from _attack(before, true_m, person, None, "1. A service lists the ten nearest people, and no distances")
    for share in np.linspace(0, 1, MOVES + 1)[1:]:
        moved = true_m + share * (served_m - true_m)
        yield _drawn(moved, person, moved[PERSON], "2. Everybody is moved by noise, 500 m on average", ""), MOVE_MS
    yield _drawn(served_m, person, published, "2. Everybody is moved by noise, 500 m on average", ""), LAST_MS // 2
    yield from _attack(after, served_m, person, published, "3. The same attack on the protected service")


def _attack(
    outcome: nv.AttackOutcome, people_m: np.ndarray, person: np.ndarray, published: np.ndarray | None, title: str
) -> Iterator[tuple[Image.Image, int]]:
    steps = outcome.result.trace.steps
    for number, step in enumerate(steps):
        text = f"question {number + 1} of {len(steps)}: blue is where the person can still be"
        yield _drawn(people_m, person, published, title, text, cells=step.cells, accounts=step.accounts), QUESTION_MS
    end = (
        f"FOUND after {len(steps)} questions, to within {outcome.error_m:.0f} m"
        if published is None
        else f"MISSED by {outcome.error_m:.0f} m: only the published place is found"
    )
    yield _drawn(people_m, person, published, title, end, estimate=outcome.result.estimate), LAST_MS


def _drawn(
    people_m: np.ndarray,
    person: np.ndarray,
    published: np.ndarray | None,
    title: str,
    text: str,
    *,
    cells: np.ndarray | None = None,
    accounts: tuple[tuple[float, float], ...] = (),
    estimate: tuple[float, float] | None = None,
) -> Image.Image:
    figure = Figure(figsize=(6.4, 5.2), dpi=100, facecolor=LIGHT.page)
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.84))
    draw_land(axes, REGION, LIGHT, lambda metres: metres / 1000)
    x, y = person / 1000
    axes.set(xlim=(x - 1.41 * HALF_KM, x + 1.41 * HALF_KM), ylim=(y - HALF_KM, y + HALF_KM), xticks=[], yticks=[])
    axes.plot(*(people_m / 1000).T, ".", color="#777777", markersize=3, alpha=0.6)
    if cells is not None:
        _draw_cells(axes, cells / 1000)
    if accounts:
        axes.plot(*(np.array(accounts) / 1000).T, "s", color=ACCOUNT_COLOUR, markersize=7, label="attacker's account")
    axes.plot(x, y, "*", color=TRUE_COLOUR, markersize=17, label="the person")
    if published is not None:
        axes.plot(*(published / 1000), "D", color=PUBLISHED_COLOUR, markersize=8, label="published place")
    if estimate is not None:
        axes.plot(*(np.array(estimate) / 1000), "x", color="black", markersize=14, markeredgewidth=3, label="estimate")
    axes.legend(loc="lower right", fontsize=9, framealpha=1)
    figure.text(0.02, 0.94, title, fontsize=13, weight="bold", color=LIGHT.ink)
    figure.text(0.02, 0.885, text, fontsize=11, color=LIGHT.ink)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    return Image.open(drawn).convert("RGB").quantize(64, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def _draw_cells(axes: Axes, cells: np.ndarray) -> None:
    x, y, half = cells.T
    corners = np.stack([np.column_stack([x + a * half, y + b * half]) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))])
    axes.add_collection(
        PolyCollection(list(corners.transpose(1, 0, 2)), facecolor=TRUE_COLOUR, alpha=0.45, linewidth=0)
    )


if __name__ == "__main__":
    main()
