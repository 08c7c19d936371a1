"""The array types that signatures speak of."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
ShortIntArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
WordArray = npt.NDArray[np.uint64]

Progress = Callable[[int], None]
"""Called with the number of units of work just finished."""
