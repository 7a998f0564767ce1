"""Jaxprs, JAX's records of functions: how they are made, whose lines they hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from ..ir.source import PACKAGE, Source
from ..ir.types import is_inexact

JAX = os.path.dirname(str(jax.__file__)) + os.sep
LIBRARIES = os.path.dirname(os.path.dirname(str(jax.__file__))) + os.sep
Literal = core.Literal


class Recorded(NamedTuple):
    """A function as a jaxpr of its leaves, and the structure of what it gives."""

    closed: Any
    out_tree: Any


def record(fn: Callable[..., Any], specs: Sequence[Any]) -> Recorded:
    """Let JAX record a function of arrays like `specs`, which may return any pytree."""
    trees = []

    def flat(*leaves: Any) -> list[Any]:
        found, tree = jax.tree_util.tree_flatten(fn(*leaves))
        trees.append(tree)
        return found

    closed = jax.make_jaxpr(flat)(*specs)
    return Recorded(closed, trees[-1])


def spec_of(aval: Any) -> Any:
    """What stands for an array of an abstract value when a function is recorded."""
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def is_key(aval: Any) -> bool:
    """Whether an abstract value is one of typed keys of random numbers."""
    return jax.numpy.issubdtype(aval.dtype, jax.dtypes.prng_key)


def key_generator(aval: Any) -> Any:
    """The generator of the keys of an abstract value, with JAX's functions."""
    return aval.dtype._impl


def moves(aval: Any) -> bool:
    """Whether derivatives go through an abstract value."""
    return not is_key(aval) and is_inexact(np.dtype(aval.dtype))


def source_of(equation: Any) -> Source | None:
    """The user's line of an equation: the innermost outside of libraries."""
    traceback = equation.source_info.traceback
    if traceback is None:
        return None
    codes, places = traceback.raw_frames()
    fallback = None
    for code, place in zip(codes, places, strict=True):
        name = code.co_filename
        if name.startswith((JAX, PACKAGE)) or name.startswith("<frozen"):
            continue
        fallback = fallback or (code, place)
        if not name.startswith(LIBRARIES):
            return _source(code, place, equation)
    return _source(*fallback, equation) if fallback else None


def _source(code: Any, place: int, equation: Any) -> Source:
    lines = (line for start, end, line in code.co_lines() if start <= place < end and line)
    scope = str(equation.source_info.name_stack)
    return Source(code.co_filename, next(lines, code.co_firstlineno), code.co_name, scope)
