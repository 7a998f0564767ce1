"""The kind of an argument: what must be equal for compiled code to be used again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.errors import DtypeError
from ..trace import pytree
from ..trace.apply import as_operand, is_weak, operand_type
from ..trace.array import Array
from ..trace.make_graph import advice_for, argument_origins, function_name


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
