"""Replay a jaxpr with rlx functions in place of JAX's primitives.

A rule for each primitive is in `RULES`, which the files of `primitives/` fill. It is called with
the equation and the operands, and gives a result, or a list where the primitive has several. What
has no rule is left to that of `OTHERS`, in `primitives/derivatives.py`. Typed keys of random
numbers are arrays of uint32 here, with the words of a key along the last axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..ir import builder
from ..ir.graph import OPS
from ..ir.source import at
from ..ir.types import as_dtype
from ..trace.apply import apply, as_tensor, record, to_value
from ..trace.array import Array
from ..trace.tensor import TracedTensor
from .jaxprs import Literal, is_key, key_generator, source_of

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
OTHERS = "*"  # the name of the rule of all primitives that have none
# rules that know keys; others get one word of each key at a time
KNOW_KEYS: set[str] = set()


def rule(*names: str, knows_keys: bool = False) -> Callable[[Rule], Rule]:
    """Make a function the rule of primitives."""

    def enter(fn: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, fn))
        if knows_keys:
            KNOW_KEYS.update(names)
        return fn

    return enter


def same(functions: dict[str, Any]) -> None:
    """Enter functions of a primitive's operands.

    `(function, *names)` is one that takes parameters of these names after them, and by keyword
    those whose name ends in "=".
    """
    for name, entry in functions.items():
        fn, *names = entry if isinstance(entry, tuple) else (entry,)
        RULES[name] = functools.partial(_called, fn, names)


def _called(fn: Callable[..., Any], names: list[str], equation: Any, *operands: Any) -> Any:
    given = [equation.params[name] for name in names if not name.endswith("=")]
    keywords = {name[:-1]: equation.params[name[:-1]] for name in names if name.endswith("=")}
    return fn(*operands, *given, **keywords)


# -- the walk -----------------------------------------------------------------------------------


def replay(closed: Any, operands: Sequence[Any]) -> list[Any]:
    """Give the results of a closed jaxpr for operands of its types."""
    jaxpr = closed.jaxpr
    table = dict(zip(jaxpr.constvars, map(constant, closed.consts), strict=True))
    table.update(zip(jaxpr.invars, operands, strict=True))

    def read(atom: Any) -> Any:
        return literal(atom) if isinstance(atom, Literal) else table[atom]

    for equation in jaxpr.eqns:
        with at(source_of(equation)):
            found = _results(equation, [read(atom) for atom in equation.invars])
        table.update(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _results(equation: Any, operands: list[Any]) -> list[Any]:
    name = equation.primitive.name
    has_keys = any(is_key(atom.aval) for atom in (*equation.invars, *equation.outvars))
    known = name if name in RULES else OTHERS
    run = by_words if has_keys and known not in KNOW_KEYS else RULES[known]
    found = run(equation, *operands)
    found = list(found) if equation.primitive.multiple_results else [found]
    for x, atom in zip(found, equation.outvars, strict=True):
        _check(name, x, atom.aval)
    return found


def _check(name: str, x: Any, aval: Any) -> None:
    """A rule that gives another type than JAX is wrong itself."""
    if is_key(aval) or aval.dtype == jax.dtypes.float0:
        return
    found = as_tensor(x).type
    wanted = tuple(aval.shape), aval.dtype
    assert (found.shape, found.dtype) == wanted, f"rule of `{name}`: {found}, not {aval}"


def by_words(equation: Any, *operands: Any) -> Any:
    """Apply a rule that moves elements to each word of keys."""
    are_keys = [is_key(atom.aval) for atom in equation.invars]
    atoms = (*equation.invars, *equation.outvars)
    impl = next(key_generator(atom.aval) for atom in atoms if is_key(atom.aval))
    found = []
    for i in range(impl.key_shape[0]):
        pairs = zip(operands, are_keys, strict=True)
        word = [as_tensor(x)[..., i] if is_one else x for x, is_one in pairs]
        made = RULES[equation.primitive.name](equation, *word)
        found.append(list(made) if equation.primitive.multiple_results else [made])
    joined = [joined_words(words) for words in zip(*found, strict=True)]
    return joined if equation.primitive.multiple_results else joined[0]


def joined_words(words: Sequence[Any]) -> Any:
    """Keys of their words."""
    rows = [apply("reshape", w, shape=(*as_tensor(w).shape, 1)) for w in words]
    return apply("concat", *rows, axis=rows[0].ndim - 1)


# -- arrays from nothing ------------------------------------------------------------------------


def literal(atom: Any) -> Any:
    """A number that stands in a jaxpr; the slope of an integer has none."""
    if atom.aval.dtype == jax.dtypes.float0:
        return recorded(Array(np.zeros(atom.aval.shape, np.bool_)))
    return recorded(Array(np.asarray(atom.val, dtype=as_dtype(np.dtype(atom.aval.dtype)))))


def constant(x: Any) -> Any:
    """An array that JAX's function used from outside."""
    if isinstance(x, jax.Array) and is_key(x):
        x = jax.random.key_data(x)
    data = np.asarray(x)
    return recorded(
        Array(data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("=")))
    )


def recorded(x: Any) -> Any:
    """An array as a value of the graph under construction, where there is one.

    Else what follows from known arrays would be computed now, op by op. Single numbers stay known.
    """
    if builder.current() is None or isinstance(x, TracedTensor) or not x.shape:
        return x
    return TracedTensor(to_value(x))


def made(op: str, **attrs: Any) -> Any:
    """The array that an op without operands makes, recorded where a graph is."""
    if builder.current() is None:
        return apply(op, **attrs)
    return record(OPS[op], [], OPS[op].complete(attrs))[0]
