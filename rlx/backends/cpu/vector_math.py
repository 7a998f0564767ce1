"""The transcendental functions of floats, as code for every lane at once.

One emitter per function stands in the `vector_*` files beside this one; `emit_math` picks it by
name. No host library is called, except by sin, cos and tan of huge arguments.
"""

from __future__ import annotations

from collections.abc import Callable

from .code import Function, Vector
from .lanes import Lanes
from .vector_error import emit_erf
from .vector_exp import (
    emit_exp,
    emit_exp2,
    emit_expm1,
    emit_log,
    emit_log1p,
    emit_log2,
    emit_logistic,
)
from .vector_hyperbolic import (
    emit_acosh,
    emit_asinh,
    emit_atanh,
    emit_cosh,
    emit_sinh,
    emit_tanh,
)
from .vector_power import emit_cbrt, emit_pow
from .vector_trig import (
    emit_acos,
    emit_asin,
    emit_atan,
    emit_atan2,
    emit_cos,
    emit_sin,
    emit_tan,
)

_EMITTERS: dict[str, Callable[..., Lanes]] = {
    "exp": emit_exp,
    "exp2": emit_exp2,
    "expm1": emit_expm1,
    "logistic": emit_logistic,
    "log": emit_log,
    "log2": emit_log2,
    "log1p": emit_log1p,
    "pow": emit_pow,
    "cbrt": emit_cbrt,
    "sin": emit_sin,
    "cos": emit_cos,
    "tan": emit_tan,
    "asin": emit_asin,
    "acos": emit_acos,
    "atan": emit_atan,
    "atan2": emit_atan2,
    "sinh": emit_sinh,
    "cosh": emit_cosh,
    "tanh": emit_tanh,
    "asinh": emit_asinh,
    "acosh": emit_acosh,
    "atanh": emit_atanh,
    "erf": emit_erf,
}
MATH = frozenset(_EMITTERS)


def emit_math(f: Function, name: str, vector: Vector, *values: str) -> str:
    """Emit the function `name` of `MATH` on float32 or float64 lanes; return its value.

    `pow` takes the base and the exponent, `atan2` takes y and x; all others take one value.
    """
    return _EMITTERS[name](*(Lanes(f, vector, value) for value in values)).name
