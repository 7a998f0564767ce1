"""Forward mode for users, and what is built from both modes: jvp, hvp, Jacobians, Hessians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.types import is_inexact
from ..trace import pytree
from ..trace.apply import as_operand, operand_type
from ..trace.array import Array
from ..trace.make_graph import trace
from .grad import _plain, grad, vjp, with_zeros
from .jvp import jvp_graph
from .run import run_graph
from .vmap import vmap


def jvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Give the value of a function and its derivative along tangents.

    >>> import rlx
    >>> value, slope = rlx.jvp(lambda x: x * x, (3.0,), (1.0,))
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    traced = trace(fn, primals, concrete=True)
    leaves, tree = pytree.flatten(tuple(primals))
    given = pytree.flatten_like(tree, tuple(primals), tuple(tangents))
    active = [is_inexact(p.dtype) for p in traced.graph.params[: traced.n_args]]
    graph, out_active = jvp_graph(traced.graph, active + [False] * len(traced.captures))
    results = run_graph(graph, [*leaves, *traced.captures, *_moving(given, active)])
    count = len(traced.graph.results)
    slopes = with_zeros(results[count:], out_active, results[:count])
    return traced.unflatten([_plain(r) for r in results[:count]]), traced.unflatten(slopes)


def _moving(given: Sequence[Any], active: Sequence[bool]) -> list[Any]:
    return [t for t, a in zip(given, active, strict=True) if a]


def hvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Give the Hessian of a scalar function times a vector, without forming the Hessian.

    >>> import rlx
    >>> float(rlx.hvp(lambda x: x**3, (2.0,), (1.0,)))
    12.0
    """
    return jvp(grad(fn), primals, tangents)[1]


def jacfwd(fn: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Give a function that returns the Jacobian by forward mode, one column after another.

    The result has the structure of the value; each leaf that of argument `argnums`, with the
    axes of the value first.

    >>> import rlx
    >>> rlx.jacfwd(lambda x: x * x)(rlx.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(fn, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def wrapped(*args: Any) -> Any:
        leaves, tree = pytree.flatten(args[argnums])
        types = [operand_type(as_operand(x)) for x in leaves]

        def along(*tangents: Any) -> Any:
            moved = pytree.unflatten(tree, tangents)
            before, after = args[:argnums], args[argnums + 1 :]
            inner = lambda x: fn(*before, x, *after)  # noqa: E731
            return jvp(inner, (args[argnums],), (moved,))[1]

        columns = vmap(along, out_axes=-1)(*_unit_vectors(types))
        return pytree.map(lambda y: _unpacked(y, types, tree, last=True), columns)

    return wrapped


def jacrev(fn: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Give a function that returns the Jacobian by reverse mode, one row after another.

    >>> import rlx
    >>> rlx.jacrev(lambda x: x * x)(rlx.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(fn, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def wrapped(*args: Any) -> Any:
        before, after = args[:argnums], args[argnums + 1 :]
        value, pull_back = vjp(lambda x: fn(*before, x, *after), args[argnums])
        leaves, tree = pytree.flatten(value)
        types = [operand_type(as_operand(x)) for x in leaves]
        rows = vmap(lambda *cts: pull_back(pytree.unflatten(tree, cts))[0])(*_unit_vectors(types))
        flat, in_tree = pytree.flatten(rows)
        pieces = [pytree.leaves(_unpacked(x, types, tree, last=False)) for x in flat]
        columns = [pytree.unflatten(in_tree, list(each)) for each in zip(*pieces, strict=True)]
        return pytree.unflatten(tree, columns)

    return wrapped


def hessian(fn: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Give a function that returns the Hessian: forward over reverse mode.

    >>> import rlx
    >>> rlx.hessian(lambda x: (x**3).sum())(rlx.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(fn, argnums), argnums)


def _unit_vectors(types: Sequence[Any]) -> list[Any]:
    """For each type all unit vectors of the whole space, along a new axis 0."""
    total = sum(t.size for t in types)
    found, start = [], 0
    for t in types:
        rows = np.eye(total, t.size, -start).astype(t.dtype)
        found.append(Array(rows.reshape((total, *t.shape))))
        start += t.size
    return found


def _unpacked(x: Any, types: Sequence[Any], tree: pytree.Structure, *, last: bool) -> Any:
    """Cut the axis of unit vectors into pieces with the shapes of the types."""
    pieces, start = [], 0
    for t in types:
        if last:
            piece = x[..., start : start + t.size].reshape((*x.shape[:-1], *t.shape))
        else:
            piece = x[start : start + t.size].reshape((*t.shape, *x.shape[1:]))
        pieces.append(piece)
        start += t.size
    return pytree.unflatten(tree, pieces)
