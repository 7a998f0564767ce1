"""Scalar instructions of LIR as LLVM vector code; reductions of numbers and lanes.

Half floats live in registers as float32: they are widened when loaded and rounded when stored or
converted. Booleans live as `i1` and lie in memory as bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....ir.types import as_dtype, empty_result
from ..formulas.functions import MATH, emit_math
from ..llvm.text import Function, Vector

HALVES = ("float16", "bfloat16")
Emit = Callable[..., str]


def register(dtype: str, lanes: int) -> Vector:
    """The type of a dtype's numbers in registers."""
    return Vector("float32" if dtype in HALVES else dtype, lanes)


def emit_instruction(
    f: Function, instruction: str, dtype: str, lanes: int, operand: str, values: list[str]
) -> str:
    """Emit one of `INSTRUCTIONS`; `operand` is the dtype of the last operand."""
    vector = register(operand, lanes)
    if instruction == "convert":
        return convert(f, operand, dtype, lanes, values[0])
    if instruction == "bitcast":
        return bitcast(f, operand, dtype, lanes, values[0])
    if instruction == "select":
        return f.select(vector, *values)
    if instruction in _COMPARE:
        return compare(f, instruction, vector, *values)
    if vector.is_float:
        return _float(f, instruction, vector, values)
    return _integer(f, instruction, vector, values)


# -- floats -------------------------------------------------------------------------------------

_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_FLOAT_INTRINSIC = {
    "max": "maximum",
    "min": "minimum",
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
    "trunc": "trunc",
}


def _float(f: Function, instruction: str, vector: Vector, values: list[str]) -> str:
    if instruction in _FLOAT_BINARY:
        return f.emit(f"{_FLOAT_BINARY[instruction]} {vector.text} {', '.join(values)}")
    if instruction in _FLOAT_INTRINSIC:
        return f.intrinsic(_FLOAT_INTRINSIC[instruction], vector, *values)
    if instruction == "neg":
        return f.emit(f"fneg {vector.text} {values[0]}")
    if instruction == "rsqrt":
        root = f.intrinsic("sqrt", vector, values[0])
        return f.emit(f"fdiv {vector.text} {f.constant(vector, 1)}, {root}")
    if instruction == "sign":
        zero, x = f.constant(vector, 0), values[0]
        one = f.intrinsic("copysign", vector, f.constant(vector, 1), x)
        plain = f.emit(f"fcmp une {vector.text} {x}, {zero}")  # holds for NaN too
        known = f.emit(f"fcmp ord {vector.text} {x}, {x}")
        return f.select(vector, plain, f.select(vector, known, one, x), zero)
    assert instruction in MATH, f"no code for {instruction} on floats"
    return emit_math(f, instruction, vector, *values)


# -- integers and booleans ----------------------------------------------------------------------

_INTEGER_BINARY = ("add", "sub", "mul", "and", "or", "xor")


def _integer(f: Function, instruction: str, vector: Vector, values: list[str]) -> str:
    text, signed = vector.text, vector.is_signed
    zero = f.constant(vector, 0)
    if instruction in _INTEGER_BINARY:
        if vector.dtype == "bool" and instruction in ("add", "mul"):
            instruction = {"add": "or", "mul": "and"}[instruction]
        return f.emit(f"{instruction} {text} {values[0]}, {values[1]}")
    if instruction in ("max", "min"):
        return f.intrinsic(("s" if signed else "u") + instruction, vector, *values)
    if instruction in ("div", "rem"):
        return _divide(f, instruction, vector, *values)
    if instruction in ("shl", "shr_logical", "shr_arithmetic"):
        return _shift(f, instruction, vector, *values)
    if instruction == "neg":
        return f.emit(f"sub {text} {zero}, {values[0]}")
    if instruction == "not":
        return f.emit(
            f"xor {text} {values[0]}, {f.constant(vector, -1 if vector.dtype != 'bool' else 1)}"
        )
    if instruction == "abs":
        given = (text, values[0]), ("i1", "false")
        return f.call(text, f"@llvm.abs.{vector.mangled}", *given) if signed else values[0]
    if instruction == "sign":
        above = f.emit(f"icmp {'sgt' if signed else 'ugt'} {text} {values[0]}, {zero}")
        mask = Vector("bool", vector.lanes).text
        positive = f.emit(f"zext {mask} {above} to {text}")
        if not signed:
            return positive
        below = f.emit(f"ashr {text} {values[0]}, {f.constant(vector, vector.bits - 1)}")
        return f.emit(f"or {text} {positive}, {below}")
    if instruction == "popcount":
        return f.intrinsic("ctpop", vector, values[0])
    if instruction == "clz":
        return f.call(text, f"@llvm.ctlz.{vector.mangled}", (text, values[0]), ("i1", "false"))
    assert instruction in ("floor", "ceil", "round", "trunc"), (
        f"no code for {instruction} on integers"
    )
    return values[0]


