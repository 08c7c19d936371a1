"""Verdicts on the paper's claims: what intervals say, and nothing more."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.stats import Mean
from nearveil.evaluation.studies import ablation, claims, table1, table3, theorems
from nearveil.evaluation.studies.claims import (
    DISPROVED,
    NOT_MEASURED,
    NOT_REPRODUCED,
    OWN_DEFINITIONS,
    REPRODUCED,
    UNDECIDED,
    UNDER_READING,
    above,
    any_reading,
    below,
    every,
    verdicts,
)
from nearveil.evaluation.studies.protected import BASELINES

RUNS = range(5)
# Five runs that differ a little, so that means have intervals.
JITTER = (-0.002, -0.001, 0.0, 0.001, 0.002)


def verdict_on(text: str, **runs: list[dict[str, Any]]) -> tuple[str, str]:
    if "table3" in runs and all(row["mechanism"] == "DPRS" for row in runs["table3"]):
        runs["table3"] = [*runs["table3"], *weaker(runs["table3"])]
    frames = {name: pd.DataFrame(rows) for name, rows in runs.items()}
    found = verdicts(frames).set_index("claim")
    [claim] = [one for one in found.index if one.startswith(text)]
    return found.verdict[claim], found.reading[claim]


def weaker(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Baselines that keep less of lists than DPRS, and hide users better."""
    return [
        row | {"mechanism": name, "recall": row["recall"] - 0.1 + JITTER[-row["run"]], "ratio_pooled": 0.1,
               "dist_km": 9.0 + JITTER[row["run"]]}
        for row in rows for name in BASELINES if row["reading"] == table3.NEARVEIL
    ]  # fmt: skip


def attack_rows(acc: float = 0.99, dist_m: float = 30.0, queries: float = 45.0, **changes: Any) -> list[dict[str, Any]]:
    ours = {"source": "Nearveil", "attack": "GI-LIA", "dataset": "beta", "k": 10, "instances": 50, "cost_s": 1.0}
    return [
        ours | {"run": run, "acc": acc, "dist_m": dist_m + JITTER[run], "queries": queries} | changes for run in RUNS
    ]


def paper_attack_rows(printed_acc: float = 0.8, rough_m: float = 30.0, **changes: Any) -> list[dict[str, Any]]:
    return [
        *attack_rows(**changes),
        *attack_rows(attack="ZO-LIA", acc=0.9, queries=61.0),
        *attack_rows(attack=table1.PRINTED, acc=printed_acc, source="reference"),
        *attack_rows(attack=table1.ROUGH, dist_m=rough_m, source="reference"),
    ]


def dprs_rows(
    reading: str = table3.NEARVEIL, gain: float = 0.05, factor: float = 1.0, acc: float = 0.01,
    datasets: Sequence[str] = ("brightkite", "gowalla"),
) -> list[dict[str, Any]]:  # fmt: skip
    """Rows whose recall and ratio are the paper's times a factor, and grow by a gain."""
    rows = []
    for dataset in datasets:
        for epsilon in (0.5, 5.0):
            tilt = gain / 2 * (1 if epsilon > 1 else -1)
            recall, ratio = (
                factor * sum(table3.printed(dataset, e, "DPRS", column) or 0.0 for e in (0.5, 5.0)) / 2
                for column in ("recall", "ratio_pooled")
            )
            rows += [
                {"dataset": dataset, "epsilon": epsilon, "mechanism": "DPRS", "reading": reading, "run": run,
                 "recall": recall + tilt + JITTER[run], "ratio_pooled": ratio + JITTER[run], "acc": acc,
                 "dist_km": 0.5, "instances": 50}
                for run in RUNS
            ]  # fmt: skip
    return rows


def test_an_interval_decides_or_leaves_open() -> None:
    assert [above(Mean(value, 0.1), 0.5) for value in (0.7, 0.55, 0.3)] == [True, None, False]
    assert [below(Mean(value, 0.1), 0.5) for value in (0.7, 0.55, 0.3)] == [False, None, True]
    assert above(Mean(0.9, None), 0.5) is None
    assert [every(parts) for parts in ([True, True], [True, None], [None, False], [])] == [True, None, False, None]


