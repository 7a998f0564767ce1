"""Rows of layers that MLX has whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from ...ir.types import Type
from ..graph_table import Row
from .kinds import HALVES, SINGLE


def softmax(x: mx.array, *, axes: Sequence[int]) -> mx.array:
    """The softmax; half-size floats are summed in float32."""
    return mx.softmax(x, axis=tuple(axes), precise=True)


def _has_elements(types: Sequence[Type], **attrs: Any) -> bool:
    return types[0].size > 0


def layer_norm(x: mx.array, scale: mx.array, bias: mx.array, *, eps: float) -> mx.array:
    """The last axis normalized, times a scale, plus a bias."""
    return mx.fast.layer_norm(x, scale, bias, eps)


def rms_norm(x: mx.array, scale: mx.array, *, eps: float) -> mx.array:
    """The last axis over the root of its mean square, times a scale."""
    return mx.fast.rms_norm(x, scale, eps)


ROWS = {
    "layer_norm": Row(layer_norm, HALVES | SINGLE, _has_elements),
    "rms_norm": Row(rms_norm, HALVES | SINGLE, _has_elements),
    "softmax": Row(softmax, HALVES | SINGLE, _has_elements),
}
