"""Nested graphs that run once: call, precise_call, cond.

Rules of an op with nested graphs take the engine as their first argument, so a room differentiates
or batches its graphs without importing the floor above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import or_
from typing import Any

import numpy as np

from ..body import Branch, Call
from ..builder import build, inline
from ..errors import ArgumentError, DtypeError, ShapeError
from ..graph import OPS, Graph, Value
from ..interpret import interpret
from ..number_check import asked, looking
from ..op import Linear, Op, define, is_linear
from ..policy import policy_of
from ..record import record
from ..rules import batch_size, spread
from ..types import Type, as_dtype
from .arithmetic import mul
from .trigonometric import sin

# -- carried values of loops: their types, and their places in graphs ------------------------------


def check_carry(carry: Sequence[Type], given: Sequence[Type]) -> None:
    """Raise unless a body gives carried values of the types it takes."""
    for i, (before, after) in enumerate(zip(carry, given, strict=True)):
        if before != after:
            raise ShapeError(
                f"carried value {i} is {before} before the body and {after} after it",
                fix="make the body return carried values of the types it takes",
            )


def permuted(graph: Graph, order: Sequence[int], results: Sequence[int]) -> Graph:
    """The graph with its parameters and results in another order.

    Parameter `order[i]` comes to place i, result `results[j]` to place j.
    """
    types = [graph.params[i].type for i in order]

    def run(*xs: Value) -> list[Value]:
        args: list[Any] = [None] * len(order)
        for place, i in enumerate(order):
            args[i] = xs[place]
        given = inline(graph, args)
        return [given[j] for j in results]

    return build(run, types, graph.name)


def interleaved(counts: Sequence[int], active: Sequence[bool]) -> list[int]:
    """Places of a jvp graph's values, each group's tangents moved behind the group.

    The jvp graph has all primals, then the active tangents; `counts` are the sizes of groups.
    """
    tangent_place = {}
    for i, is_active in enumerate(active):
        if is_active:
            tangent_place[i] = len(active) + len(tangent_place)
    order, start = [], 0
    for count in counts:
        group = range(start, start + count)
        order += [*group, *(tangent_place[i] for i in group if i in tangent_place)]
        start += count
    return order


def settled(
    flags: list[bool],
    after: Callable[[list[bool]], Sequence[bool]],
    join: Callable[[bool, bool], bool] = or_,
) -> tuple[list[bool], Sequence[bool]]:
    """Flags of carried values that a step leaves as they are, and all that it gives.

    `after(flags)` are those of the results of a step, the carried values first; they are joined to
    the flags until nothing changes.
    """
    while True:
        given = after(flags)
        joined = [join(a, b) for a, b in zip(flags, given, strict=False)]
        if joined == flags:
            return flags, given
        flags = joined


def cut_groups(items: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Cut a list into groups of the given sizes and the rest."""
    groups, start = [], 0
    for count in counts:
        groups.append(list(items[start : start + count]))
        start += count
    return [*groups, list(items[start:])]


@record
class Split:
    """A graph cut in two by partial evaluation: what is known, and what is not."""

    known: Graph  # takes the known parameters; gives the known results, then the residuals
    unknown: Graph  # takes the residuals, then the unknown parameters; gives the other results
    out_known: tuple[bool, ...]  # for each result of the whole graph

    @property
    def residual_types(self) -> tuple[Type, ...]:
        """The types of what the known side passes on."""
        return self.known.result_types[sum(self.out_known) :]


def pick(items: Sequence[Any], mask: Sequence[bool], keep: bool = True) -> list[Any]:
    """The items whose mask equals `keep`."""
    return [item for item, is_kept in zip(items, mask, strict=True) if bool(is_kept) == keep]


def weave(mask: Sequence[bool], yes: Sequence[Any], no: Sequence[Any]) -> list[Any]:
    """One list, woven of two by a mask.

    At each place stands the next of `yes` where the mask holds, else the next of `no`.
    """
    first, second = iter(yes), iter(no)
    return [next(first) if is_yes else next(second) for is_yes in mask]


