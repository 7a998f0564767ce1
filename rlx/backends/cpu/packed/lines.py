"""Lines of x as packed numbers are multiplied by them.

They are prepared block by block, with what all packed lines need of them. Where integers are
multiplied a block has 32 bytes, and of numbers of two bytes 32 lower ones; then the steps that its
halves, or both of them, are multiples of, for each group of numbers with a scale of its own the
sum of x, and what the whole sums of products begin with. Else it has 32 floats in place of the
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.ops.blocks import GREATEST, ROUNDED
from ....ir.record import record
from ..llvm.host import Host
from ..llvm.text import KERNEL, Function, Module, Vector
from ..loops.scalar import horizontal
from .layout import BLOCK, Packed, has

HALF_RANGE = 128
HALF = BLOCK // 2
assert {*ROUNDED.values()} <= {HALF, BLOCK}, "steps are those of blocks or of their halves"


@record
class Method:
    """A way to multiply packed numbers, and the lines of x that it reads."""

    packed: Packed
    compute: str  # the attribute of the op
    kind: str  # "words" of unsigned times signed bytes, "pairs" of such words, or "floats"
    lanes: int  # lines of a tile that a register holds

    @property
    def name(self) -> str:
        """What the names of its functions end with."""
        return f"{self.packed.name}_{self.kind}_{self.compute}"

    @property
    def is_rounded(self) -> bool:
        """Whether x is rounded to whole numbers."""
        return self.compute in GREATEST

    @property
    def digits(self) -> int:
        """The bytes of a whole number."""
        return 2 if self.compute == "int16" else 1

    @property
    def steps(self) -> int:
        """The steps of a block that is rounded."""
        return BLOCK // ROUNDED[self.compute]

    @property
    def sums(self) -> int:
        """The whole sums of products in a block: those of a step and of a scale."""
        return max(self.steps, self.packed.groups)

    @property
    def offset(self) -> int:
        """What the unsigned bytes of packed numbers have too much."""
        if self.kind == "floats" or (self.kind == "pairs" and self.packed.bits == 8):
            return 0
        zero = self.packed.zero
        return HALF_RANGE if self.packed.bits == 8 or zero is None else zero

    def step_place(self, number: int) -> int:
        """The byte of a step."""
        return BLOCK * (4 if self.kind == "floats" else self.digits) + 4 * number

    def sum_place(self, group: int) -> int:
        """The byte of a group's sum of x."""
        return self.step_place(2) + 4 * group

    def start_place(self, number: int) -> int:
        """The byte of what a whole sum begins with."""
        return self.step_place(4) + 4 * number

    @property
    def nbytes(self) -> int:
        """The bytes of a block."""
        return 32 + BLOCK * (4 if self.kind == "floats" else self.digits)


def method_of(packed: Packed, compute: str, host: Host) -> Method:
    """The fastest way of a processor; all give the same bits for x in single bytes."""
    lanes = min(16, max(4, host.lanes(4)))
    kind = "floats"
    if compute in GREATEST:
        has_words = has(host, "avx512vnni") if lanes == 16 else has(host, "avxvnni")
        kind = "words" if has_words else "pairs" if has(host, "avx2") else "floats"
        if kind == "pairs" and compute == "int16" and packed.bits == 8:
            kind = "floats"  # signs cannot be put to bytes of -128
        if kind == "pairs":
            lanes = 8
    return Method(packed, compute, kind, lanes)


def lines_function(module: Module, method: Method) -> str:
    """The function `lines(x, target, count)` that prepares some blocks of x."""
    name = f"lines_{method.name}"
    if name in module.functions:
        return name
    f = module.internal(name, "ptr %x, ptr %target, i64 %count", attributes=KERNEL)
    single = Vector("float32", HALF)
    with f.loop("0", "%count") as blocks:
        begin = f.offset("%x", "float", f.emit(f"mul i64 {blocks.index}, {BLOCK}"))
        end = f.offset("%target", "i8", f.emit(f"mul i64 {blocks.index}, {method.nbytes}"))
        halves = [f.load(single, f.offset(begin, "float", str(place)), 4) for place in (0, HALF)]
        if method.is_rounded:
            sums = _store_rounded(f, method, halves, end)
        else:
            sums = [horizontal(f, "add", single, x) for x in halves]
            for half, x in enumerate(halves):
                f.store(single, x, f.offset(end, "float", str(HALF * half)), 4)
        if method.packed.has_minimum:
            _store_sums(f, method, sums, end)
    f.do("ret void")
    return name


