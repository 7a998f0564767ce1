"""Layouts of Python objects and of plans of entries, as machine code reads them.

`entry.py` tells the form of a plan.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, Final, NamedTuple

import numpy as np

from ....ir.record import record
from ..llvm.text import Function, Module

# Byte offsets inside CPython's and NumPy's objects; `entry.py` tries them before use.
HEAD: Final = object.__basicsize__
TYPE: Final = HEAD - 8
DATA, RANK, DIMENSIONS, DTYPE, FLAGS, MEM_HANDLER = (HEAD + at for at in (0, 8, 16, 40, 48, 72))
BYTES_HEAD: Final = bytes.__basicsize__ - 1
TUPLE_HEAD: Final = tuple.__basicsize__

C_CONTIGUOUS, OWNS_DATA, BEHAVED = 0x001, 0x004, 0x101  # NumPy's flags; behaved: and ALIGNED
WRITEABLE: Final = 0x400
RELEASE_GIL, TAKE_OUTPUTS, FILL_OUTPUTS = 1, 2, 4  # flags of a plan
NUMBER_TYPES: Final = {"float": "float32", "int": "int32", "bool": "bool"}


class Header(NamedTuple):
    """The first words of a plan."""

    inputs: int
    outputs: int
    constants: int = 0  # pointers that follow those of the outputs
    fills: int = 0  # slots of an `Array` besides that of its data
    main: int = 0  # the address of the compiled function
    flags: int = 0
    arena: int = 0  # bytes
    array_type: int = 0
    data_offset: int = 0  # of the data in an `Array`
    data_slot: int = 0  # the PyMemberDef of that slot
    on_error: int = 0  # the Python function that takes a status


class Ufunc(NamedTuple):
    """The words behind the header in the plan of a loop of NumPy."""

    dtype: Any  # of the operands
    made: Any  # the dtype of the result
    itemsize: Any
    made_itemsize: Any
    extra: Any  # what the loop is given besides
    most: Any  # elements: with more, the loop is not run


def at(f: Function, pointer: str, offset: int | str) -> str:
    """The place some bytes after a pointer."""
    return f.offset(pointer, "i8", str(offset))


def word(f: Function, pointer: str, index: int, kind: str = "i64") -> str:
    """Load one of the words after a pointer."""
    return f.emit(f"load {kind}, ptr {at(f, pointer, 8 * index)}")


def header(f: Function, name: str) -> str:
    """Load a field of the header of `%plan`."""
    kind = "ptr" if name in ("main", "array_type", "data_slot", "on_error") else "i64"
    return word(f, "%plan", Header._fields.index(name), kind)


def branch(f: Function, condition: str, otherwise: str, hint: str = "next") -> None:
    """Go on if `condition` holds, else jump to the block `otherwise`."""
    following = f.label(hint)
    f.do(f"br i1 {condition}, label %{following}, label %{otherwise}")
    f.start_block(following)


def flag(f: Function, wanted: int) -> str:
    """Whether a plan has one of some flags."""
    flags = f.emit(f"and i64 {header(f, 'flags')}, {wanted}")
    return f.emit(f"icmp ne i64 {flags}, 0")


@record
class Spec:
    """The dtype and shape of one argument or result."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of its data."""
        return math.prod(self.shape) * self.dtype.itemsize


@record
class ArrayLayout:
    """Where instances of `cls` keep their ndarray, and their other slots: None."""

    cls: type
    data_offset: int
    fill: tuple[int, ...] = ()


def array_layout(cls: type) -> ArrayLayout:
    """Find the slots of `cls`, whose `_data` holds the ndarray."""
    offsets = slot_offsets(cls)
    return ArrayLayout(cls, offsets.pop("_data"), tuple(offsets.values()))


