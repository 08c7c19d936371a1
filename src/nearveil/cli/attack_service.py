"""``nearveil attack --url``: attack a running service of one's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from nearveil.cli._old_options import (
    numbers,
)
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.client.audit import (
    Audit,
    AuditPlan,
    KnownTarget,
    ServiceAudit,
    audit_notes,
    audit_table,
    check_platform_key,
)
from nearveil.client.http import Client, region_of
from nearveil.client.stolen_key import (
    Stolen,
    StolenAudit,
    StolenKeyAudit,
    StolenPlan,
    Strategy,
    StrategyResult,
)
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import LEAST_TAU_M
from nearveil.region import metres
from nearveil.report.tables import text_table

KEY_VARIABLE = "NEARVEIL_PLATFORM_KEY"
_PLATFORM_PREFIX = "nvk_"
_TARGETS = 20
_STOLEN_TARGETS = 200
_PANEL = "A running service of your own"

UrlOption = Annotated[
    str | None,
    typer.Option(help="Address of the service, such as http://127.0.0.1:8000.", metavar="URL", rich_help_panel=_PANEL),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        help="File with the platform key of the service.",
        metavar="FILE",
        show_default=KEY_VARIABLE,
        rich_help_panel=_PANEL,
    ),
]
TargetsOption = Annotated[
    int | None,
    typer.Option(
        help="Number of made-up people to create and attack.",
        show_default=f"{_TARGETS}; {_STOLEN_TARGETS} for each strategy with a stolen key or token",
        rich_help_panel=_PANEL,
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help="Attack this account of your own instead of made-up people.", metavar="ID", rich_help_panel=_PANEL
    ),
]
TruthOption = Annotated[
    str | None, typer.Option(help="True location of --target.", metavar="LAT,LON", rich_help_panel=_PANEL)
]
AskersOption = Annotated[
    int | None,
    typer.Option(
        help="Number of accounts that share the questions of an attack.", show_default="1", rich_help_panel=_PANEL
    ),
]
PlainHttpOption = Annotated[
    bool,
    typer.Option("--plain-http", help="Allow sending the key unencrypted to another machine.", rich_help_panel=_PANEL),
]

StolenKeyOption = Annotated[
    bool,
    typer.Option(
        "--stolen-key",
        help="Attack made-up people as somebody who has stolen the platform key: report guesses for them.",
        rich_help_panel=_PANEL,
    ),
]
StolenTokenOption = Annotated[
    bool,
    typer.Option(
        "--stolen-token",
        help="The same for somebody who has stolen the tokens of those people.",
        rich_help_panel=_PANEL,
    ),
]
StrategyOption = Annotated[
    list[Strategy] | None,
    typer.Option(
        help="How to guess with a stolen key or token; may be repeated.", show_default="all", rich_help_panel=_PANEL
    ),
]
WindowsOption = Annotated[
    int,
    typer.Option(
        help="Number of budget windows for which the strategies patient and revoke go on.",
        min=1,
        rich_help_panel=_PANEL,
    ),
]

_STOLEN_ONLY = {"strategy", "windows"}
_SERVICE_ONLY = {
    "key", "targets", "target", "truth", "askers", "plain_http", "stolen_key", "stolen_token", *_STOLEN_ONLY,
}  # fmt: skip
_WITH_ADAPTER = {"target", "truth"}
_WITH_SERVICE = {"url", "region", "name", "k", "colluders", "tau", "seed", "json", *_SERVICE_ONLY}
_WITH_STOLEN = {
    "url", "key", "targets", "tau", "seed", "json", "plain_http", "stolen_key", "stolen_token", *_STOLEN_ONLY,
}  # fmt: skip


def refuse_other_options(context: typer.Context, *, with_service: bool, with_stolen: bool) -> None:
    """Refuse options without effect: those of simulated services with --url, those of --url without it, and so on."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and with_service and name not in _WITH_SERVICE:
            raise UsageError(f"{parameter.opts[0]} is for simulated services, not for --url; leave it out")
        if given and not with_service and name in _SERVICE_ONLY:
            or_adapter = ", or --adapter" if name in _WITH_ADAPTER else ""
            raise UsageError(f"{parameter.opts[0]} needs --url, the address of a running service{or_adapter}")
        if given and with_service and with_stolen and name not in _WITH_STOLEN:
            raise UsageError(f"{parameter.opts[0]} has no effect on an attack with a stolen key or token; leave it out")
        if given and with_service and not with_stolen and name in _STOLEN_ONLY:
            raise UsageError(f"{parameter.opts[0]} needs --stolen-key or --stolen-token")
    if context.params.get("stolen_key") and context.params.get("stolen_token"):
        raise UsageError("the attacker has a stolen key or stolen tokens; give one of --stolen-key and --stolen-token")


