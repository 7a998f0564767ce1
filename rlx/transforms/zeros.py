"""Zeros: symbolic ones of custom rules, `float0` of integers, those of state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..ir.errors import GradientError
from ..ir.graph import OPS, Value
from ..ir.record import record
from ..ir.types import Type, Typed, is_inexact
from ..trace import pytree
from ..trace.apply import as_operand, operand_type
from ..trace.array import Array
from ..trace.host import is_python_scalar


@record
class SymbolicZero(Typed):
    """A symbolic zero tangent or cotangent, for a rule with `symbolic_zeros`."""

    type: Type


@record
class CustomVJPPrimal:
    """An argument of a forward rule: its `value`, and whether it is `perturbed`.

    It is perturbed if it is differentiated.
    """

    value: Any
    perturbed: bool


pytree.register_class(SymbolicZero, lambda zero: ((), zero), lambda zero, _: zero)
pytree.register_class(
    CustomVJPPrimal,
    lambda primal: ((primal.value,), primal.perturbed, ("value",)),
    lambda perturbed, children: CustomVJPPrimal(children[0], perturbed),
)


def with_zeros_named(tangents: list[Any], types: list[Type]) -> list[Any]:
    """Replace None among tangents by a `SymbolicZero`."""
    pairs = zip(tangents, types, strict=True)
    return [SymbolicZero(type) if t is None else t for t, type in pairs]


float0 = np.dtype([("float0", np.void, 0)])


@final
class Float0:
    """The derivative of an integer: a `shape` without numbers.

    Its dtype is `rlx.float0`, equal to that of JAX. In trees it is a node without leaves, so it
    passes through jit and vmap.
    """

    __slots__ = ("shape",)
    dtype = float0

    def __init__(self, shape: Sequence[Any] = ()) -> None:
        self.shape = tuple(shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.zeros(self.shape, float0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Float0) and self.shape == other.shape

    def __hash__(self) -> int:
        return hash(self.shape)

    def __repr__(self) -> str:
        return f"Float0({self.shape})"


pytree.register_class(Float0, lambda x: ((), x), lambda x, _: x)


def check_float0(what: str, given: Any, type: Type) -> None:
    """Raise an error if a tangent or cotangent of an integer is not zero."""
    if is_inexact(type.dtype) or given is None or isinstance(given, Float0):
        return
    if isinstance(given, np.ndarray) and given.dtype == float0:
        return
    found = operand_type(as_operand(given))
    is_known = is_python_scalar(given) or isinstance(given, Array | np.ndarray | np.generic)
    if not is_inexact(found.dtype) and not (is_known and np.any(given)):
        return
    raise GradientError(
        f"{what} is {found}, but that of {type} has no numbers",
        fix="give None or rlx.Float0(shape): integers do not move; or convert them with "
        "astype('float32')",
    )


def with_zeros_of_state(
    pulled: Sequence[Value], types: Sequence[Type], active: Sequence[bool], state: Sequence[bool]
) -> list[Value]:
    """Put zeros for state between the cotangents of active parameters."""
    given = iter(pulled)
    return [
        next(given) if is_active else OPS["full"](shape=t.shape, value=0, dtype=t.dtype)
        for t, is_active, is_state in zip(types, active, state, strict=True)
        if is_active or is_state
    ]


def slopes_with_zeros(
    results: Sequence[Any], params: Sequence[Value], active: Sequence[bool], state: Sequence[bool]
) -> list[Any]:
    """The cotangents of parameters; `Float0` for integers that are no state."""
    given, rows = iter(results), zip(params, active, state, strict=False)
    return [next(given) if a or s else Float0(p.shape) for p, a, s in rows]
