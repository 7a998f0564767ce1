"""Vectorized quicksort of signed integers, for processors that compress vectors.

A stretch is split by one of its numbers: those below go to the front of other memory, the others to
its end; there both are split back. Short stretches are sorted in registers. Equal integers cannot
be told apart, so what comes out depends on the integers alone.
"""

from __future__ import annotations

import numpy as np

from ....ir.dims import Size
from ..llvm.host import Host
from ..llvm.text import KERNEL, Function, Module, Vector
from ..loops.vectors import interleaved
from ..runtime.polls import leave_if_stopped
from ..runtime.pool import parallel

VECTORS = 16  # sorted in registers at most
SHARED = 1 << 14  # integers that pay for one more thread
POLLED = 1 << 16  # integers between polls
LEVELS = 2  # of splitting a shared stretch; then each thread sorts stretches
MIXED = 0x9E3779B97F4A7C15 - (1 << 64)  # multiplied by it, neighbors are far apart
PART = "ptr noalias nocapture readonly %job, i64 %part, i64 %parts"


def leave_if_long(f: Function, count: str) -> None:
    """Emit a poll that returns if the program must end; short rows have none."""
    with f.when(f.emit(f"icmp uge i64 {count}, {POLLED}")):
        leave_if_stopped(f)


def part_function(module: Module, name: str) -> Function:
    """Open a function that does one part of a job."""
    return _function(module, name, PART)


def has_quick_sort(host: Host) -> bool:
    """Whether a processor has an instruction that compresses vectors."""
    return host.vector_bytes == 64


