"""Contractions: strides instead of copies, and an epilogue at the end.

Rows and columns are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.dims import Size, likely
from ...ir.graph import Node, Value
from ..lir import expr as scalar
from ..lir import program as lir
from ..lir.expr import Expr, Load
from ..lir.index import Index, Variable, as_index, is_long
from ..lir.program import Step, Store
from .elements import Place, flatten, loops_of, unflatten

if TYPE_CHECKING:
    from .schedule import Scheduler


def contraction_steps(scheduler: Scheduler, node: Node, root: Value) -> list[Step]:
    """The steps of a contraction that ends in storing `root`.

    `root` is its result, or an epilogue of it.
    """
    return _Contraction(scheduler, node, root).steps()


class _Contraction:
    def __init__(self, scheduler: Scheduler, node: Node, root: Value) -> None:
        self.scheduler, self.node, self.root = scheduler, node, root
        lhs, rhs = node.args
        axes = node.op.rules["body"].axes([lhs.type, rhs.type], **node.attrs)
        (self.lhs_contract, self.rhs_contract), (self.lhs_batch, self.rhs_batch) = axes
        used = (*self.lhs_contract, *self.lhs_batch)
        self.lhs_free = [i for i in range(lhs.rank) if i not in used]
        used = (*self.rhs_contract, *self.rhs_batch)
        self.rhs_free = [i for i in range(rhs.rank) if i not in used]
        self.dtype = scheduler.target.arithmetic(node.result.dtype)
        sizes = lhs.shape, rhs.shape
        self.batch = [Variable(sizes[0][i]) for i in self.lhs_batch]
        self.rows = [Variable(sizes[0][i]) for i in self.lhs_free]
        self.columns = [Variable(sizes[1][i]) for i in self.rhs_free]
        self.depth = [Variable(sizes[0][i]) for i in self.lhs_contract]
        self.packed: list[Step] = []

    def steps(self) -> list[Step]:
        lhs, rhs = self.node.args
        if 0 in (*lhs.shape, *rhs.shape):
            return self.empty()
        left = self.load(lhs, self.lhs_place())
        right = self.load(rhs, self.rhs_place())
        if not self.scheduler.target.contracts(self.dtype):
            return [*self.packed, self.kernel(left, right)]
        depth = sorted(_long(self.depth), key=lambda v: -likely(left.index.stride_of(v)))
        if len(_merged(depth, [left.index, right.index])) > 1:
            left, right = self.pack(left, right, depth)
        return [*self.packed, self.contraction(left, right, depth)]

    def lhs_place(self) -> Place:
        return _place(
            self.node.args[0].rank,
            (self.lhs_batch, self.batch),
            (self.lhs_free, self.rows),
            (self.lhs_contract, self.depth),
        )

    def rhs_place(self) -> Place:
        return _place(
            self.node.args[1].rank,
            (self.rhs_batch, self.batch),
            (self.rhs_free, self.columns),
            (self.rhs_contract, self.depth),
        )

    def load(self, value: Value, place: Place) -> Load:
        """The load of an operand, through movement if it stays affine; else from a copy."""
        constant = value.node is not None and value.node.op.is_constant
        if not constant:
            element = self.scheduler.elements.at(value, place)
            if isinstance(element, Load) and element.index.is_affine:
                return element
            return self.copied(value, place)
        return scalar.load(self.scheduler.constant_buffer(value), flatten(place, value.shape))

    def copied(self, value: Value, place: Place) -> Load:
        buffer = self.scheduler.new_buffer(value.type)
        loops, at = loops_of(value.shape)
        element = self.scheduler.elements.at(value, at)
        index = flatten(at, value.shape)
        self.packed.append(lir.Kernel(loops, (Store(buffer, index, element),), self.node.source))
        return scalar.load(buffer, flatten(place, value.shape))

    def pack(self, left: Load, right: Load, depth: list[Variable]) -> tuple[Load, Load]:
        """Copy operands so that the contracted axes follow each other in this order."""
        return (
            self.packed_load(left, [*self.batch, *self.rows, *depth], depth),
            self.packed_load(right, [*self.batch, *depth, *self.columns], depth),
        )

    def packed_load(self, old: Load, order: list[Variable], depth: list[Variable]) -> Load:
        if len(_merged(depth, [old.index])) == 1:
            return old
        order = [v for v in _long(order) if v in old.index.variables or v in depth]
        shape = tuple(v.extent for v in order)
        buffer = self.scheduler.new_buffer(old.buffer.type.with_shape(shape))
        index = flatten([as_index(v) for v in order], shape)
        self.packed.append(lir.Kernel(tuple(order), (Store(buffer, index, old),), self.node.source))
        return scalar.load(buffer, index)

    # -- the steps -------------------------------------------------------------------------------

    def contraction(self, left: Load, right: Load, depth: list[Variable]) -> Step:
        out = flatten(self.result_place(), self.node.result.shape)
        merges: dict[Variable, Index] = {}
        row = _join(_long(self.rows), [left.index, out], merges)
        column = _join(_long(self.columns), [right.index, out], merges)
        inner = _join(depth, [left.index, right.index], merges)
        batch = _join(_long(self.batch), [left.index, right.index, out], merges)
        batch += row[:-1] + column[:-1]
        left = scalar.load(left.buffer, left.index.substitute(merges))
        right = scalar.load(right.buffer, right.index.substitute(merges))
        assert len(inner) <= 1, "the contracted axes have been packed"
        return lir.Contraction(
            batch=tuple(batch),
            row=row[-1] if row else Variable(1),
            column=column[-1] if column else Variable(1),
            depth=inner[0] if inner else Variable(1),
            lhs=left,
            rhs=right,
            dtype=self.dtype,
            stores=(self.store(scalar.accumulated(self.dtype), out.substitute(merges)),),
            source=self.root.node.source if self.root.node else None,
        )

    def store(self, total: Expr, offset: Index) -> Store:
        """Store the root, given the sum and its offset in the contraction's result."""
        elements = self.scheduler.elements
        rounded = scalar.apply("convert", self.node.result.dtype, total)
        place = unflatten(offset, self.root.shape)
        element = elements.with_given({self.node.result: rounded}, self.root, place)
        return Store(self.scheduler.result_buffer(self.root), offset, element)

    def kernel(self, left: Load, right: Load) -> Step:
        """The same as a kernel with a reduction, for dtypes without contractions."""
        factors = [scalar.apply("convert", self.dtype, x) for x in (left, right)]
        product = scalar.apply("mul", self.dtype, *factors)
        if self.dtype.kind == "b":
            product = scalar.apply("and", self.dtype, *factors)
        combine = "or" if self.dtype.kind == "b" else "add"
        zero = scalar.const(self.dtype, 0)
        total = scalar.reduce(combine, tuple(_long(self.depth)), zero, product)
        out = flatten(self.result_place(), self.node.result.shape)
        loops = tuple(_long([*self.batch, *self.rows, *self.columns]))
        return lir.Kernel(loops, (self.store(total, out),), self.node.source)

    def empty(self) -> list[Step]:
        """A sum over nothing is zero."""
        loops, place = loops_of(self.node.result.shape)
        total = scalar.const(self.dtype, 0)
        store = self.store(total, flatten(place, self.node.result.shape))
        return [lir.Kernel(loops, (store,), self.node.source)]

    def result_place(self) -> Place:
        return tuple(as_index(v) for v in (*self.batch, *self.rows, *self.columns))


