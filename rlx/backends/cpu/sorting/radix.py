"""Stable radix sort: digit by digit, the lowest digit first.

Numbers are ordered by unsigned keys of their size, in which NaN is the greatest and -0.0 equals
0.0. Only digits that differ within a row are looked at. For each of them every part of a row counts
its digits, the counts of all parts tell each of them where its numbers go, and every part puts them
there. What is written does not depend on the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.record import record
from ....ir.types import as_dtype
from ..llvm.text import KERNEL, Function, Module, Vector
from ..runtime.pool import parallel
from .quick import leave_if_long, part_function

STREAMS = 2  # stretches of a part: one waits less for counts that the other has changed
LANES = 16
INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F80 << 16, "float64": 0x7FF << 52}
# The words of a job: pointers to numbers and places, what is read and what is written, then a table
# of counts for each stretch; the numbers of a row; by how many bits digits are shifted.
READ, READ_PLACES, WRITTEN, WRITTEN_PLACES, COUNTS, LENGTH, SHIFT = range(7)


@record
class Digits:
    """A radix sort of one dtype by digits of so many bits, perhaps with places."""

    dtype: str
    has_places: bool
    digit: int

    @property
    def name(self) -> str:
        """What the names of its functions end with."""
        return f"{self.dtype}_{'places' if self.has_places else 'alone'}_{self.digit}"

    @property
    def bits(self) -> int:
        """The bits of a number."""
        return 8 * as_dtype(self.dtype).itemsize

    @property
    def bins(self) -> int:
        """The number of values of a digit."""
        return 1 << self.digit


def radix_sort(module: Module, kind: Digits) -> str:
    """The function that sorts a row, written once.

    It is `void (ptr counts, ptr numbers, ptr sorted, ptr places, ptr spare, ptr spare_places,
    i64 length, i64 parts)`. The table `counts` has `STREAMS * kind.bins` words of 32 bits for each
    part.
    """
    name = f"@row_{kind.name}"
    if kind in module.shared:
        return name
    module.shared[kind] = name
    _emit_survey(module, kind)
    _emit_count(module, kind)
    for is_first in (True, False) if kind.has_places else (False,):
        _emit_spread(module, kind, is_first)
    _emit_row(module, kind)
    return name


def slot_of(f: Function, table: str, number: int) -> str:
    """Where a word of a table lies."""
    return f.offset(table, "i64", str(number))


def word_of(f: Function, table: str, number: int, kind: str = "ptr") -> str:
    """Load a word of a table."""
    return f.emit(f"load {kind}, ptr {slot_of(f, table, number)}, align 8")


# -- keys and digits ----------------------------------------------------------------------------


def _keys(f: Function, kind: Digits, lanes: int, address: str) -> tuple[str, Vector]:
    """Load numbers as keys."""
    vector, dtype = Vector(f"uint{kind.bits}", lanes), as_dtype(kind.dtype)
    text = vector.text
    x = f.emit(f"load {text}, ptr {address}, align {dtype.itemsize}")
    if kind.dtype == "bool" or dtype.kind == "u":
        return x, vector
    top = f.constant(vector, -(1 << (kind.bits - 1)))
    if dtype.kind == "i":
        return f.emit(f"xor {text} {x}, {top}"), vector
    most = f.constant(vector, (1 << (kind.bits - 1)) - 1)
    zero = f.constant(vector, 0)
    size = f.emit(f"and {text} {x}, {most}")
    is_zero = f.emit(f"icmp eq {text} {size}, {zero}")
    is_nan = f.emit(f"icmp ugt {text} {size}, {f.constant(vector, INFINITY[kind.dtype])}")
    x = f.select(vector, is_nan, most, f.select(vector, is_zero, zero, x))
    sign = f.emit(f"ashr {text} {x}, {f.constant(vector, kind.bits - 1)}")
    turned = f.emit(f"or {text} {sign}, {top}")
    return f.emit(f"xor {text} {x}, {turned}"), vector


def _digits(f: Function, kind: Digits, lanes: int, address: str, shift: str) -> str:
    """Load numbers and give their digits as i32."""
    keys, vector = _keys(f, kind, lanes, address)
    text = vector.text
    if kind.digit < kind.bits:
        keys = f.emit(f"lshr {text} {keys}, {f.splat(shift, vector)}")
        keys = f.emit(f"and {text} {keys}, {f.constant(vector, kind.bins - 1)}")
    if kind.bits == 32:
        return keys
    word = "trunc" if kind.bits > 32 else "zext"
    return f.emit(f"{word} {text} {keys} to {Vector('int32', lanes).text}")


Each = Callable[[int, str, int, str], None]


def _walk(f: Function, kind: Digits, each: Each) -> None:
    """Call `each(stream, place, lane, digit)` for all numbers of this part.

    The number is `lane` behind `place`. A part has stretches of equal length, walked side by side;
    what is left of the row belongs to the last one.
    """
    source, length = word_of(f, "%job", READ), word_of(f, "%job", LENGTH, "i64")
    shift = word_of(f, "%job", SHIFT, "i64")
    if kind.bits < 64:
        shift = f.emit(f"trunc i64 {shift} to i{kind.bits}")
    element = f"i{kind.bits}"
    blocks = f.emit(f"mul i64 %parts, {STREAMS * LANES}")
    size = f.emit(f"mul i64 {f.emit(f'udiv i64 {length}, {blocks}')}, {LANES}")
    first = f.emit(f"mul i64 {f.emit(f'mul i64 %part, {STREAMS}')}, {size}")
    starts = [first]
    for _ in range(1, STREAMS):
        starts.append(f.emit(f"add i64 {starts[-1]}, {size}"))
    tables = [f.reserve(f"<{LANES} x i32>", 64) for _ in starts]
    with f.loop("0", size, str(LANES)) as loop:
        places = [f.emit(f"add i64 {start}, {loop.index}") for start in starts]
        for place, table in zip(places, tables, strict=True):
            digits = _digits(f, kind, LANES, f.offset(source, element, place), shift)
            f.do(f"store <{LANES} x i32> {digits}, ptr {table}, align 64")
        for lane in range(LANES):
            for stream, (place, table) in enumerate(zip(places, tables, strict=True)):
                short = f.emit(f"load i32, ptr {f.offset(table, 'i32', str(lane))}, align 4")
                each(stream, place, lane, f.emit(f"zext i32 {short} to i64"))
    is_last = f.emit(f"icmp eq i64 {f.emit('add i64 %part, 1')}, %parts")
    with f.when(is_last):
        rest = f.emit(f"add i64 {starts[-1]}, {size}")
        with f.loop(rest, length) as loop:
            short = _digits(f, kind, 1, f.offset(source, element, loop.index), shift)
            each(STREAMS - 1, loop.index, 0, f.emit(f"zext i32 {short} to i64"))


def _own_counts(f: Function, kind: Digits) -> list[str]:
    """The tables of this part, one for each of its stretches."""
    counts = word_of(f, "%job", COUNTS)
    first = f.emit(f"mul i64 %part, {STREAMS * kind.bins}")
    first = f.offset(counts, "i32", first)
    return [f.offset(first, "i32", str(i * kind.bins)) for i in range(STREAMS)]


# -- the steps of one digit ---------------------------------------------------------------------


def _emit_survey(module: Module, kind: Digits) -> None:
    """Put the bits in which the keys of a part differ from the first key into the counts."""
    f = part_function(module, f"survey_{kind.name}")
    source, length = word_of(f, "%job", READ), word_of(f, "%job", LENGTH, "i64")
    lanes, element = LANES, f"i{kind.bits}"
    first, _ = _keys(f, kind, 1, source)
    bounds = f.share(length)
    size = f.emit(f"sub i64 {bounds[1]}, {bounds[0]}")
    whole = f.emit(f"sub i64 {bounds[1]}, {f.emit(f'urem i64 {size}, {lanes}')}")
    wide = Vector(f"uint{kind.bits}", lanes)
    firsts = f.splat(first, wide)
    with f.loop(bounds[0], whole, str(lanes), [(wide.text, f.constant(wide, 0))]) as loop:
        keys, _ = _keys(f, kind, lanes, f.offset(source, element, loop.index))
        other = f.emit(f"xor {wide.text} {keys}, {firsts}")
        loop.next = [f.emit(f"or {wide.text} {loop.values[0]}, {other}")]
    name = f"@llvm.vector.reduce.or.{wide.mangled}"
    found = f.call(element, name, (wide.text, loop.values[0]))
    with f.loop(whole, bounds[1], "1", [(element, found)]) as loop:
        key, _ = _keys(f, kind, 1, f.offset(source, element, loop.index))
        other = f.emit(f"xor {element} {key}, {first}")
        loop.next = [f.emit(f"or {element} {loop.values[0]}, {other}")]
    found = loop.values[0]
    if kind.bits < 64:
        found = f.emit(f"zext {element} {found} to i64")
    slot = f.offset(word_of(f, "%job", COUNTS), "i64", "%part")
    f.do(f"store i64 {found}, ptr {slot}, align 8")
    f.do("ret void")


def _emit_count(module: Module, kind: Digits) -> None:
    """Count the digits of a part."""
    f = part_function(module, f"count_{kind.name}")
    tables = _own_counts(f, kind)
    f.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    nbytes = 4 * STREAMS * kind.bins
    f.do(f"call void @llvm.memset.p0.i64(ptr {tables[0]}, i8 0, i64 {nbytes}, i1 false)")

    def count(stream: int, place: str, lane: int, digit: str) -> None:
        slot = f.offset(tables[stream], "i32", digit)
        before = f.emit(f"load i32, ptr {slot}, align 4")
        f.do(f"store i32 {f.emit(f'add i32 {before}, 1')}, ptr {slot}, align 4")

    _walk(f, kind, count)
    f.do("ret void")


def _emit_spread(module: Module, kind: Digits, is_first: bool) -> None:
    """Put the numbers of a part where its counts say, and their places along with them.

    At first the place of each number is where it stands.
    """
    f = part_function(module, f"{'begin' if is_first else 'spread'}_{kind.name}")
    tables, element = _own_counts(f, kind), f"i{kind.bits}"
    align = kind.bits // 8
    moved: list[tuple[str, int, str | None, str]] = [
        (element, align, word_of(f, "%job", READ), word_of(f, "%job", WRITTEN))
    ]
    if kind.has_places:
        places = None if is_first else word_of(f, "%job", READ_PLACES)
        moved.append(("i32", 4, places, word_of(f, "%job", WRITTEN_PLACES)))

    def spread(stream: int, place: str, lane: int, digit: str) -> None:
        slot = f.offset(tables[stream], "i32", digit)
        target = f.emit(f"load i32, ptr {slot}, align 4")
        f.do(f"store i32 {f.emit(f'add i32 {target}, 1')}, ptr {slot}, align 4")
        target = f.emit(f"zext i32 {target} to i64")
        for text, nbytes, source, written in moved:
            if source is None:
                here = f.emit(f"add i64 {place}, {lane}")
                number = f.emit(f"trunc i64 {here} to i32")
            else:
                origin = f.offset(f.offset(source, text, place), text, str(lane))
                number = f.emit(f"load {text}, ptr {origin}, align {nbytes}")
            f.do(f"store {text} {number}, ptr {f.offset(written, text, target)}, align {nbytes}")

    _walk(f, kind, spread)
    f.do("ret void")


# -- rows ---------------------------------------------------------------------------------------


def _emit_row(module: Module, kind: Digits) -> None:
    """Sort one row in some parts: all digits that differ, the last into the results."""
    pointers = "ptr %counts, ptr %numbers, ptr %sorted, ptr %places, ptr %spare, ptr %spare_places"
    parameters = f"{pointers}, i64 %length, i64 %parts"
    f = module.internal(f"row_{kind.name}", parameters, attributes=KERNEL)
    counts, job = "%counts", f.reserve("[7 x i64]", 8)
    f.do(f"store ptr {counts}, ptr {slot_of(f, job, COUNTS)}, align 8")
    f.do(f"store i64 %length, ptr {slot_of(f, job, LENGTH)}, align 8")
    f.do(f"store ptr %numbers, ptr {slot_of(f, job, READ)}, align 8")
    parallel(f, f"@survey_{kind.name}", job, "%parts")
    with f.loop("0", "%parts", "1", [("i64", "0")]) as loop:
        here = f.emit(f"load i64, ptr {f.offset(counts, 'i64', loop.index)}, align 8")
        loop.next = [f.emit(f"or i64 {loop.values[0]}, {here}")]
    shifts, count = _emit_shifts(f, kind, loop.values[0])
    last = f.emit(f"sub i64 {count}, 1")
    with f.loop("0", count) as loop:
        shift = f.emit(f"load i64, ptr {f.offset(shifts, 'i64', loop.index)}, align 8")
        f.do(f"store i64 {shift}, ptr {slot_of(f, job, SHIFT)}, align 8")
        is_first = f.emit(f"icmp eq i64 {loop.index}, 0")
        left = f.emit(f"sub i64 {last}, {loop.index}")
        is_odd = f.emit(f"trunc i64 {left} to i1")
        pairs = (("%sorted", "%spare", READ, WRITTEN),)
        if kind.has_places:
            pairs = (*pairs, ("%places", "%spare_places", READ_PLACES, WRITTEN_PLACES))
        for result, spare, read, written in pairs:
            source = f.emit(f"select i1 {is_odd}, ptr {result}, ptr {spare}")
            target = f.emit(f"select i1 {is_odd}, ptr {spare}, ptr {result}")
            if read == READ:
                source = f.emit(f"select i1 {is_first}, ptr %numbers, ptr {source}")
            f.do(f"store ptr {source}, ptr {slot_of(f, job, read)}, align 8")
            f.do(f"store ptr {target}, ptr {slot_of(f, job, written)}, align 8")
        leave_if_long(f, "%length")
        parallel(f, f"@count_{kind.name}", job, "%parts")
        _emit_starts(f, kind, counts)
        spread = f"@spread_{kind.name}"
        if kind.has_places:
            both = f"ptr @begin_{kind.name}, ptr {spread}"
            spread = f.emit(f"select i1 {is_first}, {both}")
        leave_if_long(f, "%length")
        parallel(f, spread, job, "%parts")
    f.do("ret void")


def _emit_shifts(f: Function, kind: Digits, differing: str) -> tuple[str, str]:
    """Emit a table of shifts of digits that cover the differing bits, and its length.

    There is one at least, so that the numbers are moved.
    """
    most = -(-kind.bits // kind.digit)
    shifts = f.reserve(f"[{most + 1} x i64]", 8)
    f.do(f"store i64 0, ptr {shifts}, align 8")
    with f.loop("0", str(most), "1", [("i64", differing), ("i64", "0")]) as loop:
        left, count = loop.values
        is_more = f.emit(f"icmp ne i64 {left}, 0")
        lowest = f.call("i64", "@llvm.cttz.i64", ("i64", left), ("i1", "false"))
        shift = f.emit(f"select i1 {is_more}, i64 {lowest}, i64 0")
        f.do(f"store i64 {shift}, ptr {f.offset(shifts, 'i64', count)}, align 8")
        digit = f.emit(f"shl i64 {kind.bins - 1}, {shift}")
        others = f.emit(f"xor i64 {digit}, -1")
        step = f.emit(f"zext i1 {is_more} to i64")
        loop.next = [f.emit(f"and i64 {left}, {others}"), f.emit(f"add i64 {count}, {step}")]
    return shifts, f.intrinsic("umax", Vector("int64"), loop.values[1], "1")


def _emit_starts(f: Function, kind: Digits, counts: str) -> None:
    """Turn the counts of digits into where each stretch puts its first one."""
    stretches = f.emit(f"mul i64 %parts, {STREAMS}")
    with f.loop("0", str(kind.bins), "1", [("i32", "0")]) as bins:
        column = f.offset(counts, "i32", bins.index)
        with f.loop("0", stretches, "1", [("i32", bins.values[0])]) as loop:
            place = f.emit(f"mul i64 {loop.index}, {kind.bins}")
            slot = f.offset(column, "i32", place)
            count = f.emit(f"load i32, ptr {slot}, align 4")
            f.do(f"store i32 {loop.values[0]}, ptr {slot}, align 4")
            loop.next = [f.emit(f"add i32 {loop.values[0]}, {count}")]
        bins.next = loop.values
