"""Records draws in child processes and kills each with SIGKILL; prints what was acknowledged.

Run as ``python killed_writer.py <ledger> <kills> <seed>``. Each child records the draws 0, 1, 2, … from the start, so
that what an earlier child has done is repeated, and acknowledges each by a line once `Ledger.record` has returned.
Every other child is killed from outside at a random moment, the rest after a random number of bytes written.
"""

import itertools
import json
import os
import random
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Fit, Ledger

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
PEOPLE = tuple(f"person {number:06}" for number in range(300))
BYTES_OF_A_DRAW = 17 * len(PEOPLE)


def draw(number: int) -> Fit:
    return Fit(who=PEOPLE, when=WHEN, definition=PrivacyDefinition.CENTRAL, epsilon=0.25, draw_id=str(number))


def open_ledger(path: Path) -> Ledger:
    return Ledger(path, [Budget(definition=PrivacyDefinition.CENTRAL, epsilon=1e6, window=timedelta(days=1))])


def die_after(count: int) -> None:
    """Be killed when so many bytes are written, in the middle of whatever is being written then."""
    pwrite, left = os.pwrite, count

    def write(descriptor: int, data: bytes, place: int) -> int:
        nonlocal left
        written = pwrite(descriptor, data[:left], place) if left else 0
        left -= written
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    os.pwrite = write  # type: ignore[assignment]


def write_until_killed(path: Path, pipe: int) -> None:
    ledger = open_ledger(path)
    for number in itertools.count():
        ledger.record(draw(number))
        os.write(pipe, f"{number}\n".encode())


def run_one_writer(path: Path, done: int, chance: random.Random, *, from_outside: bool) -> list[int]:
    bytes_to_write = chance.randrange(1, 3 * BYTES_OF_A_DRAW)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        if not from_outside:
            die_after(bytes_to_write)
        write_until_killed(path, writing)
    os.close(writing)
    with os.fdopen(reading) as acknowledged:
        lines = []
        if from_outside:
            # Let it repeat what is done and add a little, then let it go on for a random while.
            lines = [acknowledged.readline() for _ in range(done + chance.randrange(3))]
            for _ in range(chance.randrange(60_000)):
                pass
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines += acknowledged.readlines()
    return [int(line) for line in lines if line.endswith("\n")]


def main() -> None:
    path, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    acknowledged: set[int] = set()
    torn = 0
    for number in range(kills):
        acknowledged.update(run_one_writer(path, len(acknowledged), chance, from_outside=number % 2 == 1))
        torn += not path.read_bytes().endswith(b"\n")
    print(json.dumps({"acknowledged": sorted(acknowledged), "torn": torn}))


if __name__ == "__main__":
    main()