def test_a_claim_holds_in_the_default_reading_or_in_those_that_are_named() -> None:
    assert any_reading({"a": ("1", True), "b": ("2", True)}, "a").reading == ""
    other = any_reading({"a": ("1", False), "b": ("2", True), "c": ("3", True)}, "a")
    assert (other.holds, other.reading, other.ours) == (True, "b; c", "2; 3")
    assert any_reading({"a": ("1", False), "b": ("2", False)}, "a").holds is False
    assert any_reading({"a": ("1", False), "b": ("2", None)}, "a").holds is None


def test_without_runs_nothing_is_judged() -> None:
    found = verdicts({})
    assert list(found.columns) == ["claim", "paper", "ours", "reading", "verdict"]
    assert set(found.verdict) == {NOT_MEASURED}
    assert len(found) == len(claims.CLAIMS) > 30
    only = verdicts({"table1": pd.DataFrame(paper_attack_rows())})
    assert (only.verdict != NOT_MEASURED).sum() == 5


def test_attacks() -> None:
    assert verdict_on("GI-LIA finds more than 95 %", table1=paper_attack_rows()) == (REPRODUCED, "")
    assert verdict_on("GI-LIA finds more than 95 %", table1=paper_attack_rows(acc=0.95))[0] == UNDECIDED
    for factor in (0.7, 0.9):
        rows = paper_attack_rows(acc=factor * 0.97)
        assert verdict_on("GI-LIA finds more than 95 %", table1=rows)[0] == NOT_REPRODUCED
    assert verdict_on("ZO-LIA finds more than 95 %", table1=paper_attack_rows())[0] == NOT_REPRODUCED
    printed = verdict_on("ZO-LIA finds more than 95 %", table1=paper_attack_rows(printed_acc=0.99))
    assert printed == (UNDER_READING, "printed learning rate")


@pytest.mark.parametrize(
    ("dist_m", "rough_m", "verdict"), [(30, 1, REPRODUCED), (2, 30, UNDER_READING), (2, 90, NOT_REPRODUCED)]
)
def test_the_error_of_gi_lia(dist_m: float, rough_m: float, verdict: str) -> None:
    rows = paper_attack_rows(dist_m=dist_m, rough_m=rough_m)
    assert verdict_on("GI-LIA's mean error", table1=rows)[0] == verdict


def test_the_order_of_costs_is_judged_by_queries() -> None:
    assert verdict_on("ZO-LIA costs", table1=paper_attack_rows())[0] == NOT_REPRODUCED
    assert verdict_on("ZO-LIA costs", table1=paper_attack_rows(queries=120.0))[0] == REPRODUCED


def test_levels_hold_at_the_papers_scale_and_not_at_others() -> None:
    """Recall and ratio within 0.03 of the paper's; 0.7 and 1.3 times it are not."""
    for text in ("Level of DPRS's recall on the real", "Level of DPRS's distance ratio"):
        assert verdict_on(text, table3=dprs_rows())[0] == REPRODUCED
        for factor in (0.7, 1.3):
            assert verdict_on(text, table3=dprs_rows(factor=factor))[0] == NOT_REPRODUCED
        other = verdict_on(text, table3=[*dprs_rows(factor=0.7), *dprs_rows("kept")])
        assert other == (UNDER_READING, "kept")
    # Users of one's own have no numbers in the paper.
    own = [row | {"dataset": "people"} for row in dprs_rows()]
    assert verdict_on("Level of DPRS's recall on the real", table3=own)[0] == UNDECIDED


def test_growth_with_epsilon_is_more_than_anybody_would_overlook() -> None:
    text = "Recall of DPRS grows with epsilon"
    assert verdict_on(text, table3=dprs_rows())[0] == REPRODUCED
    for gain in (0.0, 0.005, -0.05):
        assert verdict_on(text, table3=dprs_rows(gain=gain))[0] == NOT_REPRODUCED


