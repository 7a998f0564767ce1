"""Machine code that all entries share.

`entry.py` tells what it does, and the plan's form.
"""

from __future__ import annotations

from typing import Final

from ..llvm.text import Function, Module
from . import polls
from .memory import emit_memory
from .object_layout import (
    BEHAVED,
    BYTES_HEAD,
    DATA,
    DIMENSIONS,
    FILL_OUTPUTS,
    FLAGS,
    MEM_HANDLER,
    NUMBER_TYPES,
    OWNS_DATA,
    RANK,
    RELEASE_GIL,
    TAKE_OUTPUTS,
    TUPLE_HEAD,
    TYPE,
    WRITEABLE,
    Header,
    Ufunc,
    at,
    branch,
    emit_apart,
    emit_find,
    emit_fits,
    emit_number,
    flag,
    header,
    word,
)

SYMBOLS: Final = (
    "declare void @Py_IncRef(ptr)",
    "declare void @Py_DecRef(ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
    "declare ptr @PyLong_FromLongLong(i64)",
    "declare i64 @PyLong_AsLongAndOverflow(ptr, ptr)",
    "declare double @PyFloat_AsDouble(ptr)",
    "declare ptr @PyObject_CallOneArg(ptr, ptr)",
    "declare ptr @PyMember_GetOne(ptr, ptr)",
    "declare void @PyErr_Clear()",
    "declare ptr @PyTuple_New(i64)",
    "declare ptr @PyType_GenericAlloc(ptr, i64)",
    "declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)",
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    f"declare void @{polls.RAISE}()",
)


def entry_module(*, locked: bool) -> str:
    """The IR text of `entry`, NumPy's memory handler and its capsule.

    `handler_capsule` is still to be filled in.
    """
    module = Module()
    emit_memory(module, locked=locked)
    module.declarations |= set(SYMBOLS)
    # Addresses of Python objects arrive as symbols, so the object code is the same everywhere.
    names = ["miss", "none", "true", "ndarray_type", "no_memory"]
    for kind, dtype in NUMBER_TYPES.items():
        names += [f"{kind}_type", f"{dtype}_dtype"]
    module.globals += [f"@{name} = external global i8" for name in names]
    module.globals.append("@handler_capsule = global ptr null")
    emit_find(module)
    emit_fits(module)
    emit_number(module)
    emit_apart(module)
    _emit_make(module)
    _emit_take(module)
    _emit_wrap(module)
    _emit_release_all(module)
    _emit_results(module)
    _emit_run(module)
    _emit_entry(module)
    _emit_ufunc_entry(module)
    return module.text


def _emit_make(module: Module) -> None:
    """`make(spec) -> ptr`: a read-only ndarray over a fresh block.

    If that fails it gives null and sets an exception.
    """
    f = module.internal("make", "ptr %spec", "ptr")
    dtype, rank = word(f, "%spec", 0, "ptr"), word(f, "%spec", 1)
    size = f.emit(f"load i64, ptr {f.offset(at(f, '%spec', 16), 'i64', rank)}")
    data = f.emit(f"call ptr @allocate(i64 {size})")
    branch(f, f.emit(f"icmp ne ptr {data}, null"), "memory")
    f.do(f"call void @Py_IncRef(ptr {dtype})")  # NewFromDescr takes the reference
    made = f.emit(
        "call ptr @PyArray_NewFromDescr(ptr @ndarray_type, ptr "
        f"{dtype}, i32 {f.emit(f'trunc i64 {rank} to i32')}, ptr {at(f, '%spec', 16)}, "
        f"ptr null, ptr {data}, i32 {BEHAVED}, ptr null)"
    )
    branch(f, f.emit(f"icmp ne ptr {made}, null"), "array")
    place = at(f, made, FLAGS)
    flags = f.emit(f"or i32 {f.emit(f'load i32, ptr {place}')}, {OWNS_DATA}")
    f.do(f"store i32 {flags}, ptr {place}")
    handler = f.emit("load ptr, ptr @handler_capsule")
    f.do(f"call void @Py_IncRef(ptr {handler})")
    f.do(f"store ptr {handler}, ptr {at(f, made, MEM_HANDLER)}")
    f.do(f"ret ptr {made}")
    f.start_block("memory")
    _tell_no_memory(f, size)
    f.do("ret ptr null")
    f.start_block("array")
    f.do(f"call void @release(ptr {data}, i64 {size})")
    f.do("ret ptr null")


