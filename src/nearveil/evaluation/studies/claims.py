"""A verdict for each claim of the paper, judged by intervals from rows of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import pandas as pd

from nearveil.evaluation import paper_numbers
from nearveil.evaluation.stats import Estimate, Mean, mean_over_runs, paired_difference, share_over_runs
from nearveil.evaluation.studies import ablation, figure8, figure9, figures4to7, table1, table3, theorems
from nearveil.evaluation.studies.protected import BASELINES
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


def verdicts(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row for each claim, also where its part was not run."""
    rows = []
    for claim in CLAIMS:
        found, verdict = Found("", None), NOT_MEASURED
        if len(runs.get(claim.part, ())):
            found = claim.judge(runs[claim.part])
            verdict = UNDECIDED if found.holds is None else claim.refuted
            if found.holds:
                verdict = UNDER_READING if found.reading else REPRODUCED
        row = {"claim": claim.text, "paper": claim.paper, "ours": found.ours}
        rows.append(row | {"reading": found.reading, "verdict": verdict})
    return pd.DataFrame(rows)


def above(found: Estimate, bound: float) -> bool | None:
    """Whether an estimate is above a bound; None where its interval holds the bound, or there is no interval."""
    if found.low is None or found.high is None or found.low <= bound <= found.high:
        return None
    return found.low > bound


def below(found: Estimate, bound: float) -> bool | None:
    """Do the same for less."""
    over = above(found, bound)
    return None if over is None else not over


def every(parts: Iterable[bool | None]) -> bool | None:
    """Whether all hold: one that does not decides, and else one that is open leaves it open."""
    known = list(parts)
    if False in known:
        return False
    return None if not known or None in known else True


def any_reading(found: Mapping[str, tuple[str, bool | None]], default: str) -> Found:
    """Judge a claim by the default reading where it holds there, and else by all others in which it holds."""
    ours, holds = found.get(default) or next(iter(found.values()))
    if holds:
        return Found(ours, True)
    holding = [name for name, (_, each) in found.items() if each]
    if holding:
        return Found("; ".join(found[name][0] for name in holding), True, "; ".join(holding))
    return Found(ours, None if None in [each for _, each in found.values()] else False, f"{len(found)} tried")


def _span(values: Iterable[float], form: str = "+.3f") -> str:
    low, *_, high = [f"{value:{form}}" for value in sorted(values)] * 2
    return low if low == high else f"{low} to {high}"


def _mean(runs: pd.DataFrame, column: str) -> Mean:
    """Return the mean over runs of a column, over all else in a run first."""
    return mean_over_runs(runs.groupby("run")[column].mean().tolist())


def _share(runs: pd.DataFrame) -> Estimate:
    """Return Acc over everything in a run."""
    each = runs.groupby("run").agg(share=("acc", "mean"), cases=("instances", "sum"))
    return share_over_runs((each["share"] * each["cases"]).tolist(), int(each["cases"].iloc[0]))


def _gain(runs: pd.DataFrame, column: str, of: str, first: object, second: object) -> Mean:
    """Return how much more of a column there is with the first than with the second: paired, over all else in a run."""
    one, other = (runs[runs[of] == value].groupby("run")[column].mean().tolist() for value in (first, second))
    return paired_difference(one, other)


def _signed(gain: Mean) -> str:
    return f"{gain.value:+.3f}" + ("" if gain.half_width is None else f" ± {gain.half_width:.3f}")


# Table 1.


def _ours(runs: pd.DataFrame, attack: str = "", source: str = "Nearveil") -> pd.DataFrame:
    own = runs[runs.source == source]
    return own[own.attack == attack] if attack else own


def _gi_finds(runs: pd.DataFrame) -> Found:
    found = _share(_ours(runs, "GI-LIA"))
    return Found(str(found), above(found, 0.95))


def _zo_finds(runs: pd.DataFrame) -> Found:
    shares = {
        "tuned steps": _share(_ours(runs, "ZO-LIA")),
        "printed learning rate": _share(_ours(runs, table1.PRINTED, "reference")),
    }
    return any_reading({name: (str(one), above(one, 0.95)) for name, one in shares.items()}, "tuned steps")


def _gi_error(runs: pd.DataFrame) -> Found:
    found = {
        "radius to 0.1 m": _mean(_ours(runs, "GI-LIA"), "dist_m"),
        "radius to 100 m": _mean(_ours(runs, table1.ROUGH, "reference"), "dist_m"),
    }
    inside = {name: (f"{one} m", every([above(one, 18.0), below(one, 52.0)])) for name, one in found.items()}
    return any_reading(inside, "radius to 0.1 m")


def _gi_is_better(runs: pd.DataFrame) -> Found:
    gain = _gain(_ours(runs), "acc", "attack", "GI-LIA", "ZO-LIA")
    return Found(f"Acc {_signed(gain)}", above(gain, 0.0))


