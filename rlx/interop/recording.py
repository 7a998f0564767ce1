"""A call of a JAX function with rlx arrays: recorded by JAX, replayed by rlx."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..ir.errors import DtypeError, RlxError, SymbolicSizeError
from ..ir.types import as_dtype
from ..trace.apply import as_leaf, as_operand, as_tensor, is_weak, operand_type
from ..trace.array import Array
from ..trace.host import is_python_scalar
from ..trace.promotion import convert
from ..trace.tensor import TracedTensor
from . import primitives  # noqa: F401  (fills the table of rules)
from .containers import Keys
from .jaxprs import is_key, record
from .replay import recorded, replay

WIDE = ("float64", "complex128")


def converted(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a JAX function for rlx arrays."""
    placed, tree = jax.tree_util.tree_flatten_with_path((tuple(args), kwargs))
    operands = [_operand(x, jax.tree_util.keystr(path)) for path, x in placed]
    specs = [_spec(x, y) for (_, x), y in zip(placed, operands, strict=True)]

    def flat(*leaves: Any) -> Any:
        args, kwargs = jax.tree_util.tree_unflatten(tree, leaves)
        return fun(*args, **kwargs)

    is_wide = any(getattr(s, "dtype", None) in WIDE for s in specs if not _is_typed_key(s))
    with jax.enable_x64(is_wide or jax.config.read("jax_enable_x64")):
        made = record(flat, specs)
        given = [_fitting(x, aval) for x, aval in zip(operands, made.closed.in_avals, strict=True)]
        found = replay(made.closed, given)
    marked = [_marked(x, aval) for x, aval in zip(found, made.closed.out_avals, strict=True)]
    return jax.tree_util.tree_unflatten(made.out_tree, marked)


def _is_typed_key(x: Any) -> bool:
    return isinstance(x, Keys | jax.Array | jax.ShapeDtypeStruct) and is_key(x)


def _operand(x: Any, path: str) -> Any:
    """A leaf of the arguments as an operand of rlx."""
    if _is_typed_key(x):
        x = x.data if isinstance(x, Keys) else jax.random.key_data(x)
    try:
        found = as_operand(as_leaf(x))
    except RlxError as error:
        error.notes = (f"argument {path}", *error.notes)
        error.fix = "pass arrays or numbers; list other arguments in static_argnums"
        raise
    if isinstance(found, np.ndarray | np.generic):
        return Array(np.array(found))
    return found


def _spec(x: Any, operand: Any) -> Any:
    """The spec by which JAX records an operand."""
    if _is_typed_key(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)
    if is_python_scalar(operand):
        return operand
    type = operand_type(operand)
    if not all(isinstance(n, int) for n in type.shape):
        raise SymbolicSizeError(
            f"JAX records functions for sizes that are numbers, not for {type}",
            fix="give the argument a static shape",
        )
    return jax.ShapeDtypeStruct(type.shape, type.dtype, weak_type=is_weak(operand))


def _fitting(operand: Any, aval: Any) -> Any:
    """An operand in the dtype that JAX gives it: without 64 bits its integers have 32."""
    if is_key(aval):
        return recorded(operand)
    dtype = as_dtype(np.dtype(aval.dtype))
    x = as_tensor(operand)
    if isinstance(x, Array) and x.dtype.kind in "iu" and x.dtype.itemsize > dtype.itemsize:
        _check_range(x.host(), dtype)
    return recorded(convert(x, dtype))


def _check_range(numbers: np.ndarray, dtype: np.dtype) -> None:
    limits = np.iinfo(dtype)
    if numbers.size and not (limits.min <= numbers.min() and numbers.max() <= limits.max):
        raise DtypeError(
            f"JAX takes {numbers.dtype.name} for {dtype.name}, in which {numbers.min()} to "
            f"{numbers.max()} do not fit",
            fix='call jax.config.update("jax_enable_x64", True) first',
        )


def _marked(x: Any, aval: Any) -> Any:
    """A result as JAX types it: typed keys, and numbers that yield to other dtypes."""
    x = as_tensor(x)
    if is_key(aval):
        return Keys(x, aval.dtype)
    return TracedTensor(x.value, bool(aval.weak_type)) if isinstance(x, TracedTensor) else x