def _tell_no_memory(f: Function, size: str) -> None:
    """Raise the exception for memory that cannot be had."""
    number = f.emit(f"call ptr @PyLong_FromLongLong(i64 {size})")
    with f.when(f.emit(f"icmp ne ptr {number}, null")):
        f.emit(f"call ptr @PyObject_CallOneArg(ptr @no_memory, ptr {number})")  # it raises
        f.do(f"call void @Py_DecRef(ptr {number})")


def _emit_take(module: Module) -> None:
    """`take(argument, spec) -> ptr`: the ndarray given for an output.

    For None a new one is made, unless all outputs are to be filled, which must be writeable; what
    does not fit gives `miss`.
    """
    f = module.internal("take", "ptr %argument, ptr %spec, i1 %fills", "ptr")
    given = f.emit("icmp ne ptr %argument, @none")
    branch(f, f.emit(f"or i1 {given}, %fills"), "fresh")
    kind = f.emit(f"load ptr, ptr {at(f, '%argument', TYPE)}")
    branch(f, f.emit(f"icmp eq ptr {kind}, @ndarray_type"), "unfit")
    branch(f, f.emit("call i1 @fits(ptr %argument, ptr %spec)"), "unfit")
    flags = f.emit(f"load i32, ptr {at(f, '%argument', FLAGS)}")
    writeable = f.emit(f"icmp ne i32 {f.emit(f'and i32 {flags}, {WRITEABLE}')}, 0")
    branch(f, f.emit(f"select i1 %fills, i1 {writeable}, i1 true"), "unfit")
    f.do("call void @Py_IncRef(ptr %argument)")
    f.do("ret ptr %argument")
    f.start_block("fresh")
    f.do(f"ret ptr {f.emit('call ptr @make(ptr %spec)')}")
    f.start_block("unfit")
    f.do("ret ptr @miss")


def _emit_wrap(module: Module) -> None:
    """`wrap(plan, fill, array) -> ptr`: an `Array` that owns the reference, or null."""
    f = module.internal("wrap", "ptr %plan, ptr %fill, ptr %array", "ptr")
    kind = header(f, "array_type")
    made = f.emit(f"call ptr @PyType_GenericAlloc(ptr {kind}, i64 0)")
    branch(f, f.emit(f"icmp ne ptr {made}, null"), "failed")
    f.do(f"store ptr %array, ptr {at(f, made, header(f, 'data_offset'))}")
    with f.loop("0", header(f, "fills")) as slots:
        offset = f.emit(f"load i64, ptr {f.offset('%fill', 'i64', slots.index)}")
        f.do("call void @Py_IncRef(ptr @none)")
        f.do(f"store ptr @none, ptr {at(f, made, offset)}")
    f.do(f"ret ptr {made}")
    f.start_block("failed")
    f.do("call void @Py_DecRef(ptr %array)")
    f.do("ret ptr null")


def _emit_release_all(module: Module) -> None:
    """`drop(objects, start, stop)`: give up a stretch of references; some may be null."""
    f = module.internal("drop", "ptr %objects, i64 %start, i64 %stop")
    with f.loop("%start", "%stop") as each:
        thing = f.emit(f"load ptr, ptr {f.offset('%objects', 'ptr', each.index)}")
        f.do(f"call void @Py_DecRef(ptr {thing})")
    f.do("ret void")


