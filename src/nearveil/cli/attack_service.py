"""``nearveil attack --url``: attack a running service of one's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

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

KEY_VARIABLE = "NEARVEIL_PLATFORM_KEY"
MADE_UP_TARGETS = 20
"""How many people are made up and attacked, unless another number is given."""
_PLATFORM_PREFIX = "nvk_"


def attack_service(
    *,
    url: str,
    key: str | None,
    region: str | None,
    names: Sequence[str],
    k: Sequence[int],
    accounts: Sequence[int],
    tau_m: float,
    targets: int | None,
    target: str | None,
    truth: tuple[float, float] | None,
    seed: int,
    json: bool,
) -> None:
    """Audit a running service and print the result."""
    if len(k) != 1:
        raise UsageError("with --url, --k takes one number")
    plan = AuditPlan(
        names=names,
        k=k[0],
        accounts=accounts,
        targets=MADE_UP_TARGETS if targets is None else targets,
        tau_m=tau_m,
        known_target=_known_target(target, truth, targets),
        seed=seed,
    )
    with Client(url, platform_key(key, os.environ)) as client:
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


def _known_target(target: str | None, truth: tuple[float, float] | None, targets: int | None) -> KnownTarget | None:
    if (target is None) != (truth is None):
        raise UsageError("give --target and --truth together: an account of your own and its true location")
    if target is None or truth is None:
        return None
    if targets is not None:
        raise UsageError("--target attacks one account, --targets several made-up ones; give one of them")
    return KnownTarget(target, *truth)


def _say(found: ServiceAudit, *, json: bool) -> None:
    if json:
        say_json(found.document())
        return
    say(audit_table(found))
    say("\n" + audit_notes(found))
