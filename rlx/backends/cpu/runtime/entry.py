"""Entries: one builtin per compiled function, called straight from Python.

All builtins share one piece of machine code, made once per process. A builtin's `self` is its
plan, a bytes object of 64-bit words that the machine code walks:

    header   see HEADER
    inputs   for each: dtype object, rank, dimensions..., bytes of data
    outputs  for each: dtype object, rank, dimensions..., bytes of data
    constants, then the offsets of the other slots of an `Array`, which get None

The code checks every argument against the plan, allocates the results, calls the compiled
function and wraps the results. Whatever does not fit gives `MISS`, so that the caller can take
the slow way and explain. Should CPython or NumPy lay out their objects in an unknown way, the
same contract is kept by Python code (`python_entry.py`).
"""

from __future__ import annotations

import contextvars
import ctypes
import re
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from rlx.backends.backend import MISS
from rlx.ir.gil import HAS_GIL

from ....ir.record import record
from ..llvm.compiling import load_cached
from . import entry_code, memory, object_layout, polls, pool
from .object_layout import ArrayLayout, Spec, word_in
from .python_entry import python_entry

OBJECT_SLOT = 16  # Py_T_OBJECT_EX
FASTCALL_KEYWORDS = 0x0080 | 0x0002  # METH_FASTCALL | METH_KEYWORDS
NEW_FROM_DESCRIPTOR, SET_HANDLER = 94, 304  # their places in NumPy's table of C functions

_api = ctypes.pythonapi
_new_builtin = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object, ctypes.c_void_p
)(("PyCMethod_New", _api))
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)


