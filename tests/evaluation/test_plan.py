"""Planning: the setting at which a goal is just met, which is recommended, and what a plan keeps to itself."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nearveil.errors import DataError, UsageError
from nearveil.evaluation import plan as planning
from nearveil.evaluation.contenders import Contender, deployable
from nearveil.evaluation.plan import Effort, Goal, Plan, plan
from nearveil.evaluation.stats import Share
from nearveil.evaluation.tradeoff import MEANS, SHARES, Sizes
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.privacy.guarantee import Guarantee
from nearveil.region import Region
from nearveil.types import FloatArray

TINY = Effort(Sizes(60, 5, 60), Sizes(60, 5, 60), 2, (), 5)
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
def planned(city: FloatArray) -> Callable[..., Plan]:
    def make(goal: Goal | None, **options: object) -> Plan:
        settings = {"region": "san-francisco", "months": [], "cores": 1} | options
        return plan(city[:400], goal, **settings)  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize(
    ("goal", "noise_m"),
    [
        (Goal("attacker-error", 300), 300.0),
        (Goal("attacker-error", 5000), 5000.0),  # beyond the grid
        (Goal("named", 0.05), 599.1),
        (Goal("named-sparsest", 0.1), 690.8),
        (Goal("recall", 0.6), 357.6),
    ],
)
def test_the_goal_is_just_met(goal: Goal, noise_m: float, planned: Callable[..., Plan], law: dict[str, float]) -> None:
    assert law
    best = planned(goal).recommended
    assert best is not None
    assert goal.met(best)
    # The search aims at 3 % more than the goal, and ends within 2 % of there.
    assert best.value == pytest.approx(noise_m, rel=0.08)
    assert best.value == float(f"{best.value:.3g}")


@pytest.mark.parametrize("fresh", [0.95, 0.8])
def test_what_misses_the_goal_when_measured_again_goes_farther(
    fresh: float, planned: Callable[..., Plan], law: dict[str, float]
) -> None:
    """Fresh runs find less error than the search did; three steps of a tenth are as far as it goes."""
    law["fresh"] = fresh
    found = planned(Goal("attacker-error", 300))
    assert found.recommended is not None
    assert found.recommended.estimates["error_m"].value >= 300
    assert found.recommended.value > 305 / fresh * 0.97
    law["fresh"] = 0.5
    missed = planned(Goal("attacker-error", 300))
    assert missed.recommended is None
    assert missed.sentence.startswith("No mechanism tried meets the goal; the closest is")


def test_which_is_recommended(
    planned: Callable[..., Plan], law: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cheapest whose guarantee is sound and holds between all locations; one that does not learn, if alike."""
    goal = Goal("attacker-error", 1000)
    first = planned(goal, mechanisms=[Promises])
    assert first.rows[0].contender.name == "planar-laplace"
    assert {row.contender.label for row in first.rows} >= {"DPRS, interval", "promises nothing"}
    assert min(first.rows, key=goal.price).contender.name == "interval"
    refuted = replace(deployable()[0], sound=False)
    with monkeypatch.context() as patch:
        patch.setattr(planning, "deployable", lambda: (refuted, *deployable()[1:]))
        assert planned(goal).rows[0].contender.name == "metric"
    law |= {"planar-laplace": 0.81, "metric": 0.8}
    assert planned(goal).rows[0].contender.name == "planar-laplace"
    law |= {"metric": 0.3}
    assert planned(goal).rows[0].contender.name == "metric"


def test_a_goal_that_may_be_met_by_chance_says_so(planned: Callable[..., Plan], law: dict[str, float]) -> None:
    assert law
    found = planned(Goal("attacker-error", 300))
    row = found.rows[0]
    assert (found.verdict(row), found.to_dict()["cautions"]) == ("met", ())
    row.estimates["error_m"] = Share(310.0, 280.0, 340.0)
    assert found.verdict(row) == "met (may be chance)"
    [caution] = found.to_dict()["cautions"]
    assert "may be chance" in caution
    weak = replace(found, rows=(replace(row, contender=replace(row.contender, between_all_places=False)),))
    assert "within an interval only" in weak.to_dict()["cautions"][0]


