"""``nearveil attack --adapter`` and ``--url``: attack a service of your own."""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import click

from nearveil.attacks.adapter import Adapter, adapter
from nearveil.attacks.base import Outcome
from nearveil.attacks.running_service import attack_service
from nearveil.cli._output import note, progress_bar, say, say_json
from nearveil.client.http import Client, region_of
from nearveil.errors import UsageError
from nearveil.evaluation.attack import AttackOutcome, outcome_of_adapter
from nearveil.io.atomic import replacing

KEY_VARIABLE = "NEARVEIL_PLATFORM_KEY"
_STARTER_TRUTH = "52.4912,13.424"
_COARSER = {"distance": "Coarser distances", "bands": "Wider bands", "filter": "Larger radii", "list": "Shorter lists"}
_FIX = """only cost the attacker more queries.
Answer from locations that were blurred once for each place, with nearveil.Veil: docs/guides/veil.md"""
_T = TypeVar("_T")


def init_adapter(path: Path, *, force: bool) -> None:
    """Write a commented adapter that runs at once, and say what to do next."""
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UsageError(f"{path.name} does not name a Python module; name it like my_service.py")
    text = files("nearveil.cli").joinpath("templates/my_service.txt").read_text(encoding="utf-8")
    with replacing(path, force=force) as partial:
        partial.write_text(text.replace("NAME", path.name), encoding="utf-8")
    say(
        f"Wrote {path}. It runs as it stands, on a simulated service:\n\n"
        f"    nearveil attack --adapter {path} --truth {_STARTER_TRUTH}\n\n"
        "Then replace its function by a request to your own service. --truth is where your test account truly is."
    )


def attack_adapter(
    path: Path, *, truth: tuple[float, float] | None, target: str | None, region: str | None, method: str | None,
    tau_m: float, seed: int, json: bool,
) -> tuple[AttackOutcome, str | None]:  # fmt: skip
    """Attack the test account and print the result; return it, and which call ended the attack early."""
    service = adapter(path)
    if truth is None:
        truth = _asked_for("true location of your test account, such as 52.49,13.42", "--truth LAT,LON", read_location)
    if target is None and service.answers == "list":
        target = _asked_for("id of your test account", "--target ID", str)
    with progress_bar("queries so far", None) as advance:
        found = service.attack(
            truth, user=target, region=region, method=method, tau_m=tau_m, seed=seed, on_query=advance, on_kind=note
        )
    outcome = outcome_of_adapter(found, tau_m)
    if json:
        say_json(
            {
                "attack": found.result.attack,
                "answers": service.answers,
                "outcome": str(found.result.outcome),
                "failure": service.failure,
                "found": outcome.found,
                "error_m": found.error_m,
                "radius_m": found.result.radius_m,
                "certified": found.result.certified,
                "queries": found.result.queries,
            }
        )
    else:
        say(_sentences(outcome, service))
    return outcome, service.failure


def read_location(text: str) -> tuple[float, float]:
    """Read a location such as ``37.77,-122.42``."""
    try:
        latitude, longitude = (float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter("write latitude and longitude in degrees, such as 37.77,-122.42") from None
    return latitude, longitude


def _asked_for(what: str, option: str, read: Callable[[str], _T]) -> _T:
    """Ask at a terminal for what is missing."""
    with suppress(click.Abort):
        if sys.stdin.isatty():
            answer: _T = click.prompt(f"The {what}", value_proc=read, err=True)
            return answer
    raise UsageError(f"give the {what}, with {option}")


def _sentences(outcome: AttackOutcome, service: Adapter) -> str:
    """Say the result, and what would fix the service."""
    result, error_m, radius_m = outcome.result, outcome.error_m, outcome.radius_m
    after = f"after {result.queries:,} {'query' if result.queries == 1 else 'queries'}"
    sure = "" if result.outcome is Outcome.FOUND else f" ({result.outcome})"
    if error_m is None:
        return f"The user was not found {after}: {result.outcome}. Another attack may find the user."
    if outcome.found:
        found = f"Your service leaks: user found within {math.ceil(error_m):,} m {after}"
        return f"{found}{sure and f', though the attack was not sure{sure}'}.\n{_COARSER[service.answers]} {_FIX}"
    hint = ""
    if not sure and radius_m is not None and error_m > 2 * radius_m:
        hint = "\nThe answers fit the estimate: your service answers from another location, or --truth is wrong."
    elif service.answers == "list" and not service.accounts:
        hint = "\nIf the list shows everyone within a radius, define within() and radii_m in place of nearby()."
    elif result.outcome is Outcome.CONTRADICTION and service.answers != "list":
        hint = "\nNoise that is drawn again for each answer protects nobody: it averages out over many queries."
    return f"The user was not found {after}: the estimate is {_length(error_m)} away{sure}.{hint}"


def _length(length_m: float) -> str:
    return f"{length_m / 1000:,.1f} km" if length_m >= 1000 else f"{length_m:,.0f} m"


def attack_url(
    url: str, *, key: str | None, targets: int | None, truth: tuple[float, float] | None, target: str | None, k: int,
    accounts: int, method: str | None, tau_m: float, seed: int, json: bool,
) -> None:  # fmt: skip
    """Attack users of a running Nearveil service and print the result."""
    if (target is None) != (truth is None):
        raise UsageError("give --target and --truth together: a user of your own and its true location")
    method, count = method or "adaptive", 1 if target else 20 if targets is None else targets
    with Client(url, _platform_key(key)) as client, progress_bar("attacking the service", count) as advance:
        results = attack_service(
            client, region_of(client, None), targets=count, user=target, truth=truth, k=k, accounts=accounts,
            method=method, tau_m=tau_m, seed=seed, progress=advance,
        )  # fmt: skip
    errors_m = [math.inf if each.error_m is None else each.error_m for each in results]
    median_m, queries = statistics.median(errors_m), statistics.fmean(each.result.queries for each in results)
    document = {
        "attack": method,
        "targets": count,
        "attacked": len(results),
        "found": sum(error_m <= tau_m for error_m in errors_m),
        "median_error_m": None if math.isinf(median_m) else median_m,
        "queries": queries,
        "out_of_queries": sum(each.result.outcome is Outcome.OUT_OF_QUERIES for each in results),
    }
    if json:
        say_json(document)
        return
    median = "" if math.isinf(median_m) else f"; the median error is {_length(median_m)}"
    say(f"{document['found']} of {len(results)} users found within {tau_m:g} m, {queries:.1f} queries each{median}.")
    if len(results) < count:
        say(f"{count - len(results)} further users were not attacked, because no list near them shows them.")
    say("All test users were removed.")


def _platform_key(path: str | None) -> str:
    """Return the platform key from a file or the environment. Errors never show it."""
    with suppress(OSError, UnicodeDecodeError):
        text = Path(path).read_text(encoding="utf-8").strip() if path else os.environ.get(KEY_VARIABLE, "")
        if text.startswith("nvk_"):
            return text
    raise UsageError(
        "only a service of your own can be attacked: give its platform key, which begins with nvk_, in a file with "
        f"--key FILE, or in {KEY_VARIABLE}"
    )
