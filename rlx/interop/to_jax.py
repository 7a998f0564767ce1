"""Functions of rlx for JAX: `to_jax`, and their text, `to_stablehlo`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..ir.errors import ArgumentError
from ..ir.graph import Graph
from ..ir.types import Type
from ..trace import pytree
from ..trace.make_graph import check_function, function_name, titled, trace
from ..trace.placement import check_unplaced
from .containers import check_jax, is_keys, know_containers_of_jax, plain_key
from .export import host_captures


def to_jax(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a function of rlx arrays to a function of JAX arrays.

    rlx records `fun` for the shapes it is called with, and JAX runs the graph op by op with
    functions of `jax.lax`: so JAX can jit, differentiate and batch it. Custom derivatives are kept.
    Arguments and results are pytrees. A typed key comes as its words, the key of `rlx.random`.

    >>> import jax
    >>> import rlx.numpy as rnp
    >>> f = to_jax(lambda x: rnp.sum(rnp.tanh(x) ** 2))
    >>> print(jax.jit(jax.grad(f))(jax.numpy.array([0.0, 1.0])).round(2))
    [0.   0.64]
    """
    check_function(fun, "what to_jax converts")
    know_containers_of_jax()

    @functools.wraps(fun)
    def converted(*args: Any, **kwargs: Any) -> Any:
        import jax

        from .in_jax import operand_spec, run_in_jax, words

        leaves, tree = pytree.flatten((args, kwargs))
        leaves = [words(x) for x in leaves]
        specs = [operand_spec(x) for x in leaves]
        given, named = pytree.map(plain_key, pytree.unflatten(tree, specs), is_leaf=is_keys)
        traced = trace(fun, given, named)
        check_unplaced(traced.graph, "to_jax")
        captures = host_captures(traced, "to_jax")
        arrays = [jax.numpy.asarray(x) for x in (*leaves, *captures)]
        results = run_in_jax(traced.graph, arrays)
        return pytree.unflatten(traced.out_tree, results)

    converted.__name__, converted.__qualname__ = function_name(fun), titled("to_jax", fun)
    return converted


def to_stablehlo(fun: Callable[..., Any], *specs: Any, **named: Any) -> str:
    """The text of `fun` in StableHLO.

    Its arguments are like `specs`, and like `named` by keyword. Arrays that the function uses from
    outside are constants in it.

    >>> import rlx
    >>> text = to_stablehlo(lambda x: x * 2.0, rlx.spec((3,)))
    >>> "stablehlo.multiply" in text
    True
    """
    check_function(fun, "what to_stablehlo converts")
    check_jax()
    from .in_jax import stablehlo

    traced = trace(fun, specs, named)
    check_unplaced(traced.graph, "to_stablehlo")
    for param in traced.graph.params:
        _check_static(traced.graph, param.type)
    return stablehlo(traced.graph, host_captures(traced, "to_stablehlo"))


def _check_static(graph: Graph, type: Type) -> None:
    if not all(isinstance(n, int) for n in type.shape):
        raise ArgumentError(
            f"to_stablehlo: {graph.name} takes {type}, whose size is no number",
            fix="give specs of static shapes",
        )
