"""Everything Nearveil raises on purpose.

The tree::

    NearveilError
    ├── UsageError      a parameter or option is wrong            exit code 2
    ├── DataError       the users' data cannot be used            exit code 3
    │   └── BadRowError some rows of it cannot be used
    └── OutputError     the result cannot be written              exit code 4

Packages with errors of their own define them where they are raised: `audit.subject.AuditError` (exit code 4) and
`privacy.ledger.OverspentError` (exit code 5).

Messages are one sentence that says what is wrong and what to do. They name rows, columns and options, and
never a coordinate: an error message ends up in logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


class NearveilError(Exception):
    """Base of every error that is not a bug."""

    exit_code = 1


class UsageError(NearveilError, ValueError):
    """A parameter or option has a value that cannot be used."""

    exit_code = 2


class DataError(NearveilError, ValueError):
    """The users' data cannot be used."""

    exit_code = 3


class BadRowError(DataError):
    """Some rows cannot be used, and the others can; commands that read files can leave such rows out."""


class OutputError(NearveilError, OSError):
    """The result cannot be written."""

    exit_code = 4


@contextmanager
def without_context() -> Iterator[None]:
    """Let our errors out alone, without those that they were raised from: a library's message may quote a location."""
    try:
        yield
    except NearveilError as error:
        error.__context__ = error.__cause__ = None
        raise


_PACKAGES_OF = {
    "files": "pyarrow scipy shapely",
    "research": "httpx jinja2 joblib matplotlib numba pandas plotly pooch",
    "serve": "annotated_types fastapi httptools opentelemetry prometheus_client psycopg pydantic pydantic_settings "
    "redis starlette uvicorn",
    "spark": "pyspark",
    "geo": "geopandas pyogrio rasterio",
}
EXTRA_OF = {package: extra for extra, packages in _PACKAGES_OF.items() for package in packages.split()}
"""Packages that not every installation has, and the extra of Nearveil that brings each."""


def require_package(package: str, purpose: str) -> None:
    """Raise a sentence that says what to install unless a package is there."""
    if find_spec(package) is None:
        raise missing_package(package, purpose)


def missing_package(package: str, purpose: str, extra: str | None = None) -> UsageError:
    """Return the error for a package that is not installed."""
    return UsageError(
        f"{purpose} needs {package}, which is not installed; run pip install 'nearveil[{extra or EXTRA_OF[package]}]'"
    )
