"""A service of another shape than ours behind an adapter: the example of the docs, and adapters that fail."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from nearveil.attacks.base import Outcome
from nearveil.attacks.oracle import OracleError
from nearveil.attacks.user_search import CHECKS_WITHOUT_RULE
from nearveil.client.adapter import Adapter, Patience, attack_adapter
from nearveil.errors import UsageError
from nearveil.evaluation.attack import AttackOutcome
from nearveil.region import Region
from tests.test_docs import blocks

Write = Callable[[str], Path]

TRUTH = (37.76123, -122.43987)
OTHERS = [(37.7613 + 0.004 * math.sin(n), -122.4399 + 0.004 * math.cos(1.3 * n)) for n in range(1, 30)]


def haversine_km(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Distance on a sphere: a service does not compute as Nearveil does."""
    (a, b), (c, d) = (map(math.radians, place) for place in (one, other))
    chord = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * 6371.0 * math.asin(math.sqrt(chord))


class ToyService(BaseHTTPRequestHandler):
    """Shows how far test-account-7 is, as text; lists people; lets accounts move."""

    moved: dict[str, tuple[float, float]]
    moves: list[tuple[str, object]]

    def do_GET(self) -> None:
        """Answer ``/profile/NAME?at=LAT,LON``, ``/around?at=LAT,LON`` and ``/move/NAME?at=LAT,LON``."""
        url = urlsplit(self.path)
        text = parse_qs(url.query)["at"][0]
        at = None if text == "nowhere" else tuple(float(part) for part in text.split(","))
        if url.path.startswith("/move/"):
            name = url.path.rpartition("/")[2]
            self.moves.append((name, at))
            self.moved.pop(name, None) if at is None else self.moved.update({name: (at[0], at[1])})
            document: object = {}
        elif url.path == "/around":
            people = {"test-account-7": TRUTH, **{f"p{n}": place for n, place in enumerate(OTHERS)}, **self.moved}
            assert at is not None
            here = (at[0], at[1])
            document = sorted(people, key=lambda name: haversine_km(here, people[name]))[:10]
        else:
            assert at is not None
            away = max(1, math.floor(haversine_km((at[0], at[1]), TRUTH) / 1.609344 + 0.5))
            document = {"name": "Test", "subtitle": f"{away} mi away"}
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def toy() -> Iterator[str]:
    ToyService.moved, ToyService.moves = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), ToyService)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Write:
    """Write an adapter under a name of its own: modules are imported once."""
    count = iter(range(100))

    def write(text: str) -> Path:
        name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
        path = tmp_path / f"adapter_{name}_{next(count)}.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def example_of_the_docs(toy: str, page: str = "attacking") -> str:
    (text,) = [body for name, body in blocks("python") if "def distance(" in body and page in str(name)]
    assert "http://127.0.0.1:8765" in text
    return text.replace("http://127.0.0.1:8765", toy)


def test_the_example_of_the_tutorial_finds_the_test_account(toy: str, write: Write, san_francisco: Region) -> None:
    adapter = Adapter(write(example_of_the_docs(toy, "auditing-your-service")), san_francisco)
    assert attack_adapter(adapter, adapter.answers(None), san_francisco, truth=TRUTH).found


def test_the_example_of_the_docs_finds_the_test_account(toy: str, write: Write, san_francisco: Region) -> None:
    """Rounded to the nearest mile on a sphere, never 0: none of this is told to the attack."""
    adapter = Adapter(write(example_of_the_docs(toy)), san_francisco)
    found = attack_adapter(adapter, adapter.answers(None), san_francisco, truth=TRUTH)
    assert found.found
    assert found.questions < 25
    # Nobody has said that the service has a fixed rule.
    assert not found.certified
    fixed = Adapter(write(example_of_the_docs(toy) + "\nfixed_rule = True\n"), san_francisco)
    known = attack_adapter(fixed, fixed.answers(None), san_francisco, truth=TRUTH)
    assert known.certified
    assert known.questions == found.questions - (CHECKS_WITHOUT_RULE - 1)


def lists_of_the_docs(toy: str, accounts: int = 4) -> str:
    (text,) = [body for name, body in blocks("python") if "def move(account" in body and "SERVICE" in body]
    named = 'accounts = ["mine-1", "mine-2", "mine-3", "mine-4"]'
    assert named in text
    fewer = f"accounts = {[f'mine-{number}' for number in range(1, accounts + 1)]}"
    return text.replace("http://127.0.0.1:8765", toy).replace(named, fewer)


