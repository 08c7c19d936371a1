"""Small HTML for notebooks: cards and tables, in the reader's own colours, without scripts, and all text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_CARD = "border:1px solid;border-radius:6px;padding:.6em .9em;max-width:60em;overflow-x:auto"
_NAME = "text-align:left;vertical-align:top;padding:.1em 1em .1em 0;font-weight:600;background:none"
_CELL = "text-align:left;vertical-align:top;padding:.1em 1em .1em 0;font-weight:400;background:none"


def html_card(
    title: str, facts: Sequence[tuple[str, str]], *, notes: Sequence[str] = (), more: Sequence[str] = ()
) -> str:
    """Return a card: a title, names with their values, notes, and parts that are HTML already."""
    rows = "".join(
        f'<tr style="background:none"><th style="{_NAME}">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in facts
    )
    listed = "".join(f'<p style="margin:.4em 0">{escape(note)}</p>' for note in notes)
    table = f'<table style="border:none;margin:.4em 0">{rows}</table>' if rows else ""
    return f'<div style="{_CARD}"><strong>{escape(title)}</strong>{table}{listed}{"".join(more)}</div>'


def html_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of text."""
    head = "".join(f'<th style="{_NAME}">{escape(header)}</th>' for header in headers)
    body = "".join(
        f'<tr style="background:none">{"".join(f"""<td style="{_CELL}">{escape(cell)}</td>""" for cell in row)}</tr>'
        for row in rows
    )
    return f'<table style="border:none;margin:.4em 0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