def _store_rounded(f: Function, method: Method, halves: Sequence[str], end: str) -> list[str]:
    """Store a block in whole steps, and these; gives the sums of x in its halves."""
    single, numbers = Vector("float32", HALF), Vector("int32", HALF)
    steps = _steps(f, method, halves)
    for number, step in enumerate(steps[: method.steps]):
        place = f.offset(end, "i8", str(method.step_place(number)))
        f.do(f"store float {step}, ptr {place}, align 4")
    counts, sums = [], []
    for half, (x, step) in enumerate(zip(halves, steps, strict=True)):
        whole = _rounded(f, single, x, step, GREATEST[method.compute])
        found = f.emit(f"fptosi {single.text} {whole} to {numbers.text}")
        if method.kind == "floats":
            f.store(single, whole, f.offset(end, "float", str(HALF * half)), 4)
        else:
            _store_digits(f, method, numbers, found, end, half)
        counts.append(horizontal(f, "add", numbers, found))
        sums.append(f.emit(f"fmul float {f.emit(f'sitofp i32 {counts[-1]} to float')}, {step}"))
    if method.offset:
        if method.sums == 1:
            counts = [f.emit(f"add i32 {counts[0]}, {counts[1]}")]
        for number, count in enumerate(counts):
            start = f.emit(f"mul i32 {count}, {-method.offset}")
            place = f.offset(end, "i8", str(method.start_place(number)))
            f.do(f"store i32 {start}, ptr {place}, align 4")
    return sums


def _store_digits(
    f: Function, method: Method, numbers: Vector, counts: str, end: str, half: int
) -> None:
    """Store the bytes of half a block of whole numbers."""
    if method.digits == 2:
        near = f.emit(f"add {numbers.text} {counts}, {f.constant(numbers, HALF_RANGE)}")
        upper = f.emit(f"ashr {numbers.text} {near}, {f.constant(numbers, 8)}")
        _store_bytes(f, upper, f.offset(end, "i8", str(HALF * half)))
    place = BLOCK * (method.digits - 1) + HALF * half
    _store_bytes(f, counts, f.offset(end, "i8", str(place)))


def _store_bytes(f: Function, numbers: str, place: str) -> None:
    """Store the lowest bytes of half a block of numbers."""
    bytes_ = Vector("int8", HALF)
    few = f.emit(f"trunc {Vector('int32', HALF).text} {numbers} to {bytes_.text}")
    f.store(bytes_, few, place, 4)


def _steps(f: Function, method: Method, halves: Sequence[str]) -> list[str]:
    """The step of each half: NaN if one of the numbers is not finite."""
    numbers, one = Vector("int32", HALF), Vector("float32")
    # sizes of floats are in the order of their bits, NaN after infinity
    bits = [f.emit(f"bitcast {Vector('float32', HALF).text} {x} to {numbers.text}") for x in halves]
    sizes = [f.emit(f"and {numbers.text} {x}, {f.constant(numbers, 0x7FFFFFFF)}") for x in bits]
    if method.steps == 1:
        sizes = [f.intrinsic("smax", numbers, *sizes)]
    steps = []
    for size in sizes:
        most = f.emit(f"bitcast i32 {horizontal(f, 'max', numbers, size)} to float")
        step = f.emit(f"fdiv float {most}, {f.constant(one, GREATEST[method.compute])}")
        nothing = f.emit(f"fsub float {step}, {step}")  # NaN of infinity
        steps.append(f.emit(f"fadd float {step}, {nothing}"))
    return steps * 2 if method.steps == 1 else steps


def _rounded(f: Function, single: Vector, x: str, step: str, greatest: int) -> str:
    """The whole numbers that x is rounded to, in units of a step."""
    step = f.splat(step, single)
    units = f.emit(f"fdiv {single.text} {x}, {step}")
    is_zero = f.emit(f"fcmp oeq {single.text} {step}, {f.constant(single, 0)}")
    whole = f.select(single, is_zero, f.constant(single, 0), units)
    whole = f.intrinsic("roundeven", single, whole)
    whole = f.intrinsic("minnum", single, whole, f.constant(single, greatest))
    return f.intrinsic("maxnum", single, whole, f.constant(single, -greatest))


def _store_sums(f: Function, method: Method, sums: list[str], end: str) -> None:
    """Store the sum of x in each group."""
    if method.packed.groups == 1:
        sums = [f.emit(f"fadd float {sums[0]}, {sums[1]}")]
    for group, total in enumerate(sums):
        place = f.offset(end, "i8", str(method.sum_place(group)))
        f.do(f"store float {total}, ptr {place}, align 4")
