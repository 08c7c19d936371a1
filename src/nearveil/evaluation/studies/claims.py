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


class Claim(NamedTuple):
    """What the paper says, its number, the part that measures it, how rows are judged, and the readings they are of."""

    part: str
    text: str
    paper: str
    judge: Callable[[pd.DataFrame], Judged]
    readings: Callable[[pd.DataFrame], Mapping[str, pd.DataFrame]] = lambda runs: {"": runs}
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


def above(found: Estimate, bound: float) -> bool | None:
    """Whether an estimate is above a bound; None where its interval holds the bound, or there is no interval."""
    if found.low is None or found.high is None or found.low <= bound <= found.high:
        return None
    return found.low > bound


def every(parts: Iterable[bool | None]) -> bool | None:
    """Whether all hold: one that does not decides, and else one that is open leaves it open."""
    known = list(parts)
    if False in known:
        return False
    return None if not known or None in known else True


def within(found: Estimate, low: float, high: float) -> bool | None:
    """Whether an estimate lies between two numbers."""
    over = above(found, high)
    return every([above(found, low), None if over is None else not over])


def _mean(runs: pd.DataFrame, column: str) -> Mean:
    return mean_over_runs(runs.groupby("run")[column].mean().tolist())


def _acc(runs: pd.DataFrame) -> Estimate:
    each = runs.groupby("run").agg(share=("acc", "mean"), cases=("instances", "sum"))
    return share_over_runs((each["share"] * each["cases"]).tolist(), int(each["cases"].iloc[0]))


def _gain(runs: pd.DataFrame, of: str, first: object, second: object, column: str = "recall") -> Mean:
    one, other = (runs[runs[of] == value].groupby("run")[column].mean().tolist() for value in (first, second))
    return paired_difference(one, other)


def _signed(gain: Mean) -> str:
    return f"{gain.value:+.3f}" + ("" if gain.half_width is None else f" ± {gain.half_width:.3f}")


def _span(gains: Iterable[Mean], form: str = "+.3f") -> str:
    low, *_, high = [f"{value:{form}}" for value in sorted(gain.value for gain in gains)] * 2
    return low if low == high else f"{low} to {high}"


# Judges of the rows of one reading.


def _finds(own: pd.DataFrame, attack: str, low: float = -math.inf, high: float = math.inf) -> Judged:
    found = _acc(own[own.attack == attack]) if attack else _acc(own)
    return str(found), within(found, low, high)


def _errs(own: pd.DataFrame, attack: str, low: float, high: float) -> Judged:
    found = _mean(own[own.attack == attack], "dist_m")
    return f"{found} m", within(found, low, high)


def _gi_finds_more(own: pd.DataFrame) -> Judged:
    gain = _gain(own, "attack", "GI-LIA", "ZO-LIA", "acc")
    return f"Acc {_signed(gain)}", above(gain, 0.0)


def _half_the_cost(own: pd.DataFrame) -> Judged:
    each = own.pivot_table(index="run", columns="attack", values="queries")
    # A service in memory takes no time: queries are what an attack costs.
    ratio = mean_over_runs((each["ZO-LIA"] / each["GI-LIA"]).round(6).tolist())
    return f"{ratio} times the queries", within(ratio, 0.0, 0.75)


def _grows(own: pd.DataFrame, of: str) -> Judged:
    gain = _gain(own, of, own[of].max(), own[of].min())
    return _signed(gain), above(gain, LEAST_GAIN)


def _is_level(own: pd.DataFrame, column: str, datasets: tuple[str, ...] = REAL) -> Judged:
    both = own[own.dataset.isin(datasets)].merge(
        paper_numbers.table3(), on=["dataset", "epsilon", "mechanism"], suffixes=("", "_paper")
    )
    if not len(both):
        return "", None
    groups = both.assign(
        gap=both[column] - both[f"{column}_paper"],
    ).groupby("dataset", sort=False)
    gaps = [_mean(group, "gap") for _, group in groups]
    return f"{_mean(both, column)}, {_span(gaps)} from the paper", every(within(gap, -LEVEL, LEVEL) for gap in gaps)


_RARELY = partial(_finds, attack="", high=0.03)


def _is_table3(own: pd.DataFrame) -> Judged:
    own = own[own.dataset.isin(REAL)]
    if not len(own):
        return "", None
    judges = (partial(_grows, of="epsilon"), partial(_is_level, column="recall"),
              partial(_is_level, column="ratio_pooled"), _RARELY)  # fmt: skip
    held = [judge(own)[1] for judge in judges]
    return f"{held.count(True)} of the four hold", every(held)


