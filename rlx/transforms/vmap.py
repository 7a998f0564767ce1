"""Batching: `vmap`, and its engine from graph to graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from ..ir.body import Call
from ..ir.builder import build, inline, rewrite
from ..ir.errors import ArgumentError, AxisError, ShapeError, UnsupportedOp
from ..ir.graph import OPS, Graph, Node, Value
from ..ir.record import record
from ..ir.rules import spread
from ..ir.tracebacks import boundary
from ..ir.types import Size, Type
from ..trace import pytree
from ..trace.apply import as_operand, operand_type
from ..trace.make_graph import argument_origins, check_function, function_name, titled, trace
from ..trace.named import named_axis
from .jvp import expanded
from .repeated import repeated, typed
from .run_graph import plain, run_graph

# -- batching: a graph that computes many members at once, along axis 0 ---------------------------

Member = tuple[Value, bool]  # a value, and whether its axis 0 is the batch
Axis = tuple[Any, Size] | None  # the name of the batch and its size
_axis: ContextVar[Axis] = ContextVar("axis", default=None)


@contextmanager
def batching(axis_name: Any, size: Size) -> Iterator[None]:
    """Name the batch axis in a block, for tracing and for batching."""
    token = _axis.set(None if axis_name is None else (axis_name, size))
    try:
        with named_axis(axis_name, size):
            yield
    finally:
        _axis.reset(token)


@record
class Engine:
    """The engine for rules of nested graphs, which remembers the name of the batch."""

    axis: Axis

    def __call__(
        self,
        graph: Graph,
        batched: Sequence[bool],
        size: Size,
        out_batched: Sequence[bool] | None = None,
    ) -> tuple[Graph, list[bool]]:
        with self.naming():
            return batch_graph(graph, batched, size, out_batched)

    def naming(self) -> AbstractContextManager[None]:
        """Restore the name of the batch, for a user's rule that runs later."""
        return batching(*(self.axis or (None, 0)))


def batch_graph(
    graph: Graph,
    batched: Sequence[bool],
    size: Size,
    out_batched: Sequence[bool] | None = None,
) -> tuple[Graph, list[bool]]:
    """Make the graph of a batch of members; return it with which results are batched.

    Batched parameters have a new axis 0 of the given size. Results of `out_batched` are repeated
    along a new axis 0 if they are the same for all members.
    """
    flags: list[bool] = []

    def run(*xs: Value) -> list[Value]:
        members = spread_members(graph, list(zip(xs, batched, strict=True)))
        flags[:] = [b for _, b in members]
        if out_batched is not None:
            flags[:] = [a or b for a, b in zip(flags, out_batched, strict=True)]
        return [
            spread(x, size) if is_wanted and not is_there else x
            for (x, is_there), is_wanted in zip(members, flags, strict=True)
        ]

    types = [
        p.type.with_shape((size, *p.shape)) if is_batched else p.type
        for p, is_batched in zip(graph.params, batched, strict=True)
    ]
    return build(run, types, graph.name, [p.origin for p in graph.params]), flags


def spread_members(graph: Graph, members: Sequence[Member]) -> list[Member]:
    """Record the batched form of a graph in the current one."""
    return rewrite(graph, members, _visit)


def _is_named(node: Node, name: Any) -> bool:
    return node.op.rules.named is not None and node.attrs["axis_name"] == name


def _holds_named(node: Node, name: Any) -> bool:
    """Whether a nested graph has an op on the named axis."""
    return any(_is_named(inner, name) for graph in node.graphs for inner in graph.walk())


