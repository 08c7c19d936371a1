"""Tables as text for a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

TEXT_WIDTH = 100
"""Columns of a terminal that text is wrapped for."""
_WIDEST = 10_000


def text_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """Return columns lined up: words to the left, figures to the right.

    Parameters
    ----------
    headers, rows
        What stands in the table.
    width : int, optional
        Headers and cells are broken between words to keep within it, where words are short enough. Without one, a
        narrow terminal has to scroll.

    Examples
    --------
    >>> print(text_table(["who", "meters"], [["ann of the hill", "5"], ["bob", "120"]], width=16))
    who       meters
    ann of         5
    the hill
    bob          120
    """
    # Slow to import, and most commands print no table.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    columns = [[header, *(row[number] for row in rows)] for number, header in enumerate(headers)]
    widths = _column_widths(columns, _WIDEST if width is None else width)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="none")
    for (header, *cells), wide in zip(columns, widths, strict=True):
        table.add_column(Text(header), justify="right" if all(map(_is_figure, cells)) else "left", width=wide)
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(file=io.StringIO(), width=_WIDEST, color_system=None)
    with console.capture() as printed:
        console.print(table)
    return "\n".join(line.rstrip() for line in printed.get().splitlines())


def _column_widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return widths that fit together: first headers are broken, then the widest columns; never a word."""
    widths = [max(map(len, cells)) for cells in columns]
    words = [max(len(word) for cell in cells for word in cell.split() or [""]) for cells in columns]
    for least in ([max(one, *map(len, cells[1:])) for one, cells in zip(words, columns, strict=True)], words):
        while sum(widths) + 2 * (len(widths) - 1) > width and widths != least:
            number = max(range(len(widths)), key=lambda each: (widths[each] > least[each], widths[each]))
            widths[number] -= 1
    return widths


def _is_figure(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell[0] in "-–.±×<>~"
