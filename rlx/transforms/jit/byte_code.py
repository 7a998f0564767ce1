"""Byte code analysis: the names that a Python function loads and reads."""

from __future__ import annotations

import builtins
import itertools
import opcode
import sys
import types
from collections.abc import Iterator
from typing import Any

IMPURE_CODES = frozenset(
    opcode.opmap[name] for name in ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
)
# by how many bits the number of a name is shifted in the arguments of instructions
_NAME_SHIFTS = {opcode.opmap["LOAD_GLOBAL"]: 1, opcode.opmap["LOAD_NAME"]: 0}
_ATTRIBUTE_SHIFTS = {opcode.opmap["LOAD_ATTR"]: int(sys.version_info >= (3, 12))}
if "LOAD_METHOD" in opcode.opmap:
    _ATTRIBUTE_SHIFTS[opcode.opmap["LOAD_METHOD"]] = 0
_CACHE, _EXTENDED = opcode.opmap["CACHE"], opcode.opmap["EXTENDED_ARG"]
_CONSTANT, _CONTAINS = opcode.opmap["LOAD_CONST"], opcode.opmap["CONTAINS_OP"]


def globals_of(fn: types.FunctionType) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """The globals that a function reads, and those inside: name, attributes, value."""
    for name, attributes in dict.fromkeys(loads(fn.__code__)):
        for scope in (fn.__globals__, vars(builtins)):
            if name in scope:
                yield name, attributes, scope[name]
                break


def loads(code: types.CodeType) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names of globals that code loads, with the attributes read at once."""
    attributes: tuple[str, ...] = ()
    for op, argument in reversed(list(_instructions(code))):
        if op in _ATTRIBUTE_SHIFTS:
            attributes = (code.co_names[argument >> _ATTRIBUTE_SHIFTS[op]], *attributes)
            continue
        if op in _NAME_SHIFTS:
            yield code.co_names[argument >> _NAME_SHIFTS[op]], attributes
        attributes = ()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from loads(constant)


def attributes_read(code: types.CodeType) -> Iterator[str]:
    """The attributes that code reads."""
    for op, argument in _instructions(code):
        if op in _ATTRIBUTE_SHIFTS:
            yield code.co_names[argument >> _ATTRIBUTE_SHIFTS[op]]


def sets_asked(code: types.CodeType) -> set[int]:
    """Indices of constant sets that are used for membership tests only.

    The order of such a set does not matter.
    """
    found = [
        (argument, after == _CONTAINS)
        for (op, argument), (after, _) in itertools.pairwise(_instructions(code))
        if op == _CONSTANT and isinstance(code.co_consts[argument], frozenset)
    ]
    return {i for i, is_asked in found if is_asked} - {i for i, is_asked in found if not is_asked}


def _instructions(code: types.CodeType) -> Iterator[tuple[int, int]]:
    """The instructions of code and their arguments."""
    extended = 0
    for op, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= extended
        extended = argument << 8 if op == _EXTENDED else 0
        if op not in (_CACHE, _EXTENDED):
            yield op, argument
