"""The attack with a stolen key or token: finds people where anything tells, and nobody more where nothing does."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nearveil.cli.attack_service import stolen_notes, stolen_table
from nearveil.client.guessing import City, Rules, Victim
from nearveil.client.http import Client
from nearveil.client.stolen_key import (
    Stolen,
    StolenAudit,
    StolenKeyAudit,
    StolenPlan,
    Strategy,
    StrategyResult,
)
from nearveil.client.telltales import Telltales, changes, flattened, metric_values
from nearveil.errors import UsageError
from nearveil.nearby.publishing.keys import new_keys
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import Region
from nearveil.server.auth import new_platform_key
from nearveil.server.service import Service
from nearveil.server.settings import Settings
from tests.client.protected_stub import ProtectedStub
from tests.client.stub_service import KEY, StubService
from tests.server.console_service import served

EDGES = "37.70,-122.50,37.79,-122.39"
TOWN = Region(37.70, -122.50, 37.79, -122.39)
PEOPLE = 16


def attack(client: Client, **options: Any) -> StolenAudit:
    plan = StolenPlan(**{"people": PEOPLE, "controls": 8, "seed": 3, **options})
    done: list[int] = []
    found = StolenKeyAudit(client, plan, pause=lambda _: None).run(done.append)
    assert sum(done) == plan.steps
    return found


def stub(tells: str) -> ProtectedStub:
    return ProtectedStub(TOWN, tells=tells)


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tells", ["answer", "export", "ledger", "metrics"])
def test_whatever_tells_is_found(tells: str) -> None:
    """Nine in ten people are found, and one in 16 from the published places: a false alarm once in 1,000."""
    service = stub(tells)
    found = attack(service.client(), strategies=[Strategy.ANSWERS])
    [row] = found.rows
    assert row.found_after >= 9
    assert row.found_before <= 5
    assert (row.tells, found.tells, found.document()["verdict"]) == (True, True, "guesses tell")
    assert any(name.startswith(tells.removesuffix("s")) for name in row.told)
    assert "Verdict: guesses find more people" in stolen_notes(found)
    assert np.median(row.requests) <= 60
    assert service.people == {}


def test_a_token_shows_answers_and_the_own_export_alone() -> None:
    for tells, is_found in (("answer", True), ("export", True), ("ledger", False), ("metrics", False)):
        service = stub(tells)
        [row] = attack(service.client(), people=10, strategies=[Strategy.ANSWERS], stolen=Stolen.TOKEN).rows
        assert row.tells is is_found, tells
        by_tokens = [one for one in service.requests if one.url.path.endswith("/location")]
        assert all(one.headers["Authorization"].startswith("Bearer nvt_") for one in by_tokens)
        assert service.people == {}


def test_where_nothing_tells_the_guess_is_that_from_the_published_place() -> None:
    service = stub("")
    found = attack(service.client(), strategies=[Strategy.ANSWERS])
    [row] = found.rows
    assert row.errors_after_m == row.errors_before_m
    assert (row.told, row.tells, set(row.requests)) == ((), False, {26})
    assert "Verdict: guesses find no more people" in stolen_notes(found)
    # Times are noted for right and wrong guesses, and not used.
    assert row.seconds_right is not None
    assert row.seconds_wrong is not None


def test_nothing_is_learnt_from_chance() -> None:
    """Features at random, 50 times, each fooled with a probability of 0.001 at most: two or more have 0.0013."""
    rng = np.random.default_rng(1)
    fooled = 0
    for _ in range(50):
        seen = [
            (bool(rng.random() < 0.5), {f"f{number}": str(rng.integers(3)) for number in range(20)}) for _ in range(160)
        ]
        telltales = Telltales(seen)
        fooled += bool(telltales.names)
        if not telltales.names:
            right, wrong = telltales.likelihood({"f0": "1"})
            assert (right, wrong) == (1.0, 1.0)
    assert fooled <= 1


def test_what_changed() -> None:
    before = flattened({"a": {"b": 1, "c": None}, "d": [1, 2], "e": "x"})
    after = flattened({"a": {"b": 3, "c": {"r": 1}}, "d": [1], "e": "y"})
    assert before == {"a.b": 1, "a.c": None, "d.length": 2, "e": "x"}
    assert changes(before, after) == {"a.b": "+2", "a.c.r": "new", "d.length": "-1", "e": "other"}
    assert changes(after, before) == {"a.b": "-2", "a.c.r": "gone", "d.length": "+1", "e": "other"}
    text = '# HELP x\na_total{b="c d"} 2.0\nq_seconds_sum 5\nq_seconds_bucket{le="1"} 5\na_created 9e9\n'
    assert metric_values(text) == {'a_total{b="c d"}': 2.0}


# -- guessing ----------------------------------------------------------------------------------------------------------

RULES = Rules(noise_m=500.0, new_places=6, dwell_epochs=2)


class Model:
    """A service in a few lines, by the same rules as the attacker thinks that it has."""

    def __init__(self, rules: Rules, home_m: tuple[float, float], rng: np.random.Generator) -> None:
        self.rules, self.rng, self.drawn = rules, rng, 1
        self.most = rules.new_places if rules.returns_when_spent else self.a_budget()
        self.home = rules.grid.cells_near(*home_m)[0]
        self.points = {self.home: self.fresh(self.home)}
        self.now = self.home
        self.first = self.points[self.home]

    def a_budget(self) -> int:
        return int(self.rng.integers(self.rules.least_places, self.rules.new_places + 1))

    def begin_window(self) -> None:
        self.drawn, self.most = 0, self.a_budget()

    def fresh(self, cell: Any) -> tuple[float, float]:
        length, angle = self.rng.gamma(2.0, 250.0), self.rng.uniform(0, 2 * np.pi)
        x, y = self.rules.grid.centre_of(cell)
        return x + length * np.cos(angle), y + length * np.sin(angle)

    def report(self, spot: tuple[float, float]) -> tuple[float, float]:
        near = self.rules.grid.cells_near(*spot)
        if self.now not in near:
            looked = near if self.rules.known_cells_attract else near[:1]
            cell = next((cell for cell in looked if cell in self.points), near[0])
            spent = self.drawn >= self.most
            if cell in self.points and (not spent or self.rules.returns_when_spent):
                self.now = cell
            elif cell not in self.points and not spent:
                point, earlier = self.fresh(cell), list(self.points.values())
                oldest = next((one for one in earlier if math.dist(one, point) <= 750.0), point)
                self.points[cell] = oldest
                self.now, self.drawn = cell, self.drawn + 1
        return self.points[self.now]


@pytest.fixture(scope="module")
def city() -> City:
    rng = np.random.default_rng(5)
    return City(TOWN, RULES.grid, rng.uniform(-1, 1, (4000, 2)) * np.array(TOWN.half_extent_m))


def guessed(
    city: City, rules: Rules, rng: np.random.Generator, *, guesses: int = 90, windows: int = 1
) -> tuple[bool, bool, Victim]:
    """Whether one person is found within 100 m before and after guesses, by a service with these rules."""
    home = tuple((rng.uniform(-0.6, 0.6, 2) * np.array(TOWN.half_extent_m)).tolist())
    model = Model(rules, home, rng)
    victim = Victim("ann", city, rules, model.first, rng)
    before, _ = victim.belief.best_guess(100.0)
    for turn in range(windows):
        if turn:
            model.begin_window()
            victim.begin_window()
        for _ in range(guesses):
            guess = victim.choose()
            if guess is None:
                break
            victim.observe(guess, model.report(guess.spot))
            assert victim.belief.mass([model.home]) > 0, "the true cell was ruled out"
    after, _ = victim.belief.best_guess(100.0)
    found = [bool(np.hypot(spot[0] - home[0], spot[1] - home[1]) <= 100.0) for spot in (before, after)]
    return found[0], found[1], victim


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("returns", "attracts", "least"), [(True, True, 0.7), (True, False, 0.5), (False, True, 0.0), (False, False, 0.0)]
)
def test_patience_finds_what_the_rules_give_away(city: City, returns: bool, attracts: bool, least: float) -> None:
    """The true cell is never ruled out. Where 0.9 (or 0.75) are to be found, 30 people fall below once in 1,000."""
    rules = replace(RULES, returns_when_spent=returns, known_cells_attract=attracts)
    rng = np.random.default_rng(7)
    found = [guessed(city, rules, rng) for _ in range(30)]
    assert np.mean([after for _, after, _ in found]) >= least
    assert np.mean([before for before, _, _ in found]) < 0.3
    # One more than are drawn, if the own cell is among them; more where known cells attract.
    assert attracts or all(victim._counted <= rules.new_places + 1 for *_, victim in found)


def test_a_guess_that_never_counts_tells_nothing(city: City) -> None:
    """A phone that reports: the first guess, far away, is not published, and the attacker sees that."""
    victim = Victim("ann", city, RULES, (0.0, 0.0), np.random.default_rng(1))
    before = victim.belief.weights.copy()
    guess = victim.choose()
    assert guess is not None
    assert np.hypot(*guess.spot) > 3000
    victim.observe(guess, (0.0, 0.0))
    assert (victim.is_blocked, victim.choose()) == (True, None)
    assert (victim.belief.weights == before).all()


def test_the_chance_that_a_wrong_guess_brings_the_point_back(city: City) -> None:
    """Around the point itself, 0.8 of all noise of 500 m is shorter than 750 m: 1 - 4 e^-3. Far away none is near."""
    chances = [
        Victim("ann", city, RULES, (0.0, 0.0), np.random.default_rng(seed))._chance_back((0, 0)) for seed in range(20)
    ]
    # Twenty times 256 draws: 0.006 is one standard deviation.
    assert np.mean(chances) == pytest.approx(1 - 4 * np.exp(-3), abs=0.025)
    assert Victim("ann", city, RULES, (0.0, 0.0), np.random.default_rng(1))._chance_back((40, 0)) < 0.01


# -- a real service ----------------------------------------------------------------------------------------------------


@contextmanager
def serving(**options: Any) -> Iterator[tuple[str, str]]:
    """A service over HTTP: its address, and a platform key."""
    settings = Settings.load(
        None,
        {},
        {"region": EDGES, "test_hooks": True, "questions_per_minute": 0, "key_questions_per_s": 0, "new_places": 4}
        | {"console": False, **options},
    )
    service = Service(settings, SqliteStore.in_memory(), new_keys())
    try:
        service.check()
        secret, kept = new_platform_key("tests")
        service.store.add_key(kept)
        service.start()
        with served(service) as address:
            yield address, secret
        assert service.store.totals().people == 0, "accounts were left behind"
    finally:
        service.close()


@contextmanager
def real_service(**options: Any) -> Iterator[Client]:
    with serving(**options) as (address, secret), Client(address, secret, timeout_s=60.0) as client:
        yield client


@pytest.mark.parametrize("stolen", Stolen)
def test_at_the_defaults_all_guesses_are_refused(stolen: Stolen) -> None:
    """Nothing is found but from what is published, by every strategy that needs no more than to report."""
    strategies = [Strategy.ANSWERS, Strategy.PATIENT, Strategy.BESIDE_PHONES, Strategy.PHONES_RETURN]
    with real_service() as client:
        found = attack(client, people=4, controls=6, strategies=strategies, stolen=stolen)
    assert (found.asks_for_receipts, found.rules.dwell_epochs, found.tells) == (True, 2, False)
    for row in found.rows:
        assert (row.told, row.refused) == ((), sum(row.requests))
        assert row.errors_after_m == row.errors_before_m
        assert f"{row.strategy}: all {row.refused} guesses were refused." in stolen_notes(found)
    assert [set(row.requests) for row in found.rows] == [{26}, {2}, {2}, {2}]
    assert found.document()["strategies"][0]["refused"] == 4 * 26


@pytest.mark.statistical
@pytest.mark.parametrize("stolen", Stolen)
def test_without_receipts_nothing_tells_within_an_epoch_and_nothing_beside_phones(stolen: Stolen) -> None:
    """Each is found with a probability of 0.1 at most: 5 or more of 6 have 6e-5."""
    with real_service(chained_reports="if-sent") as client:
        strategies = [Strategy.ANSWERS, Strategy.BESIDE_PHONES]
        found = attack(client, people=6, controls=6, strategies=strategies, stolen=stolen)
    assert (found.asks_for_receipts, found.rules.dwell_epochs, found.rules.noise_m) == (False, 2, 500.0)
    for row in found.rows:
        assert (row.told, row.tells, row.refused) == ((), False, 0)
        assert row.errors_after_m == row.errors_before_m
        assert row.found_after <= 4
    # A guess far away was tried, in both epochs that a place must last; then everybody was given up.
    assert set(found.rows[1].requests) == {2}


def test_where_places_need_not_last_phones_are_no_help() -> None:
    """The other way round: with a dwell of one epoch, a guess that comes after the phone's report counts."""
    with real_service(dwell=1, new_places=20, chained_reports="if-sent") as client:
        plan = {"people": 4, "patient_guesses": 3, "strategies": [Strategy.BESIDE_PHONES]}
        found = attack(client, **plan)
    assert found.rules.dwell_epochs == 1
    assert min(found.rows[0].requests) > 3


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("strategy", "stolen", "chained_reports"),
    [(Strategy.PATIENT, Stolen.TOKEN, "if-sent"), (Strategy.REVOKE, Stolen.KEY, "always")],
)
def test_a_real_service_tells_nothing_to_the_patient(strategy: Strategy, stolen: Stolen, chained_reports: str) -> None:
    """Each is found with a probability of 0.1 at most: 7 or more of 12 have 5e-5.

    Of a service that tells, 7 or more of 12 are found in 0.999 of all runs at nine in ten, 0.95 at three in four.
    """
    with real_service(chained_reports=chained_reports) as client:
        [row] = attack(client, people=12, strategies=[strategy], stolen=stolen, patient_guesses=60).rows
    assert row.found_after < 7
    # Who has revoked the tokens reports first, and has the chain.
    assert (row.refused, min(row.requests) > 2) == (0, True)


