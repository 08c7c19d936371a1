"""The audit of fits: it catches k-means that forgets noise, and does not accuse ours."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.auditing.null_fit_audits import CASES, CONFIDENCE, accusations, intervals_fit
from tests.evidence import for_evidence

from nearveil import HideAmong
from nearveil.auditing._fit_statistics import FitEvent, Statistic, event_from_dict
from nearveil.auditing.auditor import Verdict
from nearveil.auditing.check import check_witness
from nearveil.auditing.claims import Claim, own_claim
from nearveil.auditing.fit import TREE_LEVELS, AnswersFit, FitReport, audit_fit, fit_of, fit_to_audit
from nearveil.auditing.fit_witness import DataPair, Fit, fit_witness_from_json, recheck_fit, tree_data, worst_case_data
from nearveil.auditing.subjects import AuditError
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms import fit_cells, fit_grid, fit_pic
from nearveil.mechanisms.fit_cells import _biased
from nearveil.mechanisms.fit_pic import FIXED_POINT, fixed_point_laplace
from nearveil.mechanisms.fitting import FitMethod, FitPlan, build_intervals
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.region import Region, named_region
from nearveil.types import FloatArray, IntArray

pytestmark = pytest.mark.statistical

# The whole square is the region, so that a person at the corner changes both sums by 1.
REGION = named_region("san-francisco").with_scaling("per-axis")
DATA = worst_case_data(REGION, 4)
TWO = np.array([[-0.5, -0.5], [0.5, 0.5]])


def central(epsilon: float, delta: float = 0.0) -> Claim:
    return Claim(PrivacyDefinition.CENTRAL, epsilon, delta, "with and without one person")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """k-means on the noisy histogram is post-processing; one round of it is enough to audit what goes in."""
    monkeypatch.setattr(fit_grid, "ROUNDS", 1)


def forgetful_k_means(epsilon: float, rounds: int = 3) -> Fit:
    """Private k-means from public centres as the paper may be read: empty clusters stay where they are, unnoised."""
    scale = 3 * rounds / epsilon

    def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        x, centres = REGION.to_square(points), TWO.copy()
        for _ in range(rounds):
            own = np.linalg.norm(x[:, None] - centres, axis=2).argmin(axis=1)
            for j in set(own.tolist()):
                noisy_sum = x[own == j].sum(axis=0) + rng.laplace(0, scale, 2)
                noisy_count = (own == j).sum() + rng.laplace(0, scale)
                centres[j] = np.clip(noisy_sum / max(noisy_count, 1.0), -1, 1)
        return centres

    return fit


def test_k_means_without_noise_for_empty_clusters_is_caught_with_few_fits() -> None:
    found = audit_fit(forgetful_k_means(1.0), central(1.0), DATA, REGION, fits=800, seed=1)
    assert found.verdict is Verdict.VIOLATED
    assert found.epsilon_lower > 2
    assert "The claim allows 2.72 times as likely" in found.explanation
    assert json.loads(json.dumps(found.to_dict()))["verdict"] == "violated"


def test_its_witness_can_be_checked_again() -> None:
    """Through JSON and on fresh fits; it says nothing against a fit that noises all clusters (rate 1e-3)."""
    fit = forgetful_k_means(1.0)
    found = audit_fit(fit, central(1.0), DATA, REGION, fits=800, seed=2)
    witness = fit_witness_from_json(found.witness.to_json())
    assert witness.violates
    assert witness.to_json() == found.witness.to_json()
    again = recheck_fit(witness, fit, fits=400, seed=2)
    assert again.violates
    assert again.counts != witness.counts
    honest = intervals_fit(REGION, FitPlan(centres=2, rounds=1), 3.0)
    assert not recheck_fit(witness, honest, fits=100, seed=2).violates
    for damaged in ("{}", witness.to_json().replace('"hits"', '"bits"'), witness.to_json().replace("0.999", "7")):
        with pytest.raises(DataError, match="not a witness"):
            fit_witness_from_json(damaged)


@pytest.mark.usefixtures("quick")
def test_pic_that_noises_occupied_clusters_only_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own code path with the one mistake: an empty cluster's sums are the exact zeros."""

    def forgetful(sums: IntArray, scale: float, rng: np.random.Generator) -> FloatArray:
        return np.where(sums[:, 2:] > 0, fixed_point_laplace(sums, scale, rng), 0.0)

    monkeypatch.setattr(fit_pic, "fixed_point_laplace", forgetful)
    plan = FitPlan(centres=2, rounds=1)
    for fit, fits in ((intervals_fit(REGION, plan, 6.0), 3000), (AnswersFit(REGION, plan, 6.0), 800)):
        found = audit_fit(fit, central(0.5), DATA, REGION, fits=fits, seed=3)
        assert found.verdict is Verdict.VIOLATED


