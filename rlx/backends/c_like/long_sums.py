"""The order in which a group, or a thread alone, combines a long reduction.

Each thread of a group combines every so many terms, then a tree is made of what they have, its
first levels within subgroups. A `Limits.batch_invariant` device keeps to that order where a thread
does it all, so that a sum has the same bits whoever computes it; short ones go from term to term.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...ir.types import is_float, neutral
from ...lower.lir.expr import Reduce
from .dialect import Dialect, Limits, register

if TYPE_CHECKING:
    from .scalars import Scalars

LONG = 64  # a reduction shorter than this is not worth a group
FEWEST_THREADS, MOST_THREADS = 32, 256


def terms_of(reduction: Reduce) -> int:
    """How many terms a reduction has."""
    return math.prod(v.extent for v in reduction.loops)  # type: ignore[misc]


def threads_for(count: int, limits: Limits) -> int:
    """How many threads of a group share so many terms: a power of two.

    More of them would change no bits: what they add is neutral.
    """
    most = 1 << (min(MOST_THREADS, limits.threads).bit_length() - 1)
    return min(most, max(FEWEST_THREADS, limits.subgroup, 1 << (count - 1).bit_length()))


def passes_numbers(dialect: Dialect, kind: np.dtype, threads: int) -> bool:
    """Whether subgroups make the first levels of the tree."""
    width = dialect.limits.subgroup
    return 1 < width <= threads and bool(dialect.passed(kind, "x", 1))


def keeps_order(dialect: Dialect, reduction: Reduce) -> bool:
    """Whether a thread alone has to combine the terms in the order of a group."""
    limits = dialect.limits
    is_rounded = is_float(reduction.dtype) and reduction.combine in ("add", "mul")
    is_shared = limits.batch_invariant and not limits.serial
    return is_shared and is_rounded and terms_of(reduction) >= LONG


def reduce_in_order(writer: Scalars, name: str, reduction: Reduce) -> None:
    """Write what a group does with a long reduction, for a thread alone."""
    dialect, whole, dtype = writer.dialect, writer.whole, reduction.dtype
    kind, combine = register(dtype), reduction.combine
    threads = threads_for(terms_of(reduction), dialect.limits)
    parts, lane, other, total = (writer.fresh(x) for x in ("parts", "lane", "lane", "r"))
    start = dialect.literal(kind, neutral(combine, kind))

    def both(x: str, y: str) -> str:
        return writer.pair(combine, dtype, x, y)

    writer.line(dialect.array(kind, parts, threads))
    with writer.count_to(lane, threads):
        writer.line(dialect.variable(kind, total, start))
        with writer.shared(reduction.loops, lane, threads):
            writer.combine(total, combine, dtype, reduction.body)
        writer.line(f"{parts}[{lane}] = {total};")
    is_passed = passes_numbers(dialect, kind, threads)
    width = dialect.limits.subgroup if is_passed else threads
    half = width // 2
    while half:
        first = f"{lane} * {whole(width)} + {other}"
        with writer.count_to(lane, threads // width), writer.count_to(other, half):
            mine, theirs = f"{parts}[{first}]", f"{parts}[{first} + {whole(half)}]"
            writer.line(f"{mine} = {both(mine, theirs)};")
        half //= 2
    writer.line(dialect.variable(kind, name, writer.expr(reduction.init)))
    with writer.count_to(lane, threads // width):
        writer.line(f"{name} = {both(name, f'{parts}[{lane} * {whole(width)}]')};")
