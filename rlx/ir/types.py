"""Types of values, a dtype and a shape; and the promotion of dtypes."""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from .dims import Dim, Symbol
from .errors import ArgumentError, DtypeError, ShapeError
from .record import record

SHORT = {
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
_EXTENDED = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
DTYPES = {name: np.dtype(_EXTENDED.get(name, name)) for name in SHORT}
NAMES = {dtype: name for name, dtype in DTYPES.items()}  # a dtype's `name` takes long to make
LONG = {short: name for name, short in SHORT.items()}
_CANONICAL = {dtype: dtype for dtype in DTYPES.values()}
_EXTENDED_DTYPES = frozenset(DTYPES[name] for name in _EXTENDED)
Size: TypeAlias = "int | Dim"


def as_dtype(dtype: object) -> np.dtype:
    """Convert a name, a short name, a scalar type or a dtype to a canonical dtype.

    Returns NumPy's class of it; what is no dtype of rlx is a `DtypeError`.

    >>> as_dtype("bf16"), as_dtype(float)
    (dtype(bfloat16), dtype('float32'))
    """
    if isinstance(dtype, np.dtype) and dtype in _CANONICAL:
        return _CANONICAL[dtype]
    if dtype is float:
        return DTYPES["float32"]
    if dtype is int:
        return DTYPES["int32"]
    if dtype is complex:
        return DTYPES["complex64"]
    if isinstance(dtype, str) and dtype in LONG:
        return DTYPES[LONG[dtype]]
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    try:
        # whatever NumPy takes for a dtype; its stubs list some
        found = DTYPES.get(np.dtype(dtype).name)  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError):
        found = None
    if found is None:
        raise DtypeError(
            f"there is no dtype {dtype!r}", fix=f"use one of {', '.join(DTYPES)}"
        ) from None
    return found


def is_float(dtype: np.dtype) -> bool:
    """Whether the dtype is a real floating-point one (the extended ones included)."""
    return dtype.kind == "f" or dtype in _EXTENDED_DTYPES


def is_half(dtype: np.dtype) -> bool:
    """Whether the dtype is a float of 16 or 8 bits."""
    return is_float(dtype) and dtype.itemsize < 4


def is_complex(dtype: np.dtype) -> bool:
    """Whether the dtype is complex."""
    return dtype.kind == "c"


def is_inexact(dtype: np.dtype) -> bool:
    """Whether the dtype is real or complex floating point, and so differentiable."""
    return is_float(dtype) or dtype.kind == "c"


def is_integer(dtype: np.dtype) -> bool:
    """Whether the dtype is a signed or unsigned integer (bool is not)."""
    return dtype.kind in "iu"


def is_signed(dtype: np.dtype) -> bool:
    """Whether the dtype is a signed integer."""
    return dtype.kind == "i"


def is_bool(dtype: np.dtype) -> bool:
    """Whether the dtype is bool."""
    return dtype.kind == "b"


def lowest(dtype: np.dtype) -> float | int:
    """The least number of a real dtype: -inf where there is one.

    >>> lowest(as_dtype("float32")), lowest(as_dtype("int8")), lowest(as_dtype("float8_e4m3fn"))
    (-inf, -128, -448.0)
    """
    if not is_float(dtype):
        return int(np.iinfo(dtype).min)
    return -highest(dtype)


def highest(dtype: np.dtype) -> float | int:
    """The greatest number of a real dtype: inf where there is one."""
    if not is_float(dtype):
        return int(np.iinfo(dtype).max)
    with np.errstate(all="ignore"):
        has_infinity = np.isinf(np.array(np.inf, dtype))
    return math.inf if has_infinity else float(ml_dtypes.finfo(dtype).max)


def empty_result(combine: str, dtype: np.dtype) -> float:
    """The result of reducing no numbers by add, mul, max, min, and, or, xor.

    >>> empty_result("mul", as_dtype("int8")), empty_result("and", as_dtype("uint8"))
    (1, 255)
    """
    if combine in ("add", "or", "xor"):
        return 0
    if combine == "mul":
        return 1
    if is_bool(dtype):
        return combine in ("and", "min")
    if combine == "and":
        return -1 if is_signed(dtype) else int(np.iinfo(dtype).max)
    return lowest(dtype) if combine == "max" else highest(dtype)


def neutral(combine: str, dtype: np.dtype) -> float:
    """The neutral element of a combination: -0.0 for sums, which keeps the sign of 0."""
    is_sum = combine == "add" and is_float(dtype)
    return -0.0 if is_sum else empty_result(combine, dtype)


_UNSIGNED_TO_SIGNED = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64"}
_KINDS = ("bool", "integer", "float", "complex")


def _kind(dtype: np.dtype) -> int:
    if is_bool(dtype):
        return 0
    if is_integer(dtype):
        return 1
    return 2 if is_float(dtype) else 3