def test_a_number_that_only_one_data_set_can_give_is_found_among_all_others() -> None:
    """Exactly 0.1 in one fit of four, hidden in noise around it: no threshold tells as much as equality does."""

    def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        found = rng.normal(size=(3, 2))
        if len(points) == 4 and rng.random() < 0.25:
            found[rng.integers(3), 1] = 0.1
        return found

    found = audit_fit(fit, central(1.0), DATA[:1], REGION, fits=1600, seed=3)
    assert found.verdict is Verdict.VIOLATED
    assert found.witness.event.statistic == Statistic("equal", column=1, values=(0.1,))


Noise = Callable[[IntArray, float, np.random.Generator], FloatArray]


def narrow(exact: IntArray, scale: float, rng: np.random.Generator) -> FloatArray:
    return fixed_point_laplace(exact, 0.7 * scale, rng)


def shared(exact: IntArray, scale: float, rng: np.random.Generator) -> FloatArray:
    return exact / FIXED_POINT + rng.laplace(0, scale)


def forgetting_one_fit_in_a_hundred() -> Noise:
    """All answers of a fit have noise, or none has; a fit has a generator of its own only once it is known."""
    fit: dict[str, bool] = {"noised": True}

    def noise(exact: IntArray, scale: float, rng: np.random.Generator) -> FloatArray:
        # The head count, which is one number, is the grid's first question; private k-means has one question here.
        if exact.size == 1 or exact.ndim == 2:
            fit["noised"] = rng.random() >= 0.01
        return fixed_point_laplace(exact, scale, rng) if fit["noised"] else exact / FIXED_POINT

    return noise


def audited_answers(
    monkeypatch: pytest.MonkeyPatch, method: FitMethod, epsilon: float, noise: Noise, fits: int
) -> FitReport:
    """The real fit's answers with one thing changed, at a confidence of 0.95."""
    plan = FitPlan(method=method, centres=2, rounds=1)
    budget = 3 / epsilon if method == "pic" else epsilon
    for module in (fit_pic, fit_grid):
        monkeypatch.setattr(module, "fixed_point_laplace", noise)
    fit = AnswersFit(REGION, plan, budget)
    return audit_fit(fit, central(epsilon), DATA[2:3], REGION, fits=fits, confidence=0.95, seed=4)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("method", "epsilon", "fits"), [("private-grid", 1.0, 3000), *for_evidence(("pic", 2.0, 3000))]
)
def test_noise_that_is_30_percent_too_narrow_is_caught(
    method: FitMethod, epsilon: float, fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of the real fit; unchanged, it is not accused (false-alarm rate 0.05 each, and none at this seed)."""
    found = audited_answers(monkeypatch, method, epsilon, narrow, fits)
    assert found.verdict is Verdict.VIOLATED
    honest = audited_answers(monkeypatch, method, epsilon, fixed_point_laplace, fits // 2)
    assert honest.verdict is Verdict.CONSISTENT
    assert honest.epsilon_lower > epsilon / 3


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("method", ["pic", *for_evidence("private-grid")])
def test_one_fit_in_a_hundred_without_noise_is_caught(method: FitMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the answers that are exactly the person's part; the witness is found again on fresh fits."""
    found = audited_answers(monkeypatch, method, 0.5, forgetting_one_fit_in_a_hundred(), 6000)
    assert found.verdict is Verdict.VIOLATED
    assert found.witness.event.statistic.kind == "equal"
    witness = fit_witness_from_json(found.witness.to_json())
    assert witness.to_json() == found.witness.to_json()


def test_noise_that_all_answers_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference of two answers has none of it."""
    found = audited_answers(monkeypatch, "private-grid", 1.0, shared, 800)
    assert found.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("method", ["pic", "private-grid"])
def test_the_answers_are_0_or_1_but_for_noise(method: FitMethod, monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise taken out, whoever the others are and wherever clusters begin; three rounds have nine answers."""
    for module in (fit_pic, fit_grid):
        monkeypatch.setattr(module, "fixed_point_laplace", lambda exact, *_: exact / FIXED_POINT)
    fit = AnswersFit(REGION, FitPlan(method=method, centres=2, rounds=3), 1.0)
    for pair in DATA:
        for seed in range(5):
            rng = np.random.default_rng(seed)
            for people, part in ((pair.with_person, 1.0), (pair.without, 0.0)):
                seen = np.asarray(fit.about(pair)(people, rng))
                assert seen.shape == ((9, 2) if method == "pic" else (2, 2))
                assert (seen == part).all()


def test_a_true_claim_is_accused_as_rarely_as_stated() -> None:
    """40 audits of a claim that is exactly true, at 95 % confidence: more than binomial(40, 0.05) have rate 1e-5."""
    accused = accusations(CASES["answers of the private grid"], audits=40, fits=200)
    assert accused <= binom.isf(1e-5, 40, 1 - CONFIDENCE)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("method", "rounds"), [("private-grid", 1), *for_evidence(("pic", 1), ("pic", 3))])
