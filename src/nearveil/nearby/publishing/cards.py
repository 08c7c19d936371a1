"""What each policy of a running service promises, and what it does not."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.nearby.publishing.place_grid import PlaceGrid
from nearveil.privacy.guarantee import Basis, Guarantee, Notion
from nearveil.privacy.ledger.budget import duration_text

_KEY_NOTE = (
    "The noise comes from a keyed function (keyed BLAKE2b): all of this holds against whoever does not have the key. "
    "The key together with the store gives away which places a person visited in the windows that the key is for."
)
_RETURNS_NOTE = (
    "Staying and coming back publish the same point again, so that somebody who watches can tell when a person is back "
    "at a place where they were before in the same window, and how often they change places, at most once per epoch."
)
_BORDER_NOTE = (
    "Somebody counts as in the cell where they were last until they are half a side beyond it, so that going a few "
    "metres farther can be what publishes a new point."
)
_ERASED_NOTE = "Erasing somebody and creating them anew begins a new budget of places."
_ORDER_NOTE = "Being in the service at all, and reporting or not, are not hidden."


def place_card(noise: PlanarLaplace, *, grid: PlaceGrid, places: int, window: timedelta) -> Guarantee:
    """Noise per place: one place by itself, then all places of a window together."""
    one = noise.guarantee
    # Two people in their cells are as far apart as the cells' centres at most: their own distance and both ways there.
    offset = one.epsilon * 2 * grid.farthest_from_centre_m
    alone = replace(
        one,
        title="Every new place where somebody was",
        offset=offset,
        neighbours=(
            "any two places of one person that both count as new, at a loss of epsilon times their distance on the "
            f"ground and the constant (whether a place counts as new, as a stay or as a return is disclosed; delta is "
            f"for places up to {10 * noise.hide_within_m / 1000:,.3g} km apart)"
        ),
        protects=(
            f"what is drawn is the same for everything that counts as in one cell of the public grid of "
            f"{grid.side_m:,.4g} m, however often it is reported; two cells whose centres are "
            f"{noise.hide_within_m:,.6g} m apart have a loss of 2: "
            "whatever is published, it is at most e^2 = 7.4 times likelier from the one than from the other; places "
            "far apart are not hidden from each other"
        ),
        because=(
            "planar Laplace noise around the centre of the cell, drawn once for a person, a cell and a window by a "
            "keyed function; repeating it, moving it to the nearest interval, clamping and rounding cannot add to the "
            "loss; the constant is for the way to the centre and back, with the margin that keeps borders from "
            "flickering"
        ),
        certificate=None,
    )
    together = replace(
        alone,
        title=f"All places of {_a_window(window)} together",
        epsilon=one.epsilon * places,
        offset=offset * places,
        delta=min(1.0, one.delta * places),
        neighbours=(
            "two ways of spending the window that stay, leave and return at the same times, each place of the one as "
            "far from the corresponding place of the other as the distance says"
        ),
        protects=(
            f"at most {places:,} different places are published in a window, and their losses add up; a budget that is "
            "spent leaves the last published place where it is"
        ),
        because="sequential composition over the different places of a window, which the ledger counts",
    )
    windows = (
        f"Every {_bare(window)} begins a new window with fresh noise for all places; the losses of windows add up."
    )
    return replace(
        alone, also=(together,), notes=(_RETURNS_NOTE, _BORDER_NOTE, windows, _ERASED_NOTE, _ORDER_NOTE, _KEY_NOTE)
    )


def fresh_card(noise: PlanarLaplace, *, draws: int, window: timedelta) -> Guarantee:
    """Fresh noise at every border, the window's budget divided among its epochs."""
    one = noise.guarantee
    whole = replace(
        one,
        title=f"All that is published of a person in {_a_window(window)}",
        epsilon=one.epsilon * draws,
        delta=min(1.0, one.delta * draws),
        neighbours=(
            "two ways of spending the window with reports in the same epochs, everywhere as far apart as the distance "
            "says"
        ),
        protects=(
            f"each of the {draws:,} draws has noise of {noise.hide_within_m / 1000:,.4g} km on average, so that all "
            f"together hide within {noise.hide_within_m / draws:,.4g} m; what is published is far from where people are"
            if draws > 1
            else f"the one draw of a window hides within {noise.hide_within_m:,.4g} m; the draws of several windows of "
            "somebody who stays put average out"
        ),
        because="planar Laplace noise for each draw, and sequential composition over the window's draws",
        certificate=None,
    )
    windows = f"Every {_bare(window)} begins a new window with a budget of its own; the losses of windows add up."
    return replace(whole, notes=(windows, _ORDER_NOTE))


def off_card() -> Guarantee:
    """No protection at all."""
    return Guarantee(
        title="Protection is off",
        notion=Notion.METRIC,
        epsilon=math.inf,
        unit="per metre",
        delta=0.0,
        neighbours="nobody",
        protects="true places are published at once: anybody who asks a few questions finds anybody within metres",
        basis=Basis.THEOREM,
        because="nothing is done to the places; run this with made-up people only",
    )


def _a_window(window: timedelta) -> str:
    return f"a window of {duration_text(window)}"


def _bare(window: timedelta) -> str:
    return duration_text(window).removeprefix("1 ")
