"""Questions about arrays, dtypes and the namespace that need no computation."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.errors import AttributeValueError
from ..ir.types import (
    DTYPES,
    as_dtype,
    is_bool,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_signed,
    promote,
)
from ..trace.apply import as_operand, operand_type
from ..trace.arguments import choice, count_of, flag
from ..trace.array import default_memory, find_memory
from ..trace.axes import one_axis
from ..trace.host import to_numpy
from ..trace.operators import Operators
from .elementwise import Tensor

iterable = np.iterable
get_printoptions, set_printoptions = np.get_printoptions, np.set_printoptions
printoptions = np.printoptions


class finfo:
    """The limits of a float dtype, or of the parts of a complex one, as numbers.

    >>> finfo("float32").bits, finfo("float32").eps == 2.0**-23
    (32, True)
    """

    def __init__(self, dtype: Any) -> None:
        limits = ml_dtypes.finfo(_limited("finfo", dtype, is_inexact))
        self.dtype = np.dtype(limits.dtype)
        self.bits: int = limits.bits
        self.min, self.max = float(limits.min), float(limits.max)
        self.eps, self.epsneg = float(limits.eps), float(limits.epsneg)
        self.smallest_normal = self.tiny = float(limits.smallest_normal)
        self.smallest_subnormal = float(limits.smallest_subnormal)
        self.resolution, self.precision = float(limits.resolution), int(limits.precision)
        self.nmant, self.nexp, self.iexp = int(limits.nmant), int(limits.nexp), int(limits.iexp)
        self.minexp, self.maxexp = int(limits.minexp), int(limits.maxexp)
        self.machep, self.negep = int(limits.machep), int(limits.negep)

    def __repr__(self) -> str:
        return f"finfo(dtype={self.dtype.name}, min={self.min}, max={self.max}, eps={self.eps})"


class iinfo:
    """The limits of an integer dtype.

    >>> iinfo("int8").min, iinfo("int8").max
    (-128, 127)
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = _limited("iinfo", dtype, is_integer)
        limits = np.iinfo(self.dtype)
        self.bits: int = limits.bits
        self.min: int = int(limits.min)
        self.max: int = int(limits.max)

    def __repr__(self) -> str:
        return f"iinfo(dtype={self.dtype.name}, min={self.min}, max={self.max})"


def _dtype_of(x: Any) -> np.dtype:
    return x.dtype if isinstance(x, Operators | np.ndarray) else as_dtype(x)


def _limited(name: str, x: Any, fits: Callable[[np.dtype], bool]) -> np.dtype:
    """The dtype whose limits are asked for."""
    dtype = _dtype_of(x)
    if fits(dtype):
        return dtype
    raise AttributeValueError(
        f"{name}: the dtype is {dtype}",
        fix="use iinfo for integers, finfo for floats and complex numbers",
    )


def ndim(a: Tensor) -> int:
    """The number of axes."""
    return operand_type(as_operand(a)).rank


def shape(a: Tensor) -> tuple[Any, ...]:
    """The size of each axis."""
    return operand_type(as_operand(a)).shape


def size(a: Tensor, axis: int | None = None) -> Any:
    """The number of elements, or the size of an axis."""
    sizes = shape(a)
    return math.prod(sizes) if axis is None else sizes[one_axis("size", axis, len(sizes))]


def iscomplexobj(x: Tensor) -> bool:
    """Whether an array has a complex dtype."""
    return is_complex(operand_type(as_operand(x)).dtype)


def isrealobj(x: Tensor) -> bool:
    """Whether an array has a dtype that is not complex."""
    return not iscomplexobj(x)


