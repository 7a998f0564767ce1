"""Common divisors and multiples of integers."""

from __future__ import annotations

from typing import Any

from ..ir.errors import DtypeError
from ..ir.types import is_inexact
from ..trace.apply import apply, as_tensor
from ..trace.control import while_loop
from .arithmetic import abs
from .division import real_numbers
from .elementwise import Tensor, equal, multiply, not_equal
from .logic import where
from .reductions import any


def gcd(x1: Tensor, x2: Tensor) -> Any:
    """The greatest common divisor of two integers."""
    a, b = map(abs, _integers("gcd", x1, x2))

    def step(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = pair
        is_done = equal(b, 0)
        rest = apply("rem", a, where(is_done, 1, b))
        return where(is_done, a, b), where(is_done, 0, rest)

    start = (as_tensor(a), as_tensor(b))
    return while_loop(lambda pair: any(not_equal(pair[1], 0)), step, start)[0]


def lcm(x1: Tensor, x2: Tensor) -> Any:
    """The least common multiple of two integers."""
    x, y = _integers("lcm", x1, x2)
    divisor = gcd(x, y)
    safe = where(equal(divisor, 0), 1, divisor)
    return abs(multiply(apply("div", x, safe), y))


def _integers(name: str, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    x, y = real_numbers(name, x, y)
    if is_inexact(x.dtype):
        raise DtypeError(
            f"{name}: {x.dtype.name} is no integer dtype",
            fix='convert the operands: x.astype("int32")',
        )
    return x, y
