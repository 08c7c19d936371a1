"""A verdict for each claim of the paper, judged by intervals from rows of runs, in every reading that was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

import pandas as pd
from scipy.special import ndtri, stdtrit

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.stats import Estimate, Mean, Share, mean_over_runs, paired_difference, share_over_runs
from nearveil.evaluation.studies import figures, table1
from nearveil.evaluation.studies.protected import BASELINES, GAUSSIAN, NEARVEIL, REDRAWN
from nearveil.evaluation.studies.theorems import ACCEPTED, AUDITED, EXAMPLES
from nearveil.evaluation.study import differences, means

REPRODUCED, UNDER_READING = "reproduced", "reproduced under this reading"
NOT_REPRODUCED = "not reproduced under any reading we tried"
IN_ONE = "not reproduced in the one reading tried"
DISPROVED, UNDECIDED, NOT_MEASURED = "disproved", "not decided by these runs", "not measured here"
SAYS_NOTHING = "says nothing: baselines not reproduced"
REAL, GENERATED = ("brightkite", "gowalla"), ("gaussian", "beta")
# Less than this is no gain in recall that anybody notices, and chance finds it in one of many readings.
LEAST_GAIN = 0.01
# How far from the paper's a number may be and count as its level.
LEVEL = 0.03
# Baselines with less recall than this are not the paper's, which have 0.33 or more.
LEAST_OF_BASELINES = 0.1
OWN_DEFINITIONS, FROM_USERS = "baselines calibrated by their own definitions", ", queries from users"

Judged = tuple[str, bool | str | None]
"""Our number for a claim, and whether the claim holds; None is open, text a verdict of its own."""
Wider = Mapping[type[Estimate], float]
"""How much wider than 95 % intervals are where one of several readings may hold by chance."""
Judge = Callable[[pd.DataFrame, Wider], Judged]
Number = Callable[[pd.DataFrame], Any]
Readings = Callable[[pd.DataFrame], Mapping[str, pd.DataFrame]]
_AS_THEY_ARE: Wider = {Mean: 1.0, Share: 1.0}


class Claim(NamedTuple):
    """What the paper says, its number, the part that measures it, how rows are judged, and the readings they are of."""

    part: str
    text: str
    paper: str
    judge: Judge
    readings: Readings = lambda runs: {"": runs}
    datasets: tuple[str, ...] = ()
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
    runs = runs[runs.dataset.isin(claim.datasets)] if claim.datasets else runs
    readings = {name: own for name, own in claim.readings(runs).items() if len(own)}
    if not readings:
        return "", "", NOT_MEASURED
    wider = _for_several(len(readings), runs["run"].nunique())
    judged = {name: claim.judge(own, wider) for name, own in readings.items()}
    holding = [name for name, (_, holds) in judged.items() if holds is True]
    first = next(iter(judged))
    several = len({name.removesuffix(FROM_USERS) for name in judged}) > 1
    if holding:
        everywhere = len(holding) == len(judged)
        reading = f"all {len(judged)} tried" if everywhere and several else "; ".join(holding)
        verdict = REPRODUCED if everywhere and (several or not first) else UNDER_READING
        ours = list(dict.fromkeys(judged[name][0] for name in holding))
        return "; ".join(ours[:2]) + ("; …" if len(ours) > 2 else ""), reading, verdict
    still = [holds for _, holds in judged.values() if holds is not False]
    refuted = IN_ONE if claim.refuted == NOT_REPRODUCED and len(judged) == 1 and first else claim.refuted
    verdict = str(still[0] or UNDECIDED) if still else refuted
    return judged[first][0], f"{len(judged)} tried" if several else "; ".join(judged), verdict


def _for_several(readings: int, runs: int) -> Wider:
    """Return Bonferroni's factors: among several readings, none may hold by chance in more than 5 % of cases."""
    if runs < 2:
        return _AS_THEY_ARE
    tail = 1 - 0.025 / readings
    return {Mean: stdtrit(runs - 1, tail) / stdtrit(runs - 1, 0.975), Share: ndtri(tail) / ndtri(0.975)}


# Numbers over everything in a run, and whether they are where the paper has them.


def every(parts: Iterable[bool | None]) -> bool | None:
    """Whether all hold: one that does not decides, and else one that is open leaves it open."""
    known = list(parts)
    if False in known:
        return False
    return None if not known or None in known else True


