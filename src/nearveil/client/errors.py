"""What a service answers when it does not do what it was asked."""

from __future__ import annotations

from nearveil.errors import NearveilError

PROBLEM_PREFIX = "urn:nearveil:problem:"

TOO_MANY = 429


class ServiceError(NearveilError):
    """A service refused, failed, or could not be reached.

    Attributes
    ----------
    status : int or None
        The HTTP status; None if there was no answer.
    name : str
        The problem's name, such as ``unknown-person``; empty if the answer names none.
    title, detail : str
        What the service says.
    retry_after_s : float or None
        When to try again, where the service says so.
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        name: str = "",
        title: str = "",
        detail: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.name, self.title, self.detail = status, name, title, detail
        self.retry_after_s = retry_after_s


class UnreachableError(ServiceError):
    """No answer at all."""
