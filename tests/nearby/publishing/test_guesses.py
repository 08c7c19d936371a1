"""Guesses in a person's name: no sequence of reports, however long, tells by far places where the person is.

Two people are alike but for the cell that they are at, A or B. All sequences of reports and epoch boundaries are tried
on both at once, as a search of the states that the two can be in, and what is published of them is compared. Cells near
the person are taken to be published at the person's point, as an earlier point nearby replaces a new one: what is left
is what far places give away. The budget is not spent: what its end tells is hidden by another rule.
"""

import functools
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from nearveil.nearby.publishing.noise import Wanted
from nearveil.nearby.publishing.publisher import Stay
from nearveil.nearby.stores.base import Held, NoisyLocation, Standing

NOW, WINDOW, NO_LIMIT = 100, 0, 10**6
POINTS = {b"A": 0, b"B": 0, b"far": 1, b"away": 2}
"""What is seen of a cell that is published."""
REPORTS = ((b"A",), (b"B",), (b"A", b"B"), (b"B", b"A"), (b"far",), (b"away",))
"""The cell that a report lies in, and the cells that reach as far as there."""
BOUNDARY = ()
Path = tuple[tuple[bytes, ...], ...]


class State(NamedTuple):
    """What a store holds about a person; epochs are counted from now."""

    published: bytes | None = None
    pending: bytes | None = None
    known: frozenset[bytes] = frozenset()
    standing: Standing | None = None

    @property
    def seen(self) -> int | None:
        """What others see."""
        return None if self.published is None else POINTS[self.published]


def located(cell: bytes | None) -> NoisyLocation | None:
    if cell is None:
        return None
    return NoisyLocation(person="ann", x_steps=POINTS[cell], y_steps=0, tag=cell, window=WINDOW, receipt="")


def reported(
    state: State, cells: tuple[bytes, ...], dwell_epochs: int, previous: str | None = None, receipt: str = ""
) -> State:
    held = Held(
        pending=located(state.pending),
        published=located(state.published),
        known={cell: (POINTS[cell], 0) for cell in sorted(state.known)},
        standing=state.standing,
    )
    stay = Stay("ann", held, NOW, WINDOW)
    if not stay.follow(previous, receipt, always=False):
        return state
    tag = stay.observe(cells, introduced=b"", dwell_epochs=dwell_epochs, most_charges=NO_LIMIT)
    if tag is not None:
        stay.draw(Wanted("ann", 0.0, 0.0, cell=(0, 0), tag=tag, key=b""))
    left = replace(stay.standing, seen=min(stay.standing.seen, dwell_epochs))
    known = state.known | {one.tag for one in stay.cancelled}
    return State(state.published, stay.pending.tag if stay.pending else None, known, left)


def at_boundary(state: State) -> State:
    left = state.standing and replace(
        state.standing, epoch=NOW - 1, candidate_epoch=max(state.standing.candidate_epoch - 1, NOW - 2)
    )
    if state.pending is None:
        return state._replace(standing=left)
    return State(state.pending, None, state.known | {state.pending}, left)


def telling(first: State, second: State, dwell_epochs: int) -> Iterator[Path]:
    """Yield sequences after which something else is published of the second than of the first, the shortest first."""
    report = functools.lru_cache(maxsize=None)(functools.partial(reported, dwell_epochs=dwell_epochs))
    met = {(first, second)}
    waiting: deque[tuple[State, State, Path]] = deque([(first, second, ())])
    while waiting:
        one, other, path = waiting.popleft()
        for cells in (*REPORTS, BOUNDARY):
            pair = (report(one, cells), report(other, cells)) if cells else (at_boundary(one), at_boundary(other))
            if pair[0].seen != pair[1].seen:
                yield (*path, cells)
            elif pair not in met:
                met.add(pair)
                waiting.append((*pair, (*path, cells)))
    assert len(met) > 100


@pytest.mark.parametrize("dwell_epochs", [1, 2, 3])
@pytest.mark.parametrize("case", ["published", "known", "withdrawn", "published, and moving"])
def test_no_sequence_of_reports_tells_by_far_places_where_somebody_is(case: str, dwell_epochs: int) -> None:
    moving = Standing(receipt="", epoch=NOW - 1, candidate=b"away", candidate_epoch=NOW - 1, seen=1)
    people = {
        "published": [State(cell, None, frozenset([cell])) for cell in (b"A", b"B")],
        "known": [State(b"away", None, frozenset([b"away", cell])) for cell in (b"A", b"B")],
        "withdrawn": [State(None, None, frozenset([cell])) for cell in (b"A", b"B")],
        "published, and moving": [State(cell, None, frozenset([cell]), moving) for cell in (b"A", b"B")],
    }
    first, second = people[case]
    assert next(telling(first, second, dwell_epochs), None) is None


def test_a_place_that_has_not_lasted_is_found_by_the_next_report_alone() -> None:
    """Whoever reports the right cell next lets it last; after one other report, nothing tells any more."""
    once = (
        Standing(receipt="", epoch=NOW - 1, candidate=cell, candidate_epoch=NOW - 1, seen=1) for cell in (b"A", b"B")
    )
    first, second = (State(b"away", None, frozenset([b"away"]), one) for one in once)
    tell = list(telling(first, second, dwell_epochs=2))
    assert all(path[-1] == BOUNDARY and {b"A", b"B"} & set(path[0]) for path in tell)
    assert ((b"A",), BOUNDARY) in tell
    assert not any({b"far", b"away"} & set(path[0]) for path in tell)


# With a phone that sends its last receipt. Receipts are called by who has them, which is all that matters here.


PHONE, OTHER = "phone", "other"
CHAINED = Standing(receipt=PHONE, epoch=NOW - 1, chain=(PHONE, PHONE))


def withdrawn(state: State) -> State:
    chain = state.standing.chain if state.standing else ()
    left = Standing(receipt=PHONE if PHONE in chain else OTHER, epoch=NOW - 1, chain=chain) if chain else None
    return State(None, None, state.known, left)


def revoked(state: State) -> State:
    return state._replace(pending=None, standing=None)


@pytest.mark.parametrize("dwell_epochs", [1, pytest.param(2, marks=pytest.mark.evidence)])
def test_with_a_chain_nothing_tells_where_the_phone_is(dwell_epochs: int) -> None:
    """Whatever the phone at A or B, and an attacker who may also withdraw people and revoke tokens, do in any order."""
    report = functools.lru_cache(maxsize=None)(functools.partial(reported, dwell_epochs=dwell_epochs))
    guesses = [(cells, cells, previous, OTHER) for cells in REPORTS for previous in (None, OTHER)]
    phone = [((b"A",), (b"B",), PHONE, PHONE), ((b"away",), (b"away",), PHONE, PHONE)]
    first, second = (State(cell, None, frozenset([cell]), CHAINED) for cell in (b"A", b"B"))
    met, waiting = {(first, second)}, deque([(first, second)])
    while waiting:
        one, other = waiting.popleft()
        pairs = [(step(one), step(other)) for step in (at_boundary, withdrawn, revoked)]
        for cells, others_cells, previous, receipt in (*guesses, *phone):
            left = [
                report(state, place, previous=previous, receipt=receipt)
                for state, place in ((one, cells), (other, others_cells))
            ]
            pairs.append((left[0], left[1]))
        for pair in pairs:
            assert pair[0].seen == pair[1].seen, pair
            if pair not in met:
                met.add(pair)
                waiting.append(pair)
    assert len(met) > 100