def zeros_like(x: Type | Value | Linear) -> Value:
    """Zeros of a type, or of that of a value, in the current graph."""
    return OPS["full"](shape=x.shape, value=0, dtype=x.dtype)


def filled(tangents: Sequence[Value | None], types: Sequence[Any]) -> list[Value]:
    """Tangents or cotangents with zeros in the empty places."""
    return [zeros_like(x) if t is None else t for t, x in zip(tangents, types, strict=True)]


def with_tangents(
    results: Sequence[Value], active: Sequence[bool]
) -> tuple[list[Value], list[Value | None]]:
    """Split the results of a jvp graph into primals and tangents, None if inactive."""
    count = len(active)
    return list(results[:count]), weave(active, results[count:], [None] * count)


def check_operands(types: Sequence[Type], graph: Graph, what: str) -> None:
    """Raise unless the operands have the types of the graph's parameters."""
    if len(types) != len(graph.params):
        raise ArgumentError(
            f"{what} takes {len(graph.params)} operands, not {len(types)}",
            fix="pass one operand for each parameter",
        )
    for i, (given, param) in enumerate(zip(types, graph.params, strict=True)):
        if given.dtype != param.dtype:
            raise DtypeError(
                f"operand {i} is {given}, {what} takes {param.type}", fix="convert it with astype"
            )
        if given != param.type:
            raise ShapeError(
                f"operand {i} is {given}, {what} takes {param.type}", fix="pass the same shape"
            )


# -- call ----------------------------------------------------------------------------------------


def interpreted(
    *operands: np.ndarray, graph: Graph, debug_nans: bool = False, **attrs: Any
) -> tuple[np.ndarray, ...]:
    """The reference of an op that runs a nested graph."""
    with looking(debug_nans):
        return tuple(interpret(graph, operands))


def call_family(op: Op) -> None:
    """Attach the rules call and checkpoint share."""
    op.reference(interpreted)
    op.body(Call())

    @op.jvp
    def call_jvp(jvp_graph, primals, tangents, *, graph, **attrs):
        pushed, active = jvp_graph(graph, [t is not None for t in tangents])
        given = [t for t in tangents if t is not None]
        return with_tangents(op(*primals, *given, graph=pushed, **attrs), active)

    @op.transpose
    def call_transpose(transpose_graph, ct, *args, graph, **attrs):
        linear = [is_linear(a) for a in args]
        pulled = transpose_graph(graph, linear, [c is not None for c in ct])
        known = [a for a in args if not is_linear(a)]
        cts = [c for c in ct if c is not None]
        return weave(linear, op(*known, *cts, graph=pulled, **attrs), [None] * len(args))

    @op.batch
    def call_batch(batch_graph, args, batched, *, graph, **attrs):
        size = batch_size(args, batched)
        mapped, _ = batch_graph(graph, batched, size, [True] * len(graph.results))
        return op(*args, graph=mapped, **attrs)

    op.rules.multiple = True


def _split_family(op: Op) -> None:
    @op.split
    def call_split(split_graph, args, known, *, graph, **attrs):
        parts = split_graph(graph, known)
        results = list(op(*pick(args, known), graph=parts.known, **attrs))
        count = sum(parts.out_known)
        rest = pick(args, known, False)
        unknown = op(*results[count:], *rest, graph=parts.unknown, **attrs)
        return weave(parts.out_known, results[:count], unknown)


@define
def call(*operands: Type, graph: Graph, name: str = "") -> Any:
    """Run a nested graph: what a nested `jit` becomes."""
    check_operands(operands, graph, "the called graph")
    return graph.result_types


call_family(call)
_split_family(call)
call.rules.transparent = True  # it means its graph, and no more


# -- cond ---------------------------------------------------------------------------------------


