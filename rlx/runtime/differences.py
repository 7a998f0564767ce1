"""How far two arrays are apart, in units of what rounding explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.body import Contract, Reduce, Scan, Scatter
from ..ir.graph import Node
from ..ir.types import as_dtype, is_complex, is_inexact

SUMS = (Contract, Reduce, Scan, Scatter)


@dataclass(frozen=True)
class Tolerance:
    """What may differ: `rtol` of the scale, and `atol`.

    Without `rtol` it is the epsilon of the dtype to some power.
    """

    power: float
    rtol: float | None = None
    atol: float | None = None

    def difference(
        self, found: np.ndarray, wanted: np.ndarray, scale: np.ndarray
    ) -> tuple[float, tuple[int, ...]]:
        """The largest difference in units of the tolerance, and its place.

        NaN equals NaN, an infinity itself; other numbers that are not equal are infinitely far
        from them, and so are two integers.
        """
        if not wanted.size:
            return 0.0, ()
        is_same = (found == wanted) | ((found != found) & (wanted != wanted))
        if not is_inexact(as_dtype(wanted.dtype)):
            units = np.where(is_same, 0.0, np.inf)
        else:
            wide = np.complex128 if is_complex(as_dtype(wanted.dtype)) else np.float64
            rtol = epsilon(wanted.dtype) ** self.power if self.rtol is None else self.rtol
            tiny = float(ml_dtypes.finfo(wanted.dtype).tiny)
            with np.errstate(all="ignore"):
                allowed = np.maximum(rtol * scale, tiny) + (self.atol or 0.0)
                units = np.abs(found.astype(wide) - wanted.astype(wide)) / allowed
            units = np.where(is_same, 0.0, np.where(np.isnan(units), np.inf, units))
        place = np.unravel_index(int(np.argmax(units)), units.shape)
        return float(units[place]), tuple(map(int, place))


def epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number."""
    return float(ml_dtypes.finfo(dtype).eps)


def scale_of(
    wanted: np.ndarray, node: Node | None = None, operands: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """The magnitude that differences are relative to.

    It is that of the largest finite number; for an op that adds, that of the sum of magnitudes.
    """
    if not is_inexact(as_dtype(wanted.dtype)) or not wanted.size:
        return np.ones(wanted.shape)
    body = node.op.rules.body if node else None
    if node is not None and isinstance(body, SUMS):
        magnitudes = [np.abs(x) if is_inexact(as_dtype(x.dtype)) else x for x in operands]
        added = node.op.run(magnitudes, node.attrs)[0]
        return np.abs(added).astype(np.float64)
    sizes = np.abs(wanted).astype(np.float64)
    finite = sizes[np.isfinite(sizes)]
    return np.full(wanted.shape, finite.max() if finite.size else 1.0)
