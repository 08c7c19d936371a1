"""Problems that only the running service has: another type of body, a store that fails, a failure of its own."""

from __future__ import annotations

from nearveil.server.problems import Problem


def wrong_media_type() -> Problem:
    """Return that the body is said to be something else than JSON."""
    return Problem("wrong-media-type", 415, "Not JSON", "Send the body with 'Content-Type: application/json'.")


def not_kept() -> Problem:
    """Return that the store did not keep what was sent, so that nothing is promised about it."""
    detail = "The store could not keep this; nothing was changed, send it again in a moment."
    return Problem("not-kept", 503, "Not kept", detail, {"Retry-After": "1"})


def too_busy() -> Problem:
    """Return that more waits to be written than can be."""
    detail = "More reports wait than can be written; send it again in a moment."
    return Problem("too-busy", 503, "Too busy", detail, {"Retry-After": "1"})


def internal() -> Problem:
    """Return that the service failed; nothing is said of where, which may hold a place."""
    return Problem("internal", 500, "The service failed", "This is a bug of the service; its log says where it arose.")
