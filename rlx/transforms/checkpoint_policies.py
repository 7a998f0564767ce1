"""Policies of `rlx.checkpoint`: which residuals to store.

A policy is a function `(op, *operand_types, **attrs) -> bool`: whether the results of such a node
are stored. All others are recomputed from these. The policies are those of JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.graph import OPS
from ..ir.record import record
from ..trace.arguments import names_of

Policy = Callable[..., Any]

__all__ = [
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
]


def __dir__() -> list[str]:
    return __all__


def everything_saveable(op: Any, *types: Any, **attrs: Any) -> bool:
    """Store everything, as without a checkpoint.

    A policy: returns True for every `op`, `types` and `attrs`.
    """
    return True


def nothing_saveable(op: Any, *types: Any, **attrs: Any) -> bool:
    """Store the arguments only, as without a policy.

    A policy: returns False for every `op`, `types` and `attrs`.
    """
    return False


def dots_saveable(op: Any, *types: Any, **attrs: Any) -> bool:
    """Store matrix products and convolutions, which are expensive to recompute.

    A policy: returns whether the result of `op` on `types`, with attributes `attrs`, is stored.
    """
    return op in (OPS["dot_general"], OPS["conv_general_dilated"])


def dots_with_no_batch_dims_saveable(op: Any, *types: Any, **attrs: Any) -> bool:
    """Store matrix products without batch axes, as those with weights.

    Products of activations, as in attention, are recomputed. A policy: returns whether the result
    of `op` on `types`, with attributes `attrs`, is stored.
    """
    return op is OPS["dot_general"] and not any(attrs["batch"])


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


@record
class _Names:
    """A policy by names: whether to store `listed` names, and values without one."""

    names: frozenset[str]
    listed: bool
    unnamed: bool

    def __call__(self, op: Any, *types: Any, **attrs: Any) -> bool:
        if op is not OPS["checkpoint_name"]:
            return self.unnamed
        return (attrs["name"] in self.names) == self.listed


def _named(function: str, names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names_of(f"{function}: the names", names))


@record
class _Either:
    first: Policy
    second: Policy

    def __call__(self, op: Any, *types: Any, **attrs: Any) -> bool:
        return bool(self.first(op, *types, **attrs) or self.second(op, *types, **attrs))


def save_only_these_names(*names: str) -> Policy:
    """Store values that `checkpoint_name` gives one of `names`."""
    return _Names(_named("save_only_these_names", names), listed=True, unnamed=False)


def save_any_names_but_these(*names: str) -> Policy:
    """Store values that `checkpoint_name` gives any name except `names`."""
    return _Names(_named("save_any_names_but_these", names), listed=False, unnamed=False)


def save_anything_except_these_names(*names: str) -> Policy:
    """Store all values except those that `checkpoint_name` gives one of `names`."""
    known = _named("save_anything_except_these_names", names)
    return _Names(known, listed=False, unnamed=True)


def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """Store what either policy, `first` or `second`, stores; returns a policy."""
    return _Either(first, second)
