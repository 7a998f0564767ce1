"""Top k: the greatest numbers of each row in order, with their places.

A sorted list of the greatest so far stays in registers. Many numbers at a time are compared with
the last of the list: hardly ever is one greater, so a row is read about as fast as memory gives it.
Numbers are ordered by integer keys, in which NaN is the greatest and -0.0 is 0.0.
"""

from __future__ import annotations

import numpy as np

from ....ir.dims import static
from ....ir.record import record
from ....ir.types import as_dtype
from ....lower.lir.expr import Expr
from ....lower.lir.program import Store, TopK
from ..llvm.host import Host
from ..llvm.text import Function, Vector
from ..loops.kernels import Layout, buffers_of, nest, open_scope
from ..loops.scalar import convert, register
from ..loops.scope import Scope
from ..loops.vectors import choose_lanes, first_lanes

MOST_RANKED = 64  # the list is moved as a whole: a longer one is better left to sorting
MOST_LANES = 64  # compared at once: the bits of a word


def emit_top_k(f: Function, step: TopK, layout: Layout, host: Host, split: bool) -> None:
    """Emit the top k of each row."""
    buffers = [*buffers_of([step.expr]), step.values, step.places]
    nest(open_scope(f, layout, host, buffers), step.loops, lambda scope: _row(scope, step), split)


def _row(scope: Scope, step: TopK) -> None:
    f, count, extent = scope.f, static(step.rank.extent), static(step.along.extent)
    best = _List.reserve(f, step.expr.dtype.name, count)
    with f.loop("0", str(count)) as loop:
        one = scope.inner({step.along: loop.index})
        best.insert(f, _numbers(one, step.expr), loop.index, loop.index)
    lanes = min(choose_lanes(scope.host, [step.expr], max(1, extent - count)), MOST_LANES)
    whole = count + (extent - count) // lanes * lanes
    with f.loop(str(count), str(whole), str(lanes)) as loop:
        _look(scope, step, best, lanes, loop.index, None)
    if whole < extent:
        mask = first_lanes(f, lanes, str(extent - whole))
        _look(scope, step, best, lanes, str(whole), mask)
    wide = scope.inner({step.rank: "0"}, lanes=best.vector.lanes, along=step.rank)
    if count < wide.lanes:
        wide.mask = first_lanes(f, wide.lanes, str(count))
    values = best.load(f, best.vector, best.numbers)
    if step.expr.dtype.name == "bool":
        values = convert(f, best.vector.dtype, "bool", wide.lanes, values)
    places = best.load(f, best.vector.with_dtype("int32"), best.places)
    for buffer, text in ((step.values, values), (step.places, places)):
        wide.store(Store(buffer, step.index, step.expr), (text, wide.lanes > 1))


def _look(scope: Scope, step: TopK, best: _List, lanes: int, place: str, mask: str | None) -> None:
    """Put those of some neighbors that are greater than the last of the list into it."""
    f = scope.f
    wide = scope.inner({step.along: place}, lanes=lanes, along=step.along, mask=mask)
    numbers, vector = _numbers(wide, step.expr), Vector(best.vector.dtype, lanes)
    last = f.emit(
        f"load {vector.element}, ptr {f.offset(best.numbers, vector.element, str(best.count - 1))}"
    )
    if vector.is_float:
        word = "fcmp ugt"  # holds for NaN too
    else:
        word = "icmp sgt" if vector.is_signed else "icmp ugt"
    held = f.emit(f"{word} {vector.text} {numbers}, {f.splat(last, vector)}")
    bits = Vector("bool", lanes).text
    if mask is not None:
        held = f.emit(f"and {bits} {held}, {mask}")
    if lanes > 1:
        held = f.emit(f"bitcast {bits} {held} to i{lanes}")
    if lanes < MOST_LANES:
        held = f.emit(f"zext i{lanes} {held} to i64")
    with f.when(f.emit(f"icmp ne i64 {held}, 0")):
        table = f.reserve(vector.text, 64)
        f.do(f"store {vector.text} {numbers}, ptr {table}, align 64")
        found = f.intrinsic("ctpop", Vector("int64"), held)
        with f.loop("0", found, carried=[("i64", held)]) as loop:
            left = loop.values[0]
            lane = f.call("i64", "@llvm.cttz.i64", ("i64", left), ("i1", "true"))
            loop.next = [f.emit(f"and i64 {left}, {f.emit(f'add i64 {left}, -1')}")]
            address = f.offset(table, vector.element, lane)
            number = f.emit(f"load {vector.element}, ptr {address}")
            best.insert(f, number, f.emit(f"add i64 {place}, {lane}"))


