"""The text of graphs, one line for each node; `parse` reads it back.

    graph loss(%0: f32[3] "argument 0 of loss", %1: f32[3]) -> f32[] {
      %2: f32[3] = mul %0, %1  # model.py:12 in loss
      %3: f32[] = reduce_sum %2 {axes=(0,)}  # model.py:13 in loss
      return %3
    }

Nested graphs stand inside the braces of their node. A constant is `f32[2](1.0, 2.0)`, or
`f32[1000](@digest)` when it is large; `constants` gives the table of the large ones. Symbolic
sizes are declared before the graph, with their ranges: `dim seq 1 128`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .dims import Dim, Floor, Least, Symbol
from .fingerprint import fingerprint
from .graph import Constant, Graph, Node, Value
from .parser import WORDS, parse
from .source import Source
from .types import LONG, SHORT, Type, is_complex, is_float

__all__ = ["constants", "equal", "parse", "show"]

SMALL = 16  # constants of so many elements are printed in full


def equal(first: Graph, second: Graph) -> bool:
    """Whether graphs have the same nodes, types and attributes; names do not count."""
    return fingerprint(first) == fingerprint(second)


def show(
    graph: Graph,
    *,
    sources: bool = True,
    small: int = SMALL,
    told: Callable[[Source], str] = lambda source: source.place,
) -> str:
    """Print a graph; with `small=0` every constant by its digest.

    With `sources` the user's lines stand behind the nodes, as `told` writes them.
    """
    dims = [_dim_line(s) for s in sorted(_symbols(graph), key=lambda s: s.name)]
    return "\n".join([*dims, *_Printer(told if sources else None, small).graph(graph)])


def constants(graph: Graph, small: int = SMALL) -> dict[str, np.ndarray]:
    """The arrays that `show` prints by digest: what `parse` needs to read the text."""
    return {
        attr.digest.hex(): attr.array
        for node in graph.walk()
        for attr in _flat(node.attrs.values())
        if isinstance(attr, Constant) and not attr.array.size <= small
    }


def _flat(attrs: Any) -> Iterator[Any]:
    for attr in attrs:
        if isinstance(attr, tuple):
            yield from _flat(attr)
        else:
            yield attr


class _Printer:
    """Prints a graph as lines, nested graphs indented."""

    def __init__(self, told: Callable[[Source], str] | None, small: int) -> None:
        self.told, self.small = told, small

    def graph(self, graph: Graph) -> list[str]:
        names: dict[Value, str] = {}
        for value in [*graph.params, *(r for node in graph.nodes for r in node.results)]:
            names[value] = f"%{len(names)}"
        params = ", ".join(
            f"{names[p]}: {type_text(p.type)}" + (f" {json.dumps(p.origin)}" if p.origin else "")
            for p in graph.params
        )
        types = [type_text(t) for t in graph.result_types]
        given = types[0] if len(types) == 1 else f"({', '.join(types)})"
        body = [line for node in graph.nodes for line in self.node(node, names)]
        results = ", ".join(names.get(r, "%?") for r in graph.results)
        body.append(f"return {results}".rstrip())
        name = graph.name if graph.name.isidentifier() else json.dumps(graph.name)
        return [f"graph {name}({params}) -> {given} {{", *("  " + line for line in body), "}"]

    def node(self, node: Node, names: dict[Value, str]) -> list[str]:
        results = ", ".join(f"{names[r]}: {type_text(r.type)}" for r in node.results) or "_"
        args = ", ".join(names.get(a, "%?") for a in node.args)
        head = f"{results} = {node.op.name} {args}".rstrip()
        tail = f"  # {self.told(node.source)}" if self.told and node.source else ""
        attrs = [(name, self.attr(attr)) for name, attr in node.attrs.items()]
        if not attrs:
            return [head + tail]
        if not any(len(lines) > 1 for _, lines in attrs):
            inside = ", ".join(f"{name}={lines[0]}" for name, lines in attrs)
            return [f"{head} {{{inside}}}{tail}"]
        body = []
        for name, lines in attrs:
            body += [f"{name}={lines[0]}", *lines[1:-1]]
            body += [lines[-1] + ","] if len(lines) > 1 else []
            if len(lines) == 1:
                body[-1] += ","
        return [f"{head} {{", *("  " + line for line in body), "}" + tail]

    def attr(self, attr: Any) -> list[str]:
        """An attribute as one line, or as several if there is a graph in it."""
        if isinstance(attr, Graph):
            return self.graph(attr)
        if isinstance(attr, tuple):
            return self._tuple(attr)
        if isinstance(attr, Constant):
            return [self._constant(attr)]
        return [attr_text(attr)]

    def _tuple(self, attr: tuple) -> list[str]:
        parts = [self.attr(a) for a in attr]
        if not any(len(lines) > 1 for lines in parts):
            inside = ", ".join(lines[0] for lines in parts)
            return [f"({inside},)" if len(parts) == 1 else f"({inside})"]
        body = []
        for lines in parts:
            body += [*lines[:-1], lines[-1] + ","]
        return ["(", *("  " + line for line in body), ")"]

    def _constant(self, constant: Constant) -> str:
        array = constant.array
        head = type_text(Type(array.dtype, array.shape))
        if array.size > self.small:
            return f"{head}(@{constant.digest.hex()})"
        if np.isnan(array).any():  # a NaN has many bit patterns
            return f"{head}(0x{array.tobytes().hex()})"
        return f"{head}({', '.join(_element(x) for x in array.ravel())})"


def attr_text(attr: Any) -> str:
    """A plain attribute as text; opaque ones as their `repr`, `<python name>`."""
    match attr:
        case None | bool() | int() | float():
            return repr(attr)
        case complex():
            return f"complex({attr.real!r}, {attr.imag!r})"
        case str():
            return json.dumps(attr)
        case np.dtype():
            return SHORT[attr.name]
        case Type():
            return type_text(attr)
        case Dim():
            return size_text(attr)
    text = repr(attr)
    if text.startswith("<python "):
        return text
    return f"<python {getattr(attr, '__name__', type(attr).__name__)}>"


def type_text(type: Type) -> str:
    """A type as `f32[3, seq]`."""
    return f"{SHORT[type.dtype.name]}[{', '.join(map(size_text, type.shape))}]"


def size_text(size: Any) -> str:
    """A size as an int or a polynomial."""
    if not isinstance(size, Dim):
        return str(size)
    renamed = tuple(
        (tuple(Symbol(_symbol_text(s)) for s in monomial), c) for monomial, c in size.terms
    )
    return str(Dim(renamed))


def _symbol_text(symbol: Symbol) -> str:
    if isinstance(symbol.meaning, Floor):
        return f"floordiv({size_text(symbol.meaning.size)}, {symbol.meaning.divisor})"
    if isinstance(symbol.meaning, Least):
        return f"minimum({', '.join(map(size_text, symbol.meaning.of))})"
    return _name_text(symbol.name)


def _name_text(name: str) -> str:
    """A dim's name, in a form that cannot be taken for another word."""
    plain = name.isascii() and name.isidentifier() and name not in LONG and name not in WORDS
    return name if plain else f"dim({json.dumps(name)})"


def _dim_line(symbol: Symbol) -> str:
    name = symbol.name if _name_text(symbol.name) == symbol.name else json.dumps(symbol.name)
    return f"dim {name} {symbol.low} {symbol.high}"


def _symbols(graph: Graph) -> set[Symbol]:
    """The symbols of all sizes, nested graphs included."""
    sizes: list[Any] = [n for p in graph.params for n in p.shape]
    for node in graph.walk():
        sizes += [n for r in node.results for n in r.shape]
        for attr in _flat(node.attrs.values()):
            sizes += attr.shape if isinstance(attr, Type) else [attr]
            if isinstance(attr, Graph):
                sizes += [n for p in attr.params for n in p.shape]
    return {s for size in sizes if isinstance(size, Dim) for s in size.symbols}


def _element(x: Any) -> str:
    if is_complex(x.dtype):
        return f"complex({_element(x.real)}, {_element(x.imag)})"
    if x.dtype.name in ("float16", "float32", "float64"):
        return str(x)  # the shortest text that reads back the same
    return repr(float(x)) if is_float(x.dtype) else repr(x.item())