@pytest.mark.parametrize(("method", "accounts"), [("gi-lia", 1), ("adaptive", 4)])
def test_lists_behind_an_adapter_are_attacked_with_accounts(
    toy: str, write: Write, san_francisco: Region, method: str, accounts: int
) -> None:
    adapter = Adapter(write(lists_of_the_docs(toy, accounts)), san_francisco)
    answers = adapter.answers(None)
    found = attack_adapter(adapter, answers, san_francisco, truth=TRUTH, target="test-account-7", method=method)
    assert found.found
    assert {name for name, _ in ToyService.moves} == {f"mine-{number}" for number in range(1, accounts + 1)}
    assert ToyService.moved == {}


def test_the_test_account_is_named_and_is_none_of_the_attackers(toy: str, write: Write, san_francisco: Region) -> None:
    adapter = Adapter(write(lists_of_the_docs(toy)), san_francisco)
    answers = adapter.answers(None)
    for target, said in ((None, "target="), ("nobody", "from no place"), ("mine-2", "another test account")):
        with pytest.raises(UsageError, match=said):
            attack_adapter(adapter, answers, san_francisco, truth=TRUTH, target=target)


def located(path: Path, region: Region, answers: str | None = None, patience: Patience | None = None) -> AttackOutcome:
    adapter = Adapter(path, region, patience=patience)
    return attack_adapter(adapter, adapter.answers(answers), region, truth=TRUTH)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def distance(a, b): return '2 km'", r"distance\(\) in adapter_.*\.py did not answer with a distance.*text"),
        ("def distance(a, b): return None", r"distance\(\).*None"),
        ("def distance(a, b): return float('nan')", r"distance\(\).*not a number"),
        ("def distance(a, b): return -3", r"distance\(\).*negative"),
        ("def distance(a, b): return 1 / 0", r"distance\(\) in .* raised ZeroDivisionError"),
        ("def distance(a): return 1", r"distance\(\) in .* must take \(latitude, longitude\)"),
        ("def distance(a, b): return a + 'x'", r"distance\(\) in .* raised TypeError"),
        ("def distance(a, b): raise SystemExit", r"distance\(\) in .* raised SystemExit"),
        ("def distance(a, b): return 1e300", r"distance\(\).*too large"),
        ("def distance(a, b): return 10**400", r"distance\(\).*too large"),
        ("def distance(a, b): raise ConnectionRefusedError", r"distance\(\) in .*; is the service running"),
        (
            "from urllib.error import HTTPError\ndef distance(a, b): raise HTTPError('', 429, '', {}, None)",
            r"distance\(\) in .* raised HTTPError with status 429: .*OutOfQueriesError",
        ),
        ("def band(a, b): return 500", r"band\(\)"),
    ],
)
def test_adapters_that_fail_get_one_sentence_with_the_function(
    write: Write, san_francisco: Region, text: str, reason: str
) -> None:
    with pytest.raises(OracleError, match=reason) as error:
        located(write(text), san_francisco)
    assert "\n" not in str(error.value)
    assert "37." not in str(error.value)


