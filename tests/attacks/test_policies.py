"""Answer policies: how they are written, and that the simulated service does to lists what they say."""

import numpy as np
import pytest

from nearveil import PlanarLaplace
from nearveil.attacks.oracle import CountedOracle
from nearveil.attacks.policies import PRESETS, AnswerPolicy, preset_or_policy
from nearveil.attacks.simulator import SimulatedService
from nearveil.errors import UsageError
from nearveil.region import Region
from nearveil.types import FloatArray

LINE_M = np.column_stack([np.arange(1, 41) * 30.0, np.zeros(40)])
HERE = (0.0, 0.0)


def oracle(region: Region, policy: str, *, k: int = 10, places_m: FloatArray = LINE_M) -> CountedOracle:
    service = SimulatedService(region, places_m, rng=1, policy=AnswerPolicy.parse(policy))
    return service.oracle(k=k, accounts=1, rng=1)


def test_all_parts_are_read_and_written() -> None:
    text = "snap:100m,bands:500m,cutoff:1000m,at-least:50,drop:0.1,order-noise:0.1,group:5,delay:2"
    policy = AnswerPolicy.parse(text.replace("1000m", "1km"))
    assert str(policy) == text
    assert policy == AnswerPolicy(
        snap_m=100, bands_m=500, cutoff_m=1000, at_least=50, drop=0.1, order_noise=0.1, group=5, delay=2
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no answer policy ''"),
        ("snap:100m,", "there is no answer policy ''"),
        ("shuffle:1", "there is no answer policy 'shuffle'"),
        ("snap", "takes a length"),
        ("snap:wide", "takes a length"),
        ("snap:0.2m", "at least 1 m"),
        ("bands:-5m", "takes a length"),
        ("drop:1", "below 1"),
        ("drop:-0.1", "below 1"),
        ("drop:nan", "takes a number"),
        ("order-noise:7", "from 0 to 1"),
        ("group:2.5", "whole number"),
        ("delay:99999999999999999999", "whole number"),
        ("delay:99999", "whole number from 0"),
        ("drop:0.1,drop:0.2", "given twice"),
        ("at-least:5", "add cutoff"),
    ],
)
def test_what_is_no_policy(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        AnswerPolicy.parse(text)


def test_snapped_people_and_accounts(san_francisco: Region) -> None:
    asked = oracle(san_francisco, "snap:100m")
    asked.put(asked.accounts[0], (40.0, 40.0))
    # On the grid the account is where it is asked from, and so is the first person, 30 m away.
    assert set(asked.nearby(HERE)[:2]) == {"account-0", 0}
    asked.put(asked.accounts[0], (60.0, 40.0))
    assert set(asked.nearby(HERE)[1:5]) == {"account-0", 1, 2, 3}


def test_bands_hide_the_order_within(san_francisco: Region) -> None:
    listed = oracle(san_francisco, "bands:150m", k=9).nearby(HERE)
    assert set(listed[:4]) == {0, 1, 2, 3}
    assert set(listed[4:]) == {4, 5, 6, 7, 8}
    assert list(listed) != sorted(map(int, map(str, listed)))
    assert oracle(san_francisco, "bands:150m", k=9).nearby(HERE) == listed


def test_cutoff(san_francisco: Region) -> None:
    assert oracle(san_francisco, "cutoff:100m").nearby(HERE) == [0, 1, 2]
    assert oracle(san_francisco, "cutoff:100m,at-least:5").nearby(HERE) == [0, 1, 2, 3, 4]
    assert oracle(san_francisco, "cutoff:100m,group:3").nearby(HERE) == [0, 1, 2]
    assert oracle(san_francisco, "cutoff:100m,group:4").nearby(HERE) == []


def test_people_are_left_out_anew_in_each_answer(san_francisco: Region) -> None:
    asked = oracle(san_francisco, "drop:0.25", k=40)
    answers = [asked.nearby(HERE) for _ in range(25)]
    assert all(list(answer) == sorted(map(int, map(str, answer))) for answer in answers)
    # 1,000 draws at 0.25: five standard deviations are 0.07, one false alarm in a million.
    assert abs(1 - np.mean([len(answer) for answer in answers]) / 40 - 0.25) < 0.07
    assert len({tuple(answer) for answer in answers}) == 25


def test_noise_in_the_order_is_a_share_of_the_distance(san_francisco: Region) -> None:
    asked = oracle(san_francisco, "order-noise:0.02", k=40)
    answers = [asked.nearby(HERE) for _ in range(20)]
    # Neighbors near by are far apart for this noise, those at the end are not.
    assert all(answer[:4] == [0, 1, 2, 3] for answer in answers)
    assert any(answer[-10:] != list(range(30, 40)) for answer in answers)


def test_moves_show_after_some_questions(san_francisco: Region) -> None:
    asked = oracle(san_francisco, "delay:2")
    asked.put(asked.accounts[0], HERE)
    assert ["account-0" in asked.nearby(HERE) for _ in range(4)] == [False, False, True, True]
    asked.put(asked.accounts[0], None)
    assert ["account-0" in asked.nearby(HERE) for _ in range(3)] == [True, True, False]


def test_presets(san_francisco: Region) -> None:
    assert set(PRESETS) == {"check-in-500m", "sort-by-distance", "nearest-50-or-30km", "three-decimals"}
    check_in = str(preset_or_policy("check-in-500m").policy)
    listed = oracle(san_francisco, check_in, k=40).nearby(HERE)
    assert set(listed) == set(range(16))
    assert list(listed) != sorted(map(int, map(str, listed)))
    with pytest.raises(UsageError, match=r"there is no policy 'dating'.*three-decimals"):
        preset_or_policy("dating")


def test_only_exact_lists_are_said_to_be_exact(san_francisco: Region) -> None:
    moved = PlanarLaplace(noise_m=500, region=san_francisco, seed=1)
    services = {
        "told": SimulatedService(san_francisco, LINE_M, tells_exact=True),
        "not told": SimulatedService(san_francisco, LINE_M),
        "snapped": SimulatedService(san_francisco, LINE_M, tells_exact=True, policy=AnswerPolicy(snap_m=100.0)),
        "accounts moved": SimulatedService(san_francisco, LINE_M, tells_exact=True, account_mechanism=moved),
    }
    said = [name for name, one in services.items() if one.oracle(k=10, accounts=1).has_exact_lists]
    assert said == ["told"]