def _numbers(scope: Scope, expr: Expr) -> str:
    """An expression in all lanes; bools as bytes."""
    text = scope.vector(expr)
    return convert(scope.f, "bool", "uint8", scope.lanes, text) if expr.dtype.kind == "b" else text


@record
class _List:
    """The `count` greatest so far, in lanes: keys, numbers, places, by their pointers."""

    count: int
    vector: Vector
    key: Vector
    keys: str
    numbers: str
    places: str

    @classmethod
    def reserve(cls, f: Function, dtype: str, count: int) -> _List:
        """Take memory of the stack, which LLVM turns into registers."""
        lanes = 1 << (count - 1).bit_length()
        vector = Vector("uint8" if dtype == "bool" else register(dtype, 1).dtype, lanes)
        key = vector
        if vector.is_float:
            key = vector.with_dtype(f"int{8 * as_dtype(vector.dtype).itemsize}")
        keys = f.reserve(key.text, 64)
        numbers = f.reserve(vector.text, 64) if vector.is_float else keys
        return cls(count, vector, key, keys, numbers, f.reserve(f"<{lanes} x i32>", 64))

    def load(self, f: Function, vector: Vector, pointer: str) -> str:
        """One of the three lists."""
        return f.emit(f"load {vector.text}, ptr {pointer}, align 64")

    def insert(self, f: Function, number: str, place: str, length: str | None = None) -> None:
        """Insert a number behind those that are not less.

        The list has `length` numbers, or more than are wanted.
        """
        lanes, key = self.vector.lanes, self.key
        new = f.splat(self._key(f, number), key)
        old = self.load(f, key, self.keys)
        word = "icmp sge" if key.is_signed else "icmp uge"
        most = np.iinfo(as_dtype(key.dtype)).max
        moved = _moved(f, key, old, f.constant(key, most))
        stay = f.emit(f"{word} {key.text} {old}, {new}")
        begin = f.emit(f"{word} {key.text} {moved}, {new}")
        bits = Vector("bool", lanes).text
        if length is not None:
            number_of = Vector("int64", lanes)
            lane = ", ".join(f"i64 {i}" for i in range(lanes))
            lane = f"<{lane}>" if lanes > 1 else "0"
            size = f.splat(length, number_of)
            is_old = f.emit(f"icmp slt {number_of.text} {lane}, {size}")
            is_old_before = f.emit(f"icmp sle {number_of.text} {lane}, {size}")
            stay = f.emit(f"and {bits} {stay}, {is_old}")
            begin = f.emit(f"and {bits} {begin}, {is_old_before}")
        places = self.vector.with_dtype("int32")
        short = f.emit(f"trunc i64 {place} to i32")
        lists = [(key, self.keys, old, new), (places, self.places, None, f.splat(short, places))]
        if self.vector.is_float:
            lists.append((self.vector, self.numbers, None, f.splat(number, self.vector)))
        for vector, pointer, before, here in lists:
            before = before or self.load(f, vector, pointer)
            after = _moved(f, vector, before, f.constant(vector, 0))
            all_of = f.select(vector, stay, before, f.select(vector, begin, here, after))
            f.do(f"store {vector.text} {all_of}, ptr {pointer}, align 64")

    def _key(self, f: Function, number: str) -> str:
        """An integer that has a number's place in the order."""
        if not self.vector.is_float:
            return number
        one, bits = Vector(self.vector.dtype), Vector(self.key.dtype)
        most = np.iinfo(as_dtype(bits.dtype)).max
        zero = f.emit(f"fadd {one.text} {number}, {f.constant(one, 0)}")  # -0.0 becomes 0.0
        whole = f.emit(f"bitcast {one.text} {zero} to {bits.text}")
        sign = f.emit(f"ashr {bits.text} {whole}, {as_dtype(bits.dtype).itemsize * 8 - 1}")
        turned = f.emit(f"and {bits.text} {sign}, {most}")
        ordered = f.emit(f"xor {bits.text} {whole}, {turned}")
        is_nan = f.emit(f"fcmp uno {one.text} {number}, {number}")
        return f.select(bits, is_nan, str(most), ordered)


def _moved(f: Function, vector: Vector, x: str, first: str) -> str:
    """The lanes moved by one; `first` comes into the first."""
    if vector.lanes == 1:
        return first
    return f.shuffle(vector, x, first, (vector.lanes, *range(vector.lanes - 1)))