def within(found: Estimate, low: float = -inf, high: float = inf, wider: Wider = _AS_THEY_ARE) -> bool | None:
    """Whether an estimate lies between two numbers; None where its interval holds one of them, or is not there."""
    if found.low is None or found.high is None:
        return None
    if found.high < low or found.low > high:
        return False
    least, most = (found.value + wider[type(found)] * (end - found.value) for end in (found.low, found.high))
    return True if low < least and most < high else None


def _mean(runs: pd.DataFrame, column: str) -> Mean:
    return mean_over_runs(runs.groupby("run")[column].mean().tolist())


def _acc(runs: pd.DataFrame) -> Share:
    each = runs.groupby("run").agg(share=("acc", "mean"), cases=("instances", "sum"))
    return share_over_runs((each["share"] * each["cases"]).tolist(), int(each["cases"].iloc[0]))


def _gain(runs: pd.DataFrame, of: str, first: object, second: object, column: str = "recall") -> Mean:
    one, other = (runs[runs[of] == value].groupby("run")[column].mean().tolist() for value in (first, second))
    return paired_difference(one, other)


def _cost_ratio(runs: pd.DataFrame) -> Mean:
    # A service in memory takes no time: queries are what an attack costs.
    each = runs.pivot_table(index="run", columns="attack", values="queries")
    return mean_over_runs((each["ZO-LIA"] / each["GI-LIA"]).round(6).tolist())


def _signed(gain: Mean) -> str:
    return f"{gain.value:+.3f}" + ("" if gain.half_width is None else f" ± {gain.half_width:.3f}")


def _span(gains: Iterable[Mean]) -> str:
    low, *_, high = [f"{value:+.3f}" for value in sorted(gain.value for gain in gains)] * 2
    return low if low == high else f"{low} to {high}"


# Judges of the rows of one reading.


def _is(number: Number, low: float = -inf, high: float = inf, show: Any = str, unit: str = "") -> Judge:
    """Judge whether a number lies between two others."""

    def judge(own: pd.DataFrame, wider: Wider) -> Judged:
        found = number(own)
        return show(found) + unit, within(found, low, high, wider)

    return judge


def _grows(own: pd.DataFrame, wider: Wider, of: str) -> Judged:
    least, most = own[of].min(), own[of].max()
    gain = _gain(own, of, most, least)
    return f"{_signed(gain)} from {least:g} to {most:g}", within(gain, LEAST_GAIN, wider=wider)


def _is_level(own: pd.DataFrame, wider: Wider, column: str) -> Judged:
    printed = paper_numbers.table3().rename(columns={column: "printed"})[["dataset", "epsilon", "mechanism", "printed"]]
    both = own.merge(printed, on=["dataset", "epsilon", "mechanism"])
    both = both.assign(gap=both[column] - both["printed"])
    gaps = means(both, ["dataset", "epsilon"], ["gap"])["gap"].tolist()
    near = sum(abs(gap.value) < LEVEL for gap in gaps)
    text = f"{_mean(both, column)}; {_span(gaps)} from the paper, {near} of {len(gaps)} within {LEVEL}"
    return text, every(within(gap, -LEVEL, LEVEL, wider) for gap in gaps)


def _improves(own: pd.DataFrame, wider: Wider) -> Judged:
    gains = []
    for column in _BOTH:
        each = own.pivot_table(index=["run", "dataset", "epsilon"], columns="mechanism", values=column)
        gain = 100 * (each["DPRS"] / each[[*BASELINES]].max(axis=1) - 1)
        gains.append(mean_over_runs(gain.groupby("run").mean().tolist()))
    text = " % and ".join(map(str, gains))
    return _beside_baselines(own, f"{text} %", every(within(one, 0.0, wider=wider) for one in gains))


def _is_table3(own: pd.DataFrame, wider: Wider) -> Judged:
    judged = [judge(own, wider)[1] for judge in (_GROWS_WITH_EPSILON, _RECALL, _RATIO, _RARELY)]
    held = [holds if isinstance(holds, bool) else None for holds in judged]
    return f"{held.count(True)} of the four hold", every(held)


