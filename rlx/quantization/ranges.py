"""Ranges of numbers: what calibration saw, and the scale and zero point of codes."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..ir.errors import ArgumentError
from ..ir.record import record
from .scheme import Scheme

HALF = 2048  # bins on either side of 0
SHRUNK = np.linspace(1.0, 0.3, 71)  # parts of the whole range that are tried
SHRUNK_ROWS = np.linspace(1.0, 0.6, 17)  # of many ranges at once
LARGEST = float(np.finfo(np.float16).max)
FITS = 4  # rounds of least squares
MOST = 1 << 20  # numbers of rows that are looked at together


@record
class Codes:
    """The integers that numbers are brought to, from `low` to `high`."""

    low: int
    high: int
    is_symmetric: bool

    @classmethod
    def of(cls, bits: int, is_symmetric: bool) -> Codes:
        """Those of so many bits with a sign."""
        top = (1 << (bits - 1)) - 1
        return cls(-top if is_symmetric and bits == 8 else -top - 1, top, is_symmetric)

    def scales(self, least: Any, greatest: Any) -> tuple[Any, Any]:
        """Scales and zero points, in float32, of ranges that are made to hold 0."""
        least, greatest = np.minimum(least, 0), np.maximum(greatest, 0)
        if self.is_symmetric:
            scale = np.maximum(greatest, -least) / min(self.high, -self.low)
            scale = np.where(scale > 0, scale, 1).astype(np.float32)
            return scale, np.zeros_like(scale)
        scale = (greatest - least) / (self.high - self.low)
        scale = np.where(scale > 0, scale, 1).astype(np.float32)
        zero = np.clip(np.rint(self.low - least / scale), self.low, self.high)
        return scale, zero.astype(np.float32)

    def rounded(self, x: np.ndarray, scale: Any, zero: Any) -> np.ndarray:
        """The codes of numbers, as floats."""
        return np.clip(np.rint(x / scale) + zero, self.low, self.high)

    @property
    def steps(self) -> tuple[int, int]:
        """The first and the last step of a block: from 0 on if ranges begin anywhere."""
        return (self.low, self.high) if self.is_symmetric else (0, self.high - self.low)

    def nearest(self, x: np.ndarray, step: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The nearest of the numbers that blocks can hold, start + n · step."""
        return start + step * self._counts(x, step, start)

    def _counts(self, x: np.ndarray, step: np.ndarray, start: np.ndarray) -> np.ndarray:
        counts = np.rint((x - start) / np.where(step == 0, 1, step))
        return np.where(step == 0, 0, np.clip(counts, *self.steps))

    def fitted(
        self, x: np.ndarray, weights: np.ndarray, step: np.ndarray, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The step and start of each row that suit its codes best: weighted least squares."""
        counts = self._counts(x, step[:, None], start[:, None])
        if self.is_symmetric:
            middle, level = np.zeros_like(step), np.zeros_like(step)
        else:
            middle, level = (n @ weights / weights.sum() for n in (counts, x))
        off = counts - middle[:, None]
        spread, slope = off**2 @ weights, (off * (x - level[:, None])) @ weights
        step = np.where(spread > 0, slope / np.where(spread > 0, spread, 1), step)
        return step, level - middle * step


@final
class Seen:
    """What calibration has seen of one value: extremes, and a histogram.

    Its bins are of one width, symmetric around 0; it doubles when a number lies outside.
    """

    def __init__(self) -> None:
        self.least, self.greatest, self.reach = np.inf, -np.inf, 0.0
        self.counts = np.zeros(2 * HALF, np.int64)

    def add(self, x: np.ndarray) -> None:
        """Count the numbers of an array, all of which are finite."""
        if not x.size:
            return
        x = x.astype(np.float64).ravel()
        self.least, self.greatest = min(self.least, x.min()), max(self.greatest, x.max())
        size = max(-self.least, self.greatest, 1e-30)
        if self.reach == 0:
            self.reach = 2.0 ** np.ceil(np.log2(size))
        while self.reach < size:
            pairs = self.counts.reshape(HALF, 2).sum(1)
            self.counts[:] = 0
            self.counts[HALF // 2 : HALF + HALF // 2] = pairs
            self.reach *= 2
        bins = ((x / self.reach + 1) * HALF).astype(np.int64)
        self.counts += np.bincount(np.minimum(bins, 2 * HALF - 1), minlength=2 * HALF)

    def range(self, scheme: Scheme, codes: Codes) -> tuple[float, float]:
        """The range that a scheme chooses."""
        if self.reach == 0:
            return 0.0, 0.0
        if scheme.activation_ranges == "percentile":
            return self._most(scheme.percentile)
        if scheme.activation_ranges == "mse":
            return self._best(codes)
        return float(self.least), float(self.greatest)

    @property
    def centers(self) -> np.ndarray:
        """The middles of the bins."""
        return ((np.arange(2 * HALF) + 0.5) / HALF - 1) * self.reach

    def _most(self, percentile: float) -> tuple[float, float]:
        total = np.cumsum(self.counts) / self.counts.sum()
        outside = (1 - percentile / 100) / 2
        first = int(np.searchsorted(total, outside, side="right"))
        last = int(np.searchsorted(total, 1 - outside, side="left"))
        width = self.reach / HALF
        least = max(self.least, self.centers[first] - width / 2)
        return float(least), float(min(self.greatest, self.centers[last] + width / 2))

    def _best(self, codes: Codes) -> tuple[float, float]:
        centers, part = self.centers, self.counts > 0
        x, weights = centers[part], self.counts[part]
        errors = []
        for part in SHRUNK:
            scale, zero = codes.scales(part * self.least, part * self.greatest)
            back = (codes.rounded(x, scale, zero) - zero) * scale
            errors.append(float((weights * (back - x) ** 2).sum()))
        part = SHRUNK[int(np.argmin(errors))]
        return float(part * self.least), float(part * self.greatest)


@final
class SeenFeatures:
    """The extremes of each feature of a value."""

    def __init__(self, count: int) -> None:
        self.least, self.greatest = np.full(count, np.inf), np.full(count, -np.inf)

    def add(self, x: np.ndarray, axis: int) -> None:
        """Look at the numbers of an array."""
        rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
        if rows.size:
            self.least = np.minimum(self.least, rows.min(0))
            self.greatest = np.maximum(self.greatest, rows.max(0))

    def smoothing(self, of_weights: np.ndarray, part: float) -> np.ndarray:
        """What to divide the features by, given the greatest weights of each."""
        sizes = np.maximum(np.abs(self.least), np.abs(self.greatest))
        with np.errstate(all="ignore"):
            found = sizes**part / of_weights ** (1 - part)
        is_fine = np.isfinite(found) & (found > 0)
        middle = np.exp(np.log(found[is_fine]).mean()) if is_fine.any() else 1.0
        return np.where(is_fine, found / middle, 1.0)


def row_ranges(rows: np.ndarray, scheme: Scheme, codes: Codes) -> tuple[np.ndarray, np.ndarray]:
    """The range of the scale of each row: `f32[n, k] → f32[n], f32[n]`."""
    if not rows.size:
        return np.zeros(len(rows), np.float32), np.zeros(len(rows), np.float32)
    step = max(1, MOST // rows.shape[1])
    parts = [_some(rows[i : i + step], scheme, codes) for i in range(0, len(rows), step)]
    least, greatest = (np.concatenate(side) for side in zip(*parts, strict=True))
    return least, greatest


def check_halves(step: np.ndarray, start: np.ndarray) -> None:
    """Raise unless float16, which blocks have, holds steps and starts of rows."""
    largest = max(float(np.abs(x).max(initial=0)) for x in (step, start))
    if not largest <= LARGEST:
        raise ArgumentError(
            f"quantize: weights need a scale or a least number of {largest:.3g}, and blocks have "
            f"float16, up to {LARGEST:.0f}",
            fix="name the layer in skip=..., or use a scheme with scales per channel",
        )


def fitted_rows(
    rows: np.ndarray, weights: np.ndarray, codes: Codes
) -> tuple[np.ndarray, np.ndarray]:
    """The step and start of each row of the least squared error.

    `f32[n, k] → f32[n], f32[n]`; `weights`, f32[k], are those of the squares. Steps and starts are
    numbers of float16.
    """
    least, greatest, first = rows.min(1), rows.max(1), codes.steps[0]
    if codes.is_symmetric:
        greatest = np.maximum(np.abs(least), np.abs(greatest))
        least = -greatest
    middle, half = (least + greatest) / 2, (greatest - least) / 2
    check_halves(half / codes.high, middle if codes.is_symmetric else least)
    best = np.full(len(rows), np.inf, np.float32)
    step = start = np.zeros(len(rows), np.float32)

    def keep_better(new_step: np.ndarray, new_start: np.ndarray) -> None:
        nonlocal best, step, start
        new_step, new_start = (
            x.astype(np.float16).astype(np.float32) for x in (new_step, new_start)
        )
        off = codes.nearest(rows, new_step[:, None], new_start[:, None]) - rows
        error = off**2 @ weights
        is_better = error < best
        best = np.where(is_better, error, best)
        step, start = np.where(is_better, new_step, step), np.where(is_better, new_start, start)

    count = codes.high if codes.is_symmetric else codes.high - codes.low
    for part in SHRUNK_ROWS.astype(np.float32):
        reach = part * half
        if first:
            keep_better(reach / count, np.zeros_like(reach))
        else:
            keep_better(2 * reach / count, middle - reach)
    for _ in range(FITS):
        keep_better(*codes.fitted(rows, weights, step, start))
    return step, start


def _some(rows: np.ndarray, scheme: Scheme, codes: Codes) -> tuple[np.ndarray, np.ndarray]:
    least, greatest = rows.min(1), rows.max(1)
    if scheme.weight_ranges == "percentile":
        outside = (100 - scheme.percentile) / 2
        found = np.percentile(rows, [outside, 100 - outside], axis=1)
        return found[0].astype(np.float32), found[1].astype(np.float32)
    if scheme.weight_ranges == "minmax":
        return least, greatest
    middle = 0 * least if codes.is_symmetric else (least + greatest) / 2
    best, chosen = np.full(len(rows), np.inf), np.ones(len(rows), np.float32)
    for part in SHRUNK_ROWS.astype(np.float32):
        low, high = middle + part * (least - middle), middle + part * (greatest - middle)
        error = _error(rows, low[:, None], high[:, None], codes)
        chosen = np.where(error < best, part, chosen)
        best = np.minimum(error, best)
    return middle + chosen * (least - middle), middle + chosen * (greatest - middle)


def _error(rows: np.ndarray, low: np.ndarray, high: np.ndarray, codes: Codes) -> np.ndarray:
    """The squared errors of rows in codes of these ranges."""
    if codes.is_symmetric:
        scale, zero = codes.scales(low, high)
        back = codes.rounded(rows, scale, zero) * scale
    else:
        step = np.where(high > low, (high - low) / (codes.high - codes.low), 1)
        back = low + step * np.clip(np.rint((rows - low) / step), 0, codes.high - codes.low)
    return ((back - rows) ** 2).sum(1)
