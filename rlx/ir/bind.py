"""Symbolic sizes: solve them from shapes, and substitute numbers in graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, final

from .body import Pointwise
from .builder import build, rewrite
from .dims import Dim, Size, Symbol, concrete
from .errors import RlxError, SymbolicSizeError
from .graph import Graph, Node, Value
from .lazy import lazy
from .types import Type

KEPT = 1024  # combinations of sizes that are known to be right
Shape = Sequence[int]
Names = tuple[str, ...]  # of dims
Put = Callable[[Size, Mapping[str, Size]], Size]


def bind_sizes(
    types: Sequence[Type], shapes: Sequence[Shape], names: Sequence[str]
) -> dict[str, int]:
    """Solve for the dims of parameter types, given shapes of arguments.

    Raises a `SymbolicSizeError` that names the dim if two arguments disagree, a size is out of
    range or no number fits. Arguments of another rank are left to others.

    >>> from .dims import dim
    >>> import numpy as np
    >>> n = dim("n", max=8)
    >>> bind_sizes([Type(np.dtype("float32"), (n, 2 * n))], [(3, 6)], ["x"])
    {'n': 3}
    """
    found: dict[str, tuple[int, str]] = {}
    axes = [
        (size, number, f"axis {axis} of {name}")
        for type, shape, name in zip(types, shapes, names, strict=True)
        if len(shape) == type.rank
        for axis, (size, number) in enumerate(zip(type.shape, shape, strict=True))
        if isinstance(size, Dim)
    ]
    for size, number, place in axes:
        solved = _solved(size, number)
        if solved and solved[0].name not in found:
            _check_range(solved[0], solved[1], place)
            found[solved[0].name] = solved[1], place
    sizes = {name: number for name, (number, _) in found.items()}
    for size, number, place in axes:
        if not all(s.name in sizes for s in size.symbols):
            if _solved_symbol(size):
                raise _no_number(size, number, place)
        elif substituted(size, sizes) != number:
            raise _disagree(size, number, place, found)
    return sizes


def _solved(size: Dim, number: int) -> tuple[Symbol, int] | None:
    """The one symbol of `a * symbol + b == number`, and its number."""
    linear = [(monomial, c) for monomial, c in size.terms if monomial]
    if len(linear) != 1 or len(linear[0][0]) != 1 or linear[0][0][0].meaning:
        return None
    ((symbol,), factor), rest = linear[0], sum(c for monomial, c in size.terms if not monomial)
    return None if (number - rest) % factor else (symbol, (number - rest) // factor)


def _check_range(symbol: Symbol, number: int, place: str) -> None:
    if symbol.low <= number and (symbol.high is None or number <= symbol.high):
        return
    wanted = f"at least {symbol.low}" if symbol.high is None else f"{symbol.low} to {symbol.high}"
    low = min(symbol.low, number)
    ends = [] if low == 1 else [f"min={low}"]
    ends += [] if symbol.high is None else [f"max={max(symbol.high, number)}"]
    raise SymbolicSizeError(
        f"{symbol.name} is {number}, outside of its range ({wanted})",
        notes=[place],
        fix=f"pass arrays of that size, or widen the range: rlx.dim({symbol.name!r}, "
        f"{', '.join(ends)})",
    )


def _no_number(size: Dim, number: int, place: str) -> SymbolicSizeError:
    return SymbolicSizeError(
        f"{place} is {number}, but it is {size}, which no number makes {number}",
        fix=f"pass arrays whose size is {size} for a whole number",
    )


def _disagree(
    size: Dim, number: int, place: str, found: Mapping[str, tuple[int, str]]
) -> SymbolicSizeError:
    notes = [f"{name} is {n} by {where}" for name, (n, where) in sorted(found.items())]
    names = {s.name for s in size.symbols}
    return SymbolicSizeError(
        f"{place} is {number}, but {size} is "
        f"{substituted(size, {name: n for name, (n, _) in found.items()})}",
        notes=[note for note in notes if note.split(" is ")[0] in names],
        fix="pass arrays whose sizes fit together, or name the dims apart",
    )


def unbound(graph: Graph) -> list[str]:
    """Dims of a graph that no parameter's shape determines."""
    axes = [n for t in graph.param_types for n in t.shape if isinstance(n, Dim)]
    told = {solved[0].name for size in axes if (solved := _solved_symbol(size))}
    made = [r.type for node in graph.nodes for r in node.results if not r.type.is_static]
    symbols = [s for t in (*graph.param_types, *made) for s in t.symbols]
    return sorted({s.name for s in symbols} - told)


def _solved_symbol(size: Dim) -> tuple[Symbol, int] | None:
    rest = sum(c for monomial, c in size.terms if not monomial)
    return _solved(size, rest)


def has_sizes(type: Type, sizes: Mapping[str, int]) -> bool:
    """Whether all dims of a type have values."""
    return all(s.name in sizes for s in type.symbols)


def concrete_type(type: Type, sizes: Mapping[str, Size], put: Put = concrete) -> Type:
    """A type with values substituted for its dims."""
    if type.is_static:
        return type
    return type.with_shape(tuple(put(n, sizes) for n in type.shape))


def substituted(size: Size, sizes: Mapping[str, Size]) -> Size:
    """A size with numbers or other sizes substituted for some dims."""
    return size.substitute(sizes) if isinstance(size, Dim) else size


