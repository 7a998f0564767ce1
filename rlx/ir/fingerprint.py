"""A content hash of a graph: equal for graphs that mean the same.

It does not matter what made them.
"""

from __future__ import annotations

import hashlib
import itertools
import weakref
from typing import Any

import numpy as np

from .dims import Dim
from .graph import Constant, Graph, Value
from .types import Type

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
    return hashlib.blake2b(repr(_graph_key(graph)).encode(), digest_size=16).hexdigest()


def is_portable(graph: Graph) -> bool:
    """Whether the fingerprint is the same in every process.

    It is, if there are no Python functions inside.
    """
    return not any(_has_function(node.attrs.values()) for node in graph.walk())


def _has_function(attrs: Any) -> bool:
    return any(
        _has_function(attr) if isinstance(attr, tuple) else _is_function(attr) for attr in attrs
    )


def _is_function(attr: Any) -> bool:
    known = bool | int | float | complex | str | np.dtype | Constant | Type | Dim | Graph
    return attr is not None and not isinstance(attr, known)


def _graph_key(graph: Graph) -> tuple:
    numbers: dict[Value, int] = {p: i for i, p in enumerate(graph.params)}
    nodes = []
    for node in graph.nodes:
        for result in node.results:
            numbers[result] = len(numbers)
        attrs = tuple((name, attr_key(attr)) for name, attr in node.attrs.items())
        args = tuple(numbers.get(a, -1) for a in node.args)
        nodes.append((node.op.name, args, attrs, tuple(type_key(r.type) for r in node.results)))
    results = tuple(numbers.get(r, -1) for r in graph.results)
    return tuple(map(type_key, graph.param_types)), tuple(nodes), results


def type_key(type: Type) -> tuple:
    """A type as plain data."""
    return type.dtype.name, tuple(_size_key(n) for n in type.shape)


def _size_key(size: Any) -> Any:
    if not isinstance(size, Dim):
        return size
    return "dim", tuple(
        (tuple((s.name, s.low, s.high) for s in monomial), count) for monomial, count in size.terms
    )


def attr_key(attr: Any) -> Any:
    """An attribute as plain data whose `repr` tells it apart: 1, 1.0 and True differ."""
    match attr:
        case Constant():
            return "constant", attr.digest.hex()
        case Graph():
            return "graph", _graph_key(attr)
        case Type():
            return "type", type_key(attr)
        case Dim():
            return _size_key(attr)
        case np.dtype():
            return "dtype", attr.name
        case tuple():
            return tuple(attr_key(a) for a in attr)
    if _is_function(attr):
        return "python", _functions.setdefault(attr, next(_numbers))
    return attr
