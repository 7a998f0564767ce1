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


ROWS = {
    "softmax": Row(softmax, HALVES | SINGLE, _has_elements),
}