class _Member(ctypes.Structure):
    """CPython's PyMemberDef: a slot of a class."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def make_entry(
    main_address: int,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
    *,
    constants: Sequence[int] = (),
    arena_bytes: int = 0,
    array: ArrayLayout,
    release_gil: bool = False,
    takes_outputs: bool = False,
    fills_outputs: bool = False,
    guards: bool = False,
    on_error: Callable[[int], object],
    keep_alive: object = None,
) -> Callable[..., Any]:
    """Build the Python callable of a compiled function `i32 main(ptr buffers)`.

    `buffers` holds the data pointers of the inputs, the outputs, `constants`, and last, if
    `arena_bytes`, scratch memory aligned to 64 bytes. The callable takes exact ndarrays or exact
    instances of `array.cls`, C-contiguous and of the given specs (or for an array without axes a
    Python number of the type that takes its dtype), and returns one Array, or a tuple of them when
    there is not exactly one output; anything else returns `MISS`. A nonzero status of `main` calls
    `on_error(status)`, which raises. `keep_alive` lives as long as the callable. With
    `release_gil`, other Python threads run during `main`.

    With `takes_outputs` the callable wants an argument more for each output: None, or an exact
    ndarray to write the output to, which the Array in the result then holds. Whether it may be
    written to is the caller's business: it may be read-only, or an input at the same time. If it
    `fills_outputs` it wants all of them, writeable and apart from all other arrays, and gives None.
    """
    runtime = _runtime()
    if runtime is None or guards:
        places = (main_address, constants, arena_bytes, array, on_error, keep_alive)
        return python_entry(inputs, outputs, takes_outputs, fills_outputs, guards, *places)
    flags = object_layout.RELEASE_GIL * release_gil
    flags |= object_layout.TAKE_OUTPUTS * takes_outputs | object_layout.FILL_OUTPUTS * fills_outputs
    words: list[int] = []
    for spec in (*inputs, *outputs):
        words += (id(spec.dtype), len(spec.shape), *spec.shape, spec.nbytes)
    words += constants
    plan, kept = _plan(
        array,
        words,
        inputs=len(inputs),
        outputs=len(outputs),
        constants=len(constants),
        main=main_address,
        flags=flags,
        arena=arena_bytes,
        on_error=id(on_error),
    )
    # CPython keeps the object given as the builtin's module alive, and asks nothing of it.
    owner = (runtime, tuple(inputs), tuple(outputs), kept, on_error, keep_alive)
    return _new_builtin(ctypes.addressof(runtime.method), plan, owner, None)


def make_ufunc_entry(
    ufunc: np.ufunc, dtype: np.dtype, array: ArrayLayout, most: int
) -> Callable[..., Any] | None:
    """Build the callable of NumPy's own loop for operands of a dtype, if there is one.

    It gives the bits that the ufunc gives, without what that asks before it starts. It takes as
    many exact instances of `array.cls`, or ndarrays, as the ufunc has operands, dense, of the dtype
    and of one shape, of at most so many elements; anything else returns `MISS`.
    """
    runtime, loop = _runtime(), _ufunc_loop(ufunc, dtype)
    if runtime is None or loop is None:
        return None
    sizes = dtype.itemsize, loop.made.itemsize
    words = object_layout.Ufunc(id(dtype), id(loop.made), *sizes, loop.extra, most)
    plan, kept = _plan(array, words, inputs=ufunc.nin, outputs=1, main=loop.address)
    owner = (runtime, ufunc, dtype, loop, kept)
    return _new_builtin(ctypes.addressof(runtime.ufunc_method), plan, owner, None)


def _plan(array: ArrayLayout, words: Sequence[int], **fields: int) -> tuple[bytes, object]:
    """A plan with these words behind its header, and what must live as long as it."""
    data_slot = _Member(b"", OBJECT_SLOT, array.data_offset)
    header = object_layout.Header(
        fills=len(array.fill),
        array_type=id(array.cls),
        data_offset=array.data_offset,
        data_slot=ctypes.addressof(data_slot),
        **fields,
    )
    every = (*header, *words, *array.fill)
    return struct.pack(f"{len(every)}q", *every), (array, data_slot)


class _Runtime:
    """The machine code shared by all entries, and the objects its constants point to."""

    def __init__(self, text: str) -> None:
        table = _numpy_functions()
        names = re.findall(r"@(Py[A-Z]\w+)", " ".join(entry_code.SYMBOLS))
        symbols = {name: _address(getattr(_api, name)) for name in names if hasattr(_api, name)}
        symbols["PyArray_NewFromDescr"] = table[NEW_FROM_DESCRIPTOR]
        symbols[polls.RAISE] = pool.symbols()[polls.RAISE]
        symbols |= {"miss": id(MISS), "none": id(None), "true": id(True)}
        symbols |= {"ndarray_type": id(np.ndarray), "no_memory": id(memory.no_memory)}
        for kind in (float, int, bool):
            dtype = object_layout.NUMBER_TYPES[kind.__name__]
            symbols |= {f"{kind.__name__}_type": id(kind), f"{dtype}_dtype": id(np.dtype(dtype))}
        self.library = load_cached(text, symbols=symbols)
        self.handler = memory.Handler(b"rlx", 1, None)
        for name in ("malloc", "calloc", "realloc", "free"):
            setattr(self.handler, name, self.library.address(f"handler_{name}"))
        self.capsule_name = ctypes.c_char_p(b"mem_handler")
        self.capsule = _new_capsule(ctypes.addressof(self.handler), self.capsule_name, None)
        place = ctypes.c_uint64.from_address(self.library.address("handler_capsule"))
        place.value = id(self.capsule)
        self.method, self.ufunc_method = (
            _Method(name.encode(), self.library.address(name), FASTCALL_KEYWORDS, b"")
            for name in ("entry", "ufunc_entry")
        )


def memory_counts() -> tuple[int, int]:
    """The number of blocks allocated so far, and of bytes that wait for reuse."""
    runtime = _runtime()
    if runtime is None:
        return 0, 0
    places = (runtime.library.address(name) for name in ("made", "kept"))
    made, kept = (ctypes.c_int64.from_address(place).value for place in places)
    return made, kept


@cache
def text() -> str:
    """The LLVM text of the code that all entries share."""
    return entry_code.entry_module(locked=not HAS_GIL)


@cache
def _runtime() -> _Runtime | None:
    """The shared code, or None if object layouts differ.

    The code is never freed, since arrays may outlive everything.
    """
    if not _layouts_hold():
        return None
    runtime = _Runtime(text())
    _api.Py_IncRef(ctypes.py_object(runtime))
    return runtime


@cache
def memory_context() -> contextvars.Context | None:
    """A context in which NumPy's new arrays lie in the memory of results.

    None if object layouts differ.
    """
    runtime = _runtime()
    if runtime is None:
        return None
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(
        _numpy_functions()[SET_HANDLER]
    )
    context = contextvars.Context()  # NumPy keeps the handler of memory in a context variable
    context.run(set_handler, runtime.capsule)
    return context


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _numpy_functions() -> Any:
    """NumPy's table of C functions, as integers."""
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    return (ctypes.c_uint64 * (SET_HANDLER + 1)).from_address(_pointer(capsule, None))


