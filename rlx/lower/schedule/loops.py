"""Loops of kernels: substitution, split and merged variables, what vectors read."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from ...ir.dims import Size, likely, quotient
from ...ir.record import replace
from ...ir.types import Type
from ..lir.access import writes
from ..lir.expr import IN_TURN, Expr, Load, Reduce, load, reduce, substitute, walk
from ..lir.index import Index, Quotient, Remainder, Variable, as_index
from ..lir.program import Buffer, Kernel, RowGroup, Scan, Step, Store
from .elements import flatten

Table = dict[Variable, Index]


def reductions(kernels: Iterable[Kernel]) -> Iterator[Reduce]:
    """Every reduction in the kernels' expressions, inner ones first."""
    return (e for e in expressions(kernels) if isinstance(e, Reduce))


def expressions(kernels: Iterable[Kernel]) -> Collection[Expr]:
    """Every scalar expression of the kernels, those inside of indices included."""
    return dict.fromkeys(chain.from_iterable([kernel.exprs for kernel in kernels])).keys()


def indices(kernels: Sequence[Kernel]) -> Iterator[Index]:
    """Every index of the kernels, those inside of quotients and remainders too."""
    for kernel in kernels:
        for store in kernel.stores:
            yield from store.index.nested()
    for expr in expressions(kernels):
        for index in expr.indices:
            yield from index.nested()


def substituted(
    kernel: Kernel,
    loops: Sequence[Variable],
    table: Table,
    leaf: Callable[[Expr], Expr | None] = lambda expr: None,
) -> Kernel:
    """The kernel over other loops, with indices substituted for its variables."""
    memo: dict[Expr, Expr] = {}

    def expr(e: Expr) -> Expr:
        return substitute(e, table, leaf, memo)

    stores = tuple(
        Store(s.buffer, s.index.substitute(table, expr), expr(s.expr)) for s in kernel.stores
    )
    return replace(kernel, loops=tuple(loops), stores=stores)


def renamed(kernel: Kernel, new: Sequence[Variable], old: Sequence[Variable]) -> Kernel:
    """The kernel with variables `new` for its loop variables `old`."""
    table = dict(zip(old, map(as_index, new), strict=True))
    names = dict(zip(old, new, strict=True))
    return substituted(kernel, [names.get(v, v) for v in kernel.loops], table)


# -- split: no quotients of loop variables ------------------------------------------------------


def split_loops(kernel: Kernel) -> Kernel:
    """Loop splitting: no index divides a loop variable afterwards.

    before: `kernel i < 6: b[i] = a[(i // 3)*4 + (i % 3)]`; after: `kernel i < 2, j < 3:
    b[i*3 + j] = a[i*4 + j]`.
    """
    for _ in range(8):  # each round splits one loop; few need more than one
        found = _divided(kernel)
        if found is None:
            break
        variable, divisor = found
        high, low = Variable(quotient(variable.extent, divisor)), Variable(divisor)
        table = {variable: high * divisor + low}
        loops: list[Variable] = []
        for v in kernel.loops:
            loops += [high, low] if v is variable else [v]
        kernel = substituted(kernel, loops, table)
    return kernel


def _divided(kernel: Kernel) -> tuple[Variable, Size] | None:
    for index in indices([kernel]):
        for atom, _ in index.terms:
            if not isinstance(atom, Quotient | Remainder) or atom.index.constant:
                continue
            if len(atom.index.terms) != 1 or atom.index.terms[0][1] != 1:
                continue
            variable = atom.index.terms[0][0]
            if not isinstance(variable, Variable) or variable not in kernel.loops:
                continue
            if quotient(variable.extent, atom.divisor) is not None:
                return variable, atom.divisor
    return None


# -- merge: fewer, longer loops -----------------------------------------------------------------


def merge_loops(loops: Sequence[Variable], places: Sequence[Index]) -> tuple[list[Variable], Table]:
    """Merge neighboring loops that step through all indices as one would.

    Gives the new loops and the substitution for the old variables.
    """
    merged: list[Variable] = []
    table: Table = {}
    for variable in loops:
        outer = merged[-1] if merged else None
        if outer is not None and _is_joint(outer, variable, table, places):
            whole = Variable(outer.extent * variable.extent)
            replaced = {outer: Index(), variable: as_index(whole)}
            table = {v: i.substitute(replaced) for v, i in table.items()} | replaced
            merged[-1] = whole
        else:
            merged.append(variable)
    return merged, table


def _is_joint(outer: Variable, inner: Variable, table: Table, places: Sequence[Index]) -> bool:
    """Whether `outer` moves by as much as all of `inner` does, in every index."""
    # a merged variable has the stride of its innermost part
    parts = [v for v, i in table.items() if i.stride_of(outer)]
    last = parts[-1] if parts else outer
    return all(p.stride_of(last) == p.stride_of(inner) * inner.extent for p in places)


def merge_kernel_loops(kernel: Kernel) -> Kernel:
    """Loop coalescing: merge the loops of a kernel and of its reductions.

    before: `kernel i < 4, j < 5: b[i*5 + j] = a[i*5 + j]`; after: `kernel i < 20: b[i] = a[i]`.
    """
    kernel = _ordered_reductions(kernel)
    places = list(indices([kernel]))
    loops, table = merge_loops(kernel.loops, places)
    for old in {r.loops for r in reductions([kernel])}:
        table |= merge_loops(old, places)[1]
    return substituted(kernel, loops, table) if table else kernel


