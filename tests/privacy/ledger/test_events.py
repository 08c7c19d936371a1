import dataclasses
import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearveil.privacy.ledger.events import epsilon_at, event_from_bytes, event_to_bytes

from nearveil.errors import DataError, UsageError
from nearveil.privacy.accounting import LaplaceAnswers
from nearveil.privacy.guarantee import Basis, Guarantee, PrivacyDefinition
from nearveil.privacy.ledger import Budget, Event, Fit, GaussianAnswers, Release, sequential_cost

WHEN = datetime(2026, 1, 1, 12, tzinfo=UTC)
GOOD: dict[str, Any] = {
    "who": ("ann",),
    "when": WHEN,
    "definition": PrivacyDefinition.LOCAL,
    "epsilon": 0.5,
    "draw_id": "d1",
}
BUDGET: dict[str, Any] = {"definition": PrivacyDefinition.LOCAL, "epsilon": 1.0, "window": timedelta(days=1)}

BAD_AMOUNTS = [
    -1.0,
    -5e-324,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    math.nextafter(2.2250738585072014e-308, 0),
    10**400,
    "1",
    None,
    True,
    Fraction(1, 3),
    1j,
    np.array([1.0]),
]


@pytest.mark.parametrize("amount", BAD_AMOUNTS, ids=repr)
@pytest.mark.parametrize("name", ["epsilon", "delta"])
@pytest.mark.parametrize("kind", [Release, Fit])
def test_each_bad_amount_is_refused(kind: type[Event], name: str, amount: object) -> None:
    with pytest.raises(UsageError, match=name):
        kind(**{**GOOD, name: amount})
    with pytest.raises(UsageError, match=name):
        Budget(**{**BUDGET, name: amount})


def test_free_events_and_empty_promises_are_refused() -> None:
    with pytest.raises(UsageError, match="greater than 0"):
        Release(**{**GOOD, "epsilon": 0.0})
    for delta in (1.0, 2.0):
        with pytest.raises(UsageError, match="less than 1"):
            Release(**{**GOOD, "delta": delta})


def test_the_least_amount_that_is_accepted_is_the_least_normal_one() -> None:
    least = 2.2250738585072014e-308
    assert Release(**{**GOOD, "epsilon": least, "delta": least}).delta == least
    assert math.copysign(1, Release(**{**GOOD, "delta": -0.0}).delta) == 1
    assert type(Release(**{**GOOD, "epsilon": np.float64(0.5)}).epsilon) is float


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"definition": "global"}, "definition"),
        ({"definition": None}, "definition"),
        ({"who": ()}, "at least one"),
        ({"who": "ann"}, "tuple"),
        ({"who": ("",)}, "person id"),
        ({"who": (" ",)}, "person id"),
        ({"who": (7,)}, "person id"),
        ({"who": ("\ud83d",)}, "person id"),
        ({"who": ("ann", "bob", "ann")}, "once"),
        ({"draw_id": ""}, "draw_id"),
        ({"draw_id": None}, "draw_id"),
        ({"when": datetime(2026, 1, 1)}, "time zone"),
        ({"when": "2026-01-01"}, "time zone"),
        ({"when": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))}, "years"),
        ({"noise": (LaplaceAnswers(1, 1.0),)}, "costs more"),
        ({"noise": (GaussianAnswers(1, 100.0),)}, "costs more"),
        ({"noise": (LaplaceAnswers(1, 2.0),), "definition": PrivacyDefinition.METRIC}, "metric"),
        ({"noise": (LaplaceAnswers(1, 2.0),), "definition": PrivacyDefinition.ELASTIC}, "elastic"),
        ({"noise": ("laplace",)}, "LaplaceAnswers"),
        ({"noise": LaplaceAnswers(1, 2.0)}, "tuple"),
        ({"noise": (GaussianAnswers(0, 2.0),), "delta": 1e-5}, "whole number"),
        ({"noise": (LaplaceAnswers(math.nan, 2.0),), "delta": 1e-5}, "whole number"),  # type: ignore[arg-type]
        ({"noise": (GaussianAnswers(1, math.nan),), "delta": 1e-5}, "scale"),
        ({"noise": (GaussianAnswers(1, 5e-324),), "delta": 1e-5}, "scale"),
    ],
    ids=repr,
)
def test_what_cannot_have_happened_is_refused_in_one_sentence(change: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word) as refused:
        Release(**{**GOOD, **change})
    assert "\n" not in str(refused.value)


