"""Combining numbers: two at a time, and all lanes of a vector."""

from __future__ import annotations

from ...ir.types import as_dtype, highest, lowest
from .llvm.text import Function, Vector
from .scalar import emit_instruction

IN_TURN = "add in turn"  # a sum whose terms are added one after another, from the first to the last
_FLOAT = {"add": "fadd", "mul": "fmul", "max": "fmaximum", "min": "fminimum"}


def identity(combine: str, dtype: str) -> float | int | bool:
    """The number that changes nothing when combined."""
    if combine in ("add", "or", "xor"):
        return 0
    if combine == "mul":
        return 1
    if combine == "and":
        return True if dtype == "bool" else -1
    if dtype == "bool":
        return combine == "min"
    return (lowest if combine == "max" else highest)(as_dtype(dtype))


def combine(f: Function, how: str, vector: Vector, x: str, y: str) -> str:
    """Combine two numbers (lane by lane); a zero may be of any sign if extreme."""
    if vector.is_float and how in ("max", "min"):
        name = f"@llvm.{how}imum.{vector.mangled}"
        f.declarations.add(f"declare {vector.text} {name}({vector.text}, {vector.text})")
        # the new number first: x86 looks for NaN there, and not in what the next round waits for
        return f.emit(f"call nsz {vector.text} {name}({vector.text} {y}, {vector.text} {x})")
    if vector.dtype == "bool" and how in ("max", "min"):
        how = {"max": "or", "min": "and"}[how]
    return emit_instruction(f, how, vector.dtype, vector.lanes, vector.dtype, [x, y])


def horizontal(f: Function, how: str, vector: Vector, x: str) -> str:
    """Combine the lanes of a vector into one number."""
    if vector.lanes == 1:
        return x
    if vector.dtype == "bool" and how in ("max", "min"):
        how = {"max": "or", "min": "and"}[how]
    if vector.is_float:
        word, start = _FLOAT[how], ""
        if how in ("add", "mul"):  # reassoc: the lanes are added as a tree
            first = f.constant(Vector(vector.dtype), identity(how, vector.dtype))
            start = f"{vector.element} {first}, "
    else:
        sign = ("s" if vector.is_signed else "u") if how in ("max", "min") else ""
        word, start = sign + how, ""
    name = f"@llvm.vector.reduce.{word}.{vector.mangled}"
    types = f"{vector.element}, {vector.text}" if start else vector.text
    f.declarations.add(f"declare {vector.element} {name}({types})")
    flags = "reassoc " if start else "nsz " if vector.is_float else ""
    return f.emit(f"call {flags}{vector.element} {name}({start}{vector.text} {x})")
