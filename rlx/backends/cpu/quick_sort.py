"""Signed integers in order, many at a time: for processors that compress vectors.

A stretch is split by one of its numbers: those below stay at its front, the others go to spare
memory and from there behind them. Short stretches are sorted in registers. Equal integers cannot be
told apart, so what comes out depends on the integers alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .code import Function, Module, Vector
from .host import Host
from .interleave import interleaved
from .lanes import first_lanes
from .pool import parallel

VECTORS = 8  # sorted in registers at most
SHARED = 1 << 14  # integers that pay for one more thread
LEVELS = 4  # of splitting a shared stretch: each part of it is sorted by one thread
MIXED = 0x9E3779B97F4A7C15 - (1 << 64)  # multiplied by it, neighbors are far apart
KERNEL = "nounwind #0"
PARTS = (("ptr noalias nocapture readonly", "%job"), ("i64", "%part"), ("i64", "%parts"))


def has_quick_sort(host: Host) -> bool:
    """Whether a processor puts chosen lanes of a vector side by side in one instruction."""
    return host.vector_bytes == 64


def quick_sort(module: Module, bits: int) -> str:
    """The function `void (ptr integers, ptr spare, i64 count, i64 parts)`, written once."""
    name = f"quick_{bits}"
    if name not in module.shared:
        module.shared[name] = name
        vector = Vector(f"int{bits}", 512 // bits)
        _emit_small(module, vector)
        _emit_pivot(module, vector)
        _emit_split(module, vector)
        _emit_serial(module, vector)
        _emit_halve(module, vector)
        _emit_stretch(module, vector)
        _emit_shared(module, vector)
    return f"@{name}"


def _function(
    module: Module, name: str, parameters: Sequence[tuple[str, str]], returns: str = "void"
) -> Function:
    return module.function(name, parameters, returns, KERNEL, "internal")


# -- in registers -------------------------------------------------------------------------------


def _emit_small(module: Module, vector: Vector) -> None:
    """`small(integers, count)`: sort what fits in the fewest registers."""
    f = _function(module, f"small_{vector.element}", [("ptr", "%x"), ("i64", "%count")])
    done, vectors = f.label("sorted"), 1
    while vectors <= VECTORS:
        fits, larger = f.label("fits"), f.label("larger")
        if vectors < VECTORS:
            is_enough = f.emit(f"icmp sle i64 %count, {vectors * vector.lanes}")
            f.do(f"br i1 {is_enough}, label %{fits}, label %{larger}")
        else:
            f.do(f"br label %{fits}")
        f.start_block(fits)
        _sort_vectors(f, vector, vectors)
        f.do(f"br label %{done}")
        if vectors < VECTORS:
            f.start_block(larger)
        vectors *= 2
    f.start_block(done)
    f.do("ret void")


def _sort_vectors(f: Function, vector: Vector, count: int) -> None:
    """Load vectors, sort them, and store them, as many integers as there are."""
    lanes, most = vector.lanes, f.constant(vector, np.iinfo(vector.dtype).max)
    masks, places, xs = [], [], []
    for i in range(count):
        left = f.emit(f"sub i64 %count, {i * lanes}")
        masks.append(first_lanes(f, lanes, left))
        places.append(f.offset("%x", vector.element, str(i * lanes)))
        xs.append(load(f, vector, places[-1], masks[-1], most))
    size = 2
    while size <= count * lanes:
        xs = _exchanged(f, vector, xs, size - 1)
        step = size // 4
        while step:
            xs = _exchanged(f, vector, xs, step)
            step //= 2
        size *= 2
    for x, place, mask in zip(interleaved(f, vector, xs), places, masks, strict=True):
        store(f, vector, x, place, mask)


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
    order = ", ".join(f"i32 {lane ^ lanes}" for lane in range(vector.lanes))
    top = 1 << (lanes.bit_length() - 1)
    first = ", ".join(f"i1 {'false' if lane & top else 'true'}" for lane in range(vector.lanes))
    result = []
    for i in range(count):
        y = xs[i ^ turned]
        kind = f"{vector.text} {y}, {vector.text} poison, <{vector.lanes} x i32> <{order}>"
        y = f.emit(f"shufflevector {kind}")
        low, high = (f.intrinsic(name, vector, xs[i], y) for name in ("smin", "smax"))
        mask = f"<{vector.lanes} x i1> <{first}>"
        result.append(f.emit(f"select {mask}, {vector.text} {low}, {vector.text} {high}"))
    return result


def load(f: Function, vector: Vector, place: str, mask: str | None, other: str = "poison") -> str:
    """Load the lanes in a mask, and others as `other`; None: all lanes."""
    if mask is None:
        return f.emit(f"load {vector.text}, ptr {place}, align {_size(vector)}")
    name, bits = f"@llvm.masked.load.{vector.mangled}.p0", Vector("bool", vector.lanes).text
    f.declarations.add(f"declare {vector.text} {name}(ptr, {bits}, {vector.text})")
    given = f"ptr align {_size(vector)} {place}, {bits} {mask}, {vector.text} {other}"
    return f.emit(f"call {vector.text} {name}({given})")


def store(f: Function, vector: Vector, x: str, place: str, mask: str | None) -> None:
    """Store the lanes in a mask; None: all lanes."""
    if mask is None:
        f.do(f"store {vector.text} {x}, ptr {place}, align {_size(vector)}")
        return
    name, bits = f"@llvm.masked.store.{vector.mangled}.p0", Vector("bool", vector.lanes).text
    f.declarations.add(f"declare void {name}({vector.text}, ptr, {bits})")
    f.do(f"call void {name}({vector.text} {x}, ptr align {_size(vector)} {place}, {bits} {mask})")


def _size(vector: Vector) -> int:
    return int(vector.element[1:]) // 8


# -- splitting ----------------------------------------------------------------------------------


def _emit_pivot(module: Module, vector: Vector) -> None:
    """`pivot(integers, count)`: the middle one of some, taken from all over."""
    one, lanes = vector.element, vector.lanes
    parameters = [("ptr", "%x"), ("i64", "%count")]
    f = _function(module, f"pivot_{one}", parameters, one)
    taken = f.reserve(f"[{lanes} x {one}]", 64)
    with f.loop("0", str(lanes)) as loop:
        mixed = f.emit(f"add i64 {loop.index}, %count")
        mixed = f.emit(f"lshr i64 {f.emit(f'mul i64 {mixed}, {MIXED}')}, 32")
        place = f.emit(f"lshr i64 {f.emit(f'mul i64 {mixed}, %count')}, 32")
        number = f.emit(f"load {one}, ptr {f.offset('%x', one, place)}, align {_size(vector)}")
        f.do(f"store {one} {number}, ptr {f.offset(taken, one, loop.index)}, align {_size(vector)}")
    f.do(f"call void @small_{one}(ptr {taken}, i64 {lanes})")
    middle = f.offset(taken, one, str(lanes // 2))
    f.do(f"ret {one} {f.emit(f'load {one}, ptr {middle}, align {_size(vector)}')}")


def _emit_split(module: Module, vector: Vector) -> None:
    """`split(integers, spare, count, pivot)`: those below the pivot first; gives their number."""
    one, text, lanes = vector.element, vector.text, vector.lanes
    parameters = [("ptr", "%x"), ("ptr", "%spare"), ("i64", "%count"), (one, "%pivot")]
    f = _function(module, f"split_{one}", parameters, "i64")
    pivots, align = f.splat("%pivot", vector), f"align {_size(vector)}"
    left = f.emit(f"urem i64 %count, {lanes}")
    whole = f.emit(f"sub i64 %count, {left}")
    with f.loop("0", whole, str(lanes), [("i64", "0"), ("i64", "0")]) as loop:
        below, above = loop.values
        x = f.emit(f"load {text}, ptr {f.offset('%x', one, loop.index)}, {align}")
        is_below = f.emit(f"icmp slt {text} {x}, {pivots}")
        f.do(f"store {text} {_compressed(f, vector, x, is_below)}, "
             f"ptr {f.offset('%x', one, below)}, {align}")  # fmt: skip
        others = f.emit(f"xor <{lanes} x i1> {is_below}, splat (i1 true)")
        f.do(f"store {text} {_compressed(f, vector, x, others)}, "
             f"ptr {f.offset('%spare', one, above)}, {align}")  # fmt: skip
        count = _counted(f, vector, is_below)
        below = f.emit(f"add i64 {below}, {count}")
        loop.next = [below, f.emit(f"sub i64 {f.emit(f'add i64 {loop.index}, {lanes}')}, {below}")]
    below, above = loop.values
    mask = first_lanes(f, lanes, left)
    x = load(f, vector, f.offset("%x", one, whole), mask, f.constant(vector, 0))
    is_below = f.emit(f"icmp slt {text} {x}, {pivots}")
    is_below = f.emit(f"and <{lanes} x i1> {is_below}, {mask}")
    others = f.emit(f"xor <{lanes} x i1> {is_below}, {mask}")
    for held, start in ((is_below, f.offset("%x", one, below)),
                        (others, f.offset("%spare", one, above))):  # fmt: skip
        number = _counted(f, vector, held)
        store(f, vector, _compressed(f, vector, x, held), start, first_lanes(f, lanes, number))
    below = f.emit(f"add i64 {below}, {_counted(f, vector, is_below)}")
    above = f.emit(f"sub i64 %count, {below}")
    nbytes = f.emit(f"mul i64 {above}, {_size(vector)}")
    f.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    end = f.offset("%x", one, below)
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {end}, ptr %spare, i64 {nbytes}, i1 false)")
    f.do(f"ret i64 {below}")


def _compressed(f: Function, vector: Vector, x: str, mask: str) -> str:
    """The lanes in the mask side by side."""
    name, bits = f"@llvm.experimental.vector.compress.{vector.mangled}", f"<{vector.lanes} x i1>"
    f.declarations.add(f"declare {vector.text} {name}({vector.text}, {bits}, {vector.text})")
    given = f"{vector.text} {x}, {bits} {mask}, {vector.text} poison"
    return f.emit(f"call {vector.text} {name}({given})")


def _counted(f: Function, vector: Vector, mask: str) -> str:
    word = f.emit(f"bitcast <{vector.lanes} x i1> {mask} to i{vector.lanes}")
    return f.intrinsic("ctpop", Vector("int64"), f.emit(f"zext i{vector.lanes} {word} to i64"))


def _emit_serial(module: Module, vector: Vector) -> None:
    """`serial(integers, spare, count)`: split until what is left fits in registers.

    The shorter half is done by a call, so that calls are not nested deep.
    """
    one = vector.element
    parameters = [("ptr", "%given"), ("ptr", "%spare"), ("i64", "%all")]
    f = _function(module, f"serial_{one}", parameters)
    before, head, small, large = f.block, f.label("head"), f.label("small"), f.label("large")
    f.do(f"br label %{head}")
    f.start_block(head)
    place = len(f.lines)
    x, count = f.fresh("x"), f.fresh("count")
    is_small = f.emit(f"icmp sle i64 {count}, {VECTORS * vector.lanes}")
    f.do(f"br i1 {is_small}, label %{small}, label %{large}")
    f.start_block(small)
    f.do(f"call void @small_{one}(ptr {x}, i64 {count})")
    f.do("ret void")
    f.start_block(large)
    pivot = f.emit(f"call {one} @pivot_{one}(ptr {x}, i64 {count})")
    below = f.emit(f"call i64 @split_{one}(ptr {x}, ptr %spare, i64 {count}, {one} {pivot})")
    above = f.emit(f"sub i64 {count}, {below}")
    behind = f.offset(x, one, below)
    halves, equal, latch = f.label("halves"), f.label("equal"), f.label("latch")
    f.do(f"br i1 {f.emit(f'icmp eq i64 {below}, 0')}, label %{equal}, label %{halves}")
    f.start_block(halves)
    is_front = f.emit(f"icmp sle i64 {below}, {above}")
    shorter = f.emit(f"select i1 {is_front}, ptr {x}, ptr {behind}")
    few = f.intrinsic("smin", Vector("int64"), below, above)
    f.do(f"call void @serial_{one}(ptr {shorter}, ptr %spare, i64 {few})")
    longer = f.emit(f"select i1 {is_front}, ptr {behind}, ptr {x}")
    many = f.intrinsic("smax", Vector("int64"), below, above)
    f.do(f"br label %{latch}")
    f.start_block(equal)
    same = _equal_front(f, vector, x, count, pivot)
    rest = f.offset(x, one, same)
    fewer = f.emit(f"sub i64 {count}, {same}")
    ended = f.block
    f.do(f"br label %{latch}")
    f.start_block(latch)
    following = f.emit(f"phi ptr [ {longer}, %{halves} ], [ {rest}, %{ended} ]")
    left = f.emit(f"phi i64 [ {many}, %{halves} ], [ {fewer}, %{ended} ]")
    f.do(f"br label %{head}")
    f.lines[place:place] = [
        f"  {x} = phi ptr [ %given, %{before} ], [ {following}, %{latch} ]",
        f"  {count} = phi i64 [ %all, %{before} ], [ {left}, %{latch} ]",
    ]


def _equal_front(f: Function, vector: Vector, x: str, count: str, pivot: str) -> str:
    """Move what equals the least number, the pivot, to the front; gives how many there are."""
    one = vector.element
    some, done = f.label("some"), f.label("moved")
    before = f.block
    is_most = f.emit(f"icmp eq {one} {pivot}, {np.iinfo(vector.dtype).max}")
    f.do(f"br i1 {is_most}, label %{done}, label %{some}")
    f.start_block(some)
    above = f.emit(f"add {one} {pivot}, 1")
    equal = f.emit(f"call i64 @split_{one}(ptr {x}, ptr %spare, i64 {count}, {one} {above})")
    f.do(f"br label %{done}")
    f.start_block(done)
    return f.emit(f"phi i64 [ {count}, %{before} ], [ {equal}, %{some} ]")


# -- shared by threads --------------------------------------------------------------------------

# The words of a job: integers, spare memory, where stretches begin, where halves shall begin.
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
    f = _function(module, f"halve_{one}", PARTS)
    first, count, x, spare = _own_stretch(f, vector)
    _, _, _, halves = _words(f)
    taken = f.reserve(f"[{size} x {one}]", 64)
    slot = f.offset(halves, "i64", f.emit("mul i64 %part, 2"))
    f.do(f"store i64 {first}, ptr {slot}, align 8")
    middle = f.offset(slot, "i64", "1")
    f.do(f"store i64 {first}, ptr {middle}, align 8")
    with f.when(f.emit(f"icmp sgt i64 {count}, {size}")):
        with f.loop("0", str(size)) as loop:
            place = f.emit(f"udiv i64 {f.emit(f'mul i64 {loop.index}, {count}')}, {size}")
            number = f.emit(f"load {one}, ptr {f.offset(x, one, place)}, align {_size(vector)}")
            there = f.offset(taken, one, loop.index)
            f.do(f"store {one} {number}, ptr {there}, align {_size(vector)}")
        f.do(f"call void @small_{one}(ptr {taken}, i64 {size})")
        pivot = f.offset(taken, one, str(size // 2))
        pivot = f.emit(f"load {one}, ptr {pivot}, align {_size(vector)}")
        given = f"ptr {x}, ptr {spare}, i64 {count}, {one} {pivot}"
        below = f.emit(f"call i64 @split_{one}({given})")
        f.do(f"store i64 {f.emit(f'add i64 {first}, {below}')}, ptr {middle}, align 8")
    f.do("ret void")


def _emit_stretch(module: Module, vector: Vector) -> None:
    """Sort the stretch of a part."""
    f = _function(module, f"stretch_{vector.element}", PARTS)
    _, count, x, spare = _own_stretch(f, vector)
    f.do(f"call void @serial_{vector.element}(ptr {x}, ptr {spare}, i64 {count})")
    f.do("ret void")


def _emit_shared(module: Module, vector: Vector) -> None:
    """Split integers a few times with more and more threads, then share the stretches."""
    one, most = vector.element, 1 << LEVELS
    parameters = [("ptr", "%x"), ("ptr", "%spare"), ("i64", "%count"), ("i64", "%parts")]
    f = _function(module, f"quick_{one[1:]}", parameters)
    shared, alone, done = f.label("shared"), f.label("alone"), f.label("sorted")
    threads = f.emit(f"udiv i64 %count, {SHARED}")
    threads = f.intrinsic("umin", Vector("int64"), threads, "%parts")
    f.do(f"br i1 {f.emit(f'icmp ugt i64 {threads}, 1')}, label %{shared}, label %{alone}")
    f.start_block(alone)
    f.do(f"call void @serial_{one}(ptr %x, ptr %spare, i64 %count)")
    f.do(f"br label %{done}")
    f.start_block(shared)
    job = f.reserve(JOB, 8)
    bounds = [f.reserve(f"[{most + 1} x i64]", 8) for _ in range(2)]
    for i, pointer in enumerate(("%x", "%spare")):
        f.do(f"store ptr {pointer}, ptr {f.offset(job, 'ptr', str(i))}, align 8")
    f.do(f"store i64 0, ptr {bounds[0]}, align 8")
    for level in range(LEVELS + 1):
        old, new = bounds[level % 2], bounds[1 - level % 2]
        end = f.offset(old, "i64", str(1 << level))
        f.do(f"store i64 %count, ptr {end}, align 8")
        f.do(f"store ptr {old}, ptr {f.offset(job, 'ptr', '2')}, align 8")
        f.do(f"store ptr {new}, ptr {f.offset(job, 'ptr', '3')}, align 8")
        kernel = "halve" if level < LEVELS else "stretch"
        parallel(f, f"@{kernel}_{one}", job, str(1 << level))
    f.do(f"br label %{done}")
    f.start_block(done)
    f.do("ret void")
