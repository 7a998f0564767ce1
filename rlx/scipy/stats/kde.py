"""Densities estimated from samples: gaussian_kde."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, final

from ... import numpy as rnp
from ... import random
from ...ir.errors import ArgumentError, ShapeError
from ...trace import pytree
from ...trace.array_arguments import scalar
from ..linalg import cho_factor, cho_solve
from ..operands import Tensor, floats
from ..special import logsumexp, ndtr

Bandwidth = None | str | Tensor | Callable[[Any], Any]


@final
class gaussian_kde:
    """The density of points: a normal distribution around each of a data set's points.

    `dataset` has shape (axes, points), `weights` one number for each point. The width of each
    normal distribution is that of the data times a factor, Scott's or Silverman's rule of their
    count, a number, or what a function of the estimate gives.
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(self, dataset: Tensor, bw_method: Bandwidth = None, weights: Tensor = None):
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
        """How many axes the points have."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """How many points the data set has."""
        return self.dataset.shape[1]

    def evaluate(self, points: Tensor) -> Any:
        """The density at points of shape (axes, count)."""
        return rnp.sum(self.weights * rnp.exp(self._exponents(points)), axis=-1)

    def __call__(self, points: Tensor) -> Any:
        return self.evaluate(points)

    def pdf(self, x: Tensor) -> Any:
        """The density at points of shape (axes, count)."""
        return self.evaluate(x)

    def logpdf(self, x: Tensor) -> Any:
        """The logarithm of the density at points of shape (axes, count)."""
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

    def integrate_gaussian(self, mean: Tensor, cov: Tensor) -> Any:
        """The integral of the density times that of a normal distribution."""
        mean, cov = floats("gaussian_kde.integrate_gaussian", mean, cov)
        mean, cov = rnp.atleast_1d(rnp.squeeze(mean)), rnp.atleast_2d(cov)
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            _wrong_shape(
                f"the mean is {mean.type}, cov is {cov.type}",
                f"give shapes ({self.d},) and ({self.d}, {self.d})",
            )
        return rnp.sum(self._overlaps(mean[:, None], self.covariance + cov), axis=-1)[0]

    def integrate_box_1d(self, low: Tensor, high: Tensor) -> Any:
        """The chance of a number from `low` to `high`, for points of one axis."""
        if self.d != 1:
            _wrong_shape(f"the points have {self.d} axes", "use it for points of one axis")
        low, high = floats("gaussian_kde.integrate_box_1d", low, high)
        if low.ndim or high.ndim:
            _wrong_shape("the bounds have axes", "give numbers")
        sigma, data = rnp.sqrt(self.covariance[0, 0]), self.dataset[0]
        return rnp.sum(self.weights * (ndtr((high - data) / sigma) - ndtr((low - data) / sigma)))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product of two densities."""
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
        """Random points of this density, of shape (axes, *shape)."""
        place_key, noise_key = random.split(key)
        places = random.choice(place_key, self.n, shape=shape, p=self.weights)
        zero = rnp.zeros(self.d, self.dataset.dtype)
        noise = random.multivariate_normal(
            noise_key, zero, self.covariance, shape=shape, dtype=self.dataset.dtype
        )
        return self.dataset[:, places] + rnp.transpose(noise)

    def integrate_box(self, low_bounds: Tensor, high_bounds: Tensor, maxpts: Any = None) -> Any:
        """The chance of a box; for one axis alone, see `integrate_box_1d`."""
        return self.integrate_box_1d(rnp.squeeze(low_bounds), rnp.squeeze(high_bounds))

    def set_bandwidth(self, bw_method: Bandwidth = None) -> None:
        """An error: an estimate does not change; make another one."""
        _wrong("its bandwidth does not change", "make another one, gaussian_kde(data, bw_method)")


FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")


def _restored(_: Any, children: Any) -> gaussian_kde:
    made = object.__new__(gaussian_kde)
    for name, child in zip(FIELDS, children, strict=True):
        setattr(made, name, child)
    return made


pytree.register_class(
    gaussian_kde, lambda kde: ([getattr(kde, name) for name in FIELDS], None, FIELDS), _restored
)


def _wrong(what: str, fix: str) -> NoReturn:
    raise ArgumentError(f"gaussian_kde: {what}", fix=fix)


def _wrong_shape(what: str, fix: str) -> NoReturn:
    raise ShapeError(f"gaussian_kde: {what}", fix=fix)