def vectors_of(length: Size, bits: int) -> int:
    """How many vectors hold all integers of a row; 0 if registers do not, or may not."""
    if not isinstance(length, int) or length > VECTORS * (512 // bits):
        return 0
    return next(n for n in (1, 2, 4, 8, VECTORS) if length <= n * (512 // bits))


def quick_sort(module: Module, bits: int, vectors: int = 0) -> str:
    """The function `(ptr integers, ptr spare, i64 count, i64 parts)`, written once.

    With a number of `vectors`, it is for integers that fit in them.
    """
    name = f"quick_{bits}_{vectors}" if vectors else f"quick_{bits}"
    if name in module.shared:
        return f"@{name}"
    module.shared[name] = name
    vector = Vector(f"int{bits}", 512 // bits)
    if vectors:
        f = _function(module, name, "ptr %x, ptr %y, i64 %count, i64 %parts")
        _sort_vectors(f, vector, vectors, "%x")
        f.do("ret void")
    else:
        for emit in (_emit_small, _emit_pivot, _emit_split, _emit_equal, _emit_serial):
            emit(module, vector)
        for emit in (_emit_halve, _emit_stretch, _emit_shared):
            emit(module, vector)
    return f"@{name}"


def _function(module: Module, name: str, parameters: str, returns: str = "void") -> Function:
    return module.internal(name, parameters, returns, KERNEL)


# -- in registers -------------------------------------------------------------------------------


def _emit_small(module: Module, vector: Vector) -> None:
    """`small(from, to, count)`: sort integers in as few registers as hold them."""
    f = _function(module, f"small_{vector.element}", "ptr %x, ptr %y, i64 %count")
    done, vectors = f.label("sorted"), 1
    while vectors <= VECTORS:
        fits, larger = f.label("fits"), f.label("larger")
        if vectors < VECTORS:
            is_enough = f.emit(f"icmp sle i64 %count, {vectors * vector.lanes}")
            f.do(f"br i1 {is_enough}, label %{fits}, label %{larger}")
        else:
            f.do(f"br label %{fits}")
        f.start_block(fits)
        _sort_vectors(f, vector, vectors, "%y")
        f.do(f"br label %{done}")
        if vectors < VECTORS:
            f.start_block(larger)
        vectors *= 2
    f.start_block(done)
    f.do("ret void")


def _sort_vectors(f: Function, vector: Vector, count: int, target: str) -> None:
    """Load vectors from `%x`, sort them, and store them, as many integers as there are."""
    lanes, most = vector.lanes, f.constant(vector, np.iinfo(vector.dtype).max)
    masks, places, xs = [], [], []
    for i in range(count):
        left = f.emit(f"sub i64 %count, {i * lanes}")
        left = f.intrinsic("smax", Vector("int64"), left, "0")
        masks.append(_first(f, vector, left))
        place = f.offset("%x", vector.element, str(i * lanes))
        places.append(f.offset(target, vector.element, str(i * lanes)))
        xs.append(f.load(vector, place, vector.bits // 8, masks[-1], most))
    xs = interleaved(f, vector, _sorted(f, vector, xs))
    for x, place, mask in zip(xs, places, masks, strict=True):
        f.store(vector, x, place, vector.bits // 8, mask)


def _sorted(f: Function, vector: Vector, xs: list[str]) -> list[str]:
    """Sort the lanes of some vectors, which are merged two, four, eight ... at a time."""
    size = 2
    while size <= len(xs) * vector.lanes:
        xs = _exchanged(f, vector, xs, size - 1)
        step = size // 4
        while step:
            xs = _exchanged(f, vector, xs, step)
            step //= 2
        size *= 2
    return xs


def _exchanged(f: Function, vector: Vector, xs: list[str], other: int) -> list[str]:
    """Put the lesser of each two first whose places differ by the bits of `other`.

    Integer k of all is in lane k // n of vector k % n, for n vectors.
    """
    count = len(xs)
    lanes, turned = other // count, other % count
    if not lanes:
        result = list(xs)
        for i in range(count):
            if i < i ^ turned:
                pair = xs[i], xs[i ^ turned]
                result[i] = f.intrinsic("smin", vector, *pair)
                result[i ^ turned] = f.intrinsic("smax", vector, *pair)
        return result
    order = [lane ^ lanes for lane in range(vector.lanes)]
    top = 1 << (lanes.bit_length() - 1)
    first = ", ".join(f"i1 {'false' if lane & top else 'true'}" for lane in range(vector.lanes))
    result = []
    for i in range(count):
        y = f.shuffle(vector, xs[i ^ turned], "poison", order)
        low, high = (f.intrinsic(name, vector, xs[i], y) for name in ("smin", "smax"))
        result.append(f.select(vector, f"<{first}>", low, high))
    return result


# -- splitting ----------------------------------------------------------------------------------


def _emit_pivot(module: Module, vector: Vector) -> None:
    """`pivot(integers, count)`: the middle one of some, taken from all over."""
    one, lanes = vector.element, vector.lanes
    f = _function(module, f"pivot_{one}", "ptr %x, i64 %count", one)
    step = f.emit(f"udiv i64 %count, {lanes}")
    mixed = f.emit(f"lshr i64 {f.emit(f'mul i64 %count, {MIXED}')}, 32")
    first = f.emit(f"lshr i64 {f.emit(f'mul i64 {mixed}, {step}')}, 32")
    places = Vector("int64", lanes)
    order = ", ".join(f"i64 {lane}" for lane in range(lanes))
    there = f.emit(f"mul {places.text} {f.splat(step, places)}, <{order}>")
    start = f.offset("%x", one, first)
    taken = f.emit(f"getelementptr {one}, ptr {start}, {places.text} {there}")
    everywhere = "splat (i1 true)"
    x = f.masked("gather", vector, taken, vector.bits // 8, everywhere, "zeroinitializer")
    (x,) = _sorted(f, vector, [x])
    middle = f.emit(f"extractelement {vector.text} {x}, i32 {lanes // 2}")
    f.do(f"ret {one} {middle}")


def _emit_split(module: Module, vector: Vector) -> None:
    """`split(from, to, count, pivot)`: those below the pivot first; gives their number."""
    one, text, lanes = vector.element, vector.text, vector.lanes
    f = _function(module, f"split_{one}", f"ptr %x, ptr %y, i64 %count, {one} %pivot", "i64")
    pivots, align = f.splat("%pivot", vector), vector.bits // 8
    left = f.emit(f"urem i64 %count, {lanes}")
    whole = f.emit(f"sub i64 %count, {left}")

    def put_above(x: str, is_above: str, below: str, number: str, taken: str) -> str:
        """Store what is not below in front of the others; gives how many are below."""
        above = f.emit(f"sub i64 {taken}, {number}")
        below = f.emit(f"add i64 {below}, {number}")
        end = f.emit(f"sub i64 %count, {f.emit(f'add i64 {place}, {taken}')}")
        start = f.offset("%y", one, f.emit(f"add i64 {end}, {below}"))
        f.store(vector, _compressed(f, vector, x, is_above), start, align, _first(f, vector, above))
        return below

    with f.loop("0", whole, str(lanes), [("i64", "0")]) as loop:
        (below,), place = loop.values, loop.index
        x = f.load(vector, f.offset("%x", one, place), align)
        is_below = f.emit(f"icmp slt {text} {x}, {pivots}")
        # what is stored too much here is overwritten: as much memory as this is free
        start = f.offset("%y", one, below)
        f.store(vector, _compressed(f, vector, x, is_below), start, align)
        others = f.emit(f"xor <{lanes} x i1> {is_below}, splat (i1 true)")
        number = _counted(f, vector, is_below)
        loop.next = [put_above(x, others, below, number, str(lanes))]
    (below,), place = loop.values, whole
    mask = _first(f, vector, left)
    x = f.load(vector, f.offset("%x", one, whole), align, mask, "poison")
    is_below = f.emit(f"icmp slt {text} {x}, {pivots}")
    is_below = f.emit(f"and <{lanes} x i1> {is_below}, {mask}")
    number = _counted(f, vector, is_below)
    start, held = f.offset("%y", one, below), _first(f, vector, number)
    f.store(vector, _compressed(f, vector, x, is_below), start, align, held)
    others = f.emit(f"xor <{lanes} x i1> {is_below}, {mask}")
    f.do(f"ret i64 {put_above(x, others, below, number, left)}")


def _compressed(f: Function, vector: Vector, x: str, mask: str) -> str:
    """The lanes in the mask, compressed."""
    name, bits = f"@llvm.experimental.vector.compress.{vector.mangled}", f"<{vector.lanes} x i1>"
    return f.call(vector.text, name, (vector.text, x), (bits, mask), (vector.text, "poison"))


def _first(f: Function, vector: Vector, count: str) -> str:
    """The mask of the first lanes, as many as a count from 0 says."""
    ones = f.emit(f"shl i64 -1, {f.intrinsic('umin', Vector('int64'), count, str(vector.lanes))}")
    word = f.emit(f"trunc i64 {f.emit(f'xor i64 {ones}, -1')} to i{vector.lanes}")
    return f.emit(f"bitcast i{vector.lanes} {word} to <{vector.lanes} x i1>")


def _counted(f: Function, vector: Vector, mask: str) -> str:
    word = f.emit(f"bitcast <{vector.lanes} x i1> {mask} to i{vector.lanes}")
    return f.intrinsic("ctpop", Vector("int64"), f.emit(f"zext i{vector.lanes} {word} to i64"))


def _emit_serial(module: Module, vector: Vector) -> None:
    """`serial(integers, other, count, is_back)`: split until what is left fits in registers.

    What is sorted stays where the integers are if they are back there, else it goes to the other
    memory. The shorter half is done by a call. Some integers are in neither if the program ends.
    """
    one = vector.element
    f = _function(module, f"serial_{one}", "ptr %given, ptr %other, i64 %all, i1 %first")
    before, head, small, large = f.block, f.label("head"), f.label("small"), f.label("large")
    f.go_on(head)
    place = len(f.lines)
    x, y, count, is_back = (f.fresh(name) for name in ("x", "y", "count", "back"))
    is_small = f.emit(f"icmp sle i64 {count}, {VECTORS * vector.lanes}")
    f.do(f"br i1 {is_small}, label %{small}, label %{large}")
    f.start_block(small)
    target = f.emit(f"select i1 {is_back}, ptr {x}, ptr {y}")
    f.do(f"call void @small_{one}(ptr {x}, ptr {target}, i64 {count})")
    f.do("ret void")
    f.start_block(large)
    leave_if_long(f, count)
    pivot = f.emit(f"call {one} @pivot_{one}(ptr {x}, i64 {count})")
    below = f.emit(f"call i64 @split_{one}(ptr {x}, ptr {y}, i64 {count}, {one} {pivot})")
    above = f.emit(f"sub i64 {count}, {below}")
    is_there = f.emit(f"xor i1 {is_back}, true")
    halves, equal, latch = f.label("halves"), f.label("equal"), f.label("latch")
    f.do(f"br i1 {f.emit(f'icmp eq i64 {below}, 0')}, label %{equal}, label %{halves}")
    f.start_block(halves)
    is_front = f.emit(f"icmp sle i64 {below}, {above}")
    few = f.intrinsic("smin", Vector("int64"), below, above)
    many = f.intrinsic("smax", Vector("int64"), below, above)
    shorter, longer = [], []
    for memory in (y, x):
        behind = f.offset(memory, one, below)
        shorter.append(f.emit(f"select i1 {is_front}, ptr {memory}, ptr {behind}"))
        longer.append(f.emit(f"select i1 {is_front}, ptr {behind}, ptr {memory}"))
    given = f"ptr {shorter[0]}, ptr {shorter[1]}, i64 {few}, i1 {is_there}"
    f.do(f"call void @serial_{one}({given})")
    f.do(f"br label %{latch}")
    f.start_block(equal)
    target = f.emit(f"select i1 {is_back}, ptr {x}, ptr {y}")
    given = f"ptr {x}, ptr {y}, ptr {target}, i64 {count}, {one} {pivot}"
    above_least = f.emit(f"call i64 @equal_{one}({given})")
    same = f.emit(f"sub i64 {count}, {above_least}")
    rest = [f.offset(memory, one, same) for memory in (y, x)]
    ended = f.block
    f.go_on(latch)
    following = []
    for kind, half, end in (("ptr", longer[0], rest[0]), ("ptr", longer[1], rest[1]),
                            ("i64", many, above_least), ("i1", is_there, is_there)):  # fmt: skip
        following.append(f.emit(f"phi {kind} [ {half}, %{halves} ], [ {end}, %{ended} ]"))
    f.do(f"br label %{head}")
    starts = (("ptr", x, "%given"), ("ptr", y, "%other"), ("i64", count, "%all"),
              ("i1", is_back, "%first"))  # fmt: skip
    f.lines[place:place] = [
        f"  {name} = phi {kind} [ {start}, %{before} ], [ {new}, %{latch} ]"
        for (kind, name, start), new in zip(starts, following, strict=True)
    ]


def _emit_equal(module: Module, vector: Vector) -> None:
    """`equal(from, to, back, count, least)`: split what equals the least off, and put it back.

    Gives how many are above.
    """
    one, most = vector.element, np.iinfo(vector.dtype).max
    parameters = f"ptr %x, ptr %y, ptr %back, i64 %count, {one} %least"
    f = _function(module, f"equal_{one}", parameters, "i64")
    all_equal, some, fill = f.label("all"), f.label("some"), f.label("fill")
    is_most = f.emit(f"icmp eq {one} %least, {most}")
    f.do(f"br i1 {is_most}, label %{all_equal}, label %{some}")
    f.start_block(all_equal)
    f.do(f"br label %{fill}")
    f.start_block(some)
    above = f.emit(f"add {one} %least, 1")
    equal = f.emit(f"call i64 @split_{one}(ptr %x, ptr %y, i64 %count, {one} {above})")
    f.go_on(fill)
    same = f.emit(f"phi i64 [ %count, %{all_equal} ], [ {equal}, %{some} ]")
    with f.loop("0", same) as loop:
        there = f.offset("%back", one, loop.index)
        f.do(f"store {one} %least, ptr {there}, align {vector.bits // 8}")
    f.do(f"ret i64 {f.emit(f'sub i64 %count, {same}')}")


# -- shared by threads --------------------------------------------------------------------------

# The words of a job: integers, other memory, where stretches begin, where halves shall begin.
JOB = "[4 x ptr]"


def _words(f: Function) -> list[str]:
    slots = [f.offset("%job", "ptr", str(i)) for i in range(4)]
    return [f.emit(f"load ptr, ptr {slot}, align 8") for slot in slots]


def _bound(f: Function, bounds: str, number: str) -> str:
    return f.emit(f"load i64, ptr {f.offset(bounds, 'i64', number)}, align 8")


def _own_stretch(f: Function, vector: Vector) -> tuple[str, str, str, str]:
    """Where the stretch of this part begins, its number of integers, where these and spares are."""
    x, spare, bounds, _ = _words(f)
    first = _bound(f, bounds, "%part")
    end = _bound(f, bounds, f.emit("add i64 %part, 1"))
    count = f.emit(f"sub i64 {end}, {first}")
    one = vector.element
    return first, count, f.offset(x, one, first), f.offset(spare, one, first)


def _emit_halve(module: Module, vector: Vector) -> None:
    """Split the stretch of a part by the middle of many of its numbers."""
    one, size = vector.element, VECTORS * vector.lanes
    f = _function(module, f"halve_{one}", PART)
    first, count, x, y = _own_stretch(f, vector)
    _, _, _, halves = _words(f)
    taken = f.reserve(f"[{size} x {one}]", 64)
    slot = f.offset(halves, "i64", f.emit("mul i64 %part, 2"))
    f.do(f"store i64 {first}, ptr {slot}, align 8")
    middle = f.offset(slot, "i64", "1")
    f.do(f"store i64 {first}, ptr {middle}, align 8")
    large, short, done = f.label("large"), f.label("short"), f.label("halved")
    is_large = f.emit(f"icmp sgt i64 {count}, {size}")
    f.do(f"br i1 {is_large}, label %{large}, label %{short}")
    f.start_block(short)
    nbytes = f.emit(f"mul i64 {count}, {vector.bits // 8}")
    f.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {y}, ptr {x}, i64 {nbytes}, i1 false)")
    f.do(f"br label %{done}")
    f.start_block(large)
    with f.loop("0", str(size)) as loop:
        place = f.emit(f"udiv i64 {f.emit(f'mul i64 {loop.index}, {count}')}, {size}")
        number = f.emit(f"load {one}, ptr {f.offset(x, one, place)}, align {vector.bits // 8}")
        there = f.offset(taken, one, loop.index)
        f.do(f"store {one} {number}, ptr {there}, align {vector.bits // 8}")
    f.do(f"call void @small_{one}(ptr {taken}, ptr {taken}, i64 {size})")
    pivot = f.offset(taken, one, str(size // 2))
    pivot = f.emit(f"load {one}, ptr {pivot}, align {vector.bits // 8}")
    given = f"ptr {x}, ptr {y}, i64 {count}, {one} {pivot}"
    below = f.emit(f"call i64 @split_{one}({given})")
    f.do(f"store i64 {f.emit(f'add i64 {first}, {below}')}, ptr {middle}, align 8")
    f.go_on(done)
    f.do("ret void")


def _emit_stretch(module: Module, vector: Vector) -> None:
    """Sort the stretch of a part."""
    f = _function(module, f"stretch_{vector.element}", PART)
    _, count, x, y = _own_stretch(f, vector)
    is_back = "true" if LEVELS % 2 == 0 else "false"
    f.do(f"call void @serial_{vector.element}(ptr {x}, ptr {y}, i64 {count}, i1 {is_back})")
    f.do("ret void")


def _emit_shared(module: Module, vector: Vector) -> None:
    """Split integers a few times with more and more threads, then share the stretches."""
    one, most = vector.element, 1 << LEVELS
    parameters = "ptr %x, ptr %spare, i64 %count, i64 %parts"
    f = _function(module, f"quick_{one[1:]}", parameters)
    shared, alone, done = f.label("shared"), f.label("alone"), f.label("sorted")
    threads = f.emit(f"udiv i64 %count, {SHARED}")
    threads = f.intrinsic("umin", Vector("int64"), threads, "%parts")
    f.do(f"br i1 {f.emit(f'icmp ugt i64 {threads}, 1')}, label %{shared}, label %{alone}")
    f.start_block(alone)
    f.do(f"call void @serial_{one}(ptr %x, ptr %spare, i64 %count, i1 true)")
    f.do(f"br label %{done}")
    f.start_block(shared)
    job = f.reserve(JOB, 8)
    bounds = [f.reserve(f"[{most + 1} x i64]", 8) for _ in range(2)]
    f.do(f"store i64 0, ptr {bounds[0]}, align 8")
    for level in range(LEVELS + 1):
        leave_if_long(f, "%count")
        old, new = bounds[level % 2], bounds[1 - level % 2]
        end = f.offset(old, "i64", str(1 << level))
        f.do(f"store i64 %count, ptr {end}, align 8")
        f.do(f"store ptr {old}, ptr {f.offset(job, 'ptr', '2')}, align 8")
        f.do(f"store ptr {new}, ptr {f.offset(job, 'ptr', '3')}, align 8")
        pair = ("%x", "%spare") if level % 2 == 0 else ("%spare", "%x")
        for i, pointer in enumerate(pair):
            f.do(f"store ptr {pointer}, ptr {f.offset(job, 'ptr', str(i))}, align 8")
        kernel = "halve" if level < LEVELS else "stretch"
        parallel(f, f"@{kernel}_{one}", job, str(1 << level))
    f.go_on(done)
    f.do("ret void")
