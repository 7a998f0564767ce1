"""A nested graph with a precision or an invariance of its own: precise_call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..body import Call
from ..builder import build
from ..graph import Graph, Value
from ..interpret import interpret
from ..op import define
from ..policy import policy_of
from ..types import Type, as_dtype
from .arithmetic import mul
from .control import call_family, check_operands, pick, weave


@define
def precise_call(
    *operands: Type, graph: Graph, precision: str = "", deterministic: str = "", name: str = ""
) -> Any:
    """Run a nested graph under a precision policy, or so that it is batch-invariant.

    A nested `jit(precision=...)` or `jit(deterministic="batch")` becomes one. `precision` is the
    text of a policy, or empty for that around. The graph's types stay what they are; lowering puts
    the casts in. A program that has a `deterministic` part is compiled so as a whole. The reference
    computes the graph as it was written.
    """
    if precision:
        policy_of(precision)
    check_operands(operands, graph, "the called graph")
    return graph.result_types


@precise_call.reference
def precise_call_reference(*operands: np.ndarray, graph: Graph, **attrs: Any) -> Any:
    return tuple(interpret(graph, operands))


precise_call.body(Call())
call_family(precise_call)


@precise_call.split
def precise_call_split(
    split_graph: Any, args: Sequence[Value], known: Sequence[bool], *, graph: Graph, **attrs: Any
) -> list[Value]:
    parts = split_graph(graph, known)
    results = list(precise_call(*pick(args, known), graph=parts.known, **attrs))
    count = sum(parts.out_known)
    unknown = precise_call(
        *results[count:], *pick(args, known, False), graph=parts.unknown, **attrs
    )
    return weave(parts.out_known, results[:count], unknown)


def precise_call_samples() -> None:
    """Attach the samples, which need the other rooms.

    So `ops/__init__` calls this last.
    """
    f64 = Type(as_dtype("float64"), (3,))
    graph = build(lambda x, y: [mul(x, y)], [f64, f64], "sample")
    precise_call.samples((3,), (3,), graph=graph, precision="mixed_bf16")