def attack_service(
    *,
    url: str,
    key: str | None,
    region: str | None,
    names: Sequence[str],
    k: str,
    colluders: str,
    tau: str,
    targets: int | None,
    target: str | None,
    truth: str | None,
    askers: int | None,
    plain_http: bool,
    seed: int,
    json: bool,
) -> None:
    """Audit a running service and print the result."""
    lengths = numbers(k, "--k")
    if len(lengths) != 1:
        raise UsageError("with --url, --k takes one number")
    plan = AuditPlan(
        names=names,
        k=lengths[0],
        colluders=numbers(colluders, "--colluders"),
        askers=1 if askers is None else askers,
        targets=_TARGETS if targets is None else targets,
        tau_m=tau_of(tau),
        known_target=_known_target(target, truth, targets),
        seed=seed,
    )
    with Client(url, platform_key(key, os.environ), allow_plain_http=plain_http) as client:
        check_platform_key(client)
        audit = Audit(client, region_of(client, region), plan)
        with progress_bar("attacking the service", audit.attacks) as advance:
            found = audit.run(advance)
    _say(found, json=json)


def attack_with_stolen(
    *,
    url: str,
    key: str | None,
    stolen: Stolen,
    strategies: Sequence[Strategy],
    tau: str,
    targets: int | None,
    windows: int,
    plain_http: bool,
    seed: int,
    json: bool,
) -> None:
    """Audit a running service as somebody who has stolen its key, or people's tokens, and print the result."""
    plan = StolenPlan(
        stolen=stolen,
        strategies=tuple(dict.fromkeys(strategies)) or tuple(one for one in Strategy if one.works_with(stolen)),
        people=_STOLEN_TARGETS if targets is None else targets,
        windows=windows,
        tau_m=tau_of(tau),
        seed=seed,
    )
    with (
        Client(url, platform_key(key, os.environ), allow_plain_http=plain_http) as client,
        progress_bar(f"guessing with a stolen {stolen}", plan.steps) as advance,
    ):
        found = StolenKeyAudit(client, plan).run(advance)
    if json:
        say_json(found.document())
        return
    say(stolen_table(found))
    say("\n" + stolen_notes(found))


def platform_key(given: str | None, environ: Mapping[str, str]) -> str:
    """Return the platform key from a file or the environment. Errors never show it."""
    if given and given.startswith(_PLATFORM_PREFIX):
        raise UsageError(
            f"every user of this machine can see a key on the command line: give --key a file, or set {KEY_VARIABLE}, "
            "and replace this key"
        )
    text = _read_key(Path(given)) if given else environ.get(KEY_VARIABLE, "")
    if not text:
        raise UsageError(
            f"only a service of your own can be attacked: give its platform key with --key FILE or in {KEY_VARIABLE}"
        )
    if not text.startswith(_PLATFORM_PREFIX):
        raise UsageError(
            f"this is not a platform key, which begins with {_PLATFORM_PREFIX}; make one with 'nearveil keys platform'"
        )
    return text


