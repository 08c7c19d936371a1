"""Writes to a store on and on, and acknowledges each transaction by a line: to be killed at any moment.

Run as ``python killed_writer.py <address>``. For every line that arrives it starts a process that writes, names it by a
line, and says so by another when it has ended. The line is the number of the first transaction, and after how many
statements the process kills itself; with 0 it waits to be killed. Transaction number n puts a draw for every person and
names n as their last report; every second one charges a place besides, and every third one is followed by a border.
"""

import itertools
import os
import signal
import sys
from typing import Any

from nearveil.nearby.stores import open_store
from nearveil.nearby.stores._postgis_connections import Session
from nearveil.nearby.stores._sqlite_connections import Connection
from nearveil.nearby.stores.base import NoisyLocation, Standing

PEOPLE = tuple(f"person {number}" for number in range(40))
WINDOW = 1

_statements = 0


def tag_of(number: int, *, published: bool = True) -> bytes:
    """The tag of the places of a transaction, that of those that are never published another one."""
    return number.to_bytes(8, "big") * (1 if published else 2)


def draws(number: int, *, published: bool = True) -> list[NoisyLocation]:
    """All draws of a transaction; every one is a place of its own."""
    tag = tag_of(number, published=published)
    return [
        NoisyLocation(person=person, x_steps=number, y_steps=-number, tag=tag, window=WINDOW, receipt=str(number))
        for person in PEOPLE
    ]


def die_after(count: int) -> None:
    """Be killed when so many statements have run, between one and the next."""
    for kind in (Connection, Session):
        for name in ("run", "rows", "one"):
            setattr(kind, name, _counted(getattr(kind, name), count))


def _counted(method: Any, count: int) -> Any:
    def run(self: Any, statement: str, *rest: Any) -> Any:
        global _statements  # noqa: PLW0603
        answer = method(self, statement, *rest)
        _statements += 1
        if _statements >= count:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return run


def write(address: str, first: int, statements: int) -> None:
    store = open_store(address)
    if statements:
        die_after(statements)
    for number in itertools.count(first):
        with store.writing() as writing:
            writing.held(PEOPLE, WINDOW)
            writing.put_pending(draws(number), number)
            if number % 2 == 0:
                writing.charge(draws(number, published=False))
            standing = Standing(receipt=str(number), epoch=number, candidate=tag_of(number), candidate_epoch=number)
            writing.put_standings(dict.fromkeys(PEOPLE, standing))
        print("kept", number, flush=True)
        if number % 3 == 0:
            store.publish(number, window=WINDOW)
            print("published", number, flush=True)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            print("process", os.getpid(), flush=True)
            write(sys.argv[1], *map(int, line.split()))
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
