"""Kill -9 in the middle of transactions: what was acknowledged is there, and no transaction is there to half."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from nearveil.nearby.stores import open_store
from nearveil.nearby.stores.base import Store
from tests.nearby.stores.draws import known
from tests.nearby.stores.killed_writer import PEOPLE, WINDOW, tag_of

KILLS = 24
FROM_OUTSIDE = 8
WRITER = Path(__file__).with_name("killed_writer.py")


@pytest.fixture
def writers(address: str) -> Iterator[subprocess.Popen[str]]:
    """Starts processes that write; it stays the same, since it takes long to load."""
    command = [sys.executable, str(WRITER), address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def killed_from_outside(writers: subprocess.Popen[str], first: int, chance: random.Random) -> list[str]:
    """Let a process write, kill it at a random moment, and return what it acknowledged."""
    process, answers = start(writers, first, 0)
    lines = [answers.readline() for _ in range(chance.randrange(1, 8))]
    # A moment of random length, less than a transaction or a few of them.
    for _ in range(chance.randrange(150_000)):
        pass
    os.kill(process, signal.SIGKILL)
    return [*lines, *iter(answers.readline, "ended\n")]


def killed_between_statements(writers: subprocess.Popen[str], first: int, chance: random.Random) -> list[str]:
    """Let a process kill itself after some statement, and return what it acknowledged."""
    _, answers = start(writers, first, chance.randrange(1, 60))
    return list(iter(answers.readline, "ended\n"))


def start(writers: subprocess.Popen[str], first: int, statements: int) -> tuple[int, IO[str]]:
    """Start a process that writes; return its number, and where it answers in short lines, whole or not at all."""
    assert writers.stdin is not None
    assert writers.stdout is not None
    print(first, statements, file=writers.stdin, flush=True)
    return int(writers.stdout.readline().removeprefix("process ")), writers.stdout


def newest(store: Store) -> int:
    """Return the number of the last transaction, after checking that all people are in it alike."""
    records = [known(store, person) for person in PEOPLE]
    for kind in ("pending", "published", "receipt", "candidate", "tags", "charges"):
        assert len({repr(record[kind]) for record in records}) == 1
    record = records[0]
    number = int(record["receipt"] or 0)
    assert store.totals().charged_by_window.get(WINDOW, 0) == len(record["tags"]) * len(PEOPLE)
    assert record["charges"].get(str(WINDOW), 0) == len(record["tags"]) == len(set(record["tags"]))
    besides = {tag_of(even, published=False).hex() for even in range(2, number + 1, 2)}
    places = set(record["tags"]) - besides
    assert besides <= set(record["tags"])
    # Places are charged when they are published, and at borders only.
    published = record["published"][0] if record["published"] else None
    assert places <= {tag_of(third).hex() for third in range(3, number + 1, 3)}
    assert (tag_of(published).hex() in places) if published else not places
    assert store.last_epoch() == published
    if number:
        assert record["candidate"] == tag_of(number).hex()
        assert (record["pending"] or record["published"])[0] == number
    return number


@pytest.mark.evidence
def test_kill_nine(address: str, writers: subprocess.Popen[str]) -> None:
    store = open_store(address)
    store.add_people(PEOPLE)
    store.close()
    chance = random.Random(7)
    number, borders = 0, 0
    for kill in range(KILLS):
        killed = killed_from_outside if kill < FROM_OUTSIDE else killed_between_statements
        acknowledged = [line.split() for line in killed(writers, number + 1, chance)]
        store = open_store(address)
        # One more may have been kept whose acknowledgement never came.
        last = max((int(line[1]) for line in acknowledged), default=number)
        number = newest(store)
        assert last <= number <= last + 1
        published = [int(line[1]) for line in acknowledged if line[0] == "published"]
        if published:
            assert (store.last_epoch() or 0) >= published[-1]
            borders += 1
        store.close()
    assert borders
