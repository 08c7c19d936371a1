"""A mechanism that fails on executors, with the place in its mouth."""

from __future__ import annotations

from typing import Any

from pyspark import TaskContext

from nearveil.mechanisms.planar_laplace import PlanarLaplace


def failing_mechanism() -> PlanarLaplace:
    """Return a mechanism whose errors tell places; made here, so that it travels to executors by value."""

    class Failing(PlanarLaplace):
        def draw(self, x: Any, rows: Any) -> Any:
            # The driver tries it on made-up people first.
            if TaskContext.get() is None:
                return super().draw(x, rows)
            raise ValueError(f"no noise for {self.leave(x).tolist()} and {rows.key!r}")

    return Failing()
