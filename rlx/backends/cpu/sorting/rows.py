"""Stable sorts of rows: quicksort of integers where possible, else radix sort.

Numbers of 32 and 64 bits become signed integers in the same order, which are sorted many at a time;
where places are wanted these stand in the lower halves of 64 bits. What that cannot do is sorted by
digits: other sizes, processors without the instructions for it, and numbers that tie but differ,
which keep their order.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.dims import likely
from ....ir.record import record
from ....ir.types import as_dtype
from ....lower.lir.program import Sort
from ..llvm.host import Host
from ..llvm.text import KERNEL, Function, Module, Vector
from ..loops.kernels import Layout
from ..loops.vectors import vector_lines
from ..runtime.polls import leave_if_stopped
from ..runtime.pool import parallel
from .quick import (
    SHARED,
    has_quick_sort,
    leave_if_long,
    part_function,
    quick_sort,
    vectors_of,
)
from .radix import INFINITY, STREAMS, Digits, radix_sort, slot_of, word_of

SHORT, LONG = 8, 11  # bits of a digit
MANY = 1 << 13  # numbers of a row that pay for the long digits
MOST = 16  # threads that share a row, and rows that have memory to work in
COUNTED = 4  # threads that count digits: their tables are on the stack
ROWS_POLLED = 64  # short ones between polls
SORT_NANOSECONDS = 4.0  # a number takes
# The words of an order: pointers, then rows and numbers of a row. Those of a job: pointers to
# numbers, to words to sort, to places, and to what each part found; then numbers of a row.
NUMBERS, RESULT, SPARE, ROWS, ROW = range(5)
JOB_NUMBERS, WORDS, PLACES, FOUND, LENGTH = range(5)


@record
class _Order:
    """The sort of one dtype, of numbers or of their places."""

    dtype: str
    has_places: bool
    digit: int
    is_quick: bool
    vectors: int  # that hold a row, if they are few; else 0

    @property
    def name(self) -> str:
        """What the names of its functions end with."""
        return f"{self.digits.name}{'_quick' if self.is_quick else ''}_{self.vectors}"

    @property
    def is_total(self) -> bool:
        """Whether what ties is the same, as integers are, and numbers with their places."""
        return self.has_places or as_dtype(self.dtype).kind != "f"

    @property
    def digits(self) -> Digits:
        """The code that sorts by digits."""
        return Digits(self.dtype, self.has_places, self.digit)

    @property
    def bits(self) -> int:
        """The bits of a number."""
        return self.digits.bits

    @property
    def spare(self) -> int:
        """The bytes that are needed for each number of a row: see `Sort`."""
        return self.bits // 4 + 8 if self.has_places else self.bits // 8


def emit_sort(
    module: Module, f: Function, step: Sort, layout: Layout, host: Host, parts: int | str
) -> None:
    """Emit the sort of all rows; threads share long rows, or take some each."""
    itemsize, has_places = step.numbers.number_dtype.itemsize, step.places is not None
    digit = min(8 * itemsize, LONG if likely(step.length) >= MANY and itemsize > 2 else SHORT)
    is_quick = has_quick_sort(host) and (itemsize == 4 or (itemsize == 8 and not has_places))
    vectors = vectors_of(step.length, 64 if has_places else 8 * itemsize) if is_quick else 0
    order = _Order(step.numbers.number_dtype.name, has_places, digit, is_quick, vectors)
    if order not in module.shared:
        module.shared[order] = order.name
        _emit_row(module, order)
        _emit_rows(module, order)
        _emit_all(module, order)
    table = f.reserve("[5 x i64]", 8)
    result = step.places or step.sorted
    assert result is not None, "the order goes somewhere"
    for i, buffer in ((NUMBERS, step.numbers), (RESULT, result), (SPARE, step.spare)):
        f.do(f"store ptr {layout.pointer(f, buffer)}, ptr {slot_of(f, table, i)}, align 8")
    for i, number in ((ROWS, step.rows), (ROW, step.length)):
        f.do(f"store i64 {f.number(number)}, ptr {slot_of(f, table, i)}, align 8")
    f.do(f"call void @sort_{order.name}(ptr {table}, i64 {parts})")


# -- numbers as integers ------------------------------------------------------------------------


def _turned(f: Function, order: _Order, vector: Vector, x: str) -> str:
    """A number's bits as a signed integer in the same order, and such an integer as the bits."""
    kind, text = as_dtype(order.dtype).kind, vector.text
    if kind == "i":
        return x
    if kind == "u":
        return f.emit(f"xor {text} {x}, {f.constant(vector, -(1 << (order.bits - 1)))}")
    sign = f.emit(f"ashr {text} {x}, {f.constant(vector, order.bits - 1)}")
    most = f.constant(vector, (1 << (order.bits - 1)) - 1)
    return f.emit(f"xor {text} {x}, {f.emit(f'and {text} {sign}, {most}')}")


