"""Array types and callbacks used in signatures."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
ShortIntArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
WordArray = npt.NDArray[np.uint64]

Progress = Callable[[int], None]
"""Called with the number of units of work just finished."""

ProgressBar = Callable[[str, int | None], AbstractContextManager[Progress]]
"""Shows a step of long work: called with its title and its length, it gives what to call as the work goes on."""


def no_bar(title: str, total: int | None) -> AbstractContextManager[Progress]:
    """Show nothing."""
    del title, total
    return nullcontext(lambda done: None)
