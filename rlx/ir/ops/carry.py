"""Carried values of loops: their types, and their places in graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..builder import build, inline
from ..errors import ShapeError
from ..graph import Graph, Value
from ..types import Type


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


def cut_groups(items: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Cut a list into groups of the given sizes and the rest."""
    groups, start = [], 0
    for count in counts:
        groups.append(list(items[start : start + count]))
        start += count
    return [*groups, list(items[start:])]
