"""Statistics of samples: mode, rankdata, sem; density estimation: gaussian_kde."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from ... import numpy as rnp, random
from ...ir.errors import ArgumentError, ShapeError
from ...numpy.manipulation import along
from ...trace.apply import as_tensor
from ...trace.arguments import choice, wrong
from ...trace.array import Array
from ...trace.array_arguments import scalar
from ...trace.attributes import register_attributes
from ...trace.axes import integer, one_axis
from ..linalg import cho_factor, cho_solve
from ..operands import Tensor, floats
from ..special import logsumexp, ndtr

METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """The result of `mode`."""

    mode: Any
    count: Any


def mode(
    a: Tensor, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent value along an axis, the smallest of several, and its count.

    >>> mode([3, 1, 3, 1, 2])
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    choice("mode: nan_policy", nan_policy, ("propagate",))
    x = rnp.atleast_1d(as_tensor(a))
    rank = x.ndim
    x, place = along("mode", x, axis)
    last = rnp.sort(rnp.moveaxis(x, place, -1), axis=-1)
    ends = _run_starts(last)
    places = rnp.broadcast_to(np.arange(last.shape[-1], dtype="int32"), last.shape)
    # the length so far of the run of equal numbers; the first longest one is of the least
    lengths = places - rnp.cummax(rnp.where(ends, places, 0), axis=-1) + 1
    best = rnp.expand_dims(rnp.argmax(lengths, axis=-1), -1)
    found = [rnp.take_along_axis(each, best, axis=-1) for each in (last, lengths)]
    if not keepdims:
        return ModeResult(*(rnp.squeeze(each, -1) for each in found))
    if axis is None:
        return ModeResult(*(rnp.reshape(each, (1,) * rank) for each in found))
    return ModeResult(*(rnp.moveaxis(each, -1, place) for each in found))


def _run_starts(x: Any) -> Array:
    """Where sorted lines have another number than before; NaNs count as equal."""
    is_other = x[..., 1:] != x[..., :-1]
    if x.dtype.kind not in "biu":
        is_other = is_other & ~(rnp.isnan(x[..., 1:]) & rnp.isnan(x[..., :-1]))
    return rnp.concatenate([rnp.ones((*x.shape[:-1], 1), dtype=bool), is_other], axis=-1)


def rankdata(
    a: Tensor, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """The ranks of the elements along an axis, starting at 1.

    By `method` ties get the "average", the "min" or the "max" of their ranks; "dense" leaves no
    gaps, "ordinal" ranks them in order. A NaN makes all ranks along the axis NaN.

    >>> rankdata([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    choice("rankdata: nan_policy", nan_policy, ("propagate",))
    choice("rankdata: method", method, METHODS)
    x, place = along("rankdata", a, axis)
    lines = rnp.moveaxis(x, place, -1)
    order = rnp.argsort(lines, axis=-1)
    ranks = _ranks(rnp.take_along_axis(lines, order, axis=-1), method)
    ranks = rnp.take_along_axis(ranks, rnp.argsort(order, axis=-1), axis=-1)
    ranks = rnp.astype(ranks, "float32")
    if x.dtype.kind not in "biu":
        ranks = rnp.where(rnp.any(rnp.isnan(lines), axis=-1, keepdims=True), rnp.nan, ranks)
    return rnp.moveaxis(ranks, -1, place)


def _ranks(x: Any, method: str) -> Array:
    """The ranks of sorted lines."""
    starts, count = _run_starts(x), x.shape[-1]
    places = rnp.broadcast_to(np.arange(1, count + 1, dtype="int32"), x.shape)
    if method == "ordinal":
        return places
    if method == "dense":
        return rnp.cumsum(rnp.astype(starts, "int32"), axis=-1)
    least = rnp.cummax(rnp.where(starts, places, 0), axis=-1)
    if method == "min":
        return least
    ends = rnp.concatenate([starts[..., 1:], rnp.ones_like(starts[..., :1])], axis=-1)
    # the end of a run is the least end from here on
    greatest = rnp.flip(rnp.cummin(rnp.flip(rnp.where(ends, places, count), -1), axis=-1), -1)
    return greatest if method == "max" else 0.5 * rnp.astype(least + greatest, "float32")


def sem(
    a: Tensor,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean along an axis.

    The variance is divided by the count minus `ddof`.

    >>> sem([1.0, 3.0, 5.0])
    Array(1.1547005, dtype=float32)
    """
    choice("sem: nan_policy", nan_policy, ("propagate", "omit"))
    (x,) = floats("sem", a)
    ddof = integer("sem: ddof", ddof)
    if nan_policy == "omit":
        count = rnp.astype(rnp.sum(~rnp.isnan(x), axis, keepdims=keepdims), x.dtype)
        return rnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / rnp.sqrt(count)
    size = x.size if axis is None else x.shape[one_axis("sem", axis, x.ndim)]
    return rnp.std(x, axis, ddof=ddof, keepdims=keepdims) / rnp.sqrt(rnp.asarray(size, x.dtype))


# -- densities estimated from samples: gaussian_kde ------------------------------------------------


Bandwidth = None | str | Tensor | Callable[[Any], Any]


@final
class gaussian_kde:
    """A kernel density estimate with Gaussian kernels.

    `dataset` has shape (dimensions, points), `weights` has one number for each point. The bandwidth
    is the covariance of the data times a factor squared: by `bw_method` Scott's or Silverman's
    rule, a number, or what a function of the estimate returns.
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(self, dataset: Tensor, bw_method: Bandwidth = None, weights: Tensor | None = None):
        (data,) = floats("gaussian_kde", dataset)
        self.dataset = rnp.atleast_2d(data)
        if self.dataset.size < 2:
            _wrong("the data set has fewer than two numbers", "give more points")
        if weights is None:
            self.weights = rnp.full(self.n, 1.0 / self.n, dtype=self.dataset.dtype)
        else:
            self.dataset, given = floats("gaussian_kde", self.dataset, weights)
            if given.shape != (self.n,):
                _wrong(f"the weights are {given.type}", f"give {self.n} of them, one for a point")
            self.weights = given / rnp.sum(given)
        self.neff = 1 / rnp.sum(rnp.square(self.weights))
        factor = self._factor("scott" if bw_method is None else bw_method)
        spread = rnp.atleast_2d(rnp.cov(self.dataset, bias=False, aweights=self.weights))
        self.covariance = spread * factor**2
        self.inv_cov = rnp.linalg.inv(spread) / factor**2

    def _factor(self, method: Any) -> Any:
        power = -1.0 / (self.d + 4)
        if callable(method):
            return method(self)
        if not isinstance(method, str):
            return scalar("gaussian_kde: bw_method", method)
        if method not in ("scott", "silverman"):
            _wrong(f"there is no bw_method {method!r}", 'use "scott", "silverman" or a number')
        return (self.neff if method == "scott" else self.neff * (self.d + 2) / 4.0) ** power

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points of the data set."""
        return self.dataset.shape[1]

    def evaluate(self, points: Tensor) -> Array:
        """The density at `points` of shape (dimensions, count)."""
        return rnp.sum(self.weights * rnp.exp(self._exponents(points)), axis=-1)

    __call__ = evaluate

    def pdf(self, x: Tensor) -> Any:
        """The density at points of shape (dimensions, count)."""
        return self.evaluate(x)

    def logpdf(self, x: Tensor) -> Array:
        """The logarithm of the density at points of shape (dimensions, count)."""
        return logsumexp(rnp.log(self.weights) + self._exponents(x), axis=-1)

    def _exponents(self, points: Tensor) -> Any:
        """The logarithm of each kernel at each point."""
        (x,) = floats("gaussian_kde", points)
        x = rnp.atleast_2d(x)
        if x.shape[0] != self.d and x.shape == (1, self.d):
            x = rnp.reshape(x, (self.d, 1))
        if x.shape[0] != self.d:
            _wrong_shape(f"the points are {x.type}", f"give an array of shape ({self.d}, count)")
        root = rnp.linalg.cholesky(self.inv_cov)
        near, far = x.T @ root, self.dataset.T @ root
        square = rnp.sum(rnp.square(near[:, None] - far), axis=-1)
        size = rnp.sum(rnp.log(rnp.diagonal(root))) - 0.5 * self.d * math.log(2 * math.pi)
        return size - 0.5 * square

    def integrate_gaussian(self, mean: Any, cov: Any) -> Array:
        """The integral of the density multiplied by a normal density."""
        mean, cov = floats("gaussian_kde.integrate_gaussian", mean, cov)
        mean, cov = rnp.atleast_1d(rnp.squeeze(mean)), rnp.atleast_2d(cov)
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            _wrong_shape(
                f"the mean is {mean.type}, cov is {cov.type}",
                f"give shapes ({self.d},) and ({self.d}, {self.d})",
            )
        return rnp.sum(self._overlaps(mean[:, None], self.covariance + cov), axis=-1)[0]

    def integrate_box_1d(self, low: Tensor, high: Tensor) -> Array:
        """The probability of the interval from `low` to `high`, for 1-d data."""
        if self.d != 1:
            _wrong_shape(f"the points have {self.d} axes", "use it for points of one axis")
        low, high = floats("gaussian_kde.integrate_box_1d", low, high)
        if low.ndim or high.ndim:
            _wrong_shape("the bounds have axes", "give numbers")
        sigma, data = rnp.sqrt(self.covariance[0, 0]), self.dataset[0]
        return rnp.sum(self.weights * (ndtr((high - data) / sigma) - ndtr((low - data) / sigma)))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product with another estimate, `other`."""
        if not isinstance(other, gaussian_kde):
            fix = "pass a gaussian_kde of other points"
            raise wrong("gaussian_kde.integrate_kde: other", other, "such a density", fix)
        if other.d != self.d:
            _wrong_shape(f"one has {self.d} axes, the other {other.d}", "use points of one space")
        overlaps = self._overlaps(other.dataset, self.covariance + other.covariance)
        return rnp.sum(rnp.sum(overlaps, axis=-1) * other.weights)

    def _overlaps(self, means: Any, cov: Any) -> Any:
        """The weighted densities of cov around each mean at each point of the data set."""
        factor = cho_factor(cov)
        apart = self.dataset[:, None] - means[:, :, None]
        solved = rnp.reshape(cho_solve(factor, rnp.reshape(apart, (self.d, -1))), apart.shape)
        size = math.sqrt(2 * math.pi) ** self.d * rnp.prod(rnp.diagonal(factor[0]))
        return rnp.exp(-0.5 * rnp.sum(apart * solved, axis=0)) * self.weights / size

    def resample(self, key: Any, shape: Any = ()) -> Any:
        """Random points from the density, of shape (dimensions, *shape).

        `key` is a key of `rlx.random`.
        """
        place_key, noise_key = random.split(key)
        places = random.choice(place_key, self.n, shape=shape, p=self.weights)
        zero = rnp.zeros(self.d, self.dataset.dtype)
        noise = random.multivariate_normal(
            noise_key, zero, self.covariance, shape=shape, dtype=self.dataset.dtype
        )
        return self.dataset[:, places] + rnp.transpose(noise)

    def integrate_box(self, low_bounds: Tensor, high_bounds: Tensor, maxpts: Any = None) -> Any:
        """The probability of a box, for 1-d data; see `integrate_box_1d`.

        It is from `low_bounds` to `high_bounds`; `maxpts` has no effect.
        """
        return self.integrate_box_1d(rnp.squeeze(low_bounds), rnp.squeeze(high_bounds))

    def set_bandwidth(self, bw_method: Bandwidth = None) -> None:
        """Raise an error: estimates are immutable; make another one."""
        _wrong("its bandwidth does not change", "make another one, gaussian_kde(data, bw_method)")


register_attributes(gaussian_kde, ("neff", "dataset", "weights", "covariance", "inv_cov"))


def _wrong(what: str, fix: str) -> NoReturn:
    raise ArgumentError(f"gaussian_kde: {what}", fix=fix)


def _wrong_shape(what: str, fix: str) -> NoReturn:
    raise ShapeError(f"gaussian_kde: {what}", fix=fix)
