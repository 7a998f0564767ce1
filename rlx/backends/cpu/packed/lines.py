"""Lines of x as packed numbers are multiplied by them.

They are prepared block by block, with what all packed lines need of them. Where integers are
multiplied a block has 32 bytes, and of numbers of two bytes 32 lower ones; then the steps that its
halves are multiples of, for each group of numbers with a scale of its own the sum of x, and what
the products of each half are added to. Else it has 32 floats in place of the bytes.
"""

from __future__ import annotations

from ....ir.ops.blocks import GREATEST, ROUNDED
from ....ir.record import record
from ..llvm.host import Host
from ..llvm.text import KERNEL, Function, Module, Vector
from ..loops.scalar import horizontal
from .layout import BLOCK, Packed, has

HALF_RANGE = 128
HALF = 16  # numbers of x that are rounded together
assert HALF == ROUNDED, "a step is that of half a block"


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
    def offset(self) -> int:
        """What the unsigned bytes of packed numbers have too much."""
        if self.kind == "floats" or (self.kind == "pairs" and self.packed.bits == 8):
            return 0
        zero = self.packed.zero
        return HALF_RANGE if self.packed.bits == 8 or zero is None else zero

    def step_place(self, half: int) -> int:
        """The byte of the step of a half of a block."""
        return BLOCK * (4 if self.kind == "floats" else self.digits) + 4 * half

    def sum_place(self, group: int) -> int:
        """The byte of a group's sum of x."""
        return self.step_place(2) + 4 * group

    def start_place(self, half: int) -> int:
        """The byte of what the products of a half are added to."""
        return self.step_place(4) + 4 * half

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
        sums = []
        for half in range(BLOCK // HALF):
            x = f.load(single, f.offset(begin, "float", str(HALF * half)), 4)
            if method.is_rounded:
                sums.append(_store_rounded(f, method, x, end, half))
                continue
            f.store(single, x, f.offset(end, "float", str(HALF * half)), 4)
            sums.append(horizontal(f, "add", single, x))
        if method.packed.has_minimum:
            _store_sums(f, method, sums, end)
    f.do("ret void")
    return name


def _store_rounded(f: Function, method: Method, x: str, end: str, half: int) -> str:
    """Store half a block in whole steps, and the step; gives the sum of x."""
    single, numbers = Vector("float32", HALF), Vector("int32", HALF)
    whole, step = _rounded(f, single, x, GREATEST[method.compute])
    f.do(f"store float {step}, ptr {f.offset(end, 'i8', str(method.step_place(half)))}, align 4")
    counts = f.emit(f"fptosi {single.text} {whole} to {numbers.text}")
    if method.kind == "floats":
        f.store(single, whole, f.offset(end, "float", str(HALF * half)), 4)
    else:
        if method.digits == 2:
            near = f.emit(f"add {numbers.text} {counts}, {f.constant(numbers, HALF_RANGE)}")
            upper = f.emit(f"ashr {numbers.text} {near}, {f.constant(numbers, 8)}")
            _store_bytes(f, upper, f.offset(end, "i8", str(HALF * half)))
        place = BLOCK * (method.digits - 1) + HALF * half
        _store_bytes(f, counts, f.offset(end, "i8", str(place)))
    count = horizontal(f, "add", numbers, counts)
    if method.offset:
        start = f.emit(f"mul i32 {count}, {-method.offset}")
        f.do(
            f"store i32 {start}, ptr {f.offset(end, 'i8', str(method.start_place(half)))}, align 4"
        )
    return f.emit(f"fmul float {f.emit(f'sitofp i32 {count} to float')}, {step}")


def _store_bytes(f: Function, numbers: str, place: str) -> None:
    """Store the lowest bytes of half a block of numbers."""
    bytes_ = Vector("int8", HALF)
    few = f.emit(f"trunc {Vector('int32', HALF).text} {numbers} to {bytes_.text}")
    f.store(bytes_, few, place, 4)


def _rounded(f: Function, single: Vector, x: str, greatest: int) -> tuple[str, str]:
    """The whole numbers that x is rounded to, and their unit: NaN if x is not finite."""
    one = Vector("float32")
    most = horizontal(f, "max", single, f.intrinsic("fabs", single, x))
    step = f.emit(f"fdiv float {most}, {f.constant(one, greatest)}")
    units = f.emit(f"fdiv {single.text} {x}, {f.splat(step, single)}")
    is_zero = f.emit(f"fcmp oeq float {step}, {f.constant(one, 0)}")
    is_zero = f.splat(is_zero, single.with_dtype("bool"))
    whole = f.select(single, is_zero, f.constant(single, 0), units)
    whole = f.intrinsic("roundeven", single, whole)
    whole = f.intrinsic("minnum", single, whole, f.constant(single, greatest))
    whole = f.intrinsic("maxnum", single, whole, f.constant(single, -greatest))
    nothing = f.emit(f"fsub float {step}, {step}")  # NaN of infinity
    return whole, f.emit(f"fadd float {step}, {nothing}")


def _store_sums(f: Function, method: Method, sums: list[str], end: str) -> None:
    """Store the sum of x in each group."""
    if method.packed.groups == 1:
        sums = [f.emit(f"fadd float {sums[0]}, {sums[1]}")]
    for group, total in enumerate(sums):
        place = f.offset(end, "i8", str(method.sum_place(group)))
        f.do(f"store float {total}, ptr {place}, align 4")
