"""A case of the audit: an op with one of its samples, and tools to look at it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx.ir.types import type_of
from rlx.runtime import supports
from rlx.runtime.supports import Arrays, cast, graph_of, numbers, tolerance_of

__all__ = ["Arrays", "Case", "all_close", "assert_close", "cast", "graph_of", "tolerance_of"]
COMPLETE = os.environ.get("AUDIT") == "all"  # `make audit`; the default run takes some of each kind
# arguments without a derivative, which a jvp rule refuses
FIXED = {"betainc": (0, 1)}


class Case(supports.Case):
    """A sample with what is known of its derivatives."""

    @functools.cached_property
    def active(self) -> list[bool]:
        """Which arguments finite differences can move: numbers of 64 bits or twice that."""
        fixed = FIXED.get(self.op.name, ())
        return [
            x.dtype.name in ("float64", "complex128") and i not in fixed
            for i, x in enumerate(self.arrays())
        ]

    @functools.cached_property
    def is_smooth(self) -> bool:
        """Whether derivatives can be measured on this sample."""
        inexact = [r.dtype.name for r in self.graph.results if r.type.is_inexact]
        wide = inexact and all(name in ("float64", "complex128") for name in inexact)
        return any(self.active) and bool(wide) and self.op.rules.nondifferentiable is None


Law = Callable[[Case], None]


def where(condition: Callable[[Case], bool]) -> Callable[[Law], Law]:
    """Make a law one for the cases where a condition holds; it says nothing of the others."""

    def limit(law: Law) -> Law:
        @functools.wraps(law)
        def limited(case: Case) -> None:
            if condition(case):
                law(case)

        limited.condition = condition
        return limited

    return limit


def is_checked(law: Law, case: Case) -> bool:
    """Whether a law says something of a case."""
    return getattr(law, "condition", lambda _: True)(case)


def like(arrays: Sequence[np.ndarray], seed: int) -> Arrays:
    """Random directions of the shapes and dtypes of arrays."""
    random = np.random.default_rng(seed)
    return [numbers(type_of(x), random, -1, 1) for x in arrays]


def pick(items: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The items where the mask holds."""
    return [item for item, is_kept in zip(items, mask, strict=True) if is_kept]


def assert_close(got: Any, wanted: Any, tolerance: float, what: str, terms: float = 1.0) -> None:
    """Raise unless arrays agree in shape and numbers; half-size floats are compared as float32.

    The absolute tolerance grows with the `terms` of a sum: numbers about 1 that cancel leave the
    error of each.
    """
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, not {wanted.shape}"
    got, wanted = (a if a.dtype.kind in "biufc" else a.astype(np.float32) for a in (got, wanted))
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * terms, err_msg=what)


def all_close(got: Arrays, wanted: Arrays, tolerance: float, what: str, terms: float = 1.0) -> None:
    """`assert_close` for each pair."""
    assert len(got) == len(wanted), f"{what}: {len(got)} results, not {len(wanted)}"
    for g, w in zip(got, wanted, strict=True):
        assert_close(g, w, tolerance, what, terms)
