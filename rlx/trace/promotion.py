"""Type promotion and broadcasting, which ops of the IR leave to their callers.

Python numbers are weak: they take the dtype of the arrays they meet, unless their kind (bool,
integer, float, complex) is higher; then the default dtype of that kind decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..ir.dims import Dim
from ..ir.errors import DtypeError, ShapeError
from ..ir.graph import OPS
from ..ir.op import Op
from ..ir.ops.convert import WIDE
from ..ir.types import (
    DTYPES,
    Size,
    as_dtype,
    is_bool,
    is_complex,
    is_half,
    is_inexact,
    is_integer,
    promote,
)
from .apply import (
    apply,
    apply_ready,
    as_operand,
    as_tensor,
    bake,
    described,
    is_weak,
    operand_type,
    to_value,
)
from .array import Array
from .axes import broadcast_shapes
from .host import is_python_scalar, scalar_to_numpy
from .tensor import TracedTensor

FLOAT = DTYPES["float32"]


def result_dtype(*operands: Any, inexact: bool = False) -> np.dtype:
    """The dtype that operands promote to; `inexact` turns integers into float32."""
    strong = [operand_type(x).dtype for x in operands if not is_weak(x)]
    weak = [operand_type(x).dtype for x in operands if is_weak(x)]
    dtype = promote(*strong) if strong else promote(*weak)
    if strong and weak:
        from_weak = promote(*weak)
        if _kind(from_weak) > _kind(dtype):
            # float64 with a Python complex must not lose digits
            wide = dtype.name == "float64" and is_complex(from_weak)
            dtype = DTYPES["complex128"] if wide else from_weak
    return FLOAT if inexact and not is_inexact(dtype) else dtype


def _kind(dtype: np.dtype) -> int:
    if is_bool(dtype):
        return 0
    return 1 if is_integer(dtype) else 3 if is_complex(dtype) else 2


def promote_operands(*operands: Any, inexact: bool = False) -> list[Any]:
    """Convert operands to the dtype that they promote to; Python numbers stay."""
    given = [as_operand(x) for x in operands]
    dtype = result_dtype(*given, inexact=inexact)
    return [x if is_python_scalar(x) else convert(x, dtype) for x in given]


def broadcast_operands(name: str, *operands: Any) -> list[Any]:
    """Broadcast operands of the function `name` to one shape, as in NumPy."""
    given = [as_operand(x) for x in operands]
    shape = broadcast_shapes(name, *(operand_type(x).shape for x in given))
    return [broadcast_to(x, shape) for x in given]


def pointwise(op: Op | str, *operands: Any, name: str = "", inexact: bool = False) -> Array:
    """Apply a pointwise op after promotion and broadcasting."""
    given = [as_operand(x) for x in operands]
    dtype = result_dtype(*given, inexact=inexact)
    return _apply_fitted(op, name, [dtype] * len(given), given)


def pointwise_at(op: Op | str, dtype: np.dtype, *operands: Any, name: str = "") -> Array:
    """Apply a pointwise op to operands converted and broadcast to a dtype and shape."""
    given = [as_operand(x) for x in operands]
    return _apply_fitted(op, name, [dtype] * len(given), given)


def _apply_fitted(
    op: Op | str, name: str, dtypes: Sequence[np.dtype], given: Sequence[Any]
) -> Array:
    known: Op = OPS[op] if isinstance(op, str) else op
    return apply_ready(known, _fitted(name or known.name, dtypes, given), known.complete({}))


def fit_operands(name: str, dtype: np.dtype, *operands: Any) -> list[Any]:
    """Convert operands of the function `name` to a dtype and one shape, for `apply`.

    If one is traced, all are.
    """
    return fit_each(name, [dtype] * len(operands), operands)


def fit_each(name: str, dtypes: Sequence[np.dtype], operands: Sequence[Any]) -> list[Any]:
    """Convert each operand to its dtype and broadcast all to one shape."""
    return _fitted(name, dtypes, [as_operand(x) for x in operands])


def _fitted(name: str, dtypes: Sequence[np.dtype], given: Sequence[Any]) -> list[Any]:
    try:
        shape = broadcast_shapes(name, *[operand_type(x).shape for x in given])
    except ShapeError as error:
        error.notes = tuple(described(*given))
        raise
    if any(isinstance(x, TracedTensor) for x in given):
        weak = all(map(is_weak, given))  # a Python number among others is fixed by their dtype
        return [_traced(x, dtype, shape, weak) for x, dtype in zip(given, dtypes, strict=True)]
    put = _host_view if all(map(_is_on_host, given)) else fit
    return [put(x, dtype, shape) for x, dtype in zip(given, dtypes, strict=True)]


def fit(x: Any, dtype: np.dtype, shape: tuple[Size, ...]) -> Any:
    """Convert an operand to a dtype and broadcast it to a shape."""
    if isinstance(x, Array | TracedTensor):
        return broadcast_to(convert(x, dtype), shape)
    return _host_view(x, dtype, shape)


def _traced(x: Any, dtype: np.dtype, shape: tuple[Size, ...], weak: bool) -> TracedTensor:
    """The operand in the graph under construction, fitted there, not beforehand."""
    if isinstance(x, TracedTensor):
        return fit(x, dtype, shape)
    if operand_type(x).shape:
        return fit(TracedTensor(to_value(x)), dtype, shape)
    bake(x)
    number = scalar_to_numpy(x, dtype) if is_weak(x) else np.asarray(x).astype(dtype)
    return TracedTensor(OPS["full"](shape=shape, value=number.item(), dtype=dtype), weak)


def convert(x: Any, dtype: np.dtype) -> Array:
    """The operand in a dtype, by a node only if it has another."""
    if is_python_scalar(x):
        return Array(scalar_to_numpy(x, dtype))
    return x if operand_type(x).dtype == dtype else apply("convert", x, dtype=dtype)


def convert_exactly(x: Any, dtype: np.dtype) -> Array:
    """The operand in a dtype, a Python number without a detour over its default dtype."""
    x = as_operand(x)
    if is_python_scalar(x):
        return as_tensor(scalar_to_numpy(x, dtype))
    return convert(as_tensor(x), dtype)


def broadcast_to(x: Any, shape: tuple[Size, ...]) -> Array:
    """The operand repeated to a shape, by a node only if it has another."""
    given = operand_type(x).shape
    if given == tuple(shape):
        return x
    axes = tuple(range(len(shape) - len(given), len(shape)))
    return apply("broadcast", x, shape=tuple(shape), axes=axes)


def _is_on_host(x: Any) -> bool:
    if isinstance(x, TracedTensor):
        return False
    return x._device is None if isinstance(x, Array) else True


def _host_view(x: Any, dtype: np.dtype, shape: tuple[Size, ...]) -> np.ndarray:
    if is_python_scalar(x):
        data = scalar_to_numpy(x, dtype)
    else:
        data = x.host() if isinstance(x, Array) else np.asarray(x)
        data = data if data.dtype == dtype else data.astype(dtype)
    # known operands, so no size is symbolic
    return data if data.shape == shape else np.broadcast_to(data, shape)  # type: ignore[arg-type]


def is_static(shape: Sequence[Size]) -> bool:
    """Whether no size is symbolic."""
    return not any(isinstance(n, Dim) for n in shape)


def result_type(*operands: Any) -> np.dtype:
    """The dtype that `operands`, arrays, numbers or dtypes, promote to."""
    return promote_mixed([_as_operand_or_dtype(x) for x in operands])


def promote_mixed(items: Sequence[Any]) -> np.dtype:
    """The dtype that dtypes and operands promote to together."""
    stand_ins = [np.zeros((), x) if isinstance(x, np.dtype) else x for x in items]
    return result_dtype(*stand_ins)


@final
class ScalarType:
    """A dtype under its name, which also converts: `float32(3)`, as in NumPy and JAX.

    >>> import rlx.numpy as rnp
    >>> rnp.float32(3) + rnp.float32([1, 2])
    Array([4., 5.], dtype=float32)
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def __call__(self, x: Any = 0) -> Any:
        return convert(as_tensor(x), self.dtype).copy()

    def __eq__(self, other: object) -> Any:
        # NumPy takes None for float64
        return other is not None and self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The name of the dtype."""
        return self.dtype.name

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind of the dtype."""
        return self.dtype.kind


