"""The scalar instructions as templates of WGSL.

Small integers are computed in 32 bits and cut to their width. Functions of floats that the language
lacks come from `wgsl.py`, what else it lacks is made of simpler instructions by `c_like/bodies.py`.
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
OPERATORS = {
    **{"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"},
    **{"plain_div": "/", "plain_rem": "%"},
}
"""Those of integers; `plain_rem` is asked for where no operand is below 0."""

COUNTS = {
    ("popcount", False): "countOneBits",
    ("popcount", True): "popcount_u64",
    ("clz", False): "countLeadingZeros",
    ("clz", True): "clz_u64",
}
"""Functions that count bits, by whether they take 64."""
COMPARISONS = {  # of floats, as compilers that know no NaN would make some of them true
    "eq": "equals_{}({{0}}, {{1}})",
    "ne": "(!equals_{}({{0}}, {{1}}))",
    "is_finite": "is_finite_{}({{0}})",
}
LOGICAL = {
    **dict.fromkeys(["add", "or", "max"], "({0} | {1})"),
    **dict.fromkeys(["mul", "and", "min"], "({0} & {1})"),
    "xor": "({0} != {1})",
    "not": "(!{0})",
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
}
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
    if name == "cast":
        return _cast(before, after)
    if name == "bitcast":
        return _bitcast(before, after)
    if before == "bool":
        return LOGICAL.get(name)
    if before not in WIDTHS:
        return _real(name, REGISTERS[before])
    if name in COMPARE:
        return f"({{0}} {COMPARE[name]} {{1}})"
    whole = _integer(name, before)
    return whole and cut(before, whole)


def cut(dtype: str, x: str) -> str:
    """An integer of 32 bits cut to the width of its dtype."""
    width = WIDTHS[dtype]
    if width >= 32:
        return x
    return f"extractBits({x}, 0u, {width}u)"


# -- kinds of numbers ---------------------------------------------------------------------------


def _integer(name: str, dtype: str) -> str | None:
    register, width = REGISTERS[dtype], WIDTHS[dtype]
    is_signed = register.startswith("i")
    if name in OPERATORS:
        return f"({{0}} {OPERATORS[name]} {{1}})"
    if name in ("plain_shl", "plain_shr"):
        return f"({{0}} {'<<' if name == 'plain_shl' else '>>'} u32({{1}}))"
    if name in ("max", "min"):
        return f"{name}({{0}}, {{1}})"
    if name in ("popcount", "clz"):
        bits = f"bitcast<u{register[1:]}>({{0}})" if is_signed else "{0}"
        bits = f"({bits} & {(1 << width) - 1}u)" if width < 32 else bits
        less = f" - {32 - width}u" if name == "clz" and width < 32 else ""
        return f"{register}({COUNTS[name, width == 64]}({bits}){less})"
    return {
        "neg": f"({_whole(register, 0)} - {{0}})",
        "not": "(~{0})",
        "abs": "abs({0})" if is_signed else "{0}",
        "sign": "sign({0})" if is_signed else f"min({{0}}, {_whole(register, 1)})",
        **dict.fromkeys(["floor", "ceil", "round", "trunc"], "{0}"),
    }.get(name)


def _real(name: str, register: str) -> str | None:
    if name in COMPARISONS:
        return COMPARISONS[name].format(register)
    if name in COMPARE:
        return f"({{0}} {COMPARE[name]} {{1}})"
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


def _bitcast(before: str, after: str) -> str:
    old, new = REGISTERS[before], REGISTERS[after]
    x = "{0}" if old == new else f"bitcast<{new}>({{0}})"
    return cut(after, x) if after in WIDTHS else x