def _emit_results(module: Module) -> None:
    """`results(plan, fill, arrays) -> ptr`: wrap all results, and own their references."""
    f = module.internal("results", "ptr %plan, ptr %fill, ptr %arrays", "ptr")
    count = header(f, "outputs")
    f.do(f"br i1 {f.emit(f'icmp eq i64 {count}, 1')}, label %one, label %many")
    f.start_block("one")
    array = f.emit("load ptr, ptr %arrays")
    f.do(f"ret ptr {f.emit(f'call ptr @wrap(ptr %plan, ptr %fill, ptr {array})')}")
    f.start_block("many")
    made = f.emit(f"call ptr @PyTuple_New(i64 {count})")
    branch(f, f.emit(f"icmp ne ptr {made}, null"), "all")
    items = at(f, made, TUPLE_HEAD)
    with f.loop("0", count) as each:
        array = f.emit(f"load ptr, ptr {f.offset('%arrays', 'ptr', each.index)}")
        item = f.emit(f"call ptr @wrap(ptr %plan, ptr %fill, ptr {array})")
        branch(f, f.emit(f"icmp ne ptr {item}, null"), "rest")
        f.do(f"store ptr {item}, ptr {f.offset(items, 'ptr', each.index)}")
    f.do(f"ret ptr {made}")
    f.start_block("rest")  # the tuple drops the items it has
    f.do(f"call void @Py_DecRef(ptr {made})")
    f.do(f"call void @drop(ptr %arrays, i64 {f.emit(f'add i64 {each.index}, 1')}, i64 {count})")
    f.do("ret ptr null")
    f.start_block("all")
    f.do(f"call void @drop(ptr %arrays, i64 0, i64 {count})")
    f.do("ret ptr null")


def _emit_run(module: Module) -> None:
    """`run(plan, buffers, place) -> i1`: call main with an arena.

    If main gives anything but 0, the result is false and an exception is set. The arena's address
    goes to `place`, the last of `buffers`.
    """
    f = module.internal("run", "ptr %plan, ptr %buffers, ptr %place", "i1")
    size, main = header(f, "arena"), header(f, "main")
    f.do(f"br i1 {f.emit(f'icmp eq i64 {size}, 0')}, label %ready, label %scratch")
    f.start_block("scratch")
    arena = f.emit(f"call ptr @allocate(i64 {size})")
    branch(f, f.emit(f"icmp ne ptr {arena}, null"), "memory")
    f.do(f"store ptr {arena}, ptr %place")
    f.go_on("ready")
    used = f.emit("load ptr, ptr %place")
    free = f.emit(f"and i64 {header(f, 'flags')}, {RELEASE_GIL}")
    f.do(f"br i1 {f.emit(f'icmp eq i64 {free}, 0')}, label %holding, label %releasing")
    f.start_block("holding")
    held = f.emit(f"call i32 {main}(ptr %buffers)")
    f.do("br label %ran")
    f.start_block("releasing")
    thread = f.emit("call ptr @PyEval_SaveThread()")
    released = f.emit(f"call i32 {main}(ptr %buffers)")
    f.do(f"call void @PyEval_RestoreThread(ptr {thread})")
    f.go_on("ran")
    status = f.emit(f"phi i32 [ {held}, %holding ], [ {released}, %releasing ]")
    with f.when(f.emit(f"icmp ne i64 {size}, 0")):
        f.do(f"call void @release(ptr {used}, i64 {size})")
    branch(f, f.emit(f"icmp eq i32 {status}, 0"), "failed")
    f.do("ret i1 true")
    f.start_block("failed")
    branch(f, f.emit(f"icmp ne i32 {status}, {polls.RAISED}"), "gone")
    branch(f, f.emit(f"icmp ne i32 {status}, {polls.STOPPED}"), "stopped")
    number = f.emit(f"call ptr @PyLong_FromLongLong(i64 {f.emit(f'sext i32 {status} to i64')})")
    branch(f, f.emit(f"icmp ne ptr {number}, null"), "gone")
    answer = f.emit(f"call ptr @PyObject_CallOneArg(ptr {header(f, 'on_error')}, ptr {number})")
    f.do(f"call void @Py_DecRef(ptr {number})")
    branch(f, f.emit(f"icmp ne ptr {answer}, null"), "gone")
    f.do(f"call void @Py_DecRef(ptr {answer})")  # it did not raise: CPython makes a SystemError
    f.do("br label %gone")
    f.start_block("stopped")
    f.do(f"call void @{polls.RAISE}()")
    f.do("br label %gone")
    f.start_block("memory")
    _tell_no_memory(f, size)
    f.go_on("gone")
    f.do("ret i1 false")