def _place(rank: int, *groups: tuple[Sequence[int], Sequence[Variable]]) -> Place:
    place = [Index()] * rank
    for axes, variables in groups:
        for axis, variable in zip(axes, variables, strict=True):
            place[axis] = as_index(variable)
    return tuple(place)


def _long(variables: Sequence[Variable]) -> list[Variable]:
    return [v for v in variables if is_long(v)]


def _merged(variables: Sequence[Variable], indices: Sequence[Index]) -> list[list[Variable]]:
    """Runs of neighbors that step through all indices as one variable would."""
    runs: list[list[Variable]] = []
    for variable in variables:
        if runs and all(
            index.stride_of(runs[-1][-1]) == index.stride_of(variable) * variable.extent
            for index in indices
        ):
            runs[-1].append(variable)
        else:
            runs.append([variable])
    return runs


def _join(
    variables: Sequence[Variable], indices: Sequence[Index], merges: dict[Variable, Index]
) -> list[Variable]:
    """One variable for each run of neighbors; `merges` gets the replacements.

    Last comes the one that steps through the last index (the result's) one by one, or the longest.
    """
    joined, dense = [], None
    for run in _merged(variables, indices):
        is_dense = indices[-1].stride_of(run[-1]) == 1
        if len(run) == 1:
            joined.append(run[0])
            dense = run[0] if is_dense else dense
            continue
        extent: Size = 1
        for variable in run:
            extent *= variable.extent
        whole = Variable(extent)
        parts = unflatten(as_index(whole), [v.extent for v in run])
        merges.update(zip(run, parts, strict=True))
        joined.append(whole)
        dense = whole if is_dense else dense
    return sorted(joined, key=lambda v: (v is dense, likely(v.extent)))