def _dist_is(own: pd.DataFrame, wider: Wider, low: float, high: float) -> Judged:
    found = means(own, ["dataset", "k"], ["dist_m"])["dist_m"]
    held = [within(one, low, high, wider) for one in found]
    return f"{_mean(own, 'dist_m')} m; surely in {held.count(True)} of {len(held)} settings", every(held)


def _usually(own: pd.DataFrame, wider: Wider) -> Judged:
    found = means(own, ["attack", "dataset", "k"], ["acc"], shares=["acc"], cases="instances")["acc"]
    held = [within(one, 0.9, wider=wider) for one in found]
    most = True if 2 * held.count(True) > len(held) else False if 2 * held.count(False) >= len(held) else None
    return f"surely in {held.count(True)} of {len(held)}, surely not in {held.count(False)}", most


def _is_best(own: pd.DataFrame, wider: Wider) -> Judged:
    pair = {"of": "attack", "first": "GI-LIA", "second": "ZO-LIA"}
    gains = differences(own, ["dataset", "k"], ["acc", "dist_m"], **pair)
    wins = [within(one, 0.0, wider=wider) for one in gains.acc]
    wins += [within(one, high=0.0, wider=wider) for one in gains.dist_m]
    return f"in {wins.count(True)} of {len(wins)} pairs", every(wins)


def _beats(own: pd.DataFrame, wider: Wider, columns: tuple[str, ...], at: str, first: str = "DPRS") -> Judged:
    """Judge whether DPRS has more than each baseline in every setting, if baselines keep anything."""
    pairs = [{"of": "mechanism", "first": first, "second": other} for other in BASELINES]
    found = [differences(own, ["dataset", at], columns, **pair)[[*columns]].to_numpy().ravel() for pair in pairs]
    wins = [within(gain, 0.0, wider=wider) for gains in found for gain in gains]
    return _beside_baselines(own, f"in {wins.count(True)} of {len(wins)} pairs", every(wins))


def _beats_on_average(own: pd.DataFrame, wider: Wider, column: str, sign: int) -> Judged:
    gains = [_gain(own, "mechanism", "DPRS", other, column) for other in BASELINES]
    wins = [within(Mean(sign * gain.value, gain.half_width), 0.0, wider=wider) for gain in gains]
    return _beside_baselines(own, _span(gains), every(wins))


def _beside_baselines(own: pd.DataFrame, text: str, holds: bool | None) -> Judged:
    kept = own[own.mechanism.isin(BASELINES)].recall.mean()
    # What leaves nothing of a list is easily beaten.
    return f"{text}; baselines keep a recall of {kept:.3f}", SAYS_NOTHING if kept < LEAST_OF_BASELINES else holds


def _grows_with_k(own: pd.DataFrame, wider: Wider) -> Judged:
    own = own[own.mechanism == "DPRS"]
    pairs = [{"of": "k", "first": more, "second": less} for less, more in pairwise(sorted(own.k.unique()))]
    steps = [gain for pair in pairs for gain in differences(own, ["dataset"], ["recall"], **pair)["recall"]]
    return f"{_span(steps)} a step", every(within(step, 0.0, wider=wider) for step in steps)


def _is_fast(own: pd.DataFrame, _: Wider) -> Judged:
    slowest = figures.time_facts(own)["slowest_ms"]
    return f"at most {slowest:.2g} ms", bool(slowest < figures.PAPER_MOST_MS)


def _is_faster(own: pd.DataFrame, _: Wider) -> Judged:
    least, most = (figures.time_facts(own)[name] for name in ("least_ratio", "most_ratio"))
    return f"{least:.2g} to {most:,.0f} times as long", bool(least > 1)


def _half_is_best(own: pd.DataFrame, wider: Wider) -> Judged:
    found = figures.against_half(own)
    least = found[found.gamma == found.gamma.min()]
    worse = [within(gain, high=0.0, wider=wider) for gain in found["recall"]]
    worse += [within(gain, 0.0, wider=wider) for gain in found["mse_km2"]]
    text = f"gamma = {found.gamma.min():g}: recall {_span(least['recall'])}, MSE {_span(least['mse_km2'])} km²"
    return text, every(worse)


