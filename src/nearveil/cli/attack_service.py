"""``nearveil attack --url``: attack a running service of one's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._old_options import (
    numbers,
)
from nearveil.cli._output import progress_bar, say, say_json
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
from nearveil.errors import UsageError
from nearveil.evaluation.attack_experiment import LEAST_TAU_M
from nearveil.region import metres

KEY_VARIABLE = "NEARVEIL_PLATFORM_KEY"
_PLATFORM_PREFIX = "nvk_"
_TARGETS = 20
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
        show_default=str(_TARGETS),
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

_SERVICE_ONLY = {"key", "targets", "target", "truth", "askers", "plain_http"}
_WITH_ADAPTER = {"target", "truth"}
_WITH_SERVICE = {"url", "region", "name", "k", "colluders", "tau", "seed", "json", *_SERVICE_ONLY}


def refuse_other_options(context: typer.Context, *, with_service: bool) -> None:
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
