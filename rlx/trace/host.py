"""Convert numbers, lists and foreign arrays to NumPy arrays of rlx's dtypes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any

import numpy as np

from ..ir.errors import DeviceMemoryError, DtypeError, RlxError
from ..ir.types import DTYPES, Type, as_dtype, is_bool, is_complex, is_integer
from .foreign import shared
from .pytree import too_deep


def no_memory(what: str, error: Exception) -> DeviceMemoryError:
    """The error that the host is out of memory."""
    return DeviceMemoryError(
        f"{what}: {str(error) or 'out of memory'}",
        fix="use smaller arrays, or rlx.jit, which does not keep what it can compute again",
    )


PYTHON_SCALARS = (bool, int, float, complex)
_KNOWN = frozenset(DTYPES.values())
_DEFAULTS = {"float64": "float32", "int64": "int32", "complex128": "complex64"}


def is_python_scalar(x: Any) -> bool:
    """Whether x is a plain Python number; NumPy's float64 is a float but not plain."""
    return isinstance(x, PYTHON_SCALARS) and not isinstance(x, np.generic)


def to_numpy(x: Any, dtype: Any = None, *, copy: bool = False) -> np.ndarray:
    """Give a NumPy array of a dtype that rlx has; `copy` gives it its own memory.

    Python numbers and lists of them take the default dtypes float32, int32, complex64.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if is_python_scalar(x):
        return scalar_to_numpy(x, wanted or default_of(x))
    has_dtype = isinstance(x, np.ndarray | np.generic) or not isinstance(x, list | tuple | range)
    try:
        found = np.asarray(x)
        is_foreign = not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__")
        if found.dtype.kind == "O" and is_foreign:
            found = shared(x)
    except RecursionError:
        raise too_deep() from None
    except RlxError:
        raise
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        if hasattr(x, "__dlpack__"):
            found = shared(x)
        elif isinstance(error, (TypeError, ValueError)):
            raise DtypeError(
                f"a {type(x).__name__} does not make an array: {error}",
                fix="give lists of equal lengths"
                if isinstance(error, ValueError)
                else "give numbers, lists of numbers or an array of numbers",
            ) from None
        else:
            raise
    if found.dtype.name == "float64" and not has_dtype and found.size:
        found = _exact_integers(x, found)
    if found.dtype.byteorder not in "=|" and found.dtype.kind in "iufc":
        found = found.astype(found.dtype.newbyteorder("="))
    check_supported(found.dtype, x)
    if wanted is None:
        wanted = found.dtype if has_dtype else _default_of_list(x, found)
    _check_range(found, wanted)
    if not copy and found.dtype == wanted and found.flags.c_contiguous:
        return found
    return dense_copy(found, wanted)


# -- memory of new arrays --------------------------------------------------------------------------

PAGE = 4096  # bytes; a smaller array needs few loads, and may come before anything is compiled
_open_memory: Callable[[], Context | None] = Context


def set_memory(open_memory: Callable[[], Context | None]) -> None:
    """Set what opens the context in which NumPy makes arrays in the memory of results."""
    global _open_memory
    _open_memory = open_memory


def dense_copy(array: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
    """A copy whose memory is dense, and from a page on aligned for vectors."""
    if array.nbytes < PAGE or (context := _open_memory()) is None:
        return _copied(array, dtype)
    return context.copy().run(_copied, array, dtype)


def _copied(array: np.ndarray, dtype: np.dtype | None) -> np.ndarray:
    if dtype is None or dtype == array.dtype:
        return array.copy()
    with np.errstate(over="ignore"):  # what a smaller dtype does not hold is infinite in it
        return np.array(array, dtype=dtype, order="C")


def _exact_integers(x: Any, found: np.ndarray) -> np.ndarray:
    """The array of a list of integers too large for int64, which NumPy rounds to floats."""
    if np.abs(found).max() < 2**63 or not all(type(leaf) is int for leaf in leaves_of_lists(x)):
        return found
    try:
        return np.asarray(x, dtype="uint64")
    except OverflowError:
        return found  # of both signs, or larger still: the range check names them


def _default_of_list(x: Any, found: np.ndarray) -> np.dtype:
    """The dtype of a list: the default one, if its numbers are Python's and not NumPy's."""
    if any(isinstance(leaf, np.ndarray | np.generic) for leaf in leaves_of_lists(x)):
        return found.dtype
    if not found.size:
        return DTYPES["float32"]
    return DTYPES[_DEFAULTS.get(found.dtype.name, found.dtype.name)]


def leaves_of_lists(x: Any) -> Iterator[Any]:
    """What nested lists and tuples hold."""
    if isinstance(x, list | tuple):
        for item in x:
            yield from leaves_of_lists(item)
    else:
        yield x


def _check_range(found: np.ndarray, wanted: np.dtype) -> None:
    """Check that numbers which become integers fit; `astype` of an array wraps them."""
    if not is_integer(wanted) or found.dtype.kind not in "iuf" or found.dtype == wanted:
        return
    limits = np.iinfo(wanted)
    low, high = (found.min(), found.max()) if found.size else (0, 0)
    if not (limits.min <= low and high <= limits.max):
        kind = "integers" if is_integer(found.dtype) else "numbers"
        raise DtypeError(
            f"the {kind} {low} to {high} do not fit {wanted.name}",
            fix='pick a wider dtype: rlx.array(x, dtype="int64")',
        )


def check_supported(dtype: np.dtype, x: Any = None) -> None:
    """Raise a `DtypeError` unless rlx has the dtype; masked arrays are refused, too."""
    # asking NumPy for its masked arrays imports them, for longer than a small function compiles
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(x, masked.MaskedArray):
        raise DtypeError(
            "a masked array would lose its mask",
            fix="fill it: x.filled(0), and pass the mask as an array of its own if it matters",
        )
    if dtype in _KNOWN or dtype.name in DTYPES:
        return
    raise DtypeError(
        _no_number(dtype, x),
        fix="make an array of it: rlx.numpy.zeros(spec.shape, spec.dtype)"
        if isinstance(x, Type)
        else f"convert it to one of {', '.join(DTYPES)}",
    )


def _no_number(dtype: np.dtype, x: Any) -> str:
    if isinstance(x, Type):
        return f"a spec, {x}, has no numbers"
    if dtype.kind == "O" and x is not None and not isinstance(x, np.ndarray):
        return f"a {type(x).__name__} is not an array of numbers"
    kinds = {"O": "Python objects", "U": "text", "S": "bytes", "M": "dates", "m": "durations"}
    if dtype.kind in kinds:
        return f"values of dtype {dtype} are {kinds[dtype.kind]}, not numbers"
    return f"rlx has no dtype {dtype.name}"


def default_of(x: bool | int | float | complex) -> np.dtype:
    """The default dtype of a Python number."""
    kind = type(x)  # most are of these classes themselves
    return as_dtype(
        kind if kind in PYTHON_SCALARS else next(k for k in PYTHON_SCALARS if isinstance(x, k))
    )


def scalar_to_numpy(x: bool | int | float | complex, dtype: np.dtype) -> np.ndarray:
    """A Python number as an array without axes; it must fit an integer dtype."""
    if isinstance(x, int | float) and is_integer(dtype):
        limits = np.iinfo(dtype)
        if not limits.min <= x <= limits.max:
            kind = "integer" if isinstance(x, int) else "float"
            raise DtypeError(
                f"the Python {kind} {x} does not fit {dtype.name}",
                fix='convert the array first, or write rlx.array(x, dtype="int64")',
            )
    if isinstance(x, complex) and not is_complex(dtype) and not is_bool(dtype):
        raise DtypeError(
            f"the Python complex {x} does not fit {dtype.name}",
            fix="take its real part, x.real, or convert the array to complex64 first",
        )
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)