def _read_key(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError("the file of --key cannot be read; name the file that holds the platform key") from None


def tau_of(text: str) -> float:
    """Read --tau."""
    tau_m = metres(text, "--tau")
    if tau_m < LEAST_TAU_M:
        raise UsageError("tau must be a distance of at least 1 m, such as 100m")
    return tau_m


def place_of_truth(truth: str) -> tuple[float, float]:
    """Read --truth."""
    try:
        latitude, longitude = (float(part) for part in truth.split(","))
    except ValueError:
        raise UsageError("--truth takes latitude and longitude in degrees, such as 37.77,-122.42") from None
    return latitude, longitude


def _known_target(target: str | None, truth: str | None, targets: int | None) -> KnownTarget | None:
    if (target is None) != (truth is None):
        raise UsageError("give --target and --truth together: an account of your own and its true location")
    if target is None or truth is None:
        return None
    if targets is not None:
        raise UsageError("--target attacks one account, --targets several made-up ones; give one of them")
    return KnownTarget(target, *place_of_truth(truth))


def _say(found: ServiceAudit, *, json: bool) -> None:
    if json:
        say_json(found.document())
        return
    say(audit_table(found))
    say("\n" + audit_notes(found))
    if found.protection == "off":
        warn("the protection of the service is off: it answers from true locations")


# Words of attacks with a stolen key or token.


_HEADERS = (
    "strategy", "people", "found from published", "95 % interval", "found with guesses", "95 % interval",
    "reports each", "epochs", "guesses tell",
)  # fmt: skip
_STRATEGY_NOTES = {
    Strategy.ANSWERS: "guesses within one epoch; reads answers, headers, exports, ledger and metrics",
    Strategy.PATIENT: "reports each guess until it counts, and compares what is published; phones are silent",
    Strategy.BESIDE_PHONES: "the same, while phones report in every epoch",
    Strategy.PHONES_RETURN: "moves people away while phones are silent, and sees after which guesses they come back",
    Strategy.REVOKE: "revokes people's tokens, so that a report needs no receipt, and is patient then",
    Strategy.RECREATE: "erases people, creates them anew and reports a guess as their first place",
}


def stolen_table(found: StolenAudit) -> str:
    """Return a table with one row per strategy."""
    return text_table(_HEADERS, [_cells(row) for row in found.rows])


def _cells(row: StrategyResult) -> list[str]:
    people = len(row.errors_before_m)
    shares = []
    for number in (row.found_before, row.found_after):
        low, high = row.interval(number)
        shares += [f"{number / people:.3f}", f"{low:.3f} to {high:.3f}"]
    return [
        str(row.strategy), str(people), *shares, f"{median(row.requests):g}", f"{row.epochs:,}",
        "yes" if row.tells else "no",
    ]  # fmt: skip


def stolen_notes(found: StolenAudit) -> str:
    """Say what was tried, what told people's places, and the verdict."""
    has = "a platform key" if found.stolen is Stolen.KEY else "each person's token"
    lines = [f"The attacker has {has}, reports guesses for made-up people, and looks at all that the service shows."]
    lines += [f"{row.strategy}: {_STRATEGY_NOTES[row.strategy]}." for row in found.rows]
    lines.append(
        f"found: within {found.tau_m:g} m of the true place, by the best guess from the published place alone, and "
        "with what the guesses told."
    )
    for row in found.rows:
        if row.found_by_window:
            shares = ", ".join(f"{number / len(row.errors_before_m):.3f}" for number in row.found_by_window)
            lines.append(f"{row.strategy}, found after each of {len(row.found_by_window)} budget windows: {shares}.")
    if found.asks_for_receipts:
        lines.append("The service takes a report only with the receipt of the person's last one, which phones have.")
    for row in found.rows:
        if row.refused:
            sent = sum(row.requests)
            share = f"all {sent:,}" if row.refused == sent else f"{row.refused:,} of {sent:,}"
            lines.append(f"{row.strategy}: {share} guesses were refused.")
    told = sorted({name for row in found.rows for name in row.told})
    if told:
        lines.append(f"Right and wrong guesses differ in: {', '.join(told)}.")
    rules, tells = found.rules, {row.strategy for row in found.rows if row.tells}
    if rules.returns_when_spent and Strategy.PATIENT in tells:
        lines.append("When the budget is spent, a known place still comes back, and nothing else does.")
    if rules.known_cells_attract and Strategy.PATIENT in tells:
        lines.append("A report beside a known cell counts as in it, unless the cell that it lies in is known too.")
    if Strategy.PHONES_RETURN in tells:
        lines.append(
            "A guess after the phone's report keeps a person from coming back, unless it is right. A service that asks "
            "for the receipt of the last report (--chained-reports always) prevents that."
        )
    if Strategy.RECREATE in tells:
        lines.append("Somebody who is created anew gets the same point for the same place.")
    lines.append(
        "Verdict: guesses find more people than the published places give."
        if found.tells
        else "Verdict: guesses find no more people than the published places give."
    )
    lines.append(f"All {found.accounts:,} accounts of the audit were removed.")
    return "\n".join(lines)