def test_a_real_service_tells_nothing_to_who_creates_people_anew() -> None:
    with real_service() as client:
        found = attack(client, people=4, strategies=[Strategy.RECREATE])
    assert not found.rules.same_noise_anew


# -- results -----------------------------------------------------------------------------------------------------------


def test_figures_by_hand() -> None:
    before, after = (200.0, 50.0, 400.0, 100.0, *[500.0] * 8), (20.0, 150.0, 30.0, 90.0, *[10.0] * 8)
    row = StrategyResult(Strategy.PATIENT, 100.0, before, after, tuple(range(12)), 7)
    assert (row.found_before, row.found_after) == (2, 11)
    # Clopper and Pearson for 2 of 12.
    assert row.interval(2) == pytest.approx((0.0209, 0.4841), abs=1e-4)
    # Ten gained and one lost: of a fair coin 12 in 2,048.
    assert row.tells
    assert not replace(row, errors_after_m=before).tells
    assert not replace(row, errors_before_m=after, errors_after_m=before).tells
    # Six gained and none lost: 1 in 64.
    assert not replace(row, errors_before_m=(200.0,) * 6, errors_after_m=(0.0,) * 6).tells
    found = StolenAudit(stolen=Stolen.KEY, rules=RULES, rows=(row,), tau_m=100.0, accounts=16)
    cells = stolen_table(found).splitlines()[1].split()
    assert (cells[:3], cells[6], cells[-1]) == (["patient", "12", "0.167"], "0.917", "yes")
    document = found.document()
    assert (document["strategies"][0]["found_with_guesses"], document["verdict"]) == (11, "guesses tell")


