"""Draw found-protected-missed.gif in docs/images, the animation in README: ``python -m deploy.readme_animation``.

A real attack on a synthetic city: a user is found through ranked lists; all users are protected by noise of 500 m; the
same attack finds the published location, and misses the user. Seeds are fixed, so that it is the same each time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import nearveil as nv
from nearveil.io.synthetic import synthetic_city
from nearveil.report.attack_figure import draw_accounts, draw_area, draw_ends, draw_number, draw_users
from nearveil.report.attack_scene import Scene, end_view, length, scene_of
from nearveil.report.land import land_in
from nearveil.report.maps import draw_land, map_axes
from nearveil.report.style import PUBLISHED_COLOR, TRUE_COLOR, house_style

TARGET = Path(__file__).parents[1] / "docs" / "images" / "found-protected-missed.gif"
USERS, USER, SEED, TAU_M = 25_000, 14, 2026, 25
REGION = nv.named_region("san-francisco")
QUERY_MS, LAST_MS, MOVE_MS, MOVES = 1300, 3500, 100, 12
SIZE_IN, DOTS_PER_INCH, COLORS = (8.0, 6.2), 100, 256


def main() -> None:
    """Attack, protect, attack again, and draw it."""
    users = synthetic_city(USERS, REGION, rng=SEED, land=land_in(REGION))
    hidden = nv.simulate(users, region=REGION, mechanism=nv.PlanarLaplace(noise_m=500, seed=SEED))
    services = nv.simulate(users, region=REGION), hidden
    before, after = (scene_of(nv.attack(each, target=USER, accounts=4, tau_m=TAU_M)) for each in services)
    with house_style():
        images, times = zip(*_story(before, after), strict=True)
    # One palette for all frames, or colors would flicker.
    palette = Image.fromarray(np.vstack(images)).quantize(COLORS, Image.Quantize.MAXCOVERAGE, kmeans=1)
    first, *others = (Image.fromarray(image).quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    options = {"palette": palette.getpalette(), "duration": list(times), "loop": 0}
    first.save(TARGET, save_all=True, append_images=others, **options)
    print(f"{TARGET.name}: {len(images)} frames, {TARGET.stat().st_size:,} bytes")


def _story(before: Scene, after: Scene) -> Iterator[tuple[np.ndarray, int]]:
    view = end_view(after)
    middle = after.from_user(view.centre)[0]
    corners = middle + 1.35 * view.half_m * np.array([[-1.6, -1.2], [1.6, 1.05]])
    yield from _attack(before, corners, "1. A service lists the 10 nearest users, without distances", TRUE_COLOR)
    title = "2. Noise of 500 m is added to the location of every user"
    for share in np.linspace(0, 1, MOVES + 1):
        moved_m = before.people_m + share * (after.people_m - before.people_m)
        scene = replace(after, people_m=moved_m, published=tuple(moved_m[USER]))
        yield (
            _drawn(scene, corners, title, "the service only knows published locations"),
            MOVE_MS if share < 1 else QUERY_MS,
        )
    yield from _attack(after, corners, "3. The same attack on the protected service", PUBLISHED_COLOR)


def _attack(scene: Scene, corners: np.ndarray, title: str, color: str) -> Iterator[tuple[np.ndarray, int]]:
    whom = "the user" if scene.published is None else "the published location"
    for number in range(1, len(scene.steps) + 1):
        text = f"query {number} of {len(scene.steps)}: {whom} can only be in the orange area"
        yield _drawn(scene, corners, title, text, number), QUERY_MS
    error = length(float(np.hypot(*scene.from_user(scene.result.estimate)[0])))
    said = f"FOUND, {error} off" if scene.published is None else f"MISSED by {error}"
    text = f"{len(scene.steps)} queries" + (
        "" if scene.published is None else ", and only the published location is found"
    )
    yield _drawn(scene, corners, title, text, banner=(said, color)), LAST_MS


def _drawn(
    scene: Scene, corners: np.ndarray, title: str, text: str, number: int = 0, banner: tuple[str, str] | None = None
) -> np.ndarray:
    figure = Figure(SIZE_IN, dpi=DOTS_PER_INCH)
    axes = figure.add_axes((0.12, 0.095, 0.84, 0.765))
    map_axes(axes, corners, "the user")
    draw_land(axes, scene.region, scene.truth)
    draw_users(axes, scene, 5)
    if number:
        step, area = scene.steps[number - 1], scene.areas[number - 1]
        draw_area(axes, area, 0.5, linewidth=1.2, zorder=1)
        draw_accounts(axes, scene, (step,))
        draw_number(axes, scene, step.place, f"query {number}")
    draw_ends(axes, scene, estimate=banner is not None)
    axes.legend(loc="lower right", fontsize=11, frameon=True, framealpha=1).set_zorder(20)
    figure.text(0.02, 0.94, title, fontsize=17, fontweight="bold")
    figure.text(0.02, 0.885, text, fontsize=14)
    if banner:
        said, color = banner
        box = {"facecolor": color, "edgecolor": "white", "boxstyle": "round,pad=0.4"}
        style = {"fontsize": 26, "fontweight": "bold", "color": "white", "bbox": box}
        axes.text(0.035, 0.88, said, transform=axes.transAxes, **style)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", facecolor="white")
    return np.asarray(Image.open(drawn).convert("RGB"))


if __name__ == "__main__":
    main()