def _emit_entry(module: Module) -> None:
    """`entry(self, args, count, names) -> ptr`: what CPython calls."""
    parameters = [("ptr", "%self"), ("ptr", "%args"), ("i64", "%count"), ("ptr", "%names")]
    f = module.function("entry", parameters, "ptr")
    f.do(f"%plan = getelementptr inbounds i8, ptr %self, i64 {BYTES_HEAD}")
    inputs, outputs, constants = (header(f, name) for name in Header._fields[:3])
    arrays = f.emit(f"add i64 {inputs}, {outputs}")
    takes = flag(f, TAKE_OUTPUTS | FILL_OUTPUTS)
    fills = flag(f, FILL_OUTPUTS)
    wanted = f.emit(f"select i1 {takes}, i64 {arrays}, i64 {inputs}")
    right = f.emit(f"icmp eq i64 %count, {wanted}")
    branch(f, f.emit(f"and i1 {right}, {f.emit('icmp eq ptr %names, null')}"), "miss")
    fixed = f.emit(f"add i64 {arrays}, {constants}")
    buffers = f.emit(f"alloca ptr, i64 {f.emit(f'add i64 {fixed}, 1')}")
    objects = f.emit(f"alloca ptr, i64 {f.emit(f'add i64 {arrays}, 1')}")
    numbers = f.emit(f"alloca i64, i64 {f.emit(f'add i64 {inputs}, 1')}")
    specs = at(f, "%plan", 8 * len(Header._fields))
    with f.loop("0", inputs, carried=[("ptr", specs)]) as each:
        _input(f, each.index, each.values[0], buffers, objects, numbers)
        each.next[0] = f.offset(at(f, each.values[0], 24), "i64", word(f, each.values[0], 1))
    with f.loop(inputs, arrays, carried=[("ptr", each.values[0])]) as made:
        spec = made.values[0]
        array = _output(f, takes, fills, made.index, spec)
        branch(f, f.emit(f"icmp ne ptr {array}, null"), "unmade")
        branch(f, f.emit(f"icmp ne ptr {array}, @miss"), "unfit")
        f.do(f"store ptr {array}, ptr {f.offset(objects, 'ptr', made.index)}")
        data = f.emit(f"load ptr, ptr {at(f, array, DATA)}")
        f.do(f"store ptr {data}, ptr {f.offset(buffers, 'ptr', made.index)}")
        made.next[0] = f.offset(at(f, spec, 24), "i64", word(f, spec, 1))
    with f.when(fills):
        apart = f.emit(f"call i1 @apart(ptr %plan, ptr {buffers}, ptr {specs})")
        branch(f, apart, "unfit")
    rest, size = made.values[0], f.emit(f"shl i64 {constants}, 3")
    place = f.offset(buffers, "ptr", arrays)
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {place}, ptr {rest}, i64 {size}, i1 false)")
    _finish_entry(f, fills, arrays, buffers, objects, fixed, at(f, rest, size))
    f.start_block("unmade")
    f.do(f"call void @drop(ptr {objects}, i64 0, i64 {made.index})")
    f.do("ret ptr null")
    f.start_block("unfit")
    f.do(f"call void @drop(ptr {objects}, i64 0, i64 {made.index})")
    f.do("br label %miss")
    f.start_block("misfit")
    f.do(f"call void @drop(ptr {objects}, i64 0, i64 {f.emit(f'add i64 {each.index}, 1')})")
    f.go_on("miss")
    f.do("call void @Py_IncRef(ptr @miss)")
    f.do("ret ptr @miss")


