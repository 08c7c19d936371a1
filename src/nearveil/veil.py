"""Veil: lasting noise for locations as one pure function. This file needs Python 3.10 alone, and may be copied.

A user's sphere is turned at random and cut into cells, both drawn from a secret key; a cell has one answer for good.
So a cell's answers cannot be averaged, and nothing needs to be stored. `R` is the radius of the Earth, `H` is
`noise_m`, `h = H / 4` the side of a cell, `eps = 2 / H` per meter. The numbers are those of `Veil.guarantee`.

**Proof of 1.** Let `Q` be the user's rotation, uniform over all rotations, and `c(Q, x)` the center of the cell of the
location `x`, turned back. Gamma(2, eps) distances that are kept with probability `sin(d) / d` have a density
proportional to `exp(-eps d) sin d`, and `sin d` is the length of the circle at distance `d`: the answer to `x` has the
density `p(y | x) = E_Q[C exp(-eps d(c(Q, x), y))]` per area, with the same `C` for every center. Let `g` be the
rotation along the great circle that takes `x` to `x'`. `Q g^-1` is as uniform as `Q`, and `c(Q g^-1, g x) = g c(Q, x)`:
`p(y | x') = E_Q[C exp(-eps d(g c(Q, x), y))]`. As `g` moves no point farther than `x`, `d(g c, y)` and `d(c, y)` differ
by at most `d(x, x')`. So `p(y | x) <= exp(eps d(x, x')) p(y | x')`; rounding adds nothing. (This holds as far as nobody
tells HMAC-SHA-256 from chance. Its uniforms have 53 bits: noise ends at 37 H.)

**Proof of 2.** Put `Q g^-1` for `Q` again, `g` the rigid motion: both traces use the same rows and columns, and k cells
have their centers moved by at most D. Their noise is independent: k factors of at most `exp(eps D)` multiply. With
`known`, a cell that was only compared, in vain, brings a factor `(1 - p) / (1 - p')`, where `p` and `p'` are chances
that its answer is within 3 m of an entry: at most `29 / H^2` (3 m and the rounding; H in meters). If it was within 3 m,
and not the nearest, it counts as one of the k.

**Proof of 3.** The first fix of a distinct answer is in its cell, at most `h / sqrt(2)` from the center (`0.87 h` in
the shortest rows), so two centers are at most `d_j + sqrt(2) h` apart. It is up to `reach` from the center if the
answer came up by chance, within 3 m of an entry of `known` that is another cell's.
"""

from __future__ import annotations

import hmac
import math
import os
import re
import struct
import sys
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

R = 6_371_008.8
PI = math.pi
Pair = Iterable[float]