@pytest.mark.parametrize("options", [{"people": 0}, {"people": 1001}, {"strategies": []}])
def test_impossible_plans(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        StolenPlan(**options)


def test_a_token_creates_nobody() -> None:
    with pytest.raises(UsageError, match="revoke needs the platform key"):
        StolenPlan(stolen=Stolen.TOKEN)


def test_other_protections_are_refused() -> None:
    service = StubService(TOWN)
    with pytest.raises(UsageError, match="noise in metres per place"):
        attack(service.client(KEY))
    assert service.people == {}


def test_windows_that_last_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearveil.client.stolen_key._MOST_EPOCHS_OF_A_WINDOW", 3)
    with real_service(window="30d", new_places=3) as client, pytest.raises(UsageError, match="more than 3 epochs"):
        attack(client, people=1, strategies=[Strategy.PATIENT], windows=2)


@pytest.mark.statistical
def test_where_phones_come_and_go_guesses_tell_if_receipts_are_not_asked_for() -> None:
    """Two of three people are found in 15 days, and one in twenty before.

    Of 12, no more are found after it than before with a probability of about 1e-4.
    """
    with real_service(chained_reports="if-sent") as client:
        found = attack(client, people=12, strategies=[Strategy.PHONES_RETURN], days=15)
    [row] = found.rows
    before, after = (np.sum(np.less(errors_m, row.tau_m)) for errors_m in (row.errors_before_m, row.errors_after_m))
    assert after > before
    assert ("--chained-reports always" in stolen_notes(found)) == row.tells
