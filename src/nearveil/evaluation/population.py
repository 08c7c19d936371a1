"""Attack some users of a simulated service with several attacks, and measure what its protection changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nearveil.attacks.base import AttackResult
from nearveil.errors import UsageError
from nearveil.evaluation.attack import AttackOutcome, outcome_of
from nearveil.evaluation.attack_experiment import AttackSetup, Instance, compare, run_attacks, set_up_attacks
from nearveil.evaluation.simulation import Simulation
from nearveil.evaluation.stats import Estimate, Mean, Share, mean_over_runs, percent, share_over_runs
from nearveil.html_card import html_card, html_table
from nearveil.types import FloatArray, ProgressBar, no_bar

FROM_TRUE_LOCATIONS = "Computed from true locations; do not publish."
# Starting other processes takes as long as so many attacks.
_FEW_ATTACKS = 40


@dataclass(frozen=True, slots=True)
class AttackRow:
    """How one attack did: on how many users, the share found within tau, and means with 95 % intervals over users.

    ``certified`` counts certificates, and ``published_found`` the users found where the service has them.
    """

    attack: str
    accounts: int
    users: int
    found: Share
    error_m: Mean
    queries: Mean
    certified: int
    published_found: int
    false_certificates: int

    @property
    def hits(self) -> int:
        """The number of users found."""
        return round(self.found.value * self.users)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PopulationAttack:
    """How attacks did on users of a service: a row for each attack, and what `Simulation.protection` measures."""

    rows: list[AttackRow]
    protection: dict[str, Estimate] | None
    simulation: Simulation
    attack_setups: list[AttackSetup]
    results: list[list[AttackResult]]
    instances: tuple[Instance, ...]
    tau_m: float

    @property
    def sentences(self) -> list[str]:
        """The result: what the most successful attack found, and where users are protected what the best one finds."""
        best, within = max(self.rows, key=lambda row: (row.hits, -row.queries.value)), f"within {self.tau_m:g} m"
        found = [f"{best.hits} of {best.users} users found {within}, {best.queries.value:.0f} queries each."]
        if self.protection is not None:
            k = self.simulation.k if self.simulation.service.answers.is_list else None
            found += protection_sentences(self.protection, tau_m=self.tau_m, k=k)
        return found + [note for note in [self.simulation.area.note] if note]

    @property
    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headers and cells: where users are protected, the last column is about their published locations."""
        protected = self.simulation.is_protected
        headers = [
            "attack",
            "found",
            "mean error (m)",
            "queries",
            "published location found" if protected else "certified",
        ]
        accounts = {0: "", 1: ", 1 account"}
        cells = [
            [
                row.attack + accounts.get(row.accounts, f", {row.accounts} accounts"),
                f"{row.hits} of {row.users}", f"{row.error_m.value:,.0f}", f"{row.queries.value:.1f}",
                f"{row.published_found if protected else row.certified} of {row.users}",
            ]
            for row in self.rows
        ]  # fmt: skip
        if self.protection is not None:
            share, error_m = self.protection["found"], self.protection["error_m"]
            within = f"{percent(share.value)} ({percent(share.low or 0.0)} to {percent(share.high or 0.0)})"
            cells.append(["best guess from one published location", within, f"{error_m.value:,.0f}", "–", "–"])
        return headers, cells

    def __repr__(self) -> str:
        return f"PopulationAttack({self.sentences[0]})"

    def _repr_html_(self) -> str:
        """Return the result for a notebook."""
        notes = [*self.sentences, FROM_TRUE_LOCATIONS]
        return html_card(f"Attack on {self.simulation.name}", [], notes=notes, more=[html_table(*self.table)])

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values for JSON; shares and means with their intervals."""
        service, protection = self.simulation.service, self.protection
        return {
            "sentence": self.sentences[0], "name": self.simulation.name, "users": len(self.simulation.places),
            "area": self.simulation.area.note or None, "answers": str(service.answers),
            "k": self.simulation.k if service.answers.is_list else None, "policy": str(service.policy) or None,
            "tau_m": self.tau_m, "protected": self.simulation.is_protected,
            "attacks": [asdict(row) for row in self.rows],
            "protection": None if protection is None else {name: asdict(one) for name, one in protection.items()},
        }  # fmt: skip

    def offsets_m(self) -> list[FloatArray]:
        """Return how far east and north of its user each estimate is, or else the start; for every attack."""
        true_m = self.simulation.true_m[[one.target for one in self.instances]]
        pairs = [zip(results, self.instances, strict=True) for results in self.results]
        return [
            np.array([one.start if found.estimate is None else found.estimate for found, one in each]) - true_m
            for each in pairs
        ]

    def example(self) -> AttackOutcome:
        """Repeat the first attack, by the adaptive attacker if it took part, with all that can be drawn of it."""
        chosen = next((one for one in self.attack_setups if one.attack.name == "adaptive"), self.attack_setups[0])
        first = self.instances[0]
        (result,) = self.simulation.service.attack(chosen, self.simulation.k, [first])
        return outcome_of(self.simulation, first, result, self.tau_m)


def protection_sentences(measured: Mapping[str, Estimate], *, tau_m: float, k: int | None) -> list[str]:
    """Say how exposed users still are, and what that costs lists of k if the service has lists."""
    found, named, listed_m, nearest_m = (
        measured[name].value for name in ("found", "named_sparsest", "listed_m", "nearest_m")
    )
    best = (
        f"The best attacker, who knows the noise and every address, finds {percent(found)} within {tau_m:g} m, and "
        f"names {percent(named)} of the sparsest tenth."
    )
    cost = f"The {k} users listed are on average {listed_m:,.0f} m away instead of {nearest_m:,.0f} m."
    return [best] + [cost] * (k is not None)


def attack_population(
    simulation: Simulation, *, attacks: Sequence[str] = ("adaptive",), users: int = 5, target: int | None = None,
    accounts: int = 4, tau_m: float = 100.0, progress: ProgressBar = no_bar,
) -> PopulationAttack:  # fmt: skip
    """Attack some users of a simulated service, each attack the same ones, as ``nearveil attack`` does.

    Parameters
    ----------
    attacks : sequence of str
        Names as in `attack`.
    users : int
        How many users to attack, drawn at random: each the k-th in the list at a location near a random user.
    target : int, optional
        Attack the user of this row alone.
    accounts, tau_m
        As in `attack`.

    Examples
    --------
    >>> import numpy as np
    >>> import nearveil as nv
    >>> points = np.random.default_rng(1).normal([37.75, -122.44], 0.02, (500, 2))
    >>> found = nv.attack_population(nv.simulate(points), attacks=["gi-lia"], users=3)
    >>> found.rows[0].attack, found.rows[0].found.value
    ('gi-lia', 1.0)
    """
    service, k = simulation.service, simulation.k
    if users < 1:
        raise UsageError("there must be at least one user to attack, such as users=5")
    setups = set_up_attacks(attacks, service.region, accounts=[accounts], tau_m=tau_m, answers=service.answers)
    number = None if target is None else simulation.number_of(target)
    instances = simulation.instances(users, number)
    attempts = len(setups) * len(instances)
    with progress("attacking", attempts) as advance:
        cores = (os.cpu_count() or 1) if attempts > _FEW_ATTACKS else 1
        found = run_attacks([(service, one, k, instances) for one in setups], cores=cores, progress=advance)
    rows = [_row(simulation, *each, instances, tau_m) for each in zip(setups, found, strict=True)]
    return PopulationAttack(
        rows=rows, protection=simulation.protection(tau_m, progress), simulation=simulation, attack_setups=setups,
        results=found, instances=instances, tau_m=tau_m,
    )  # fmt: skip


def _row(
    simulation: Simulation, setup: AttackSetup, results: Sequence[AttackResult], instances: Sequence[Instance],
    tau_m: float,
) -> AttackRow:  # fmt: skip
    pairs = zip(results, instances, strict=True)
    attempts = [compare(*one, simulation.service, true_m=simulation.true_m) for one in pairs]
    error_m, served_m, queries, _, certified = np.array(attempts, dtype=np.float64).T
    return AttackRow(
        attack=setup.attack.name, accounts=setup.accounts, users=len(attempts),
        found=share_over_runs([float((error_m <= tau_m).sum())], len(attempts)),
        error_m=mean_over_runs(error_m.tolist()), queries=mean_over_runs(queries.tolist()),
        certified=int(certified.sum()), published_found=int((served_m <= tau_m).sum()),
        false_certificates=int(((certified > 0) & (served_m > tau_m)).sum()),
    )  # fmt: skip
