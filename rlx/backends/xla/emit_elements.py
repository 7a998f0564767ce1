"""Rows of the table: what works number by number, or makes them of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...ir.types import is_bool, is_complex, is_float, is_half, is_integer
from ..graph_table import EVERY_DTYPE, Row

Emit = Callable[..., Any]
REAL = EVERY_DTYPE - {"complex64", "complex128"}


def wide(x: jax.Array) -> jax.Array:
    """Floats of few bits as float32, all else as it is."""
    return lax.convert_element_type(x, np.float32) if is_half(x.dtype) else x


def narrow(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Numbers of the same kind in a dtype."""
    return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


def in_wide(emit: Emit) -> Emit:
    """The function computed in float32 where the numbers are smaller floats."""
    return lambda *xs: narrow(emit(*map(wide, xs)), xs[0].dtype)


def _abs(x: jax.Array) -> jax.Array:
    return x if x.dtype.kind == "u" else lax.abs(x)


def _sign(x: jax.Array) -> jax.Array:
    if is_complex(x.dtype):  # of an infinite part the sign is left, and nothing of the other
        parts = lax.real(x), lax.imag(x)
        is_far = [jnp.isinf(part) for part in parts]
        near = [jnp.where(is_far[1 - i], 0, part) for i, part in enumerate(parts)]
        near = [jnp.where(is_far[i], lax.sign(part), near[i]) for i, part in enumerate(parts)]
        both = is_far[0] & is_far[1]
        return lax.sign(lax.complex(*(jnp.where(both, np.nan, part) for part in near)))
    # that of -0.0 is 0.0
    made = lax.sign(x)
    return lax.select(lax.eq(made, lax.full_like(made, 0)), lax.full_like(made, 0), made)


def _trunc(x: jax.Array) -> jax.Array:
    return lax.select(lax.lt(x, lax.full_like(x, 0)), lax.ceil(x), lax.floor(x))


def _round(x: jax.Array) -> jax.Array:
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def _convert(x: jax.Array, *, dtype: np.dtype) -> jax.Array:
    if is_complex(x.dtype) and not is_complex(dtype) and not is_bool(dtype):
        x = lax.real(x)
    if is_bool(dtype):
        return lax.ne(x, lax.full_like(x, 0))
    if is_bool(x.dtype) and is_float(dtype):
        # XLA takes a product with a converted bool for a choice, which hides NaN and infinities
        return lax.select(x, lax.full_like(x, 1, dtype), lax.full_like(x, 0, dtype))
    return lax.convert_element_type(x, dtype)


def _view_as_real(x: jax.Array) -> jax.Array:
    return jnp.stack([lax.real(x), lax.imag(x)], axis=-1)


# -- functions XLA computes with too few digits --------------------------------------------------

FAR = 1.0  # beyond it sinh is a difference of exponentials that loses no digit


def _exp2(x: jax.Array) -> jax.Array:
    """The power of the whole part by bits, in two steps as it may be far out of range."""
    bits, places = (np.int32, 23) if x.dtype == np.float32 else (np.int64, 52)
    bias = 127 if x.dtype == np.float32 else 1023
    whole = lax.clamp(x.dtype.type(-2 * bias), _round(x), x.dtype.type(2 * bias))
    count = jnp.where(jnp.isnan(x), 0, whole).astype(bits)
    half = lax.shift_right_arithmetic(count, bits(1))
    powers = [
        lax.bitcast_convert_type(lax.shift_left(n + bias, bits(places)), x.dtype)
        for n in (half, count - half)
    ]
    rest = lax.exp((x - whole) * x.dtype.type(np.log(2)))
    return rest * powers[0] * powers[1]


def _sinh(x: jax.Array) -> jax.Array:
    size = lax.abs(x)
    half = lax.exp(size * 0.5)  # whose square may overflow before it is halved
    far = (half * 0.5) * half - (0.5 / half) / half
    return jnp.where(size < FAR, lax.sinh(x), jnp.where(x < 0, -far, far))


def _cosh(x: jax.Array) -> jax.Array:
    half = lax.exp(lax.abs(x) * 0.5)
    return (half * 0.5) * half + (0.5 / half) / half


def _log1p(x: jax.Array) -> jax.Array:
    if x.dtype != np.float64:
        return lax.log1p(x)
    # W. Kahan's way: 1 + x errs alike in the logarithm and in the quotient. XLA would take 1 + x
    # less 1 for x; rounding to all of the bits, which changes nothing, keeps it from that
    near = lax.reduce_precision(x + 1, 11, 52)
    line = near - 1
    made = jnp.log(near) * (x / jnp.where(line == 0, 1.0, line))
    return jnp.where(line == 0, x, jnp.where(x == np.inf, x, made))