def _visit(node: Node, members: list[Member]) -> list[Member]:
    args, batched = [x for x, _ in members], [b for _, b in members]
    axis = _axis.get()
    named = node.op.rules.named
    if axis and named is not None and _is_named(node, axis[0]):
        return [named(args, batched, axis[1])]
    if axis and not any(batched) and _holds_named(node, axis[0]):
        has_own = "precision" in node.attrs  # which its nodes alone would not keep
        if isinstance(node.op.rules.body, Call) and not has_own:
            return spread_members(node.attrs["graph"], members)
        args, batched = [spread(x, axis[1]) for x in args], [True] * len(args)
    if not any(batched):
        return [(r, False) for r in node.op.apply(args, node.attrs)]
    rule = node.op.rules.batch
    if rule is None and node.op.rules.expand is not None:
        return spread_members(expanded(node), members)
    if rule is None:
        raise UnsupportedOp(
            f"{node.op.name} cannot be batched: its room has no batch rule",
            where=str(node.source),
            fix=f"write @{node.op.name}.batch, or map over it with rlx.scan",
        )
    engine = (Engine(axis),) if node.graphs else ()
    results = rule(*engine, args, batched, **node.attrs)
    return [(r, True) for r in (results if isinstance(results, list | tuple) else [results])]


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def vmap(
    fun: Callable[Parameters, Result],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
) -> Callable[Parameters, Result]:
    """Vectorize a function: apply `fun` to all members of a batch at once.

    `in_axes` is the batch axis of each argument (None: the same for all members), as one number, or
    a tuple with a number or a tree for each argument; `out_axes` likewise for the results.
    `axis_name` names the batch for collectives such as `lax.psum`; `axis_size` is its size, needed
    where no argument has one.

    >>> import rlx
    >>> rlx.vmap(lambda x, y: x * y, in_axes=(0, None))(rlx.array([1.0, 2.0]), 10.0).tolist()
    [10.0, 20.0]
    """

    check_function(fun, "vmap: the function")

    def plain_call(*args: Any, **kwargs: Any) -> Any:
        args = _with_shared(in_axes, args)
        leaves, _ = pytree.flatten((args, kwargs))
        axes = _spread_axes(in_axes, args, "in_axes") + [0] * len(pytree.leaves(kwargs))
        types = [operand_type(as_operand(x)) for x in leaves]
        tree = pytree.structure((args, kwargs))
        origins = argument_origins(fun, args, tree, function_name(fun))
        axes = [_checked(*row) for row in zip(axes, types, origins, strict=True)]
        size = _size(axes, types, origins, axis_size)
        # numbers that all members share are known, so that Python control flow can use them
        members = [
            x if a is None else _member(t, a) for x, t, a in zip(leaves, types, axes, strict=True)
        ]
        given = pytree.unflatten(tree, members)
        with named_axis(axis_name, size):
            traced = trace(fun, given[0], given[1], concrete=True)
        batched = [a is not None for a in axes] + [False] * len(traced.captures)
        with batching(axis_name, size):
            graph, out_batched = batch_graph(traced.graph, batched, size)
        results = traced.unflatten([0] * len(graph.results))
        wanted = _spread_axes(out_axes, (results,), "out_axes", whole=True)
        moved = _with_axes(graph, axes, wanted, out_batched, size)
        found = run_graph(moved, [*leaves, *traced.captures])
        return traced.unflatten([plain(r) for r in found])

    options = typed((in_axes, out_axes, axis_name, axis_size))

    @boundary
    @functools.wraps(fun, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return repeated(plain_call, "vmap", (fun,), args, kwargs, options, is_shared)

    def is_shared(place: Any, count: int) -> bool:
        each = in_axes if isinstance(in_axes, Sequence) else (in_axes,) * count
        return isinstance(place, int) and len(each) == count and each[place] is None

    wrapped.__qualname__ = titled("vmap", fun)
    return wrapped


def _with_shared(axes: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Pass arguments without a batch to the function as they are."""
    each = axes if isinstance(axes, Sequence) else [axes] * len(args)
    if len(each) != len(args):
        return args
    return tuple(pytree.Static(a) if i is None else a for i, a in zip(each, args, strict=True))


def _spread_axes(axes: Any, args: tuple[Any, ...], what: str, whole: bool = False) -> list[Any]:
    """One axis for each leaf."""
    if _is_axis(axes):
        return [axes] * len(pytree.leaves(args))
    if not whole and not isinstance(axes, Sequence):
        raise ArgumentError(
            f"vmap: {what} is {axes!r}, which is not an axis",
            fix="give an integer, None, or one entry for each argument",
        )
    prefixes = (axes,) if whole else tuple(axes)
    if len(prefixes) != len(args):
        raise ArgumentError(
            f"vmap: {what} has {len(prefixes)} entries for {len(args)} arguments",
            fix="give one entry for each argument",
        )
    found: list[Any] = []
    for prefix, arg in zip(prefixes, args, strict=True):
        found += _broadcast_prefix(prefix, arg, what)
    return found


def _is_axis(axis: Any) -> bool:
    return axis is None or (isinstance(axis, int) and not isinstance(axis, bool))


def _broadcast_prefix(prefix: Any, tree: Any, what: str) -> list[Any]:
    """One axis for each leaf of a tree, from a tree of axes that ends earlier."""
    axes, spec = pytree.flatten(prefix, is_leaf=lambda x: x is None)
    for axis in axes:
        if not _is_axis(axis):
            raise ArgumentError(
                f"vmap: {what} has {axis!r}, which is not an axis",
                fix="give an integer, or None for what all members share",
            )
    parts = pytree.flatten_like(spec, tree, "vmap", (what, "the argument"))
    return [a for a, part in zip(axes, parts, strict=True) for _ in pytree.leaves(part)]


def _checked(axis: int | None, type: Type, origin: str) -> int | None:
    if axis is None:
        return None
    if not -type.rank <= axis < type.rank:
        raise AxisError(
            f"vmap: axis {axis} is outside {type}",
            notes=[origin],
            fix="pick another in_axes, or None for an argument that all members share",
        )
    return axis % type.rank


def _size(axes: list[Any], types: list[Type], origins: list[str], given: int | None) -> Any:
    rows = [
        (t.shape[a], f"{o}: {t}, axis {a}")
        for a, t, o in zip(axes, types, origins, strict=True)
        if a is not None
    ]
    rows += [(given, "axis_size")] if given is not None else []
    sizes = dict.fromkeys(size for size, _ in rows)
    if len(sizes) != 1:
        numbers = " and ".join(map(str, sizes))
        raise ShapeError(
            f"vmap: the batch sizes {numbers} differ" if rows else "vmap: there is no batch",
            notes=[f"{what} has {size}" for size, what in rows],
            fix="batch all arguments along axes of one size, or give axis_size",
        )
    return next(iter(sizes))


def _member(type: Type, axis: int | None) -> Type:
    if axis is None:
        return type
    return type.with_shape(type.shape[:axis] + type.shape[axis + 1 :])


def _with_axes(
    graph: Graph, axes: list[Any], out_axes: list[Any], out_batched: list[bool], size: Any
) -> Graph:
    """Move batch axes from and to the places that the user gave."""
    types = []
    for i, p in enumerate(graph.params):
        axis = axes[i] if i < len(axes) else None
        shape = list(p.shape)
        if axis:
            shape.insert(axis, shape.pop(0))
        types.append(p.type.with_shape(tuple(shape)))

    def run(*xs: Value) -> list[Value]:
        moved = [
            _moved(x, axes[i], 0) if i < len(axes) and axes[i] else x for i, x in enumerate(xs)
        ]
        results = inline(graph, moved)
        return [
            _placed(r, axis, is_batched, size)
            for r, axis, is_batched in zip(results, out_axes, out_batched, strict=True)
        ]

    return build(run, types, graph.name, [p.origin for p in graph.params])


def _moved(x: Value, origin: int, target: int) -> Value:
    axes = [a for a in range(x.rank) if a != origin]
    axes.insert(target, origin)
    return OPS["transpose"](x, axes=tuple(axes))


def _placed(x: Value, axis: int | None, is_batched: bool, size: Any) -> Value:
    if axis is None:
        if is_batched:
            raise ArgumentError(
                "vmap: a result differs between members, but its out_axes is None",
                fix="give it an axis in out_axes",
            )
        return x
    if not is_batched:
        x = OPS["broadcast"](x, shape=(size, *x.shape), axes=tuple(range(1, x.rank + 1)))
    if not -x.rank <= axis < x.rank:
        raise AxisError(
            f"vmap: out_axes {axis} is outside the batch of results, {x.type}",
            fix=f"pick an axis from {-x.rank} to {x.rank - 1}",
        )
    return _moved(x, 0, axis % x.rank) if axis % x.rank else x