@define
def cond(index: Type, *operands: Type, branches: tuple[Graph, ...]) -> Any:
    """Run one of several graphs: `branches[index]`.

    The index is clamped to those there are.
    """
    if index != Type(as_dtype("int32")):
        raise DtypeError(f"the index is {index}, not i32[]", fix="convert it: i.astype('int32')")
    first = branches[0]
    for i, branch in enumerate(branches):
        check_operands(operands, branch, f"branch {i}")
        if branch.result_types != first.result_types:
            ours, theirs = map(_types_text, (first.result_types, branch.result_types))
            raise ShapeError(
                f"branch 0 gives {ours}, branch {i} gives {theirs}",
                fix="make the branches return the same dtypes and shapes",
            )
    return first.result_types


def _types_text(types: Sequence[Type]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


@cond.reference
def cond_reference(index, *operands, branches):
    chosen = min(max(int(index), 0), len(branches) - 1)
    return tuple(interpret(branches[chosen], operands))


cond.body(Branch())
cond.rules.multiple = True


@cond.jvp
def cond_jvp(jvp_graph, primals, tangents, *, branches):
    active = [t is not None for t in tangents[1:]]
    each = [jvp_graph(branch, active)[1] for branch in branches]
    union = [any(column) for column in zip(*each, strict=True)]
    pushed = tuple(jvp_graph(branch, active, union)[0] for branch in branches)
    given = [t for t in tangents[1:] if t is not None]
    return with_tangents(cond(*primals, *given, branches=pushed), union)


@cond.transpose
def cond_transpose(transpose_graph, ct, index, *args, branches):
    linear = [is_linear(a) for a in args]
    active = [c is not None for c in ct]
    pulled = tuple(transpose_graph(branch, linear, active) for branch in branches)
    known = [a for a in args if not is_linear(a)]
    cts = [c for c in ct if c is not None]
    return [None, *weave(linear, cond(index, *known, *cts, branches=pulled), [None] * len(args))]


@cond.batch
def cond_batch(batch_graph, args, batched, *, branches):
    size = batch_size(args, batched)
    everything = [True] * len(branches[0].results)
    branches = tuple(batch_graph(b, batched[1:], size, everything)[0] for b in branches)
    if not batched[0]:
        return cond(*args, branches=branches)
    index = OPS["clamp"](0, args[0], len(branches) - 1)
    taken = [OPS["eq"](index, i) for i in range(len(branches))]
    results = [
        _for_members(which, branch, args[1:], batched[1:])
        for which, branch in zip(taken, branches, strict=True)
    ]
    chosen = results[0]
    for which, row in zip(taken[1:], results[1:], strict=True):
        chosen = [_select_rows(which, a, b) for a, b in zip(row, chosen, strict=True)]
    return chosen


def _for_members(
    which: Value, branch: Graph, args: Sequence[Value], batched: Sequence[bool]
) -> Sequence[Value]:
    """The results of a batched branch, of which those of some members count."""
    if asked() is None:
        return inline(branch, args)
    nothing = build(
        lambda *xs: [zeros_like(type) for type in branch.result_types], branch.param_types, "none"
    )
    is_taken = OPS["convert"](OPS["reduce_or"](which, axes=(0,)), dtype=as_dtype("int32"))
    return cond(is_taken, *only_of(which, args, batched), branches=(nothing, branch))


def only_of(which: Value, args: Sequence[Value], batched: Sequence[bool]) -> list[Value]:
    """Replace members of a batch outside of a choice by the first one in it.

    What is computed for them then makes no bad numbers that a check would find.
    """
    integer = as_dtype("int32")
    first = OPS["argmax"](OPS["convert"](which, dtype=integer), axis=0)

    def row_of(x: Value) -> Value:
        starts = [first, *[zeros_like(Type(integer))] * (x.rank - 1)]
        row = OPS["dynamic_slice"](x, *starts, sizes=(1, *x.shape[1:]))
        others = spread(OPS["reshape"](row, shape=x.shape[1:]), x.shape[0])
        return _select_rows(which, x, others)

    return [row_of(x) if flag else x for x, flag in zip(args, batched, strict=True)]


def _select_rows(which: Value, yes: Value, no: Value) -> Value:
    return OPS["select"](OPS["broadcast"](which, shape=yes.shape, axes=(0,)), yes, no)


@cond.split
def cond_split(split_graph, args, known, *, branches):
    index, rest = args[0], args[1:]
    first = [split_graph(branch, known[1:]).out_known for branch in branches]
    out_known = [all(column) for column in zip(*first, strict=True)]
    parts = [split_graph(branch, known[1:], out_known) for branch in branches]
    slots, places = _share_slots([part.residual_types for part in parts])
    count = sum(out_known)

    def known_branch(part: Split, place: list[int]) -> Graph:
        def run(*xs: Value) -> list[Value]:
            results = inline(part.known, xs)
            filling = dict(zip(place, results[count:], strict=True))
            return results[:count] + [
                filling[i] if i in filling else zeros_like(t) for i, t in enumerate(slots)
            ]

        return build(run, part.known.param_types, part.known.name)

    def unknown_branch(part: Split, place: list[int]) -> Graph:
        types = [*slots, *pick([a.type for a in rest], known[1:], False)]
        return build(
            lambda *xs: inline(part.unknown, [*[xs[i] for i in place], *xs[len(slots) :]]),
            types,
            part.unknown.name,
        )

    pairs = list(zip(parts, places, strict=True))
    results = cond(
        index, *pick(rest, known[1:]), branches=tuple(known_branch(*pair) for pair in pairs)
    )
    unknown = cond(
        index,
        *results[count:],
        *pick(rest, known[1:], False),
        branches=tuple(unknown_branch(*pair) for pair in pairs),
    )
    return weave(out_known, results[:count], unknown)


def _share_slots(rows: Sequence[Sequence[Type]]) -> tuple[list[Type], list[list[int]]]:
    """Give residuals of all branches places in one list.

    Branches share places of one type.
    """
    slots: list[Type] = []
    places = []
    for row in rows:
        free = list(range(len(slots)))
        place = []
        for type in row:
            found = next((i for i in free if slots[i] == type), None)
            if found is None:
                found = len(slots)
                slots.append(type)
            else:
                free.remove(found)
            place.append(found)
        places.append(place)
    return slots, places


_PAIR, _LINE = (Type(as_dtype("float64"), (n,)) for n in (2, 3))
_BRANCHES = tuple(
    build(branch, [_PAIR], name)
    for name, branch in (("double", lambda x: [x + x]), ("square", lambda x: [x * x]))
)
cond.samples(np.int32(1), [3.0, 4.0], branches=_BRANCHES, expect=[[9.0, 16.0]])
cond.samples(np.int32(-7), [3.0, 4.0], branches=_BRANCHES, expect=[[6.0, 8.0]])
call.samples((3,), (3,), graph=build(lambda x, y: [sin(x) * y, x + y], [_LINE] * 2, "sample"))


@define
def precise_call(
    *operands: Type,
    graph: Graph,
    precision: str = "",
    deterministic: str = "",
    debug_nans: bool = False,
    name: str = "",
) -> Any:
    """Run a nested graph under a precision policy, or so that it is batch-invariant.

    A nested `jit` with `precision`, `deterministic` or `debug_nans` becomes one. `precision` is the
    text of a policy, or empty for that around. The graph's types stay what they are; lowering puts
    the casts in. A program that has a `deterministic` part is compiled so as a whole. With
    `debug_nans` the operations of the graph are looked at. The reference computes the graph as it
    was written.
    """
    if precision:
        policy_of(precision)
    check_operands(operands, graph, "the called graph")
    return graph.result_types


call_family(precise_call)
_split_family(precise_call)


precise_call.samples(
    (3,),
    (3,),
    graph=build(lambda x, y: [mul(x, y)], [_LINE] * 2, "sample"),
    precision="mixed_bf16",
)
