"""Rows for people and for machines say the same, the paper's values beside them."""

from dataclasses import replace

from nearveil.evaluation.attack_experiment import AttackRow, AttackScore
from nearveil.evaluation.stats import Mean, Share
from nearveil.evaluation.tradeoff import BestAttacker
from nearveil.report.tables import attack_document, best_attacker_text, with_paper


def row(attack: str, *, accounts: int = 1, protected: bool = False) -> AttackRow:
    acc, always = Share(0.996, 0.978, 0.9999), Share(1.0, 0.985, 1.0)
    score = AttackScore(
        runs=5, instances=50, dist_m=Mean(12.34, 1.2), acc=acc, cost_s=Mean(0.2, 0.01), queries=Mean(8.1, 0.3),
        queries_p95=13.0, certified=always, false_certificates=0, acc_served=always,
    )  # fmt: skip
    return AttackRow(attack, "beta", 30, accounts, protected, score)


def test_the_papers_values_stand_beside_ours_for_100_m() -> None:
    headers, cells = with_paper([row("gi-lia"), row("adaptive")], tau_m=100.0)
    assert headers[-3:] == ["paper: Dist (m)", "Acc", "Cost (s)"]
    assert [line[-3:] for line in cells] == [["41.67", "0.948", "45.07"], ["–", "–", "–"]]
    assert cells[0][4:8] == ["12.3 ± 1.2", "0.996 (0.978–1.000)", "0.200", "8.1 ± 0.3"]
    assert [line[9] for line in cells] == ["–", "1.00"]
    assert len(with_paper([row("gi-lia")], tau_m=10.0)[0]) == len(headers) - 3


def test_rows_for_machines_and_the_best_attacker() -> None:
    named, sparsest = Share(0.05, 0.04, 0.06), Share(0.4, 0.3, 0.5)
    best = BestAttacker(Mean(300.0, 12.0), Share(0.2, 0.15, 0.26), named, sparsest, 200)
    document = attack_document(row("unfolding", accounts=0, protected=True), best)
    wanted = {
        "attack": "unfolding", "dataset": "beta", "k": 30, "accounts": 0, "runs": 5, "instances": 50,
        "dist_m": 12.34, "acc": 0.996, "cost_s": 0.2, "queries": 8.1, "queries_p95": 13.0, "protected": True,
        "bayes_dist_m": 300.0, "bayes_acc": 0.2,
        "interval_95": {
            "dist_m": 1.2, "cost_s": 0.01, "queries": 0.3, "acc": [0.978, 0.9999], "certified": [0.985, 1.0]
        },
    }  # fmt: skip
    assert document.items() >= wanted.items()
    assert (document["bayes"]["named"], document["bayes"]["named_sparsest"]) == (0.05, 0.4)
    assert document["bayes"]["interval_95"]["named_sparsest"] == [0.3, 0.5]
    text = best_attacker_text(best, 100.0)
    assert "names 5.0% (95 % interval 4.0% to 6.0%) of people" in text
    assert "and 40.0% (95 % interval 30.0% to 50.0%) of the tenth who live where people are sparsest" in text
    assert "sparsest" not in best_attacker_text(replace(best, named_sparsest=None), 100.0)
