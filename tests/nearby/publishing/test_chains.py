"""Chains of receipts: whoever does not have the last receipt of a person's phone changes nothing by reporting."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.nearby.stores.kept import everything_kept

from nearveil.nearby.publishing.keys import SecretKeys, new_keys
from nearveil.nearby.publishing.protection import Protection
from nearveil.nearby.publishing.publisher import MOST_GIVEN, Answer, Publisher, Report, Status
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.region import named_region

PARIS = named_region("paris")
Point = tuple[float, float]
HOME, WORK, FAR = (0.0, 0.0), (4500.0, 0.0), (-4500.0, -3000.0)
PLACES = (HOME, WORK, FAR)
NOBODYS = "0" * 24
"""A receipt that no report got."""


class World:
    """A publisher and the phone of one person, who is known as ann."""

    def __init__(self, keys: SecretKeys | None = None, *, always_chained: bool = True) -> None:
        self.now_s = 0.0
        self.store = SqliteStore.in_memory()
        self.publisher = Publisher(
            Protection(region=PARIS),
            keys or new_keys(),
            self.store,
            clock=lambda: self.now_s,
            always_chained=always_chained,
        )
        self.publisher.add_people(["ann"])
        self.last: str | None = None

    def report(self, spot: Point, previous: str | None = None) -> Answer:
        latitude, longitude = PARIS.from_metres(np.array([spot]))[0]
        return self.publisher.report("ann", latitude, longitude, previous=previous)

    def phone(self, spot: Point = HOME) -> Status:
        """Report as a phone does that keeps the last receipt."""
        answer = self.report(spot, self.last)
        self.last = answer.receipt or self.last
        return answer.status

    def next_epoch(self) -> None:
        self.now_s += 3600.0
        self.publisher.publish_due()

    @property
    def held(self) -> dict[str, Any]:
        """Everything that is kept, but for the receipts, which are random."""
        record = everything_kept(self.store, "ann") or {}
        return {name: record[name] for name in record if name not in ("token_mark", "receipt", "chain")}


@pytest.fixture
def chained() -> Iterator[World]:
    """A phone with a chain."""
    world = World()
    assert [world.phone(), world.phone()] == [Status.TAKEN] * 2
    yield world
    world.store.close()


@pytest.mark.parametrize("previous", [None, NOBODYS, ""])
@pytest.mark.parametrize("spot", PLACES)
def test_who_does_not_have_the_receipt_is_refused(chained: World, previous: str | None, spot: Point) -> None:
    before = everything_kept(chained.store, "ann")
    assert chained.report(spot, previous) == Answer(Status.CHAIN_BROKEN)
    assert everything_kept(chained.store, "ann") == before
    assert chained.phone(WORK) is Status.TAKEN


def test_the_first_report_begins_a_chain() -> None:
    world = World()
    assert world.phone() is Status.TAKEN
    assert world.report(FAR).status is Status.CHAIN_BROKEN
    assert world.phone() is Status.TAKEN


def test_a_first_report_with_a_receipt_of_its_own_choosing_may_be_sent_again() -> None:
    """Without one, whoever gets no answer to the first report cannot say that it was theirs."""
    world = World()
    world.last = NOBODYS
    lost = [world.report(HOME, NOBODYS).status for _ in range(3)]
    assert lost == [Status.TAKEN] * 3
    assert world.report(HOME).status is Status.CHAIN_BROKEN
    assert [world.phone(), world.phone()] == [Status.TAKEN] * 2
    assert world.report(HOME, NOBODYS).status is Status.CHAIN_BROKEN


def test_if_chains_are_not_asked_for_reports_without_a_receipt_are_taken_before_one_begins() -> None:
    world = World(always_chained=False)
    assert [world.report(spot).status for spot in PLACES] == [Status.TAKEN] * 3


def test_if_chains_are_not_asked_for_a_receipt_that_is_not_the_last_is_refused_all_the_same() -> None:
    """Whoever reports between two reports of a phone could keep a chain from beginning otherwise."""
    world = World(always_chained=False)
    assert world.phone() is Status.TAKEN
    assert world.report(FAR).status is Status.TAKEN
    assert world.phone() is Status.CHAIN_BROKEN


def test_answers_may_be_lost(chained: World) -> None:
    lost = [chained.report(HOME, chained.last) for _ in range(5)]
    assert {answer.status for answer in lost} == {Status.TAKEN}
    assert chained.phone() is Status.TAKEN
    assert chained.phone() is Status.TAKEN
    # What came before an answer that arrived is used up.
    assert chained.report(HOME, lost[0].receipt).status is Status.CHAIN_BROKEN


@pytest.mark.parametrize("answered", range(MOST_GIVEN))
def test_a_report_that_was_sent_several_times_may_arrive_in_any_order(chained: World, answered: int) -> None:
    """Of reports with one receipt that wait in several processes, the phone gets the answer to any one."""
    answers = [chained.report(HOME, chained.last) for _ in range(MOST_GIVEN)]
    chained.last = answers[answered].receipt
    assert [chained.phone(), chained.phone()] == [Status.TAKEN] * 2
    assert {chained.report(HOME, answer.receipt).status for answer in answers} == {Status.CHAIN_BROKEN}


def test_no_more_receipts_are_kept_than_that(chained: World) -> None:
    answers = [chained.report(HOME, chained.last) for _ in range(MOST_GIVEN + 1)]
    assert chained.report(HOME, answers[0].receipt).status is Status.CHAIN_BROKEN
    assert chained.report(HOME, answers[1].receipt).status is Status.TAKEN


@pytest.mark.parametrize("first", ["thief", "phone"])
def test_of_two_who_have_one_receipt_the_first_to_go_on_shuts_the_other_out(chained: World, first: str) -> None:
    """Somebody who copied the phone's storage, or the phone, is refused with the third report at the latest."""
    copied = chained.last
    thief = chained.report(FAR, copied)
    assert chained.phone() is Status.TAKEN
    if first == "phone":
        assert chained.phone() is Status.TAKEN
        assert {chained.report(FAR, one).status for one in (thief.receipt, copied)} == {Status.CHAIN_BROKEN}
    else:
        assert chained.report(FAR, thief.receipt).status is Status.TAKEN
        assert chained.phone() is Status.CHAIN_BROKEN


