"""Drawing: noise for many reports at once."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nearveil.mechanisms.exponential import exponential_from_uniforms
from nearveil.nearby.publishing.keyed import TAG_BYTES, place_uniforms
from nearveil.nearby.publishing.protection import Policy, Protection
from nearveil.nearby.stores.base import STEP_M, Draw
from nearveil.randomness import secure_generator
from nearveil.types import FloatArray, IntArray

RECEIPT_BYTES = 12


@dataclass(frozen=True, slots=True)
class Wanted:
    """A draw to be made, in memory only: it never prints where.

    Attributes
    ----------
    x_m, y_m : float
        What the noise is drawn around: the centre of a cell or, with fresh noise, the place itself.
    cell : Cell or None
        Whose noise it is, where noise belongs to places.
    tag : bytes or None
        That of the place; random where noise does not belong to places.
    """

    person: str
    x_m: float = field(repr=False)
    y_m: float = field(repr=False)
    cell: tuple[int, int] | None = field(default=None, repr=False)
    tag: bytes | None = field(default=None, repr=False)


class Drawer:
    """Draws for a protection."""

    def __init__(self, protection: Protection) -> None:
        self._policy = protection.policy
        self._noise = protection.noise
        self._side_m = protection.grid.side_m
        self._half_extent_m = np.array(protection.region.half_extent_m)
        self._generator = secure_generator()
        self._drawing = threading.Lock()

    def draw(self, wanted: Sequence[Wanted], window: int, key: bytes) -> list[Draw]:
        """Return a draw for each, in the order asked for; the key is that of the places of the window."""
        if not wanted:
            return []
        places_m = np.array([(one.x_m, one.y_m) for one in wanted])
        if self._policy is not Policy.OFF:
            places_m = self._noise.displaced(places_m, exponential_from_uniforms(self._uniforms(wanted, window, key)))
        # Asked for once: the system is asked far more slowly than it answers.
        own = len(wanted) * (RECEIPT_BYTES + TAG_BYTES)
        fresh = iter(np.frombuffer(secrets.token_bytes(own), dtype=np.uint8).reshape(len(wanted), -1))
        return [
            Draw(
                person=one.person,
                x_steps=x_steps,
                y_steps=y_steps,
                tag=one.tag or bytes(random[RECEIPT_BYTES:]),
                window=window,
                receipt=bytes(random[:RECEIPT_BYTES]).hex(),
            )
            for one, (x_steps, y_steps), random in zip(wanted, self._steps(places_m).tolist(), fresh, strict=True)
        ]

    def _uniforms(self, wanted: Sequence[Wanted], window: int, key: bytes) -> FloatArray:
        if self._policy is Policy.FRESH:
            with self._drawing:
                return self._generator.random((len(wanted), 3, 2))
        return place_uniforms(key, [(one.person, one.cell) for one in wanted if one.cell], window, self._side_m)

    def _steps(self, places_m: FloatArray) -> IntArray:
        """Whole steps, clamped to the region's box, which looks at nothing but the noisy place."""
        inside = np.clip(places_m, -self._half_extent_m, self._half_extent_m)
        return np.rint(inside / STEP_M).astype(np.int64)