def _as_operand_or_dtype(x: Any) -> Any:
    if isinstance(x, str | type | np.dtype | ScalarType):
        return as_dtype(x)
    return as_operand(x)


def check_fits(name: str, x: Any, dtype: np.dtype) -> None:
    """Raise an error unless an operand fits `dtype` by kind: no float fits an integer."""
    given = operand_type(as_operand(x)).dtype
    if _kind(given) > _kind(dtype):
        raise DtypeError(
            f"{name}: {given.name} values do not fit an array of {dtype.name}",
            fix=f"convert the array, x.astype({given.name!r}), or the values, "
            f"v.astype({dtype.name!r})",
        )


def can_cast(given: np.dtype, wanted: np.dtype) -> bool:
    """Whether a cast keeps the kind of dtype: only precision or range may change.

    >>> can_cast(DTYPES["float64"], DTYPES["float32"]), can_cast(DTYPES["int8"], DTYPES["uint8"])
    (True, False)
    """
    loses_sign = given.kind == "i" and wanted.kind == "u"
    return _kind(given) <= _kind(wanted) and not loses_sign


def no_cast(name: str, given: np.dtype, wanted: np.dtype) -> DtypeError:
    """The error for a result in place that is not of the kind of its array."""
    return DtypeError(
        f"{name} in place gives {given.name}, which does not fit the array of {wanted.name}",
        fix=f"write it as x = x + v, or convert first: x = x.astype({given.name!r})",
    )


# -- half-size floats, computed in float32 and rounded once at the end -----------------------------


def rounded_once(compute: Callable[..., Any], *operands: Any) -> Array:
    """Compute with half-size floats in float32, and round the result once.

    The result has the dtype that the operands promote to.

    >>> rounded_once(lambda x: x * 3 / 3, np.float16(1.001)).dtype
    dtype('float16')
    """
    dtype = result_dtype(*map(as_operand, operands))
    if not is_half(dtype):
        return compute(*operands)
    return convert(compute(*(convert(as_operand(x), WIDE) for x in operands)), dtype)


def wide_dtype(dtype: np.dtype) -> np.dtype | None:
    """The dtype to sum products of half-size floats in; None for others, their own."""
    return WIDE if is_half(dtype) else None
