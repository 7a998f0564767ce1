"""A file of Python that a verb runs."""

from __future__ import annotations

import warnings
from pathlib import Path

from ..ir.errors import ArgumentError
from ..ir.files import as_path, read_file


def script_path(given: str) -> Path:
    """The path of a file of Python; what is no such file is an error of rlx."""
    place = as_path(given)
    source = read_file(place, bytes)
    try:
        with warnings.catch_warnings():  # they come when it runs
            warnings.simplefilter("ignore")
            compile(source, str(place), "exec")
    except (SyntaxError, ValueError) as error:  # ValueError: of bytes that are 0
        line = getattr(error, "lineno", None)
        place_text = f"{place}, line {line}" if line else str(place)
        raise ArgumentError(
            f"{place_text} is not Python: {getattr(error, 'msg', error)}",
            fix="name a file that Python can run",
        ) from None
    return place