def _half_the_cost(runs: pd.DataFrame) -> Found:
    each = _ours(runs).pivot_table(index="run", columns="attack", values=["queries", "cost_s"])
    queries, seconds = (
        mean_over_runs((each[name]["ZO-LIA"] / each[name]["GI-LIA"]).tolist()) for name in ("queries", "cost_s")
    )
    # A service in memory takes no time: queries are what an attack costs.
    return Found(f"{queries} times the queries ({seconds} times the seconds)", below(queries, 0.75))


# Table 3.


def _by_reading(runs: pd.DataFrame, judge: Callable[[pd.DataFrame], tuple[str, bool | None]]) -> Found:
    dprs = runs[(runs.mechanism == "DPRS") & (runs.reading != paper_numbers.AUTHORS)]
    return any_reading({str(name): judge(own) for name, own in dprs.groupby("reading", sort=False)}, table3.NEARVEIL)


def _grows_with_epsilon(own: pd.DataFrame) -> tuple[str, bool | None]:
    gain = _gain(own, "recall", "epsilon", own.epsilon.max(), own.epsilon.min())
    return _signed(gain), above(gain, LEAST_GAIN)


def _is_level(own: pd.DataFrame, *, column: str, datasets: tuple[str, ...]) -> tuple[str, bool | None]:
    own = own[own.dataset.isin(datasets)]
    printed = [table3.printed(*one, column) for one in zip(own.dataset, own.epsilon, own.mechanism, strict=True)]
    if not printed or None in printed:
        return "", None
    gaps = [_mean(group, "gap") for _, group in own.assign(gap=own[column] - printed).groupby("dataset", sort=False)]
    near = every(every([above(gap, -LEVEL), below(gap, LEVEL)]) for gap in gaps)
    return f"{_mean(own, column)}, {_span(gap.value for gap in gaps)} from the paper", near


def _is_rarely_found(own: pd.DataFrame) -> tuple[str, bool | None]:
    share = _share(own)
    return str(share), below(share, 0.03)


def _is_table3(own: pd.DataFrame) -> tuple[str, bool | None]:
    own = own[own.dataset.isin(REAL)]
    if not len(own):
        return "", None
    judges = (
        _grows_with_epsilon, partial(_is_level, column="recall", datasets=REAL),
        partial(_is_level, column="ratio_pooled", datasets=REAL), _is_rarely_found,
    )  # fmt: skip
    held = [judge(own)[1] for judge in judges]
    return f"{held.count(True)} of the four hold", every(held)


def _beats_baselines(runs: pd.DataFrame, columns: tuple[str, ...]) -> Found:
    own, by = runs[runs.reading == table3.NEARVEIL], ["dataset", "epsilon"]
    gains = [
        gain
        for column in columns
        for other in BASELINES
        for gain in differences(own, by, column, of="mechanism", first="DPRS", second=other)["difference"]
    ]
    wins = [above(gain, 0.0) for gain in gains]
    return Found(f"in {wins.count(True)} of {len(wins)} pairs", every(wins), OWN_DEFINITIONS)


def _baselines_keep(runs: pd.DataFrame) -> Found:
    found = _mean(runs[(runs.reading == table3.NEARVEIL) & (runs.mechanism != "DPRS")], "recall")
    return Found(str(found), above(found, 0.33), OWN_DEFINITIONS)


# Figures, ablation, theorems.


def _grows_with_k(runs: pd.DataFrame) -> Found:
    steps = list(figures4to7.steps_by_k(runs, "DPRS")["difference"])
    return Found(f"{_span(step.value for step in steps)} a step", every(above(step, 0.0) for step in steps))


def _is_above_baselines(runs: pd.DataFrame, name: str) -> Found:
    gains = list(figures4to7.margins(runs, name)["difference"])
    holds = every(above(gain, 0.0) for gain in gains)
    return Found(f"{_span(gain.value for gain in gains)} recall", holds, OWN_DEFINITIONS)


def _grows(runs: pd.DataFrame, of: str) -> Found:
    ten = runs[runs.k == table3.K]
    gain = _gain(ten, "recall", of, ten[of].max(), ten[of].min())
    return Found(_signed(gain), above(gain, LEAST_GAIN))


def _is_fast(runs: pd.DataFrame) -> Found:
    slowest = figure8.PART.facts(runs)["slowest_ms"]
    return Found(f"at most {slowest:.2g} ms", bool(slowest < figure8.PAPER_MOST_MS))


def _is_faster(runs: pd.DataFrame) -> Found:
    least, most = (figure8.PART.facts(runs)[name] for name in ("least_ratio", "most_ratio"))
    return Found(f"{least:.2g} to {most:,.0f} times as long", bool(least > 1))


def _half_is_best(runs: pd.DataFrame) -> Found:
    found = figure9.against(runs)
    smallest = found[found.gamma == found.gamma.min()]
    best = every(
        every([below(recall, 0.0), above(mse, 0.0)])
        for recall, mse in zip(found["recall"], found["distance MSE (km²)"], strict=True)
    )
    text = f"gamma = {found.gamma.min():g}: recall {_span(gain.value for gain in smallest['recall'])}"
    return Found(f"{text}, MSE {_span(gain.value for gain in smallest['distance MSE (km²)'])} km²", best)


