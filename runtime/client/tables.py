"""Tables of text that fit a terminal. Pure functions."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

GAP = "  "
ELLIPSIS = "…"


def table(
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    columns: int | None = None,
    shrink: Sequence[tuple[int, int]] = (),
) -> list[str]:
    """Return lines with columns as wide as their widest cell.

    Args:
        rows: the first one is the heading.
        right: columns that are aligned there.
        columns: width that the lines must fit into, as far as `shrink` allows; None: any.
        shrink: (column, width): what is cut for that, and down to which width; one after the other.
    """
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, cells)) for cells in zip(*shown, strict=True)]
    if columns is not None:
        for column, least in shrink:
            excess = sum(widths) + len(GAP) * (len(widths) - 1) - columns
            widths[column] = max(min(least, widths[column]), widths[column] - max(0, excess))
    return [
        GAP.join(
            _padded(cut(cell, width), width, column in right)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]


def cut(text: str, width: int) -> str:
    """Return the text, or as much of it as fits with an ellipsis."""
    if width_of(text) <= width:
        return text
    kept = text
    while kept and width_of(kept) > width - 1:
        kept = kept[:-1]
    return kept + ELLIPSIS


def width_of(text: str) -> int:
    """Return the columns of a terminal that a text takes: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def one_line(text: str) -> str:
    """Make a name printable: it may contain a line break, or a sequence that colours the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _padded(cell: str, width: int, to_the_right: bool) -> str:
    padding = " " * (width - width_of(cell))
    return padding + cell if to_the_right else cell + padding
