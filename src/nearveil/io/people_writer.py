"""Writing people to a file, a batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

from nearveil.io.people import People


class PeopleWriter(ABC):
    """A file in the making; in a ``with`` statement it is complete at the end, or closed as it is after an error."""

    @abstractmethod
    def prepared(self, people: People) -> Any:
        """Return a batch as `write` takes it: work that any thread may do, while another writes."""

    @abstractmethod
    def write(self, batch: Any) -> None:
        """Write the next batch."""

    @abstractmethod
    def finish(self) -> None:
        """Write what is left and close the file; a second time, do nothing."""

    @abstractmethod
    def abandon(self) -> None:
        """Close the file as it is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()
