"""Tables inside the page: sortable, and to be had as CSV."""

from __future__ import annotations

from html import escape
from itertools import groupby
from urllib.parse import quote

from nearveil.evaluation.attack_score import Mean, Share
from nearveil.evaluation.outcome import Column, Table, Value
from nearveil.report.outcome_files import format_value, full_name, table_csv

# More of them take two lines each on paper.
_WIDE_COLUMNS = 7
# Few enough not to be torn apart by the end of a page.
_SHORT_ROWS = 20


def table_figure(table: Table, anchor: str) -> str:
    """Return a table with its caption, its protocol and a link to its numbers."""
    kinds = {"wide": len(table.columns) > _WIDE_COLUMNS, "short": len(table.rows) <= _SHORT_ROWS}
    classes = " ".join(["table", *(kind for kind, holds in kinds.items() if holds)])
    body = "\n".join(_row(row, table.columns) for row in table.rows)
    link = f'<a class="csv" download="{escape(table.name)}.csv" href="{_csv_address(table)}">Save as CSV</a>'
    return (
        f'<figure class="{classes}">\n<figcaption id="{anchor}">{escape(table.caption)}</figcaption>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{anchor}">\n<table>\n'
        f"<thead>\n{_head(table)}\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
        f'<p class="protocol">{escape(table.protocol)} {link}</p>\n</figure>'
    )


def sort_value(value: Value) -> str:
    """Return what a cell is sorted by: all digits of a number, a text as it is, nothing for None."""
    if isinstance(value, Mean | Share):
        value = value.value
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(float(value))


def _csv_address(table: Table) -> str:
    return "data:text/csv;charset=utf-8," + quote(table_csv(table))


def _head(table: Table) -> str:
    """One line of headers; two where columns have groups."""
    if not any(column.group for column in table.columns):
        return f"<tr>{''.join(_header(table, number) for number in range(len(table.columns)))}</tr>"
    above, below = [], []
    for group, members in groupby(range(len(table.columns)), key=lambda number: table.columns[number].group):
        numbers = list(members)
        if group:
            above.append(f'<th class="group" colspan="{len(numbers)}" scope="colgroup">{escape(group)}</th>')
            below += [_header(table, number, first=number == numbers[0]) for number in numbers]
        else:
            above += [_header(table, number, rows=2) for number in numbers]
    return f"<tr>{''.join(above)}</tr>\n<tr>{''.join(below)}</tr>"


def _header(table: Table, number: int, *, rows: int = 1, first: bool = False) -> str:
    column = table.columns[number]
    kind = "number" if _is_numeric(table, number) else "text"
    classes = kind + (" first" if first else "")
    span = f' rowspan="{rows}"' if rows > 1 else ""
    return (
        f'<th class="{classes}" scope="col" data-column="{number}" data-kind="{kind}"{span}>'
        f'<button type="button" title="{escape(full_name(column))}">{escape(column.name)}</button></th>'
    )


def _is_numeric(table: Table, number: int) -> bool:
    values = [row[number] for row in table.rows if row[number] is not None]
    return bool(values) and not any(isinstance(value, str) for value in values)


def _row(row: tuple[Value, ...], columns: tuple[Column, ...]) -> str:
    cells = [_cell(value, column) for value, column in zip(row, columns, strict=True)]
    if cells:
        cells[0] = cells[0].replace("<td", '<th scope="row"', 1).removesuffix("</td>") + "</th>"
    starts = [
        number for number in range(1, len(columns)) if columns[number].group not in ("", columns[number - 1].group)
    ]
    for number in starts:
        cells[number] = cells[number].replace('class="', 'class="first ', 1)
    return f"<tr>{''.join(cells)}</tr>"


def _cell(value: Value, column: Column) -> str:
    kind = "text" if isinstance(value, str) else "number"
    shown = escape(format_value(value, column.form)) if value is not None else '<span class="none">–</span>'
    if isinstance(value, Mean | Share):
        # A cell may be broken before its interval, not within.
        words, space, interval = shown.replace("± ", "±&nbsp;").partition(" ")
        shown = words + (f' <span class="interval">{interval}</span>' if space else "")
    return f'<td class="{kind}" data-value="{escape(sort_value(value))}">{shown}</td>'
