"""Scalar expressions of LIR as LLVM code on vectors.

The `lanes` of a vector are neighbors along one loop variable. A `Scope` knows what has been
computed so far. A value is uniform (one scalar for all lanes) or varies by lane (a vector); uniform
ones are copied to all lanes where a vector is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ....ir.dims import Size, is_at_least
from ....ir.record import field, record, replace
from ....ir.types import NAMES
from ....lower.lir.expr import (
    Accumulated as AccumulatedExpr,
    Apply,
    Const,
    Expr,
    Guard,
    IndexValue,
    Load,
    Reduce,
    const,
    guard,
)
from ....lower.lir.index import UNKNOWN, Index, Loaded, Quotient, Remainder, Variable
from ....lower.lir.program import Buffer, Store
from ..llvm.host import Host
from ..llvm.text import Function, Vector, literal
from .scalar import HALVES, convert, emit_instruction, narrow, register, widen
from .sums import reduce_along, reduce_lanes
from .vectors import backwards, pairs_of

Rendered = tuple[str, bool]  # LLVM operand; whether it varies by lane
Ahead = tuple[tuple[Load, Size], ...]  # loads, and how far behind lies what is asked for


NO_NAMES: Mapping[Variable, str] = MappingProxyType({})
# LLVM cannot load some vectors of bfloat16 under a mask.
IN_MEMORY = {"bool": "uint8", "bfloat16": "uint16"}


def memory_element(dtype: str) -> str:
    """The LLVM type of one number in memory: a bool is a byte."""
    return memory_vector(dtype, 1).element


def memory_vector(dtype: str, lanes: int) -> Vector:
    """The type of `lanes` contiguous numbers in memory."""
    return Vector(IN_MEMORY.get(dtype, dtype), lanes)


def all_hold(f: Function, vector: Vector, conditions: Sequence[str]) -> str:
    """Whether all conditions hold."""
    held = conditions[0]
    for other in conditions[1:]:
        held = f.emit(f"and {vector.text} {held}, {other}")
    return held


@record(frozen=False)
class Scope:
    """The values that are known at one place of the code."""

    f: Function
    host: Host
    pointers: dict[Buffer, str]
    lanes: int = 1
    along: Variable | None = None  # the loop variable that differs from lane to lane
    names: dict[Variable, str] = field(default_factory=dict)  # of loop variables; `along`: lane 0's
    mask: str | None = None  # lanes outside of it must not touch memory; None: all are in
    guarded: bool = False  # even the uniform loads may be out of bounds
    accumulated: str = ""  # what `Accumulated` stands for
    ahead: Ahead = ()  # what the innermost loop asks for early
    values: dict[Expr, Rendered] = field(default_factory=dict)

    def inner(self, names: Mapping[Variable, str] = NO_NAMES, **changes: object) -> Scope:
        """A nested scope with more loop variables, whose values are not known outside."""
        names = {**self.names, **names}
        return replace(self, **{"names": names, "values": dict(self.values), **changes})

    # -- values ---------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Rendered:
        """The value of an expression, uniform if it can be."""
        found = self.values.get(expr)
        if found is None:
            found = self.values[expr] = self._render(expr)
        return found

    def vector(self, expr: Expr) -> str:
        """The value of an expression in all lanes."""
        return self.spread(NAMES[expr.dtype], self.value(expr))

    def spread(self, dtype: str, rendered: Rendered) -> str:
        """Copy a uniform value to all lanes."""
        text, varies = rendered
        return text if varies else self.f.splat(text, register(dtype, self.lanes))

    def depends(self, variables: Iterable[Variable]) -> bool:
        """Whether an expression of these variables varies by lane."""
        return self.lanes > 1 and self.along is not None and self.along in set(variables)

    def _render(self, expr: Expr) -> Rendered:
        dtype = NAMES[expr.dtype]
        if isinstance(expr, Const):
            return literal(register(dtype, 1).dtype, expr.number), False
        if isinstance(expr, IndexValue):
            return self._index_value(expr)
        if isinstance(expr, Load):
            return self._load(expr)
        if isinstance(expr, Apply):
            return self._apply(expr)
        if isinstance(expr, Reduce):
            return self._reduce(expr)
        if isinstance(expr, Guard):
            return self._guard(expr)
        assert isinstance(expr, AccumulatedExpr), f"no code for {expr}"
        return self.accumulated, self.lanes > 1

    def _apply(self, expr: Apply) -> Rendered:
        rendered = [self.value(a) for a in expr.args]
        varies = any(v for _, v in rendered)
        lanes = self.lanes if varies else 1
        values = [
            self.spread(NAMES[a.dtype], r) if varies else r[0]
            for a, r in zip(expr.args, rendered, strict=True)
        ]
        operand = NAMES[expr.args[-1].dtype]
        return (
            emit_instruction(self.f, expr.instruction, NAMES[expr.dtype], lanes, operand, values),
            varies,
        )

    # -- indices --------------------------------------------------------------------------------

    def index(self, index: Index) -> str:
        """An index that is the same in all lanes (or that of lane 0), as an i64."""
        total = self.f.number(index.constant)
        for atom, coefficient in index.terms:
            term = self._atom(atom)
            if coefficient != 1:
                term = self.f.emit(f"mul nsw i64 {term}, {self.f.number(coefficient)}")
            total = term if total == "0" else self.f.emit(f"add nsw i64 {total}, {term}")
        return total

    def _atom(self, atom: object) -> str:
        if isinstance(atom, Variable):
            return self.names[atom]
        if isinstance(atom, Quotient):
            return self._floor(self.index(atom.index), atom, Vector("int64"))[0]
        if isinstance(atom, Remainder):
            return self._floor(self.index(atom.index), atom, Vector("int64"))[1]
        assert isinstance(atom, Loaded)
        text, varies = self.value(atom.expr)
        assert not varies, "a uniform index has uniform loads"
        return convert(self.f, NAMES[atom.expr.dtype], "int64", 1, text)

    def _floor(self, x: str, atom: Quotient | Remainder, vector: Vector) -> tuple[str, str]:
        """Floor division and remainder by a positive size; x is shifted to be positive."""
        f, kind = self.f, vector.text
        low, _ = atom.index.bounds
        divisor = self._divisor(atom.divisor, vector)
        if low < 0 and not (isinstance(atom.divisor, int) and low > -UNKNOWN):
            return self._floor_signed(x, divisor, vector)
        shift = -(low // atom.divisor) if low < 0 else 0
        if shift:
            x = f.emit(f"add nsw {kind} {x}, {f.constant(vector, shift * atom.divisor)}")
        quotient = f.emit(f"udiv {kind} {x}, {divisor}")
        rest = f.emit(f"urem {kind} {x}, {divisor}")
        if shift:
            quotient = f.emit(f"sub nsw {kind} {quotient}, {f.constant(vector, shift)}")
        return quotient, rest

    def _floor_signed(self, x: str, divisor: str, vector: Vector) -> tuple[str, str]:
        """Floor division and remainder of an x that may be negative."""
        f, kind = self.f, vector.text
        towards_zero = f.emit(f"sdiv {kind} {x}, {divisor}")
        rest = f.emit(f"srem {kind} {x}, {divisor}")
        is_below = f.emit(f"icmp slt {kind} {rest}, {f.constant(vector, 0)}")
        bits = Vector("bool", vector.lanes).text
        one = f.emit(f"zext {bits} {is_below} to {kind}")
        up = f.select(vector, is_below, divisor, f.constant(vector, 0))
        return f.emit(f"sub {kind} {towards_zero}, {one}"), f.emit(f"add {kind} {rest}, {up}")

    def _divisor(self, size: Size, vector: Vector) -> str:
        """A divisor that is never 0, as a hoisted division may run without its loop."""
        if is_at_least(size, 1):
            return self._size(size, vector)
        number = self.f.intrinsic("umax", Vector("int64"), self.f.number(size), "1")
        return self.f.splat(convert(self.f, "int64", vector.dtype, 1, number), vector)

    def _size(self, size: Size, vector: Vector) -> str:
        """A size in every lane."""
        if isinstance(size, int):
            return self.f.constant(vector, size)
        number = convert(self.f, "int64", vector.dtype, 1, self.f.number(size))
        return self.f.splat(number, vector)

    def index_vector(self, index: Index) -> tuple[str, Vector]:
        """An index in each lane, in 32 bits if its parts fit."""
        is_narrow = all(part.fits_32_bits for part in index.nested())
        vector = Vector("int32" if is_narrow else "int64", self.lanes)
        return self._lane_index(index, vector), vector

    def _lane_index(self, index: Index, vector: Vector) -> str:
        """Vector arithmetic for the lanes; the uniform part is one scalar."""
        f = self.f
        moving = [(a, c) for a, c in index.terms if self.depends(Index(((a, 1),)).variables)]
        rest = Index(tuple(t for t in index.terms if t not in moving), index.constant)
        base = convert(f, "int64", vector.dtype, 1, self.index(rest))
        total = f.splat(base, vector)
        for atom, coefficient in moving:
            term = self._lane_atom(atom, vector)
            if coefficient != 1:
                term = f.emit(f"mul {vector.text} {term}, {self._size(coefficient, vector)}")
            total = f.emit(f"add {vector.text} {total}, {term}")
        return total

    def _lane_atom(self, atom: object, vector: Vector) -> str:
        f = self.f
        if isinstance(atom, Variable):
            base = convert(f, "int64", vector.dtype, 1, self.names[atom])
            steps = ", ".join(f"{vector.element} {i}" for i in range(vector.lanes))
            return f.emit(f"add {vector.text} {f.splat(base, vector)}, <{steps}>")
        if isinstance(atom, Quotient | Remainder):
            inner = self._lane_index(atom.index, vector)
            parts = self._floor(inner, atom, vector)
            return parts[0 if isinstance(atom, Quotient) else 1]
        assert isinstance(atom, Loaded)
        text = self.vector(atom.expr)
        return convert(f, NAMES[atom.expr.dtype], vector.dtype, vector.lanes, text)

    def _index_value(self, expr: IndexValue) -> Rendered:
        dtype = NAMES[expr.dtype]
        if not self.depends(expr.index.variables):
            return convert(self.f, "int64", dtype, 1, self.index(expr.index)), False
        text, vector = self.index_vector(expr.index)
        return convert(self.f, vector.dtype, dtype, self.lanes, text), True

    # -- memory ---------------------------------------------------------------------------------

    def _load(self, expr: Load) -> Rendered:
        dtype, f = NAMES[expr.dtype], self.f
        pointer = self.pointers[expr.buffer]
        if not self.depends(expr.index.variables):
            place = self.index(expr.index)
            if self.guarded:
                place = self._clamped(place, self.f.number(expr.buffer.count - 1))
            address = f.offset(pointer, memory_element(dtype), place)
            kind = memory_element(dtype)
            raw = f.emit(f"load {kind}, ptr {address}, align {expr.dtype.itemsize}")
            return self.from_memory(raw, dtype, 1), False
        vector, size = memory_vector(dtype, self.lanes), expr.dtype.itemsize
        stride = self._stride(expr.index)
        if stride == 1:
            address = f.offset(pointer, vector.element, self.index(expr.index))
            raw = f.load(vector, address, size, self.mask)
        elif (pairs := pairs_of(expr, stride, self.lanes, self.mask)) is not None:
            address = f.offset(pointer, vector.element, self.index(pairs.start))
            raw = pairs.load(f, vector, address, size)
        elif stride == -1 and self.mask is None:
            last = self.index(expr.index - (self.lanes - 1))
            address = f.offset(pointer, vector.element, last)
            raw = backwards(f, vector, f.load(vector, address, size))
        else:
            index, kind = self.index_vector(expr.index)
            places = f.emit(f"getelementptr {vector.element}, ptr {pointer}, {kind.text} {index}")
            raw = f.masked("gather", vector, places, size, self._lanes, "zeroinitializer")
        return self.from_memory(raw, dtype, self.lanes), True

    def _stride(self, index: Index) -> Size | None:
        """The step of an index from lane to lane, if it has one."""
        if self.along is None or not index.is_stepped_by(self.along):
            return None
        return index.stride_of(self.along)

    @property
    def _lanes(self) -> str:
        """The mask of the lanes that may touch memory."""
        return self.mask or self.f.constant(Vector("bool", self.lanes), True)

    def _clamped(self, place: str, last: str) -> str:
        place = self.f.intrinsic("smin", Vector("int64"), place, last)
        return self.f.intrinsic("smax", Vector("int64"), place, "0")

    def from_memory(self, raw: str, dtype: str, lanes: int) -> str:
        """Convert numbers from their form in memory to that in registers."""
        if dtype == "bool":
            kind = Vector("uint8", lanes)
            return self.f.emit(f"icmp ne {kind.text} {raw}, {self.f.constant(kind, 0)}")
        if dtype == "bfloat16":
            raw = self._reread(raw, "uint16", "bfloat16", lanes)
        return widen(self.f, dtype, lanes, raw) if dtype in HALVES else raw

    def to_memory(self, value: str, dtype: str, lanes: int) -> str:
        """Convert a value from its form in registers to that in memory."""
        if dtype == "bool":
            kind = Vector("bool", lanes).text
            return self.f.emit(f"zext {kind} {value} to {Vector('uint8', lanes).text}")
        if dtype == "bfloat16":
            return self._reread(narrow(self.f, dtype, lanes, value), dtype, "uint16", lanes)
        return narrow(self.f, dtype, lanes, value) if dtype in HALVES else value

    def _reread(self, x: str, origin: str, target: str, lanes: int) -> str:
        kinds = Vector(origin, lanes).text, Vector(target, lanes).text
        return self.f.emit(f"bitcast {kinds[0]} {x} to {kinds[1]}")

    def store(self, item: Store, rendered: Rendered) -> None:
        """Store a rendered value."""
        number = item.buffer.number_dtype
        dtype, f, size = number.name, self.f, number.itemsize
        pointer, element = self.pointers[item.buffer], memory_element(dtype)
        if not self.depends(item.index.variables):
            assert not rendered[1], "a store that varies by lane has an index that does"
            value = self.to_memory(rendered[0], dtype, 1)
            address = f.offset(pointer, element, self.index(item.index))
            f.do(f"store {element} {value}, ptr {address}, align {size}")
            return
        vector = memory_vector(dtype, self.lanes)
        value = self.to_memory(self.spread(dtype, rendered), dtype, self.lanes)
        if self._stride(item.index) == 1:
            address = f.offset(pointer, element, self.index(item.index))
            f.store(vector, value, address, size, self.mask)
        else:
            index, index_kind = self.index_vector(item.index)
            places = f.emit(f"getelementptr {element}, ptr {pointer}, {index_kind.text} {index}")
            f.masked("scatter", vector, places, size, self._lanes, value)

    # -- guards ---------------------------------------------------------------------------------

    def conditions(self, expr: Guard) -> list[Rendered]:
        """The conditions of a guard, each one i1, uniform where it can be."""
        tests: list[tuple[Index, str, Size]] = []
        for index, low, high in expr.bounds:
            tests += [] if is_at_least(index.low, low) else [(index, "sge", low)]
            tests += [] if is_at_least(high - 1, index.high) else [(index, "slt", high)]
        tests += [(index % step, "eq", 0) for index, step in expr.steps]
        return [self._condition(*test) for test in tests]

    def _condition(self, index: Index, word: str, bound: Size) -> Rendered:
        if not self.depends(index.variables):
            number = self.f.number(bound)
            return self.f.emit(f"icmp {word} i64 {self.index(index)}, {number}"), False
        text, vector = self.index_vector(index)
        if vector.dtype == "int32" and not isinstance(bound, int):
            text = convert(self.f, "int32", "int64", vector.lanes, text)
            vector = vector.with_dtype("int64")
        elif vector.dtype == "int32":
            bound = min(max(bound, -(2**31)), 2**31 - 1)
        limit = self._size(bound, vector)
        return self.f.emit(f"icmp {word} {vector.text} {text}, {limit}"), True

    def _guard(self, expr: Guard) -> Rendered:
        f, is_load = self.f, self._is_masked_load(expr)
        if not is_load and (split := self._split(expr)) is not None:
            return self.value(split)
        conditions = self.conditions(expr)
        if not any(v for _, v in conditions):
            return self._branch(expr, [c for c, _ in conditions])
        mask = Vector("bool", self.lanes)
        here = all_hold(f, mask, [c for c, v in conditions if v])
        if uniform := [c for c, v in conditions if not v]:
            held = all_hold(f, Vector("bool"), uniform)
            here = f.emit(f"select i1 {held}, {mask.text} {here}, {mask.text} zeroinitializer")
        both = here if self.mask is None else f.emit(f"and {mask.text} {here}, {self.mask}")
        inside = self.inner(mask=both, guarded=True).vector(expr.inside)
        if is_load:
            return inside, True
        outside = self.vector(expr.outside)
        vector = register(NAMES[expr.dtype], self.lanes)
        return f.select(vector, here, inside, outside), True

    def _is_masked_load(self, expr: Guard) -> bool:
        """Whether a guard is one masked load, not made before: contiguous, 0 outside."""
        inside = expr.inside
        if not isinstance(inside, Load) or inside in self.values:
            return False
        if expr.outside is not const(expr.dtype, 0):
            return False
        return self.lanes > 1 and self._stride(inside.index) == 1

    def _split(self, expr: Guard) -> Expr | None:
        """Split a guard into a uniform one around one by lane, whose mask may be constant."""
        bounds = [b for b in expr.bounds if not self.depends(b[0].variables)]
        steps = [s for s in expr.steps if not self.depends(s[0].variables)]
        left = (
            [b for b in expr.bounds if b not in bounds],
            [s for s in expr.steps if s not in steps],
        )
        if not (bounds or steps) or not any(left):
            return None
        return guard(bounds, steps, guard(*left, expr.inside, expr.outside), expr.outside)

    def _branch(self, expr: Guard, conditions: list[str]) -> Rendered:
        """A guard on which all lanes agree, as a branch."""
        f = self.f
        held = all_hold(f, Vector("bool"), conditions)
        varies = self.depends(expr.variables)
        vector = register(NAMES[expr.dtype], self.lanes if varies else 1)
        labels = [f.label("inside"), f.label("outside"), f.label("both")]
        f.do(f"br i1 {held}, label %{labels[0]}, label %{labels[1]}")
        arms = []
        for label, arm in zip(labels, (expr.inside, expr.outside), strict=False):
            f.start_block(label)
            scope = self.inner()
            text = scope.vector(arm) if varies else scope.value(arm)[0]
            arms.append((text, f.block))
            f.do(f"br label %{labels[2]}")
        f.start_block(labels[2])
        places = ", ".join(f"[ {text}, %{block} ]" for text, block in arms)
        return f.emit(f"phi {vector.text} {places}"), varies

    # -- reductions -----------------------------------------------------------------------------

    def _reduce(self, expr: Reduce) -> Rendered:
        self.hoist([expr.body], set(expr.loops))
        if self.depends(expr.variables):
            return reduce_lanes(self, expr), True
        return reduce_along(self, expr), False

    def hoist(self, exprs: Iterable[Expr], variables: set[Variable]) -> None:
        """Loop-invariant code motion: compute here what the next loops do not change."""
        seen: set[Expr] = set()

        def visit(expr: Expr) -> None:
            if expr in seen or isinstance(expr, Const | AccumulatedExpr):
                return
            seen.add(expr)
            known = expr.variables <= self.names.keys()
            if known and not expr.variables & variables:
                self.value(expr)
            elif not isinstance(expr, Guard):
                for part in (*expr.operands, *(e for i in expr.indices for e in i.loads)):
                    visit(part)

        for expr in exprs:
            visit(expr)