class Veil:
    """Moves a user's locations by noise that lasts. Threads may share it, and it is pickled with its key.

    Parameters
    ----------
    key : bytes or str
        The secret: 32 bytes or 64 hex digits, such as `new_key` gives. Nobody who reads answers may read it.
    noise_m : float
        How long the noise is on average, in meters: from 50 to 100,000.

    Examples
    --------
    >>> veil = Veil(Veil.new_key(), noise_m=500)
    >>> first = veil.blur("ann", 52.5200, 13.4050)
    >>> veil.blur("ann", 52.5201, 13.4051, known=[first], accuracy_m=15) == first
    True
    """

    __slots__ = ("_key", "_mm", "_noise", "_rotation", "_rows")

    guarantee = """\
1. One location, without known: eps-geo-indistinguishable with eps = 2 / noise_m per meter of great-circle distance, \
everywhere, poles included, as far as nobody tells HMAC-SHA-256 from chance. WGS84 distances differ by up to 0.56 %.
2. A trace with k distinct answers: moving it rigidly, no cell of it by more than D meters, costs at most eps k D, the \
pattern of equal answers included. Here and in 3, each vain comparison of a cell and a known answer adds 30 / noise_m^2.
3. Two traces with the same pattern of equal answers, the grid known to the attacker: at most eps times the sum of d_j \
+ sqrt(2) noise_m / 4 (near its poles up to 1.74 for sqrt(2); + 2 noise_m for an answer that came up by chance, within \
3 m of an entry of known) over distinct cells, d_j between the first fixes of each.
4. Not protected: the pattern itself. That a user returned, and when, is disclosed. Many fixes while crossing a border \
locate the border to about a meter: blur where a user stops, not at every fix.
5. Anyone who has the key and the answers finds every cell. Keep the key from them, or on the phone.
6. Anyone who chooses the location or known, and sees the answer, finds the cell in about 75 calls, in 10 by choosing \
both. Call it for the authenticated user only, take known from your own table, limit the rate.
7. Changing noise_m or the key makes a second release: losses add, also of two accounts, or people living together."""

    def __init__(self, key: bytes | str, noise_m: float = 500) -> None:
        self._mm = math.floor(_number(noise_m, "noise_m", "from 50 to 100,000", 50, 100_000) * 1000 + 0.5)
        self._rows = math.floor(PI * R / (self.noise_m / 4) + 0.5)
        if isinstance(key, str):
            key = bytes.fromhex(key) if re.fullmatch("[0-9a-fA-F]{64}", key) else b""
        if not isinstance(key, bytes) or len(key) != 32:
            raise ValueError("the key must be 32 bytes or 64 hex digits; Veil.new_key() makes one")
        self._key = key
        # To be copied for every message, as all begin with these fields.
        self._rotation, self._noise = (
            hmac.new(key, _fields(b"nearveil/veil/1", purpose, b"%d" % self._mm), "sha256")
            for purpose in (b"rotation", b"noise")
        )

    @classmethod
    def from_env(cls, name: str, noise_m: float = 500) -> Veil:
        """Return a Veil whose key is in an environment variable, as hex digits."""
        if name not in os.environ:
            raise ValueError(f"set the environment variable {name} to the key: 64 hex digits")
        return cls(os.environ[name].strip(), noise_m)

    @staticmethod
    def new_key() -> str:
        """Return a random key as 64 hex digits, to be kept in a secret store."""
        return os.urandom(32).hex()

    @property
    def noise_m(self) -> float:
        """The length of the noise on average, rounded to millimeters."""
        return self._mm / 1000

    def __repr__(self) -> str:
        return f"Veil(noise_m={self.noise_m})"

    def __reduce__(self) -> tuple[type[Veil], tuple[bytes, float]]:
        return type(self), (self._key, self.noise_m)

    def blur(
        self, user: str, latitude: float, longitude: float, known: Iterable[Pair] = (), accuracy_m: float | None = None
    ) -> tuple[float, float]:
        """Return the latitude and longitude to store and show in place of a user's location, in degrees.

        The user id is an internal one that never changes. ``known`` are the user's earlier answers, oldest first: the
        first that is the answer of a cell nearby is given again. Nearby is twice the ``accuracy_m`` that the phone
        states for this fix, but at least ``noise_m / 4`` and at most ``noise_m``.
        """
        identity, location = _identity(user), _location((latitude, longitude))
        reach = self._reach(accuracy_m)
        if not isinstance(known, Iterable):
            raise TypeError("known must be a list of pairs of latitude and longitude")
        entries = [_named("known", number, _location, pair) for number, pair in enumerate(known)]
        turn = _turn(math, _uniforms(self._digest(self._rotation, identity)))
        turned = _turned(turn, location)
        if entries:
            answers = [self._answer(identity, turn, *cell) for cell in self._cells_near(turned, reach)]
            vectors = [_location(answer) for answer in answers]
            for entry in entries:
                gaps = [R * math.dist(entry, vector) for vector in vectors]
                if min(gaps, default=math.inf) <= 3:
                    return answers[gaps.index(min(gaps))]
        return self._answer(identity, turn, *self._cell(math, turned))

    def blur_many(self, users: Iterable[str], latitudes: Any, longitudes: Any) -> tuple[Any, Any]:
        """Return `blur` of every row, without ``known``, as arrays of latitudes and longitudes. It needs NumPy 2."""
        import numpy as np  # noqa: PLC0415 - the rest does without

        rows = list(zip(users, latitudes, longitudes, strict=True))
        identities = [_named("row", number, _identity, row[0]) for number, row in enumerate(rows)]
        points = np.array([_named("row", number, _location, row[1:]) for number, row in enumerate(rows)])
        of_user = {identity: self._digest(self._rotation, identity) for identity in identities}
        turn = _turn(np, _uniforms_of(np, [of_user[identity] for identity in identities]))
        row, column = self._cell(np, _turned(turn, points.reshape(-1, 3).T))
        moved, left, attempt = np.empty((3, len(rows))), np.arange(len(rows)), 0
        while len(left):
            cells = zip(left.tolist(), row[left].astype(int).tolist(), column[left].astype(int).tolist(), strict=True)
            digests = [self._digest(self._noise, identities[at], *cell, attempt) for at, *cell in cells]
            moved[:, left], is_kept = self._moved(np, row[left], column[left], _uniforms_of(np, digests))
            left, attempt = left[~is_kept], attempt + 1
        return _published(np, turn, moved)

    def radius_m(self, probability: float, accuracy_m: float | None = None) -> float:
        """Return a public radius around an answer: with this probability or more, what `blur` was given is within."""
        # The noise's quantile in the plane (it is smaller on a sphere), times eps, by Newton's method from above.
        loss = -math.log1p(-_number(probability, "probability", "above 0 and below 1", 1e-300, 1 - 1e-15))
        quantile = loss + math.sqrt(2 * loss)
        for _ in range(60):
            quantile -= (quantile - math.log1p(quantile) - loss) * (1 + quantile) / quantile
        return quantile * self.noise_m / 2 + self._reach(accuracy_m)

    def _reach(self, accuracy_m: float | None) -> float:
        accuracy = 0.0 if accuracy_m is None else _number(accuracy_m, "accuracy_m", "of at least 0", 0, math.inf)
        return min(max(self.noise_m / 4, 2 * accuracy), self.noise_m)

    def _digest(self, begun: hmac.HMAC, identity: bytes, *numbers: int) -> bytes:
        message = begun.copy()
        message.update(_fields(identity, *[b"%d" % number for number in numbers]))
        return message.digest()

    def _answer(self, identity: bytes, turn: Any, row: int, column: int, attempt: int = 0) -> tuple[float, float]:
        uniforms = _uniforms(self._digest(self._noise, identity, row, column, attempt))
        moved, is_kept = self._moved(math, row, column, uniforms)
        return _published(math, turn, moved) if is_kept else self._answer(identity, turn, row, column, attempt + 1)

    def _row(self, m: Any, row: Any) -> tuple[Any, Any]:
        """Return a row's center latitude and number of columns; as below, m is math for numbers or numpy for arrays."""
        center = (row + 0.5) * (PI / self._rows) - PI / 2
        return center, m.floor(2 * PI * m.cos(center) / (PI / self._rows) + 0.5)

    def _cell(self, m: Any, turned: Any) -> tuple[Any, Any]:
        latitude, longitude = _angles(m, turned)
        row = m.floor((latitude + PI / 2) / (PI / self._rows))
        row = row - (row >= self._rows)
        columns = self._row(m, row)[1]
        column = m.floor(columns * (longitude + PI) / (2 * PI))
        return row, column - (column >= columns)

    def _cells_near(self, turned: Any, reach: float) -> list[tuple[int, int]]:
        """Return the cells whose center is within reach in a straight line, by row and column."""
        (latitude, longitude), step, found = _angles(math, turned), PI / self._rows, []
        # Half a chord of the unit sphere, and a little more: the straight line decides.
        half = reach / R / 2 * (1 + 1e-6)
        first, last = ((latitude + PI / 2 + side * math.asin(half)) / step - 0.5 for side in (-2, 2))
        for row in range(max(0, math.ceil(first)), min(self._rows - 1, math.floor(last)) + 1):
            center, columns = self._row(math, row)
            # half^2 = sin^2(half the latitudes' difference) + cos cos sin^2(half the longitudes' difference)
            across, product = half**2 - math.sin((center - latitude) / 2) ** 2, math.cos(center) * math.cos(latitude)
            angle = 2 * math.asin(math.sqrt(max(0, across) / product)) if across < product else PI
            middle, width = columns * (longitude + PI) / (2 * PI) - 0.5, columns * angle / (2 * PI)
            run = range(math.ceil(middle - width), math.floor(middle + width) + 1)
            columns_near = range(columns) if len(run) >= columns else sorted(column % columns for column in run)
            centers = [(column, 2 * PI * (column + 0.5) / columns - PI) for column in columns_near]
            found += [(row, at) for at, east in centers if R * math.dist(turned, _unit(math, center, east)) <= reach]
        return found

    def _moved(self, m: Any, row: Any, column: Any, uniforms: Any) -> tuple[tuple[Any, Any, Any], Any]:
        """Return the center of a cell moved by noise, and whether that is kept."""
        latitude, columns = self._row(m, row)
        longitude, bearing = 2 * PI * (column + 0.5) / columns - PI, 2 * PI * uniforms[2]
        d = -(m.log(uniforms[0]) + m.log(uniforms[1])) / (2 / self.noise_m * R)
        a = m.sin(bearing) * m.sin(d)
        b = m.cos(latitude) * m.cos(d) - m.sin(latitude) * m.sin(d) * m.cos(bearing)
        up = m.sin(latitude) * m.cos(d) + m.cos(latitude) * m.sin(d) * m.cos(bearing)
        moved = m.cos(longitude) * b - m.sin(longitude) * a, m.sin(longitude) * b + m.cos(longitude) * a, up
        return moved, uniforms[3] * d <= m.sin(d)


