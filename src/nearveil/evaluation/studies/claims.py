"""A verdict for each claim of the paper, judged by intervals from rows of runs, in every reading that was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.stats import Estimate, Mean, mean_over_runs, paired_difference, share_over_runs
from nearveil.evaluation.studies import figures, table1, table3
from nearveil.evaluation.studies.protected import BASELINES, GAUSSIAN, NEARVEIL, REDRAWN
from nearveil.evaluation.studies.theorems import AUDITED, EXAMPLES
from nearveil.evaluation.study import differences

REPRODUCED, UNDER_READING = "reproduced", "reproduced under this reading"
NOT_REPRODUCED = "not reproduced under any reading we tried"
DISPROVED, UNDECIDED, NOT_MEASURED = "disproved", "not decided by these runs", "not measured here"
REAL, GENERATED = ("brightkite", "gowalla"), ("gaussian", "beta")
# Less than this is no gain in recall that anybody notices, and chance finds it in one of many readings.
LEAST_GAIN = 0.01
# How far from the paper's a mean over epsilon may be and count as its level.
LEVEL = 0.03
OWN_DEFINITIONS = "baselines calibrated by their own definitions"

Judged = tuple[str, bool | None]
"""Our number for a claim, and whether the claim holds; None is open."""
Judge = Callable[[pd.DataFrame], Judged]
Readings = Callable[[pd.DataFrame], Mapping[str, pd.DataFrame]]


class Claim(NamedTuple):
    """What the paper says, its number, the part that measures it, how rows are judged, and the readings they are of."""

    part: str
    text: str
    paper: str
    judge: Judge
    readings: Readings = lambda runs: {"": runs}
    refuted: str = NOT_REPRODUCED


def verdicts(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row for each claim, also where its part was not run."""
    rows = []
    for claim in CLAIMS:
        own = runs.get(claim.part, ())
        ours, reading, verdict = _verdict(claim, own) if isinstance(own, pd.DataFrame) else ("", "", NOT_MEASURED)
        rows.append((claim.text, claim.paper, ours, reading, verdict))
    return pd.DataFrame(rows, columns=["claim", "paper", "ours", "reading", "verdict"])


def _verdict(claim: Claim, runs: pd.DataFrame) -> tuple[str, str, str]:
    """Return our numbers and the readings that they are of: those in which the claim holds, or else the first."""
    judged = {name: claim.judge(own) for name, own in claim.readings(runs).items() if len(own)}
    if not judged:
        return "", "", NOT_MEASURED
    holding = [name for name, (_, holds) in judged.items() if holds]
    first = next(iter(judged))
    if holding:
        everywhere = len(holding) == len(judged)
        reading = f"all {len(judged)} tried" if everywhere and len(judged) > 1 else "; ".join(holding)
        verdict = REPRODUCED if everywhere and (len(judged) > 1 or not first) else UNDER_READING
        return "; ".join(dict.fromkeys(judged[name][0] for name in holding)), reading, verdict
    verdict = UNDECIDED if None in [holds for _, holds in judged.values()] else claim.refuted
    return judged[first][0], f"{len(judged)} tried" if len(judged) > 1 else first, verdict


# Numbers over everything in a run, and whether they are where the paper has them.


def every(parts: Iterable[bool | None]) -> bool | None:
    """Whether all hold: one that does not decides, and else one that is open leaves it open."""
    known = list(parts)
    if False in known:
        return False
    return None if not known or None in known else True


def within(found: Estimate, low: float = -math.inf, high: float = math.inf) -> bool | None:
    """Whether an estimate lies between two numbers; None where its interval holds one of them, or is not there."""
    if found.low is None or found.high is None:
        return None
    if found.high < low or found.low > high:
        return False
    return True if low < found.low and found.high < high else None


def _mean(runs: pd.DataFrame, column: str) -> Mean:
    return mean_over_runs(runs.groupby("run")[column].mean().tolist())


def _acc(runs: pd.DataFrame) -> Estimate:
    each = runs.groupby("run").agg(share=("acc", "mean"), cases=("instances", "sum"))
    return share_over_runs((each["share"] * each["cases"]).tolist(), int(each["cases"].iloc[0]))


