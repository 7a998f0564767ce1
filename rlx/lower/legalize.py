"""Legality: check that a target can run a graph before code is generated."""

from __future__ import annotations

from ..ir.body import (
    AsParts,
    Blocks,
    Branch,
    Call,
    FromParts,
    Library,
    Repeat,
    Sort,
    TopK,
    While,
)
from ..ir.errors import UnsupportedDtype, UnsupportedOp
from ..ir.graph import Graph, Node, Value
from ..ir.types import NAMES
from .lir.program import REAL_PARTS
from .target import Target

HALF = {"float64": "float32", "complex128": "complex64", "int64": "int32", "uint64": "uint32"}
NATIVE = (Call, Branch, While, Repeat, AsParts, FromParts)  # whatever their dtypes


def legalize(graph: Graph, target: Target) -> Graph:
    """Raise an error for the first node that a target cannot run.

    A target may lack a dtype in its memory, or any way to run an op, its NumPy reference included.
    The error names the op, the device, what it lacks, and the user's line. The graph is returned
    unchanged.
    """
    for param in graph.params:
        _check_dtype(param, None, target)
    for node in graph.nodes:
        for result in node.results:
            _check_dtype(result, node, target)
        if not target.has_library and needs_library(node, target):
            raise _unsupported(node, target)
        for nested in node.graphs:
            legalize(nested, target)
    return graph


def needs_library(node: Node, target: Target) -> bool:
    """Whether a node can only run as a call of its NumPy reference."""
    if node.op.is_constant or node.op.name in target.wants:
        return False
    body = node.op.rules.body
    if isinstance(body, NATIVE):
        return False
    if body is None or isinstance(body, Library):
        return True
    if isinstance(body, TopK) and not ranks(node, target):
        return True
    if isinstance(body, Sort) and not sorts(node, target):
        return True
    dtypes = [v.dtype for v in (*node.args, *node.results)]
    if isinstance(body, Blocks):
        if body.passes([a.type for a in node.args], **node.attrs) is None:
            return True
        dtypes = [REAL_PARTS.get(dtype, dtype) for dtype in dtypes]
    return not all(map(target.computes, dtypes))


def ranks(node: Node, target: Target) -> bool:
    """Whether a target has code for the top k in rows of this length."""
    return node.attrs["k"] <= target.most_ranked and isinstance(node.args[0].shape[-1], int)


def sorts(node: Node, target: Target) -> bool:
    """Whether a target has code for sorting by these keys."""
    keys = node.args[: node.attrs["n_keys"]]
    return target.has_sort and not any(key.dtype in REAL_PARTS for key in keys)


def _check_dtype(value: Value, node: Node | None, target: Target) -> None:
    name = NAMES[value.dtype]
    if name in target.stored:
        return
    where = str(node.source) if node else None
    what = node.op.name if node else value.origin or "an argument"
    half = HALF.get(name)
    near = half if half in target.stored else ", ".join(sorted(target.stored))
    raise UnsupportedDtype(
        f"{what}: {target.name} has no {name}",
        where=where,
        notes=[f"the value is {value.type}"],
        fix=f"convert it to {near}, or run on another device",
    )


def _unsupported(node: Node, target: Target) -> UnsupportedOp:
    operands = ", ".join(str(a.type) for a in node.args)
    odd = [v.dtype.name for v in (*node.args, *node.results) if not target.computes(v.dtype)]
    lack = f"it has no arithmetic for {odd[0]}" if odd else "the op has no loop body"
    return UnsupportedOp(
        f"{node.op.name}: {target.name} cannot run it, {lack}",
        where=str(node.source),
        notes=[f"operands: {operands}"],
        fix="run this function on the cpu, or move the op out of the compiled function",
    )