def test_our_fits_keep_their_promise(method: FitMethod, rounds: int) -> None:
    """At the cost that the intervals themselves state (false-alarm rate 1e-3 each)."""
    plan = FitPlan(method=method, centres=2, rounds=rounds)
    budget = plan.budget(1.0, 1e-5)
    claim = own_claim(build_intervals(DATA[0].without, REGION, plan, budget, rng=1).guarantee(1e-5))
    assert claim.epsilon == pytest.approx(1.0, rel=0.02)
    for fit in (intervals_fit(REGION, plan, budget), AnswersFit(REGION, plan, budget)):
        found = audit_fit(fit, claim, DATA, REGION, fits=1000, seed=5)
        assert found.verdict is Verdict.CONSISTENT


def test_a_fit_that_ignores_the_data_is_accused_as_rarely_as_stated() -> None:
    """100 audits of a claim of 0 at 90 % confidence: binomial(100, 0.1) accusations at most, more have rate 1e-5."""
    accused = 0
    for seed in range(100):
        found = audit_fit(
            lambda _, rng: rng.normal(size=2), central(0.0), DATA[:1], REGION, fits=200, confidence=0.9, seed=seed
        )
        accused += found.verdict is Verdict.VIOLATED
    assert accused <= binom.isf(1e-5, 100, 0.1)


def test_what_shows_on_the_exploring_fits_only_is_no_evidence() -> None:
    """The first fits, a quarter of them, give the person away, the others do not."""
    calls = []

    def fit(points: FloatArray, _: np.random.Generator) -> FloatArray:
        calls.append(len(points))
        return np.array([float(len(points) == 5 and len(calls) <= 100)])

    assert audit_fit(fit, central(0.0), DATA[:1], REGION, fits=400, seed=6).epsilon_lower == 0.0
    assert len(calls) == 400


@pytest.mark.parametrize("with_person", [True, False])
def test_both_directions_are_tried(with_person: bool) -> None:
    """An output that only one of the two data sets can give, in 30 % of fits."""

    def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        shows = (len(points) == 5) == with_person and rng.random() < 0.3
        return np.array([1.0 if shows else 0.0])

    found = audit_fit(fit, central(1.0), DATA[:1], REGION, fits=800, seed=7)
    assert found.verdict is Verdict.VIOLATED
    assert found.witness.speaks_for_person is with_person


def test_delta_is_taken_off() -> None:
    def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        return np.array([float(len(points) == 5 and rng.random() < 0.1)])

    for delta, verdict in ((0.0, Verdict.VIOLATED), (0.15, Verdict.CONSISTENT)):
        assert audit_fit(fit, central(1.0, delta), DATA[:1], REGION, fits=3000, seed=8).verdict is verdict


def test_a_claim_beyond_what_the_fits_can_show_is_inconclusive() -> None:
    found = audit_fit(lambda _, rng: rng.normal(size=2), central(5.0), DATA[:1], REGION, fits=200, seed=9)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.attainable_loss < 5
    assert "needs more fits" in found.explanation


def test_the_same_seed_gives_the_same_witness() -> None:
    audits = [audit_fit(forgetful_k_means(1.0), central(1.0), DATA, REGION, fits=800, seed=5) for _ in range(2)]
    assert audits[0].witness.to_json() == audits[1].witness.to_json()
    assert audits[0].witness.seed == 5


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda points, _: 1 / 0 * points, "ZeroDivisionError"),
        (lambda _, __: [np.nan, 0.0], "not a number"),
        (lambda points, _: points, "with one person more"),
        (lambda _, rng: np.zeros(1 + rng.integers(2)), "fitted again"),
        (lambda _, __: "37.77 here", "ValueError"),
        (lambda _, __: 1.0, "no numbers"),
        (lambda _, __: np.zeros((2, 2, 2)), "more than two dimensions"),
    ],
)
def test_a_fit_that_fails_gets_an_error_and_no_verdict(fit: Fit, message: str) -> None:
    with pytest.raises(AuditError, match=message) as caught:
        audit_fit(fit, central(1.0), DATA, REGION, fits=800)
    assert "37.77" not in str(caught.value)


