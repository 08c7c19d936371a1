"""Make the vectors of Veil: python -m tests.veil.make_vectors FILE keeps the vectors of FILE and adds what is missing."""

import json
import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from nearveil import veil as module
from nearveil.veil import Veil

ABOUT = (
    "Test vectors of nearveil/veil/1. Each gives the answer for a location, and for three later ones with known and "
    "accuracy_m; answers are compared within 3 m in a straight line. Each of errors must be an error. In place of what "
    "JSON cannot say, 'NaN' and 'Infinity' stand for these numbers; text with half a character (a lone surrogate) is "
    "of use only where strings can hold it."
)
NOISES = (50, 64.1, 200, 500, 1609.344, 20_000, 100_000)
USERS = ("ann", "Zoë", "Zoe\u0308", "日本", "🦊\u200d", " ", "a\0b", "x" * 300)
LOCATIONS = ((52.52, 13.405), (90, 0), (-90, 180), (89.9999, -77.7), (0, 0), (0, -180), (-33, 179.9999), (5, 7.25e6))


def steps(draw: random.Random, veil: Veil, user: str, latitude: float, longitude: float) -> dict[str, Any]:
    """Return a vector: a location, and three later ones in its surroundings."""
    first = veil.blur(user, latitude, longitude)
    known, then = [first], []
    for _ in range(3):
        accuracy = draw.choice([None, 0, 10, veil.noise_m / 3, veil.noise_m, 1e9])
        far = draw.choice([0.05, 0.3, 1.5]) * veil.noise_m / 111_000
        north = max(-90.0, min(90.0, latitude + draw.uniform(-far, far)))
        east = longitude + draw.uniform(-far, far) / max(0.01, math.cos(math.radians(latitude)))
        # As a store may have rounded them.
        stored = [(max(-90.0, min(90.0, lat + draw.choice([-1e-5, 0, 1e-5]))), lon) for lat, lon in known]
        answer = veil.blur(user, north, east, stored, accuracy)
        then.append({"latitude": north, "longitude": east, "known": stored, "accuracy_m": accuracy, "blurred": answer})
        known += [answer] * (answer not in known)
    return {"user": user, "latitude": latitude, "longitude": longitude, "blurred": first, "then": then}


def on_the_grid(veil: Veil, user: str, latitude: float, longitude: float) -> tuple[float, float]:
    """Return the location with these coordinates in the user's own turned frame, in radians."""
    turn = module._turn(math, module._uniforms(veil._digest(veil._rotation, user.encode())))
    back = module._turned(zip(*turn, strict=True), module._unit(math, latitude, longitude))
    north, east = map(math.degrees, module._angles(math, back))
    return north, east


