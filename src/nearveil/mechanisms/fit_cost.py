"""What intervals or cells add to a card: their own cost, and that of a release together with it."""

from __future__ import annotations

import math
from dataclasses import replace

from nearveil.mechanisms.base import Learned
from nearveil.privacy.guarantee import Guarantee, PrivacyDefinition, round_up

_LARGEST_USEFUL_DELTA = 0.01
_NEXT_TO_NO_DELTA = 1e-300


def with_fit_cost(release: Guarantee, learned: Learned, name: str, delta: float = 0.0) -> Guarantee:
    """Add to what holds given what was learned: that itself, and both together for those it was made from.

    Parameters
    ----------
    release : Guarantee
        What holds given the intervals or cells.
    learned : Learned
        These.
    name : str
        What they are called: ``"intervals"``.
    delta : float
        What may be spent on accounting for the fit.
    """
    statements = [learned.guarantee(delta)]
    if not learned.is_free:
        together = _together(release, *replacement_cost(learned, delta), name)
        statements.append(together if learned.unit == "user" else together.counted_per_row())
    return replace(
        release,
        title=f"{release.title}, given the {name}",
        neighbors=f"{release.neighbors}, the {name} being given",
        also=(*statements, *release.also),
    )


def replacement_cost(learned: Learned, delta: float) -> tuple[float, float]:
    """Return epsilon and delta between what is learned with a user at one location and at another.

    Replacing is removing and adding: the losses add, and the second step's delta counts e^epsilon times.
    """
    for spent in (delta, _NEXT_TO_NO_DELTA):
        cost = learned.guarantee(spent)
        twice = min(1.0, cost.delta * (1 + math.exp(min(cost.epsilon, 700.0))))
        if twice <= _LARGEST_USEFUL_DELTA:
            break
    return 2 * cost.epsilon, twice


def _together(release: Guarantee, epsilon: float, delta: float, name: str) -> Guarantee:
    by_distance = release.definition.is_by_distance
    came_out = f" in the {name} that came out" if release.definition is PrivacyDefinition.INTERVAL else ""
    return replace(
        release,
        title="Together, for those fitted on",
        epsilon=release.epsilon if by_distance else release.epsilon + epsilon,
        offset=epsilon if by_distance else 0.0,
        delta=min(1.0, release.delta + delta),
        neighbors=(f"{release.neighbors}{came_out}, that location being among those that the {name} were made from"),
        promise=(
            f"the {name} depend on the users they were made from: for them another location costs up to "
            f"{round_up(epsilon)} more; with {name} from public data or from locations already published it does not"
        ),
        not_covered="",
        because=f"the loss of the {name} twice, for removing and adding, and the release's loss given the {name}",
        also=(),
        notes=(),
        certificate=None,
    )
