"""Services of other shapes than ours behind an adapter, and adapters that fail."""

import io
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import numpy as np
import pytest

from nearveil.attacks.adapter import Adapter, adapter, box_around
from nearveil.attacks.base import Outcome
from nearveil.attacks.oracle import OracleError, OutOfQueriesError
from nearveil.errors import UsageError

TRUTH = (52.49123, 13.42401)
Location = tuple[float, float]


def km(one: Location, other: Location = TRUTH) -> float:
    """Distance on a sphere: a service does not compute as Nearveil does."""
    (a, b), (c, d) = (map(math.radians, place) for place in (one, other))
    chord = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * 6371.0 * math.asin(min(math.sqrt(chord), 1.0))


def service(**functions: Any) -> Adapter:
    return Adapter(SimpleNamespace(**functions), "mine.py")


def band(a: float, b: float) -> tuple[float, float]:
    least_m = 500 * math.floor(km((a, b)) / 0.5)
    return least_m, least_m + 500


KINDS: dict[str, dict[str, Any]] = {
    "a distance, in whole numbers as it seems": {"distance": lambda a, b: round(km((a, b)))},
    "a distance": {"distance": lambda a, b: math.ceil(km((a, b)) / 1.609344) + 0.5},
    "a band of distances": {"band": band},
    "yes or no, within a radius": {"within": lambda a, b, radius_m: km((a, b)) * 1000 <= radius_m},
    "yes or no, within a radius of 5,000 m": {"within": lambda a, b, _: km((a, b)) <= 5, "radii_m": [5000]},
    "yes or no, within a radius, one of 480": {
        "within": lambda a, b, radius_m: km((a, b)) * 1000 <= radius_m,
        "radii_m": range(2000, 50_000, 100),
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_answers_about_one_user_give_it_away(kind: str) -> None:
    said, asked = list[str](), list[int]()
    found = service(**KINDS[kind]).attack(TRUTH, on_kind=said.append, on_query=asked.append)
    assert said == [f"Your service answers with {kind}."]
    assert found.error_m is not None
    # The half mile in every answer of the second service is not a rule that the attack knows.
    assert found.error_m < (100 if kind != "a distance" else 20_000)
    assert sum(asked) == found.result.queries <= 60
    # Nobody has said that the service has one fixed rule.
    assert not found.result.certified


def test_an_operator_who_knows_the_rule_gets_a_certificate() -> None:
    assert service(**KINDS["a distance, in whole numbers as it seems"], fixed_rule=True).attack(TRUTH).result.certified


@pytest.mark.parametrize("truth", [(90.0, 7.0), (-89.97, 170.0), (0.0, 180.0), (71.5, -179.999), (-36.8, 174.7)])
def test_services_are_attacked_anywhere_on_earth(truth: Location) -> None:
    found = service(distance=lambda a, b: round(km((a, b), truth))).attack(truth)
    assert found.region.contains([truth])[0]
    assert found.error_m is not None
    # Around a pole the box is less than half of the surroundings.
    assert found.error_m < 100 or abs(truth[0]) > 80


def test_the_box_does_not_tell_where_in_it_the_truth_is() -> None:
    rng, places = np.random.default_rng(1), []
    for _ in range(400):
        box = box_around(TRUTH, rng, 20_000.0)
        places.append((np.array(TRUTH) - box.centre) / (box.height_deg / 2, box.width_deg / 2))
    # Uniform from -0.8 to 0.8 on each axis: five standard errors of the mean, and of each quarter's share.
    for axis in np.array(places).T:
        assert abs(axis.mean()) < 5 * 0.8 / math.sqrt(3 * 400)
        shares = np.histogram(axis, [-0.8001, -0.4, 0.0, 0.4, 0.8001])[0] / 400
        assert abs(shares - 0.25).max() < 5 * math.sqrt(0.25 * 0.75 / 400)


# Services that tell nothing. The attack begins at a list near the truth, and must not take credit for that.


def shuffled_when_very_near(a: float, b: float) -> list[str]:
    others = [f"u{number}" for number in random.Random(f"{a}{b}").sample(range(50), 9)]
    return [*others[:4], "me", *others[4:]] if km((a, b)) < 0.06 else [*others, "x"]


@pytest.mark.parametrize(
    "functions",
    [
        {"distance": lambda *_: 3},
        {"within": lambda *_: True},
        {"within": lambda *_: False},
        {"band": lambda *_: (0, 50_000)},
        {"nearby": lambda *_: ["a", "b", "me", "c", "d", "e"]},
        {"nearby": lambda *_: ["a", "b", "me", "c", "d", "e"], "accounts": ["mine"], "move": lambda *_: None},
        {"nearby": shuffled_when_very_near, "accounts": ["mine"], "move": lambda *_: None},
    ],
)
def test_a_service_that_tells_nothing_gives_nobody_away(functions: dict[str, Any]) -> None:
    found = service(**functions).attack(TRUTH, user="me" if "nearby" in functions else None)
    assert not found.result.certified
    assert found.error_m is None or found.error_m > 100


# Lists.


class Town:
    """Lists the 20 nearest of 300 users, and knows who was moved."""

    def __init__(self, accounts: int) -> None:
        rng = random.Random(3)
        self.users = {f"u{number}": (rng.gauss(52.49, 0.02), rng.gauss(13.42, 0.03)) for number in range(300)}
        self.users["me"] = TRUTH
        self.accounts = [f"mine-{number}" for number in range(accounts)]
        self.moved = list[tuple[str, float | None]]()

    def nearby(self, latitude: float, longitude: float) -> list[str]:
        return sorted(self.users, key=lambda user: km((latitude, longitude), self.users[user]))[:20]

    def move(self, account: str, latitude: float | None, longitude: float | None) -> None:
        self.moved.append((account, latitude))
        self.users.pop(account, None)
        if latitude is None or longitude is None:
            # The attack is over, and its result does not depend on this call.
            raise ConnectionResetError
        self.users[account] = (latitude, longitude)


@pytest.mark.parametrize(("accounts", "method"), [(1, None), (4, None), (1, "gi-lia"), (0, None)])
def test_lists_give_the_user_away(accounts: int, method: str | None) -> None:
    town, said = Town(accounts), list[str]()
    own = adapter(town)
    found = own.attack(TRUTH, user="me", method=method, on_kind=said.append)
    assert own.failure is None
    assert found.error_m is not None
    assert found.error_m < 100
    assert (found.result.attack == (method or "adaptive")) is (accounts > 0)
    assert said == [f"Your service answers with lists of 20 ids; accounts to move: {accounts}."]
    assert {account for account, _ in town.moved} == set(town.accounts)
    assert len(town.users) == 301


@pytest.mark.parametrize(
    ("user", "method", "reason"),
    [
        (None, None, "say which id"),
        ("mine-0", None, "name another one"),
        ("nobody", None, r"nearby\(\) in Town shows the test account from no location near it"),
        ("me", "zo", "there is no attack 'zo'"),
    ],
)
def test_an_attack_on_lists_needs_a_user_who_is_listed(user: str | None, method: str | None, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        adapter(Town(1)).attack(TRUTH, user=user, method=method)


# Adapters that fail. Every error is one sentence with the function that is at fault, and without a location.


@pytest.fixture
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Write an adapter under a name of its own: modules are imported once."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)

    def write(text: str) -> Path:
        path = tmp_path / f"adapter_{name[:80]}.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


BROKEN = [
    (
        "def distance(a, b): return '2 km'",
        r"distance\(\) in adapter_.*\.py returned text; return what it says, such as 3",
    ),
    ("def distance(a, b): return None", r"distance\(\).*None"),
    ("def distance(a, b): return 10**400", r"distance\(\).*too large"),
    ("def distance(a, b):\n    return 1 / 0", r"distance\(\) in .* raised ZeroDivisionError in line 2; call it"),
    ("def distance(a, b): raise ValueError(f'{a},{b}')", r"raised ValueError in line 1; call it by itself"),
    ("def distance(a, b): return distance(a, b)", r"distance\(\) in .* raised RecursionError"),
    ("def distance(a, b): raise ConnectionRefusedError", r"distance\(\) in .*; is the service running\?"),
    ("def distance(a): return 1", r"distance\(\) in .* must take \(latitude, longitude\)"),
    ("def nearby(a, b): return 'me'", r"nearby\(\) in .* must return a list of ids, not a value of type str"),
    ("def nearby(a, b): return list(range(10**6))", r"must return at most 5,000 ids"),
    ("def nearby(a, b): return [{'id': 'me'}]", r'not values of type dict; return the id of each.*user\["id"\]'),
    ("def nearby(a, b): return ['me', 'me']", "and none of them twice"),
    ("x = 1", "defines none of distance, band, within, nearby; define one"),
    ("def distance(a, b): pass\ndef nearby(a, b): pass", "defines distance and nearby; keep one"),
    ("import nothing_of_this_name", "cannot be loaded: raised ModuleNotFoundError in line 1: No module named"),
    ("\nx = [", "cannot be loaded: raised SyntaxError in line 2: '.' was never closed"),
    ("x = 52.49123\nraise ValueError(x)", "cannot be loaded: raised ValueError in line 2; call"),
    ("raise SystemExit(7)", "exits when it is loaded"),
    ("def nearby(a, b): return []\naccounts = 'me'", "must be a list of the ids of your own accounts"),
    ("def nearby(a, b): return []\naccounts = ['a']", r"no function move\(\)"),
    ("def within(a, b, r): return True\nradii_m = [0.1]", "radii_m in .* must be a list of radii in meters"),
]


@pytest.mark.parametrize(("text", "reason"), BROKEN, ids=[f"{number}" for number in range(len(BROKEN))])
def test_a_broken_adapter_is_one_sentence(write: Callable[[str], Path], text: str, reason: str) -> None:
    path = write(text)
    with pytest.raises((OracleError, UsageError), match=reason) as error:
        adapter(path).attack(TRUTH, user="me" if "nearby" in text else None)
    assert "\n" not in str(error.value)
    assert "52." not in str(error.value)
    assert "13.4" not in str(error.value)


def test_a_call_that_hangs_and_a_wrong_truth_are_one_sentence() -> None:
    hangs = Adapter(SimpleNamespace(distance=lambda *_: Event().wait()), "mine.py", call_s=0.05)
    with pytest.raises(OracleError, match=r"distance\(\) in mine.py did not return within 0.05 s"):
        hangs.attack(TRUTH)
    for truth in ((91.0, 0.0), (math.nan, 0.0), (0.0, 181.0)):
        with pytest.raises(UsageError, match="from -90 to 90"):
            hangs.attack(truth)


# Services that refuse, or fail midway.


class RefusedError(Exception):
    """As requests and httpx have it."""

    response = SimpleNamespace(status_code=429)


REFUSALS = [HTTPError("", 429, "", {}, io.BytesIO()), RefusedError(), OutOfQueriesError("enough")]  # type: ignore[arg-type]


def until(last: int, error: Exception, answer: Callable[[float, float], object]) -> Callable[[float, float], object]:
    """Answer a few times, and then raise."""
    left: Iterator[int] = iter(range(last))

    def ask(a: float, b: float) -> object:
        if next(left, None) is None:
            raise error
        return answer(a, b)

    return ask


@pytest.mark.parametrize("error", REFUSALS)
def test_a_service_that_limits_queries_ends_the_attack_with_what_it_knows(error: Exception) -> None:
    limited = service(distance=until(4, error, lambda a, b: round(km((a, b)))))
    found = limited.attack(TRUTH)
    assert (found.result.outcome, limited.failure) == (Outcome.OUT_OF_QUERIES, None)
    assert found.error_m is not None
    assert found.result.radius_m is not None
    assert found.error_m <= found.result.radius_m


def test_a_service_that_refuses_at_once_is_one_sentence() -> None:
    with pytest.raises(OracleError, match=r"distance\(\) in mine.py was refused at once.*wait, and try again"):
        service(distance=until(0, RefusedError(), lambda *_: 3)).attack(TRUTH)
    with pytest.raises(OracleError, match="refused further queries; no location was found by then"):
        service(nearby=until(3, RefusedError(), lambda *_: ["me"])).attack(TRUTH, user="me")


def test_a_call_that_fails_midway_leaves_what_was_learned() -> None:
    broken = service(distance=until(4, KeyError("52.49123"), lambda a, b: round(km((a, b)))))
    found = broken.attack(TRUTH)
    assert found.result.outcome is Outcome.OUT_OF_QUERIES
    assert found.error_m is not None
    assert broken.failure == "distance() in mine.py raised KeyError; call it by itself to see why"