def test_reports_of_one_batch_come_one_after_the_other(chained: World) -> None:
    right, wrong = Report("ann", *HOME, chained.last), Report("ann", *FAR)
    answers = chained.publisher.receive([wrong, right, Report("nobody", *HOME), wrong, right])
    assert [answer.status for answer in answers] == [
        Status.CHAIN_BROKEN, Status.TAKEN, Status.UNKNOWN_PERSON, Status.CHAIN_BROKEN, Status.TAKEN,
    ]  # fmt: skip
    assert len({answer.receipt for answer in answers}) == 3
    assert chained.report(HOME, answers[-1].receipt).status is Status.TAKEN


def test_a_withdrawal_does_not_end_a_chain(chained: World) -> None:
    chained.next_epoch()
    chained.phone(WORK)
    assert chained.held["candidate"] is not None
    assert chained.store.withdraw("ann")
    assert chained.held["candidate"] is None
    assert chained.report(WORK).status is Status.CHAIN_BROKEN
    assert chained.phone(WORK) is Status.TAKEN


@pytest.mark.parametrize("epochs_before", [1, 2])
def test_after_a_revocation_no_guess_is_compared_with_reports_before(epochs_before: int) -> None:
    """A place that has not lasted, and one that waits: whoever guesses it afterwards sees nothing by that."""
    keys, seen = new_keys(), []
    for guess in (WORK, FAR):
        world = World(keys)
        for spot in (HOME, *[WORK] * epochs_before):
            world.next_epoch()
            assert world.phone(spot) is Status.TAKEN
        assert (world.held["pending"] is None) == (epochs_before == 1)
        assert world.store.renew_token_mark("ann")
        assert world.report(guess).status is Status.TAKEN
        world.next_epoch()
        seen.append(world.held["published"])
    assert seen[0] == seen[1] is not None


def test_after_a_revocation_the_phone_that_comes_first_has_the_chain(chained: World) -> None:
    assert chained.store.renew_token_mark("ann")
    assert chained.phone() is Status.TAKEN
    assert chained.report(HOME).status is Status.CHAIN_BROKEN


def test_whoever_comes_first_after_a_revocation_shuts_the_phone_out_and_is_not_mixed_with_it(chained: World) -> None:
    assert chained.store.renew_token_mark("ann")
    assert chained.report(FAR).status is Status.TAKEN
    assert chained.phone() is Status.CHAIN_BROKEN


@pytest.mark.parametrize("seed", range(12))
def test_no_sequence_of_reports_of_somebody_else_changes_anything(seed: int) -> None:
    """Days of a phone with an attacker who reports anywhere at any time, and without: the same is kept and published.

    The attacker knows every receipt that the attacker's own reports got before the chain began, and none of the phone.
    """
    chosen, keys = random.Random(seed), new_keys()
    attacked, alone = World(keys, always_chained=False), World(keys, always_chained=False)
    mine = [attacked.report(HOME).receipt, alone.report(HOME).receipt]
    for world in (attacked, alone):
        world.last = world.report(HOME).receipt
        assert world.phone(HOME) is Status.TAKEN
    for _ in range(40):
        move = chosen.choice(["phone", "phone", "guess", "guess", "guess", "epoch", "epoch", "withdraw"])
        spot = chosen.choice(PLACES)
        if move == "guess":
            answer = attacked.report(spot, chosen.choice([None, NOBODYS, *mine]))
            assert answer.status is Status.CHAIN_BROKEN
        for world in (attacked, alone):
            if move == "phone":
                assert world.phone(spot) is Status.TAKEN
            elif move == "epoch":
                world.next_epoch()
            elif move == "withdraw":
                world.store.withdraw("ann")
        assert attacked.held == alone.held
    assert attacked.held["charges"]
