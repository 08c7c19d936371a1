"""Names of `nearveil.report.page`, until the page of attacks imports them from there."""

from nearveil.report.page import filled, verbatim

__all__ = ["filled", "verbatim"]