def array_repr(
    arr: Tensor,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The `repr` of an array, with a line width and precision.

    `max_line_width` is in characters, `precision` in digits; `suppress_small` prints tiny numbers
    as 0.
    """
    if max_line_width is precision is suppress_small is None:
        return repr(arr)
    layout = _layout("array_repr", max_line_width, precision, suppress_small)
    text = np.array_repr(to_numpy(arr), *layout)
    return text.replace("array(", "Array(", 1)


def array_str(
    a: Tensor,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The `str` of an array; the options are as for `array_repr`.

    They are `max_line_width`, `precision` and `suppress_small`.
    """
    layout = _layout("array_str", max_line_width, precision, suppress_small)
    return np.array_str(to_numpy(a), *layout)


def _layout(name: str, width: Any, digits: Any, small: Any) -> tuple[Any, Any, Any]:
    width = None if width is None else count_of(f"{name}: max_line_width", width)
    digits = None if digits is None else count_of(f"{name}: precision", digits, most=100)
    return width, digits, None if small is None else flag(f"{name}: suppress_small", small)


def isscalar(element: Any) -> bool:
    """Whether `element` is a number or a 0-d array."""
    return np.isscalar(element) or (not isinstance(element, str | bytes) and ndim(element) == 0)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is equal to or below another one in NumPy's type hierarchy.

    `arg1` is the dtype, `arg2` the other. bfloat16 and float8 are floating.
    """
    if not (isinstance(arg2, type) and issubclass(arg2, np.generic)):
        arg2 = as_dtype(arg2)
    if arg2 in (np.floating, np.inexact, np.number) and is_inexact(as_dtype(arg1)):
        return arg2 is not np.floating or as_dtype(arg1).kind != "c"
    return bool(np.issubdtype(as_dtype(arg1) if not isinstance(arg1, type) else arg1, arg2))


def promote_types(a: Any, b: Any) -> np.dtype:
    """The dtype to which two dtypes promote."""
    return promote(as_dtype(a), as_dtype(b))


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a dtype, or that of an array, can be cast to another by NumPy's rules.

    `from_` and `to` are the two; `casting` is "no", "equiv", "safe", "same_kind" or "unsafe".
    """
    choice("can_cast: casting", casting, ("no", "equiv", "safe", "same_kind", "unsafe"))
    return bool(np.can_cast(_dtype_of(from_), as_dtype(to), casting))


_KINDS = {
    "bool": is_bool,
    "signed integer": is_signed,
    "unsigned integer": lambda d: is_integer(d) and not is_signed(d),
    "integral": is_integer,
    "real floating": is_float,
    "complex floating": is_complex,
    "numeric": lambda d: not is_bool(d),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of an array API `kind` such as "integral", or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if not isinstance(kind, str):
        return as_dtype(dtype) == as_dtype(kind)
    if kind not in _KINDS:
        raise AttributeValueError(
            f"isdtype: there is no kind {kind!r}",
            fix=f"use one of {', '.join(_KINDS)}",
        )
    return _KINDS[kind](as_dtype(dtype))


# -- what the Python array API standard asks a namespace about itself ------------------------------
#
# `rlx.numpy` follows its version 2024.12 with the extensions `fft` and `linalg`.


__array_api_version__ = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", __array_api_version__)  # each adds to the one before
HOST = "cpu"
_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
_DEFAULTS = {
    "real floating": "float32",
    "complex floating": "complex64",
    "integral": "int32",
    "indexing": "int32",
}


class NamespaceInfo:
    """What the namespace can do; made by `rlx.numpy.__array_namespace_info__()`."""

    def capabilities(self) -> dict[str, bool | int]:
        """Which optional features are supported: shapes may depend on data outside of jit."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device of arrays that name none."""
        memory = default_memory()
        return HOST if memory is None else memory.name

    def devices(self) -> list[str]:
        """The devices that hold arrays; `rlx.devices()` lists those that could."""
        return list(dict.fromkeys([HOST, self.default_device()]))

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of Python numbers and of indices, by kind."""
        _check_device(device)
        return {kind: DTYPES[name] for kind, name in _DEFAULTS.items()}

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype]:
        """The standard's dtypes by name, all or those of a kind or of several.

        >>> list(NamespaceInfo().dtypes(kind=("bool", "real floating")))
        ['bool', 'float32', 'float64']
        """
        _check_device(device)
        named = {name: DTYPES[name] for name in _NAMES}
        return named if kind is None else {n: d for n, d in named.items() if isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """The array API's inspection object: capabilities, dtypes and devices."""
    return NamespaceInfo()


def __array_namespace__(api_version: str | None) -> ModuleType:
    """`rlx.numpy`, if it follows a version of the standard; `None` means any."""
    if api_version not in (None, *_VERSIONS):
        raise AttributeValueError(
            f"rlx.numpy does not follow version {api_version!r} of the array API standard",
            fix=f"ask for one of {', '.join(_VERSIONS)}",
        )
    return sys.modules[__name__.rpartition(".")[0]]


def _check_device(device: Any) -> None:
    if device is not None:
        find_memory(device)  # an error of its own, if there is none
