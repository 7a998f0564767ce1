"""Steps with other indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from .expr import Expr, Load, load, substitute
from .index import Index, Variable
from .program import Buffer, Contraction, Kernel, Rows, Store

Link = TypeVar("Link", bound=Kernel | Rows | Contraction)
Move = Callable[[Buffer, Index], tuple[Buffer, Index]]
Table = Mapping[Variable, Index]


def rebind(step: Link, table: Table, move: Move | None = None) -> Link:
    """A step with indices put for variables, then each place in memory moved.

    Its loops stay as they are.
    """
    memo: dict[Expr, Expr] = {}
    places = dict(table)

    def leaf(e: Expr) -> Expr | None:
        if move is None or not isinstance(e, Load):
            return None
        buffer, index = move(e.buffer, e.index.substitute(places, expr))
        return e if (buffer, index) == (e.buffer, e.index) else load(buffer, index)

    def expr(e: Expr) -> Expr:
        return substitute(e, places, leaf, memo)

    def moved(stores: Iterable[Store]) -> tuple[Store, ...]:
        made = []
        for store in stores:
            buffer, index = store.buffer, store.index.substitute(places, expr)
            if move is not None:
                buffer, index = move(buffer, index)
            made.append(Store(buffer, index, expr(store.expr)))
        return tuple(made)

    if isinstance(step, Kernel):
        return replace(step, stores=moved(step.stores))
    if isinstance(step, Rows):
        return replace(
            step, kernels=tuple(replace(k, stores=moved(k.stores)) for k in step.kernels)
        )
    return replace(step, lhs=expr(step.lhs), rhs=expr(step.rhs), stores=moved(step.stores))
