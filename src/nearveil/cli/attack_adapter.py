"""``nearveil attack --adapter``: attack a service of one's own behind a Python file with a few functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearveil.attacks.answers import Answers
from nearveil.attacks.base import Outcome
from nearveil.cli._options import chosen_region
from nearveil.cli._output import progress_bar, say, say_json
from nearveil.client.adapter import Adapter, attack_adapter
from nearveil.errors import UsageError
from nearveil.evaluation.attack import AttackOutcome
from nearveil.report.text_table import text_table


def attack_with_adapter(
    path: Path,
    *,
    answers: str | None,
    region: str | None,
    names: Sequence[str],
    tau_m: float,
    target: str | None,
    truth: tuple[float, float] | None,
    seed: int,
    json: bool,
) -> tuple[AttackOutcome, str | None]:
    """Attack the test account, print the result, and return it, with the reason if a call ended the attack early."""
    if truth is None:
        raise UsageError("say where your test account is: --truth LAT,LON; attack only a service of your own")
    if len(names) > 1:
        raise UsageError("with --adapter, --attack takes one attack")
    box = chosen_region(region)
    adapter = Adapter(path, box)
    said = adapter.answers(answers)
    if target is not None and not said.is_list:
        raise UsageError(
            f"--target is for lists; with --answers {said} the adapter knows the test account; leave it out"
        )
    with progress_bar("attacking the service", 1) as advance:
        outcome = attack_adapter(
            adapter, said, box, truth=truth, target=target, method=names[0] if names else "adaptive", tau_m=tau_m,
            seed=seed,
        )  # fmt: skip
        advance(1)
    if json:
        say_json(_document(outcome, adapter, said))
    else:
        say(_text(outcome, adapter, said))
    return outcome, adapter.failure


def _document(outcome: AttackOutcome, adapter: Adapter, answers: Answers) -> dict[str, Any]:
    """The result for machines, without a location."""
    result = outcome.result
    return {
        "attack": result.attack,
        "answers": str(answers),
        "accounts": len(adapter.accounts) if answers.is_list else 0,
        "outcome": str(result.outcome),
        "failure": adapter.failure,
        "found": outcome.found,
        "error_m": None if outcome.error_m is None else round(outcome.error_m, 1),
        "radius_m": None if result.radius_m is None else round(result.radius_m, 1),
        "certified": result.certified,
        "questions": result.queries,
        "seconds": round(result.seconds, 3),
        "tau_m": outcome.tau_m,
    }


def _text(outcome: AttackOutcome, adapter: Adapter, answers: Answers) -> str:
    document = _document(outcome, adapter, answers)
    headers = ("attack", "answers", "accounts", "found", "error (m)", "radius (m)", "certified", "questions", "seconds")
    names = ("accounts", "found", "error_m", "radius_m", "certified", "questions", "seconds")
    cells = [document["attack"], document["answers"], *(_cell(document[name]) for name in names)]
    means = _MEANS_OF_LISTS if answers.is_list else _MEANS_OF_ANSWERS
    return (
        f"{_verdict(outcome, answers)}\n\n{text_table(headers, [cells])}\n\n"
        f"found: the estimate is within {outcome.tau_m:g} m of --truth; {means}"
    )


_MEANS_OF_LISTS = """radius: the attack says that the service has the
person within it, surely where certified, else in 95 % of cases; certified: the attacker's accounts were listed
where that is so. Questions that find a place to begin from, near --truth, are not counted."""
_MEANS_OF_ANSWERS = """radius: nothing farther from the estimate is
possible by the answers, if the service has one fixed rule that the attack knows; certified: that radius is at
most tau, and the adapter says fixed_rule = True."""


def _verdict(outcome: AttackOutcome, answers: Answers) -> str:
    result, error_m, radius_m = outcome.result, outcome.error_m, outcome.radius_m
    after = f"after {result.queries:,} question{'s' if result.queries != 1 else ''}"
    if error_m is None:
        return f"The person was not found {after}: {result.outcome}. Another attack may find them."
    ended = "" if result.outcome is Outcome.FOUND else f" ({result.outcome})"
    noisy = ""
    if result.outcome is Outcome.CONTRADICTION and not answers.is_list:
        noisy = (
            "\nIf your service adds noise to each answer, that protects nobody: it averages out over many questions."
        )
    if outcome.found:
        unsure = f", though the attack itself was not sure{ended}" if ended else ""
        return f"Your service gives this person away: found within {math.ceil(error_m):,} m {after}{unsure}.{noisy}"
    if result.outcome is Outcome.FOUND and radius_m is not None and error_m > _FAR_OUTSIDE * radius_m:
        other = "does not list people by distance" if answers.is_list else "does not answer by one fixed rule"
        return (
            f"The person was not found {after}, but the answers fit a place {_distance(error_m)} from --truth: check "
            f"--truth. If it is right,\nyour service answers from another place than the true one, or {other}."
        )
    return (
        f"The person was not found {after}: the estimate is {_distance(error_m)} from --truth{ended}. Another attack "
        f"may find them.{noisy}"
    )


# The true place is outside the radius by more than rounding and the map's projection explain.
_FAR_OUTSIDE = 2.0


def _distance(metres: float) -> str:
    return f"{metres / 1000:,.1f} km" if metres >= 1000 else f"{metres:,.0f} m"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:,}"