def slot_offsets(cls: type) -> dict[str, int]:
    """The byte offset of every slot, found by markers in an instance's memory."""
    assert not cls.__dictoffset__, f"{cls.__name__} needs __slots__ in all its bases"
    member = type(_Sample.__dict__["slot"])
    names = [
        name
        for part in cls.__mro__
        for name, value in vars(part).items()
        if isinstance(value, member) and not name.startswith("__")
    ]
    instance, offsets = object.__new__(cls), {}
    for name in names:
        descriptor = next(vars(part)[name] for part in cls.__mro__ if name in vars(part))
        marker = object()
        descriptor.__set__(instance, marker)
        words = range(object.__basicsize__, cls.__basicsize__, 8)
        place = next(at for at in words if word_in(instance, at) == id(marker))
        descriptor.__delete__(instance)
        if place not in offsets.values():  # a subclass may name a slot of its base anew
            offsets[name] = place
    return offsets


class _Sample:
    __slots__ = ("slot",)


def word_in(thing: object, offset: int) -> int:
    """The 64 bits in the memory of an object."""
    return ctypes.c_uint64.from_address(id(thing) + offset).value


# -- machine code that checks arguments: their ndarray, dtype, layout and shape --------------------


def emit_find(module: Module) -> None:
    """`find(plan, argument) -> ptr`: a reference to an argument's ndarray, or null.

    Python code may give an `Array` another ndarray at any time: in other threads where there is no
    GIL, and elsewhere while `main` gives it up or calls back. So the slot is read by CPython.
    """
    f = module.internal("find", "ptr %plan, ptr %argument", "ptr")
    kind = f.emit(f"load ptr, ptr {at(f, '%argument', TYPE)}")
    wrapped = f.emit(f"icmp eq ptr {kind}, {header(f, 'array_type')}")
    f.do(f"br i1 {wrapped}, label %array, label %bare")
    f.start_block("array")
    inner = f.emit(f"call ptr @PyMember_GetOne(ptr %argument, ptr {header(f, 'data_slot')})")
    branch(f, f.emit(f"icmp ne ptr {inner}, null"), "unset")
    inner_kind = f.emit(f"load ptr, ptr {at(f, inner, TYPE)}")
    branch(f, f.emit(f"icmp eq ptr {inner_kind}, @ndarray_type"), "other")
    f.do(f"ret ptr {inner}")
    f.start_block("bare")
    branch(f, f.emit(f"icmp eq ptr {kind}, @ndarray_type"), "none")
    f.do("call void @Py_IncRef(ptr %argument)")
    f.do("ret ptr %argument")
    f.start_block("other")
    f.do(f"call void @Py_DecRef(ptr {inner})")
    f.do("br label %none")
    f.start_block("unset")
    f.do("call void @PyErr_Clear()")
    f.go_on("none")
    f.do("ret ptr null")


def emit_fits(module: Module) -> None:
    """`fits(array, spec) -> i1`: whether dtype, layout and shape are the spec's."""
    f = module.internal("fits", "ptr %array, ptr %spec", "i1")
    flags = f.emit(f"load i32, ptr {at(f, '%array', FLAGS)}")
    behaved = f.emit(f"icmp eq i32 {f.emit(f'and i32 {flags}, {BEHAVED}')}, {BEHAVED}")
    dtype = f.emit(f"load ptr, ptr {at(f, '%array', DTYPE)}")
    same_dtype = f.emit(f"icmp eq ptr {dtype}, {word(f, '%spec', 0, 'ptr')}")
    short = f.emit(f"load i32, ptr {at(f, '%array', RANK)}")
    rank = f.emit(f"sext i32 {short} to i64")
    same_rank = f.emit(f"icmp eq i64 {rank}, {word(f, '%spec', 1)}")
    plain = f.emit(f"and i1 {f.emit(f'and i1 {behaved}, {same_dtype}')}, {same_rank}")
    branch(f, plain, "differs")
    dimensions = f.emit(f"load ptr, ptr {at(f, '%array', DIMENSIONS)}")
    wanted = at(f, "%spec", 16)
    with f.loop("0", rank) as axes:
        have = f.emit(f"load i64, ptr {f.offset(dimensions, 'i64', axes.index)}")
        want = f.emit(f"load i64, ptr {f.offset(wanted, 'i64', axes.index)}")
        branch(f, f.emit(f"icmp eq i64 {have}, {want}"), "differs")
    f.do("ret i1 true")
    f.start_block("differs")
    f.do("ret i1 false")