def test_only_releases_and_fits_are_events() -> None:
    with pytest.raises(UsageError, match="Release or a Fit"):
        Event(**GOOD)

    class Rumour(Release):
        pass

    with pytest.raises(UsageError, match="not an event"):
        sequential_cost(PrivacyDefinition.LOCAL, [Rumour(**GOOD)])


def test_moments_are_kept_in_utc_and_people_in_order() -> None:
    zone = timezone(timedelta(hours=2))
    event = Release(**{**GOOD, "when": WHEN.astimezone(zone), "who": ("bob", "ann")})
    assert event.when.tzinfo is UTC
    assert event.when == WHEN
    assert event.who == ("ann", "bob")


GUARANTEE = Guarantee(
    title="Every published place",
    definition=PrivacyDefinition.METRIC,
    epsilon=0.004,
    unit="per meter",
    delta=1e-12,
    neighbors="any two places",
    promise="places look alike",
    basis=Basis.THEOREM,
    because="of the noise",
)


def test_an_event_is_made_from_a_guarantee_that_holds() -> None:
    event = Release.under(GUARANTEE, who=("ann",), when=WHEN, draw_id="d1")
    assert (type(event), event.definition, event.epsilon, event.delta) == (
        Release,
        PrivacyDefinition.METRIC,
        0.004,
        1e-12,
    )
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"basis": Basis.REFUTED_CLAIM}, "does not hold"),
        ({"unit": "per row"}, "per row"),
        ({"per_row": True}, "counts rows"),
        ({"offset": 2.0}, "beside that per meter"),
    )
    for change, word in changes:
        with pytest.raises(UsageError, match=word):
            Fit.under(dataclasses.replace(GUARANTEE, **change), who=("ann",), when=WHEN, draw_id="d1")
    with pytest.raises(UsageError, match="counts rows"):
        Fit.under(GUARANTEE.counted_per_row(), who=("ann",), when=WHEN, draw_id="d1")


def test_noise_that_costs_more_than_is_stated_is_refused_with_a_delta_too() -> None:
    """36 answers of scale 1 cost 36 without a delta, and far more than 0.01 at any small one."""
    noise = (LaplaceAnswers(36, 1.0),)
    for delta in (0.0, 1e-12, 1e-5):
        with pytest.raises(UsageError, match="costs more than epsilon"):
            Fit(**{**GOOD, "epsilon": 0.01, "delta": delta, "noise": noise})
    assert Fit(**{**GOOD, "epsilon": epsilon_at(noise, 1e-5), "delta": 1e-5, "noise": noise}).noise == noise


ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(
    kind=st.sampled_from([Release, Fit]),
    who=st.sets(ids, min_size=1, max_size=4),
    when=st.datetimes(timezones=st.just(UTC)),
    definition=st.sampled_from([PrivacyDefinition.CENTRAL, PrivacyDefinition.LOCAL, PrivacyDefinition.INTERVAL]),
    epsilon=st.floats(2.3e-308, 1e308),
    delta=st.just(0.0) | st.floats(2.3e-308, 0.99),
    draw_id=ids,
    noise=st.lists(
        st.builds(LaplaceAnswers, st.integers(1, 99), st.floats(1e-3, 1e6))
        | st.builds(GaussianAnswers, st.integers(1, 99), st.floats(1e-3, 1e6)),
        max_size=3,
    ),
)
def test_written_and_read_again_an_event_is_the_same(kind: type[Event], **values: Any) -> None:
    values["who"] = tuple(values["who"])
    noise, delta = tuple(values["noise"]), values["delta"]
    # Noise that costs more than is stated would be refused.
    values["noise"] = noise if noise and delta and epsilon_at(noise, delta) <= values["epsilon"] else ()
    event = kind(**values)
    line = event_to_bytes(event)
    assert b"\n" not in line
    assert event_from_bytes(line) == event
    assert type(event_from_bytes(line)) is kind


@pytest.mark.parametrize(
    "change",
    [
        (b'"release"', b'"rumour"'),
        (b'"local"', b'"global"'),
        (b'"epsilon":0.5', b'"epsilon":NaN'),
        (b'"epsilon":0.5', b'"epsilon":0.50'),
        (b'"delta":0.0,', b""),
        (b'"noise":[]', b'"noise":[],"more":1'),
        (b"{", b"["),
        (b'"when":"2026', b'"when":"x'),
    ],
)
def test_a_record_that_is_not_understood_is_refused(change: tuple[bytes, bytes]) -> None:
    line = event_to_bytes(Release(**GOOD))
    assert change[0] in line
    with pytest.raises(DataError, match="understand"):
        event_from_bytes(line.replace(*change))
