"""What the embedded store does at an epoch's border."""

from __future__ import annotations

from nearveil.nearby.stores.sqlite.connection import Connection

# The total comes first: it counts the places that are not charged yet.
_STEPS = (
    """INSERT INTO charged (in_window, places)
    SELECT in_window, count(*) FROM pending
    WHERE epoch <= :epoch AND NOT EXISTS (
        SELECT 1 FROM charges
        WHERE charges.in_window = pending.in_window AND charges.person = pending.person AND charges.tag = pending.tag
    )
    GROUP BY in_window
    ON CONFLICT (in_window) DO UPDATE SET places = places + excluded.places""",
    """INSERT INTO charges (in_window, person, tag)
    SELECT in_window, person, tag FROM pending WHERE epoch <= :epoch ORDER BY in_window, person
    ON CONFLICT DO NOTHING""",
    """INSERT INTO published (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT person, x_steps, y_steps, tag, in_window, receipt, :epoch FROM pending WHERE epoch <= :epoch ORDER BY person
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch""",
    "DELETE FROM pending WHERE epoch <= :epoch",
    "INSERT INTO epochs (epoch) VALUES (:epoch)",
)

_FORGET = """
    DELETE FROM charges WHERE (in_window, person, tag) IN (
        SELECT in_window, person, tag FROM charges WHERE in_window < ? LIMIT ?
    )"""
FORGET_AT_ONCE = 50_000


def publish_waiting(connection: Connection, epoch: int) -> bool:
    """Publish and charge what waits, unless this epoch or a later one was published before."""
    if connection.one("SELECT 1 FROM epochs WHERE epoch >= ? LIMIT 1", (epoch,)):
        return False
    for step in _STEPS:
        connection.run(step, {"epoch": epoch})
    return True


def forget_some(connection: Connection, oldest_window: int) -> bool:
    """Forget some of the tags of windows gone by; whether there may be more."""
    return connection.count_changed(_FORGET, (oldest_window, FORGET_AT_ONCE)) == FORGET_AT_ONCE
