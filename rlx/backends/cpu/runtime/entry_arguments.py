"""Machine code that checks arguments: their ndarray, dtype, layout and shape."""

from __future__ import annotations

from ..llvm.text import Function, Module
from .object_layout import (
    BEHAVED,
    DIMENSIONS,
    DTYPE,
    FLAGS,
    NUMBER_TYPES,
    RANK,
    TYPE,
    Header,
    at,
    branch,
    header,
    word,
)


def emit_find(module: Module) -> None:
    """`find(plan, argument) -> ptr`: a reference to an argument's ndarray, or null.

    Python code may give an `Array` another ndarray at any time: in other threads where there is no
    GIL, and elsewhere while `main` gives it up or calls back. So the slot is read by CPython.
    """
    f = module.function(
        "find", [("ptr", "%plan"), ("ptr", "%argument")], "ptr", "nounwind", "internal"
    )
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
    f.do("br label %none")
    f.start_block("none")
    f.do("ret ptr null")


def emit_fits(module: Module) -> None:
    """`fits(array, spec) -> i1`: whether dtype, layout and shape are the spec's."""
    f = module.function("fits", [("ptr", "%array"), ("ptr", "%spec")], "i1", "nounwind", "internal")
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
    parameters = [("ptr", "%argument"), ("ptr", "%spec"), ("ptr", "%place")]
    f = module.function("number", parameters, "i1", "nounwind", "internal")
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
    f.do("br label %no")
    f.start_block("no")
    f.do("ret i1 false")


def emit_apart(module: Module) -> None:
    """`apart(plan, buffers, specs) -> i1`: whether no output shares memory.

    `buffers` are the data pointers of inputs and outputs.
    """
    parameters = [("ptr", "%plan"), ("ptr", "%buffers"), ("ptr", "%specs")]
    f = module.function("apart", parameters, "i1", "nounwind", "internal")
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