def _input(f: Function, index: str, spec: str, buffers: str, objects: str, numbers: str) -> None:
    """Store an argument's data pointer in `buffers`, and its ndarray in `objects`.

    A number has a place among `numbers`, and null for an ndarray.
    """
    argument = f.emit(f"load ptr, ptr {f.offset('%args', 'ptr', index)}")
    array = f.emit(f"call ptr @find(ptr %plan, ptr {argument})")
    f.do(f"store ptr {array}, ptr {f.offset(objects, 'ptr', index)}")
    bare, known, ready = f.label("number"), f.label("array"), f.label("input")
    f.do(f"br i1 {f.emit(f'icmp eq ptr {array}, null')}, label %{bare}, label %{known}")
    f.start_block(bare)
    place = f.offset(numbers, "i64", index)
    branch(f, f.emit(f"call i1 @number(ptr {argument}, ptr {spec}, ptr {place})"), "misfit", "fine")
    number_end = f.block
    f.do(f"br label %{ready}")
    f.start_block(known)
    branch(f, f.emit(f"call i1 @fits(ptr {array}, ptr {spec})"), "misfit", "fit")
    inside = f.emit(f"load ptr, ptr {at(f, array, DATA)}")
    array_end = f.block
    f.go_on(ready)
    data = f.emit(f"phi ptr [ {place}, %{number_end} ], [ {inside}, %{array_end} ]")
    f.do(f"store ptr {data}, ptr {f.offset(buffers, 'ptr', index)}")


def _output(f: Function, takes: str, fills: str, index: str, spec: str) -> str:
    """The ndarray for an output: a new one, or one that was passed as an argument."""
    fresh, given, ready = f.label("fresh"), f.label("given"), f.label("output")
    f.do(f"br i1 {takes}, label %{given}, label %{fresh}")
    f.start_block(fresh)
    made = f.emit(f"call ptr @make(ptr {spec})")
    f.do(f"br label %{ready}")
    f.start_block(given)
    argument = f.emit(f"load ptr, ptr {f.offset('%args', 'ptr', index)}")
    taken = f.emit(f"call ptr @take(ptr {argument}, ptr {spec}, i1 {fills})")
    f.go_on(ready)
    return f.emit(f"phi ptr [ {made}, %{fresh} ], [ {taken}, %{given} ]")


def _finish_entry(
    f: Function, fills: str, arrays: str, buffers: str, objects: str, fixed: str, fill: str
) -> None:
    """Run main and wrap the results; `objects` are the ndarrays of inputs and outputs."""
    inputs = header(f, "inputs")
    last = f.offset(buffers, "ptr", fixed)
    done = f.emit(f"call i1 @run(ptr %plan, ptr {buffers}, ptr {last})")
    f.do(f"call void @drop(ptr {objects}, i64 0, i64 {inputs})")
    branch(f, done, "failed")
    with f.when(fills):
        f.do(f"call void @drop(ptr {objects}, i64 {inputs}, i64 {arrays})")
        f.do("call void @Py_IncRef(ptr @none)")
        f.do("ret ptr @none")
        f.start_block(f.label("unreachable"))
    first = f.offset(objects, "ptr", inputs)
    f.do(f"ret ptr {f.emit(f'call ptr @results(ptr %plan, ptr {fill}, ptr {first})')}")
    f.start_block("failed")
    f.do(f"call void @drop(ptr {objects}, i64 {inputs}, i64 {arrays})")
    f.do("ret ptr null")