def _buys(runs: pd.DataFrame, variant: str) -> Found:
    gains = {
        str(reading): _gain(own, "recall", "variant", ablation.AS_PAPER, variant)
        for reading, own in runs.groupby("reading", sort=False)
    }
    return any_reading({name: (_signed(gain), above(gain, LEAST_GAIN)) for name, gain in gains.items()}, table3.REDRAWN)


def _theorem(runs: pd.DataFrame, name: str) -> Found:
    own = runs[runs.what == name]
    if name == theorems.AUDITED:
        violated = int((own.verdict == "violated").sum())
        text = f"violated in {violated} of {len(own)} audits; the loss is at least {_span(own.found, '.1f')}"
        return Found(text, False if violated else None)
    row, example = own.iloc[0], theorems.EXAMPLES[name]
    if example.shown is None:
        return Found("by its proof", True, example.what)
    return Found(f"{row.claimed:.3g} claimed, {row.found:.3g} is the case", row.verdict != "violated")


_DRAWN, _IMPLIED = "drawn, no number", "implied"
CLAIMS = (
    Claim("table1", "GI-LIA finds more than 95 % of users within 100 m", "0.940 to 0.996", _gi_finds),
    Claim("table1", "ZO-LIA finds more than 95 % of users within 100 m", "0.873 to 0.960", _zo_finds),
    Claim("table1", "GI-LIA finds more users than ZO-LIA", "Acc +0.053", _gi_is_better),
    Claim("table1", "GI-LIA's mean error is 18 to 52 m", "18 to 52 m", _gi_error),
    Claim("table1", "ZO-LIA costs about half as much as GI-LIA", "0.49 to 0.57 times the seconds", _half_the_cost),
    Claim("table3", "Recall of DPRS grows with epsilon, from 0.5 to 5, by more than 0.01", "+0.028 to +0.060",
          partial(_by_reading, judge=_grows_with_epsilon)),
    Claim("table3", "Level of DPRS's recall on the real data sets", "0.434 to 0.489",
          partial(_by_reading, judge=partial(_is_level, column="recall", datasets=REAL))),
    Claim("table3", "Level of DPRS's recall on the generated data sets", "0.563 to 0.672",
          partial(_by_reading, judge=partial(_is_level, column="recall", datasets=GENERATED))),
    Claim("table3", "Level of DPRS's distance ratio on the real data sets", "0.827 to 0.889",
          partial(_by_reading, judge=partial(_is_level, column="ratio_pooled", datasets=REAL))),
    Claim("table3", "With DPRS, ZO-LIA finds less than 3 % of users", "0.008 to 0.022",
          partial(_by_reading, judge=_is_rarely_found)),
    Claim("table3", "These four in one reading: growth, both levels and defense on the real data sets", "Table 3",
          partial(_by_reading, judge=_is_table3)),
    Claim("table3", "DPRS has more recall and a better ratio than SRR, Square and 2D Laplace", "in 96 of 96 pairs",
          partial(_beats_baselines, columns=("recall", "ratio_pooled"))),
    Claim("table3", "SRR, Square and 2D Laplace keep a recall of 0.33 or more", "0.331 to 0.649", _baselines_keep),
    Claim("table3", "DPRS has a larger Dist than SRR, Square and 2D Laplace", "0.541 against 0.520 to 0.536 km",
          partial(_beats_baselines, columns=("dist_km",))),
    Claim("figure4", "Recall of DPRS grows with k", _DRAWN, _grows_with_k),
    Claim("figure4", "DPRS is above the baselines at every k", _DRAWN, partial(_is_above_baselines, name="DPRS")),
    Claim("figure5", "Recall grows with the number of centers, from 600 to 1,000", _DRAWN,
          partial(_grows, of="centers")),
    Claim("figure6", "With Gaussian noise recall grows with the number of centers", _DRAWN,
          partial(_grows, of="centers")),
    Claim("figure6", "With Gaussian noise recall grows with epsilon", _DRAWN, partial(_grows, of="epsilon")),
    Claim("figure7", "DPRS with Gaussian noise is above the baselines at every k", _DRAWN,
          partial(_is_above_baselines, name=figures4to7.GAUSSIAN)),
    Claim("figure8", "RSM takes less than 40 ms for 100 users", "less than 40 ms", _is_fast),
    Claim("figure8", "Noise and resample takes longer than RSM in every setting", _DRAWN, _is_faster),
    Claim("figure9", "gamma = 0.5 has the highest recall and the least error of distances", _DRAWN, _half_is_best),
    Claim("ablation", "RSM leaves better lists than a uniform point of the disc", _IMPLIED,
          partial(_buys, variant="uniform point")),
    Claim("ablation", "Private centers leave better lists than random ones", _IMPLIED,
          partial(_buys, variant="random centers")),
    *(
        Claim("theorems", f"{one.theorem}: {one.says}", "proved", partial(_theorem, name=name), DISPROVED)
        for name, one in theorems.EXAMPLES.items()
    ),
)  # fmt: skip
