"""Leave out of loops what stays the same, stands twice, or is not needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...ir.graph import Graph, Node, Value
from .drop_dead import drop_dead
from .loop_body import Repeated, has_loops, is_repeat, read_by, rebuilt
from .rebuild import again, rebuild


def trim_loops(graph: Graph) -> Graph:
    """Leave out of loops what stays the same, stands twice, or is not needed.

    before: `_, ts, ys = scan(t, c, xs, body=(t, c, x) -> (c + x, t, sin(c)))`, then `scan(d, ts,
    body=(d, t) -> d * t)`; after: the first loop has no `ts`, the second one takes `t` as it is.
    """
    if not has_loops(graph):
        return graph
    constant_rows: dict[Value, Value] = {}
    shared = drop_dead(_changed(graph, lambda loop: _shared(loop, constant_rows)))
    used = set(shared.results).union(*(node.args for node in shared.nodes))
    return _changed(shared, lambda loop: _trimmed(loop, used))


def _changed(graph: Graph, change: Callable[[Repeated], Sequence[Value]]) -> Graph:
    """Record a graph anew, loops of known length as `change` says."""

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if not is_repeat(node):
            return again(node, operands, trim_loops)
        return change(Repeated.of(node, operands, trim_loops(node.attrs["body"])))

    return rebuild(graph, visit)


def _shared(loop: Repeated, constant_rows: dict[Value, Value]) -> list[Value]:
    """Record a loop whose constant rows are constants; equal stacks become one value.

    `constant_rows` has for values of the current graph what each of their rows is.
    """
    rows = list(zip(loop.row_params, loop.rows, strict=True))
    fixed = [(param, row) for param, row in rows if row in constant_rows]
    moving = [(param, row) for param, row in rows if row not in constant_rows]
    constants = dict(zip(loop.body.params, loop.constants, strict=False))
    constants |= {param: constant_rows[row] for param, row in fixed}
    known = dict(moving)
    body = loop.body
    params = [*constants, *loop.carry_params, *known]
    changed = replace(
        loop,
        body=rebuilt(body, params, body.results),
        constants=[*constants.values()],
        rows=[*known.values()],
    )
    results = changed.record()
    for place in range(len(loop.carry), len(results)):
        inner = body.results[place]
        results[place] = known.setdefault(inner, results[place])
        if inner in constants:
            constant_rows[results[place]] = constants[inner]
    return results


def _trimmed(loop: Repeated, used: set[Value]) -> list[Value]:
    """Record a loop without what nobody reads; gives stand-ins for results left out."""
    body, count, olds = loop.body, len(loop.carry), loop.node.results
    stacked = [i for i in range(count, len(olds)) if olds[i] in used]
    kept = [i for i in range(count) if olds[i] in used]
    while True:  # a carried value is needed if what is needed reads it
        needed = read_by(body, [body.results[i] for i in (*kept, *stacked)])
        more = [i for i, p in enumerate(loop.carry_params) if p in needed and i not in kept]
        if not more:
            break
        kept = sorted([*kept, *more])
    pairs = list(zip(body.params, [*loop.constants, *loop.carry, *loop.rows], strict=True))
    first, last = len(loop.constants), len(loop.constants) + count
    constants = [(p, x) for p, x in pairs[:first] if p in needed]
    carry = [pairs[first + i] for i in kept]
    rows = [(p, x) for p, x in pairs[last:] if p in needed]
    places = [*kept, *stacked]
    changed = replace(
        loop,
        body=rebuilt(
            body, [p for p, _ in (*constants, *carry, *rows)], [body.results[i] for i in places]
        ),
        constants=[x for _, x in constants],
        carry=[x for _, x in carry],
        rows=[x for _, x in rows],
    )
    results = dict(zip(places, changed.record(), strict=True))
    return [results.get(i, old) for i, old in enumerate(olds)]
