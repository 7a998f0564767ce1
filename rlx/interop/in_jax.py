"""A graph of rlx run by JAX, op by op, as functions that JAX can transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..backends.graph_table import computed
from ..backends.xla.emit import table_of
from ..backends.xla.host import call_host
from ..ir.body import Call
from ..ir.builder import build
from ..ir.errors import GradientError, UnsupportedOp
from ..ir.graph import Graph, Node
from ..ir.ops.control import filled
from ..ir.types import Type, as_dtype, is_inexact
from ..lower.hir import dedupe, expand, split_complex
from ..trace.apply import as_operand, is_weak, operand_type
from ..transforms.jvp import expanded, node_jvp
from .jaxprs import is_key

Arrays = Sequence[jax.Array]


def words(x: Any) -> Any:
    """The words of a typed key that JAX records; all else as it is."""
    return jax.random.key_data(x) if isinstance(x, jax.Array) and is_key(x) else x


def operand_spec(x: Any) -> Any:
    """The spec by which rlx records an argument of JAX."""
    if isinstance(x, jax.Array):
        return Type(as_dtype(np.dtype(x.dtype)), x.shape)
    operand = as_operand(x)
    return operand if is_weak(operand) else operand_type(operand)


def run_in_jax(graph: Graph, arrays: Arrays, has_host: bool = True) -> list[jax.Array]:
    """The results of a graph for arrays of its parameters.

    What has no meaning in JAX calls NumPy, if it `has_host`, else it is an error.
    """
    given = [x.astype(p.type.dtype) for x, p in zip(arrays, graph.params, strict=True)]
    return _InJax(has_host).run(graph, given)


def stablehlo(graph: Graph, captures: Sequence[np.ndarray]) -> str:
    """The text of a graph whose last parameters stand for the captures."""
    count = len(graph.params) - len(captures)

    def function(*arrays: jax.Array) -> list[jax.Array]:
        return run_in_jax(graph, [*arrays, *map(jax.numpy.asarray, captures)], has_host=False)

    function.__name__ = graph.name
    with jax.enable_x64(True):
        specs = [jax.ShapeDtypeStruct(p.shape, p.dtype) for p in graph.params[:count]]
        return jax.jit(function, keep_unused=True).lower(*specs).as_text()


class _InJax:
    """Runs graphs while JAX records, with the table of the xla device."""

    def __init__(self, has_host: bool) -> None:
        self._table, self._has_host = table_of(self.run), has_host

    def run(self, graph: Graph, arrays: Arrays) -> list[jax.Array]:
        """The results of a graph for arrays of its parameters."""
        graph = dedupe(expand(graph, self._is_whole))
        known = dict(zip(graph.params, arrays, strict=True))
        for node in graph.nodes:
            results = self._results(node, [known[a] for a in node.args])
            known.update(zip(node.results, results, strict=True))
        return [known[r] for r in graph.results]

    def _is_whole(self, node: Node) -> bool:
        return node.op.name in RULED or self._table.takes(node) or _has_slopes(node)

    def _results(self, node: Node, arrays: Arrays) -> Sequence[jax.Array]:
        if node.op.name in RULED:
            return RULED[node.op.name](self.run, node, arrays)
        if isinstance(node.op.rules.body, Call):
            return self.run(node.attrs["graph"], arrays)
        if node.op.rules.nondifferentiable is not None:
            return self._emitted(node, list(map(jax.lax.stop_gradient, arrays)))
        if _has_slopes(node):
            return _with_slopes(self.run, node, arrays, self._emitted)
        return self._emitted(node, arrays)  # linear, or made of graphs: JAX differentiates it

    def _emitted(self, node: Node, arrays: Arrays) -> Sequence[jax.Array]:
        if not self._table.takes(node):
            if node.op.rules.expand is not None:
                return self.run(expanded(node), arrays)
            return self._without_row(node, arrays)
        return tuple(computed(node, self._table, arrays))

    def _without_row(self, node: Node, arrays: Arrays) -> Sequence[jax.Array]:
        """A node as one of its real and imaginary parts, or else a call of NumPy."""
        alone = build(lambda *xs: node.op.apply(xs, node.attrs), _types(arrays), node.op.name)
        in_parts = split_complex(alone, lambda dtype: False, self._table.takes)
        if in_parts is not alone:
            return self.run(in_parts, arrays)
        if not self._has_host:
            raise UnsupportedOp(
                f"{node.op.name}: StableHLO has nothing for it, and a text cannot call Python",
                where=str(node.source),
                fix="move the op out of the function",
            )

        @jax.custom_jvp
        def called(*xs: jax.Array) -> Sequence[jax.Array]:
            return call_host(node, xs)

        @called.defjvp
        def called_jvp(primals: Arrays, tangents: Arrays) -> Any:
            raise GradientError(
                f"{node.op.name} has no meaning in JAX, which calls NumPy for it",
                where=str(node.source),
                fix="differentiate in rlx: rlx.to_jax(rlx.grad(f))",
            )

        return called(*arrays)


def _has_slopes(node: Node) -> bool:
    """Whether an op has a derivative that JAX would not find as it is meant."""
    rules = node.op.rules
    if node.graphs or rules.transpose is not None or rules.nondifferentiable is not None:
        return False
    return rules.jvp is not None or rules.expand is not None


# -- functions with derivatives of their own ----------------------------------------------------

Run = Callable[[Graph, Arrays], list[jax.Array]]


def _types(arrays: Arrays) -> list[Type]:
    return [Type(as_dtype(np.dtype(x.dtype)), x.shape) for x in arrays]


def _replayed(run: Run, rule: Any, *groups: Arrays) -> list[list[jax.Array]]:
    """A rule of rlx, which takes and gives groups of values, on groups of arrays."""
    sizes: list[int] = []

    def flat(*values: Any) -> list[Any]:
        rest = iter(values)
        made = rule(*([next(rest) for _ in group] for group in groups))
        sizes[:] = map(len, made)
        return [x for group in made for x in group]

    arrays = [x for group in groups for x in group]
    results = iter(run(build(flat, _types(arrays), "rule"), arrays))
    return [[next(results) for _ in range(n)] for n in sizes]


def _with_slopes(
    run: Run, node: Node, arrays: Arrays, emit: Callable[[Node, Arrays], Sequence[jax.Array]]
) -> Sequence[jax.Array]:
    """A node whose derivative is rlx's own: in corners JAX's says something else."""

    def push(primals: list[Any], tangents: list[Any]) -> Any:
        moving = [t if x.type.is_inexact else None for t, x in zip(tangents, primals, strict=True)]
        values, slopes = node_jvp(node, primals, moving)
        return values, filled(slopes, values)

    return _with_jvp(run, lambda xs: emit(node, xs), push, arrays)


def _custom_jvp(run: Run, node: Node, arrays: Arrays) -> Sequence[jax.Array]:
    graph = node.attrs["graph"]
    return _with_jvp(run, lambda xs: run(graph, xs), node.attrs["rule"], arrays)


def _with_jvp(
    run: Run, compute: Callable[[Arrays], Sequence[jax.Array]], rule: Any, arrays: Arrays
) -> Sequence[jax.Array]:
    """What is computed of arrays, with a rule of rlx for its derivative."""

    @jax.custom_jvp
    def function(*xs: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(compute(xs))

    @function.defjvp
    def function_jvp(primals: Arrays, tangents: Arrays) -> Any:
        moving = [_numbers(t, x) for t, x in zip(tangents, primals, strict=True)]
        values, slopes = _replayed(run, rule, primals, moving)
        found = [_no_numbers(s, v) for s, v in zip(slopes, values, strict=True)]
        return tuple(values), tuple(found)

    return function(*arrays)


def _custom_vjp(run: Run, node: Node, arrays: Arrays) -> Sequence[jax.Array]:
    graph, attrs = node.attrs["graph"], node.attrs

    @jax.custom_vjp
    def function(*xs: jax.Array) -> list[jax.Array]:
        return run(graph, xs)

    def forward(*xs: jax.Array) -> Any:
        known = {"perturbed": (True,) * len(xs)} if attrs["symbolic_zeros"] else {}
        return _replayed(run, lambda primals: attrs["forward"](primals, **known), xs)

    def backward(residuals: Arrays, cts: Arrays) -> Any:
        values = [_numbers(ct, r) for ct, r in zip(cts, graph.results, strict=True)]
        (pulled,) = _replayed(run, attrs["backward"], residuals, values)
        return tuple(_no_numbers(ct, x) for ct, x in zip(pulled, arrays, strict=True))

    function.defvjp(forward, backward)
    return function(*arrays)


def _numbers(slope: Any, like: Any) -> Any:
    """The slope of an integer, which has no numbers in JAX, as zeros."""
    if is_inexact(as_dtype(np.dtype(like.dtype))):
        return slope
    return jax.numpy.zeros(like.shape, like.dtype)


def _no_numbers(slope: Any, like: Any) -> Any:
    """The slope of an integer as JAX has it."""
    if is_inexact(as_dtype(np.dtype(like.dtype))):
        return slope
    return np.zeros(like.shape, jax.dtypes.float0)


def _checkpoint(run: Run, node: Node, arrays: Arrays) -> Sequence[jax.Array]:
    return jax.checkpoint(lambda *xs: run(node.attrs["graph"], xs))(*arrays)


RULED = {
    "checkpoint": _checkpoint,
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
}