def _beats(own: pd.DataFrame, columns: tuple[str, ...], at: str, first: str = "DPRS") -> Judged:
    found = [
        differences(own, ["dataset", at], columns, of="mechanism", first=first, second=other) for other in BASELINES
    ]
    wins = [above(gain, 0.0) for each in found for gain in each[list(columns)].to_numpy().ravel()]
    return f"in {wins.count(True)} of {len(wins)} pairs", every(wins)


def _baselines_keep(own: pd.DataFrame) -> Judged:
    found = _mean(own[own.mechanism != "DPRS"], "recall")
    return str(found), above(found, 0.33)


def _grows_with_k(own: pd.DataFrame) -> Judged:
    own = own[own.mechanism == "DPRS"]
    pairs = [{"of": "k", "first": more, "second": less} for less, more in pairwise(sorted(own.k.unique()))]
    steps = [gain for pair in pairs for gain in differences(own, ["dataset"], ["recall"], **pair)["recall"]]
    return f"{_span(steps)} a step", every(above(step, 0.0) for step in steps)


def _is_fast(own: pd.DataFrame) -> Judged:
    slowest = figures.time_facts(own)["slowest_ms"]
    return f"at most {slowest:.2g} ms", bool(slowest < figures.PAPER_MOST_MS)


def _is_faster(own: pd.DataFrame) -> Judged:
    found = figures.time_facts(own)
    return f"{found['least_ratio']:.2g} to {found['most_ratio']:,.0f} times as long", bool(found["least_ratio"] > 1)


def _half_is_best(own: pd.DataFrame) -> Judged:
    found = figures.against_half(own)
    worse = every(
        [within(gain, -math.inf, 0.0) for gain in found["recall"]] + [above(gain, 0.0) for gain in found["mse_km2"]]
    )
    least = found[found.gamma == found.gamma.min()]
    return f"gamma = {found.gamma.min():g}: recall {_span(least['recall'])}, MSE {_span(least['mse_km2'])} km²", worse


def _buys(own: pd.DataFrame, variant: str) -> Judged:
    gain = _gain(own, "variant", table3.AS_PAPER, variant)
    return _signed(gain), above(gain, LEAST_GAIN)


def _theorem(own: pd.DataFrame) -> Judged:
    violated = int((own.verdict == "violated").sum())
    if AUDITED in set(own.what):
        loss = f"the loss is at least {own.found.min():.1f} to {own.found.max():.1f}"
        return f"violated in {violated} of {len(own)} audits; {loss}", False if violated else None
    row = own.iloc[0]
    text = "by its proof" if row.verdict == "holds" else f"{row.claimed:.3g} claimed, {row.found:.3g} is the case"
    return text, not violated


# Readings: their names and their rows, that of Nearveil's tables first.


def _of_attacks(runs: pd.DataFrame, attack: str = "") -> dict[str, pd.DataFrame]:
    """Return readings of both attacks, or of one: GI-LIA has no learning rate."""
    rows = {
        "radius to 0.1 m": ("Nearveil", list(table1.PAPER_ATTACKS)),
        "radius to 100 m": ("reference", [table1.ROUGH, table1.ROUGH_ZO]),
        "printed learning rate": ("reference", ["GI-LIA", table1.PRINTED]),
    }
    found = {}
    for name, (source, attacks) in list(rows.items())[: 2 if attack == "GI-LIA" else None]:
        own = runs[(runs.source == source) & runs.attack.isin(attacks)]
        found[name] = own.assign(attack=own.attack.str.partition(",")[0])
    return found


