import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.privacy.ledger import Budget, Fit, Ledger

HERE = Path(__file__).parent
KILLS = 30
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def test_killed_at_random_moments_nothing_acknowledged_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    command = [sys.executable, str(HERE / "killed_writer.py"), str(path), str(KILLS), "7"]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    acknowledged = {str(number) for number in result["acknowledged"]}
    assert len(acknowledged) > 10
    assert result["torn"] >= 5

    ledger = Ledger(path, [Budget(definition=PrivacyDefinition.CENTRAL, epsilon=1e6, window=timedelta(days=1))])
    there = [event.draw_id for event in ledger.history("person 000000")]
    assert len(there) == len(set(there))
    assert acknowledged <= set(there)
    # A writer may have been killed between the disk and the acknowledgement, at most once each.
    assert len(there) <= len(acknowledged) + KILLS

    wanted = [str(number) for number in range(len(there) + 3)]
    who = ledger.history("person 000000")[0].who
    repeated = [
        ledger.record(
            Fit(who=who, when=WHEN, definition=PrivacyDefinition.CENTRAL, epsilon=0.25, draw_id=draw_id)
        ).repeated
        for draw_id in wanted
    ]
    assert repeated == [True] * len(there) + [False] * 3
    again = Ledger(path, [Budget(definition=PrivacyDefinition.CENTRAL, epsilon=1e6, window=timedelta(days=1))])
    assert [event.draw_id for event in again.history("person 000299")] == wanted
    assert again.spent("person 000000", PrivacyDefinition.CENTRAL, WHEN).epsilon == 0.25 * len(wanted)


def test_two_processes_racing_for_one_budget_never_overspend(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    racers = [
        subprocess.Popen(
            [sys.executable, str(HERE / "racing_spender.py"), str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    accepted = [draw_id for racer in racers for draw_id in racer.communicate()[0].split()]
    assert [racer.returncode for racer in racers] == [0, 0]
    ledger = Ledger(path, [Budget(definition=PrivacyDefinition.LOCAL, epsilon=8.0, window=timedelta(days=1))])
    assert sorted(event.draw_id for event in ledger.history("ann")) == sorted(accepted)
    assert len(accepted) == 80
    assert ledger.spent("ann", PrivacyDefinition.LOCAL, WHEN).epsilon == 8.0