def test_without_a_goal_settings_are_compared(planned: Callable[..., Plan], law: dict[str, float]) -> None:
    assert law
    found = planned(None, k=5)
    assert {50.0, 200.0, 500.0, 1500.0} <= {row.value for row in found.rows}
    # The least noise of these that names at most a tenth of the sparsest tenth, and its price.
    assert found.rows[0].name == "DPRS, metric, noise of 800 m"
    assert "finds 14% of users within 100 m and names 7% of the sparsest tenth" in found.sentence
    assert "the 5 users listed are on average 840 m away instead of 200 m" in found.sentence
    alone = planned(None, region=None)
    assert {row.contender.name for row in alone.rows} == {"planar-laplace"}
    assert "--region" not in alone.command


def test_a_setting_is_looked_up(
    planned: Callable[..., Plan], law: dict[str, float], city: FloatArray, san_francisco: Region
) -> None:
    assert law
    noise = planned(Goal("noise", 437.25))
    assert [row.name for row in noise.rows] == ["planar Laplace, noise of 437.25 m"]
    assert str(Goal("noise", 50_000)) == "noise of 50,000 m"
    assert noise.command.endswith("--mechanism planar-laplace --noise 437.25m")
    assert [text.partition(":")[0] for text in noise.left_out] == ["among, PrivTree", "DPRS, metric", "DPRS, interval"]
    cells: Cells = cells_from_points(city, san_francisco)
    among = planned(Goal("hide-among", 30), cells=cells)
    assert sorted(row.contender.label for row in among.rows) == ["among, PrivTree", "among, cells given"]
    with pytest.raises(UsageError, match="the cells are of the region"):
        planned(Goal("hide-among", 30), cells=cells, region="berlin")


def test_a_mechanism_that_these_users_cannot_have_is_left_out(
    planned: Callable[..., Plan], law: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    works = vars(planning)["measure"]

    def measure(made: Contender, *rest: Any, **options: Any) -> Any:
        if made.swept == "hide_among":
            raise UsageError("the cells hold too few users")
        return works(made, *rest, **options)

    monkeypatch.setattr(planning, "measure", measure)
    found = planned(Goal("attacker-error", 300))
    assert any("the cells hold too few users" in line for line in found.left_out)
    assert found.recommended is not None
    with pytest.raises(UsageError, match="no mechanism can be tried"):
        planned(Goal("hide-among", 20))


def test_few_users_and_bad_goals(city: FloatArray, planned: Callable[..., Plan], law: dict[str, float]) -> None:
    assert law
    few = plan(city[:60], Goal("recall", 0.5), region="san-francisco", months=[], cores=1)
    assert few.left_out == ("among, PrivTree: 60 users are too few",)
    with pytest.raises(DataError, match="40 users"):
        plan(city[:40], Goal("recall", 0.5))
    with pytest.raises(UsageError, match="nobody can be hidden among 500"):
        planned(Goal("hide-among", 500))
    for kind, value, k in (
        ("recall", 1.0, 10), ("recall", 0.5, 0), ("attacker-error", 0.2, 10), ("recall", 0.5, 101), ("noise", 0.5, 10),
        ("hide-among", 1.5, 10), ("named", 0.0, 10), ("exposed", 0.1, 10),
    ):  # fmt: skip
        with pytest.raises(UsageError):
            Goal(kind, value, k)  # type: ignore[arg-type]


def test_a_plan_shows_no_location(city: FloatArray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "QUICK", TINY)
    found = plan(city[:80], Goal("noise", 500), region="san-francisco", quick=True, cores=1, seed=1)
    assert repr(found).startswith("Plan(Recommended: planar Laplace, noise of 500 m:")
    for shown in (repr(found), found._repr_html_(), json.dumps(found.to_dict())):
        assert not any(f"{latitude:.6f}"[:8] in shown for latitude in city[:80, 0])
    assert "no guarantee covers it" in found._repr_html_()
