"""Contractions: operands by strides and windows, merged axes, epilogues."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.body import Move, View
from ...ir.dims import Size, likely
from ...ir.graph import Node, Value
from ...ir.types import NAMES, Type
from ..lir import expr as scalar, program as lir
from ..lir.expr import Expr, Load
from ..lir.index import Index, Variable, as_index, is_long
from ..lir.program import Step, Store
from .elements import Place, flatten, loops_of, unflatten
from .fuse import carried_place, merged
from .scheduler import Scheduler


def contraction_steps(scheduler: Scheduler, node: Node, root: Value) -> list[Step]:
    """Make the steps of a contraction that stores `root`, its result or epilogue."""
    return _Contraction(scheduler, node, root).steps()


OVERLAPPING = 2  # windows that see each element so often at least are read in a padded copy
LEAST_SIDE = 32  # of a product whose operands are copied to matrices
NARROW = 8  # but not those of padded images narrower than this: a tile would go over their lines


class _Contraction:
    def __init__(self, scheduler: Scheduler, node: Node, root: Value) -> None:
        self.scheduler, self.node, self.root = scheduler, node, root
        lhs, rhs = node.args
        axes = node.op.rules.body.axes([lhs.type, rhs.type], **node.attrs)
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
        is_static = all(isinstance(n, int) for n in (*lhs.shape, *rhs.shape))
        # whether the matrix kernel may read views that are no strided matrices
        self.computes = (
            is_static
            and scheduler.target.computes_operands
            and scheduler.target.contracts(self.dtype)
        )

    def steps(self) -> list[Step]:
        lhs, rhs = self.node.args
        if 0 in (*lhs.shape, *rhs.shape):
            return self.empty()
        left = self.load(lhs, self.lhs_place(), is_left=True)
        right = self.load(rhs, self.rhs_place())
        if not self.scheduler.target.contracts(self.dtype):
            return [*self.packed, self.kernel(left, right)]
        order = self.order(left, right)
        depth = sorted(_long(self.depth), key=lambda v: -likely(order.stride_of(v)))
        if not self.computes:
            left, right = (self.packed_load(e, depth) for e in (left, right))
        elif self.wants_matrices():
            left = self.as_matrix(left, lhs, self.rows, depth)
            right = self.as_matrix(right, rhs, self.columns, depth)
        step = self.contraction(left, right, depth)
        return [*self.packed, step]

    def order(self, left: Expr, right: Expr) -> Index:
        """The index of the operand that the contracted axes go by."""
        lhs, rhs = self.node.args
        goes_by_left = not self.computes or lhs.type.size >= rhs.type.size
        if self.scheduler.target.batch_invariant:  # sizes say nothing; what is computed is slower
            goes_by_left = not isinstance(left, Load)
        both = (left, right) if goes_by_left else (right, left)
        return next((scalar.load_of(e).index for e in both if scalar.is_view(e)), Index())

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

    def load(self, value: Value, place: Place, *, is_left: bool = False) -> Expr:
        """Load an operand through affine movement, or else from a copy, or compute it."""
        if value in self.scheduler.fusion.prologues:
            return self.scheduler.elements.at(value, place)
        constant = value.node is not None and value.node.op.is_constant
        if not constant:
            element = self.in_padded_copy(value, place) if is_left else None
            element = element or self.scheduler.elements.at(value, place)
            if scalar.is_view(element) and (self.computes or isinstance(element, Load)):
                return element
            return self.copied(value, place)
        return scalar.load(self.scheduler.constant_buffer(value), flatten(place, value.shape))

    def in_padded_copy(self, value: Value, place: Place) -> Expr | None:
        """Load overlapping windows from a padded copy, which needs no conditions.

        The matrix kernel can read windows of the copy in place.
        """
        padded = padded_origin(value, self.scheduler) if self.computes else None
        is_plain = value.dtype == self.dtype or self.wants_matrices()
        if padded is None or not is_plain or not isinstance(value.type.size, int):
            return None
        if value.type.size < OVERLAPPING * padded.type.size or narrowest(padded) < NARROW:
            return None
        buffer, steps = self.scheduler.padded_copy(padded, self.node)
        self.packed += steps
        return self.scheduler.elements.with_buffer(padded, buffer).at(value, place)

    def wants_matrices(self) -> bool:
        """Whether to copy operands to matrices: for large products of some dtypes."""
        copied = self.scheduler.target.copied
        sizes = (
            math.prod(likely(v.extent) for v in side)
            for side in (self.rows, self.columns, self.depth)
        )
        return NAMES[self.node.args[0].dtype] in copied and min(sizes) >= LEAST_SIDE

    def as_matrix(
        self, e: Expr, value: Value, free: Sequence[Variable], depth: list[Variable]
    ) -> Expr:
        """An operand that is a matrix, in a copy unless it is one already."""
        is_load = isinstance(e, Load)
        if is_load and _is_joint(e, depth) and len(merged(_long(free), [e.index])) <= 1:
            return e
        if not is_load:
            place = self.lhs_place() if value is self.node.args[0] else self.rhs_place()
            e = self.copied(value, place)
        order = [v for v in _long([*self.batch, *free, *depth])]
        shape = tuple(v.extent for v in order)
        buffer = self.scheduler.new_buffer(Type(e.buffer.number_dtype, shape))
        index = flatten([as_index(v) for v in order], shape)
        self.packed.append(lir.Kernel(tuple(order), (Store(buffer, index, e),), self.node.source))
        return scalar.load(buffer, index)

    def copied(self, value: Value, place: Place) -> Load:
        buffer = self.scheduler.new_buffer(value.type)
        self.packed.append(self.scheduler.stored(value, self.node, buffer))
        return scalar.load(buffer, flatten(place, value.shape))

    def packed_load(self, old: Expr, depth: list[Variable]) -> Load:
        """Load an operand with contracted axes in this order, from a copy if need be."""
        assert isinstance(old, Load)
        if _is_joint(old, depth):
            return old
        order = _long([*self.batch, *self.rows, *depth, *self.columns])
        order = [v for v in order if v in old.index.variables or v in depth]
        shape = tuple(v.extent for v in order)
        buffer = self.scheduler.new_buffer(Type(old.buffer.number_dtype, shape))
        index = flatten([as_index(v) for v in order], shape)
        self.packed.append(lir.Kernel(tuple(order), (Store(buffer, index, old),), self.node.source))
        return scalar.load(buffer, index)

    # -- the steps -------------------------------------------------------------------------------

    def contraction(self, left: Expr, right: Expr, depth: list[Variable]) -> Step:
        out = flatten(self.root_place(), self.root.shape)
        merges: dict[Variable, Index] = {}
        both = (left, right)
        # the others are read element by element, whatever the order
        ours, theirs = (
            [e.index] if isinstance(e, Load) and _is_joint(e, depth) else [] for e in both
        )
        row = _join(_long(self.rows), [*ours, out], merges)
        column = _join(_long(self.columns), [*theirs, out], merges)
        inner = _join(depth, [*ours, *theirs], merges)
        batch = _join(_long(self.batch), [*ours, *theirs, out], merges)
        batch += row[:-1] + column[:-1]
        assert len(inner) <= 1, "the contracted axes have been packed"
        lhs, rhs = (scalar.substitute(e, merges) for e in (left, right))
        again = [_is_reused(e, batch) for e in (lhs, rhs)]
        if self.computes and any(again):
            left = self.packed_load(left, depth) if again[0] else left
            right = self.packed_load(right, depth) if again[1] else right
            return self.contraction(left, right, depth)
        return lir.Contraction(
            batch=tuple(batch),
            row=row[-1] if row else Variable(1),
            column=column[-1] if column else Variable(1),
            depth=inner[0] if inner else Variable(1),
            lhs=lhs,
            rhs=rhs,
            dtype=self.dtype,
            stores=(self.store(scalar.accumulated(self.dtype), out.substitute(merges)),),
            source=self.root.node.source if self.root.node else None,
        )

    def store(self, total: Expr, offset: Index) -> Store:
        """Store the root, given the sum and the place of its element in the root."""
        elements = self.scheduler.elements
        rounded = scalar.apply("convert", self.node.result.dtype, total)
        place = unflatten(offset, self.root.shape)
        element = elements.with_given({self.node.result: rounded}, self.root, place)
        return Store(self.scheduler.result_buffer(self.root), offset, element)

    def kernel(self, left: Expr, right: Expr) -> Step:
        """A kernel with a reduction instead, for dtypes without contractions."""
        factors = [scalar.apply("convert", self.dtype, x) for x in (left, right)]
        product = scalar.apply("mul", self.dtype, *factors)
        if self.dtype.kind == "b":
            product = scalar.apply("and", self.dtype, *factors)
        combine = "or" if self.dtype.kind == "b" else "add"
        zero = scalar.const(self.dtype, 0)
        total = scalar.reduce(combine, tuple(_long(self.depth)), zero, product)
        out = flatten(self.root_place(), self.root.shape)
        loops = tuple(_long([*self.batch, *self.rows, *self.columns]))
        return lir.Kernel(loops, (self.store(total, out),), self.node.source)

    def empty(self) -> list[Step]:
        """Store zero, the sum over an empty axis."""
        loops, place = loops_of(self.root.shape)
        total = scalar.const(self.dtype, 0)
        store = self.store(total, flatten(place, self.root.shape))
        return [lir.Kernel(loops, (store,), self.node.source)]

    def root_place(self) -> Place:
        """Where in the root the sum of these variables goes."""
        place = tuple(as_index(v) for v in (*self.batch, *self.rows, *self.columns))
        carried = carried_place(self.scheduler.fusion.paths.get(self.root, ()), place)
        assert carried is not None, "an epilogue was found through other movement"
        return carried


def padded_origin(value: Value, scheduler: Scheduler) -> Value | None:
    """The padded array behind a value and its unconditional movement."""
    while value.node is not None and value not in scheduler.buffers:
        node, body = value.node, value.node.op.rules.body
        if not isinstance(body, View | Move):
            return None
        if isinstance(body, Move):
            _, place = loops_of(value.shape)
            read = body.read(place, [a.type for a in node.args], **node.attrs)
            if read.guards or read.strides:
                return None if read.strides else value
        value = node.args[0]
    return None


def narrowest(padded: Value) -> int:
    """The shortest axis of a padded array that is longer than before."""
    assert padded.node is not None, "padding has made it"
    before = padded.node.args[0].shape
    changed = [n for n, m in zip(padded.shape, before, strict=True) if n != m]
    return min(map(likely, changed), default=0)


def _place(rank: int, *groups: tuple[Sequence[int], Sequence[Variable]]) -> Place:
    place = [Index()] * rank
    for axes, variables in groups:
        for axis, variable in zip(axes, variables, strict=True):
            place[axis] = as_index(variable)
    return tuple(place)


def _is_reused(e: Expr, batch: Sequence[Variable]) -> bool:
    """Whether several products read an operand that is no strided matrix: a copy pays."""
    if not isinstance(e, Load) or e.index.is_affine:
        return False
    count = math.prod(likely(v.extent) for v in e.variables)
    return count <= likely(e.buffer.count) and any(v not in e.variables for v in batch)


def _is_joint(e: Load, depth: Sequence[Variable]) -> bool:
    """Whether a load steps through the contracted axes as if they were one."""
    return len(merged(depth, [e.index])) <= 1


def _long(variables: Sequence[Variable]) -> list[Variable]:
    return [v for v in variables if is_long(v)]


def _join(
    variables: Sequence[Variable], indices: Sequence[Index], merges: dict[Variable, Index]
) -> list[Variable]:
    """Merge each run of neighbors into one variable; `merges` gets the replacements.

    The variable that steps through the last index (the result's) by one comes last, or the longest.
    """
    joined, dense = [], None
    for run in merged(variables, indices):
        is_dense = bool(indices) and indices[-1].stride_of(run[-1]) == 1
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