def _gain(runs: pd.DataFrame, of: str, first: object, second: object, column: str = "recall") -> Mean:
    one, other = (runs[runs[of] == value].groupby("run")[column].mean().tolist() for value in (first, second))
    return paired_difference(one, other)


def _growth(runs: pd.DataFrame, of: str) -> Mean:
    return _gain(runs, of, runs[of].max(), runs[of].min())


def _cost_ratio(runs: pd.DataFrame) -> Mean:
    # A service in memory takes no time: queries are what an attack costs.
    each = runs.pivot_table(index="run", columns="attack", values="queries")
    return mean_over_runs((each["ZO-LIA"] / each["GI-LIA"]).round(6).tolist())


def _signed(gain: Mean) -> str:
    return f"{gain.value:+.3f}" + ("" if gain.half_width is None else f" ± {gain.half_width:.3f}")


def _share(found: Any) -> str:
    return f"{found.value:.3f} ({found.low:.3f}–{found.high:.3f})"


def _span(gains: Iterable[Mean]) -> str:
    low, *_, high = [f"{value:+.3f}" for value in sorted(gain.value for gain in gains)] * 2
    return low if low == high else f"{low} to {high}"


# Judges of the rows of one reading.


def _is(
    number: Callable[[pd.DataFrame], Any],
    low: float = -math.inf,
    high: float = math.inf,
    show: Any = str,
    unit: str = "",
) -> Judge:
    """Judge whether a number lies between two others."""

    def judge(own: pd.DataFrame) -> Judged:
        found = number(own)
        return show(found) + unit, within(found, low, high)

    return judge


def _is_level(own: pd.DataFrame, column: str, datasets: tuple[str, ...] = REAL) -> Judged:
    printed = paper_numbers.table3().rename(columns={column: "printed"})[["dataset", "epsilon", "mechanism", "printed"]]
    both = own[own.dataset.isin(datasets)].merge(printed, on=["dataset", "epsilon", "mechanism"])
    if not len(both):
        return "", None
    groups = both.assign(gap=both[column] - both["printed"]).groupby("dataset", sort=False)
    gaps = [_mean(group, "gap") for _, group in groups]
    return f"{_mean(both, column)}, {_span(gaps)} from the paper", every(within(gap, -LEVEL, LEVEL) for gap in gaps)


def _is_table3(own: pd.DataFrame) -> Judged:
    own = own[own.dataset.isin(REAL)]
    judges = (_GROWS_WITH_EPSILON, _RECALL, _RATIO, _RARELY) if len(own) else ()
    held = [judge(own)[1] for judge in judges]
    return f"{held.count(True)} of the four hold", every(held)


def _beats(own: pd.DataFrame, columns: tuple[str, ...], at: str, first: str = "DPRS") -> Judged:
    pairs = [{"of": "mechanism", "first": first, "second": other} for other in BASELINES]
    found = [differences(own, ["dataset", at], columns, **pair)[[*columns]].to_numpy().ravel() for pair in pairs]
    wins = [within(gain, 0.0) for gains in found for gain in gains]
    return f"in {wins.count(True)} of {len(wins)} pairs", every(wins)


def _grows_with_k(own: pd.DataFrame) -> Judged:
    own = own[own.mechanism == "DPRS"]
    pairs = [{"of": "k", "first": more, "second": less} for less, more in pairwise(sorted(own.k.unique()))]
    steps = [gain for pair in pairs for gain in differences(own, ["dataset"], ["recall"], **pair)["recall"]]
    return f"{_span(steps)} a step", every(within(step, 0.0) for step in steps)


def _is_fast(own: pd.DataFrame) -> Judged:
    slowest = figures.time_facts(own)["slowest_ms"]
    return f"at most {slowest:.2g} ms", bool(slowest < figures.PAPER_MOST_MS)


def _is_faster(own: pd.DataFrame) -> Judged:
    found = figures.time_facts(own)
    return f"{found['least_ratio']:.2g} to {found['most_ratio']:,.0f} times as long", bool(found["least_ratio"] > 1)


def _half_is_best(own: pd.DataFrame) -> Judged:
    found = figures.against_half(own)
    least = found[found.gamma == found.gamma.min()]
    worse = [within(gain, high=0.0) for gain in found["recall"]] + [within(gain, 0.0) for gain in found["mse_km2"]]
    text = f"gamma = {found.gamma.min():g}: recall {_span(least['recall'])}, MSE {_span(least['mse_km2'])} km²"
    return text, every(worse)


