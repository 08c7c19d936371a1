"""``nearveil attack`` on a service of your own: the agreed interface, over the code before."""

from __future__ import annotations

from pathlib import Path

from nearveil.cli.attack_adapter import attack_with_adapter
from nearveil.cli.attack_service import attack_service
from nearveil.errors import UsageError
from nearveil.evaluation.attack import AttackOutcome

_Location = tuple[float, float]


def attack_adapter(
    path: Path, *, truth: _Location | None, target: str | None, region: str | None, method: str | None, tau_m: float,
    seed: int, json: bool,
) -> tuple[AttackOutcome, str | None]:  # fmt: skip
    """Attack the test account behind an adapter."""
    return attack_with_adapter(
        path,
        answers=None,
        region=region,
        names=[method or "adaptive"],
        tau_m=tau_m,
        target=target,
        truth=truth,
        seed=seed,
        json=json,
    )


def attack_url(
    url: str, *, key: str | None, targets: int | None, truth: _Location | None, target: str | None, k: int,
    accounts: int, method: str | None, tau_m: float, seed: int, json: bool,
) -> None:  # fmt: skip
    """Attack a running service of Nearveil."""
    attack_service(
        url=url, key=key, region=None, names=[method or "adaptive"], k=[k], accounts=[accounts], tau_m=tau_m,
        targets=targets, target=target, truth=truth, seed=seed, json=json,
    )  # fmt: skip


def init_adapter(path: Path, *, force: bool) -> None:
    """Write an adapter to fill in."""
    raise UsageError(f"{path} cannot be written yet")
