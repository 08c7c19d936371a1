"""Planning: the setting at which a goal is just met, which is recommended, and what a plan keeps to itself."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.evaluation import plan as planning
from nearveil.evaluation.contenders import Contender, deployable
from nearveil.evaluation.plan import Goal, Plan, plan
from nearveil.evaluation.stats import Share
from nearveil.evaluation.tradeoff import MEANS, SHARES, Sizes
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.guarantee import Guarantee
from nearveil.types import FloatArray

TINY = Sizes(60, 5, 60)
# Meters of a user's neighbors for each meter that the attacker is off, so that noise is the cheapest.
PRICES = {"planar-laplace": 0.5, "among": 2.0, "metric": 0.8, "interval": 0.1}


class Promises(PlanarLaplace):
    """Noise for which nothing is promised."""

    name = "promises nothing"

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.claimed_by_nobody()


@pytest.fixture
def law(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The attacker is off by the noise, by 20 m for each user around, or by 1 km over epsilon, but for some factors."""
    factors = {"fresh": 1.0}

    def measure(made: Contender, value: float, _dataset: object, *, run: int = 0, **_: object) -> dict[str, object]:
        error_m = {"noise_m": value, "hide_among": 20 * value, "epsilon": 1000 / value}[str(made.swept)]
        error_m *= factors["fresh"] if run else 1.0
        price = factors.get(made.name, PRICES.get(made.name, 0.2))
        means = {"recall": math.exp(-error_m / 700), "listed_m": 200 + price * error_m, "nearest_m": 200.0}
        means |= {"error_m": error_m, "ratio": 0.5, "extra_m": 1.0}
        lengths_m = {"found": 400, "named": 200, "named_sparsest": 300}
        shares = {name: math.exp(-error_m / length_m) for name, length_m in lengths_m.items()}
        cases = dict.fromkeys(SHARES.values(), 1_000_000)
        return {**means, **{f"{name}_se": 0.1 for name in MEANS}, **shares, **cases}

    monkeypatch.setattr(planning, "measure", measure)
    return factors


@pytest.fixture
def planned(city: FloatArray, one_core: None) -> Callable[..., Plan]:
    assert one_core is None

    def make(**options: object) -> Plan:
        return plan(city[:400], **{"region": "san-francisco"} | options)  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize(
    ("goal", "noise_m"),
    [
        ({"found": 0.05}, 1198.3),
        ({"found": 2e-4}, 3406.9),  # beyond the grid
        ({"named_sparsest": 0.1}, 690.8),
        ({"named_sparsest": 0.1, "found": 0.5}, 690.8),
    ],
)
def test_the_goal_is_just_met(
    goal: dict[str, float], noise_m: float, planned: Callable[..., Plan], law: dict[str, float]
) -> None:
    assert law
    best = planned(**goal).recommended
    assert best is not None
    assert Goal(goal).met(best)
    # The search aims at 3 % more than the goal, and ends within 2 % of there.
    assert best.value == pytest.approx(noise_m, rel=0.08)
    assert best.value == float(f"{best.value:.3g}")


@pytest.mark.parametrize("fresh", [0.95, 0.8])
def test_what_misses_the_goal_when_measured_again_goes_farther(
    fresh: float, planned: Callable[..., Plan], law: dict[str, float]
) -> None:
    """Fresh runs find more users than the search did; three steps of a tenth are as far as it goes."""
    law["fresh"] = fresh
    found = planned(found=0.4)
    assert found.recommended is not None
    assert found.recommended.estimates["found"].value <= 0.4
    assert found.recommended.value > 370 / fresh * 0.97
    law["fresh"] = 0.5
    missed = planned(found=0.4)
    assert missed.recommended is None
    assert missed.sentence.startswith("No mechanism tried meets the goal; the closest is")


