"""The look at numbers of each operation that debug_nans and debug_infs ask for.

Under vmap a branch of `cond` is computed for all members of a batch, and a round of `while_loop`
too; while the settings are on, those it does not count for are given what the first of the others
has (and an error may name the place of such a copy).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from ...ir.body import Branch, Call, Concat, Fill, Move, Repeat, View, While
from ...ir.builder import build, rewrite
from ...ir.errors import NanError
from ...ir.graph import OPS, Graph, Node, Value
from ...ir.number_check import IsBad, at, check_results, is_bad, place_of
from ...ir.ops.custom import Rule
from ...ir.types import as_dtype, is_complex, is_inexact
from .inline_calls import inline_calls
from .rebuild import again, drop_dead, rebuild

OPENED = (Branch, Call, Repeat, While)  # what is inside is looked at
MOVES = (Concat, Fill, Move, View)  # they make no numbers


def with_checks(graph: Graph, *, nans: bool = True, infs: bool = False) -> Graph:
    """Add to a graph, after each op that makes numbers, a look at its results.

    before: `y = log(x)`; after: `y = log(x); a = ne(y, y); b = reduce_or(a); cond(b, x, y)`, where
    the branch taken for a bad number calls Python, which has the operands before it and raises.
    Graphs inside of loops and branches get theirs. Results that are bad because an argument is
    name that argument.
    """
    bad = is_bad(nans, infs)
    if bad is None:
        return graph
    checks = _Checks(nans, infs, bad)
    graph = drop_dead(inline_calls(graph))
    last = graph.results

    def run(*params: Value) -> list[Value]:
        results = checks.inside(graph, params)
        for i, (result, old) in enumerate(zip(results, last, strict=True)):
            if is_inexact(result.dtype) and params and old not in graph.params:
                checks.look([result], [*params, result], _blame(graph, i, bad))
        return results

    return build(run, graph.param_types, graph.name, [p.origin for p in graph.params])


def with_asked_checks(graph: Graph) -> Graph:
    """Add looks for NaN to functions that were jitted with `debug_nans`.

    before: `y = precise_call(x, graph=g, debug_nans=True)`; after: the same with g's checks in g.
    """
    if not any(node.attrs.get("debug_nans") for node in graph.walk()):
        return graph

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        return again(node, operands, with_checks if node.attrs.get("debug_nans") else nested)

    def nested(graph: Graph) -> Graph:
        return rebuild(graph, visit)

    return nested(graph)


def _blame(graph: Graph, number: int, bad: IsBad) -> Callable[..., None]:
    """Raise if an argument is bad; the result is, and no op made it so."""
    name, origins = graph.name, [p.origin for p in graph.params]
    node = graph.results[number].node
    source = node.source if node else None

    def report(*arrays: np.ndarray) -> None:
        result = arrays[-1]
        for origin, array in zip(origins, arrays, strict=False):
            place = place_of(array, bad)
            if place is not None:
                there = place_of(result, bad) or ()
                raise NanError(
                    f"result {number} of {name} is {result[there]!s}{at(there)}, because "
                    f"{origin or 'an argument'} is {array[place]!s}{at(place)}",
                    where=str(source),
                    fix="look where the argument comes from",
                )

    return report


class _Checks:
    """Records the looks at numbers."""

    def __init__(self, nans: bool, infs: bool, bad: IsBad) -> None:
        self.nans, self.infs, self.bad = nans, infs, bad

    def inside(self, graph: Graph, params: Sequence[Value]) -> list[Value]:
        """Record a graph with checks in the current one."""
        return rewrite(graph, params, self.visit)

    def visit(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Record a node and the look at its results."""
        is_open = isinstance(node.op.rules.body, OPENED)
        results = again(node, operands, self.nested if is_open else lambda graph: graph)
        body = node.op.rules.body
        made = [r for r in results if is_inexact(r.dtype)]
        if made and operands and not is_open and not isinstance(body, MOVES):
            name, source, count, bad = node.op.name, node.source, len(operands), self.bad

            def report(*arrays: np.ndarray) -> None:
                check_results(name, lambda: source, arrays[:count], arrays[count:], bad)

            self.look(made, [*operands, *results], report)
        return results

    def nested(self, graph: Graph) -> Graph:
        """A nested graph with checks."""
        return rebuild(graph, self.visit)

    def look(
        self, made: Sequence[Value], shown: Sequence[Value], report: Callable[..., None]
    ) -> None:
        """Call `report` with the arrays of `shown` if one of `made` has a bad number."""
        found = functools.reduce(OPS["bit_or"], map(self.has_bad, made))
        types = [x.type for x in shown]
        i32 = as_dtype("int32")
        nothing = build(lambda *xs: OPS["full"](shape=(), value=0, dtype=i32), types, "fine")
        call = Rule(report)
        tell = build(lambda *xs: OPS["debug_callback"](*xs, fn=call), types, "report")
        OPS["cond"](OPS["convert"](found, dtype=i32), *shown, branches=(nothing, tell))

    def has_bad(self, x: Value) -> Value:
        """Whether an array has a bad number."""
        if is_complex(x.dtype):
            return OPS["bit_or"](self.has_bad(OPS["real"](x)), self.has_bad(OPS["imag"](x)))
        if x.dtype.itemsize == 1:  # the small floats have hardly any ops
            x = OPS["convert"](x, dtype=as_dtype("float32"))
        is_nan = OPS["ne"](x, x)
        if self.infs:
            odd = OPS["bit_not"](OPS["is_finite"](x))
            is_nan = odd if self.nans else OPS["bit_and"](odd, OPS["bit_not"](is_nan))
        return OPS["reduce_or"](is_nan, axes=tuple(range(x.rank))) if x.rank else is_nan
