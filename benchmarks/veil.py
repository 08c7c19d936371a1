"""Veil beside noise that is drawn by hand, which differs each time and so averages out."""

import math
import random
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Row, in_turns, timed
from nearveil.types import FloatArray
from nearveil.veil import R, Veil

NOISE_M = 500.0
_DEGREE_M = math.radians(R)


def compare(scale: float, rounds: int) -> Iterator[Row]:
    """Compare one call for each user, and one call for all of them."""
    veil, count = Veil(bytes(range(32)), NOISE_M), round(150_000 * scale)
    users = [f"user-{number}" for number in range(count)]
    latitudes, longitudes = np.linspace(52, 53, count), np.linspace(13, 14, count)
    some = list(zip(users[: count // 10], latitudes.tolist(), longitudes.tolist(), strict=False))
    one, by_hand, many, by_numpy = "Veil.blur", "noise in Python", "Veil.blur_many", "noise in NumPy"
    times = in_turns(
        {
            one: timed(lambda: [veil.blur(*call) for call in some], len(some)),
            by_hand: timed(lambda: [_blur(latitude, longitude) for _, latitude, longitude in some], len(some)),
            many: timed(lambda: veil.blur_many(users, latitudes, longitudes), count),
            by_numpy: timed(lambda: _blur_many(latitudes, longitudes), count),
        },
        rounds,
    )
    yield Row(f"{one}, a call", by_hand, times[one], times[by_hand])
    yield Row(f"{many}, a row of {count:,}", by_numpy, times[many], times[by_numpy])


def _blur(latitude: float, longitude: float) -> tuple[float, float]:
    angle, away = random.uniform(0, 2 * math.pi), random.gammavariate(2, NOISE_M / 2) / _DEGREE_M  # noqa: S311
    return latitude + away * math.sin(angle), longitude + away * math.cos(angle) / math.cos(math.radians(latitude))


def _blur_many(latitudes: FloatArray, longitudes: FloatArray) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng()
    angle = rng.uniform(0, 2 * np.pi, len(latitudes))
    away = rng.gamma(2, NOISE_M / 2, len(latitudes)) / _DEGREE_M
    return latitudes + away * np.sin(angle), longitudes + away * np.cos(angle) / np.cos(np.radians(latitudes))
