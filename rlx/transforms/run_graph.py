"""Run a transformed graph, or record it if an operand is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.builder import inline
from ..ir.errors import DtypeError, ShapeError, StructureError
from ..ir.fingerprint import fingerprint
from ..ir.graph import OPS, Graph, Placed, Value
from ..ir.interpret import interpret
from ..ir.policy import AS_WRITTEN
from ..ir.source import user_source
from ..ir.types import Type
from ..runtime import (
    CompiledGraph,
    default_device,
    is_invariant,
    run_on_device,
    with_own_policies,
)
from ..runtime.session import CompileOptions, default_session
from ..trace import pytree, short_ways
from ..trace.apply import as_operand, is_weak, operand_type, to_value
from ..trace.array import Array
from ..trace.make_graph import from_values
from ..trace.placement import home
from ..trace.tensor import TracedTensor

FEW = 20_000  # numbers that NumPy reads and writes in the time that an op takes in Python
MOST_KINDS, MOST_PRINTS = 64, 8  # of graphs that are counted, and of each that are compiled
AS_IT_IS = CompileOptions(precision=AS_WRITTEN)  # policies are for what the user compiles


def run_graph(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """Run a graph on operands, or record it as a call in the open trace.

    Results are arrays if nothing is traced, on the device of the operands, or on the default device
    if all operands are on the host. Operands are arrays, tensors, numbers, or values of an
    enclosing graph (captures).
    """
    if any(isinstance(x, TracedTensor | Value) for x in operands):
        values = [_recorded(x, p) for x, p in zip(operands, graph.params, strict=True)]
        return from_values(inline(graph, values))
    memory = home(graph.name, operands, graph.placed)
    if memory is not None:
        return list(run_on_device(graph, operands, memory))
    if is_invariant(graph):  # NumPy's sums are not
        given = [_host(x, p) for x, p in zip(operands, graph.params, strict=True)]
        return list(run_on_device(graph, given, None))
    arrays = [_host(x, p) for x, p in zip(operands, graph.params, strict=True)]
    compiled = _compiled(graph)
    if compiled is not None:
        found = compiled(*arrays)
        return list(found) if isinstance(found, tuple) else [found]
    foreign = [x for x in operands if isinstance(x, np.ndarray)]
    # the user may write to the NumPy arrays later
    results = [
        np.array(r) if any(np.may_share_memory(r, x) for x in foreign) else r
        for r in interpret(with_own_policies(graph), arrays)
    ]
    return [Array(r) for r in results]


class _Often:
    """Graphs with equal names and types: their work so far, and compiled ones."""

    def __init__(self, graph: Graph) -> None:
        sizes = [sum(r.type.size for r in node.results) for node in graph.nodes]
        self.work, self.done = sum(max(FEW, 2 * size) for size in sizes), 0
        self.hits = self.misses = 0
        self.by_print: dict[str, CompiledGraph | None] = {}


_often: short_ways.Kinds[_Often] = short_ways.Kinds(MOST_KINDS)


def _compiled(graph: Graph) -> CompiledGraph | None:
    """Compiled code of a graph that came before, if such graphs have taken long.

    The rule counts numbers and no seconds, so that a program gives the same bits in each run.
    """
    runs_python = (node.op.rules.runs_python for node in graph.walk())
    if not short_ways.is_open or graph.placed or not graph.results or any(runs_python):
        return None
    key = graph.name, len(graph.nodes), graph.param_types, graph.result_types
    often = _often.get(key) or _often.keep(key, _Often(graph))
    often.done += often.work
    if often.done < short_ways.ENOUGH or often.misses > MOST_PRINTS + often.hits:
        return None
    found, name = often.by_print, fingerprint(graph)
    if name not in found:
        often.misses += 1
        often.by_print = {**found, name: None} if len(found) < MOST_PRINTS else {name: None}
        return None
    often.hits += 1
    made = found[name]
    if made is None:
        made = default_session(default_device()).compile(graph, options=AS_IT_IS)
        often.by_print = {**often.by_print, name: made}
    return made


def run_beside(graph: Graph, results: Sequence[Any], what: str) -> None:
    """Place a graph on the device where other results are."""
    there = next((x for x in results if isinstance(x, Array) and x._device is not None), None)
    if there is not None:
        graph.place([Placed(what, there.device, str(user_source()))])


def like_primals(
    what: str, given: Sequence[Any], types: Sequence[Type], paths: Sequence[str]
) -> list[Any]:
    """Check tangents or cotangents against types.

    Python numbers take the dtype.
    """
    return [_like(what + path, x, type) for x, type, path in zip(given, types, paths, strict=True)]


def _like(what: str, x: Any, type: Type) -> Any:
    if not pytree.structure(x).is_leaf():
        kind = "None" if x is None else f"a {x.__class__.__name__}"
        raise StructureError(
            f"{what} is {kind}, it must be {type}",
            fix="give one array where the function has one",
        )
    operand = as_operand(x)
    found = operand_type(operand)
    if found.shape != type.shape:
        raise ShapeError(
            f"{what} is {found}, it must be {type}",
            fix="give it the shape of what it is a derivative of",
        )
    if found.dtype == type.dtype:
        return operand
    if not is_weak(operand):
        raise DtypeError(
            f"{what} is {found}, it must be {type}",
            fix=f"convert it with astype({type.dtype.name!r})",
        )
    if isinstance(operand, TracedTensor):
        return TracedTensor(OPS["convert"](to_value(operand), dtype=type.dtype))
    return Array(np.asarray(operand, dtype=type.dtype))


def plain(x: Any) -> Any:
    """The value of a tensor, which `Traced.unflatten` wraps with its own weak flag."""
    return x.value if isinstance(x, TracedTensor) else x


def _recorded(x: Any, param: Value) -> Value:
    return x if isinstance(x, Value) else to_value(as_operand(x), param.type)


def _host(x: Any, param: Value) -> Any:
    if isinstance(x, Type):
        as_operand(x)  # an error: it has no numbers
    return x._on_host() if isinstance(x, Array) else np.asarray(x, dtype=param.dtype)
