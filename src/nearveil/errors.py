"""Everything Nearveil raises on purpose: errors of the caller's parameters, of the users' data, and of the output.

Messages are one sentence that says what is wrong and what to do. They name rows, columns and options, and never a
coordinate: an error message ends up in logs. Other modules define errors of their own beside what raises them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any


class NearveilError(Exception):
    """Base of every error that is not a bug."""

    exit_code = 1


class UsageError(NearveilError, ValueError):
    """A parameter or option has a value that cannot be used."""

    exit_code = 2


class DataError(NearveilError, ValueError):
    """The users' data cannot be used."""

    exit_code = 3


class OutputError(NearveilError, OSError):
    """The result cannot be written."""

    exit_code = 4


@contextmanager
def without_context() -> Iterator[None]:
    """Let our errors out alone, without those that they were raised from: a library's message may quote a location."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (package := str(error.name).partition(".")[0]) not in EXTRA_OF:
            raise
        raise missing_package(package, "this") from None
    except NearveilError as error:
        error.__context__ = error.__cause__ = None
        raise


def naming_keywords(constructor: Callable[..., None]) -> Callable[..., None]:
    """Wrap a constructor: the error for a keyword that it does not take names the nearest that it takes, or all."""

    @functools.wraps(constructor)
    def wrapped(self: object, *arguments: Any, **given: Any) -> None:
        known = list(inspect.signature(constructor).parameters)[1:] if given else []
        for keyword in given:
            if keyword not in known and inspect.getfullargspec(constructor).varkw is None:
                nearest = get_close_matches(keyword, known, n=1)
                hint = f"did you mean {nearest[0]}?" if nearest else f"use {', '.join(known)}"
                raise TypeError(f"{type(self).__name__} has no parameter {keyword!r}; {hint}")
        constructor(self, *arguments, **given)

    return wrapped


_PACKAGES_OF = {
    "files": "numba pyarrow scipy shapely",
    "research": "httpx jinja2 joblib matplotlib pandas plotly pooch",
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
