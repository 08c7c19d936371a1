"""All experiments by name, in the order of the report, and the three main findings made from their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from nearveil.evaluation.experiments import (
    ablation,
    among,
    figure8,
    figure9,
    figures4to7,
    frontier,
    guarantee,
    releases,
    table1,
    table2,
    table3,
    year,
)
from nearveil.evaluation.experiments.ablation import pic_gains
from nearveil.evaluation.experiments.frontier import frontier_points
from nearveil.evaluation.experiments.guarantee import violated
from nearveil.evaluation.experiments.releases import interval_gains
from nearveil.evaluation.experiments.scope import Experiment, Results, Scope, span
from nearveil.evaluation.experiments.table1 import attack_rows, label
from nearveil.evaluation.experiments.table3 import measured
from nearveil.evaluation.results import KeyFinding

# Shares of ten percent and more need no decimals.
_COARSE = 0.1


def findings(scope: Scope, results: Results) -> tuple[KeyFinding, ...]:
    """Return what the attacks do, what DPRS does, and what its guarantee is worth."""
    return (_attacks(scope, results), _defence(scope, results), _guarantee(scope, results))


def _attacks(scope: Scope, results: Results) -> KeyFinding:
    rows = attack_rows(scope, results)
    found = {name: _percent([row.score.acc.value for row in rows if label(row) == name]) for name in map(label, rows)}
    asked = [row.score.queries.value for row in rows if label(row) == "adaptive, 4 accounts"]
    return KeyFinding(
        "A ranked list is enough to find a person.",
        "A service that shows no coordinates and no distances, only who is nearest, gives people away. Of the "
        f"paper's attacks, GI-LIA finds {found['GI-LIA']} of people within 100 m, ZO-LIA {found['ZO-LIA']}. Others "
        f"do better: with four accounts of its own, one finds {found['adaptive, 4 accounts']} with "
        f"{span(asked, '.1f')} questions on average, and one that has no account at all finds {found['unfolding']}.",
        (table1.NAME,),
    )


def _defence(scope: Scope, results: Results) -> KeyFinding:
    rows = [row for row in measured(scope, results) if row.defence.region == "paper" and row.defence.label == "DPRS"]
    recall, users = (_percent([getattr(row, of).value for row in rows]) for of in ("recall", "users_recall"))
    worst = _percent([max(row.attack["exact"].score.acc.value for row in rows)])
    papers = _percent([row.paper.recall for row in rows if row.paper])
    gains = [100 * gain.value for gain in pic_gains(scope, results, "users recall@10").values()]
    bayes = [
        one.acc.value
        for one in frontier_points(scope, results)
        if one.family.label == "paper, private k-means" and (one.defence.epsilon or 0) <= max(scope.epsilons)
    ]
    return KeyFinding(
        f"With DPRS, ZO-LIA finds at most {worst} of people; lists keep {users} of those who are near.",
        f"With DPRS, the paper's defence, and accounts that are known exactly, ZO-LIA finds at most {worst} of people "
        "within 100 m and is wrong by "
        f"{span([row.dist_km('exact').value for row in rows], '.2f')} km. Asked from anywhere in the region, lists "
        f"keep {recall} of the true ten nearest (the paper: {papers}); asked from where people are, {users}. Private "
        f"centres in place of random ones, which use no data at all, change that by {min(gains):+.1f} to "
        f"{max(gains):+.1f} percentage points. An attacker who knows the mechanism and where people live finds "
        f"{_percent(bayes)} within 100 m.",
        (table3.NAME, ablation.NAME, frontier.NAME),
    )


def _guarantee(scope: Scope, results: Results) -> KeyFinding:
    broken, audits, own_broken, own_audits = violated(scope, results)
    gains = [gain for line in interval_gains(scope, results).values() for gain in line]
    verdict = "does not hold" if broken else "was not refuted here"
    return KeyFinding(
        f"The paper's guarantee {verdict}{'; a sound release keeps more' if min(gains) > 0 else ''}.",
        "DPRS moves everybody into the disc of the nearest centre, and so tells which disc that is. No epsilon holds "
        f"between two places in different discs: an audit breaks the paper's claim in {broken} of {audits} cases, and "
        f"the claims of our sound releases in {own_broken} of {own_audits}. With the same intervals and budget, the "
        f"sound release 'interval' changes recall@10 by {100 * min(gains):+.0f} to {100 * max(gains):+.0f} %. It still "
        "discloses the disc; planar Laplace noise and the release 'metric' hold between all places. Epsilon means "
        "something else for every mechanism, so the frontier compares them by what the best attacker still learns.",
        (guarantee.NAME, releases.NAME, frontier.NAME),
    )


def _percent(shares: Sequence[float]) -> str:
    if not shares:
        return "nothing"
    digits = ".0f" if min(shares) >= _COARSE else ".1f"
    return f"{span([100 * share for share in shares], digits)} %"


# Everything that can be reproduced, by name and in the order of the report.


_IN_ORDER = (
    *(
        Experiment(module.NAME, module.TITLE, module.cells, module.outcome)
        for module in (table1, table2, table3, guarantee, ablation, frontier)
    ),
    Experiment(among.NAME, among.TITLE, among.cells, among.outcome, among.generated_populations),
    Experiment(year.NAME, year.TITLE, year.cells, year.outcome, year.generated_populations),
    Experiment(releases.NAME, releases.TITLE, releases.cells, releases.outcome),
    *(sweep.experiment() for sweep in figures4to7.SWEEPS),
    *(Experiment(module.NAME, module.TITLE, module.cells, module.outcome) for module in (figure8, figure9)),
)

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _IN_ORDER}
