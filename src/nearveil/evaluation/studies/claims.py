"""A verdict for each claim of the paper, judged by intervals from rows of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.stats import Estimate, Mean, mean_over_runs, paired_difference, share_over_runs
from nearveil.evaluation.studies import ablation, figure8, figure9, figures4to7, table1, table3, theorems
from nearveil.evaluation.studies.figures4to7 import GAUSSIAN
from nearveil.evaluation.studies.protected import BASELINES
from nearveil.evaluation.study import differences

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced under any reading we tried"
DISPROVED, UNDECIDED, NOT_MEASURED = "disproved", "not decided by these runs", "not measured here"
REAL, GENERATED = ("brightkite", "gowalla"), ("gaussian", "beta")
LEVEL = 0.03
"""How far recall or ratio may be from the paper's, on average over epsilon, and count as its level."""

Runs = Mapping[str, pd.DataFrame]


class Found(NamedTuple):
    """What we have beside a claim: the number, the reading that it is of, and whether the claim holds; None is open."""

    ours: str
    holds: bool | None
    reading: str = ""


class Claim(NamedTuple):
    """What the paper says, its number, the part that measures it, and how it is judged."""

    part: str
    text: str
    paper: str
    judge: Callable[[pd.DataFrame], Found]
    refuted: str = NOT_REPRODUCED


def verdicts(runs: Runs) -> pd.DataFrame:
    """Return a row for each claim, also where its part was not run."""
    rows = []
    for claim in CLAIMS:
        found = claim.judge(runs[claim.part]) if claim.part in runs and len(runs[claim.part]) else None
        row = {"claim": claim.text, "paper": claim.paper, "ours": "", "reading": "", "verdict": NOT_MEASURED}
        if found is not None:
            row |= {"ours": found.ours, "reading": found.reading, "verdict": _verdict(found, claim.refuted)}
        rows.append(row)
    return pd.DataFrame(rows)


def _verdict(found: Found, refuted: str) -> str:
    if found.holds is None:
        return UNDECIDED
    if not found.holds:
        return refuted
    return f"{REPRODUCED} under reading: {found.reading}" if found.reading else REPRODUCED


def above(found: Estimate, bound: float) -> bool | None:
    """Whether an estimate is above a bound; None where its interval holds the bound, or there is none."""
    if found.low is None or found.high is None or found.low <= bound <= found.high:
        return None
    return found.low > bound


def below(found: Estimate, bound: float) -> bool | None:
    """Do the same for less."""
    over = above(found, bound)
    return None if over is None else not over


def every(parts: list[bool | None]) -> bool | None:
    """Whether all hold: one that does not decides, one that is open leaves it open."""
    if any(part is False for part in parts):
        return False
    return None if not parts or None in parts else True


def any_reading(by_reading: Mapping[str, tuple[str, bool | None]], default: str = "") -> Found:
    """Return the default reading where the claim holds, else the first in which it does, else the default again."""
    order = sorted(by_reading, key=lambda name: name != default)
    best = next((name for name in order if by_reading[name][1]), None)
    if best is not None:
        return Found(by_reading[best][0], True, "" if best == default else best)
    holds = None if any(holds is None for _, holds in by_reading.values()) else False
    return Found("; ".join(f"{name or 'ours'}: {by_reading[name][0]}" for name in order[:3]), holds)


def _span(values: Any, form: str = ".3f") -> str:
    low, high = min(values), max(values)
    return f"{low:{form}}" if f"{low:{form}}" == f"{high:{form}}" else f"{low:{form}} to {high:{form}}"


def _over_datasets(runs: pd.DataFrame, column: str) -> Mean:
    """Return the mean over runs of a column, averaged over data sets and settings first."""
    return mean_over_runs(runs.groupby("run")[column].mean().tolist())


# Table 1.


def _own(runs: pd.DataFrame, attack: str, source: str = "Nearveil") -> pd.DataFrame:
    return runs[(runs.attack == attack) & (runs.source == source)]


def _found_share(runs: pd.DataFrame) -> Estimate:
    per_run = runs.groupby("run").agg(hits=("acc", "mean"), cases=("instances", "sum"))
    cases = int(per_run.cases.iloc[0])
    return share_over_runs((per_run.hits * cases).tolist(), cases)


