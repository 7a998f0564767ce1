"""Normalization along the last axis: layer_norm, rms_norm."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import DtypeError, ShapeError
from ..graph import Value
from ..op import define
from ..rules import align
from ..types import Type
from .arithmetic import add, div, mul, square, sub
from .constant import like
from .convert import in_float32, narrowed, widened
from .exponential import rsqrt
from .families import check_kind
from .movement import broadcast
from .reduce import reduce_sum, spread_back


def _check(x: Type, **others: Type) -> None:
    check_kind(x, ["float"])
    if x.rank == 0:
        raise ShapeError("a scalar has no axis to normalize", fix="give an array of rank 1 or more")
    for name, other in others.items():
        if other.dtype != x.dtype:
            raise DtypeError(
                f"`{name}` is {other}, x is {x}",
                fix=f"convert it: {name}.astype({x.dtype.name!r})",
            )
        if other.shape != x.shape[-1:]:
            raise ShapeError(
                f"`{name}` is {other}, the last axis of x has size {x.shape[-1]}",
                fix=f"give one number for each place along it: {x.with_shape(x.shape[-1:])}",
            )


def _mean(x: Value) -> Value:
    """The mean along the last axis, repeated along it."""
    axes, size = (x.rank - 1,), x.shape[-1]
    total = reduce_sum(x, axes=axes)
    if isinstance(size, int):
        mean = mul(total, 1 / size if size else float("nan"))
    else:
        mean = div(total, reduce_sum(like(x, 1), axes=axes))
    return spread_back(mean, x, axes)


def _mean_reference(x: np.ndarray) -> np.ndarray:
    """The mean along the last axis, kept; that of nothing is of no use, and no warning."""
    return np.sum(x, axis=-1, keepdims=True) / x.dtype.type(max(x.shape[-1], 1))


def _along_last(x: Value, like_this: Value) -> Value:
    """Scale or bias in float32 at every place: of shape (C,), or (batch, C)."""
    axes = (0, like_this.rank - 1) if x.rank == 2 else (like_this.rank - 1,)
    return broadcast(narrowed(x, like_this.dtype), shape=like_this.shape, axes=axes)


Normalized = tuple[Value, Value]  # x normalized, and by what it was multiplied; both of x's shape


def _affine(normal: Value, scale: Value, *biases: Value) -> Value:
    out = mul(normal, _along_last(scale, normal))
    for bias in biases:
        out = add(out, _along_last(bias, normal))
    return out


def _push(
    primals: Sequence[Value],
    tangents: Sequence[Value | None],
    normalize: Callable[[Value], Normalized],
    center: Callable[[Value], Value],
) -> tuple[Value, Value]:
    """Result and tangent of a normalization with scale and perhaps bias.

    With n = r * c(x), c linear (`center`) and r = (mean(c(x)²) + eps)^-1/2, the tangent of n is
    r * (c(t) - n * mean(n * c(t))).
    """
    x, scale, *biases = primals
    normal, factor = normalize(widened(x))
    out = narrowed(_affine(normal, scale, *biases), x.dtype)
    terms = []
    if tangents[0] is not None:
        t = center(widened(tangents[0]))
        t = mul(factor, sub(t, mul(normal, _mean(mul(normal, t)))))
        terms.append(mul(t, _along_last(scale, normal)))
    if tangents[1] is not None:
        terms.append(mul(normal, _along_last(tangents[1], normal)))
    terms += [_along_last(t, normal) for t in tangents[2:] if t is not None]
    return out, narrowed(functools.reduce(add, terms), x.dtype)


def _batch(
    args: Sequence[Value], batched: Sequence[bool], normalize: Callable[[Value], Normalized]
) -> Value:
    """One scale or bias for each example of a batch."""
    x, *line = align(args, batched)
    normal, _ = normalize(widened(x))
    return narrowed(_affine(normal, *line), x.dtype)


# -- layer_norm ---------------------------------------------------------------------------------


@define
def layer_norm(x: Type, scale: Type, bias: Type, *, eps: float) -> Type:
    """The last axis normalized, times `scale`, plus `bias`.

    Normalized is (x - mean) / sqrt(variance + eps). `f32[..., C], f32[C], f32[C] → f32[..., C]`.
    Half-size floats are computed in float32.
    """
    _check(x, scale=scale, bias=bias)
    return x


@layer_norm.reference
@in_float32
def layer_norm_reference(
    x: np.ndarray, scale: np.ndarray, bias: np.ndarray, *, eps: float
) -> np.ndarray:
    centered = x - _mean_reference(x)
    variance = _mean_reference(centered * centered)
    return centered / np.sqrt(variance + x.dtype.type(eps)) * scale + bias


def _center(x: Value) -> Value:
    return sub(x, _mean(x))


def _layer_normalize(eps: float) -> Callable[[Value], Normalized]:
    def normalize(x: Value) -> Normalized:
        centered = _center(x)
        factor = rsqrt(add(_mean(square(centered)), eps))
        return mul(centered, factor), factor

    return normalize


@layer_norm.expand
@in_float32
def layer_norm_expand(x: Value, scale: Value, bias: Value, *, eps: float) -> Value:
    normal, _ = _layer_normalize(eps)(x)
    return _affine(normal, scale, bias)


@layer_norm.jvp
def layer_norm_jvp(primals: Sequence[Value], tangents: Sequence[Any], *, eps: float) -> tuple:
    return _push(primals, tangents, _layer_normalize(eps), _center)


@layer_norm.batch
def layer_norm_batch(args: Sequence[Value], batched: Sequence[bool], *, eps: float) -> Value:
    if not any(batched[1:]):
        return layer_norm(*args, eps=eps)
    return _batch(args, batched, _layer_normalize(eps))


layer_norm.samples((2, 4), (4,), (4,), eps=1e-5)
layer_norm.samples((2, 3, 4), (4,), (4,), eps=0.1)
layer_norm.samples(
    [1.0, 3.0, 5.0, 7.0], [1.0, 1.0, 1.0, 2.0], [0.0, 0.0, 1.0, 0.0], eps=4.0,
    expect=[-1.0, -1 / 3, 4 / 3, 2.0],
)  # fmt: skip


# -- rms_norm -----------------------------------------------------------------------------------


@define
def rms_norm(x: Type, scale: Type, *, eps: float) -> Type:
    """x / sqrt(mean(x²) + eps) along the last axis, times `scale`.

    `f32[..., C], f32[C] → f32[..., C]`. Half-size floats are computed in float32.
    """
    _check(x, scale=scale)
    return x


@rms_norm.reference
@in_float32
def rms_norm_reference(x: np.ndarray, scale: np.ndarray, *, eps: float) -> np.ndarray:
    return x / np.sqrt(_mean_reference(x * x) + x.dtype.type(eps)) * scale


def _rms_normalize(eps: float) -> Callable[[Value], Normalized]:
    def normalize(x: Value) -> Normalized:
        factor = rsqrt(add(_mean(square(x)), eps))
        return mul(x, factor), factor

    return normalize


@rms_norm.expand
@in_float32
def rms_norm_expand(x: Value, scale: Value, *, eps: float) -> Value:
    normal, _ = _rms_normalize(eps)(x)
    return _affine(normal, scale)


@rms_norm.jvp
def rms_norm_jvp(primals: Sequence[Value], tangents: Sequence[Any], *, eps: float) -> tuple:
    return _push(primals, tangents, _rms_normalize(eps), lambda t: t)


@rms_norm.batch
def rms_norm_batch(args: Sequence[Value], batched: Sequence[bool], *, eps: float) -> Value:
    if not batched[1]:
        return rms_norm(*args, eps=eps)
    return _batch(args, batched, _rms_normalize(eps))


rms_norm.samples((2, 4), (4,), eps=1e-5)
rms_norm.samples((2, 3, 4), (4,), eps=0.1)
rms_norm.samples([1.0, 7.0], [1.0, 2.0], eps=11.0, expect=[1 / 6, 7 / 3])
