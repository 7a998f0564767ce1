"""Primitives that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import lax, numpy as rnp
from ...ir.types import as_dtype, is_float
from ...trace.apply import as_tensor
from ..replay import made, rule, same

SAME_NAME = """
    abs acos acosh add asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz complex
    conj cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igamma_grad_a
    igammac imag is_finite le lgamma log log1p logistic lt max min mul mulhi ne neg nextafter
    polygamma population_count pow random_gamma_grad real rem rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh
    zeta
"""
same({name: getattr(lax, name) for name in SAME_NAME.split()})
same(
    {
        "add_any": lax.add,
        "and": lax.bitwise_and,
        "bitcast_convert_type": (lax.bitcast_convert_type, "new_dtype"),
        "convert_element_type": (lax.convert_element_type, "new_dtype"),
        "integer_pow": (lax.integer_pow, "y"),
        "not": lax.bitwise_not,
        "or": lax.bitwise_or,
        "reduce_precision": (lax.reduce_precision, "exponent_bits", "mantissa_bits"),
        "regularized_incomplete_beta": lax.betainc,
        "round": (lax.round, "rounding_method"),
        "xor": lax.bitwise_xor,
        "zeros_like": rnp.zeros_like,
    }
)


@rule("iota")
def iota_rule(equation: Any) -> Any:
    params = equation.params
    dtype = as_dtype(np.dtype(params["dtype"]))
    return made("iota", shape=params["shape"], axis=params["dimension"], dtype=dtype)


@rule("empty", "empty2")
def empty_rule(equation: Any) -> Any:
    aval = equation.outvars[0].aval
    return made("full", shape=aval.shape, value=0, dtype=as_dtype(np.dtype(aval.dtype)))


# -- the same arrays ----------------------------------------------------------------------------


@rule(
    "copy",
    "copy_p",
    "layout_constraint",
    "reshard",
    "sharding_constraint",
    "stage",
    knows_keys=True,
)
def copy_rule(equation: Any, x: Any) -> Any:
    return as_tensor(x)


@rule("device_put", "optimization_barrier", "pvary", knows_keys=True)
def as_they_are_rule(equation: Any, *xs: Any) -> Any:
    found = list(map(as_tensor, xs))
    return found if equation.primitive.multiple_results else found[0]


@rule("tie", knows_keys=True)
def tie_rule(equation: Any, first: Any, second: Any) -> Any:
    return as_tensor(second)


@rule("dce_sink", knows_keys=True)
def sink_rule(equation: Any, x: Any) -> Any:
    return []


# -- the order of all numbers -------------------------------------------------------------------


def _ranks(x: Any) -> Any:
    """Integers in the order of all numbers: -NaN, -inf ... -0.0, 0.0 ... inf, NaN."""
    x = as_tensor(x)
    if not is_float(x.dtype):
        return x
    word = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = lax.bitcast_convert_type(x, word)
    # the bits of negative numbers grow with their size
    return rnp.where(bits < 0, bits ^ np.array(np.iinfo(word).max, word), bits)


def _by_rank(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: compare(_ranks(x), _ranks(y))


same({f"{name}_to": _by_rank(getattr(lax, name)) for name in ("eq", "le", "lt")})