def _gi_above(runs: pd.DataFrame) -> Found:
    found = _found_share(_own(runs, "GI-LIA"))
    return Found(str(found), above(found, 0.95))


def _zo_above(runs: pd.DataFrame) -> Found:
    tuned, printed = (_found_share(_own(runs, *which)) for which in (("ZO-LIA",), (table1.PRINTED, "reference")))
    by_reading = {"": (str(tuned), above(tuned, 0.95)), "printed learning rate": (str(printed), above(printed, 0.95))}
    return any_reading(by_reading)


def _gi_error(runs: pd.DataFrame) -> Found:
    found = _over_datasets(_own(runs, "GI-LIA"), "dist_m")
    # Beyond the range on either side, by the whole interval.
    inside = every([above(found, 18.0), below(found, 52.0)])
    return Found(f"{found} m", inside)


def _more_accurate(runs: pd.DataFrame) -> Found:
    gi, zo = (_own(runs, attack).groupby("run")["acc"].mean() for attack in ("GI-LIA", "ZO-LIA"))
    gain = paired_difference(gi.tolist(), zo.tolist())
    return Found(f"Acc {gain} more", above(gain, 0.0))


def _half_the_cost(runs: pd.DataFrame) -> Found:
    ratios = {}
    for column in ("queries", "cost_s"):
        gi, zo = (_own(runs, attack).groupby("run")[column].mean() for attack in ("GI-LIA", "ZO-LIA"))
        ratios[column] = mean_over_runs((zo / gi).tolist())
    text = f"{ratios['queries']} times the queries, {ratios['cost_s']} times the seconds"
    return Found(text, below(ratios["queries"], 0.75))


# Table 3.