def _number(value: Any, name: str, words: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (float, Real, Decimal)):  # float is quick to find
        raise TypeError(f"{name} must be a number")
    try:
        number = float(value)
    except (OverflowError, ValueError):
        number = math.nan
    if not least <= number <= most:
        raise ValueError(f"{name} must be a number {words}")
    return number


def _identity(user: str) -> bytes:
    if not isinstance(user, str):
        raise TypeError("the user id must be text")
    identity = user.encode(errors="ignore")
    if not user or identity.decode() != user:
        raise ValueError("the user id must be well-formed text, and not empty")
    return identity


def _location(pair: Any) -> tuple[float, float, float]:
    if not isinstance(pair, (tuple, Iterable)) or len(pair := tuple(pair)) != 2:
        raise TypeError("a location must be a pair of latitude and longitude")
    latitude = _number(pair[0], "latitude", "from -90 to 90", -90, 90)
    longitude = _number(pair[1], "longitude", "that is finite", -sys.float_info.max, sys.float_info.max)
    return _unit(math, math.radians(latitude), math.radians(math.fmod(longitude, 360)))


def _named(where: str, number: int, read: Any, value: Any) -> Any:
    try:
        return read(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where} {number}: {error}") from None


def _fields(*parts: bytes) -> bytes:
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def _uniforms(digest: bytes) -> list[float]:
    return [((word >> 11) + 0.5) / 2**53 for word in struct.unpack(">4Q", digest)]


