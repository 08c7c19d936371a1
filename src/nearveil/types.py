"""The array types that signatures speak of."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Progress = Callable[[int], None]
"""Called with the number of units of work just finished."""