def _ordered_reductions(kernel: Kernel) -> Kernel:
    """Interchange loops of reductions in any order so that the smallest stride comes last."""
    found = [r for r in reductions([kernel]) if len(r.loops) > 1 and r.combine != IN_TURN]
    if not found:
        return kernel
    orders: dict[tuple[Variable, ...], tuple[Variable, ...]] = {}
    for r in found:
        # as they are written, not as they come in a set: a process must order as the last one did
        loads = [e.index for e in walk(r.body) if isinstance(e, Load) and e.index.is_affine]
        longest = max(loads, key=lambda i: sum(v in i.variables for v in r.loops), default=Index())
        order = sorted(r.loops, key=lambda v: -abs(likely(longest.stride_of(v))))
        orders.setdefault(r.loops, tuple(order))
    return substituted(kernel, kernel.loops, {}, _reorder(orders))


def _reorder(orders: dict) -> Callable[[Expr], Expr | None]:
    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Reduce) and orders.get(e.loops, e.loops) != e.loops:
            body = substitute(e.body, {}, leaf)
            return reduce(e.combine, orders[e.loops], e.init, body)
        return None

    return leaf


def merge_step_loops(step: Step) -> Step:
    """A step with adjacent loops merged."""
    if isinstance(step, Kernel):
        return merge_kernel_loops(step)
    if isinstance(step, Scan):
        outer = Kernel(step.loops, (Store(step.buffer, step.index, step.expr),))
        merged = merge_kernel_loops(outer)
        (store,) = merged.stores
        return replace(step, loops=merged.loops, index=store.index, expr=store.expr)
    if isinstance(step, RowGroup):
        loops, table = merge_loops(step.loops, list(indices(step.kernels)))
        kernels = [substituted(k, k.loops, table) if table else k for k in step.kernels]
        return RowGroup(tuple(loops), tuple(merge_kernel_loops(k) for k in kernels))
    return step


# -- pack: small operands in the order of the loop that fills vectors ---------------------------


OFTEN = 16  # reads of each number
FEWEST_ROUNDS = 1 << 12  # less is done before a kernel of its own would pay
LARGEST_COPY = 1 << 18  # bytes, which stay in a cache
LONG = 8  # rounds of a loop that fill a vector


def pack_lanes(steps: Sequence[Step]) -> list[Step]:
    """Packing: copy small operands into the order in which vectors read them.

    before: `kernel i < 6272, j < 16: b2[...] = add over k < 9: b0[...] * b1[j*9 + k]`; after:
    `kernel k < 9, j < 16: b1v0x0[k*16 + j] = b1[j*9 + k]`, and the first kernel reads
    `b1v0x0[k*16 + j]`.
    """
    packed: list[Step] = []
    for place, step in enumerate(steps):
        if isinstance(step, Kernel) and step.loops:
            packed += _packed(step, place)
        else:
            packed.append(step)
    return packed


def _packed(kernel: Kernel, place: int) -> Iterator[Kernel]:
    """The kernels of copies, and the one that reads them."""
    read: dict[Expr, Expr] = {}
    for number, e in enumerate(_gathered(kernel)):
        copy, read[e] = _copied(e, kernel, f"{e.buffer.name}v{place}x{number}")
        yield copy
    yield substituted(kernel, kernel.loops, {}, read.get) if read else kernel


def _gathered(kernel: Kernel) -> list[Load]:
    """The loads whose numbers lie apart for the loop that fills vectors."""
    along = kernel.loops[-1]
    if not isinstance(along.extent, int) or along.extent < LONG:
        return []
    if not all(s.index.stride_of(along) == 1 for s in kernel.stores):
        return []
    loads = sorted({e for s in kernel.stores for e in s.expr.loads}, key=lambda e: e.serial)
    return [e for e in loads if _lies_apart(e, along) and _pays_to_pack(e, kernel)]


def _lies_apart(e: Load, along: Variable) -> bool:
    """Whether numbers along a loop lie apart, and all that loops reach are in the buffer."""
    index, count = e.index, e.buffer.count
    stride = index.stride_of(along)
    if not isinstance(stride, int) or -1 <= stride <= 1 or not index.is_affine:
        return False
    if not isinstance(count, int) or not all(isinstance(v.extent, int) for v in index.variables):
        return False
    low, high = index.bounds
    return 0 <= low and high < count


def _pays_to_pack(e: Load, kernel: Kernel) -> bool:
    """Whether a copy is read often enough, and no sum reads the numbers as they lie."""
    inner = [v for r in reductions([kernel]) if e in r.loads for v in r.loops]
    if any(e.index.stride_of(v) == 1 and likely(v.extent) >= LONG for v in inner):
        return False
    count = math.prod(likely(v.extent) for v in e.index.variables)
    rounds = math.prod(likely(v.extent) for v in {*kernel.loops, *inner})
    if count * e.buffer.number_dtype.itemsize > LARGEST_COPY or e.buffer in writes(kernel):
        return False
    return rounds >= max(FEWEST_ROUNDS, OFTEN * count)


def _copied(e: Load, kernel: Kernel, name: str) -> tuple[Kernel, Expr]:
    """The kernel that makes the copy, and what reads it in the place of a load."""
    along = kernel.loops[-1]
    others = [v for v in e.index.variables if v is not along]
    others.sort(key=lambda v: (-abs(likely(e.index.stride_of(v))), v.serial))
    order = [*others, along]
    shape = [v.extent for v in order]
    buffer = Buffer(name, Type(e.buffer.number_dtype, tuple(shape)), "temporary")
    loops = tuple(map(Variable, shape))
    places = [flatten([as_index(v) for v in each], shape) for each in (loops, order)]
    origin = e.index.substitute(dict(zip(order, map(as_index, loops), strict=True)))
    store = Store(buffer, places[0], load(e.buffer, origin))
    return Kernel(loops, (store,), kernel.source), load(buffer, places[1])
