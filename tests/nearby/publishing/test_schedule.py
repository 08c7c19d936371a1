"""Epochs and windows follow the clock and nothing else."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import UsageError
from nearveil.nearby.publishing.protection import Schedule

SECONDS = st.integers(1, 86_400)


@given(epoch_s=SECONDS, per_window=st.integers(1, 1000), moment=st.floats(0, 4e9))
def test_a_moment_lies_in_its_epoch(epoch_s: int, per_window: int, moment: float) -> None:
    schedule = Schedule(epoch=timedelta(seconds=epoch_s), window=timedelta(seconds=epoch_s * per_window))
    epoch = schedule.epoch_at(moment)
    assert schedule.starts_at(epoch) <= moment < schedule.starts_at(epoch + 1)
    assert schedule.epochs_per_window == per_window
    assert schedule.window_of(epoch) == epoch // per_window


def test_a_window_has_all_its_epochs_and_no_more() -> None:
    schedule = Schedule(epoch=timedelta(hours=1), window=timedelta(days=30))
    assert [schedule.window_of(epoch) for epoch in (0, 719, 720, 1439, 1440)] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("epoch", "window"),
    [
        (timedelta(0), timedelta(days=1)),
        (timedelta(milliseconds=1500), timedelta(days=1)),
        (timedelta(hours=1), timedelta(minutes=30)),
        (timedelta(hours=1), timedelta(minutes=90)),
        (timedelta(hours=-1), timedelta(days=1)),
        (timedelta(days=1), timedelta(days=40_000)),
    ],
)
def test_schedules_that_cannot_be_kept_are_refused(epoch: timedelta, window: timedelta) -> None:
    with pytest.raises(UsageError, match="choose for instance"):
        Schedule(epoch=epoch, window=window)
