"""Known arrays on the host, which NumPy computes with at once.

A function of numbers meets the same dtypes again and again. Where a ufunc takes small arrays as
they are, and rlx promotes them to what NumPy promotes them to, nothing is left but to call it.
Where machine code gives the same bits, it is compiled for the kind of each 8192nd such call, and
entered first. Elements at numbers and slices are read and changed by NumPy, too.

What does not fit (traced, large or foreign operands, other dtypes, numbers out of range) goes the
ordinary way, which explains what is wrong, and so does everything while results are looked at
(`debug_nans`) or recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy._core import _ufunc_config as ufunc_config
from numpy._core.umath import _make_extobj as settings_of_errors

from ..ir.errors import RlxError
from ..ir.graph import OPS
from ..ir.op import Op
from ..ir.ops.families import KINDS
from ..ir.types import DTYPES, Type, is_bool, is_inexact, is_integer
from . import ownership, short_ways
from .apply import as_operand
from .array import Array
from .host import is_python_scalar, scalar_to_numpy
from .promotion import check_fits

SMALL = 4096  # numbers; NumPy takes a few microseconds for them
OFTEN = 8192  # calls that take about as long as a compile
WHOLE = 2**24  # Python integers up to this are exact in each dtype that they pass through
Chosen = Callable[[np.dtype], str | None]  # the op that computes a function of numbers of a dtype
Range = tuple[np.ufunc | None, float, float]  # a ufunc and the Python numbers it takes

_errors: Any = ufunc_config._extobj_contextvar  # type: ignore[attr-defined]
_IGNORED: Any = settings_of_errors(all="ignore")
_KNOWN = frozenset(DTYPES.values())
_NOTHING: Range = (None, 0.0, 0.0)
_PLAIN = frozenset((int, type(None), type(...)))
_BOUNDS = frozenset((int, type(None)))
_WIDE = frozenset(DTYPES[name] for name in ("float32", "float64"))
_FAR = 1e38  # beyond it a Python number may not fit float32


# -- functions of numbers -------------------------------------------------------------------------


def op_named(name: str, *, for_bool: str | None = None, inexact: bool = False) -> Chosen:
    """What chooses the op `name`, and another one `for_bool`.

    It is `inexact` if integers are promoted before it.
    """

    def chosen(dtype: np.dtype) -> str | None:
        if inexact and not is_inexact(dtype):
            return None
        return for_bool if is_bool(dtype) else name

    return chosen


def short(op: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """The decorator of a function of one number that an op computes."""
    return functools.partial(of_one, chosen=op_named(op))


def of_one(function: Callable[[Any], Any], chosen: Chosen) -> Callable[[Any], Any]:
    """The same function of one number, with a short way for small arrays."""
    ranges: dict[np.dtype, Range] = {}
    hot, left = _nothing, OFTEN

    @functools.wraps(function)
    def quick(x: Any, /) -> Any:
        nonlocal hot, left
        if type(x) is not Array or not short_ways.is_open or ownership.open_traces:
            return function(x)
        made = hot(x)
        if type(made) is Array:
            return made
        given = x._data
        found = ranges.get(given.dtype)
        if found is None:
            found = ranges[given.dtype] = _range(chosen, given.dtype, ())
        ufunc, *_ = found
        if ufunc is None or x._device is not None or given.size > SMALL:
            return function(x)
        left -= 1
        if not left:
            hot = short_ways.exact_code(function, (x,)) or _nothing
            left = 0 if hot is _nothing else OFTEN
        return _computed(ufunc, given)

    return quick


def of_two(
    function: Callable[[Any, Any], Any], chosen: Chosen, *, has_code: bool = True
) -> Callable[[Any, Any], Any]:
    """The same function of two numbers, with a short way for small arrays.

    It is not to be compiled unless it `has_code` that gives NumPy's bits.
    """
    ranges: dict[type, dict[np.dtype, Range]] = {Array: {}, int: {}, float: {}}
    hot, left = _nothing, OFTEN * has_code  # code for two arrays
    with_number = _nothing, None  # code for an array and that number
    turned = _number_first(function, chosen, ranges)

    @functools.wraps(function)
    def quick(x: Any, y: Any, /) -> Any:
        nonlocal hot, with_number, left
        kind = type(y)
        if type(x) is not Array or kind not in ranges:
            return turned(x, y) if kind is Array else function(x, y)
        if not short_ways.is_open or ownership.open_traces:
            return function(x, y)
        if kind is Array:
            made = hot(x, y)
        else:
            code, number = with_number
            made = code(x) if y is number else None  # -0.0 and True are other numbers than 0 and 1
        if type(made) is Array:
            return made
        a, b = x._data, y
        dtype = a.dtype
        found = ranges[kind].get(dtype)
        if found is None:
            found = ranges[kind][dtype] = _range(chosen, dtype, (kind,))
        ufunc, low, high = found
        if ufunc is None or x._device is not None or a.size > SMALL:
            return function(x, y)
        if kind is Array:
            b = y._data
            if b.dtype is not dtype or y._device is not None or b.size > SMALL:
                return function(x, y)
        elif not low <= y <= high:
            return function(x, y)
        left -= 1
        if not left:
            code = short_ways.exact_code(function, (x, y)) or _nothing
            left = 0 if code is _nothing else OFTEN
            if kind is Array:
                hot = code
            else:
                with_number = code, y
        try:
            return _computed(ufunc, a, b)
        except ValueError:  # the shapes do not fit together, which the ordinary way explains
            return function(x, y)

    return quick


def _number_first(
    function: Callable[[Any, Any], Any],
    chosen: Chosen,
    ranges: dict[type, dict[np.dtype, Range]],
) -> Callable[[Any, Any], Any]:
    """The same function of anything and an array, with a short way for Python numbers."""

    def turned(x: Any, y: Any) -> Any:
        kind = type(x)
        if kind not in (int, float) or not short_ways.is_open or ownership.open_traces:
            return function(x, y)
        dtype = y._data.dtype
        found = ranges[kind].get(dtype)
        if found is None:
            found = ranges[kind][dtype] = _range(chosen, dtype, (kind,))
        ufunc, low, high = found
        if ufunc is None or y._device is not None or y.size > SMALL or not low <= x <= high:
            return function(x, y)
        return _computed(ufunc, x, y._data)

    return turned


def _nothing(*arrays: Any) -> None:
    """Code where there is none."""


def _computed(ufunc: np.ufunc, *operands: Any) -> Array:
    """What a ufunc gives, whatever the user wants to hear of its errors."""
    before = _errors.set(_IGNORED)
    try:
        data = ufunc(*operands)
    finally:
        _errors.reset(before)
    if type(data) is not np.ndarray:
        data = np.asarray(data)
    data.setflags(False)  # type: ignore[call-arg]  # a keyword takes as long as a sum
    made = Array.__new__(Array)
    made._data, made._device = data, None
    return made


def _range(chosen: Chosen, dtype: np.dtype, others: tuple[type, ...]) -> Range:
    """The ufunc for arrays of a dtype with one of these, if there is one."""
    name = chosen(dtype) if dtype in _KNOWN else None
    ufunc = None if name is None else _ufunc(OPS[name], dtype, 1 + len(others))
    if ufunc is None or others in ((), (Array,)):
        return ufunc, 0.0, 0.0
    if dtype.isbuiltin != 1 or is_bool(dtype) or (others == (float,) and not is_inexact(dtype)):
        return _NOTHING
    if is_integer(dtype):
        limits = np.iinfo(dtype)
        return ufunc, limits.min, limits.max
    far = WHOLE if others == (int,) else float(np.finfo(np.float64).max)
    return ufunc, -far, far


def _ufunc(op: Op, dtype: np.dtype, count: int) -> np.ufunc | None:
    """The ufunc that gives what the reference gives for operands of a dtype."""
    kind = next((kind for kind, holds in KINDS.items() if holds(dtype)), "")
    ufunc = op.rules.ufuncs.get(kind, op.rules.reference)
    if not isinstance(ufunc, np.ufunc):
        return None
    try:
        (made,) = op.infer([Type(dtype, ())] * count, {})
    except RlxError:  # which the ordinary way explains
        return None
    with np.errstate(all="ignore"):
        return ufunc if ufunc(*[np.ones(1, dtype)] * count).dtype == made.dtype else None


# -- elements -------------------------------------------------------------------------------------


def is_free(x: Any) -> bool:
    """Whether an array is known, on the host, and nothing looks at single operations."""
    return (
        type(x) is Array and x._device is None and short_ways.is_open and not ownership.open_traces
    )


def elements(x: Array, index: Any) -> Array | None:
    """The elements at numbers and slices."""
    if not _is_plain(index):
        return None
    try:
        data = x._data[index]
    except (IndexError, ValueError):
        return None
    return None if data.shape == x._data.shape else view(data)  # the whole is no part


def reshaped(x: Array, shape: Any) -> Array | None:
    """The elements under another shape."""
    sizes = shape if type(shape) is tuple else (shape,)
    if any(type(size) is not int or size < -1 for size in sizes):  # NumPy takes -2 for -1
        return None
    try:
        data = x._data.reshape(sizes)
    except ValueError:
        return None
    return None if data.shape == x._data.shape else _part(x, view(data))


def _part(x: Array, made: Array) -> Array:
    return ownership.is_new_part(x, made) if made._data.ndim else made


def _is_plain(index: Any) -> bool:
    """Whether an index is made of Python integers, slices with such bounds, None and ... ."""
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is slice:
            if not {type(item.start), type(item.stop), type(item.step)} <= _BOUNDS:
                return False
        elif kind not in _PLAIN:
            return False
    return True


def view(data: Any) -> Array:
    """An array on the memory of another one, or on a copy where that is not dense."""
    if type(data) is not np.ndarray:
        data = np.asarray(data)
    if not data.flags.c_contiguous:
        data = np.ascontiguousarray(data)
    data.setflags(False)  # type: ignore[call-arg]  # a keyword takes as long as a sum
    made = Array.__new__(Array)
    made._data, made._device = data, None
    return made


def changed(name: str, x: Any, index: Any, values: Any) -> Array | None:
    """The array with other elements at numbers and slices.

    `name` is the action for errors.
    """
    if not is_free(x) or not _is_plain(index):
        return None
    data = np.array(x._data)
    try:
        if type(values) in (int, float) and data.dtype in _WIDE and -_FAR < values < _FAR:
            data[index] = values
            return view(data)
        given = as_operand(values)
        check_fits(name, given, data.dtype)
        if isinstance(given, Array) and given._device is None:
            data[index] = given._data
        elif is_python_scalar(given):
            data[index] = scalar_to_numpy(values, data.dtype)
        else:
            return None
    except (IndexError, TypeError, ValueError):
        return None
    return view(data)
