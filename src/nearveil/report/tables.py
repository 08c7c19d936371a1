"""Tables as text for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns lined up: words to the left, figures to the right.

    Examples
    --------
    >>> print(text_table(["who", "metres"], [["ann", "5"], ["bob", "120"]]))
    who  metres
    ann       5
    bob     120
    """
    widths = [max(len(line[column]) for line in (headers, *rows)) for column in range(len(headers))]
    figures = [all(_is_figure(row[column]) for row in rows) for column in range(len(headers))]
    lines = []
    for line in (headers, *rows):
        cells = [
            cell.rjust(width) if figure else cell.ljust(width)
            for cell, width, figure in zip(line, widths, figures, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the same as Markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _is_figure(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell[0] in "-–.±×<>~"