def _theorem(own: pd.DataFrame) -> Judged:
    refuted = int(own.verdict.isin(["violated", "disproved"]).sum())
    if AUDITED in set(own.what):
        text = f"violated in {refuted} of {len(own)} audits; the loss is at least {own.found.min():.1f}"
        return text, False if refuted else None
    claimed, found = own.iloc[0].get(["claimed", "found"])
    return "by its proof" if pd.isna(found) else f"{claimed:.3g} claimed, {found:.3g} is the case", not refuted


# Readings: their names and their rows, that of Nearveil's tables first.


def _of_attacks(runs: pd.DataFrame, attack: str = "") -> dict[str, pd.DataFrame]:
    """Return readings of both attacks, or of one; GI-LIA has no learning rate."""
    rows = {
        "radius to 0.1 m": ("Nearveil", list(table1.PAPER_ATTACKS)),
        "radius to 100 m": ("reference", [table1.ROUGH, table1.ROUGH_ZO]),
        "printed learning rate": ("reference", ["GI-LIA", table1.PRINTED]),
    }
    if attack == "GI-LIA":
        del rows["printed learning rate"]
    short = runs.assign(attack=runs.attack.str.partition(",")[0])
    kept = short.attack.str.startswith(attack)
    return {
        name: short[kept & (runs.source == source) & runs.attack.isin(each)] for name, (source, each) in rows.items()
    }