def _divide(f: Function, instruction: str, vector: Vector, x: str, y: str) -> str:
    """Division that cannot trap: x / 0 is -1, x % 0 is x, least / -1 wraps, as in XLA."""
    text, zero, one = vector.text, f.constant(vector, 0), f.constant(vector, 1)
    is_zero = f.emit(f"icmp eq {text} {y}, {zero}")
    safe = f.select(vector, is_zero, one, y)
    if not vector.is_signed:
        result = f.emit(f"u{instruction} {text} {x}, {safe}")
    else:
        minus = f.emit(f"icmp eq {text} {y}, {f.constant(vector, -1)}")
        safe = f.select(vector, minus, one, safe)
        result = f.emit(f"s{instruction} {text} {x}, {safe}")
        negated = f.emit(f"sub {text} {zero}, {x}") if instruction == "div" else zero
        result = f.select(vector, minus, negated, result)
    at_zero = f.constant(vector, -1) if instruction == "div" else x
    return f.select(vector, is_zero, at_zero, result)


def _shift(f: Function, instruction: str, vector: Vector, x: str, count: str) -> str:
    """Shifts by the width or more give 0 (or the sign), where LLVM would give poison."""
    text, limit = vector.text, f.constant(vector, vector.bits - 1)
    inside = f.emit(f"icmp ule {text} {count}, {limit}")
    clamped = f.select(vector, inside, count, limit)
    word = {"shl": "shl", "shr_logical": "lshr", "shr_arithmetic": "ashr"}[instruction]
    result = f.emit(f"{word} {text} {x}, {clamped}")
    if instruction == "shr_arithmetic":
        return result
    return f.select(vector, inside, result, f.constant(vector, 0))


# -- comparisons and conversions ----------------------------------------------------------------

_COMPARE = {"eq", "ne", "lt", "le", "gt", "ge", "is_finite"}


def compare(f: Function, instruction: str, vector: Vector, *values: str) -> str:
    """Emit a comparison; NaN is unequal to everything."""
    if instruction == "is_finite":
        if not vector.is_float:
            return f.constant(Vector("bool", vector.lanes), True)
        size = f.intrinsic("fabs", vector, values[0])
        return f.emit(f"fcmp olt {vector.text} {size}, {f.constant(vector, float('inf'))}")
    if vector.is_float:
        word = "une" if instruction == "ne" else "o" + instruction
        return f.emit(f"fcmp {word} {vector.text} {values[0]}, {values[1]}")
    sign = "" if instruction in ("eq", "ne") else "s" if vector.is_signed else "u"
    return f.emit(f"icmp {sign}{instruction} {vector.text} {values[0]}, {values[1]}")


def convert(f: Function, origin: str, target: str, lanes: int, x: str) -> str:
    """Convert between any two dtypes; floats go to integers saturating, NaN to 0."""
    if target in HALVES:
        if target == "float16" and origin == "float64":
            x, origin = _to_odd(f, lanes, x), "float32"
        single = convert(f, origin, "float32", lanes, x)
        return rounded(f, target, lanes, single)
    if origin in HALVES:
        origin = "float32"
    before, after = Vector(origin, lanes), Vector(target, lanes)
    if origin == target:
        return x
    if target == "bool":
        zero = f.constant(before, 0)
        word = "fcmp une" if before.is_float else "icmp ne"
        return f.emit(f"{word} {before.text} {x}, {zero}")
    if before.is_float and after.is_float:
        word = "fpext" if target == "float64" else "fptrunc"
        return f.emit(f"{word} {before.text} {x} to {after.text}")
    if before.is_float:
        name = f"@llvm.fpto{'s' if after.is_signed else 'u'}i.sat.{after.mangled}.{before.mangled}"
        return f.call(after.text, name, (before.text, x))
    if after.is_float:
        word = "sitofp" if before.is_signed else "uitofp"
        return f.emit(f"{word} {before.text} {x} to {after.text}")
    if before.bits == after.bits:
        return x
    word = "trunc" if after.bits < before.bits else "sext" if before.is_signed else "zext"
    return f.emit(f"{word} {before.text} {x} to {after.text}")


def bitcast(f: Function, origin: str, target: str, lanes: int, x: str) -> str:
    """Take the same bits as another dtype of the same size."""
    if origin in HALVES:
        x = narrow(f, origin, lanes, x)
    before, after = Vector(origin, lanes), Vector(target, lanes)
    if before.element != after.element:
        x = f.emit(f"bitcast {before.text} {x} to {after.text}")
    return widen(f, target, lanes, x) if target in HALVES else x


