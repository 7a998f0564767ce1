"""Lines of x as packed numbers are multiplied by them.

They are prepared block by block, with what all packed lines need of them. Where integers are
multiplied a block has 32 bytes, the step that they are multiples of, for each group of numbers with
a scale of its own the sum of x, and the number that the sum of products begins with. Else it has 32
floats in place of the bytes.
"""

from __future__ import annotations

from ....ir.record import record
from ..llvm.host import Host
from ..llvm.text import KERNEL, Function, Module, Vector
from ..loops.scalar import horizontal
from .layout import BLOCK, Packed, has

HALF_RANGE = 128


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
        """Whether x is rounded to bytes."""
        return self.compute == "int8"

    @property
    def offset(self) -> int:
        """What the unsigned bytes of packed numbers have too much."""
        if self.kind == "floats" or (self.kind == "pairs" and self.packed.bits == 8):
            return 0
        zero = self.packed.zero
        return HALF_RANGE if self.packed.bits == 8 or zero is None else zero

    @property
    def step_place(self) -> int:
        """The byte of the step in a block."""
        return BLOCK * (4 if self.kind == "floats" else 1)

    def sum_place(self, group: int) -> int:
        """The byte of a group's sum of x."""
        return self.step_place + 4 + 4 * group

    def start_place(self, group: int) -> int:
        """The byte of what a group's sum of products begins with."""
        return self.step_place + 12 + 4 * group

    @property
    def nbytes(self) -> int:
        """The bytes of a block."""
        return 160 if self.kind == "floats" else 64


def method_of(packed: Packed, compute: str, host: Host) -> Method:
    """The fastest way of a processor; all give the same bits for x in bytes."""
    lanes = min(16, max(4, host.lanes(4)))
    kind = "floats"
    if compute == "int8":
        has_words = has(host, "avx512vnni") if lanes == 16 else has(host, "avxvnni")
        kind = "words" if has_words else "pairs" if has(host, "avx2") else "floats"
        if kind == "pairs":
            lanes = 8
    return Method(packed, compute, kind, lanes)


def lines_function(module: Module, method: Method) -> str:
    """The function `lines(x, target, count)` that prepares some blocks of x."""
    name = f"lines_{method.name}"
    if name in module.functions:
        return name
    f = module.internal(name, "ptr %x, ptr %target, i64 %count", attributes=KERNEL)
    single, numbers = Vector("float32", BLOCK), Vector("int32", BLOCK)
    with f.loop("0", "%count") as blocks:
        begin = f.offset("%x", "float", f.emit(f"mul i64 {blocks.index}, {BLOCK}"))
        end = f.offset("%target", "i8", f.emit(f"mul i64 {blocks.index}, {method.nbytes}"))
        x, step = f.load(single, begin, 4), ""
        if method.is_rounded:
            x, step = _rounded(f, single, x)
            f.do(f"store float {step}, ptr {f.offset(end, 'i8', str(method.step_place))}, align 4")
        if method.kind == "floats":
            f.store(single, x, end, 4)
        whole = ""
        if method.is_rounded:
            whole = f.emit(f"fptosi {single.text} {x} to {numbers.text}")
        if method.kind != "floats":
            bytes_ = Vector("int8", BLOCK)
            f.store(bytes_, f.emit(f"trunc {numbers.text} {whole} to {bytes_.text}"), end, 4)
        _sums(f, method, x, whole, step, end)
    f.do("ret void")
    return name


def _rounded(f: Function, single: Vector, x: str) -> tuple[str, str]:
    """The whole numbers that x is rounded to, and their unit: NaN if x is not finite."""
    most = horizontal(f, "max", single, f.intrinsic("fabs", single, x))
    step = f.emit(f"fdiv float {most}, {f.constant(Vector('float32'), 127)}")
    zero = f.constant(single, 0)
    units = f.emit(f"fdiv {single.text} {x}, {f.splat(step, single)}")
    is_zero = f.splat(f.emit(f"fcmp oeq float {step}, {f.constant(Vector('float32'), 0)}"),
                      single.with_dtype("bool"))  # fmt: skip
    whole = f.intrinsic("roundeven", single, f.select(single, is_zero, zero, units))
    whole = f.intrinsic("minnum", single, whole, f.constant(single, 127))
    whole = f.intrinsic("maxnum", single, whole, f.constant(single, -127))
    nothing = f.emit(f"fsub float {step}, {step}")  # NaN of infinity
    return whole, f.emit(f"fadd float {step}, {nothing}")


def _sums(f: Function, method: Method, x: str, whole: str, step: str, end: str) -> None:
    """Store the sums of groups, and what their products begin with."""
    packed = method.packed
    if not (packed.has_minimum or method.offset):
        return
    for group in range(packed.groups):
        some = range(group * packed.group, (group + 1) * packed.group)
        if method.is_rounded:
            part = Vector("int32", packed.group)
            count = horizontal(f, "add", part, f.shuffle(part_of(part), whole, whole, some))
            total = f.emit(f"fmul float {f.emit(f'sitofp i32 {count} to float')}, {step}")
            if method.offset:
                start = f.emit(f"mul i32 {count}, {-method.offset}")
                place = f.offset(end, "i8", str(method.start_place(group)))
                f.do(f"store i32 {start}, ptr {place}, align 4")
        else:
            part = Vector("float32", packed.group)
            total = horizontal(f, "add", part, f.shuffle(part_of(part), x, x, some))
        if packed.has_minimum:
            place = f.offset(end, "i8", str(method.sum_place(group)))
            f.do(f"store float {total}, ptr {place}, align 4")


def part_of(part: Vector) -> Vector:
    """The type of a whole block."""
    return Vector(part.dtype, BLOCK)
