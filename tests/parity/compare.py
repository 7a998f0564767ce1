"""Whether two results agree: the same leaves, dtypes, shapes, and values within rounding.

The unit is the rounding of the dtype at the size of the result. A result outside of it passes if it
is as near to the truth as JAX's: the truth is what JAX computes in float64. So the tolerance knows
how well conditioned a computation is, and no case has one of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np

import rlx

UNITS = {"float16": 4, "bfloat16": 4, "float32": 16, "complex64": 16}
AS_TRUE = 4  # how many times JAX's own error is allowed


def leaves_of(tree: Any) -> list[Any]:
    """The leaves of a result of either library."""
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves_of(item)]
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves_of(tree[key])]
    known = tree is None or isinstance(tree, (jax.Array, rlx.Array, np.ndarray, np.generic))
    if known or isinstance(tree, (int, float, complex, str, np.dtype)):
        return [] if tree is None else [tree]
    return rlx.tree.leaves(tree)


def as_numpy(x: Any) -> Any:
    """A leaf as a NumPy array; strings and dtypes stay as they are."""
    if isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return x if isinstance(x, (str, np.dtype, type)) else np.asarray(x)


def difference(found: Any, wanted: Any, truth: Callable[[], Any]) -> str:
    """What differs between two results; empty if they agree."""
    if isinstance(wanted, (list, tuple)) and isinstance(found, (list, tuple)):
        if isinstance(wanted, list) != isinstance(found, list):
            return f"a {type(found).__name__}, not a {type(wanted).__name__}"
        if getattr(wanted, "_fields", None) != getattr(found, "_fields", None):
            return f"other fields: {type(found)} and {type(wanted)}"
    xs, ys = leaves_of(found), leaves_of(wanted)
    if len(xs) != len(ys):
        return f"{len(xs)} leaves, not {len(ys)}"
    for index, (x, y) in enumerate(zip(xs, ys, strict=True)):
        said = _leaf_difference(as_numpy(x), as_numpy(y), lambda at=index: truth()[at])
        if said:
            return said
    return ""


def _leaf_difference(x: Any, y: Any, truth: Callable[[], Any]) -> str:
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return "" if str(x) == str(y) else f"{x!r}, not {y!r}"
    if x.dtype != y.dtype:
        return f"dtype {x.dtype}, not {y.dtype}"
    if x.shape != y.shape:
        return f"shape {x.shape}, not {y.shape}"
    if y.dtype.name not in UNITS:
        return "" if np.array_equal(x, y) else _shown(x, y)
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    eps = float(ml_dtypes.finfo(y.dtype).eps)
    x, y, name = x.astype(wide), y.astype(wide), y.dtype.name
    allowed = UNITS[name] * eps * (_size(y) + np.abs(np.where(np.isfinite(y), y, 0)))
    if _is_near(x, y, allowed):
        return ""
    true = _truth(truth, y)
    if true is not None:
        both = np.isfinite(y) & np.isfinite(true)
        own = np.abs(y[both] - true[both]).max(initial=0.0)
        if _is_near(x, true, allowed + AS_TRUE * own):
            return ""
    return _shown(x, y)


def _truth(truth: Callable[[], Any], y: np.ndarray) -> np.ndarray | None:
    try:
        true = np.asarray(as_numpy(truth())).astype(y.dtype)
    except Exception:  # not every function can be widened: then the unit alone decides
        return None
    return true if true.shape == y.shape else None


def _size(y: np.ndarray) -> float:
    return float(np.abs(y[np.isfinite(y)]).max(initial=0.0))


def _is_near(x: np.ndarray, y: np.ndarray, allowed: Any) -> bool:
    finite = np.isfinite(y)
    if not np.array_equal(finite, np.isfinite(x)):
        return False
    same = np.array_equal(x[~finite], y[~finite], equal_nan=True)
    allowed = np.broadcast_to(allowed, x.shape)
    return bool(same and np.all(np.abs(x[finite] - y[finite]) <= allowed[finite]))


def _shown(x: np.ndarray, y: np.ndarray) -> str:
    with np.printoptions(threshold=12, precision=8):
        return f"{x}\n  not\n  {y}"
