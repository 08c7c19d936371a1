"""From all colours to the 256 that a GIF can have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image


def with_palette(pixels: npt.NDArray[np.uint8], wanted: Sequence[str]) -> Image.Image:
    """Reduce to the colours wanted and the most frequent; Pillow's choice would spoil those of small marks.

    Parameters
    ----------
    pixels : ndarray of shape (height, width, 3)
        Red, green and blue.
    """
    packed = pixels @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)
    found, counts = np.unique(packed, return_counts=True)
    first = [int(colour[1:], 16) for colour in wanted]
    palette, shades = _unpacked(np.array([*first, *found[np.argsort(-counts)]])[:256]), _unpacked(found)
    # The nearest has the least |a - b|², and |a|² is the same for all; floats hold these numbers exactly.
    nearest = ((palette**2).sum(axis=1) - 2 * shades @ palette.T).argmin(axis=1)
    # A table of all colours is quicker than a search for each pixel.
    table = np.zeros(1 << 24, dtype=np.uint8)
    table[found] = nearest
    image = Image.fromarray(table[packed]).convert("P")
    image.putpalette(palette.astype(np.uint8).tobytes())
    return image


def _unpacked(colours: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.float32)