def _theorem(own: pd.DataFrame, _: Wider) -> Judged:
    refuted = int(own.verdict.isin(["violated", "disproved"]).sum())
    first = own.sort_values("claimed").iloc[0]
    if AUDITED in set(own.what):
        text = f"violated in {refuted} of {len(own)} audits; {first.claimed:g} claimed, at least {first.found:.1f} lost"
        return text, False if refuted else None
    if first.verdict == ACCEPTED:
        return "", ACCEPTED
    bound = "critical value" if "χ²" in first.what else "at most"
    return f"{bound} {first.claimed:.3g}{' claimed' * (bound == 'at most')}, {first.found:.3g} is the case", not refuted


# Readings: their names and their rows, that of Nearveil's tables first.


def _of_attacks(runs: pd.DataFrame, attack: str = "") -> dict[str, pd.DataFrame]:
    """Return readings of both attacks, or of one."""
    names = [name for name in table1.READINGS if name.startswith(attack) and name in set(runs.attack)]
    rows = {"radius to 0.1 m": ("Nearveil", [*table1.PAPER_ATTACKS])}
    for name in names:
        reading = name.partition(", ")[2]
        # A reading of one attack alone is compared with the other as it is.
        both = {one.partition(", ")[0]: one for one in table1.READINGS if one.endswith(reading)}
        rows[reading] = ("reference", [both.get(one, one) for one in table1.PAPER_ATTACKS])
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
            found |= {name: own} | ({f"{name}{FROM_USERS}": own.assign(**from_users)} if from_users else {})
        return found

    return twice


def _named(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(name): own for name, own in runs.fillna({"reading": ""}).groupby("reading", sort=False)}


