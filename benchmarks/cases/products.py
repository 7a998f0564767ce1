"""Products of matrices: square and skinny, wide and narrow numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..case import Case
from ..models.numbers import integers, normal


def product(rows: int, inner: int, columns: int, **more: Any) -> Case:
    """A product of float32 matrices."""
    is_square = rows == inner == columns
    name = f"matmul{rows}" if is_square else f"matmul{rows}x{inner}x{columns}"
    title = f"matmul {rows}" if is_square else f"matmul {rows}x{inner} by {inner}x{columns}"
    return Case(
        name,
        "products",
        title,
        lambda: (normal(rows, inner), normal(inner, columns, seed=1)),
        lambda library: lambda x, y: x @ y,
        flops=2.0 * rows * inner * columns,
        nbytes=4.0 * (rows * inner + inner * columns + rows * columns),
        is_peak=is_square and rows >= 256,
        **more,
    )


def converted(dtype: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Two squares of another dtype."""
    return normal(size, size).astype(dtype), normal(size, size, seed=1).astype(dtype)


def bytes_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Two squares of int8."""
    made = [integers(256, size, size, seed=seed) - 128 for seed in (0, 1)]
    return made[0].astype(np.int8), made[1].astype(np.int8)


CASES = [
    *(product(n, n, n, in_readme=n in (64, 512)) for n in (4, 16, 64, 128, 256, 512, 1024)),
    product(2048, 2048, 2048, in_readme=True),
    product(1, 2048, 2048, in_readme=True),
    product(8, 2048, 2048),
    product(2048, 8, 2048),
    product(2048, 2048, 1),
    Case(
        "matmul512-f64", "products", "matmul 512, float64", lambda: converted(np.float64, 512),
        lambda library: lambda x, y: x @ y, flops=2.0 * 512**3, dtype="float64", is_peak=True,
    ),
    Case(
        "matmul1024-bf16", "products", "matmul 1024, bfloat16",
        lambda: converted(ml_dtypes.bfloat16, 1024), lambda library: lambda x, y: x @ y,
        flops=2.0 * 1024**3, dtype="bfloat16", ulps=1.0, is_peak=True,
        without={
            "numpy": "NumPy has no bfloat16 of its own",
            "onnxruntime": "ONNX Runtime has no product of bfloat16 for processors",
        },
    ),
    Case(
        "matmul1024-int8", "products", "matmul 1024, int8 to int32", lambda: bytes_of(1024),
        lambda library: library.int8_product, flops=2.0 * 1024**3, dtype="int8", is_peak=True,
        without={"numpy": "NumPy has no fast product of integers; this takes it seconds"},
    ),
]  # fmt: skip
