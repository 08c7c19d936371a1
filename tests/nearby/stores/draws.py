"""Draws for tests, and what a store says about somebody."""

from dataclasses import replace
from typing import Any

from nearveil.nearby.stores.base import Held, NoisyLocation, Point, Standing, Store
from tests.nearby.stores.kept import everything_kept

WINDOW = 5
EPOCH = 100


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


def standing(number: int) -> Standing:
    """A standing of which every part depends on the number."""
    return Standing(
        receipt=f"report {number}",
        epoch=EPOCH + number,
        candidate=number.to_bytes(2, "big") * 8 if number % 3 else None,
        candidate_epoch=EPOCH - number,
        seen=number + 1,
        chain=tuple(f"{number}-{link}" for link in range(number % 4)),
    )


def elsewhere(location: NoisyLocation, other: NoisyLocation | None = None) -> NoisyLocation:
    """The same place with another noisy place."""
    point = (7, -7) if other is None else (other.x_steps, other.y_steps)
    return replace(location, x_steps=point[0], y_steps=point[1])


def put(store: Store, *draws: NoisyLocation, epoch: int = EPOCH) -> None:
    with store.writing() as writing:
        writing.put_pending(draws, epoch)


def charge(store: Store, *draws: NoisyLocation) -> None:
    with store.writing() as writing:
        writing.charge(draws)


def stand(store: Store, **standings: Standing) -> None:
    with store.writing() as writing:
        writing.put_standings(standings)


def publish(store: Store, epoch: int = EPOCH, *, window: int = WINDOW) -> bool:
    return store.publish(epoch, window=window)


def known_places(*draws: NoisyLocation) -> dict[bytes, Point]:
    """What is held of places that were charged."""
    return {one.tag: (one.x_steps, one.y_steps) for one in draws}


def held(store: Store, person: str, window: int = WINDOW) -> Held | None:
    with store.writing() as writing:
        return writing.held([person], window).get(person)


def charged_in(store: Store, person: str, window: int = WINDOW) -> int:
    """How much of a window's budget is spent."""
    found = held(store, person, window)
    assert found is not None
    return found.charged


def known(store: Store, person: str) -> dict[str, Any]:
    """Everything that is held."""
    record = everything_kept(store, person)
    assert record is not None
    return record


def shown(store: Store, person: str) -> dict[str, Any]:
    """What callers see."""
    record = store.record(person)
    assert record is not None
    return record


def published_steps(store: Store, since_epoch: int | None = None) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for batch in store.published(since_epoch=since_epoch):
        assert not found.keys() & set(batch.people)
        found.update(zip(batch.people, map(tuple, batch.steps.tolist()), strict=True))
    return found
