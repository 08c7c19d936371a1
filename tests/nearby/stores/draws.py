"""Draws for tests, and what a store says about somebody."""

from typing import Any

from nearveil.nearby.stores.base import Held, NoisyLocation, Store

WINDOW = 5
EPOCH = 100
OLDEST = WINDOW - 1


def draw(person: str, place: int = 1, *, window: int = WINDOW, receipt: str | None = None) -> NoisyLocation:
    """A draw at the place of this number, with the place's tag."""
    return NoisyLocation(
        person=person,
        x_steps=1000 * place,
        y_steps=-1000 * place - 1,
        tag=bytes([place]) * 16,
        window=window,
        receipt=receipt or f"{person} at {place}",
    )


def put(store: Store, *draws: NoisyLocation, epoch: int = EPOCH) -> None:
    with store.writing() as writing:
        writing.put_pending(draws, epoch)


def publish(store: Store, epoch: int = EPOCH, oldest_window: int = OLDEST) -> bool:
    return store.publish(epoch, oldest_window=oldest_window)


def held(store: Store, person: str, window: int = WINDOW) -> Held | None:
    with store.writing() as writing:
        return writing.held([person], window).get(person)


def known(store: Store, person: str) -> dict[str, Any]:
    record = store.record(person)
    assert record is not None
    return record


def published_steps(store: Store, since_epoch: int | None = None) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for batch in store.published(since_epoch=since_epoch):
        assert not found.keys() & set(batch.people)
        found.update(zip(batch.people, map(tuple, batch.steps.tolist()), strict=True))
    return found