def _of_dprs(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return all readings of DPRS; where the reference and Nearveil have the same, Nearveil's."""
    dprs = runs[(runs.mechanism == "DPRS") & ~runs.reading.isin([REDRAWN, paper_numbers.AUTHORS])]
    return {name.removeprefix("Nearveil: "): own for name, own in _named(dprs).items()}


def _of_baselines(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {OWN_DEFINITIONS: runs[runs.reading == NEARVEIL] if "reading" in runs else runs}


def _named(runs: pd.DataFrame, what: str = "") -> dict[str, pd.DataFrame]:
    own = (runs[runs.what == what] if what else runs).fillna({"reading": ""})
    return {str(reading): rows for reading, rows in own.groupby("reading", sort=False)}


def _table1(text: str, paper: str, judge: Callable[..., Judged], attack: str = "", **bounds: float) -> Claim:
    own = partial(judge, attack=attack, **bounds) if attack else judge
    return Claim("table1", text, paper, own, partial(_of_attacks, attack=attack))


def _table3(text: str, paper: str, judge: Callable[..., Judged], **options: Any) -> Claim:
    return Claim("table3", text, paper, partial(judge, **options), _of_dprs)


def _baselines(part: str, text: str, paper: str, judge: Callable[..., Judged], **options: Any) -> Claim:
    return Claim(part, text, paper, partial(judge, **options), _of_baselines)


_DRAWN, _MORE_CENTERS = "drawn, no number", partial(_grows, of="centers")
_SAYS = {one.theorem: one.says for one in EXAMPLES} | {AUDITED: "DPRS is (ε, δ)-differentially private"}
CLAIMS = (
    _table1("GI-LIA finds more than 95 % of users within 100 m", "0.940 to 0.996", _finds, "GI-LIA", low=0.95),
    _table1("ZO-LIA finds more than 95 % of users within 100 m", "0.873 to 0.960", _finds, "ZO-LIA", low=0.95),
    _table1("GI-LIA finds more users than ZO-LIA", "Acc +0.053", _gi_finds_more),
    _table1("GI-LIA's mean error is 18 to 52 m", "18 to 52 m", _errs, "GI-LIA", low=18.0, high=52.0),
    _table1("ZO-LIA's mean error is 24 to 57 m", "24 to 57 m", _errs, "ZO-LIA", low=24.0, high=57.0),
    _table1("ZO-LIA costs about half as much as GI-LIA", "0.49 to 0.57 times the seconds", _half_the_cost),
    _table3("Recall of DPRS grows with epsilon, from 0.5 to 5, by more than 0.01", "+0.028 to +0.060", _grows,
            of="epsilon"),
    _table3("Level of DPRS's recall on the real data sets", "0.434 to 0.489", _is_level, column="recall"),
    _table3("Level of DPRS's recall on the generated data sets", "0.563 to 0.672", _is_level, column="recall",
            datasets=GENERATED),
    _table3("Level of DPRS's distance ratio on the real data sets, if it is pooled", "0.827 to 0.889", _is_level,
            column="ratio_pooled"),
    _table3("With DPRS, ZO-LIA finds less than 3 % of users", "0.008 to 0.022", _finds, attack="", high=0.03),
    _table3("These four in one reading: growth, both levels and defense on the real data sets", "Table 3", _is_table3),
    _baselines("table3", "DPRS has more recall and a better ratio than SRR, Square and 2D Laplace", "in 96 of 96 pairs",
               _beats, columns=("recall", "ratio_pooled"), at="epsilon"),
    _baselines("table3", "SRR, Square and 2D Laplace keep a recall of 0.33 or more", "0.331 to 0.649", _baselines_keep),
    _baselines("table3", "DPRS has a larger Dist than SRR, Square and 2D Laplace", "0.541 against 0.520 to 0.536 km",
               _beats, columns=("dist_km",), at="epsilon"),
    Claim("figure4", "Recall of DPRS grows with k", _DRAWN, _grows_with_k),
    _baselines("figure4", "DPRS is above the baselines at every k", _DRAWN, _beats, columns=("recall",), at="k"),
    Claim("figure5", "Recall grows with the number of centers, from 600 to 1,000", _DRAWN, _MORE_CENTERS),
    Claim("figure6", "With Gaussian noise recall grows with the number of centers", _DRAWN, _MORE_CENTERS),
    Claim("figure6", "With Gaussian noise recall grows with epsilon", _DRAWN, partial(_grows, of="epsilon")),
    _baselines("figure7", "DPRS with Gaussian noise is above the baselines at every k", _DRAWN, _beats,
               columns=("recall",), at="k", first=GAUSSIAN),
    Claim("figure8", "RSM takes less than 40 ms for 100 users", "less than 40 ms", _is_fast),
    Claim("figure8", "Noise and resample takes longer than RSM in every setting", _DRAWN, _is_faster),
    Claim("figure9", "gamma = 0.5 has the highest recall and the least error of distances", _DRAWN, _half_is_best),
    *(
        Claim("ablation", text, "implied", partial(_buys, variant=variant), _named)
        for text, variant in (("RSM leaves better lists than a uniform point of the disc", table3.UNIFORM_POINT),
                              ("Private centers leave better lists than random ones", table3.RANDOM_CENTERS))
    ),
    *(
        Claim("theorems", f"{name}: {_SAYS[name]}", "proved", _theorem, partial(_named, what=name), DISPROVED)
        for name in sorted(_SAYS, key=lambda name: (name[0] == "L", name))
    ),
)  # fmt: skip
