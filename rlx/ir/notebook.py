"""What notebooks show of arrays, graphs and modules: small pieces of HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

MOST_LINES = 400  # of a text
EDGE = 5  # rows and columns of a long table that are shown at each end
STYLE = "font-family:ui-monospace,monospace;font-size:12px"


def text_html(title: str, text: str) -> str:
    """A text under its title; of a long one the beginning."""
    lines = text.splitlines()
    more = [f"... {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    shown = "\n".join(_line(line) for line in [*lines[:MOST_LINES], *more])
    return f'<div>{_title(title)}<pre style="{STYLE}">{shown}</pre></div>'


def _line(line: str) -> str:
    """A line whose remark, the user's line, steps back."""
    text, mark, remark = line.partition("  # ")
    gray = f'<span style="opacity:.6">{html.escape(mark + remark)}</span>' if mark else ""
    return html.escape(text) + gray


def array_html(title: str, array: np.ndarray) -> str:
    """An array: a matrix as a table with its ends, others as NumPy prints them."""
    if array.ndim != 2 or not array.size:
        return text_html(title, np.array2string(array, separator=", ", threshold=200))
    rows, columns = map(_ends, array.shape)
    lines = []
    for row in rows:
        cells = ["..." if row is None or c is None else _number(array[row, c]) for c in columns]
        lines.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div>{_title(title)}<table style="{STYLE}">{body}</table></div>'


def _ends(count: int) -> Sequence[int | None]:
    """The first and last numbers below a count, with None for those between."""
    if count <= 2 * EDGE + 1:
        return range(count)
    return [*range(EDGE), None, *range(count - EDGE, count)]


def _number(x: object) -> str:
    return np.array2string(np.asarray(x), precision=4)


def tree_html(title: str, parts: Iterable[str], is_open: bool = False) -> str:
    """Parts, pieces of HTML, which fold away under a title."""
    inside = "".join(f'<div style="margin-left:1.5em">{part}</div>' for part in parts)
    head = f'<summary style="{STYLE}">{html.escape(title)}</summary>'
    return f"<details{' open' if is_open else ''}>{head}{inside}</details>"


def plain_html(text: str) -> str:
    """A short text on a line of its own."""
    return f'<span style="{STYLE}">{html.escape(text)}</span>'


def _title(title: str) -> str:
    return f'<div style="opacity:.7">{html.escape(title)}</div>'
