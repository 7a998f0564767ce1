"""The scalar instructions as templates of WGSL.

Small integers are computed in 32 bits and cut to their width. Functions that are no part of the
language come from `wgsl.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.types import NAMES

REGISTERS = {
    "bool": "bool",
    "int8": "i32",
    "int16": "i32",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u32",
    "uint16": "u32",
    "uint32": "u32",
    "uint64": "u64",
    "float32": "f32",
    "float64": "f64",
}
"""What holds a number of each dtype while it is computed with."""

WIDTHS = {name: np.dtype(name).itemsize * 8 for name in REGISTERS if "int" in name}
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
BITS = {"and": "&", "or": "|", "xor": "^"}
LOGICAL = {
    **dict.fromkeys(["add", "or", "max"], "({0} | {1})"),
    **dict.fromkeys(["mul", "and", "min"], "({0} & {1})"),
    "xor": "({0} != {1})",
    "not": "(!{0})",
}
CONVERSIONS = {
    "round_float16": "round_f16({0})",
    "round_bfloat16": "round_bf16({0})",
    "narrow_float16": "bits_of_f16({0})",
    "narrow_bfloat16": "(bitcast<u32>({0}) >> 16u)",
    "widen_float16": "f16_of_bits({0})",
    "widen_bfloat16": "bitcast<f32>({0} << 16u)",
}
REAL = frozenset(["float32", "float64"])
BUILT_IN = frozenset(["abs", "sqrt", "floor", "ceil", "round", "trunc"])
FUNCTIONS = {
    **dict.fromkeys(["exp", "exp2", "log", "logistic", "sin", "cos", "tanh", "expm1", "log1p"], 1),
    **dict.fromkeys(["tan", "erf", "erfc", "cbrt", "asin", "acos", "atan", "sinh", "cosh"], 1),
    **dict.fromkeys(["erf_inv", "asinh", "acosh", "atanh"], 1),
    **dict.fromkeys(["pow", "atan2", "rem"], 2),
}
"""Functions of floats in the library, and how many operands they have."""


def literal(dtype: np.dtype, number: Any) -> str:
    """A number known now."""
    name = NAMES[dtype]
    if name == "bool":
        return "true" if number else "false"
    if dtype.kind in "iu":
        return _whole(REGISTERS[name], int(number))
    return _float(REGISTERS[name], float(number))


def _whole(register: str, number: int) -> str:
    if register == "u32":
        return f"{number}u"
    if register == "u64":
        return f"{number}lu"
    if register == "i64":
        return f"{number}li" if number > -(2**63) else f"({number + 1}li - 1li)"
    return f"{number}i" if number > -(2**31) else f"({number + 1}i - 1i)"


def _float(register: str, number: float) -> str:
    if math.isnan(number):
        return f"nan_{register}()"
    if math.isinf(number):
        sign = "-" if number < 0 else ""
        return f"({sign}infinite_{register}())"
    if register == "f64":
        return f"{_with_point(repr(number))}lf"
    single = np.float32(number)
    if single != 0 and abs(single) >= np.finfo(np.float32).tiny:
        return f"{_with_point(str(single))}f"
    bits = int(single.view(np.uint32))  # -0.0, and what may be taken for 0
    return "0.0f" if bits == 0 else f"bitcast<f32>({bits}u)"


def _with_point(text: str) -> str:
    return text if "e" in text or "." in text else f"{text}.0"


def template(name: str, dtype: np.dtype, result: np.dtype) -> str | None:
    """An instruction on operands of a dtype, `{0}`, `{1}`; None if there is none."""
    before, after = NAMES[dtype], NAMES[result]
    if name == "select":
        return "select({2}, {1}, {0})"
    if name in CONVERSIONS:
        return CONVERSIONS[name]
    if name == "cast":
        return _cast(before, after)
    if name == "saturate":
        return _saturated(REGISTERS[before], after)
    if name == "bitcast":
        return _bitcast(before, after)
    if name in COMPARE or name == "is_finite":
        return _compared(name, before)
    if before == "bool":
        return LOGICAL.get(name, "{0}")
    if before in WIDTHS:
        whole = _integer(name, before)
        return whole and cut(before, whole)
    return _real(name, REGISTERS[before])


def cut(dtype: str, x: str) -> str:
    """An integer of 32 bits cut to the width of its dtype."""
    width = WIDTHS[dtype]
    if width >= 32:
        return x
    return f"extractBits({x}, 0u, {width}u)"


# -- kinds of numbers ---------------------------------------------------------------------------


def _compared(name: str, dtype: str) -> str:
    if dtype not in REAL:
        if name == "is_finite":
            return "true"
        number = "u32({%d})" if dtype == "bool" and name not in ("eq", "ne") else "{%d}"
        return f"({number % 0} {COMPARE[name]} {number % 1})"
    if name in ("eq", "ne", "is_finite"):  # of which a compiler that knows no NaN would make true
        words = {"eq": "equals_{}({{0}}, {{1}})", "ne": "(!equals_{}({{0}}, {{1}}))"}
        return words.get(name, "is_finite_{}({{0}})").format(REGISTERS[dtype])
    return f"({{0}} {COMPARE[name]} {{1}})"


def _integer(name: str, dtype: str) -> str | None:
    register = REGISTERS[dtype]
    is_signed = register.startswith("i")
    if name in SYMBOLS:
        return (
            f"({{0}} {SYMBOLS[name]} {{1}})" if name != "div" else f"div_{register}({{0}}, {{1}})"
        )
    if name in BITS:
        return f"({{0}} {BITS[name]} {{1}})"
    if name in ("max", "min"):
        return f"{name}({{0}}, {{1}})"
    if name in ("rem", "pow", "floor_div", "floor_rem"):
        return f"{name}_{register}({{0}}, {{1}})"
    if name in ("shl", "shr_logical", "shr_arithmetic"):
        return _shift(name, dtype)
    if name in ("popcount", "clz"):
        return _counted(name, dtype)
    if name == "sign":
        return "sign({0})" if is_signed else f"min({{0}}, {_whole(register, 1)})"
    return {
        "plain_div": "({0} / {1})",
        "plain_rem": "({0} % {1})",
        "neg": f"({_whole(register, 0)} - {{0}})",
        "not": "(~{0})",
        "abs": "abs({0})" if is_signed else "{0}",
        **dict.fromkeys(["floor", "ceil", "round", "trunc"], "{0}"),
    }.get(name)


def _unsigned(dtype: str, x: str) -> str:
    """The bits of an integer, without those of its sign above them."""
    register = REGISTERS[dtype]
    bits = x if register.startswith("u") else f"bitcast<u{register[1:]}>({x})"
    return bits if WIDTHS[dtype] >= 32 else f"({bits} & {(1 << WIDTHS[dtype]) - 1}u)"


def _signed(dtype: str, x: str) -> str:
    """The bits of an integer as one with a sign."""
    register = REGISTERS[dtype]
    if register.startswith("i"):
        return x
    bits = f"bitcast<i{register[1:]}>({x})"
    return bits if WIDTHS[dtype] >= 32 else f"extractBits({bits}, 0u, {WIDTHS[dtype]}u)"


def _as_before(dtype: str, x: str, is_signed: bool) -> str:
    register = REGISTERS[dtype]
    return x if register.startswith("i") == is_signed else f"bitcast<{register}>({x})"


def _shift(name: str, dtype: str) -> str:
    """Shifts by the width or more give 0, or the sign."""
    width, x, by = WIDTHS[dtype], "{0}", "{1}"
    if width == 64:
        return f"{name}_{REGISTERS[dtype]}({x}, {by})"
    count = by if REGISTERS[dtype] == "u32" else f"u32({by})"
    if name == "shr_arithmetic":
        shifted = f"({_signed(dtype, x)} >> min({count}, {width - 1}u))"
        return _as_before(dtype, shifted, is_signed=True)
    word = "<<" if name == "shl" else ">>"
    shifted = f"({_unsigned(dtype, x)} {word} ({count} & 31u))"
    return _as_before(dtype, f"select(0u, {shifted}, {count} < {width}u)", is_signed=False)


def _counted(name: str, dtype: str) -> str:
    width, x = WIDTHS[dtype], "{0}"
    if width == 64:
        return f"{name}_{REGISTERS[dtype]}({x})"
    bits = _unsigned(dtype, x)
    count = f"countOneBits({bits})" if name == "popcount" else f"countLeadingZeros({bits})"
    less = f" - {32 - width}u" if name == "clz" and width < 32 else ""
    return f"{REGISTERS[dtype]}({count}{less})"


def _real(name: str, register: str) -> str | None:
    if name in ("neg", "sub"):
        return f"minus_{register}({{0}})" if name == "neg" else f"({{0}} + minus_{register}({{1}}))"
    if name in SYMBOLS:
        return f"({{0}} {SYMBOLS[name]} {{1}})"
    if name in BUILT_IN:
        return f"{name}({{0}})"
    if name == "fma":
        return "({0} * {1} + {2})"
    if name == "rsqrt":
        return f"({'1.0f' if register == 'f32' else '1.0lf'} / sqrt({{0}}))"
    if name in ("max", "min", "sign"):
        return f"{name}_{register}({', '.join(['{0}', '{1}'][: 1 + (name != 'sign')])})"
    if name in FUNCTIONS:
        return f"{name}_{register}({', '.join(['{0}', '{1}'][: FUNCTIONS[name]])})"
    return None


# -- conversions --------------------------------------------------------------------------------


def _cast(before: str, after: str) -> str:
    """To a number that the other dtype has, or with as many bits as it has."""
    old, new = REGISTERS[before], REGISTERS[after]
    x = "{0}" if old == new else f"{new}({{0}})"
    if (old, new) in (("u32", "i64"), ("i32", "u64")):
        x = f"bitcast<{new}>({old[0]}64({{0}}))"  # drivers look at the result's sign, not at x's
    return cut(after, x) if after in WIDTHS else x


def _saturated(register: str, dtype: str) -> str:
    new, width = REGISTERS[dtype], WIDTHS[dtype]
    whole = f"{new}_of_{register}({{0}})"
    if width >= 32:
        return whole
    info = np.iinfo(dtype)
    return f"clamp({whole}, {_whole(new, info.min)}, {_whole(new, info.max)})"


def _bitcast(before: str, after: str) -> str:
    old, new = REGISTERS[before], REGISTERS[after]
    x = "{0}" if old == new else f"bitcast<{new}>({{0}})"
    return cut(after, x) if after in WIDTHS else x