@functools.cache
def promote(*dtypes: np.dtype) -> np.dtype:
    """Give the dtype that holds values of all dtypes: commutative and associative.

    bool < integers < floats < complex. An integer with a float gives that float. Signed with
    unsigned gives the next larger signed one (uint64 with signed gives int64). Two different
    half-size floats give float32. A float8 with a larger float gives that float, except that
    float8_e5m2 with bfloat16 gives float32; two different float8 give float16. (With bfloat16
    above both, no dtype would be the least above both, and the order would matter.)

    >>> promote(np.dtype("int32"), np.dtype("float16"))
    dtype('float16')
    """
    if not dtypes:
        raise ArgumentError("there are no dtypes to find one for", fix="give one or more")
    kind = max(map(_kind, dtypes))
    same = {d for d in dtypes if _kind(d) == kind}
    if kind == 3:
        wide = any(d.name in ("complex128", "float64") for d in dtypes)
        return DTYPES["complex128" if wide else "complex64"]
    if kind == 2:
        return _promote_floats(same)
    if kind == 1:
        return _promote_integers(same)
    return DTYPES["bool"]


# what holds the numbers of each small float; every two have one least dtype that holds both
_HOLDERS = {
    "float8_e4m3fn": ("float8_e4m3fn", "float16", "bfloat16"),
    "float8_e5m2": ("float8_e5m2", "float16"),
    "float16": ("float16",),
    "bfloat16": ("bfloat16",),
}


def _promote_floats(dtypes: set[np.dtype]) -> np.dtype:
    names = {d.name for d in dtypes}
    for wide in ("float64", "float32"):
        if wide in names:
            return DTYPES[wide]
    for small in _HOLDERS:
        if all(small in _HOLDERS[name] for name in names):
            return DTYPES[small]
    return DTYPES["float32"]


def _promote_integers(dtypes: set[np.dtype]) -> np.dtype:
    signed = [d for d in dtypes if is_signed(d)]
    unsigned = [d for d in dtypes if not is_signed(d)]
    if not signed:
        return max(unsigned, key=lambda d: d.itemsize)
    widened = [DTYPES[_UNSIGNED_TO_SIGNED[d.name]] for d in unsigned]
    return max([*signed, *widened], key=lambda d: d.itemsize)


MOST_ELEMENTS = 1 << 47  # what addresses of 48 bits could reach
MOST_STEPS = 1 << 58  # elements that strides of 64 bits reach, also where there are none


def check_size(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Raise a `ShapeError` if no memory could hold so many elements."""
    count = math.prod(n for n in shape if isinstance(n, int))
    if count > MOST_ELEMENTS:
        raise ShapeError(
            f"the shape {shape} has {count:.1e} elements, too many for any memory",
            fix="use smaller sizes",
        )
    if not count and math.prod(n for n in shape if isinstance(n, int) and n) > MOST_STEPS:
        raise ShapeError(
            f"the shape {shape} has a size too large to count", fix="use smaller sizes"
        )
    return shape


@record(slots=True)
class Type:
    """The dtype and shape of a value; prints as `f32[3, 4]`.

    A size is an int or a symbolic `Dim`. The dtype is a canonical NumPy dtype.
    """

    dtype: np.dtype
    shape: tuple[Size, ...] = ()

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements; only a static shape has one."""
        return math.prod(self.shape)  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def is_static(self) -> bool:
        """Whether all sizes are numbers."""
        return all(isinstance(n, int) for n in self.shape)

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols that the shape depends on."""
        return frozenset(s for n in self.shape if isinstance(n, Dim) for s in n.symbols)

    @property
    def is_inexact(self) -> bool:
        """Whether the dtype is floating point."""
        return is_inexact(self.dtype)

    def with_shape(self, shape: tuple[Size, ...]) -> Type:
        """The same dtype with another shape."""
        return Type(self.dtype, tuple(shape))

    def with_dtype(self, dtype: object) -> Type:
        """The same shape with another dtype."""
        return Type(as_dtype(dtype), self.shape)

    def __str__(self) -> str:
        return f"{SHORT[self.dtype.name]}[{', '.join(map(str, self.shape))}]"


class Typed:
    """What has a `type`, and so its shape and dtype."""

    __slots__ = ()

    @property
    def shape(self: Any) -> tuple[Size, ...]:
        """The size of each axis."""
        return self.type.shape

    @property
    def dtype(self: Any) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self.type.dtype


def type_of(array: object) -> Type:
    """The type of a NumPy array or scalar; Python scalars take the default dtypes.

    >>> str(type_of(np.zeros((2, 3)))), str(type_of(1.5))
    ('f64[2, 3]', 'f32[]')
    """
    if isinstance(array, bool | int | float | complex) and not isinstance(array, np.generic):
        return Type(as_dtype(type(array)))
    array = np.asarray(array)
    return Type(as_dtype(array.dtype), array.shape)
