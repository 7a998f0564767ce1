"""Fingerprints: content hashes of graphs, equal for graphs that mean the same."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .body import Call
from .dims import Dim
from .exact import exact
from .graph import Constant, Graph, Value
from .record import fields
from .types import NAMES, Type

if TYPE_CHECKING:
    from .op import Op

# Python functions among the attributes have no content: each gets a number in this process, which
# no later one gets. Who keeps what was made for a graph keeps the graph, and with it its functions.
_functions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_numbers = itertools.count()


def fingerprint(graph: Graph) -> str:
    """Hash a graph as 32 hexadecimal digits.

    Types, ops, attributes, constants and nested graphs count. Names, origins and source lines do
    not count. With a Python function among the attributes (a custom derivative) the hash holds in
    this process only; `is_portable` tells.
    """
    return _hash(_graph_key(graph, lambda op, fn: _functions.setdefault(fn, next(_numbers))))


def is_portable(graph: Graph) -> bool:
    """Whether the fingerprint is the same in every process: without Python functions."""
    return not any(_has_function(node.attrs.values()) for node in graph.walk())


def lasting_fingerprint(graph: Graph) -> tuple[str, list[Any]]:
    """Hash what a graph computes as 32 hexadecimal digits, the same in every process.

    Python functions that are called while the compiled graph runs count by their places in the
    list that is also given; derivatives do not count. A graph that compiling would call a user's
    function for (an op of the user, the derivative of a reverse rule) has no such hash, which is a
    `LookupError`.
    """
    house = __name__.split(".")[0]
    for op in {node.op for node in graph.walk()}:
        if op.rules.of_user or op.module.split(".")[0] != house:
            raise LookupError(f"the op {op.name} is not one of {house}")
    functions: dict[Any, int] = {}

    def number(op: Op, fn: Any) -> Any:
        if isinstance(op.rules.body, Call):
            return "derivative"
        if not op.rules.calls_python:
            raise LookupError(f"{op.name} holds a Python function that compiling calls")
        return functions.setdefault(fn, len(functions))

    return _hash(_graph_key(graph, number)), list(functions)


def places(graph: Graph) -> str:
    """Hash the lines where the operations of a graph were recorded.

    For what tells of lines: a fingerprint stays when they move.
    """
    sources = [node.source for node in graph.walk()]
    return _hash(tuple(s and (s.file, s.line, s.function, s.scope) for s in sources))


def _hash(key: tuple) -> str:
    import hashlib  # with the cryptography of OpenSSL

    return hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()


def _has_function(attrs: Any) -> bool:
    return any(
        _has_function(attr) if isinstance(attr, tuple) else _is_function(attr) for attr in attrs
    )


def _is_function(attr: Any) -> bool:
    known = bool | int | float | complex | str | np.dtype | Constant | Type | Dim | Graph
    return attr is not None and not isinstance(attr, known)


Number = Callable[["Op", Any], Any]


def _graph_key(graph: Graph, number: Number) -> tuple:
    numbers: dict[Value, int] = {p: i for i, p in enumerate(graph.params)}
    nodes = []
    for node in graph.nodes:
        for result in node.results:
            numbers[result] = len(numbers)
        attrs = tuple((name, _attr_key(attr, node.op, number)) for name, attr in node.attrs.items())
        args = tuple(numbers.get(a, -1) for a in node.args)
        # the rules of a user's op may be given, or changed, after it was used
        op = (node.op.name, node.op.revision) if node.op.revision else node.op.name
        nodes.append((op, args, attrs, tuple(_type_key(r.type) for r in node.results)))
    results = tuple(numbers.get(r, -1) for r in graph.results)
    return tuple(map(_type_key, graph.param_types)), tuple(nodes), results


def _type_key(type: Type) -> tuple:
    """A type as plain data."""
    return NAMES[type.dtype], tuple(_size_key(n) for n in type.shape)


def _size_key(size: Any) -> Any:
    if not isinstance(size, Dim):
        return size
    return "dim", tuple(
        (tuple((s.name, s.low, s.high) for s in monomial), count) for monomial, count in size.terms
    )


def _attr_key(attr: Any, op: Op, number: Number) -> Any:
    """An attribute as plain data whose `repr` tells it apart: 1, 1.0 and True differ."""
    match attr:
        case bool() | int() | str() | None:
            return attr
        case tuple():
            return tuple(_attr_key(a, op, number) for a in attr)
        case Constant():
            return "constant", attr.digest.hex()
        case Graph():
            return "graph", _graph_key(attr, number)
        case Type():
            return "type", _type_key(attr)
        case Dim():
            return _size_key(attr)
        case np.dtype():
            return "dtype", NAMES[attr]
    if _is_function(attr):
        return "python", number(op, attr), repr(exact(attr)) if fields(type(attr)) else ""
    return attr