@final
class SizeChecks:
    """What must hold of the sizes of a graph: types that its ops take, each once.

    Tracing assumes what holds for most sizes: `x[3]` is wrong if x has three elements. The layers
    of a model have the same types, and instructions on equal shapes take any, so that few nodes
    are left to look at, and those again only when a size that they depend on is another one.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Names, set[Any]] = {}  # numbers for dims that are right

    def __call__(self, sizes: Mapping[str, int]) -> None:
        """Raise the error of the first op that does not take these sizes, if any."""
        nodes = self._nodes
        numbers = {names: tuple([sizes.get(name) for name in names]) for names in self._known}
        fresh = {names: x for names, x in numbers.items() if x not in self._known[names]}
        for names, node in nodes:
            if names in fresh:
                _check_node(node, sizes)
        for names, x in fresh.items():
            known = self._known[names]
            if len(known) >= KEPT:
                known.clear()
            known.add(x)

    @lazy
    def _nodes(self) -> list[tuple[Names, Node]]:
        found: dict[Any, Node] = {}
        for node in filter(_depends, self._graph.walk()):
            found.setdefault(_check_key(node), node)
        nodes = [(_names(node), node) for node in found.values()]
        self._known = {names: set() for names, _ in nodes}
        return nodes


def _names(node: Node) -> Names:
    """The dims that a node depends on."""
    symbols = set(_symbols(tuple(node.attrs.values())))
    return tuple(sorted({s.name for s in symbols.union(*map(_symbols, _types(node)))}))


def _types(node: Node) -> tuple[Type, ...]:
    return tuple([v.type for v in (*node.args, *node.results)])


def _symbols(attr: Any) -> Set[Symbol]:
    """The symbols that an attribute depends on, nested graphs included."""
    if isinstance(attr, Dim | Type):
        return attr.symbols
    if isinstance(attr, Graph):
        types = [*attr.param_types, *attr.result_types]
        parts = [
            *types,
            *(x for node in attr.walk() for x in (*_types(node), *node.attrs.values())),
        ]
        return _symbols(tuple(parts))
    if isinstance(attr, tuple):
        return frozenset[Symbol]().union(*map(_symbols, attr))
    return frozenset()


def _depends(node: Node) -> bool:
    """Whether an op may take some sizes and refuse others."""
    values = (*node.args, *node.results)
    if all(v.type.is_static for v in values):
        return bool(sizes_in(node.attrs))
    return not isinstance(node.op.rules.body, Pointwise)


def _check_key(node: Node) -> Any:
    """Equal for nodes of which one check is enough."""
    attrs = tuple(node.attrs.items())
    try:
        hash(attrs)
    except TypeError:  # of arrays and the like
        return node
    return node.op, _types(node), attrs


def _check_node(node: Node, sizes: Mapping[str, int]) -> None:
    types = [concrete_type(a.type, sizes) for a in node.args]
    attrs = {name: concrete_attr(attr, sizes) for name, attr in node.attrs.items()}
    try:
        found = node.op.infer(types, attrs)
    except RlxError as error:
        numbers = ", ".join(f"{name} = {n}" for name, n in sorted(sizes.items()))
        error.what = f"{node.op.name}: {error.what.removeprefix(node.op.name + ': ')}"
        error.where = str(node.source)
        error.notes = (f"in this call {numbers}", *error.notes)
        error.fix = f"{error.fix}, or promise sizes that do: rlx.dim(name, min=..., max=...)"
        raise
    wanted = tuple(concrete_type(r.type, sizes) for r in node.results)
    assert tuple(found) == wanted, f"{node.op.name} gives {found}, was recorded as {wanted}"


def concretize(graph: Graph, sizes: Mapping[str, Size], put: Put = concrete) -> Graph:
    """A graph with numbers substituted for its dims, in types and attributes.

    before: `f(x: f32[n]) { y = sum(x) ... }`; after, with n = 3: `f(x: f32[3]) { ... }`. With
    `put=substituted` other sizes may stand for them.
    """

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        attrs = {name: concrete_attr(attr, sizes, put) for name, attr in node.attrs.items()}
        return node.op.apply(operands, attrs)

    types = [concrete_type(t, sizes, put) for t in graph.param_types]
    origins = [p.origin for p in graph.params]
    return build(lambda *xs: rewrite(graph, xs, visit), types, graph.name, origins)


def concrete_attr(attr: Any, sizes: Mapping[str, Size], put: Put = concrete) -> Any:
    """An attribute with numbers substituted for dims, nested graphs included."""
    if isinstance(attr, Dim):
        return put(attr, sizes)
    if isinstance(attr, Type):
        return concrete_type(attr, sizes, put)
    if isinstance(attr, Graph):
        return concretize(attr, sizes, put)
    if isinstance(attr, tuple):
        return tuple(concrete_attr(a, sizes, put) for a in attr)
    return attr


def sizes_in(attrs: Mapping[str, Any]) -> list[Dim]:
    """The symbolic sizes among the attributes of a node."""
    flat = [a for attr in attrs.values() for a in (attr if isinstance(attr, tuple) else (attr,))]
    return [a for a in flat if isinstance(a, Dim)]


def is_symbolic(types: Sequence[Type]) -> bool:
    """Whether some type has a symbolic size."""
    return not all(t.is_static for t in types)
