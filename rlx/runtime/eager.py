"""Eager ops: programs on devices; on the host code for large ones that run often.

The rule counts numbers and no seconds, so that a program that runs again gives the same bits: a
call has as much work as it reads and writes numbers, and a product of matrices a fiftieth of its
multiplications, if that is more. A composite product, as a convolution, has the work of the many
calls of NumPy that compute it at least. Of a kind of calls (the op, the types, the attributes) the
reference runs first; with the call that brings the work of all to `ENOUGH` it is compiled, and all
later calls run that code. What only moves numbers, or is computed by a library, stays with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.builder import build
from ..ir.errors import RlxError
from ..ir.graph import Graph, Value, graphs_in
from ..ir.memory import Memory
from ..ir.op import Op
from ..ir.ops.movement import broadcast
from ..ir.policy import AS_WRITTEN
from ..ir.record import record
from ..ir.types import is_complex
from ..trace import short_ways
from ..trace.apply import evaluate_with_reference, set_evaluator
from ..trace.array import Array
from .devices import default_device
from .options import is_invariant
from .session import CompileOptions, default_session

LARGE = 16384  # numbers; for less a compile does not pay soon
COMPOSED = 100_000  # numbers that NumPy reads in the time of its calls for a convolution
PER_NUMBER = 50  # multiplications that NumPy does in the time of one number
PRODUCT = "contractions"
COMPILED = (PRODUCT, "normalizations", "pointwise", "reductions", "transcendental")
AS_IT_IS = CompileOptions(precision=AS_WRITTEN)  # policies are for what the user compiles


@record(frozen=False)
class _Kind:
    """Calls of one op on arrays of the same types; `work` is that of one, `done` that of all."""

    graph: Graph | None
    work: float = 0.0
    done: float = 0.0
    run: Any = None


_kinds: short_ways.Kinds[_Kind] = short_ways.Kinds()


def run_large(op: Op, arrays: Sequence[Array], attrs: dict[str, Any]) -> Sequence[Array] | None:
    """The results of compiled code, or None where the reference is to run."""
    if op.rules.work != PRODUCT and not any(x._data.size >= LARGE for x in arrays):
        return None
    given = [_compact(x._data) for x in arrays]
    key = op, *((x.dtype, x.shape, axes) for x, axes in given), *attrs.values()
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds.keep(key, _kind(op, arrays, [axes for _, axes in given], attrs))
    kind.done += kind.work
    if kind.graph is None or kind.done < short_ways.ENOUGH:
        return None
    if kind.run is None:
        try:
            kind.run = default_session("cpu").compile(kind.graph, options=AS_IT_IS)
        except RlxError:  # the reference computes it, or says what is wrong
            kind.graph = None
            return None
    results = kind.run(*(x for x, _ in given))
    return results if isinstance(results, tuple) else (results,)


def is_exact(graph: Graph) -> bool:
    """Whether each number is rounded once, so that machine code gives NumPy's bits."""
    from ..lower.work_class import MOVEMENT, POINTWISE, work_class  # with the loop level

    return all(
        work_class(node) in (POINTWISE, MOVEMENT)
        and not any(is_complex(v.dtype) for v in node.args)
        for node in graph.nodes
    )


def _compact(data: np.ndarray) -> tuple[np.ndarray, tuple[int, ...] | None]:
    """An array without the axes along which it is repeated, and the others; None if it has none."""
    if data.flags.c_contiguous:
        return data, None
    kept = tuple(i for i, stride in enumerate(data.strides) if stride)
    return data[tuple(slice(None) if i in kept else 0 for i in range(data.ndim))], kept


def _kind(
    op: Op,
    arrays: Sequence[Array],
    kept: Sequence[tuple[int, ...] | None],
    attrs: dict[str, Any],
) -> _Kind:
    if op.rules.runs_python or any(graphs_in(attrs.values())):
        return _Kind(None)

    def record(*values: Value) -> Sequence[Value]:
        rows = zip(values, arrays, kept, strict=True)
        whole = [v if k is None else broadcast(v, shape=x.shape, axes=k) for v, x, k in rows]
        return op.apply(whole, attrs)

    from ..lower.work_class import work_class

    types = [
        x.type if k is None else x.type.with_shape(tuple(x.shape[i] for i in k))
        for x, k in zip(arrays, kept, strict=True)
    ]
    graph = build(record, types, op.name)
    node = graph.nodes[-1]
    found = work_class(node)
    if found not in COMPILED:
        return _Kind(None)
    sizes = [float(v.type.size) for v in (*node.args, *node.results)]
    work = sum(sizes)
    if found == PRODUCT:
        # of x[n, k] @ y[k, m] the root of all three sizes is n * k * m
        work = max(work, math.sqrt(math.prod(sizes[:2] + sizes[-1:])) / PER_NUMBER)
        work = max(work, COMPOSED) if op.rules.body is None else work
    return _Kind(graph, work)


def _ufunc_code(ufunc: np.ufunc, dtype: np.dtype, most: int) -> short_ways.Code | None:
    return default_session("cpu").backend.ufunc_entry(ufunc, dtype, Array, most)


def evaluate_on_device(
    op: Op, arrays: Sequence[Array], attrs: dict[str, Any], memory: Memory | None
) -> Sequence[Array]:
    """Run an op where its operands lie."""
    if memory is None and not any(map(is_invariant, graphs_in(attrs.values()))):
        results = run_large(op, arrays, attrs) if short_ways.is_open else None
        return evaluate_with_reference(op, arrays, attrs, None) if results is None else results
    given = [_number_in(x) if x._device is None else x for x in arrays]

    def record(*values: Value) -> Sequence[Value]:
        rows = zip(values, arrays, strict=True)
        whole = [v if v.type == x.type else broadcast(v, shape=x.shape, axes=()) for v, x in rows]
        return op.apply(whole, attrs)

    graph = build(record, [x.type for x in given], op.name)
    return run_on_device(graph, given, memory)


def _number_in(filled: Array) -> Array:
    """The number that fills an array."""
    return Array(filled.host()[(0,) * filled.ndim])


def run_on_device(graph: Graph, arrays: Sequence[Any], memory: Memory | None) -> Sequence[Array]:
    """Compile a graph for the device of a memory, unless it is compiled, and run it."""
    device = default_device() if memory is None else memory.name
    results = default_session(device).compile(graph, options=AS_IT_IS)(*arrays)
    return results if isinstance(results, tuple) else (results,)


short_ways.set_ufunc_code(_ufunc_code)
set_evaluator(evaluate_on_device)