def special(draw: random.Random) -> Iterator[dict[str, Any]]:
    """Search for vectors of rare cases."""

    def vector(why: str, key: str, noise_m: float, *location: Any) -> dict[str, Any]:
        return {"why": why, "key": key, "noise_m": noise_m} | steps(draw, Veil(key, noise_m), *location)

    key, published = "9f" * 32, module._published
    for why, location, axis, raw in (
        ("the longitude was 180 before it was mended", (10, 180), 1, (179.999995, 180)),
        ("the longitude was just below 0", (10, 0), 1, (-5e-6, 0)),
        ("the latitude was just below 0", (0, 10), 0, (-5e-6, 0)),
    ):
        for number in range(10**6):
            with mock.patch.object(module, "_published", lambda m, turn, v: (published(m, turn, v), turn, v)):
                _, turn, v = Veil(key, 50).blur(f"user-{number}", *location)  # type: ignore[misc]
            angles = module._angles(math, module._turned(zip(*turn, strict=True), v))
            if raw[0] <= math.degrees(angles[axis]) < raw[1]:
                yield vector(why, key, 50, f"user-{number}", *location)
                break
    for number in range(10**6):
        digests = list[int]()
        veil = Veil(key, 100_000)
        with mock.patch.object(module, "_uniforms", lambda d: digests.append(1) or _uniforms(d)):
            veil.blur(f"user-{number}", 52.52, 13.405)
        if len(digests) > 2:
            yield vector("a draw is rejected", key, 100_000, f"user-{number}", 52.52, 13.405)
            break
    for noise_m in (50, 500, 100_000):
        veil, h = Veil(key, noise_m), noise_m / 4 / module.R
        for why, location in (
            ("beside a pole of the user's own grid", (math.pi / 2 - 0.4 * h, 1.0)),
            ("two rows from the other pole of the grid", (-math.pi / 2 + 1.6 * h, -2.0)),
            ("where columns begin", (0.5, math.pi - 0.1 * h)),
        ):
            yield vector(why, key, noise_m, "ann", *on_the_grid(veil, "ann", *location))
    for noise_m in (500.0004, 500.0006, 99_999.9996):
        yield vector("noise is rounded to millimeters", key, noise_m, "ann", 52.52, 13.405)
    # Two answers within reach that both are within 3 m of one entry.
    veil = Veil(key, 50)
    for number in range(10**6):
        user = f"user-{number}"
        turn = module._turn(math, _uniforms(veil._digest(veil._rotation, user.encode())))
        turned = module._turned(turn, module._location((52.52, 13.405)))
        answers = [veil._answer(user.encode(), turn, *cell) for cell in veil._cells_near(turned, 50)]
        pairs = [(p, q) for p in answers for q in answers if 2e-5 < math.dist(p, q) < 3e-5]
        if pairs:
            record = vector("of two answers near an entry the nearest counts", key, 50, user, 52.52, 13.405)
            for then, (p, q), near in zip(record["then"], pairs * 3, (0.3, 0.7, 0.9), strict=False):
                then["known"] = [[0, 0], [p[0] + near * (q[0] - p[0]), p[1] + near * (q[1] - p[1])], *answers[:2]]
                then["latitude"], then["longitude"], then["accuracy_m"] = 52.52, 13.405, 1e9
                then["blurred"] = veil.blur(user, 52.52, 13.405, then["known"], 1e9)
            yield record
            break


def errors() -> Iterator[dict[str, Any]]:
    """Give inputs that must be errors."""
    good = {"key": "9f" * 32, "noise_m": 500, "user": "ann", "latitude": 52.52, "longitude": 13.405, "known": [], "accuracy_m": None}
    texts = ("NaN", "Infinity", "-Infinity", "500", None, [], True)
    for name, values in {
        "key": ("", "9f" * 31, "9f" * 33, "9f" * 31 + "9g", "9f" * 31 + " f", " " + "9f" * 32, "9f" * 32 + "\n", 7, None),
        "noise_m": (0, 49.9999, 100_000.0001, -500, *texts),
        "user": ("", "\ud800", "a\udc00b", 7, None, ["ann"]),
        "latitude": (90.0001, -90.0001, 1e300, *texts),
        "longitude": texts,
        "known": (None, 7, "52.52", [52.52], [[52.52]], [[52.52, 13.405, 0]], [[91, 0]], [[0, "NaN"]], [["52.52", 0]], [None]),
        "accuracy_m": (-1, -1e-9, "NaN", "-Infinity", "15", [], True),
    }.items():
        yield from ({"wrong": name} | good | {name: value} for value in values)


_uniforms = module._uniforms

if __name__ == "__main__":
    path, draw = Path(sys.argv[1]), random.Random(1)
    given = json.loads(path.read_text(encoding="utf-8"))
    vectors = [each for each in (given["vectors"] if isinstance(given, dict) else given) if "why" not in each]
    vectors = [*vectors[:32], *special(draw)]
    for number, location in enumerate(LOCATIONS * 3):
        key, noise_m = draw.randbytes(32).hex(), NOISES[number % len(NOISES)]
        vector = steps(draw, Veil(key, noise_m), USERS[(number * 3 + number // 8) % len(USERS)], *location)
        vectors.append({"key": key, "noise_m": noise_m} | vector)
    made = {"about": ABOUT, "vectors": vectors, "errors": list(errors())}
    Path("docs/reference/veil-vectors.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