def _asked(readings: Readings) -> Readings:
    """Return each reading twice: for uniform queries, and for queries from users."""

    def twice(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
        found: dict[str, pd.DataFrame] = {}
        for name, own in readings(runs).items():
            from_users = {column: own[f"users_{column}"] for column in own if f"users_{column}" in own}
            found |= {name: own, f"{name}, queries from users".removeprefix(", "): own.assign(**from_users)}
        return found

    return twice


def _named(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(name): own for name, own in runs.fillna({"reading": ""}).groupby("reading", sort=False)}


def _of_theorem(name: str, runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return _named(runs[runs.what == name])


def _of_dprs(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    # Where the reference and Nearveil have the same, Nearveil's.
    dprs = runs[(runs.mechanism == "DPRS") & ~runs.reading.isin([REDRAWN, paper_numbers.AUTHORS])]
    return {name.removeprefix("Nearveil: "): own for name, own in _named(dprs).items()}


def _of_baselines(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {OWN_DEFINITIONS: runs[runs.reading == NEARVEIL] if "reading" in runs else runs}


def _buys(variant: str) -> Judge:
    return _is(partial(_gain, of="variant", first=table3.AS_PAPER, second=variant), LEAST_GAIN, show=_signed)


_GROWS_WITH_EPSILON, _GROWS_WITH_CENTERS = (
    _is(partial(_growth, of=of), LEAST_GAIN, show=_signed) for of in ("epsilon", "centers")
)
_RECALL, _RATIO = (partial(_is_level, column=column) for column in ("recall", "ratio_pooled"))
_OF_GI, _OF_ZO = (partial(_of_attacks, attack=attack) for attack in ("GI-LIA", "ZO-LIA"))
_RARELY, _USUALLY = _is(_acc, high=0.03, show=_share), _is(_acc, 0.95, show=_share)
_ASKED = _asked(lambda runs: {"": runs})
_DRAWN, _BOTH = "drawn, no number", ("recall", "ratio_pooled")
_SAYS = {one.theorem: one.says for one in EXAMPLES} | {AUDITED: "DPRS is (ε, δ)-differentially private"}
CLAIMS = (
    Claim("table1", "GI-LIA finds more than 95 % of users within 100 m", "0.940 to 0.996", _USUALLY, _OF_GI),
    Claim("table1", "ZO-LIA finds more than 95 % of users within 100 m", "0.873 to 0.960", _USUALLY, _OF_ZO),
    Claim("table1", "GI-LIA finds more users than ZO-LIA", "Acc +0.053",
          _is(partial(_gain, of="attack", first="GI-LIA", second="ZO-LIA", column="acc"), 0.0, show=_signed),
          _of_attacks),
    Claim("table1", "GI-LIA's mean error is 18 to 52 m", "18 to 52 m",
          _is(partial(_mean, column="dist_m"), 18.0, 52.0, unit=" m"), _OF_GI),
    Claim("table1", "ZO-LIA's mean error is 24 to 57 m", "24 to 57 m",
          _is(partial(_mean, column="dist_m"), 24.0, 57.0, unit=" m"), _OF_ZO),
    Claim("table1", "ZO-LIA costs about half as much as GI-LIA", "0.50 to 0.55 times the seconds",
          _is(_cost_ratio, high=0.75, unit=" times the queries"), _of_attacks),
    Claim("table3", "Recall of DPRS grows with epsilon, from 0.5 to 5, by more than 0.01", "+0.028 to +0.060",
          _GROWS_WITH_EPSILON, _asked(_of_dprs)),
    Claim("table3", "Level of DPRS's recall on the real data sets", "0.434 to 0.489", _RECALL, _asked(_of_dprs)),
    Claim("table3", "Level of DPRS's recall on the generated data sets", "0.563 to 0.672",
          partial(_RECALL, datasets=GENERATED), _asked(_of_dprs)),
    Claim("table3", "Level of DPRS's distance ratio on the real data sets, if it is pooled", "0.827 to 0.889", _RATIO,
          _asked(_of_dprs)),
    Claim("table3", "With DPRS, ZO-LIA finds less than 3 % of users", "0.008 to 0.022", _RARELY, _of_dprs),
    Claim("table3", "These four in one reading: growth, both levels and defense on the real data sets", "Table 3",
          _is_table3, _of_dprs),
    Claim("table3", "DPRS has more recall and a better ratio than SRR, Square and 2D Laplace", "in 96 of 96 pairs",
          partial(_beats, columns=_BOTH, at="epsilon"), _of_baselines),
    Claim("table3", "SRR, Square and 2D Laplace keep a recall of 0.33 or more", "0.331 to 0.649",
          _is(lambda own: _mean(own[own.mechanism != "DPRS"], "recall"), 0.33), _of_baselines),
    Claim("table3", "DPRS has a larger Dist than SRR, Square and 2D Laplace", "0.541 against 0.520 to 0.536 km",
          partial(_beats, columns=("dist_km",), at="epsilon"), _of_baselines),
    Claim("figure4", "Recall of DPRS grows with k", _DRAWN, _grows_with_k, _ASKED),
    Claim("figure4", "DPRS is above the baselines at every k", _DRAWN, partial(_beats, columns=("recall",), at="k"),
          _of_baselines),
    Claim("figure5", "Recall grows with the number of centers, from 600 to 1,000", _DRAWN, _GROWS_WITH_CENTERS, _ASKED),
    Claim("figure6", "With Gaussian noise recall grows with the centers", _DRAWN, _GROWS_WITH_CENTERS, _ASKED),
    Claim("figure6", "With Gaussian noise recall grows with epsilon", _DRAWN, _GROWS_WITH_EPSILON, _ASKED),
    Claim("figure7", "DPRS with Gaussian noise is above the baselines at every k", _DRAWN,
          partial(_beats, columns=("recall",), at="k", first=GAUSSIAN), _of_baselines),
    Claim("figure8", "RSM takes less than 40 ms for 100 users", "less than 40 ms", _is_fast),
    Claim("figure8", "Noise and resample takes longer than RSM in every setting", _DRAWN, _is_faster),
    Claim("figure9", "gamma = 0.5 has the highest recall and the least distance MSE", _DRAWN, _half_is_best, _ASKED),
    Claim("ablation", "RSM leaves better lists than a uniform point of the disc", "implied",
          _buys(table3.UNIFORM_POINT), _asked(_named)),
    Claim("ablation", "Private centers leave better lists than random ones", "implied",
          _buys(table3.RANDOM_CENTERS), _asked(_named)),
    *(
        Claim("theorems", f"{name}: {_SAYS[name]}", "proved", _theorem, partial(_of_theorem, name), DISPROVED)
        for name in sorted(_SAYS, key=lambda name: (name[0] == "L", name))
    ),
)  # fmt: skip