@pytest.mark.parametrize(
    ("text", "answers", "reason"),
    [
        ("", None, "defines none of"),
        ("def within(a, b, r): return True", None, "answers=: filter:1km, filter:5km-fixed or circle:2km$"),
        ("def within(a, b, r): return True", "distance", "needs a function distance"),
        ("def distance(a, b): return 1", "distance:1km", "finds out the steps"),
        ("def distance(a, b): return 1\ndef within(a, b, r): return True", None, "say what to attack"),
        ("import nothing_of_this_name", None, "cannot be loaded"),
        ("raise SystemExit(7)", None, "exits when it is loaded"),
        ("def nearby(a, b): return []\naccounts = 'me'", None, "target="),
    ],
)
def test_adapters_that_do_not_fit_are_refused(
    write: Write, san_francisco: Region, text: str, answers: str | None, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        located(write(text), san_francisco, answers)


@pytest.mark.parametrize(
    ("more", "error", "reason"),
    [
        ("accounts = 'me'", UsageError, "ids as text"),
        ("accounts = ['me']", UsageError, "no function move"),
        ("accounts = ['me', 'me']", UsageError, "twice"),
        ("", UsageError, "unfolding"),
    ],
)
def test_accounts_that_cannot_be_used_are_refused(
    write: Write, san_francisco: Region, more: str, error: type[Exception], reason: str
) -> None:
    adapter = Adapter(write(f"def nearby(a, b): return ['me', 'you']\n{more}"), san_francisco)
    with pytest.raises(error, match=reason):
        attack_adapter(adapter, adapter.answers("list"), san_francisco, truth=TRUTH, target="me")


@pytest.mark.parametrize("answer", ["'ann'", "None", "['ann', 'ann']", "[1.5]", "[1, '1', 'ann']"])
def test_what_is_no_list_is_refused(write: Write, san_francisco: Region, answer: str) -> None:
    adapter = Adapter(write(f"def nearby(a, b): return {answer}"), san_francisco)
    with pytest.raises(OracleError, match=r"nearby\(\).*list of ids"):
        attack_adapter(adapter, adapter.answers(None), san_francisco, truth=TRUTH, target="ann")


def test_a_service_that_limits_questions_ends_the_attack_with_a_radius(write: Write, san_francisco: Region) -> None:
    text = (
        "from nearveil.attacks import OutOfQueriesError\nasked = []\n"
        "def distance(a, b):\n    asked.append(1)\n    if len(asked) > 3: raise OutOfQueriesError('429')\n"
        f"    return ((a - {TRUTH[0]}) ** 2 * 111.0 ** 2 + (b - {TRUTH[1]}) ** 2 * 88.0 ** 2) ** 0.5 // 1\n"
    )
    adapter = Adapter(write(text), san_francisco)
    found = attack_adapter(adapter, adapter.answers(None), san_francisco, truth=TRUTH)
    assert found.result.outcome is Outcome.OUT_OF_QUERIES
    assert not found.certified
    assert found.radius_m is not None
    assert found.error_m is not None
    assert found.error_m <= found.radius_m


def test_a_call_that_fails_midway_leaves_what_was_learned(write: Write, san_francisco: Region) -> None:
    text = (
        "asked = []\ndef distance(a, b):\n    asked.append(1)\n    if len(asked) > 3: raise ConnectionResetError\n"
        f"    return ((a - {TRUTH[0]}) ** 2 * 111.0 ** 2 + (b - {TRUTH[1]}) ** 2 * 88.0 ** 2) ** 0.5 // 1\n"
    )
    adapter = Adapter(write(text), san_francisco)
    found = attack_adapter(adapter, adapter.answers(None), san_francisco, truth=TRUTH)
    assert found.result.outcome is Outcome.OUT_OF_QUERIES
    assert found.questions >= 3
    assert found.error_m is not None
    assert found.radius_m is not None
    assert found.error_m <= found.radius_m
    assert adapter.failure is not None
    assert "raised ConnectionResetError; is the service running?" in adapter.failure


def test_a_service_that_refuses_before_the_attack_begins_is_one_sentence(write: Write, san_francisco: Region) -> None:
    text = (
        "from nearveil.attacks import OutOfQueriesError\nasked = []\naccounts = ['mine']\ndef move(who, a, b): pass\n"
        "def nearby(a, b):\n    asked.append(1)\n    if len(asked) > 3: raise OutOfQueriesError\n    return ['me']\n"
    )
    adapter = Adapter(write(text), san_francisco)
    with pytest.raises(OracleError, match="refused further questions before a place was found"):
        attack_adapter(adapter, adapter.answers(None), san_francisco, truth=TRUTH, target="me")


def test_a_slow_service_ends_the_attack(write: Write, san_francisco: Region) -> None:
    """One call that never returns is an error; calls that take long together end the attack. No test sleeps."""
    hangs = write("import threading\ndef distance(a, b): threading.Event().wait()")
    with pytest.raises(OracleError, match=r"distance\(\) in .* did not return within 0.05 s"):
        located(hangs, san_francisco, patience=Patience(call_s=0.05))
    ticks = iter(range(0, 10_000, 700))
    adapter = Adapter(write("def distance(a, b): return 12"), san_francisco, clock=lambda: float(next(ticks)))
    found = attack_adapter(adapter, adapter.answers(None), san_francisco, truth=TRUTH)
    assert found.result.outcome in (Outcome.OUT_OF_QUERIES, Outcome.CONTRADICTION)
    assert found.questions <= 3
    lists = write("accounts = ['mine']\ndef move(who, a, b): pass\ndef nearby(a, b): return ['me']")
    adapter = Adapter(lists, san_francisco, clock=lambda: float(next(ticks)))
    with pytest.raises(OracleError, match="took too long or refused"):
        attack_adapter(adapter, adapter.answers(None), san_francisco, truth=TRUTH, target="me")


def test_a_file_that_does_not_exist_is_one_sentence(tmp_path: Path, san_francisco: Region) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        Adapter(tmp_path / "nothing.py", san_francisco)
