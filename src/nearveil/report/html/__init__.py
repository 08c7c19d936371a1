"""The report of a reproduction as a page: a single file that asks nobody for anything."""

from nearveil.report.html.page import write_report

__all__ = ["write_report"]