def _odd(f: Function, order: _Order, vector: Vector, x: str) -> tuple[str, str]:
    """Where the bits are those of a zero, and of a NaN."""
    text, most = vector.text, f.constant(vector, (1 << (order.bits - 1)) - 1)
    size = f.emit(f"and {text} {x}, {most}")
    is_zero = f.emit(f"icmp eq {text} {size}, {f.constant(vector, 0)}")
    infinity = f.constant(vector, INFINITY[order.dtype])
    return is_zero, f.emit(f"icmp sgt {text} {size}, {infinity}")


def _over_part(f: Function, lanes: int, body: Callable[[str, str | None], None]) -> None:
    length = word_of(f, "%job", LENGTH, "i64")
    vector_lines(f, *f.share(length), lanes, body)


def _emit_begin(module: Module, order: _Order) -> None:
    """Put the integers of a part where they will be sorted, their places below them.

    Without places, tell whether some numbers tie that differ.
    """
    f = part_function(module, f"begin_{order.name}")
    lanes = 512 // order.bits
    vector, mask_text = Vector(f"int{order.bits}", lanes), Vector("bool", lanes).text
    wide = Vector("int64", lanes)
    numbers, words = word_of(f, "%job", JOB_NUMBERS), word_of(f, "%job", WORDS)
    is_float = as_dtype(order.dtype).kind == "f"
    found = f.reserve(mask_text, 64)
    f.do(f"store {mask_text} zeroinitializer, ptr {found}")
    zero, most = f.constant(vector, 0), f.constant(vector, (1 << (order.bits - 1)) - 1)

    def block(at: str, mask: str | None) -> None:
        x = f.load(vector, f.offset(numbers, vector.element, at), order.bits // 8, mask, "poison")
        if order.has_places:
            if is_float:
                is_zero, is_nan = _odd(f, order, vector, x)
                x = f.select(vector, is_nan, most, f.select(vector, is_zero, zero, x))
            x = _turned(f, order, vector, x)
            upper = f.emit(f"zext {vector.text} {x} to {wide.text}")
            upper = f.emit(f"shl {wide.text} {upper}, {f.constant(wide, 32)}")
            steps = ", ".join(f"i64 {i}" for i in range(lanes))
            places = f.emit(f"add {wide.text} {f.splat(at, wide)}, <{steps}>")
            x = f.emit(f"or {wide.text} {upper}, {places}")
            f.store(wide, x, f.offset(words, "i64", at), 8, mask)
            return
        if is_float:
            is_zero, is_nan = _odd(f, order, vector, x)
            is_below = f.emit(f"icmp slt {vector.text} {x}, {zero}")
            usual = f.constant(vector, INFINITY[order.dtype] + (1 << (_digits_of(order) - 1)))
            differs = f.emit(f"icmp ne {vector.text} {x}, {usual}")
            is_minus = f.emit(f"and {mask_text} {is_zero}, {is_below}")
            is_odd = f.emit(f"and {mask_text} {is_nan}, {differs}")
            held = f.emit(f"load {mask_text}, ptr {found}")
            for each in (is_minus, is_odd):
                held = f.emit(f"or {mask_text} {held}, {each}")
            f.do(f"store {mask_text} {held}, ptr {found}")
        x = _turned(f, order, vector, x)
        f.store(vector, x, f.offset(words, vector.element, at), order.bits // 8, mask)

    _over_part(f, lanes, block)
    held = f.emit(f"load {mask_text}, ptr {found}")
    word = f.emit(f"zext i{lanes} {f.emit(f'bitcast {mask_text} {held} to i{lanes}')} to i64")
    f.do(f"store i64 {word}, ptr {f.offset(word_of(f, '%job', FOUND), 'i64', '%part')}, align 8")
    f.do("ret void")


def _digits_of(order: _Order) -> int:
    """The bits of a float behind its exponent."""
    return {32: 23, 64: 52}[order.bits]


def _emit_end(module: Module, order: _Order) -> None:
    """Take the numbers or the places of a part from the sorted integers."""
    f = part_function(module, f"end_{order.name}")
    words, places = word_of(f, "%job", WORDS), word_of(f, "%job", PLACES)
    lanes = 512 // order.bits
    vector, wide = Vector(f"int{order.bits}", lanes), Vector("int64", lanes)

    def block(at: str, mask: str | None) -> None:
        if order.has_places:
            x = f.load(wide, f.offset(words, "i64", at), 8, mask, "poison")
            x = f.emit(f"trunc {wide.text} {x} to {vector.text}")
            f.store(vector, x, f.offset(places, "i32", at), 4, mask)
            return
        there, align = f.offset(words, vector.element, at), order.bits // 8
        x = _turned(f, order, vector, f.load(vector, there, align, mask, "poison"))
        f.store(vector, x, there, align, mask)

    _over_part(f, lanes, block)
    f.do("ret void")


# -- rows ---------------------------------------------------------------------------------------


def _emit_row(module: Module, order: _Order) -> None:
    """`row(counts, numbers, result, spare, length, parts)`: sort one row in some parts."""
    pointers = "ptr %counts, ptr %numbers, ptr %result, ptr %spare"
    parameters = f"{pointers}, i64 %length, i64 %parts"
    f = module.internal(f"order_{order.name}", parameters, attributes=KERNEL)
    done = f.label("sorted")
    if order.is_quick:
        _emit_quick(module, f, order, done)
    if not order.is_quick or not order.is_total:
        _emit_by_digits(module, f, order, done)
    f.start_block(done)
    f.do("ret void")


def _emit_by_digits(module: Module, f: Function, order: _Order, done: str) -> None:
    """Sort with a radix sort and go on to `done`."""
    row, spare, size = radix_sort(module, order.digits), "%spare", order.bits // 8
    if order.has_places:
        second = f.offset(spare, "i8", f.emit(f"mul i64 %length, {size}"))
        third = f.offset(spare, "i8", f.emit(f"mul i64 %length, {2 * size}"))
        given = f"ptr {spare}, ptr %result, ptr {second}, ptr {third}"
    else:
        given = f"ptr %result, ptr null, ptr {spare}, ptr null"
    parts = f.intrinsic("umin", Vector("int64"), "%parts", str(COUNTED))
    f.do(f"call void {row}(ptr %counts, ptr %numbers, {given}, i64 %length, i64 {parts})")
    f.do(f"br label %{done}")


def _emit_quick(module: Module, f: Function, order: _Order, done: str) -> None:
    """Sort as integers and go on to `done`, unless some numbers tie that differ."""
    _emit_begin(module, order)
    bits = 64 if order.has_places else order.bits
    quick = quick_sort(module, bits, order.vectors)
    words, spare = "%result", "%spare"
    if order.has_places:
        words, spare = "%spare", f.offset("%spare", "i64", "%length")
    job, found = f.reserve("[5 x i64]", 8), f.reserve(f"[{MOST} x i64]", 8)
    for i, pointer in ((JOB_NUMBERS, "%numbers"), (WORDS, words), (PLACES, "%result")):
        f.do(f"store ptr {pointer}, ptr {slot_of(f, job, i)}, align 8")
    f.do(f"store ptr {found}, ptr {slot_of(f, job, FOUND)}, align 8")
    f.do(f"store i64 %length, ptr {slot_of(f, job, LENGTH)}, align 8")
    parallel(f, f"@begin_{order.name}", job, "%parts")
    by_digits = f.label("digits")
    if not order.is_total:
        with f.loop("0", "%parts", "1", [("i64", "0")]) as loop:
            here = f.emit(f"load i64, ptr {f.offset(found, 'i64', loop.index)}, align 8")
            loop.next = [f.emit(f"or i64 {loop.values[0]}, {here}")]
        is_plain, plain = f.emit(f"icmp eq i64 {loop.values[0]}, 0"), f.label("plain")
        f.do(f"br i1 {is_plain}, label %{plain}, label %{by_digits}")
        f.start_block(plain)
    f.do(f"call void {quick}(ptr {words}, ptr {spare}, i64 %length, i64 %parts)")
    if not order.vectors:
        leave_if_long(f, "%length")  # not all places are there, which `end` would read
    if order.has_places or as_dtype(order.dtype).kind != "i":
        _emit_end(module, order)
        parallel(f, f"@end_{order.name}", job, "%parts")
    f.do(f"br label %{done}")
    if not order.is_total:
        f.start_block(by_digits)


def _call_row(
    f: Function, order: _Order, table: str, row: str, slot: str, counts: str, parts: str
) -> None:
    """Sort a row with the spare memory of a slot."""
    length = word_of(f, table, ROW, "i64")
    first = f.emit(f"mul i64 {row}, {length}")
    numbers = f.offset(word_of(f, table, NUMBERS), f"i{order.bits}", first)
    element = "i32" if order.has_places else f"i{order.bits}"
    result = f.offset(word_of(f, table, RESULT), element, first)
    nbytes = f.emit(f"mul i64 {f.emit(f'mul i64 {slot}, {order.spare}')}, {length}")
    spare = f.offset(word_of(f, table, SPARE), "i8", nbytes)
    pointers = f"ptr {counts}, ptr {numbers}, ptr {result}, ptr {spare}"
    f.do(f"call void @order_{order.name}({pointers}, i64 {length}, i64 {parts})")


def _counts(f: Function, order: _Order, parts: int) -> str:
    return f.reserve(f"[{parts * STREAMS * order.digits.bins} x i32]", 64)


def _emit_rows(module: Module, order: _Order) -> None:
    """Sort a part of the rows, one after another."""
    f = part_function(module, f"rows_{order.name}")
    bounds = f.share(word_of(f, "%job", ROWS, "i64"))
    counts = _counts(f, order, 1)
    with f.loop(bounds[0], bounds[1], str(ROWS_POLLED)) as block:
        leave_if_stopped(f)
        end = f.emit(f"add i64 {block.index}, {ROWS_POLLED}")
        with f.loop(block.index, f.intrinsic("umin", Vector("int64"), end, bounds[1])) as loop:
            _call_row(f, order, "%job", loop.index, "%part", counts, "1")
    f.do("ret void")


def _emit_all(module: Module, order: _Order) -> None:
    """Share long rows among threads one after another, or all rows at once."""
    f = module.internal(f"sort_{order.name}", "ptr %order, i64 %parts", attributes=KERNEL)
    length, number = word_of(f, "%order", ROW, "i64"), Vector("int64")
    rows = f.intrinsic("umin", number, word_of(f, "%order", ROWS, "i64"), str(MOST))
    threads = f.intrinsic("umin", number, "%parts", str(MOST))
    most = f.intrinsic("umin", number, f.emit(f"udiv i64 {length}, {SHARED}"), threads)
    is_long = f.emit(f"icmp ugt i64 {most}, 1")
    long, short, done = f.label("long"), f.label("short"), f.label("sorted")
    f.do(f"br i1 {is_long}, label %{long}, label %{short}")
    f.start_block(long)
    counts = _counts(f, order, COUNTED)
    with f.loop("0", word_of(f, "%order", ROWS, "i64")) as loop:
        leave_if_stopped(f)
        _call_row(f, order, "%order", loop.index, "0", counts, most)
    f.do(f"br label %{done}")
    f.start_block(short)
    shared = f.intrinsic("umin", number, threads, rows)
    parallel(f, f"@rows_{order.name}", "%order", shared)
    f.go_on(done)
    f.do("ret void")