def _of_theorem(name: str, runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return _named(runs[runs.what == name])


def _of_dprs(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    # Where the reference and Nearveil have the same, Nearveil's.
    dprs = runs[~runs.mechanism.isin(BASELINES) & ~runs.reading.isin([REDRAWN, paper_numbers.AUTHORS])]
    return _named(dprs.replace({"reading": {NEARVEIL: REDRAWN}}))


def _of_baselines(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {OWN_DEFINITIONS: runs[runs.reading == NEARVEIL]}


_GROWS_WITH_EPSILON, _GROWS_WITH_CENTERS = (partial(_grows, of=of) for of in ("epsilon", "centers"))
_RECALL, _RATIO = (partial(_is_level, column=column) for column in ("recall", "ratio_pooled"))
_OF_GI, _OF_ZO = (partial(_of_attacks, attack=attack) for attack in ("GI-LIA", "ZO-LIA"))
_RARELY, _MOSTLY = _is(_acc, high=0.03), _is(_acc, 0.95)
_DRAWN, _BOTH = "drawn, no number", ("recall", "ratio_pooled")
_IN_READINGS = _asked(_of_dprs)
_SAYS = {one.theorem: one.says for one in EXAMPLES} | {AUDITED: "DPRS is (ε, δ)-differentially private"}
CLAIMS = (
    Claim("table1", "GI-LIA finds more than 95 % of users within 100 m", "0.940 to 0.996, mean 0.973", _MOSTLY, _OF_GI),
    Claim("table1", "ZO-LIA finds more than 95 % of users within 100 m (abstract)",
          "0.873 to 0.960, mean 0.920: its Table 1 contradicts it", _MOSTLY, _OF_ZO),
    Claim("table1", "Both find more than 90 % in most settings (section 4.3)", "in 21 of 24", _usually, _of_attacks),
    Claim("table1", "GI-LIA finds more users than ZO-LIA", "Acc +0.053",
          _is(partial(_gain, of="attack", first="GI-LIA", second="ZO-LIA", column="acc"), 0.0, show=_signed),
          _of_attacks),
    Claim("table1", "GI-LIA has the better Dist and Acc consistently (section 4.3)",
          "in 21 of 24 pairs: its Table 1 contradicts it", _is_best, _of_attacks),
    Claim("table1", "GI-LIA's mean error is 18 to 52 m in every setting", "18 to 52 m",
          partial(_dist_is, low=18.0, high=52.0), _OF_GI),
    Claim("table1", "ZO-LIA's mean error is 24 to 57 m in every setting", "24 to 57 m",
          partial(_dist_is, low=24.0, high=57.0), _OF_ZO),
    Claim("table1", "ZO-LIA costs less than GI-LIA (the paper says about half)", "0.50 to 0.55 times the seconds",
          _is(_cost_ratio, high=1.0, unit=" times the queries"), _of_attacks),
    Claim("table3", "Recall of DPRS grows with epsilon (by more than 0.01)", "+0.028 to +0.060 from 0.5 to 5",
          _GROWS_WITH_EPSILON, _IN_READINGS),
    Claim("table3", "Level of DPRS's recall on the real data sets", "0.434 to 0.489", _RECALL, _IN_READINGS, REAL),
    Claim("table3", "Level of DPRS's recall on the generated data sets", "0.563 to 0.672", _RECALL, _IN_READINGS,
          GENERATED),
    Claim("table3", "Level of DPRS's distance ratio on the real data sets, if it is pooled", "0.827 to 0.889", _RATIO,
          _IN_READINGS, REAL),
    Claim("table3", "With DPRS, ZO-LIA finds less than 3 % of users, over all epsilons", "0.008 to 0.022", _RARELY,
          _of_dprs),
    Claim("table3", "These four in one reading: growth, both levels and defense on the real data sets", "Table 3",
          _is_table3, _of_dprs, REAL),
    Claim("table3", "\"Under a low privacy budget\" (here the least epsilon) ZO-LIA finds less than 3 % of users",
          "0.008 to 0.022", _is(lambda own: _acc(own[own.epsilon == own.epsilon.min()]), high=0.03), _of_dprs),
    Claim("", "\"Under a low privacy budget\" GI-LIA finds less than 3 % of users", "below 3 %, in no table", _MOSTLY),
    Claim("table3", "DPRS has more recall and a better ratio than SRR, Square and 2D Laplace", "in 96 of 96 pairs",
          partial(_beats, columns=_BOTH, at="epsilon"), _of_baselines),
    Claim("table3", "DPRS improves recall and ratio over the best baseline of a setting, on average (section 7)",
          "+6.04 % and +5.33 %; its Table 3 has 6.38 and 5.66", _improves, _of_baselines),
    Claim("table3", "SRR, Square and 2D Laplace keep a recall of 0.33 or more", "0.331 to 0.649",
          _is(lambda own: _mean(own[own.mechanism != "DPRS"], "recall"), 0.33), _of_baselines),
    Claim("table3", "DPRS has a larger Dist than SRR, Square and 2D Laplace, on average",
          "0.541 against 0.520 to 0.536", partial(_beats_on_average, column="dist_km", sign=1), _of_baselines),
    Claim("table3", "DPRS has a smaller Acc than SRR, Square and 2D Laplace, on average",
          "0.017 against 0.018 to 0.020", partial(_beats_on_average, column="acc", sign=-1), _of_baselines),
    Claim("figure4", "Recall of DPRS grows with k", _DRAWN, _grows_with_k, _IN_READINGS),
    Claim("figure4", "DPRS is above the baselines at every k", _DRAWN, partial(_beats, columns=("recall",), at="k"),
          _of_baselines),
    Claim("figure5", "Recall grows with the number of centers", _DRAWN, _GROWS_WITH_CENTERS, _IN_READINGS),
    Claim("figure6", "With Gaussian noise recall grows with the centers", _DRAWN, _GROWS_WITH_CENTERS, _IN_READINGS),
    Claim("figure6", "With Gaussian noise recall grows with epsilon", _DRAWN, _GROWS_WITH_EPSILON, _IN_READINGS),
    Claim("figure7", "DPRS with Gaussian noise is above the baselines at every k", _DRAWN,
          partial(_beats, columns=("recall",), at="k", first=GAUSSIAN), _of_baselines),
    Claim("figure8", "RSM takes less than 40 ms for 100 users", "less than 40 ms", _is_fast),
    Claim("figure8", "Noise and resample takes longer than RSM in every setting", _DRAWN, _is_faster),
    Claim("figure9", "gamma = 0.5 has the highest recall and the least distance MSE", _DRAWN, _half_is_best,
          _IN_READINGS),
    *(
        Claim("theorems", f"{name}: {_SAYS[name]}", "proved", _theorem, partial(_of_theorem, name), refuted=DISPROVED)
        for name in sorted(_SAYS, key=lambda name: (name[0] == "L", name))
    ),
)  # fmt: skip
