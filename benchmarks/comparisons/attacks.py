"""250 adaptive attacks on 25,000 people, as a person runs them."""

import json
from collections.abc import Iterator

from benchmarks.command import COMMAND, run_watched
from benchmarks.measuring.results import Alone, Effort, Result

MOST_S = 60.0


def compare(effort: Effort) -> Iterator[Result]:
    """Time the command."""
    effort.tell("250 adaptive attacks")
    run = run_watched([*COMMAND, "attack", "--dataset", "gaussian", "--attack", "adaptive", "--json"])
    row = json.loads(run.told)[0]
    assert row["acc"] == 1.0
    yield Alone(what="250 adaptive attacks on 25,000 people", value=run.seconds, unit="s", most=MOST_S)
    yield Alone(what="questions that an attack asks", value=row["queries"], unit="questions")
