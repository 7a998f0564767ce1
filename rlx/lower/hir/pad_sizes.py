"""Buckets: static sizes for symbolic ones, by padding arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...ir.bind import concrete_attr, concrete_type, sizes_in
from ...ir.body import (
    AsParts,
    Blocks,
    Branch,
    Concat,
    Contract,
    Fill,
    FromParts,
    Gather,
    Library,
    Move,
    Part,
    Pointwise,
    Read,
    Reduce,
    Repeat,
    Scan,
    Scatter,
    Sort,
    TopK,
    View,
    While,
)
from ...ir.builder import build, build_with_captures, current, rewrite
from ...ir.dims import Dim, Size
from ...ir.errors import RlxError, UnsupportedOp
from ...ir.graph import OPS, Graph, Node, Value
from ...ir.op import has_effect
from ...ir.types import DTYPES, Type, empty_result, is_complex, is_inexact, neutral
from ..lir.index import Index, Variable, as_index
from ..schedule.elements import flatten, unflatten
from .inline_calls import expand, inline_calls
from .places import FIX, IndexArrays, Loads, Places, all_of, as_lines, lines_of, mentions_size

BOOL = Type(DTYPES["bool"], ())


def pad_sizes(graph: Graph, sizes: Mapping[str, int]) -> tuple[Graph, list[Dim]]:
    """Make a graph for padded arrays; its last parameters are the sizes listed.

    before: `f(x: f32[n]) { reduce_sum(x) }`; after, with n = 8: `f(x: f32[8], n: i32[]) {
    reduce_sum(select(iota < n, x, -0.0)) }`. The true part of each result is at its beginning. An
    op for which that does not hold, whatever the padding, is an `UnsupportedOp`.
    """
    graph = expand(inline_calls(graph, keep_recomputed=False))
    types = [concrete_type(t, sizes) for t in graph.param_types]
    values = [v for node in graph.walk() for v in (*node.args, *node.results)]
    largest = max((concrete_type(v.type, sizes).size for v in values), default=0)
    padder = _Padder(sizes, Type(DTYPES["int32" if largest < 2**31 else "int64"], ()))

    def body(*xs: Value) -> list[Value]:
        builder = current()
        assert builder is not None, "the graph is being recorded"
        padder.take = builder.capture
        return rewrite(graph, xs, padder.node)

    origins = [p.origin for p in graph.params]
    return build_with_captures(body, types, graph.name, origins)


class _Padder:
    """Records nodes for padded operands; `number` is the type of true sizes.

    `take(size, type)` gives the parameter of the outermost graph for a size.
    """

    take: Callable[[Dim, Type], Value]

    def __init__(self, sizes: Mapping[str, int], number: Type) -> None:
        self.sizes, self.type = sizes, number
        self.taken: dict[Dim, Dim] = {}  # one object for equal sizes

    def node(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Record a node on padded operands."""
        body = node.op.rules.body
        if node.graphs:
            rule = _RULES_OF_GRAPHS.get(type(body))
        elif _is_known(node):
            return node.op.apply(operands, node.attrs)
        else:
            rule = _RULES.get(type(body))
        if rule is None:
            raise _unsupported(node)
        return rule(self, node, operands)

    def attrs(self, node: Node, **more: Any) -> dict[str, Any]:
        """The attributes with padded sizes, without nested graphs but for those in `more`."""
        return {
            name: more[name] if name in more else concrete_attr(attr, self.sizes)
            for name, attr in node.attrs.items()
        }

    def number(self, size: Size) -> Value:
        """The true number of a size."""
        if isinstance(size, Dim):
            return self.take(self.taken.setdefault(size, size), self.type)
        return OPS["full"](shape=(), value=size, dtype=self.type.dtype)

    # -- ops that take padding as it is, or need it filled -----------------------------------------

    def plain(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """An op of which the true part of the result depends on that of operands alone."""
        return node.op.apply(operands, self.attrs(node))

    def reduction(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Neutral elements in the padding."""
        x, combine = operands[0], node.op.rules.body.combine
        number = neutral(combine, x.dtype)
        return self.plain(node, [self.padded_by(number, x, node.args[0], node.attrs["axes"])])

    def prefixes(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Padding comes last; a scan from the end begins with neutral elements."""
        x = operands[0]
        axes = (node.attrs["axis"],) if node.attrs.get("reverse") else ()
        number = neutral(node.op.rules.body.combine, x.dtype)
        return self.plain(node, [self.padded_by(number, x, node.args[0], axes)])

    def product(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Zeros along the axes that are summed over."""
        contracted, _ = node.op.rules.body.axes([a.type for a in node.args], **node.attrs)
        rows = zip(operands, node.args, contracted, strict=True)
        return self.plain(node, [self.padded_by(0, x, old, axes) for x, old, axes in rows])

    def sorted(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Keys that come last; the sort is stable, so padding stays behind true ties."""
        axes, count = (node.attrs["axis"],), node.attrs["n_keys"]
        keys = [
            self.padded_by(_greatest(x.dtype), x, old, axes)
            for x, old in zip(operands[:count], node.args, strict=False)
        ]
        return self.plain(node, [*keys, *operands[count:]])

    def largest(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """The least numbers: what is true and ties with padding comes first."""
        (x,) = operands
        return self.plain(
            node, [self.padded_by(empty_result("max", x.dtype), x, node.args[0], (x.rank - 1,))]
        )

    def padded_by(self, number: Any, x: Value, old: Value, axes: Sequence[int]) -> Value:
        """Fill the padding along some axes with a number."""
        inside = self.inside(x, old, axes)
        if inside is None:
            return x
        rest = OPS["full"](shape=x.shape, value=number, dtype=x.dtype)
        return OPS["select"](inside, x, rest)

    def inside(self, x: Value, old: Value, axes: Sequence[int]) -> Value | None:
        """Where the true part along some axes is; None if that is all."""
        found = []
        for axis in axes:
            size = old.shape[axis]
            if isinstance(size, Dim):
                place = OPS["iota"](shape=x.shape, axis=axis, dtype=self.type.dtype)
                end = OPS["broadcast"](self.number(size), shape=x.shape, axes=())
                found.append(OPS["lt"](place, end))
        return all_of(found)

    # -- ops that move elements --------------------------------------------------------------------

    def filled(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Numbers made of the place of an element, and perhaps of sizes."""
        variables, place = _variables(node.result.shape)
        number = node.op.rules.body.number(place, node.result.type, **node.attrs)
        is_index = isinstance(number, Index | Variable | Dim)
        if not is_index or not mentions_size(as_index(number)):
            return self.plain(node, operands)
        shape = concrete_type(node.result.type, self.sizes).shape
        arrays = IndexArrays(shape, variables, self.number, operands, Loads())
        return [OPS["convert"](arrays.of(as_index(number)), dtype=node.result.dtype)]

    def moved(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Elements read at other places, which are computed if they depend on sizes."""
        shape = concrete_type(node.result.type, self.sizes).shape
        variables, place = _variables(node.result.shape)
        loads = Loads()
        read = _read(node, place, loads)
        places = Places.of(place, read, loads)
        if not places.depend_on_sizes:
            return self.plain(node, operands)
        x = operands[read.operand]
        count = len(shape) - places.count_lines(shape, x.shape)
        arrays = IndexArrays(shape[:count], variables[:count], self.number, operands, loads)
        first = x.rank - (len(shape) - count)
        flat = arrays.of(flatten(places.index[:first], x.shape[:first]))
        inside = lines_of(x, flat, shape[count:])
        holds = arrays.holds(places.guards, places.steps)
        if holds is None:
            return [inside]
        if read.otherwise is None:
            rest = OPS["full"](shape=shape, value=read.fill, dtype=x.dtype)
        else:
            rest = OPS["broadcast"](operands[read.otherwise], shape=shape, axes=())
        return [OPS["select"](_along_first(holds, shape), inside, rest)]

    def joined(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """The padded parts one after another, and then without the padding between them."""
        axis = node.attrs["axis"]
        (whole,) = self.plain(node, operands)
        (variable,), _ = _variables(whole.shape[axis : axis + 1])
        arrays = IndexArrays((whole.shape[axis],), [variable], self.number, operands, Loads())
        place = line = arrays.of(variable.index)
        end: Size = 0
        for x, old in zip(operands[:-1], node.args, strict=False):
            end = end + old.shape[axis]
            gap = x.shape[axis] - old.shape[axis]
            if isinstance(gap, Dim):
                is_behind = OPS["ge"](place, arrays.filled(end))
                line = line + OPS["select"](is_behind, arrays.filled(gap), arrays.filled(0))
        if line is place:
            return [whole]
        return [_taken(whole, line, axis)]

    def scattered(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Updates at computed places, those of the padding left out."""
        body, types = node.op.rules.body, [a.type for a in node.args]
        old, loads = node.args[body.updates], Loads()
        variables, place = _variables(old.shape)
        places = Places.of(place, body.place(place, loads, types, **node.attrs), loads)
        x, updates = operands[0], operands[body.updates]
        if x.type.size == 0:
            return [x]
        # a line with padding would be written over true elements
        lines = places.count_lines(updates.shape, x.shape)
        while lines > 0 and any(isinstance(n, Dim) for n in old.shape[old.rank - lines :]):
            lines -= 1
        count, first = old.rank - lines, x.rank - lines
        arrays = IndexArrays(updates.shape[:count], variables[:count], self.number, operands, loads)
        flat = arrays.of(flatten(places.index[:first], x.shape[:first]))
        true = self.inside(flat, old, range(count))
        holds = arrays.holds(places.guards, places.steps)
        is_written = all_of([c for c in (true, holds) if c is not None])
        if is_written is not None:
            flat = OPS["select"](is_written, flat, arrays.filled(-1))
        combine = {"set": "scatter"}.get(body.combine, f"scatter_{body.combine}")
        result = OPS[combine](
            as_lines(x, first),
            OPS["reshape"](flat, shape=(*flat.shape, 1)),
            updates,
            window_axes=tuple(range(count, old.rank)),
            inserted_axes=(0,),
            scatter_axes=(0,),
            mode="drop",
        )
        return [OPS["reshape"](result, shape=x.shape)]

    def lines(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """The first line in the padding of the first axis, of an op that takes each by itself."""
        if not _takes_lines(node):
            raise _unsupported(node)
        if 0 in [x.shape[0] for x in operands]:
            return self.plain(node, operands)
        filled = []
        for x, old in zip(operands, node.args, strict=True):
            inside = self.inside(x, old, [0])
            assert inside is not None, "the first axis is open"
            first = OPS["slice"](x, start=(0,) * x.rank, stop=(1, *x.shape[1:]), step=(1,) * x.rank)
            every = OPS["broadcast"](first, shape=x.shape, axes=tuple(range(x.rank)))
            filled.append(OPS["select"](inside, x, every))
        return self.plain(node, filled)

    # -- nested graphs -----------------------------------------------------------------------------

    def branches(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """One of several padded graphs."""
        branches, read = self.nested(node.attrs["branches"])
        index, *others = operands
        return node.op.apply([index, *read, *others], {"branches": tuple(branches)})

    def loop(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """A loop of a padded condition and a padded body."""
        (condition, body), read = self.nested([node.attrs["condition"], node.attrs["body"]])
        n_condition, n_body = (node.attrs[name] for name in ("n_condition", "n_body"))
        counts = {"n_condition": n_condition + len(read), "n_body": n_body + len(read)}
        attrs = self.attrs(node, condition=condition, body=body, **counts)
        ours, others = operands[:n_condition], operands[n_condition:]
        return node.op.apply([*read, *ours, *read, *others], attrs)

    def repeated(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """As many rounds as padded rows; beyond the true ones what is carried stays."""
        length, body = node.attrs["length"], node.attrs["body"]
        more: list[Value] = []
        step, types = self.inlined, []
        if isinstance(length, Dim):
            step, types = partial(self.step, node), [BOOL]
            shape = (concrete_attr(length, self.sizes),)
            place = OPS["iota"](shape=shape, axis=0, dtype=self.type.dtype)
            end = OPS["broadcast"](self.number(length), shape=shape, axes=())
            more = [OPS["lt"](place, end)]
        (body,), read = self.nested([body], step, types)
        count = node.attrs["n_constants"] + len(read)
        return node.op.apply(
            [*read, *operands, *more], self.attrs(node, body=body, n_constants=count)
        )

    def step(self, node: Node, graph: Graph, *values: Value) -> list[Value]:
        """A round of a loop, of which the last value tells whether it counts."""
        *operands, is_true = values
        first = node.attrs["n_constants"]
        carry = operands[first : first + node.attrs["n_carry"]]
        if any(map(_must_not_run, graph.walk())):
            return self.step_or_none(graph, operands, carry, is_true)
        made = self.inlined(graph, *operands)
        kept = [
            OPS["select"](_along_first(is_true, old.shape), new, old)
            for new, old in zip(made, carry, strict=False)
        ]
        return [*kept, *made[len(carry) :]]

    def step_or_none(
        self, graph: Graph, values: Sequence[Value], carry: Sequence[Value], is_true: Value
    ) -> list[Value]:
        """A round that is left out if it does not count."""
        (whole,), read = self.nested([graph])
        operands = [*read, *values]
        places = [next(i for i, x in enumerate(operands) if x is c) for c in carry]

        def none(*xs: Value) -> list[Value]:
            rest = whole.result_types[len(carry) :]
            zeros = [OPS["full"](shape=t.shape, value=0, dtype=t.dtype) for t in rest]
            return [*(xs[i] for i in places), *zeros]

        nothing = build(none, whole.param_types, "none")
        index = OPS["convert"](is_true, dtype=DTYPES["int32"])
        return list(OPS["cond"](index, *operands, branches=(nothing, whole)))

    def inlined(self, graph: Graph, *values: Value) -> list[Value]:
        """Record the nodes of a graph."""
        return rewrite(graph, values, self.node)

    def nested(
        self,
        graphs: Sequence[Graph],
        run: Callable[..., list[Value]] | None = None,
        more: Sequence[Type] = (),
    ) -> tuple[list[Graph], list[Value]]:
        """Padded graphs, and values that they read here, which are their first parameters.

        `run(graph, *values)` gives the results of one; it takes values of the types `more` last.
        """
        made = []
        for graph in graphs:
            types = [concrete_type(t, self.sizes) for t in graph.param_types]
            record = partial(run or self.inlined, graph)
            made.append(build_with_captures(record, [*types, *more], graph.name))
        read = list(dict.fromkeys(value for _, captures in made for value in captures))
        for graph, captures in made:
            count = len(graph.params) - len(captures)
            params = dict(zip(captures, graph.params[count:], strict=True))
            first = [params.get(x) or Value(x.type, graph) for x in read]
            graph.params = [*first, *graph.params[:count]]
        return [graph for graph, _ in made], read


_Rule = Callable[[_Padder, Node, list[Value]], Sequence[Value]]
_RULES: dict[type, _Rule] = {
    **dict.fromkeys((Pointwise, AsParts, FromParts, Part), _Padder.plain),
    **dict.fromkeys((Move, Gather, View), _Padder.moved),
    Fill: _Padder.filled,
    Reduce: _Padder.reduction,
    Scan: _Padder.prefixes,
    Contract: _Padder.product,
    Sort: _Padder.sorted,
    TopK: _Padder.largest,
    Concat: _Padder.joined,
    Scatter: _Padder.scattered,
    **dict.fromkeys((Blocks, Library), _Padder.lines),
}
_RULES_OF_GRAPHS: dict[type, _Rule] = {
    Branch: _Padder.branches,
    While: _Padder.loop,
    Repeat: _Padder.repeated,
}


def _is_known(node: Node) -> bool:
    """Whether a node has no open size."""
    return all(v.type.is_static for v in (*node.args, *node.results)) and not sizes_in(node.attrs)


def _takes_lines(node: Node) -> bool:
    """Whether an op does one thing to each line along the first axes, which alone are open.

    That is so if what it does to a line becomes this very node by its batching rule.
    """
    types, rule = [v.type for v in (*node.args, *node.results)], node.op.rules.batch
    if not node.args or rule is None or node.op.rules.runs_python:
        return False
    if not all(t.rank and isinstance(t.shape[0], Dim) for t in types):
        return False
    line = [t.with_shape(t.shape[1:]) for t in types]
    if not all(t.is_static for t in line) or sizes_in(node.attrs):
        return False
    count = len(node.args)

    def batched(*xs: Value) -> Any:
        return rule(list(xs), [True] * count, **node.attrs)

    try:
        if [*node.op.infer(line[:count], node.attrs)] != line[count:]:
            return False
        made = build(batched, types[:count])
    except RlxError:
        return False
    if len(made.nodes) != 1:
        return False
    (only,) = made.nodes
    is_same = (only.op, only.attrs) == (node.op, node.attrs)
    return is_same and only.args == tuple(made.params)


def _must_not_run(node: Node) -> bool:
    """Whether a node might not end, raise an error or do something if it gets any numbers."""
    body = node.op.rules.body
    calls = isinstance(body, Library) and not node.op.is_constant
    return calls or isinstance(body, While) or node.op.rules.calls_python or has_effect(node)


def _variables(shape: Sequence[Size]) -> tuple[list[Variable], tuple[Index, ...]]:
    """A variable for each axis, and the place that they name."""
    variables = [Variable(size) for size in shape]
    return variables, tuple(map(as_index, variables))


def _read(node: Node, place: Sequence[Index], loads: Loads) -> Read:
    """What is read for the element at a place of a node's result."""
    body, types = node.op.rules.body, [a.type for a in node.args]
    if isinstance(body, View):
        return Read(0, unflatten(flatten(place, node.result.shape), types[0].shape))
    if isinstance(body, Move):
        return body.read(place, types, **node.attrs)
    return body.read(place, loads, types, **node.attrs)


def _along_first(x: Value, shape: Sequence[Size]) -> Value:
    """Repeat x along further axes behind its own."""
    return OPS["broadcast"](x, shape=tuple(shape), axes=tuple(range(x.rank)))


def _taken(x: Value, places: Value, axis: int) -> Value:
    """The parts of x at places along an axis."""
    others = tuple(i for i in range(x.rank) if i != axis)
    return OPS["gather"](
        x,
        OPS["reshape"](places, shape=(*places.shape, 1)),
        offset_axes=others,
        collapsed_axes=(axis,),
        start_axes=(axis,),
        sizes=tuple(1 if i == axis else n for i, n in enumerate(x.shape)),
    )


def _greatest(dtype: Any) -> Any:
    """A number that no other comes behind when sorted."""
    if is_complex(dtype):
        return complex("nan+nanj")
    return float("nan") if is_inexact(dtype) else empty_result("min", dtype)


def _unsupported(node: Node) -> UnsupportedOp:
    operands = ", ".join(str(a.type) for a in node.args)
    return UnsupportedOp(
        f"{node.op.name}: its result would depend on the padding of {operands}",
        where=str(node.source),
        fix=FIX,
    )
