"""What a finished audit looks like, for the tests of ``nearveil audit``."""

import json
from typing import Any

from tests.cli.conftest import Outcome

SMALL = ("--samples", 40_000, "--seed", 1)
VERDICTS = ("consistent", "violated", "inconclusive")


def failed(outcome: Outcome, code: int, *words: str) -> None:
    """One sentence on standard error, nothing on standard output, and no verdict anywhere."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert len(outcome.err.strip().splitlines()) == 1, outcome.err
    for word in words:
        assert word in outcome.err
    for secret in ("Traceback", "7123"):
        assert secret not in outcome.err
    for verdict in VERDICTS:
        assert verdict.upper() not in outcome.err


def audited(outcome: Outcome, code: int, verdict: str) -> dict[str, Any]:
    assert outcome.code == code, outcome
    document: dict[str, Any] = json.loads(outcome.out)
    assert document["verdict"] == verdict
    return document