def emit_number(module: Module) -> None:
    """`number(argument, spec, place) -> i1`: store a Python number.

    The spec must be without axes, the number of the type that takes its dtype, and fit it.
    """
    f = module.internal("number", "ptr %argument, ptr %spec, ptr %place", "i1")
    branch(f, f.emit(f"icmp eq i64 {word(f, '%spec', 1)}, 0"), "no")
    kind = f.emit(f"load ptr, ptr {at(f, '%argument', TYPE)}")
    dtype = word(f, "%spec", 0, "ptr")
    for name, wanted in NUMBER_TYPES.items():
        is_kind = f.emit(f"icmp eq ptr {kind}, @{name}_type")
        is_dtype = f.emit(f"icmp eq ptr {dtype}, @{wanted}_dtype")
        other = f.label("other")
        branch(f, f.emit(f"and i1 {is_kind}, {is_dtype}"), other, name)
        if name == "float":
            double = f.emit("call double @PyFloat_AsDouble(ptr %argument)")
            f.do(f"store float {f.emit(f'fptrunc double {double} to float')}, ptr %place")
        elif name == "bool":
            is_true = f.emit("icmp eq ptr %argument, @true")
            f.do(f"store i8 {f.emit(f'zext i1 {is_true} to i8')}, ptr %place")
        else:
            long = f.emit("call i64 @PyLong_AsLongAndOverflow(ptr %argument, ptr %place)")
            overflow = f.emit("load i32, ptr %place")
            short = f.emit(f"trunc i64 {long} to i32")
            same = f.emit(f"icmp eq i64 {f.emit(f'sext i32 {short} to i64')}, {long}")
            fits = f.emit(f"icmp eq i32 {overflow}, 0")
            branch(f, f.emit(f"and i1 {same}, {fits}"), "no")
            f.do(f"store i32 {short}, ptr %place")
        f.do("ret i1 true")
        f.start_block(other)
    f.go_on("no")
    f.do("ret i1 false")


def emit_apart(module: Module) -> None:
    """`apart(plan, buffers, specs) -> i1`: whether no output shares memory.

    `buffers` are the data pointers of inputs and outputs.
    """
    f = module.internal("apart", "ptr %plan, ptr %buffers, ptr %specs", "i1")
    inputs, outputs = (header(f, name) for name in Header._fields[:2])
    count = f.emit(f"add i64 {inputs}, {outputs}")
    with f.loop("0", count, carried=[("ptr", "%specs")]) as one:
        start, end, one.next[0] = _span(f, one.index, one.values[0])
        following = f.emit(f"add i64 {one.index}, 1")
        is_output = f.emit(f"icmp sge i64 {one.index}, {inputs}")
        # outputs against all later ones, inputs against all outputs
        first = f.emit(f"select i1 {is_output}, i64 {following}, i64 {inputs}")
        with f.loop(following, count, carried=[("ptr", one.next[0])]) as other:
            low, high, other.next[0] = _span(f, other.index, other.values[0])
            matters = f.emit(f"icmp sge i64 {other.index}, {first}")
            before = f.emit(f"icmp ult ptr {start}, {high}")
            after = f.emit(f"icmp ult ptr {low}, {end}")
            both = f.emit(f"and i1 {before}, {after}")
            meet = f.emit(f"and i1 {both}, {matters}")
            branch(f, f.emit(f"xor i1 {meet}, true"), "meet")
    f.do("ret i1 true")
    f.start_block("meet")
    f.do("ret i1 false")


def _span(f: Function, index: str, spec: str) -> tuple[str, str, str]:
    """The bounds of an array's memory, and the spec after its own."""
    start = f.emit(f"load ptr, ptr {f.offset('%buffers', 'ptr', index)}")
    rank = word(f, spec, 1)
    size = f.emit(f"load i64, ptr {f.offset(at(f, spec, 16), 'i64', rank)}")
    return start, f.offset(start, "i8", size), f.offset(at(f, spec, 24), "i64", rank)
