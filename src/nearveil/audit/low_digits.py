"""Low digits: outputs of a place that lie on a lattice, such as the true place plus a whole number of metres.

A lattice shows as a peak in the Fourier transform of a coordinate. It is looked for in metres and in degrees, with any
period from an eighth of the outputs' spread down to a ten-thousandth of it. Outputs that are rounded to a
public grid lie on a lattice too, but on the same one whatever the place: an event made of it tells nothing apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearveil.audit.pairs import Pair
from nearveil.audit.subject import Subject
from nearveil.types import FloatArray

_LEAST_SAMPLES, _MOST_SAMPLES = 64, 4_096
_NEAREST = 512
_BINS = 1 << 15
# Below so many periods in the window, the shape of the noise itself shows.
_LEAST_PERIODS = 8
# Of 2^14 frequencies of a smooth law, one exceeds this with a probability of 1e-6.
_LEAST_PEAK = 25.0
_STEPS = np.linspace(-1, 1, 17)
_DECIMALS = 1


@dataclass(frozen=True, slots=True, eq=False)
class LowDigitsScore:
    """Whether an output is on the lattice of the first place's outputs, or on that of the second's.

    Parameters
    ----------
    in_degrees : bool
        Whether the lattices are in latitude and longitude, or else in the coordinates of outputs.
    periods, origins : ndarray of shape (2, 2)
        For each place and each axis; a period of 0 is none.
    """

    kind = "low-digits"

    in_degrees: bool
    periods: FloatArray
    origins: FloatArray

    def score(self, outputs: FloatArray, pair: Pair, subject: Subject) -> FloatArray:
        """Score each output: the larger, the more it speaks for the first place."""
        del pair
        values = subject.outputs_in_degrees(outputs) if self.in_degrees else outputs
        total = np.zeros(len(outputs))
        for sign, periods, origins in zip((1.0, -1.0), self.periods, self.origins, strict=True):
            for axis in np.flatnonzero(periods):
                total += sign * np.cos(2 * math.pi * (values[:, axis] - origins[axis]) / periods[axis])
        # Two lattices that are the same one differ by round-off, which tells nothing.
        return np.round(total, _DECIMALS)

    def describe(self) -> str:
        """Say what the score is."""
        period = self.periods[self.periods > 0].max()
        unit = " degrees" if self.in_degrees else " in their own coordinates"
        return f"their low digits (what is left over a multiple of {period:.3g}{unit})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "kind": self.kind,
            "in_degrees": self.in_degrees,
            "periods": self.periods.tolist(),
            "origins": self.origins.tolist(),
        }


def low_digits_from_dict(document: dict[str, Any]) -> LowDigitsScore:
    """Read what `LowDigitsScore.to_dict` gave."""
    periods, origins = (np.array(document[name], dtype=np.float64) for name in ("periods", "origins"))
    if not (periods.shape == origins.shape == (2, 2) and np.isfinite([periods, origins]).all()):
        raise ValueError("low digits")
    if periods.min() < 0 or periods.max() == 0:
        raise ValueError("low digits")
    return LowDigitsScore(bool(document["in_degrees"]), periods, origins)


def learn_low_digits(first: FloatArray, second: FloatArray, subject: Subject) -> list[LowDigitsScore]:
    """Look for lattices in the outputs of both places, in their coordinates and in degrees; return what was found."""
    scores = []
    sides = (first[:_MOST_SAMPLES], second[:_MOST_SAMPLES])
    for in_degrees in (False, True):
        values = [subject.outputs_in_degrees(side) if in_degrees else side for side in sides]
        of_first = [find_lattice(values[0][:, axis]) for axis in range(2)]
        # Both places have one, or else it is worth nothing.
        if any(period for period, _ in of_first):
            found = np.array([of_first, [find_lattice(values[1][:, axis]) for axis in range(2)]])
            scores.append(LowDigitsScore(in_degrees, found[..., 0], found[..., 1]))
    return scores


def find_lattice(values: FloatArray) -> tuple[float, float]:
    """Return period and origin of the lattice that values lie on or near; a period of 0 if there is none."""
    if len(values) < _LEAST_SAMPLES:
        return 0.0, 0.0
    centre = float(np.median(values))
    offsets = values - centre
    offsets = offsets[np.argsort(np.abs(offsets), kind="stable")]
    # The innermost values show fine lattices, all of them coarse ones.
    for number in dict.fromkeys((min(_NEAREST, len(offsets)), int(0.95 * len(offsets)))):
        frequency = _peak(offsets[:number])
        if frequency > 0:
            frequency = _sharpened(frequency, offsets, number)
            turn = np.angle(np.exp(2j * math.pi * frequency * offsets).mean())
            return 1 / frequency, centre + float(turn) / (2 * math.pi * frequency)
    return 0.0, 0.0


def _peak(offsets: FloatArray) -> float:
    """The lowest frequency at which the offsets, in order of their size, come together; 0 if they nowhere do."""
    reach = float(np.abs(offsets[-1]))
    if reach <= 0:
        return 0.0
    position = offsets / reach
    # Tapered, so that the window's own edges do not show.
    taper = np.cos(math.pi / 2 * position) ** 2
    bins = np.minimum(((position + 1) / 2 * _BINS).astype(np.int64), _BINS - 1)
    spectrum = np.abs(np.fft.rfft(np.bincount(bins, weights=taper, minlength=_BINS))) ** 2 / (taper**2).sum()
    spectrum[:_LEAST_PERIODS] = 0.0
    highest = float(spectrum.max())
    if highest < _LEAST_PEAK:
        return 0.0
    # Multiples of a frequency have peaks as well; the lowest says most.
    lowest = int(np.flatnonzero(spectrum >= highest / 2)[0])
    return (lowest + int(np.argmax(spectrum[lowest : lowest + 2]))) / (2 * reach)


def _sharpened(frequency: float, offsets: FloatArray, number: int) -> float:
    """The frequency, made exact enough for nearly all offsets: the farther out, the more digits it takes."""
    whole = float(np.abs(offsets[int(0.99 * (len(offsets) - 1))]))
    reach = float(np.abs(offsets[number - 1]))
    width = 1 / (2 * reach)
    while True:
        inside = offsets[np.abs(offsets) <= reach]
        inside = inside[:: max(len(inside) // 200, 1)]
        tried = frequency + width * _STEPS
        frequency = float(tried[np.argmax(np.abs(np.exp(2j * math.pi * tried[:, None] * inside).mean(axis=1)))])
        if reach >= whole and width < 1 / (100 * whole):
            return frequency
        reach = min(4 * reach, whole)
        width /= 4
