"""Functions that WGSL lacks: those that a text calls are put before it."""

from __future__ import annotations

import re
from functools import cache

from . import (
    bits_text,
    double_text,
    double_wave_text,
    error_text,
    exponential_text,
    shared_text,
    wave_text,
    wide_text,
)

PARTS = (
    bits_text.TEXT,
    wide_text.TEXT,
    exponential_text.TEXT,
    wave_text.TEXT,
    shared_text.text_for("f32"),
    error_text.TEXT,
    double_text.TEXT,
    double_wave_text.TEXT,
    shared_text.text_for("f64"),
)
_DECLARED = re.compile(r"^(?:fn|struct|var<private>) (\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_POLYNOMIAL = re.compile(r"polynomial\(([^()]*)\)")


@cache
def declarations() -> dict[str, str]:
    """Each declaration's text by its name, in an order where none needs a later one."""
    found: dict[str, str] = {}
    for part in PARTS:
        for block in re.split(r"\n(?=fn |struct |var<)", part):
            named = _DECLARED.match(block.strip())
            if named:
                text = re.sub(r"//[^\n]*\n", "", block).strip()
                found[named[1]] = _POLYNOMIAL.sub(_horner, text)
    return found


def _horner(polynomial: re.Match[str]) -> str:
    """A polynomial of a number, by the rule of Horner: the first factor is of the highest power."""
    x, text, *factors = (part.strip() for part in polynomial[1].split(","))
    for factor in factors:
        text = f"({text} * {x} + {factor})"
    return text


def called_by(text: str) -> str:
    """The declarations that a text needs, and those that they need."""
    known = declarations()
    needed: set[str] = set()
    left = [text]
    while left:
        words = set(_WORD.findall(left.pop())) & known.keys() - needed
        needed |= words
        left += [known[word] for word in words]
    return "\n\n".join(text for name, text in known.items() if name in needed)
