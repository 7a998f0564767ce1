"""Rows of changes of representation: dtypes, bits, parts of complex numbers."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from ..graph_table import Row
from .arithmetic import is_float, scalar
from .kinds import COMPLEX, FLOATS, INTEGERS, STORED
from .memory import STORED as FORMS


def convert(x: mx.array, *, dtype: np.dtype) -> mx.array:
    """The same numbers in another dtype; too great ones become the greatest integer."""
    form = FORMS[dtype]
    if x.dtype == mx.complex64 and form != mx.complex64:
        return (x != 0) if form == mx.bool_ else convert(mx.real(x), dtype=dtype)
    if form == mx.bool_:
        return x != scalar(0, x)
    if is_float(x) and mx.issubdtype(form, mx.integer):
        return _saturated(x, form)
    if x.dtype == mx.float64 and form == mx.float16:
        x = _rounded_to_odd(x)
    return x.astype(form)


def _rounded_to_odd(x: mx.array) -> mx.array:
    """Doubles in float32, with an odd last bit if they are not exact.

    So they can be rounded again. MLX goes to float16 by way of float32, and what is rounded to the
    nearest twice can be off. S. Boldo, G. Melquiond: When double rounding is odd (2004).
    """
    near = x.astype(mx.float32)
    wide, bits = near.astype(mx.float64), near.view(mx.int32)
    below = bits - (mx.abs(wide) > mx.abs(x)).astype(mx.int32)
    one = mx.array(1, mx.int32)
    return mx.where(wide == x, bits, mx.bitwise_or(below, one)).view(mx.float32)


def _saturated(x: mx.array, form: mx.Dtype) -> mx.array:
    """Whole parts of floats; NaN becomes 0, what is too great or small the extreme."""
    if x.dtype in (mx.float16, mx.bfloat16):
        x = x.astype(mx.float32)
    info = mx.iinfo(form)
    # 2**bits is exact where the greatest integer is not
    end, least = scalar(float(info.max + 1), x), scalar(float(info.min), x)
    x = mx.trunc(x)
    inside = mx.logical_and(x >= least, x < end)
    result = mx.where(inside, x, scalar(0, x)).astype(form)
    most = mx.bitwise_invert(mx.array(info.min, form))  # MLX takes no number above 2**63
    result = mx.where(x >= end, most, result)
    return mx.where(x < least, mx.array(info.min, form), result)


def identity(x: mx.array, **attrs: object) -> mx.array:
    """The array itself."""
    return x


def make_complex(re: mx.array, im: mx.array) -> mx.array:
    """Complex numbers of their parts; those of float64 lie as pairs."""
    pairs = mx.stack([re, im], axis=-1)
    return pairs if re.dtype == mx.float64 else mx.squeeze(pairs.view(mx.complex64), -1)


def as_real(x: mx.array) -> mx.array:
    """The parts of complex numbers along a new last axis."""
    if x.dtype == mx.float64:
        return x
    return mx.expand_dims(x, -1).view(mx.float32)


def as_complex(x: mx.array) -> mx.array:
    """Complex numbers of parts that lie along the last axis."""
    return x if x.dtype == mx.float64 else mx.squeeze(x.view(mx.complex64), -1)


_PAIRS = frozenset({"complex128", "float64", "complex64", "float32"})
ROWS = {
    "convert": Row(convert, STORED),
    "bitcast": Row(lambda x, *, dtype: x.view(FORMS[dtype]), INTEGERS | FLOATS | COMPLEX),
    "stop_gradient": Row(identity),
    "checkpoint_name": Row(identity),
    "real": Row(lambda x: as_real(x)[..., 0], _PAIRS),
    "imag": Row(lambda x: as_real(x)[..., 1], _PAIRS),
    "complex": Row(make_complex, _PAIRS),
    "view_as_real": Row(as_real, _PAIRS),
    "view_as_complex": Row(as_complex, _PAIRS),
}
