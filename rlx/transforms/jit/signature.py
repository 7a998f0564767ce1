"""The signature of a call: what must be equal for compiled code to be used again.

It is the structure of the arguments and the kind of each leaf. And why a call has a new one, which
is why a function is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ...ir.errors import DtypeError, RecompileError
from ...ir.types import Type
from ...trace import pytree
from ...trace.apply import as_operand, is_weak, operand_type
from ...trace.array import Array
from ...trace.make_graph import advice_for, argument_origins, function_name


def kinds_of(
    fn: Callable[..., Any], args: Sequence[Any], leaves: Sequence[Any], tree: pytree.Structure
) -> tuple[Any, ...]:
    """The kinds of all leaves of a function's arguments; an error names the leaf."""
    kinds: list[Any] = []
    try:
        for leaf in leaves:
            kinds.append(_kind(leaf))
    except DtypeError as error:
        i = len(kinds)
        origins = argument_origins(fn, args, tree, function_name(fn))
        error.notes = (origins[i], *error.notes)
        if not isinstance(leaves[i], np.ndarray):
            error.fix = advice_for(leaves[i])
        raise
    return tuple(kinds)


def _kind(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, Array):
        data = leaf._data
        return data.dtype, data.shape
    if type(leaf) is np.ndarray:
        return leaf.dtype, leaf.shape
    operand = as_operand(leaf)
    return operand_type(operand), is_weak(operand)


Key = tuple[pytree.Structure, tuple[tuple[Any, ...], ...]]  # structure, and the kind of each leaf
SIDES = ("the compiled ones", "this call")
MOST_NAMED = 4  # differences in one explanation

_is_forbidden: ContextVar[bool] = ContextVar("no_recompile", default=False)


@contextmanager
def no_recompile() -> Iterator[None]:
    """Raise in the block where a jitted function would compile.

    It would for arguments of a new kind.

    >>> import rlx
    >>> f = rlx.jit(lambda x: x + 1)
    >>> with no_recompile():
    ...     f(1.0)
    Traceback (most recent call last):
    ...
    rlx.RecompileError: <lambda> would be compiled: it is called for the first time
      where  ...
      fix    call it once with such arguments before, or leave out rlx.no_recompile()
    """
    token = _is_forbidden.set(True)
    try:
        yield
    finally:
        _is_forbidden.reset(token)


def check_recompile(fn: Callable[..., Any], reason: str) -> None:
    """Raise if nothing may be compiled now."""
    if _is_forbidden.get():
        raise RecompileError(
            f"{function_name(fn)} would be compiled: {reason or 'it is called for the first time'}",
            fix="call it once with such arguments before, or leave out rlx.no_recompile()",
        )


def reason_to_compile(
    fn: Callable[..., Any], args: Sequence[Any], key: Key, known: Sequence[Key]
) -> str:
    """How a call differs from the nearest one compiled before; empty for the first."""
    if not known:
        return ""
    tree, kinds = key
    # of equally near ones the most recent
    alike = [other for structure, other in reversed(known) if structure == tree]
    if not alike:
        return difference(known[-1][0], tree)
    pairs = [[(a, b) for a, b in zip(kinds, other, strict=True) if a != b] for other in alike]
    nearest = alike[min(range(len(alike)), key=lambda i: len(pairs[i]))]
    origins = argument_origins(fn, args, tree, function_name(fn))
    rows = zip(origins, kinds, nearest, strict=True)
    parts = [f"{name} is {_text(now)}, was {_text(was)}" for name, now, was in rows if now != was]
    more = len(parts) - MOST_NAMED
    return "; ".join(parts[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def difference(compiled: pytree.Structure, called: pytree.Structure) -> str:
    """Say where the arguments of a call part from those of another."""
    (args, kwargs), (others, other_kwargs) = compiled.children(), called.children()
    if args.num_children != others.num_children:
        return f"{args.num_children} positional in {SIDES[0]}, {others.num_children} in {SIDES[1]}"
    pairs = zip(args.children(), others.children(), strict=True)
    places = [pytree.difference(a, b, f"argument {i}", SIDES) for i, (a, b) in enumerate(pairs)]
    places.append(pytree.difference(kwargs, other_kwargs, "the named arguments", SIDES))
    return next(filter(None, places), "the arguments differ")


def _text(kind: tuple[Any, ...]) -> str:
    first, second = kind
    if isinstance(first, Type):
        return f"{first}" + (" (a Python number)" if second else "")
    return str(Type(first, second))