def _layouts_hold() -> bool:
    """Whether ndarray, bytes and tuple have the layout that machine code assumes."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    if np.ndarray.__basicsize__ < object_layout.MEM_HANDLER + 8 or sys.byteorder != "little":
        return False
    for sample in (np.zeros((3, 5), np.float32), np.zeros((4, 6), np.int8)[1:, ::2], np.ones(())):
        rank = sample.ndim
        dimensions = (ctypes.c_int64 * rank).from_address(
            word_in(sample, object_layout.DIMENSIONS) or 8
        )
        facts = [
            word_in(sample, object_layout.TYPE) == id(np.ndarray),
            word_in(sample, object_layout.DATA) == sample.__array_interface__["data"][0],
            word_in(sample, object_layout.RANK) & 0xFFFFFFFF == rank,
            rank == 0 or tuple(dimensions) == sample.shape,
            word_in(sample, object_layout.DTYPE) == id(sample.dtype),
            word_in(sample, object_layout.FLAGS) & 0xFFFFFFFF == sample.flags.num,
            word_in(sample, object_layout.MEM_HANDLER) == 0 or sample.flags.owndata,
        ]
        if not all(facts):
            return False
    owning, plan, pair = np.zeros(100), struct.pack("q", 0x123456789), (owning_marker := object(),)
    handler = word_in(owning, object_layout.MEM_HANDLER)
    return (
        handler != 0
        and ctypes.c_uint64.from_address(handler + object_layout.TYPE).value
        == id(type(np._core._multiarray_umath._ARRAY_API))  # type: ignore[attr-defined]
        and word_in(plan, object_layout.BYTES_HEAD) == 0x123456789
        and word_in(pair, object_layout.TUPLE_HEAD) == id(owning_marker)
    )


# -- NumPy's loops --------------------------------------------------------------------------------

# A `PyUFuncObject` is part of NumPy's interface for C: it has tables of loops, of what these are
# given besides, and of the types of their operands. They are believed where all that can be asked
# of a ufunc in Python is found in its memory, and where the loop gives the bits of the ufunc.

TRIED = [0.0, -0.0, 0.1, -0.5, 1.0, 1.5, -2.0, 3.0, 7.25, 100.0, 1e4, np.inf, np.nan]
TRIED_WHOLE = [0, 1, 2, 3, 5, 7, 10, 64, 100, 127, 126, 12, 1]
RAISING = (np.power,)  # their loops may set an exception


class _Ufunc(ctypes.Structure):
    """The first fields of a PyUFuncObject, behind what all objects have."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.c_void_p),
    )


@record
class _UfuncLoop:
    """A loop over dense operands: its address, what it is given besides, the result's dtype."""

    address: int
    extra: int
    made: np.dtype


def _ufunc_loop(ufunc: np.ufunc, dtype: np.dtype) -> _UfuncLoop | None:
    """The loop of a ufunc of one result for operands of a dtype, if NumPy has one."""
    if type(ufunc) is not np.ufunc or ufunc.nout != 1 or dtype.char not in "fd?bBhHiIlLqQ":
        return None
    if ufunc in RAISING and dtype.kind != "f":
        return None
    kinds = [f"{dtype.char * ufunc.nin}->{made}" for made in f"{dtype.char}?"]
    number = next((ufunc.types.index(kind) for kind in kinds if kind in ufunc.types), None)
    fields = _Ufunc.from_address(id(ufunc) + object_layout.HEAD)
    if number is None or not _is_as_told(fields, ufunc):
        return None
    address = fields.functions[number]
    extra = fields.data[number] if fields.data else None
    if address is None:
        return None
    found = _UfuncLoop(address, extra or 0, np.dtype(ufunc.types[number][-1]))
    return found if _gives_the_same(found, ufunc, dtype) else None


def _is_as_told(fields: _Ufunc, ufunc: np.ufunc) -> bool:
    """Whether the memory of a ufunc holds what it tells in Python."""
    counts = (fields.nin, fields.nout, fields.nargs, fields.ntypes)
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
        return False
    if fields.name is None or fields.name.decode() != ufunc.__name__ or not fields.types:
        return False
    kinds = ctypes.string_at(fields.types, ufunc.nargs * ufunc.ntypes)
    told = [kind.replace("->", "") for kind in ufunc.types]
    return kinds == bytes(np.dtype(char).num for char in "".join(told))


def _gives_the_same(loop: _UfuncLoop, ufunc: np.ufunc, dtype: np.dtype) -> bool:
    """Whether a loop gives the bits that its ufunc gives."""
    tried = np.array(TRIED if dtype.kind == "f" else TRIED_WHOLE)
    given = [np.roll(tried, i).astype(dtype) for i in range(ufunc.nin)]
    with np.errstate(all="ignore"):
        wanted = ufunc(*given)
    made = np.empty_like(wanted)
    all_arrays = (*given, made)
    pointers = (ctypes.c_void_p * len(all_arrays))(*(x.ctypes.data for x in all_arrays))
    steps = (ctypes.c_ssize_t * len(all_arrays))(*(x.itemsize for x in all_arrays))
    length = ctypes.c_ssize_t(len(made))
    call = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop.address)
    call(ctypes.addressof(pointers), ctypes.addressof(length), ctypes.addressof(steps), loop.extra)
    return made.dtype == loop.made and made.tobytes() == wanted.tobytes()