def _atanh(x: jax.Array) -> jax.Array:
    if x.dtype != np.float64:
        return lax.atanh(x)
    made = (_log1p(x) - _log1p(-x)) * 0.5
    return jnp.where(x == 0, x, made)


# -- from nothing ---------------------------------------------------------------------------------


def _full(*, shape: tuple[int, ...], value: Any, dtype: np.dtype) -> jax.Array:
    with np.errstate(all="ignore"):
        number = np.asarray(value).astype(dtype)
    return lax.broadcast(number, shape)


def _iota(*, shape: tuple[int, ...], axis: int, dtype: np.dtype) -> jax.Array:
    if is_integer(dtype) and dtype.itemsize >= 4:
        return lax.broadcasted_iota(dtype, shape, axis)
    return _convert(lax.broadcasted_iota(np.int64, shape, axis), dtype=dtype)


ROWS: dict[str, Row] = {
    # arithmetic
    "add": Row(lax.add),
    "sub": Row(lax.sub),
    "mul": Row(lax.mul),
    "div": Row(lax.div, REAL),
    "rem": Row(lax.rem),
    "neg": Row(lax.neg),
    "abs": Row(_abs, REAL),
    "sign": Row(_sign),
    "max": Row(lax.max),
    "min": Row(lax.min),
    # comparison, choice and bits
    "eq": Row(lax.eq),
    "ne": Row(lax.ne),
    "lt": Row(lax.lt),
    "le": Row(lax.le),
    "gt": Row(lax.gt),
    "ge": Row(lax.ge),
    "select": Row(lax.select),
    "bit_and": Row(lax.bitwise_and),
    "bit_or": Row(lax.bitwise_or),
    "bit_xor": Row(lax.bitwise_xor),
    "bit_not": Row(lax.bitwise_not),
    "shift_left": Row(lax.shift_left),
    "shift_right_logical": Row(lax.shift_right_logical),
    "shift_right_arithmetic": Row(lax.shift_right_arithmetic),
    "population_count": Row(lax.population_count),
    "clz": Row(lax.clz),
    # rounding
    "floor": Row(lax.floor),
    "ceil": Row(lax.ceil),
    "round": Row(_round),
    "trunc": Row(_trunc),
    "is_finite": Row(lax.is_finite),
    # powers, exponentials, angles: complex ones by the house's own formulas
    "sqrt": Row(lax.sqrt, REAL),
    "rsqrt": Row(lax.rsqrt, REAL),
    "cbrt": Row(lax.cbrt, REAL),
    "exp": Row(lax.exp, REAL),
    "exp2": Row(in_wide(_exp2), REAL),
    "expm1": Row(lax.expm1, REAL),
    "log": Row(lax.log, REAL),
    "log1p": Row(in_wide(_log1p), REAL),
    "logistic": Row(in_wide(lax.logistic), REAL),
    "pow": Row(lax.pow, REAL),
    "sin": Row(lax.sin, REAL),
    "cos": Row(lax.cos, REAL),
    "tan": Row(lax.tan, REAL),
    "asin": Row(lax.asin, REAL),
    "acos": Row(lax.acos, REAL),
    "atan": Row(lax.atan, REAL),
    "atan2": Row(lax.atan2, REAL),
    "sinh": Row(in_wide(_sinh), REAL),
    "cosh": Row(in_wide(_cosh), REAL),
    "tanh": Row(lax.tanh, REAL),
    "asinh": Row(lax.asinh, REAL),
    "acosh": Row(lax.acosh, REAL),
    "atanh": Row(in_wide(_atanh), REAL),
    "erf": Row(lax.erf),
    "erfc": Row(in_wide(lax.erfc)),
    "erf_inv": Row(lax.erf_inv),
    # representations
    "convert": Row(_convert),
    "bitcast": Row(lambda x, *, dtype: lax.bitcast_convert_type(x, dtype), REAL),
    "real": Row(lax.real),
    "imag": Row(lax.imag),
    "complex": Row(lax.complex),
    "conj": Row(lax.conj),
    "view_as_real": Row(_view_as_real),
    "view_as_complex": Row(lambda x: lax.complex(x[..., 0], x[..., 1])),
    "stop_gradient": Row(lambda x, **attrs: x),
    "checkpoint_name": Row(lambda x, **attrs: x),
    # from nothing
    "full": Row(_full),
    "iota": Row(_iota),
}
