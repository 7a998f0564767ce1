"""A case of the audit: an op with one of its samples, and tools to look at it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from rlx.ir.builder import build
from rlx.ir.errors import RlxError
from rlx.ir.graph import Graph
from rlx.ir.op import Op, Sample
from rlx.ir.types import Type, as_dtype, is_bool, is_complex, is_inexact, is_integer

Arrays = list[np.ndarray]
COMPLETE = os.environ.get("AUDIT") == "all"  # `make audit`; the default run takes some of each kind
# arguments without a derivative, which a jvp rule refuses
FIXED = {"betainc": (0, 1)}


@dataclass(frozen=True)
class Case:
    """One sample of an op, with random numbers where it gives shapes."""

    op: Op
    sample: Sample

    @functools.cached_property
    def attrs(self) -> dict[str, Any]:
        return self.op.complete(self.sample.attrs)

    def arrays(self, seed: int = 0) -> Arrays:
        random = np.random.default_rng(seed)
        return [self.array(arg, random) for arg in self.sample.args]

    def array(self, arg: Any, random: np.random.Generator) -> np.ndarray:
        if not isinstance(arg, tuple | Type):
            return np.asarray(arg)
        type = arg if isinstance(arg, Type) else Type(as_dtype("float64"), arg)
        low, high = self.sample.low, self.sample.high
        if is_bool(type.dtype):
            return random.random(type.shape) < 0.5
        if is_integer(type.dtype):
            least = 0 if type.dtype.kind == "u" else int(low)
            return random.integers(least, int(high) + 1, type.shape).astype(type.dtype)
        return numbers(type, random, low, high)

    @functools.cached_property
    def graph(self) -> Graph:
        return graph_of(self.op, self.arrays(), self.attrs)

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
        return any(self.active) and bool(wide) and "nondifferentiable" not in self.op.rules


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


def numbers(type: Type, random: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Random floats or complex numbers."""
    x = random.uniform(low, high, type.shape)
    if is_complex(type.dtype):
        x = x + 1j * random.uniform(low, high, type.shape)
    return np.asarray(x).astype(type.dtype)


def type_of(x: np.ndarray) -> Type:
    """The type of an array; a foreign dtype is an error."""
    return Type(as_dtype(x.dtype), x.shape)


def graph_of(op: Op, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> Graph:
    """The graph that applies an op once."""
    return build(lambda *xs: op.apply(xs, attrs), [type_of(x) for x in arrays], op.name)


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


def cast(x: np.ndarray, name: str) -> np.ndarray:
    """The array in another dtype, without warnings: whole and not negative where it must be."""
    dtype = as_dtype(name)
    if is_complex(x.dtype) and not is_complex(dtype):
        x = x.real
    if is_integer(dtype) and not is_integer(x.dtype):
        x = np.nan_to_num(x.astype(np.float64), posinf=9, neginf=-9)
        x = np.abs(np.rint(x)) if dtype.kind == "u" else np.rint(x)
        x = np.clip(x, -100, 100)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def in_dtype(case: Case, name: str, seed: int = 0) -> Arrays | None:
    """The arrays of a case in a dtype, or None if the op does not take it.

    The operands that have the dtype of the first inexact one (else of the first) change.
    """
    arrays = case.arrays(seed)
    main = next((x.dtype for x in arrays if is_inexact(type_of(x).dtype)), None)
    main = main or (arrays[0].dtype if arrays else None)
    changed = [cast(x, name) if x.dtype == main else x for x in arrays]
    return changed if takes(case, changed) else None


def takes(case: Case, arrays: Arrays) -> bool:
    """Whether the op has a type for these arrays."""
    try:
        graph_of(case.op, arrays, case.attrs)
    except RlxError:
        return False
    return True


def tolerance_of(*types: Type) -> float:
    """A few roundings of the least exact dtype; integers must be equal."""
    inexact = [t.dtype for t in types if t.is_inexact]
    return max((8 * float(ml_dtypes.finfo(d).eps) for d in inexact), default=0.0)