def test_which_is_recommended(
    planned: Callable[..., Plan], law: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cheapest whose guarantee is sound and holds between all locations; one that does not learn, if alike."""
    goal = {"found": 0.08}
    first = planned(**goal, mechanisms=[Promises])
    assert first.rows[0].contender.name == "planar-laplace"
    assert {row.contender.label for row in first.rows} >= {"DPRS, interval", "promises nothing"}
    assert min(first.rows, key=lambda row: row.estimates["listed_m"].value).contender.name == "interval"
    refuted = replace(deployable()[0], sound=False)
    with monkeypatch.context() as patch:
        patch.setattr(planning, "deployable", lambda: (refuted, *deployable()[1:]))
        assert planned(**goal).rows[0].contender.name == "metric"
    law |= {"planar-laplace": 0.81, "metric": 0.8}
    assert planned(**goal).rows[0].contender.name == "planar-laplace"
    law |= {"metric": 0.3}
    assert planned(**goal).rows[0].contender.name == "metric"


def test_a_goal_that_may_be_met_by_chance_says_so(planned: Callable[..., Plan], law: dict[str, float]) -> None:
    assert law
    found = planned(found=0.4)
    row = found.rows[0]
    assert (found.verdict(row), found.to_dict()["cautions"]) == ("met", ())
    row.estimates["found"] = Share(0.39, 0.35, 0.43)
    assert found.verdict(row) == "met (may be chance)"
    [caution] = found.to_dict()["cautions"]
    assert "may be chance" in caution
    weak = replace(found, rows=(replace(row, contender=replace(row.contender, between_all_places=False)),))
    assert "within an interval only" in weak.to_dict()["cautions"][0]


def test_without_a_goal_settings_are_compared(planned: Callable[..., Plan], law: dict[str, float]) -> None:
    assert law
    found = planned(k=5)
    assert {50.0, 200.0, 500.0, 1500.0} <= {row.value for row in found.rows}
    # The least noise of these that names at most a tenth of the sparsest tenth, and its price.
    assert found.rows[0].name == "DPRS, metric, noise of 800 m"
    assert "finds 14 % of users within 100 m and names 6.9 % of the sparsest tenth" in found.sentence
    assert "the 5 users listed are on average 840 m away instead of 200 m" in found.sentence
    alone = planned(region=None)
    assert {row.contender.name for row in alone.rows} == {"planar-laplace"}
    assert "--region" not in alone.command


def test_a_mechanism_that_these_users_cannot_have_is_left_out(
    planned: Callable[..., Plan], law: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    works = vars(planning)["measure"]

    def measure(made: Contender, *rest: Any, **options: Any) -> Any:
        if made.swept == "hide_among":
            raise UsageError("the cells hold too few users")
        return works(made, *rest, **options)

    monkeypatch.setattr(planning, "measure", measure)
    found = planned(found=0.4)
    assert any("the cells hold too few users" in line for line in found.left_out)
    assert found.recommended is not None


def test_few_users_and_what_cannot_be_asked(
    city: FloatArray, planned: Callable[..., Plan], law: dict[str, float]
) -> None:
    assert law
    few = plan(city[:60], region="san-francisco")
    assert few.left_out == ("among, PrivTree: 60 users are too few",)
    with pytest.raises(DataError, match="40 users"):
        plan(city[:40])
    for options in ({"found": 1.0}, {"named_sparsest": 0.0}, {"k": 0}, {"k": 101}, {"seed": -1}, {"users_in_total": 9}):
        with pytest.raises(UsageError):
            planned(**options)


def test_a_plan_shows_no_location(city: FloatArray, one_core: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert one_core is None
    monkeypatch.setattr(planning, "FINAL", TINY)
    found = plan(city[:80], seed=1)
    assert repr(found).startswith("Plan(No mechanism tried meets the goal; the closest is planar Laplace")
    for shown in (repr(found), found._repr_html_(), json.dumps(found.to_dict())):
        assert not any(f"{latitude:.6f}"[:8] in shown for latitude in city[:80, 0])
    assert "no guarantee covers it" in found._repr_html_()


def test_a_sample_is_measured_as_the_city_that_it_is_of(
    city: FloatArray, planned: Callable[..., Plan], law: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert law
    assert "if they are a sample, give users_in_total=" in planned().warnings[-1]
    whole = planned(users_in_total=4_000)
    # The others of the sample repeat a location, or fall together in the last digits.
    assert len(whole.dataset.places) == pytest.approx(4_000, abs=5)
    assert not whole.warnings
    monkeypatch.setattr(planning, "MOST_GROWN", 1_000)
    assert "measured as a city of 1,000 users; in one of 4,000" in planned(users_in_total=4_000).warnings[-1]
    # Of users of two cities the densest is measured, and stands for as large a part of all.
    far = np.vstack([city[:300], city[:100] + np.array([10.0, 0.0])])
    two = plan(far, users_in_total=1_000)
    assert "densest area: 298 of 400 users" in two.warnings[0]
    assert len(two.dataset.places) == pytest.approx(745, abs=5)


@pytest.mark.evidence
def test_a_plan_on_a_sample_comes_close_to_the_plan_on_all_users(
    figure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan on a sample of 3,000 of 20,000 users with users_in_total comes close to the plan on all of them."""
    monkeypatch.setattr(planning, "deployable", lambda: (replace(deployable()[0], values=(500.0,)),))
    monkeypatch.setattr(planning, "FINAL", Sizes(2_000, 1_000, 500))
    rng = np.random.default_rng(1)
    users = rng.normal([35.7, 139.7], 0.03, (20_000, 2))
    sample = users[rng.choice(len(users), 3_000, replace=False)]
    truth, alone, estimate = (
        plan(each, users_in_total=total, seed=2).rows[0].estimates
        for each, total in ((users, None), (sample, None), (sample, 20_000))
    )
    assert estimate["found"].value == pytest.approx(truth["found"].value, rel=0.3)
    assert alone["found"].value >= 1.7 * truth["found"].value
    for name in ("listed_m", "nearest_m"):
        assert estimate[name].value == pytest.approx(truth[name].value, rel=0.1)
    for name, one in (("all", truth), ("sample", alone), ("sample, users_in_total", estimate)):
        figure(f"found within 100 m, {name}", one["found"].value)
