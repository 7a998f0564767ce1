"""Checks and conversions of users' arguments.

`what` is the function and the argument, as `csd: the window`. Axes and shapes are read in
`axes.py`, arrays in `array_arguments.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from typing import Any, TypeVar

import numpy as np

from ..ir.dims import Dim, Size
from ..ir.errors import ArgumentError, AttributeValueError
from .axes import integer
from .operators import Operators

T = TypeVar("T")


def shown(x: Any) -> str:
    """Describe a value for errors: as it is if it is short, else by its kind."""
    if isinstance(x, Operators):
        return str(x.type)
    if x is None or isinstance(x, bool | int | float | complex | str | bytes | np.generic):
        text = repr(x)
        return text if len(text) <= 40 else f"{text[:37]}..."
    if isinstance(x, type):
        return f"the class {x.__name__}"
    shape = getattr(x, "shape", None)
    of = f" of the shape {tuple(shape)}" if isinstance(shape, tuple) else ""
    return f"a {type(x).__name__}{of}"


def wrong(what: str, given: Any, wanted: str, fix: str) -> ArgumentError:
    """The error for an argument of a wrong kind."""
    return ArgumentError(f"{what} is {shown(given)}, not {wanted}", fix=fix)


def choice(what: str, given: Any, choices: Iterable[Any]) -> Any:
    """Check that a value is one of some choices."""
    known = list(choices)
    if isinstance(given, Hashable) and not isinstance(given, np.generic):
        for one in known:
            if given is one or (type(given) is type(one) and given == one):
                return given
    names = ", ".join(str(getattr(one, "name", one)) or "''" for one in known)
    if isinstance(given, str | int | float):
        function, colon, argument = what.rpartition(": ")
        text = f"{function}{colon}there is no {argument} {shown(given)}"
    else:
        text = f"{what} is {shown(given)}"
    raise AttributeValueError(text, fix=f"use one of {names}")


def count_of(what: str, given: Any, least: int = 0, most: int = 2**31 - 1) -> int:
    """Convert to a Python integer in a range."""
    found = integer(what, given)
    if least <= found <= most:
        return found
    raise AttributeValueError(
        f"{what} is {found}",
        fix=f"use {least} or more" if found < least else f"use at most {most}",
    )


UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def bytes_of(what: str, given: Any) -> int:
    """Convert a number of bytes, or a text such as "256M", to a Python integer."""
    if not isinstance(given, str):
        return count_of(what, given, 1, 2**50)
    number, unit = given[:-1], given[-1:].upper()
    if number.isdecimal() and len(number) < 16 and unit in UNITS:
        return count_of(what, int(number) * UNITS[unit], 1, 2**50)
    raise AttributeValueError(
        f"{what} is {given!r}", fix='give bytes, or a whole number with K, M or G: "256M"'
    )


def size_of(what: str, given: Any) -> Size:
    """Convert to the size of an axis, a Python integer or a symbolic size."""
    return given if isinstance(given, Dim) else count_of(what, given)


PRECISIONS = (
    "default fastest high highest float32 bfloat16 bfloat16_3x tensorfloat32 tensorfloat32_3x"
).split()


def check_precision(name: str, given: Any) -> None:
    """Check the option `precision` of JAX, which changes nothing here."""
    for one in given if isinstance(given, tuple) and len(given) == 2 else (given,):
        if one is None or (isinstance(one, str) and one in PRECISIONS):
            continue
        # `lax.Precision`, JAX's, and its algorithms
        if not isinstance(one, enum.Enum) or type(one).__name__ not in _KINDS_OF_PRECISION:
            choice(f"{name}: precision", one, [None, *PRECISIONS])


_KINDS_OF_PRECISION = ("Precision", "DotAlgorithmPreset")


def members(what: str, given: Any) -> tuple[Any, ...]:
    """Convert an iterable, but no text or mapping, to its items."""
    is_one = isinstance(given, str | bytes | Mapping | Set) or getattr(given, "shape", None) == ()
    if not is_one and isinstance(given, Iterable):
        return tuple(given)
    raise wrong(what, given, "a list", "pass a list or a tuple")


def names_of(what: str, given: Any) -> tuple[str, ...]:
    """Convert a name, or several, to a tuple of names."""
    names = (given,) if isinstance(given, str) else members(what, given)
    for name in names:
        if not isinstance(name, str):
            function, colon, argument = what.rpartition(": ")
            raise wrong(f"{function}{colon}one of {argument}", name, "a name", "give texts")
    return names


def callable_of(what: str, given: Any) -> Callable[..., Any]:
    """Check that an argument can be called."""
    if callable(given):
        return given
    raise wrong(what, given, "a function", "pass a function, such as rlx.numpy.sin")


def instance_of(what: str, given: Any, kind: type[T], wanted: str, fix: str) -> T:
    """Check that an argument is an object of a class, which errors call `wanted`."""
    if isinstance(given, kind):
        return given
    raise wrong(what, given, wanted, fix)


def name_of(what: str, given: Any) -> str:
    """Check that an argument is a text with letters."""
    if isinstance(given, str) and given:
        return given
    raise wrong(what, given, "a name", "give a text")


def flag(what: str, given: Any) -> bool:
    """Convert to True or False."""
    is_plain = given is None or isinstance(given, bool | int | np.bool_ | np.integer)
    if is_plain or getattr(given, "shape", None) == ():
        return bool(given)
    raise wrong(what, given, "True or False", "pass True or False")


def pair(what: str, given: Any) -> tuple[Any, Any]:
    """Convert an iterable of two items to a pair."""
    found = members(what, given)
    if len(found) == 2:
        return found[0], found[1]
    raise wrong(what, given, "a pair", "give two")