def _to_odd(f: Function, lanes: int, x: str) -> str:
    """Round float64 to odd in float32, so that rounding again is exact.

    What is not exact gets an odd last bit. From S. Boldo and G. Melquiond, "When double rounding is
    odd" (2005).
    """
    wide, single, bits = Vector("float64", lanes), Vector("float32", lanes), Vector("int32", lanes)
    near = f.emit(f"fptrunc {wide.text} {x} to {single.text}")
    back = f.emit(f"fpext {single.text} {near} to {wide.text}")
    is_off = f.emit(f"fcmp une {wide.text} {back}, {x}")
    sizes = f.intrinsic("fabs", wide, back), f.intrinsic("fabs", wide, x)
    is_above = f.emit(f"fcmp ogt {wide.text} {sizes[0]}, {sizes[1]}")
    whole = f.emit(f"bitcast {single.text} {near} to {bits.text}")
    mask = Vector("bool", lanes).text
    step = f.emit(f"sext {mask} {is_above} to {bits.text}")
    below = f.emit(f"add {bits.text} {whole}, {step}")
    odd = f.emit(f"zext {mask} {is_off} to {bits.text}")
    made = f.emit(f"or {bits.text} {below}, {odd}")
    return f.emit(f"bitcast {bits.text} {made} to {single.text}")


def rounded(f: Function, dtype: str, lanes: int, x: str) -> str:
    """Round float32 registers to the numbers that a half float has."""
    single, half = Vector("float32", lanes), Vector(dtype, lanes)
    if dtype == "float16":
        return widen(f, dtype, lanes, f.emit(f"fptrunc {single.text} {x} to {half.text}"))
    # to even in the upper half of the bits: the instruction for it, which few processors have,
    # takes the smallest numbers for 0
    bits = Vector("int32", lanes)
    whole = f.emit(f"bitcast {single.text} {x} to {bits.text}")
    upper = f.emit(f"lshr {bits.text} {whole}, {f.constant(bits, 16)}")
    odd = f.emit(f"and {bits.text} {upper}, {f.constant(bits, 1)}")
    almost = f.emit(f"add {bits.text} {whole}, {f.constant(bits, 0x7FFF)}")
    total = f.emit(f"add {bits.text} {almost}, {odd}")
    kept = f.emit(f"and {bits.text} {total}, {f.constant(bits, -0x10000)}")
    near = f.emit(f"bitcast {bits.text} {kept} to {single.text}")
    is_nan = f.emit(f"fcmp uno {single.text} {x}, {x}")
    return f.select(single, is_nan, f.constant(single, math.nan), near)


def narrow(f: Function, dtype: str, lanes: int, x: str) -> str:
    """A half float from float32 registers that hold one."""
    single, half = Vector("float32", lanes), Vector(dtype, lanes)
    if dtype == "float16":
        return f.emit(f"fptrunc {single.text} {x} to {half.text}")
    bits, short = Vector("int32", lanes), Vector("int16", lanes)
    whole = f.emit(f"bitcast {single.text} {x} to {bits.text}")
    upper = f.emit(f"lshr {bits.text} {whole}, {f.constant(bits, 16)}")
    cut = f.emit(f"trunc {bits.text} {upper} to {short.text}")
    return f.emit(f"bitcast {short.text} {cut} to {half.text}")


def widen(f: Function, dtype: str, lanes: int, x: str) -> str:
    """Widen a half float to float32 registers."""
    single, half = Vector("float32", lanes), Vector(dtype, lanes)
    return f.emit(f"fpext {half.text} {x} to {single.text}")


_FLOAT = {"add": "fadd", "mul": "fmul", "max": "fmaximum", "min": "fminimum"}


def combine(f: Function, how: str, vector: Vector, x: str, y: str) -> str:
    """Combine two numbers (lane by lane); a zero may be of any sign if extreme."""
    if vector.is_float and how in ("max", "min"):
        kind, name = vector.text, f"@llvm.{how}imum.{vector.mangled}"
        # the new number first: x86 looks for NaN there, and not in what the next round waits for
        return f.call(kind, name, (kind, y), (kind, x), flags="nsz ")
    if vector.dtype == "bool" and how in ("max", "min"):
        how = {"max": "or", "min": "and"}[how]
    return emit_instruction(f, how, vector.dtype, vector.lanes, vector.dtype, [x, y])


def horizontal(f: Function, how: str, vector: Vector, x: str) -> str:
    """Combine the lanes of a vector into one number."""
    if vector.lanes == 1:
        return x
    if vector.dtype == "bool" and how in ("max", "min"):
        how = {"max": "or", "min": "and"}[how]
    given = [(vector.text, x)]
    if vector.is_float:
        word, flags = _FLOAT[how], "nsz "
        if how in ("add", "mul"):  # reassoc: the lanes are added as a tree
            first = f.constant(Vector(vector.dtype), empty_result(how, as_dtype(vector.dtype)))
            given, flags = [(vector.element, first), *given], "reassoc "
    else:
        sign = ("s" if vector.is_signed else "u") if how in ("max", "min") else ""
        word, flags = sign + how, ""
    name = f"@llvm.vector.reduce.{word}.{vector.mangled}"
    return f.call(vector.element, name, *given, flags=flags)
