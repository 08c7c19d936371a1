"""What happens in PostgreSQL at an epoch's border."""

from __future__ import annotations

from nearveil.nearby.stores.postgis.database import Session
from nearveil.nearby.stores.postgis.writing import BORDER_LOCK

_LOCK = "SELECT pg_advisory_xact_lock(%s)"
_IS_LATE = "SELECT 1 FROM epochs WHERE epoch >= %s LIMIT 1"
_CLAIM = "INSERT INTO epochs (epoch) VALUES (%s) ON CONFLICT DO NOTHING"

# The total comes first: it counts the places that are not charged yet.
_STEPS = (
    """INSERT INTO charged (in_window, places)
    SELECT in_window, count(*) FROM pending
    WHERE epoch <= %s AND NOT EXISTS (
        SELECT 1 FROM charges
        WHERE charges.in_window = pending.in_window AND charges.person = pending.person AND charges.tag = pending.tag
    )
    GROUP BY in_window
    ON CONFLICT (in_window) DO UPDATE SET places = charged.places + excluded.places""",
    """INSERT INTO charges (in_window, person, tag)
    SELECT in_window, person, tag FROM pending WHERE epoch <= %s ON CONFLICT DO NOTHING""",
    """WITH due AS (DELETE FROM pending WHERE epoch <= %s RETURNING *)
    INSERT INTO published (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT person, x_steps, y_steps, tag, in_window, receipt, %s FROM due
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch""",
)

_FORGET = """
    DELETE FROM charges WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM charges WHERE in_window < %s LIMIT %s FOR UPDATE SKIP LOCKED
    ))"""
FORGET_AT_ONCE = 50_000


def publish_waiting(session: Session, epoch: int) -> bool:
    """Publish and charge what waits, unless this epoch or a later one was published before, by whomever."""
    # Alone: no report is between what it read and what it writes. A statement of its own, so that the next ones see
    # what those who had the lock before have done.
    session.run(_LOCK, (BORDER_LOCK,))
    if session.one(_IS_LATE, (epoch,)) or not session.run(_CLAIM, (epoch,)):
        return False
    for step in _STEPS:
        session.run(step, (epoch,) * step.count("%s"))
    return True


def forget_some(session: Session, oldest_window: int) -> bool:
    """Forget some of the tags of windows gone by; whether there may be more."""
    return session.run(_FORGET, (oldest_window, FORGET_AT_ONCE)) == FORGET_AT_ONCE
