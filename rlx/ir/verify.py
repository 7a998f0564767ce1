"""The verifier of graphs: each level is a list of legal forms.

    hir  what was traced: any op, composites and calls whole
    mir  primitives: every op has a body, except for composites the target wants; calls are gone
    lir  what schedules: as mir, without wanted composites, and all sizes are numbers

The types of every result are derived anew and compared, in nested graphs too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .body import Call
from .dims import Dim
from .errors import AttributeValueError, RlxError, VerifyError
from .graph import OPS, Constant, Graph, Node, Value
from .types import DTYPES, Type

Wants = frozenset[str]
Form = Callable[[Node, Wants], str | None]  # what is wrong with a node, or None


def verify(graph: Graph, level: str = "hir", wants: Wants = frozenset()) -> None:
    """Raise a `VerifyError` unless the graph keeps the level's rules.

    Nested graphs must keep them too. `wants` are the composites that may stay whole in mir.
    """
    if level not in FORMS:
        raise AttributeValueError(
            f"there is no level {level!r}", fix=f"use one of {', '.join(FORMS)}"
        )
    _verify_graph(graph, FORMS[level], wants)


def _verify_graph(graph: Graph, forms: Sequence[Form], wants: Wants) -> None:
    defined: set[Value] = set()
    for i, param in enumerate(graph.params):
        if not graph.owns(param) or param.node is not None or param in defined:
            raise _wrong(graph, f"parameter {i} is not a parameter of this graph alone")
        if complaint := _type_complaint(param.type):
            raise _wrong(graph, f"parameter {i}: {complaint}")
        defined.add(param)
    for node in graph.nodes:
        _verify_node(node, graph, defined, forms, wants)
        defined.update(node.results)
    for i, result in enumerate(graph.results):
        if result not in defined:
            raise _wrong(graph, f"result {i} is not made in this graph")


def _verify_node(
    node: Node, graph: Graph, defined: set[Value], forms: Sequence[Form], wants: Wants
) -> None:
    for i, arg in enumerate(node.args):
        if not graph.owns(arg):
            raise _wrong_node(node, f"operand {i} belongs to the graph `{arg.graph.name}`")
        if arg not in defined:
            raise _wrong_node(node, f"operand {i} is used before it is made")
    for i, result in enumerate(node.results):
        if not graph.owns(result) or result.node is not node or result.index != i:
            raise _wrong_node(node, f"result {i} does not know its node")
        if result in defined:
            raise _wrong_node(node, f"result {i} is made twice")
    for nested in node.graphs:
        _verify_graph(nested, forms, wants)
    for form in forms:
        if complaint := form(node, wants):
            raise _wrong_node(node, complaint)


def _wrong_node(node: Node, complaint: str) -> VerifyError:
    operands = ", ".join(str(a.type) for a in node.args)
    given = ", ".join(str(r.type) for r in node.results)
    return VerifyError(
        f"{node.op.name}: {complaint}",
        where=str(node.source) if node.source else None,
        notes=[f"({operands}) -> ({given})"],
        fix="correct the pass or the program that made this node",
    )


def _wrong(graph: Graph, complaint: str) -> VerifyError:
    return VerifyError(
        f"graph `{graph.name}`: {complaint}",
        fix="correct the pass or the program that made this graph",
    )


# -- legal forms --------------------------------------------------------------------------------


def is_known(node: Node, wants: Wants) -> str | None:
    """Check that the op is the registered one of its name."""
    return None if OPS.get(node.op.name) is node.op else "this op is not registered"


def has_its_attributes(node: Node, wants: Wants) -> str | None:
    """Check that the attributes are those of the op, in order and canonical form."""
    if list(node.attrs) != list(node.op.attr_defaults):
        expected = ", ".join(node.op.attr_defaults) or "none"
        return f"the attributes are ({', '.join(node.attrs)}), those of the op are ({expected})"
    for name, attr in node.attrs.items():
        if not _is_canonical(attr):
            return f"the attribute {name}={attr!r} is no int, float, str, dtype, tuple or graph"
    return None


def _is_canonical(attr: Any) -> bool:
    if isinstance(attr, tuple):
        return all(map(_is_canonical, attr))
    if isinstance(attr, np.dtype):
        return DTYPES.get(attr.name) == attr
    plain = bool | int | float | complex | str | Constant | Type | Dim | Graph
    is_plain = isinstance(attr, plain) and not isinstance(attr, np.generic)
    return attr is None or is_plain or callable(attr)


def has_derived_types(node: Node, wants: Wants) -> str | None:
    """Check that the results have the types of the type rule."""
    for result in node.results:
        if complaint := _type_complaint(result.type):
            return complaint
    try:
        types = node.op.infer([a.type for a in node.args], node.attrs)
    except RlxError as error:
        return error.what
    except Exception as error:  # what a type rule makes of senseless attributes
        return f"its type rule fails: {error}"
    given = tuple(r.type for r in node.results)
    if types == given:
        return None
    return f"its results should have the types {', '.join(map(str, types))}"


def _type_complaint(type: Type) -> str | None:
    if DTYPES.get(type.dtype.name) != type.dtype:
        return f"{type.dtype} is no dtype of rlx"
    for size in type.shape:
        if not isinstance(size, Dim) and (not isinstance(size, int) or size < 0):
            return f"{size!r} is no size"
    return None


def is_primitive(node: Node, wants: Wants) -> str | None:
    """Check that the op has a body or is wanted whole, and that calls are inlined."""
    if node.op.name in wants or node.op.is_constant:
        return None
    if isinstance(node.op.rules.body, Call):
        return "a call is not inlined"
    return None if node.op.rules.body is not None else "a composite is not expanded"


def is_scheduled(node: Node, wants: Wants) -> str | None:
    """Check that the op has a body of its own."""
    return is_primitive(node, frozenset())


def is_static(node: Node, wants: Wants) -> str | None:
    """Check that all sizes are static."""
    odd = [v.type for v in (*node.args, *node.results) if not v.type.is_static]
    return f"{odd[0]} has a symbolic size" if odd else None


_TRACED: tuple[Form, ...] = (is_known, has_its_attributes, has_derived_types)
FORMS: dict[str, tuple[Form, ...]] = {
    "hir": _TRACED,
    "mir": (*_TRACED, is_primitive),
    "lir": (*_TRACED, is_scheduled, is_static),
}
