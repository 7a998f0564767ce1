"""The tile: some lines of x by the 16 packed lines of a tile, summed in registers.

Each sum is the same for any number of lines of x: block after block, `scale * products`, then
`minimum * sum`. The products of each half of a block are added in whole numbers, in units of a
step, or as a chain of floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ....ir.types import as_dtype
from ..llvm.text import KERNEL, Function, Module, Vector
from .layout import BLOCK, LINES, WORD, Packed
from .lines import HALF_RANGE, Method

PARAMETERS = "ptr %w, ptr %lines, i64 %line, ptr %out, i64 %out_line, i64 %depth, i64 %count"
AHEAD = 8  # blocks that are fetched before they are used
FIFTEEN = 0x0F0F0F0F
SIGNS = -0x7F7F7F80  # the upper bits of all bytes


def tile_function(module: Module, method: Method, rows: int) -> str:
    """The function that multiplies some lines of x by a tile.

    `count` lines of it are stored, `line` are the bytes between lines of x, `out_line` the numbers
    between those of the result, `depth` is the number of blocks.
    """
    name = f"tile_{method.name}_{rows}"
    if name in module.functions:
        return name
    f = module.internal(name, PARAMETERS, attributes=KERNEL)
    starts = ["%lines"]
    for _ in range(rows - 1):
        starts.append(f.offset(starts[-1], "i8", "%line"))
    for first in range(0, LINES, method.lanes):
        sums = _sum(f, method, starts, first)
        _store(f, method, sums, first)
    f.do("ret void")
    return name


def _sum(f: Function, method: Method, starts: Sequence[str], first: int) -> list[str]:
    """The sums of one register of lines for each line of x."""
    packed, single = method.packed, Vector("float32", method.lanes)
    zero, count = f.constant(single, 0), len(starts)
    carried = [("ptr", "%w"), *[(single.text, zero)] * count]
    end = f.emit(f"mul i64 %depth, {method.nbytes}")
    with f.loop("0", end, str(method.nbytes), carried) as loop:
        w, *sums = loop.values
        lines = [f.offset(start, "i8", loop.index) for start in starts]
        for place in range(0, packed.nbytes, 64) if not first else ():
            f.prefetch(f.offset(w, "i8", str(AHEAD * packed.nbytes + place)))
        factors = [_factors(f, method, w, group, first) for group in range(packed.groups)]
        halves = PRODUCTS[method.kind](f, method, w, lines, first)
        found = zip(lines, sums, halves, strict=True)  # made as they are asked for
        sums = [_added_up(f, method, factors, *each) for each in found]
        loop.next = [f.offset(w, "i8", str(packed.nbytes)), *sums]
    return loop.values[1:]


def _factors(f: Function, method: Method, w: str, group: int, first: int) -> list[str]:
    """The scales of a group, and the minima, if there are any."""
    packed = method.packed
    places = [packed.scale_place(group)]
    if packed.has_minimum:
        places.append(packed.minimum_place(group))
    return [_floats(f, packed, method, w, place, first) for place in places]


def _added_up(
    f: Function,
    method: Method,
    factors: Sequence[Sequence[str]],
    line: str,
    total: str,
    halves: Sequence[str],
) -> str:
    """The sums of a line of x with the products of a block, times their scales."""
    single = Vector("float32", method.lanes)
    for group, product in enumerate(_of_groups(f, method, line, halves)):
        scale, *minima = factors[group]
        total = f.intrinsic("fmuladd", single, scale, product, total)
        for minimum in minima:
            summed = _spread(f, single, line, method.sum_place(group))
            total = f.intrinsic("fmuladd", single, minimum, summed, total)
    return total


def _of_groups(f: Function, method: Method, line: str, halves: Sequence[str]) -> list[str]:
    """The products of each group, of those of both halves of a block, or of all of it."""
    single = Vector("float32", method.lanes)
    if not method.is_rounded:
        low, high = halves
        return (
            [f.emit(f"fadd {single.text} {low}, {high}")]
            if method.packed.groups == 1
            else [*halves]
        )
    steps = [_spread(f, single, line, method.step_place(i)) for i in range(method.steps)]
    first, *others = zip(halves, steps * (len(halves) // method.steps), strict=True)
    low = f.emit(f"fmul {single.text} {first[0]}, {first[1]}")
    if method.packed.groups == 1:
        return [f.intrinsic("fmuladd", single, *others[0], low) if others else low]
    return [low, *(f.emit(f"fmul {single.text} {x}, {step}") for x, step in others)]


def _floats(f: Function, packed: Packed, method: Method, w: str, place: int, first: int) -> str:
    """Scales or minima of some lines."""
    kind, single = Vector(packed.scale, method.lanes), Vector("float32", method.lanes)
    size = as_dtype(packed.scale).itemsize
    found = f.load(kind, f.offset(w, "i8", str(place + first * size)), size)
    return found if kind == single else f.emit(f"fpext {kind.text} {found} to {single.text}")


def _spread(f: Function, vector: Vector, line: str, place: int) -> str:
    """A number of a line in all lanes."""
    address = f.offset(line, "i8", str(place))
    return f.splat(f.emit(f"load {vector.element}, ptr {address}, align 4"), vector)


def _store(f: Function, method: Method, sums: Sequence[str], first: int) -> None:
    """Store the sums of those lines that there are."""
    single, numbers = Vector("float32", method.lanes), Vector("int64", method.lanes)
    steps = ", ".join(f"i64 {first + i}" for i in range(method.lanes))
    mask = f.emit(f"icmp slt {numbers.text} <{steps}>, {f.splat('%count', numbers)}")
    out = f.offset("%out", "float", str(first))
    for number, total in enumerate(sums):
        place = f.offset(out, "float", f.emit(f"mul i64 %out_line, {number}"))
        f.store(single, total, place, 4, mask)


# -- the products of a block, for each line of x and each half of the block ------------------------


def _words(f: Function, method: Method, w: str, first: int) -> Iterator[str]:
    """The codes of a block, four numbers of a line in each lane."""
    words = Vector("int32", method.lanes)
    for z in range(method.packed.words):
        yield f.load(words, f.offset(w, "i8", str(4 * (LINES * z + first))), 4)


def _bytes(f: Function, method: Method, w: str, first: int) -> Iterator[tuple[int, str]]:
    """The eight words of a block as bytes, each with its number, as they are taken apart.

    They are unsigned, but codes of 8 bits for pairs.
    """
    packed, words = method.packed, Vector("int32", method.lanes)
    for z, found in enumerate(_words(f, method, w, first)):
        if packed.bits == 8:
            signs = f.constant(words, SIGNS)
            is_signed = method.kind == "pairs"
            yield z, found if is_signed else f.emit(f"xor {words.text} {found}, {signs}")
            continue
        upper = f.emit(f"lshr {words.text} {found}, {f.constant(words, 4)}")
        for number, codes in ((z, found), (z + packed.words, upper)):
            codes = f.emit(f"and {words.text} {codes}, {f.constant(words, FIFTEEN)}")
            is_table = packed.zero is None
            yield number, _looked_up(f, packed, words, codes) if is_table else codes


def _looked_up(f: Function, packed: Packed, words: Vector, codes: str) -> str:
    """What codes in bytes stand for, as bytes that are too large by half of the range."""
    kind = Vector("uint8", 4 * words.lanes)
    table = ", ".join(f"i8 {v + HALF_RANGE}" for v in packed.values * (kind.lanes // 16))
    codes = f.emit(f"bitcast {words.text} {codes} to {kind.text}")
    name = "@llvm.x86.avx512.pshuf.b.512"
    found = f.call(kind.text, name, (kind.text, f"<{table}>"), (kind.text, codes))
    return f.emit(f"bitcast {kind.text} {found} to {words.text}")


def _of_words(
    f: Function, method: Method, w: str, lines: Sequence[str], first: int
) -> Iterator[list[str]]:
    """Unsigned bytes of packed numbers times signed ones of x, four at a time added to a sum.

    As many sums grow side by side as there are registers: each waits for its last addition.
    """
    words = Vector("int32", method.lanes)
    kind, name = words.text, f"@llvm.x86.avx512.vpdpbusd.{32 * method.lanes}"
    digits, count = range(method.digits), max(1, method.lanes // (method.sums * method.digits))
    for begin in range(0, len(lines), count):
        some = lines[begin : begin + count]
        sums = {
            (line, number, digit): _start(f, method, line, number, digit)
            for digit in digits
            for number in range(method.sums)
            for line in some
        }
        for z, part in _bytes(f, method, w, first):
            for digit, line in itertools.product(digits, some):
                key = line, z * WORD * method.sums // BLOCK, digit
                x = _spread(f, words, line, BLOCK * digit + WORD * z)
                sums[key] = f.call(kind, name, (kind, sums[key]), (kind, part), (kind, x))
        for line in some:
            found = ([sums[line, i, digit] for digit in digits] for i in range(method.sums))
            yield [_of_digits(f, method, each) for each in found]


def _of_pairs(
    f: Function, method: Method, w: str, lines: Sequence[str], first: int
) -> Iterator[list[str]]:
    """The same in two steps: pairs of products in 16 bits, and pairs of these."""
    words = Vector("int32", method.lanes)
    parts = [part for _, part in sorted(_bytes(f, method, w, first))]
    count = len(parts) // method.sums
    for line in lines:
        found = []
        for number in range(method.sums):
            some, sums = parts[number * count : (number + 1) * count], []
            for digit in range(method.digits):
                place = BLOCK * digit + WORD * count * number
                xs = [_spread(f, words, line, place + WORD * z) for z in range(count)]
                start = _start(f, method, line, number, digit)
                sums.append(_dot_of_pairs(f, method, some, xs, start))
            found.append(_of_digits(f, method, sums))
        yield found


def _start(f: Function, method: Method, line: str, number: int, digit: int) -> str:
    """What a whole sum of products with a digit of x begins with."""
    words = Vector("int32", method.lanes)
    if not method.offset or digit < method.digits - 1:
        return f.constant(words, 0)
    return _spread(f, words, line, method.start_place(number))


def _of_digits(f: Function, method: Method, sums: Sequence[str]) -> str:
    """A whole sum as floats: that with upper bytes of x, times 256, and that with lower ones."""
    words, single = Vector("int32", method.lanes), Vector("float32", method.lanes)
    total, *lower = sums
    for each in lower:
        total = f.emit(f"shl {words.text} {total}, {f.constant(words, 8)}")
        total = f.emit(f"add {words.text} {total}, {each}")
    return f.emit(f"sitofp {words.text} {total} to {single.text}")


def _dot_of_pairs(
    f: Function, method: Method, parts: Sequence[str], xs: Sequence[str], total: str
) -> str:
    """Bytes times bytes, added to a sum.

    Pairs of signed bytes are the sizes of the packed numbers times x with their signs.
    """
    words, is_signed = Vector("int32", method.lanes), method.packed.bits == 8
    bytes_, shorts = Vector("int8", 4 * method.lanes), Vector("int16", 2 * method.lanes)
    found = []
    for part, x in zip(parts, xs, strict=True):
        part, x = (f.emit(f"bitcast {words.text} {y} to {bytes_.text}") for y in (part, x))
        if is_signed:
            given = (bytes_.text, x), (bytes_.text, part)
            x = f.call(bytes_.text, "@llvm.x86.avx2.psign.b", *given)
            part = _size(f, bytes_, part)
        given = (bytes_.text, part), (bytes_.text, x)
        found.append(f.call(shorts.text, "@llvm.x86.avx2.pmadd.ub.sw", *given))
    return _added(f, shorts, words, found, is_signed, total)


def _size(f: Function, bytes_: Vector, x: str) -> str:
    name = f"@llvm.abs.{bytes_.mangled}"
    return f.call(bytes_.text, name, (bytes_.text, x), ("i1", "false"))


def _added(
    f: Function, shorts: Vector, words: Vector, found: list[str], is_signed: bool, start: str
) -> str:
    """The sum of pairs of 16-bit numbers.

    Four of those of codes of 4 bits fit in 16 bits.
    """
    if not is_signed:
        total = found[0]
        for x in found[1:]:
            total = f.emit(f"add {shorts.text} {total}, {x}")
        found = [total]
    ones = f.constant(shorts, 1)
    for x in found:
        given = (shorts.text, x), (shorts.text, ones)
        x = f.call(words.text, "@llvm.x86.avx2.pmadd.wd", *given)
        start = f.emit(f"add {words.text} {start}, {x}")
    return start


def _of_floats(
    f: Function, method: Method, w: str, lines: Sequence[str], first: int
) -> list[list[str]]:
    """Floats times floats, number after number, in two chains."""
    packed, single = method.packed, Vector("float32", method.lanes)
    words = list(_words(f, method, w, first))
    zero = f.constant(single, 0)
    sums = [[zero, zero] for _ in lines]
    for place in range(BLOCK // 2):
        z, byte = divmod(place, WORD)
        for half in (0, 1):
            if packed.bits == 4:
                number = _few(f, method, words[z], 8 * byte + 4 * half)
            else:
                number = _signed(f, method, words[z + 4 * half], byte)
            for line, total in zip(lines, sums, strict=True):
                x = _spread(f, single, line, 4 * (place + BLOCK // 2 * half))
                total[half] = f.intrinsic("fmuladd", single, number, x, total[half])
    return sums


def _few(f: Function, method: Method, words: str, shift: int) -> str:
    """What codes of 4 bits stand for, as floats."""
    packed, single = method.packed, Vector("float32", method.lanes)
    kind = Vector("int32", method.lanes)
    codes = words
    if shift:
        codes = f.emit(f"lshr {kind.text} {words}, {f.constant(kind, shift)}")
    if method.lanes == 16:
        table = ", ".join(f"float {v}.0" for v in packed.values)
        given = (single.text, f"<{table}>"), (kind.text, codes)
        return f.call(single.text, "@llvm.x86.avx512.permvar.sf.512", *given)
    codes = f.emit(f"and {kind.text} {codes}, {f.constant(kind, 15)}")
    assert packed.zero is not None, "a table needs wide registers"
    if packed.zero:
        codes = f.emit(f"sub {kind.text} {codes}, {f.constant(kind, packed.zero)}")
    return f.emit(f"sitofp {kind.text} {codes} to {single.text}")


def _signed(f: Function, method: Method, words: str, byte: int) -> str:
    """One of four signed bytes as floats."""
    single, kind = Vector("float32", method.lanes), Vector("int32", method.lanes)
    if byte < WORD - 1:
        words = f.emit(f"shl {kind.text} {words}, {f.constant(kind, 24 - 8 * byte)}")
    words = f.emit(f"ashr {kind.text} {words}, {f.constant(kind, 24)}")
    return f.emit(f"sitofp {kind.text} {words} to {single.text}")


PRODUCTS = {"words": _of_words, "pairs": _of_pairs, "floats": _of_floats}
