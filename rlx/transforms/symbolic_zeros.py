"""Zeros that are not arrays, for custom rules that ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.types import Type
from ..trace import pytree


@dataclass(frozen=True)
class SymbolicZero:
    """A tangent or cotangent that is zero, for a rule with `symbolic_zeros`."""

    type: Type

    @property
    def shape(self) -> tuple[Any, ...]:
        """The size of each axis."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        return self.type.dtype


@dataclass(frozen=True)
class CustomVJPPrimal:
    """An argument of a forward rule, and whether it is differentiated."""

    value: Any
    perturbed: bool


pytree.register_class(SymbolicZero, lambda zero: ((), zero), lambda zero, _: zero)
pytree.register_class(
    CustomVJPPrimal,
    lambda primal: ((primal.value,), primal.perturbed, ("value",)),
    lambda perturbed, children: CustomVJPPrimal(children[0], perturbed),
)


def with_zeros_named(tangents: list[Any], types: list[Type]) -> list[Any]:
    """Tangents with a `SymbolicZero` in the places of None."""
    pairs = zip(tangents, types, strict=True)
    return [SymbolicZero(type) if t is None else t for t, type in pairs]
