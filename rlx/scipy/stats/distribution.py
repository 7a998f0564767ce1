"""How a distribution is written: a class of formulas, and what follows from them.

class expon(Distribution, of="the exponential distribution"):
    logsf = formula(lambda x, loc=0, scale=1: rnp.minimum((loc - x) / scale, 0))
    sf = exp_of(logsf)
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, cast

from ... import numpy as rnp
from ...ir.errors import ArgumentError
from ...trace.array import Array
from ..operands import floats

P = ParamSpec("P")
MEANINGS = {
    "logpdf": "The logarithm of the probability density function",
    "pdf": "The probability density function",
    "logpmf": "The logarithm of the probability mass function",
    "pmf": "The probability mass function",
    "cdf": "The cumulative distribution function",
    "logcdf": "The logarithm of the cumulative distribution function",
    "sf": "The survival function 1 - cdf",
    "logsf": "The logarithm of the survival function 1 - cdf",
    "ppf": "The quantile function, the inverse of cdf,",
    "isf": "The inverse of the survival function",
}


class Distribution:
    """A distribution: a namespace of functions of values and parameters."""

    def __init_subclass__(cls, of: str) -> None:
        for name, member in vars(cls).items():
            if not isinstance(member, staticmethod):
                continue
            function: Any = member.__func__
            function.__name__, function.__qualname__ = name, f"{cls.__name__}.{name}"
            if not function.__doc__:
                function.__doc__ = f"{MEANINGS[name]} of {of}."

    def __new__(cls, *parameters: Any, **keywords: Any) -> NoReturn:
        first = next(name for name, each in vars(cls).items() if isinstance(each, staticmethod))
        raise ArgumentError(
            f"{cls.__name__}: a distribution does not keep parameters",
            fix=f"give them to its functions, {cls.__name__}.{first}(x, *parameters)",
        )


def formula(function: Callable[P, Array]) -> staticmethod[P, Array]:
    """A function of a distribution, whose operands are converted to one real dtype."""
    bound, defaults = _bound_to(function), function.__defaults__ or ()
    needed = len(inspect.signature(function).parameters) - len(defaults)

    @functools.wraps(function)
    def of_operands(*args: P.args, **keywords: P.kwargs) -> Any:
        name = of_operands.__qualname__  # the one that its class gives it
        given = bound(name, args, keywords)
        return function(*floats(name, *given, *defaults[len(given) - needed :]))  # type: ignore[call-arg]

    return staticmethod(of_operands)


def _bound_to(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """What gives the arguments of a call by their places; errors name the called function."""
    signature = inspect.signature(function)
    needed = sum(p.default is p.empty for p in signature.parameters.values())

    def bound(name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        if len(args) >= needed and not keywords:  # binding takes its time
            return args
        try:
            found = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        found.apply_defaults()
        return found.args

    return bound


def exp_of(logarithm: staticmethod[P, Any]) -> staticmethod[P, Any]:
    """The exponential of a function: `pdf = exp_of(logpdf)`."""
    return _after(rnp.exp, logarithm.__func__)


def log_of(function: staticmethod[P, Any]) -> staticmethod[P, Any]:
    """The logarithm of a function: `logcdf = log_of(cdf)`."""
    return _after(rnp.log, function.__func__)


def _after(outer: Callable[[Any], Any], inner: Callable[P, Any]) -> staticmethod[P, Any]:
    bound, call = _bound_to(inner), cast("Callable[..., Any]", inner)

    @functools.wraps(inner)
    def both(*args: P.args, **keywords: P.kwargs) -> Any:
        return outer(call(*bound(both.__qualname__, args, keywords)))

    both.__doc__ = None
    return staticmethod(both)


def is_chance(p: Any) -> Array:
    """Elementwise test for probabilities: numbers in [0, 1]."""
    return (p >= 0) & (p <= 1)


def where_chance(q: Any, result: Any) -> Array:
    """The result for probabilities, NaN for other numbers."""
    return rnp.where(is_chance(q), result, math.nan)