def _uniforms_of(np: Any, digests: list[bytes]) -> Any:
    return ((np.frombuffer(b"".join(digests), dtype=">u8").reshape(-1, 4).T >> 11) + 0.5) / 2**53


def _unit(m: Any, latitude: Any, longitude: Any) -> tuple[Any, Any, Any]:
    return m.cos(latitude) * m.cos(longitude), m.cos(latitude) * m.sin(longitude), m.sin(latitude)


def _angles(m: Any, vector: Any) -> tuple[Any, Any]:
    return m.atan2(vector[2], m.hypot(vector[0], vector[1])), m.atan2(vector[1], vector[0])


def _turn(m: Any, uniforms: Any) -> Any:
    """Return a rotation matrix, uniform over all rotations."""
    a, b, c, _ = uniforms
    x, y = m.sqrt(1 - a) * m.sin(2 * PI * b), m.sqrt(1 - a) * m.cos(2 * PI * b)
    z, w = m.sqrt(a) * m.sin(2 * PI * c), m.sqrt(a) * m.cos(2 * PI * c)
    first = 1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)
    second = 2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)
    return first, second, (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y))


def _turned(turn: Any, vector: Any) -> list[Any]:
    return [row[0] * vector[0] + row[1] * vector[1] + row[2] * vector[2] for row in turn]


def _published(m: Any, turn: Any, vector: Any) -> tuple[Any, Any]:
    """Turn a vector back and return degrees with five decimals; a floor is never -0."""
    back = _turned(zip(*turn, strict=True), vector)
    latitude, longitude = (m.floor(m.degrees(angle) * 1e5 + 0.5) / 1e5 for angle in _angles(m, back))
    return latitude, longitude - 360 * (longitude == 180)
