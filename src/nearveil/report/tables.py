"""Tables of attacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearveil.evaluation.attack_experiment import AttackRow
from nearveil.evaluation.best_attacker import AttackerScore, BestAttacker
from nearveil.evaluation.paper_numbers import paper_table1
from nearveil.evaluation.stats import Mean, Share
from nearveil.report.text_table import text_table

HEADERS = (
    "attack", "dataset", "k", "colluders", "Dist (m)", "Acc", "Cost (s)", "queries", "p95", "at least", "certified",
    "radius (m)", "others",
)  # fmt: skip
PAPER_TAU_M = 100.0
PAPER_HEADERS = ("paper: Dist (m)", "Acc", "Cost (s)")


def table_notes(*, tau_m: float, runs: int, instances: int) -> str:
    """Return what the columns mean."""
    over = f" (± half the 95 % interval over {runs} runs of {instances} attacks)" if runs > 1 else ""
    return (
        f"Dist: mean error{over}; Acc: share found within {tau_m:g} m, with a binomial 95 % interval.\n"
        "queries: questions per attack (p95: 95 % need no more); at least: what no attack can do without on average,\n"
        "even with everybody else's map, as an answer tells at most log2(k + 1) bits about the target; certified:\n"
        "share in which the answers leave no other place (where people are protected, for the published one);\n"
        "radius: mean distance within which the attack says that the service has the target, surely where certified,\n"
        "else in 95 % of cases; others: share of all other people in its lists who were found as well."
    )


def attack_cells(row: AttackRow) -> list[str]:
    """One row of the table."""
    score = row.score
    return [
        row.attack,
        row.dataset,
        str(row.k) if row.answers == "list" else "–",
        str(row.colluders) if row.answers == "list" else "–",
        _metres(score.dist_m),
        _share(score.acc),
        f"{score.cost_s.value:.3f}",
        _count(score.queries),
        f"{score.queries_p95:.0f}",
        "–" if score.at_least is None else f"{score.at_least:.1f}",
        f"{score.certified.value:.2f}" if row.attack == "adaptive" else "–",
        "–" if score.radius_m is None else f"{score.radius_m:.0f}",
        "–" if score.others_located is None else f"{score.others_located:.2f}",
    ]


def paper_cells(row: AttackRow) -> list[str]:
    """The paper's values for the same cell, where it has any."""
    cell = None if row.protected or row.answers != "list" else paper_table1().get((row.attack, row.dataset, row.k))
    return ["–"] * 3 if cell is None else [f"{cell.dist_m:.2f}", f"{cell.acc:.3f}", f"{cell.cost_s:.2f}"]


def with_paper(rows: Sequence[AttackRow], *, tau_m: float) -> tuple[list[str], list[list[str]]]:
    """Headers and cells, with the paper's columns where any row has a value there."""
    beside = tau_m == PAPER_TAU_M and any(paper_cells(row)[0] != "–" for row in rows)
    headers = [*HEADERS, *(PAPER_HEADERS if beside else ())]
    return headers, [[*attack_cells(row), *(paper_cells(row) if beside else ())] for row in rows]


def attack_document(
    row: AttackRow, best: BestAttacker | None, joint: BestAttacker | None = None, known_share: float = 0.0
) -> dict[str, Any]:
    """One row for machines."""
    score = row.score
    return {
        "attack": row.attack,
        "answers": row.answers,
        "dataset": row.dataset,
        "k": row.k if row.answers == "list" else None,
        "colluders": row.colluders,
        "runs": score.runs,
        "instances": score.instances,
        "dist_m": round(score.dist_m.value, 3),
        "acc": round(score.acc.value, 4),
        "cost_s": round(score.cost_s.value, 4),
        "queries": round(score.queries.value, 3),
        "queries_p95": round(score.queries_p95, 1),
        "protected": row.protected,
        "published_colluders": row.published_colluders,
        "certified": round(score.certified.value, 4),
        "false_certificates": score.false_certificates,
        "questions_at_least": _rounded(score.at_least),
        "acc_served": None if score.acc_served is None else round(score.acc_served.value, 4),
        "radius_m": _rounded(score.radius_m),
        "radius_held": _rounded(score.radius_held),
        "policy": row.policy or None,
        "others_located": _rounded(score.others_located),
        "interval_95": {
            **{
                name: _rounded(mean.half_width)
                for name, mean in (("dist_m", score.dist_m), ("cost_s", score.cost_s), ("queries", score.queries))
            },
            **{
                name: [_rounded(share.low), _rounded(share.high)]
                for name, share in (("acc", score.acc), ("certified", score.certified))
            },
        },
        "bayes_dist_m": None if best is None else _rounded(best.dist_m.value),
        "bayes_acc": None if best is None else _rounded(best.acc),
        "bayes": None if best is None else _best_document(best),
        "bayes_joint": None if joint is None else _best_document(joint),
        "known_share": known_share,
    }


def _best_document(best: BestAttacker) -> dict[str, Any]:
    return {**_score_document(best), "tenths_of_density": [_score_document(tenth) for tenth in best.tenths]}


def _score_document(score: AttackerScore) -> dict[str, Any]:
    shares = (("acc", score.found), ("named", score.named))
    return {
        "targets": score.targets,
        "dist_m": _rounded(score.dist_m.value),
        **{name: _rounded(share.value) for name, share in shares},
        "interval_95": {
            "dist_m": _rounded(score.dist_m.half_width),
            **{name: [_rounded(share.low), _rounded(share.high)] for name, share in shares},
        },
    }


def best_attacker_text(best: BestAttacker, tau_m: float) -> str:
    """Say what the Bayes attacker gets, and show it by tenths of density."""
    sparsest = best.named_sparsest
    said = (
        f"  wrong by {_metres(best.dist_m)} m on average, within {tau_m:g} m in {_percent(best.found)};\n"
        f"  names {_percent(best.named)} of people (its first guess is the right address)"
    )
    if sparsest is None:
        return f"{said}."
    rows = [
        [_TENTH_NAMES.get(tenth, str(tenth + 1)), _share(one.named), _share(one.found), _metres(one.dist_m)]
        for tenth, one in enumerate(best.tenths)
    ]
    table = text_table(["tenth of density", "named", f"within {tau_m:g} m", "mean error (m)"], rows)
    return f"{said},\n  and {_percent(sparsest)} of the sparsest tenth.\n\n{table}"


_TENTH_NAMES = {0: "1 (densest)", 9: "10 (sparsest)"}


def _percent(share: Share) -> str:
    return f"{share.value:.1%} (95 % interval {share.low:.1%} to {share.high:.1%})"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _metres(mean: Mean) -> str:
    return _with_interval(mean, ".1f" if mean.value < 100 else ",.0f")


def _share(share: Share) -> str:
    return f"{share.value:.3f} ({share.low:.3f}–{share.high:.3f})"


def _count(mean: Mean) -> str:
    return _with_interval(mean, ".1f")


def _with_interval(mean: Mean, form: str) -> str:
    value = format(mean.value, form)
    return value if mean.half_width is None else f"{value} ± {format(mean.half_width, form)}"