def test_table_3_needs_all_in_one_reading() -> None:
    text = "These four in one reading"
    assert verdict_on(text, table3=dprs_rows())[0] == REPRODUCED
    halves = [*dprs_rows(gain=0.0), *dprs_rows("kept", acc=0.2)]
    assert verdict_on(text, table3=halves) == (NOT_REPRODUCED, "2 tried")
    assert verdict_on("Recall of DPRS grows with epsilon", table3=halves) == (UNDER_READING, "kept")
    assert verdict_on("With DPRS, ZO-LIA finds less than 3 %", table3=halves) == (REPRODUCED, "")


def test_what_the_authors_code_gave_is_no_reading_of_ours() -> None:
    rows = [*dprs_rows(gain=0.0), *dprs_rows(paper_numbers.AUTHORS)]
    assert verdict_on("Recall of DPRS grows with epsilon", table3=rows)[0] == NOT_REPRODUCED


def test_baselines() -> None:
    rows = dprs_rows()
    assert verdict_on("DPRS has more recall", table3=rows) == (UNDER_READING, OWN_DEFINITIONS)
    assert verdict_on("DPRS has a larger Dist", table3=rows)[0] == NOT_REPRODUCED
    assert verdict_on("SRR, Square and 2D Laplace keep", table3=rows)[0] == UNDER_READING
    stronger = [row | {"recall": row["recall"] + 0.3} for row in weaker(rows)]
    assert verdict_on("DPRS has more recall", table3=[*rows, *stronger])[0] == NOT_REPRODUCED


def test_gamma_is_compared_in_pairs() -> None:
    def rows(gain: float) -> list[dict[str, Any]]:
        # Runs differ far more than gammas do.
        values = ((0.2, gain), (0.5, 0.0), (0.8, -0.02))
        return [
            {"dataset": "beta", "gamma": gamma, "run": run, "recall": 0.1 * run + more + JITTER[run] * gamma / 100,
             "mse_km2": 0.1 * run - more + JITTER[run] * gamma / 100}
            for gamma, more in values for run in RUNS
        ]  # fmt: skip

    assert verdict_on("gamma = 0.5", figure9=rows(-0.01))[0] == REPRODUCED
    assert verdict_on("gamma = 0.5", figure9=rows(0.01))[0] == NOT_REPRODUCED


def test_a_part_that_brings_next_to_nothing_is_not_needed() -> None:
    def rows(brings: float) -> list[dict[str, Any]]:
        return [
            {"dataset": "beta", "reading": reading, "variant": variant, "run": run,
             "recall": 0.4 + JITTER[run] * (variant == ablation.AS_PAPER) + brings * (variant == ablation.AS_PAPER)}
            for reading in (table3.REDRAWN, "kept") for variant in ablation.VARIANTS for run in RUNS
        ]  # fmt: skip

    for text in ("RSM leaves", "Private centers leave"):
        assert verdict_on(text, ablation=rows(0.02))[0] == REPRODUCED
        assert verdict_on(text, ablation=rows(0.004))[0] == NOT_REPRODUCED


def test_only_theorems_are_disproved() -> None:
    rows: list[dict[str, Any]] = [
        {"dataset": "nobody", "what": name, "claimed": 1.0, "found": 2.0, "verdict": "violated"}
        for name, one in theorems.EXAMPLES.items() if one.shown
    ]  # fmt: skip
    rows += [{"dataset": "nobody", "what": name, "verdict": "holds"} for name in ("theorem1", "theorem4")]
    audit = {"dataset": "beta", "what": theorems.AUDITED, "claimed": 1.0, "found": 7.0}
    violated = [*rows, audit | {"verdict": "violated"}]
    assert verdict_on("Theorem 2", theorems=violated)[0] == DISPROVED
    assert verdict_on("Theorem 3", theorems=violated)[0] == DISPROVED
    assert verdict_on("Theorem 1:", theorems=violated)[0] == UNDER_READING
    # An audit that finds nothing proves nothing.
    assert verdict_on("Theorem 3", theorems=[*rows, audit | {"verdict": "consistent"}])[0] == UNDECIDED
    refuted = {claim.refuted for claim in claims.CLAIMS if claim.part != "theorems"}
    assert refuted == {NOT_REPRODUCED}