def _emit_ufunc_entry(module: Module) -> None:
    """`ufunc_entry(self, args, count, names) -> ptr`: a loop of NumPy over arrays of one shape.

    Its plan has the words of `Ufunc` behind the header, whose `main` is the loop.
    """
    parameters = [("ptr", "%self"), ("ptr", "%args"), ("i64", "%count"), ("ptr", "%names")]
    f = module.function("ufunc_entry", parameters, "ptr")
    f.do(f"%plan = getelementptr inbounds i8, ptr %self, i64 {BYTES_HEAD}")
    inputs, about = header(f, "inputs"), at(f, "%plan", 8 * len(Header._fields))
    plan = Ufunc(*(word(f, about, i) for i in range(len(Ufunc._fields))))
    right = f.emit(f"icmp eq i64 %count, {inputs}")
    branch(f, f.emit(f"and i1 {right}, {f.emit('icmp eq ptr %names, null')}"), "miss")
    spec, size = _spec_of_first(f, plan)
    branch(f, f.emit(f"icmp sle i64 {size}, {plan.most}"), "miss")
    count = f.emit(f"add i64 {inputs}, 1")
    objects, buffers = (f.emit(f"alloca ptr, i64 {count}") for _ in range(2))
    steps = f.emit(f"alloca i64, i64 {count}")
    with f.loop("0", inputs) as each:
        argument = f.emit(f"load ptr, ptr {f.offset('%args', 'ptr', each.index)}")
        array = f.emit(f"call ptr @find(ptr %plan, ptr {argument})")
        f.do(f"store ptr {array}, ptr {f.offset(objects, 'ptr', each.index)}")
        branch(f, f.emit(f"icmp ne ptr {array}, null"), "unfound")
        branch(f, f.emit(f"call i1 @fits(ptr {array}, ptr {spec})"), "misfit")
        data = f.emit(f"load ptr, ptr {at(f, array, DATA)}")
        f.do(f"store ptr {data}, ptr {f.offset(buffers, 'ptr', each.index)}")
        f.do(f"store i64 {plan.itemsize}, ptr {f.offset(steps, 'i64', each.index)}")
    rank = word(f, spec, 1)
    f.do(f"store i64 {plan.made}, ptr {spec}")
    bytes_made = f.emit(f"mul i64 {size}, {plan.made_itemsize}")
    f.do(f"store i64 {bytes_made}, ptr {f.offset(at(f, spec, 16), 'i64', rank)}")
    made = f.emit(f"call ptr @make(ptr {spec})")
    branch(f, f.emit(f"icmp ne ptr {made}, null"), "unmade")
    f.do(
        f"store ptr {f.emit(f'load ptr, ptr {at(f, made, DATA)}')}, ptr "
        f"{f.offset(buffers, 'ptr', inputs)}"
    )
    f.do(f"store i64 {plan.made_itemsize}, ptr {f.offset(steps, 'i64', inputs)}")
    length = f.emit("alloca i64")
    f.do(f"store i64 {size}, ptr {length}")
    extra = f.emit(f"inttoptr i64 {plan.extra} to ptr")
    loop = header(f, "main")
    f.do(f"call void {loop}(ptr {buffers}, ptr {length}, ptr {steps}, ptr {extra})")
    f.do(f"call void @drop(ptr {objects}, i64 0, i64 {inputs})")
    fill = at(f, about, 8 * len(Ufunc._fields))
    f.do(f"ret ptr {f.emit(f'call ptr @wrap(ptr %plan, ptr {fill}, ptr {made})')}")
    f.start_block("unmade")
    f.do(f"call void @drop(ptr {objects}, i64 0, i64 {inputs})")
    f.do("ret ptr null")
    f.start_block("unfound")
    f.do(f"call void @drop(ptr {objects}, i64 0, i64 {each.index})")
    f.do("br label %miss")
    f.start_block("misfit")
    f.do(f"call void @drop(ptr {objects}, i64 0, i64 {f.emit(f'add i64 {each.index}, 1')})")
    f.go_on("miss")
    f.do("call void @Py_IncRef(ptr @miss)")
    f.do("ret ptr @miss")


def _spec_of_first(f: Function, plan: Ufunc) -> tuple[str, str]:
    """A spec of the plan's dtype with the shape of the first argument, and its size."""
    argument = f.emit("load ptr, ptr %args")
    array = f.emit(f"call ptr @find(ptr %plan, ptr {argument})")
    branch(f, f.emit(f"icmp ne ptr {array}, null"), "miss")
    rank = f.emit(f"sext i32 {f.emit(f'load i32, ptr {at(f, array, RANK)}')} to i64")
    spec = f.emit(f"alloca i64, i64 {f.emit(f'add i64 {rank}, 3')}")
    f.do(f"store i64 {plan.dtype}, ptr {spec}")
    f.do(f"store i64 {rank}, ptr {at(f, spec, 8)}")
    dimensions = f.emit(f"load ptr, ptr {at(f, array, DIMENSIONS)}")
    with f.loop("0", rank, carried=[("i64", "1")]) as axes:
        dimension = f.emit(f"load i64, ptr {f.offset(dimensions, 'i64', axes.index)}")
        f.do(f"store i64 {dimension}, ptr {f.offset(at(f, spec, 16), 'i64', axes.index)}")
        axes.next[0] = f.emit(f"mul i64 {axes.values[0]}, {dimension}")
    f.do(f"call void @Py_DecRef(ptr {array})")
    return spec, axes.values[0]