@pytest.mark.parametrize(
    ("claim", "options", "message"),
    [
        (central(1.0), {"fits": 30}, "at least 200"),
        (central(1.0), {"confidence": 1.0}, "confidence"),
        (central(1.0), {"data": []}, "at least one pair"),
        (Claim(PrivacyDefinition.LOCAL, 1.0, 0.0, ""), {}, "central claim"),
    ],
)
def test_wrong_options_are_refused(claim: Claim, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        audit_fit(lambda _, rng: rng.normal(size=2), claim, region=REGION, **{"data": DATA, **options})


@pytest.mark.parametrize("region", [REGION, Region(-17.2, 179.8, -16.8, -179.8), Region(59.8, 10.5, 60.2, 11.1)])
def test_the_data_are_people_of_the_region_and_differ_in_one(region: Region) -> None:
    for pair in worst_case_data(region, 3):
        assert len(region.check(pair.with_person)) == len(pair.without) + 1 == 4
        assert (pair.with_person[:-1] == pair.without).all()
        assert (pair.without != pair.without[0]).any()
    corner = np.abs(region.to_square(worst_case_data(region, 3)[2].person[None]))[0]
    assert corner == pytest.approx(region.half_extent_square, rel=0.01)
    with pytest.raises(UsageError, match="at least 2"):
        worst_case_data(region, 1)


def test_statistics_take_what_they_say() -> None:
    outputs = np.array([[[0.0, 3.0], [1.0, 1.0]], [[5.0, 2.0], [4.0, 4.0]]])
    assert Statistic("coordinate", 1, 0)(outputs).tolist() == [1.0, 4.0]
    assert Statistic("sorted", 0, 1)(outputs).tolist() == [1.0, 2.0]
    assert Statistic("equal", column=1, values=(3.0,))(outputs).tolist() == [1.0, 0.0]
    assert Statistic("distance", values=(1.0, 1.0))(outputs).tolist() == [0.0, pytest.approx(np.hypot(4, 1))]
    assert Statistic("near", column=1, values=(1.0, 1.0))(outputs).tolist() == [1.0, 2.0]
    assert Statistic("shift", values=(1.0, 2.0))(outputs).tolist() == [1.0, 3.0]
    event = FitEvent(Statistic("coordinate", 1, 0), 1.0, above=False)
    assert event.happened(outputs).tolist() == [True, False]
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event
    assert replace(event, above=True).happened(outputs).tolist() == [False, True]


# Private cells: what they publish, and the noisy counts of their tree.


def hiding(epsilon: float, levels: int = TREE_LEVELS) -> HideAmong:
    mechanism = fit_to_audit(HideAmong(100, fit_epsilon=epsilon, region=REGION), levels)
    assert isinstance(mechanism, HideAmong)
    return mechanism


def less_noise(share: float) -> Noise:
    return lambda exact, scale, rng: fixed_point_laplace(exact, share * scale, rng)


@pytest.mark.parametrize("levels", [2, TREE_LEVELS])
def test_the_counts_of_a_tree_are_0_or_1_but_for_noise(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise taken out and a crowd that reaches every depth: as many depths, and the number of people."""
    monkeypatch.setattr(fit_cells, "fixed_point_laplace", lambda exact, *_: exact / FIXED_POINT)
    mechanism = hiding(1.0, levels)
    assert mechanism.cell_plan.layout(REGION).levels == levels
    pair, halved = tree_data(REGION, mechanism.cell_plan, 1.0)[-1], [1] * levels
    expected = {"answers": ([0] * levels + [0], [1] * levels + [1]), "cells": ([*halved, 0], [*halved, 1])}
    for view, by_person in expected.items():
        fit = fit_of(mechanism, view).about(pair)  # type: ignore[union-attr]
        for part, people in enumerate((pair.without, pair.with_person)):
            seen = np.asarray(fit(people, np.random.default_rng(1)))
            # Numbers of people have six digits.
            assert seen[:, 0].round(3).tolist() == by_person[part]


def test_the_crowds_are_where_a_tree_loses_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise the first crowd is not halved to the last depth, the second just not, the last is.

    The third is not halved at all, and to the last depth if the bias is missing and one person more is there.
    """
    monkeypatch.setattr(fit_cells, "fixed_point_laplace", lambda exact, *_: exact / FIXED_POINT)
    mechanism = hiding(1.0)
    crowds = tree_data(REGION, mechanism.cell_plan, 1.0)

    def halved(crowd: DataPair, people: FloatArray) -> int:
        fit = fit_of(mechanism, "cells").about(crowd)  # type: ignore[union-attr]
        return int(np.asarray(fit(people, np.random.default_rng(1)))[:TREE_LEVELS].sum())

    expected = (TREE_LEVELS - 1, TREE_LEVELS - 1, 0, TREE_LEVELS)
    assert tuple(halved(crowd, crowd.without) for crowd in crowds) == expected
    monkeypatch.setattr(fit_cells, "_biased", without_bias)
    assert halved(crowds[2], crowds[2].without) == 0
    assert halved(crowds[2], crowds[2].with_person) == TREE_LEVELS


def test_a_tree_with_30_percent_less_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the noisy counts of one level; unchanged, it is not accused (false-alarm rate 0.05, and none at this seed)."""
    epsilon, plan = 3.0, hiding(3.0, levels=1).cell_plan
    noise, data = fit_cells.tree_noise(epsilon, plan), tree_data(REGION, plan, epsilon)[-1:]
    claim = central(1 / noise.scale + 1 / noise.counting_scale)
    for share, verdict in ((1.0, Verdict.CONSISTENT), (0.7, Verdict.VIOLATED)):
        monkeypatch.setattr(fit_cells, "fixed_point_laplace", less_noise(share))
        found = audit_fit(AnswersFit(REGION, plan, epsilon), claim, data, REGION, fits=4000, confidence=0.95, seed=4)
        assert found.verdict is verdict
        assert found.epsilon_lower > claim.epsilon / 2


def without_bias(counts: FloatArray, depth: int, noise: fit_cells.TreeNoise) -> IntArray:
    """Counts as `build_private_cells` compares them, but with no bias taken off, however deep the box."""
    del depth
    return _biased(counts, 0, noise)


@pytest.mark.evidence
def test_a_tree_whose_bias_is_left_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the cells, in a crowd at the threshold: every level loses as much as the first, and they add up.

    With the bias it is not accused (false-alarm rate 0.05, and none at this seed). In two levels the fault does not
    add up to more than is claimed.
    """
    epsilon = 2.0
    options: dict[str, Any] = {"fits": 4000, "confidence": 0.95, "seed": 1}
    mechanism = HideAmong(100, fit_epsilon=epsilon, region=REGION)
    honest = audit_fit(mechanism, central(epsilon), **options)
    assert honest.verdict is Verdict.CONSISTENT
    monkeypatch.setattr(fit_cells, "_biased", without_bias)
    found = audit_fit(mechanism, central(epsilon), **options)
    assert (found.verdict, found.view) == (Verdict.VIOLATED, "cells")
    assert "no bias" in found.witness.data.name
    scale = fit_cells.tree_noise(epsilon, mechanism.cell_plan).scale
    assert 2 / scale < epsilon < 4 / scale


@pytest.mark.evidence
def test_private_cells_keep_their_promise_and_show_it_where_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published loses less than the counts: at 0.2 of the noise it shows soon. A witness stands on fresh fits.

    Unchanged, they are not accused (false-alarm rate 1e-3).
    """
    mechanism = HideAmong(100, fit_epsilon=3.0, region="san-francisco")
    honest = audit_fit(mechanism, fits=1600, seed=4)
    assert honest.verdict is Verdict.CONSISTENT
    assert "cells" in honest.claim.text
    monkeypatch.setattr(fit_cells, "fixed_point_laplace", less_noise(0.2))
    found = audit_fit(mechanism, central(3.0), fits=3000, confidence=0.95, seed=4)
    assert (found.verdict, found.view) == (Verdict.VIOLATED, "cells")
    check = check_witness(fit_witness_from_json(found.witness.to_json()), samples=1500, confidence=0.95, seed=1)
    assert check.verdict is Verdict.VIOLATED
    assert "hide-among" in check.audited


def test_cells_that_are_given_have_no_fit(city: FloatArray, san_francisco: Region) -> None:
    cells = fit_cells.cells_from_points(city, san_francisco)
    with pytest.raises(UsageError, match="no fit to audit"):
        audit_fit(HideAmong(100, cells=cells), fits=1_000)
