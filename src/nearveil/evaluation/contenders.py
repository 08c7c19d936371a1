"""The attacks by name, each with as many accounts as it uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearveil.attacks.adaptive import Adaptive
from nearveil.attacks.base import Attack
from nearveil.attacks.gi_lia import GILIA
from nearveil.attacks.sandwich import Sandwich
from nearveil.attacks.unfolding import Unfolding
from nearveil.attacks.zo_lia import ZOLIA
from nearveil.errors import UsageError
from nearveil.region import Region

ATTACK_NAMES = ("gi-lia", "zo-lia", "sandwich", "adaptive", "unfolding")
MOST_COLLUDERS = 32


@dataclass(frozen=True, slots=True)
class Contender:
    """An attack and the number of accounts it is given."""

    attack: Attack
    colluders: int


def contenders(names: Sequence[str], region: Region, *, colluders: Sequence[int], tau_m: float) -> list[Contender]:
    """Return attacks for a region: the adaptive one once for each number of accounts, the others with their own."""
    for count in colluders:
        if not 1 <= count <= MOST_COLLUDERS:
            raise UsageError(f"the adaptive attack takes 1 to {MOST_COLLUDERS} colluders; unfolding needs none")
    farthest_m, half_extent_m = 2 * region.radius_m, region.half_extent_m
    found: list[Contender] = []
    for name in names:
        if name == "gi-lia":
            found.append(Contender(GILIA(farthest_m=farthest_m), 1))
        elif name == "zo-lia":
            found.append(Contender(ZOLIA(farthest_m=farthest_m), 1))
        elif name == "sandwich":
            found.append(Contender(Sandwich(farthest_m=farthest_m), 2))
        elif name == "unfolding":
            found.append(Contender(Unfolding(half_extent_m=half_extent_m, tau_m=tau_m), 0))
        elif name == "adaptive":
            found += [
                Contender(Adaptive(half_extent_m=half_extent_m, tau_m=tau_m, colluders=count), count)
                for count in colluders
            ]
        else:
            raise UsageError(f"there is no attack {name!r}; use one of {', '.join(ATTACK_NAMES)}")
    return found