def _dprs(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    dprs = runs[(runs.mechanism == "DPRS") & (runs.reading != paper_numbers.AUTHORS)]
    return {str(reading): group for reading, group in dprs.groupby("reading", sort=False)}


def _grows_with_epsilon(runs: pd.DataFrame) -> Found:
    found = {}
    for reading, own in _dprs(runs).items():
        means = own.groupby(["epsilon", "run"])["recall"].mean().unstack("run")
        gain = paired_difference(means.loc[means.index.max()].tolist(), means.loc[means.index.min()].tolist())
        found[reading] = (f"{gain.value:+.3f} ± {gain.half_width or 0:.3f}", above(gain, 0.0))
    return any_reading(found, table3.NEARVEIL)


def _level(column: str, datasets: tuple[str, ...]) -> Callable[[pd.DataFrame], Found]:
    def judge(runs: pd.DataFrame) -> Found:
        found = {reading: _gap(own[own.dataset.isin(datasets)], column) for reading, own in _dprs(runs).items()}
        return any_reading({reading: gap for reading, gap in found.items() if gap is not None}, table3.NEARVEIL)

    return judge


def _gap(own: pd.DataFrame, column: str) -> tuple[str, bool | None] | None:
    settings = zip(own.dataset, own.epsilon, own.mechanism, strict=True)
    printed = [table3.printed(*setting, column) for setting in settings]
    if not len(own) or None in printed:
        return None
    gaps = (own[column] - printed).groupby([own["dataset"], own["run"]]).mean()
    by_dataset = [mean_over_runs(gaps[name].tolist()) for name in own["dataset"].unique()]
    near = every([every([above(gap, -LEVEL), below(gap, LEVEL)]) for gap in by_dataset])
    return f"{_over_datasets(own, column)}, {_span([gap.value for gap in by_dataset], '+.3f')} from the paper", near


def _rarely_found(runs: pd.DataFrame) -> Found:
    found = {}
    for reading, own in _dprs(runs).items():
        share = _found_share(own)
        found[reading] = (str(share), below(share, 0.03))
    return any_reading(found, table3.NEARVEIL)


def _as_a_whole(runs: pd.DataFrame) -> Found:
    judges = (_grows_with_epsilon, _level("recall", REAL), _level("ratio_pooled", REAL), _rarely_found)
    found = {}
    for reading in _dprs(runs):
        one = runs[(runs.reading == reading) & (runs.mechanism == "DPRS")]
        parts = [judge(one).holds for judge in judges]
        found[reading] = (f"{sum(part is True for part in parts)} of {len(parts)} hold", every(parts))
    return any_reading(found, table3.NEARVEIL)


def _beats_baselines(columns: tuple[str, ...]) -> Callable[[pd.DataFrame], Found]:
    def judge(runs: pd.DataFrame) -> Found:
        ours = runs[runs.reading == table3.NEARVEIL]
        gains = [
            gain
            for column in columns
            for other in BASELINES
            for gain in differences(ours, ["dataset", "epsilon"], column, of="mechanism", first="DPRS", second=other)[
                "difference"
            ]
        ]
        wins = [above(gain, 0.0) for gain in gains]
        return Found(f"{sum(win is True for win in wins)} of {len(wins)} comparisons", every(wins))

    return judge


def _baseline_levels(runs: pd.DataFrame) -> Found:
    ours = runs[(runs.reading == table3.NEARVEIL) & (runs.mechanism != "DPRS")]
    found = _over_datasets(ours, "recall")
    return Found(str(found), above(found, 0.33))


# Figures, ablation, theorems.


def _grows_with_k(runs: pd.DataFrame) -> Found:
    steps = list(figures4to7.steps_by_k(runs, "DPRS")["difference"])
    return Found(f"{_span([step.value for step in steps], '+.3f')} a step", every([above(step, 0.0) for step in steps]))


def _above_baselines(name: str) -> Callable[[pd.DataFrame], Found]:
    def judge(runs: pd.DataFrame) -> Found:
        margins = list(figures4to7.margins(runs, name)["difference"])
        text = f"{_span([margin.value for margin in margins], '+.3f')} more"
        return Found(text, every([above(margin, 0.0) for margin in margins]))

    return judge


def _grows(of: str) -> Callable[[pd.DataFrame], Found]:
    def judge(runs: pd.DataFrame) -> Found:
        ten = runs[runs.k == 10]
        means = ten.groupby([of, "run"])["recall"].mean().unstack("run")
        gain = paired_difference(means.loc[means.index.max()].tolist(), means.loc[means.index.min()].tolist())
        return Found(f"{gain.value:+.3f} ± {gain.half_width or 0:.3f}", above(gain, 0.0))

    return judge


def _fast(runs: pd.DataFrame) -> Found:
    slowest = figure8.PART.facts(runs)["slowest_ms"]
    return Found(f"at most {slowest:.3f} ms, compiled", bool(slowest < figure8.PAPER_MOST_MS))


def _faster(runs: pd.DataFrame) -> Found:
    facts = figure8.PART.facts(runs)
    return Found(f"{facts['least_ratio']:.1f} to {facts['most_ratio']:,.0f} times as long", facts["least_ratio"] > 1)


def _half_is_best(runs: pd.DataFrame) -> Found:
    found = figure9.against(runs)
    least = found[found.gamma == found.gamma.min()]
    worse = [
        every([below(row[1], 0.0), above(row[2], 0.0)])
        for row in found[["gamma", "recall", "distance MSE (km²)"]].itertuples(index=False)
    ]
    text = f"gamma = {found.gamma.min():g} has {_span([gain.value for gain in least['recall']], '+.3f')} recall"
    return Found(text, every(worse))


def _buys(variant: str) -> Callable[[pd.DataFrame], Found]:
    def judge(runs: pd.DataFrame) -> Found:
        found = {}
        for reading, own in runs.groupby("reading", sort=False):
            means = own.groupby(["variant", "run"])["recall"].mean().unstack("run")
            gain = paired_difference(means.loc[ablation.AS_PAPER].tolist(), means.loc[variant].tolist())
            found[str(reading)] = (f"{gain.value:+.3f} ± {gain.half_width or 0:.3f}", above(gain, 0.0))
        return any_reading(found, table3.REDRAWN)

    return judge


def _theorem(name: str) -> Callable[[pd.DataFrame], Found]:
    def judge(runs: pd.DataFrame) -> Found:
        own = runs[runs.what == name]
        row = own.iloc[0]
        if row.verdict == "holds":
            return Found(theorems.EXAMPLES[name].what, True)
        return Found(f"{row.claimed:.3g} claimed, {row.found:.3g} is the case", not (own.verdict == "violated").any())

    return judge


def _audited(runs: pd.DataFrame) -> Found:
    facts = theorems.PART.facts(runs)
    found = runs[runs.what == "theorem3"]["found"]
    return Found(
        f"violated in {facts['violated']} of {facts['audits']} audits, loss at least {_span(found, '.1f')}",
        False if facts["violated"] else None,
    )


CLAIMS = (
    Claim("table1", "GI-LIA finds more than 95 % of users within 100 m", "0.940 to 0.996", _gi_above),
    Claim("table1", "ZO-LIA finds more than 95 % of users within 100 m", "0.873 to 0.960", _zo_above),
    Claim("table1", "GI-LIA is more accurate than ZO-LIA", "Acc 0.053 more", _more_accurate),
    Claim("table1", "GI-LIA's mean error is 18 to 52 m", "18 to 52 m", _gi_error),
    Claim("table1", "ZO-LIA costs about half as much as GI-LIA", "0.49 to 0.57 times the seconds", _half_the_cost),
    Claim("table3", "Recall of DPRS grows with epsilon, from 0.5 to 5", "+0.028 to +0.060", _grows_with_epsilon),
    Claim("table3", "Recall of DPRS on the real data sets", "0.434 to 0.489", _level("recall", REAL)),
    Claim("table3", "Recall of DPRS on the generated data sets", "0.563 to 0.672", _level("recall", GENERATED)),
    Claim("table3", "Distance ratio of DPRS on the real data sets", "0.827 to 0.889", _level("ratio_pooled", REAL)),
    Claim("table3", "With DPRS, ZO-LIA finds less than 3 % of users", "0.008 to 0.022", _rarely_found),
    Claim("table3", "All of these in one reading, on the real data sets", "Table 3", _as_a_whole),
    Claim(
        "table3", "DPRS has more recall and a better ratio than SRR, Square and 2D Laplace", "in 96 of 96 comparisons",
        _beats_baselines(("recall", "ratio_pooled")),
    ),
    Claim("table3", "SRR, Square and 2D Laplace keep a recall of 0.33 or more", "0.331 to 0.649", _baseline_levels),
    Claim(
        "table3", "DPRS has a larger Dist than SRR, Square and 2D Laplace",
        "on average 0.541 against 0.520 to 0.536 km", _beats_baselines(("dist_km",)),
    ),
    Claim("figure4", "Recall of DPRS grows with k", "drawn", _grows_with_k),
    Claim("figure4", "DPRS is above the baselines at every k", "drawn", _above_baselines("DPRS")),
    Claim("figure5", "Recall grows with the number of centers, from 600 to 1,000", "drawn", _grows("centers")),
    Claim("figure6", "With Gaussian noise, recall grows with the number of centers", "drawn", _grows("centers")),
    Claim("figure6", "With Gaussian noise, recall grows with epsilon", "drawn", _grows("epsilon")),
    Claim("figure7", "DPRS with Gaussian noise is above the baselines at every k", "drawn", _above_baselines(GAUSSIAN)),
    Claim("figure8", "RSM takes less than 40 ms for 100 users", "less than 40 ms", _fast),
    Claim("figure8", "Noise and resample takes longer than RSM in every setting", "drawn", _faster),
    Claim("figure9", "gamma = 0.5 has the highest recall and the least error of distances", "drawn", _half_is_best),
    Claim("ablation", "RSM leaves better lists than a uniform point of the disc", "implied", _buys("uniform point")),
    Claim("ablation", "Private centers leave better lists than random ones", "implied", _buys("random centers")),
    *(
        Claim("theorems", f"{one.theorem}: {one.says}", "proved", _theorem(name), DISPROVED)
        for name, one in theorems.EXAMPLES.items()
    ),
    Claim("theorems", "Theorem 3: DPRS is (ε, δ)-differentially private", "proved", _audited, DISPROVED),
)  # fmt: skip
