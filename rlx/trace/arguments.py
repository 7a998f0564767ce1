"""Arguments as users write them: what a function needs of each, or an error.

`what` is the function and the argument, as `csd: the window`; `axes.py` reads axes and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from typing import Any

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import ArgumentError, AttributeValueError, ConcretizationError, ShapeError
from .apply import apply, as_tensor
from .axes import integer
from .tensor import TracedTensor


def shown(x: Any) -> str:
    """A short text of what was given: the value if it is small, else its kind."""
    if isinstance(x, TracedTensor):
        return f"a traced {x.type}"
    if x is None or isinstance(x, bool | int | float | complex | str | bytes | np.generic):
        text = repr(x)
        return text if len(text) <= 40 else f"{text[:37]}..."
    if isinstance(x, type):
        return f"the class {x.__name__}"
    shape = getattr(x, "shape", None)
    of = f" of the shape {tuple(shape)}" if isinstance(shape, tuple) else ""
    return f"a {type(x).__name__}{of}"


def wrong(what: str, given: Any, wanted: str, fix: str) -> ArgumentError:
    """The error for an argument that is not of the kind that is wanted."""
    return ArgumentError(
        f"{what} is {shown(given)}, not {wanted}", where=str(user_source()), fix=fix
    )


def choice(what: str, given: Any, choices: Iterable[Any]) -> Any:
    """Give back a value that is one of some."""
    known = list(choices)
    if isinstance(given, Hashable) and not isinstance(given, np.generic):
        for one in known:
            if given is one or (type(given) is type(one) and given == one):
                return given
    names = ", ".join(repr(one) for one in known)
    raise AttributeValueError(
        f"{what} is {shown(given)}", where=str(user_source()), fix=f"use one of {names}"
    )


def count_of(what: str, given: Any, least: int = 0, most: int = 2**31 - 1) -> int:
    """Give a Python integer in a range."""
    found = integer(what, given)
    if least <= found <= most:
        return found
    raise AttributeValueError(
        f"{what} is {found}",
        where=str(user_source()),
        fix=f"use {least} or more" if found < least else f"use at most {most}",
    )


def members(what: str, given: Any) -> tuple[Any, ...]:
    """Give the items of a list or another iterable, which is no text or mapping."""
    is_one = isinstance(given, str | bytes | Mapping | Set) or getattr(given, "shape", None) == ()
    if not is_one and isinstance(given, Iterable):
        return tuple(given)
    raise wrong(what, given, "a list", "pass a list or a tuple")


def function(what: str, given: Any) -> Callable[..., Any]:
    """Give back what can be called."""
    if callable(given):
        return given
    raise wrong(what, given, "a function", "pass a function, such as rlx.numpy.sin")


def vector(what: str, given: Any, *, least: int = 0) -> Any:
    """Give a tensor with one axis; a number is a vector of one."""
    x = as_tensor(given)
    if x.ndim == 0:
        x = apply("reshape", x, shape=(1,))
    if x.ndim != 1:
        raise ShapeError(
            f"{what} is {x.type}, not a vector",
            where=str(user_source()),
            fix="give one axis; rlx.vmap takes a batch of them",
        )
    if isinstance(x.shape[0], int) and x.shape[0] < least:
        raise ShapeError(
            f"{what} is {x.type}, without elements",
            where=str(user_source()),
            fix=f"give {least} or more",
        )
    return x


def with_axes(what: str, given: Any, least: int) -> Any:
    """Give a tensor that has so many axes at least."""
    x = as_tensor(given)
    if x.ndim >= least:
        return x
    kind = {1: "an axis", 2: "the two axes of a matrix"}.get(least, f"{least} axes")
    raise ShapeError(
        f"{what} is {x.type}, without {kind}",
        where=str(user_source()),
        fix=f"give an array with {least} axes or more",
    )


def known_number(what: str, given: Any) -> Any:
    """Give a Python number for a number whose value is known now."""
    array = given.concrete if isinstance(given, TracedTensor) else given
    if array is None:
        raise ConcretizationError(
            f"{what} is {shown(given)}, which has no number while it is recorded",
            where=str(user_source()),
            fix="make the argument a Python value with static_argnames",
        )
    x = as_tensor(array)
    if x.shape == ():
        return x.host().item()
    raise wrong(what, given, "a number", "pass one number")
