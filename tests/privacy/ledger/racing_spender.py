"""Spends on one person until the budget is gone, and prints the draws that were accepted.

Run as ``python racing_spender.py <ledger> <name>``; it begins when a line arrives.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Ledger, OverspentError, Release

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
BUDGET = Budget(definition=PrivacyDefinition.LOCAL, epsilon=8.0, window=timedelta(days=1))


def main() -> None:
    ledger = Ledger(Path(sys.argv[1]), [BUDGET])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(100):
        draw_id = f"{sys.argv[2]}{number}"
        try:
            ledger.record(
                Release(who=("ann",), when=WHEN, definition=PrivacyDefinition.LOCAL, epsilon=0.1, draw_id=draw_id)
            )
        except OverspentError:
            continue
        print(draw_id)


if __name__ == "__main__":
    main()
