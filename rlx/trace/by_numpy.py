"""Fast paths outside of traces: NumPy on small arrays of the host.

A function of numbers meets the same dtypes again and again. Where a ufunc takes small arrays as
they are, and rlx promotes them to what NumPy promotes them to, nothing is left but to call it.
Where machine code gives the same bits, it is compiled for the kind of each 8192nd such call, and
entered first. Elements at numbers and slices are read and changed by NumPy, too.

What does not fit (traced, large or foreign operands, other dtypes, numbers out of range) goes the
ordinary way, which explains what is wrong, and so does everything while results are looked at
(`debug_nans`) or recorded.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from ..ir.errors import RlxError
from ..ir.graph import OPS
from ..ir.op import Op
from ..ir.ops.families import KINDS
from ..ir.types import DTYPES, Type, is_bool, is_inexact, is_integer
from . import short_ways
from .apply import as_operand
from .array import Array, ArrayLike
from .host import dense_copy, is_python_scalar, scalar_to_numpy
from .index import aliasing
from .promotion import check_fits

SMALL = 4096  # numbers; NumPy takes a few microseconds for them
OFTEN = 8192  # calls that take about as long as a compile
WHOLE = 2**24  # Python integers up to this are exact in each dtype that they pass through
OfOne = Callable[[ArrayLike], Array]
OfTwo = Callable[[ArrayLike, ArrayLike], Array]
Chosen = Callable[[np.dtype], str | None]  # the op that computes a function of numbers of a dtype
Range = tuple[np.ufunc | None, float, float]  # a ufunc and the Python numbers it takes

_ignoring = contextvars.Context()  # where NumPy tells nothing of errors
_ignoring.run(np.seterr, all="ignore")
_quietly = _ignoring.run  # faster than to set what it tells, and to set it back
_new = object.__new__
_KNOWN = frozenset(DTYPES.values())
_NOTHING: Range = (None, 0.0, 0.0)
_PLAIN = frozenset((int, type(None), type(...)))
# the ordinary way says what is wrong
_UNFIT = (IndexError, TypeError, ValueError, OverflowError, MemoryError)
_WIDE = frozenset(DTYPES[name] for name in ("float32", "float64"))
_FAR = 1e38  # beyond it a Python number may not fit float32


# -- functions of numbers -------------------------------------------------------------------------


def op_named(name: str, *, for_bool: str | None = None, inexact: bool = False) -> Chosen:
    """Make the function that chooses the op `name`, or another one `for_bool`.

    With `inexact`, integers are promoted to floats before it.
    """

    def chosen(dtype: np.dtype) -> str | None:
        if inexact and not is_inexact(dtype):
            return None
        return for_bool if is_bool(dtype) else name

    return chosen


def short(op: str, *, for_bool: str | None = None) -> Callable[[OfOne], OfOne]:
    """The decorator of a function of one number that an op computes."""
    return functools.partial(of_one, chosen=op_named(op, for_bool=for_bool))


def of_one(function: OfOne, chosen: Chosen) -> OfOne:
    """Add a fast path for small arrays to a function of one number."""
    ufuncs: dict[np.dtype, np.ufunc | None] = {}
    hot: short_ways.Code | None = None
    left = OFTEN

    @functools.wraps(function)
    def quick(x: Any, /) -> Any:
        nonlocal hot, left
        if type(x) is not Array or not short_ways.is_open or aliasing.open_traces:
            return function(x)
        if hot is not None and type(made := hot(x)) is Array:
            return made
        data = x._data
        ufunc = ufuncs.get(data.dtype)
        if ufunc is None and data.dtype not in ufuncs:
            ufunc = ufuncs[data.dtype] = _range(chosen, data.dtype, ())[0]
        if ufunc is None or x._device is not None or data.size > SMALL:
            return function(x)
        if left:  # nothing is counted where there is no code
            left -= 1
            if not left:
                hot = short_ways.ufunc_code(ufunc, data.dtype, SMALL)
                hot = hot or short_ways.exact_code(function, (x,))
                left = 0 if hot is None else OFTEN
        try:
            data = _quietly(ufunc, data)
        except RuntimeError:  # another thread computes in that context
            data = _ignored(ufunc, data)
        if type(data) is not np.ndarray:
            return _array(data)
        data.setflags(False)  # type: ignore[call-arg]  # as `_array` does, for a call takes as long as a sum
        made = _new(Array)
        made._data, made._device = data, None
        return made

    return quick


def of_two(function: OfTwo, chosen: Chosen, *, has_code: bool = True) -> OfTwo:
    """Add a fast path for small arrays to a function of two numbers.

    It is compiled if it `has_code` that gives NumPy's bits.
    """
    ranges: dict[np.dtype, Range] = {}
    hot: short_ways.Code | None = None
    left = OFTEN
    number_last = _with_number(function, chosen, has_code, is_first=False)
    number_first = _with_number(function, chosen, has_code, is_first=True)

    @functools.wraps(function)
    def quick(x: Any, y: Any, /) -> Any:
        nonlocal hot, left
        if not short_ways.is_open or aliasing.open_traces:
            return function(x, y)
        if type(x) is not Array:
            return number_first(y, x) if type(y) is Array else function(x, y)
        if type(y) is not Array:
            return number_last(x, y)
        if hot is not None and type(made := hot(x, y)) is Array:
            return made
        a, b = x._data, y._data
        dtype = a.dtype
        found = ranges.get(dtype)
        if found is None:
            found = ranges[dtype] = _range(chosen, dtype, (Array,))
        ufunc = found[0]
        if ufunc is None or b.dtype is not dtype or not (x._device is y._device is None):
            return function(x, y)
        if a.size > SMALL or b.size > SMALL:
            return function(x, y)
        left -= 1
        if not left:
            hot = short_ways.ufunc_code(ufunc, dtype, SMALL) if a.shape == b.shape else None
            hot = hot or (short_ways.exact_code(function, (x, y)) if has_code else None)
            left = 0 if hot is None else OFTEN
        try:
            return _computed(ufunc, a, b)
        except ValueError:  # the shapes do not fit together, which the ordinary way explains
            return function(x, y)

    return quick


def _with_number(
    function: Callable[[Any, Any], Any], chosen: Chosen, has_code: bool, *, is_first: bool
) -> Callable[[Array, Any], Any]:
    """The fast path for an array and a Python number, which comes second unless it `is_first`."""
    ranges: dict[type, dict[np.dtype, Range]] = {int: {}, float: {}}
    hot: short_ways.Code | None = None
    number, left = None, OFTEN * has_code  # code is for this number
    plain = (lambda x, y: function(y, x)) if is_first else function

    def quick(x: Array, y: Any) -> Any:
        nonlocal hot, number, left
        # -0.0 and True are other numbers than 0 and 1
        if hot is not None and y is number and type(made := hot(x)) is Array:
            return made
        kind, data = type(y), x._data
        known = ranges.get(kind)
        if known is None:
            return plain(x, y)
        found = known.get(data.dtype)
        if found is None:
            found = known[data.dtype] = _range(chosen, data.dtype, (kind,))
        ufunc, low, high = found
        if ufunc is None or x._device is not None or data.size > SMALL or not low <= y <= high:
            return plain(x, y)
        left -= 1
        if not left:
            pair = (y, x) if is_first else (x, y)
            hot, number = short_ways.exact_code(function, pair), y
            left = 0 if hot is None else OFTEN
        # as `_computed`, a call of which takes as long as a sum
        try:
            made = _quietly(ufunc, y, data) if is_first else _quietly(ufunc, data, y)
        except RuntimeError:
            made = _ignored(ufunc, y, data) if is_first else _ignored(ufunc, data, y)
        if type(made) is not np.ndarray:
            return _array(made)
        made.setflags(False)  # type: ignore[call-arg]  # as `_array` does
        array = _new(Array)
        array._data, array._device = made, None
        return array

    return quick


def _ignored(function: Callable[..., Any], *operands: Any) -> Any:
    """What a function gives, whatever the user wants to hear of errors."""
    with np.errstate(all="ignore"):
        return function(*operands)


def _computed(ufunc: np.ufunc, a: Any, b: Any) -> Array:
    """What a ufunc gives of two operands."""
    try:
        data = _quietly(ufunc, a, b)
    except RuntimeError:  # another thread computes in that context
        data = _ignored(ufunc, a, b)
    if type(data) is not np.ndarray:
        return _array(data)
    data.setflags(False)  # type: ignore[call-arg]  # as `_array` does
    made = _new(Array)
    made._data, made._device = data, None
    return made


def _array(data: Any) -> Array:
    """An array on new dense memory, or of a number."""
    if type(data) is not np.ndarray:
        data = np.asarray(data)
    data.setflags(False)  # type: ignore[call-arg]  # a keyword takes as long as a sum
    made = _new(Array)
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


def is_free(x: Any) -> TypeGuard[Array]:
    """Whether an array is known, on the host, and nothing looks at single operations."""
    return (
        type(x) is Array and x._device is None and short_ways.is_open and not aliasing.open_traces
    )


def elements(x: Array, index: Any) -> Array | None:
    """The elements at numbers and slices."""
    if not _is_plain(index):
        return None
    whole = x._data
    try:
        data = whole[index]
        return None if data.shape == whole.shape else view(data)  # the whole is no part
    except _UNFIT:
        return None


def reshaped(x: Array, shape: Any) -> Array | None:
    """The elements under another shape."""
    for size in shape if type(shape) is tuple else (shape,):
        if type(size) is not int or size < -1:  # NumPy takes -2 for -1
            return None
    data = x._data
    try:
        return _part(x, data.reshape(shape))
    except _UNFIT:
        return None


def transposed(x: Array, axes: Any) -> Array | None:
    """The axes in another order; None for the reverse one."""
    if axes is not None and not (type(axes) is tuple and all(type(i) is int for i in axes)):
        return None
    try:
        return _part(x, x._data.transpose(axes))
    except _UNFIT:
        return None


def _part(x: Array, data: np.ndarray) -> Array | None:
    """A part of an array, made of a view of its elements; None where that is the whole."""
    if data.shape == x._data.shape and data.strides == x._data.strides:
        return None
    made = view(data)
    return aliasing.is_new_part(x, made) if data.ndim else made


def converted(x: Array, dtype: np.dtype) -> Array | None:
    """The numbers of a small array in another dtype."""
    data = x._data
    if data.dtype is dtype or data.dtype not in _KNOWN or data.size > SMALL:
        return None
    if not _is_cast(data.dtype, dtype):
        return _array(*OPS["convert"].run([data], {"dtype": dtype}))
    try:
        return _array(_quietly(data.astype, dtype))
    except RuntimeError:  # another thread computes in that context
        return _array(_ignored(data.astype, dtype))


@functools.cache
def _is_cast(before: np.dtype, after: np.dtype) -> bool:
    """Whether NumPy converts numbers as the op does, which has ways of its own to round to ints."""
    is_plain = before.isbuiltin == after.isbuiltin == 1
    return is_plain and np.can_cast(before, after, "same_kind")


def joined(arrays: Any, axis: Any, join: Callable[..., Any]) -> Array | None:
    """Small arrays of one dtype in one array, by a function of NumPy."""
    if type(arrays) not in (list, tuple) or type(axis) is not int or len(arrays) < 2:
        return None
    if not short_ways.is_open or aliasing.open_traces:
        return None
    given = []
    for x in arrays:
        if type(x) is not Array or x._device is not None or x._data.size > SMALL:
            return None
        given.append(x._data)
    dtype = given[0].dtype
    for data in given:
        if data.dtype is not dtype:
            return None
    try:
        return view(join(given, axis))
    except _UNFIT:
        return None


def _is_plain(index: Any) -> bool:
    """Whether an index is made of Python integers, slices with such bounds, None and ... ."""
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is slice:
            for bound in (item.start, item.stop, item.step):
                if bound is not None and type(bound) is not int:
                    return False
        elif kind not in _PLAIN:
            return False
    return True


def view(data: Any) -> Array:
    """An array on the memory of another one, or on a copy where that is not dense."""
    is_dense = type(data) is not np.ndarray or data.flags.c_contiguous
    return _array(data if is_dense else dense_copy(data))


def changed(name: str, x: Any, index: Any, values: Any) -> Array | None:
    """The array with other elements at numbers and slices; errors name the action."""
    if not is_free(x) or not _is_plain(index):
        return None
    data = dense_copy(x._data)
    try:
        if type(values) in (int, float) and data.dtype in _WIDE and -_FAR < values < _FAR:
            data[index] = values
            return _array(data)
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
