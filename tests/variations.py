"""Variations of a sample: other dtypes, sizes, ranks and numbers, if the type rule takes them.

No op is named here. A variation is tried, and the op's own type rule says whether it is claimed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
from audit import Arrays, Case, cast

from rlx.ir.body import Blocks, Contract, Library, Repeat
from rlx.ir.errors import RlxError
from rlx.ir.types import DTYPES, Type, is_bool, is_complex, is_inexact, is_integer, type_of
from rlx.lower.hir.inline_calls import expand

# empty, one, and around the numbers of lanes of a vector
SIZES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 64, 65)
FEW_SIZES = (0, 1, 17)  # for ops that take long to compile
LONG = 100  # nodes of such an op, written in simpler ones
LARGEST = 1 << 14  # elements of an operand
FEW = 64  # of one whose product is not to be infinite
LEADING = (2, 1, 1, 2, 1, 1, 1, 3)  # axes put before those of every operand, to have eight


@dataclass(frozen=True)
class Variation:
    """A call of an op that its type rule takes."""

    case: Case
    dtype: str
    form: str
    is_special: bool
    arrays: Arrays
    attrs: dict[str, Any]

    def terms(self, results: Arrays) -> float:
        """How many numbers are combined at most for each of a result."""
        largest = max((x.size for x in self.arrays), default=1)
        terms = largest / max(1, min((x.size for x in results), default=1))
        if has_body(self.case, Blocks):  # as many results as operands may each be a sum of all
            terms = max([terms, *(n for x in self.arrays for n in x.shape)])
        if has_body(self.case, Contract):  # sums of products; of ones each is 1
            ones = [np.ones_like(x) if is_inexact(x.dtype) else x for x in self.arrays]
            terms = max([terms, *map(largest_finite, self.case.op.run(ones, self.attrs))])
        if self.is_special and is_tame(self.case):  # large results are sums of terms as large
            terms *= max(largest_finite(x) for x in results)
        return max(1.0, terms)

    def __str__(self) -> str:
        types = ", ".join(str(type_of(x)) for x in self.arrays)
        kind = " of special numbers" if self.is_special else ""
        return f"{self.case.op.name}({types}; {self.attrs}) {self.form}{kind}"


def largest_finite(x: np.ndarray) -> float:
    """The largest size of a finite number in an array, at least 1."""
    wide = (
        np.abs(np.asarray(x, np.result_type(x.dtype, np.float64)))
        if is_inexact(x.dtype)
        else np.zeros(())
    )
    return float(np.max(wide, initial=1.0, where=np.isfinite(wide)))


def variations(case: Case) -> Iterator[Variation]:
    """All variations of a case that the op claims."""
    for form, shapes, attrs in forms(case):
        for name, is_special in itertools.product(DTYPES, (False, True)):
            found = vary(case, name, form, is_special, shapes, attrs)
            if found is not None:
                yield found


def few_variations(case: Case, count: int) -> list[Variation]:
    """Some variations of a case, always the same ones."""
    random = Random(f"{case.op.name} {case.sample.args} {case.attrs.keys()}")
    tries = list(itertools.product(forms(case), DTYPES, (False, True)))
    random.shuffle(tries)
    found = (vary(case, name, f, special, s, a) for (f, s, a), name, special in tries)
    return list(itertools.islice((v for v in found if v is not None), count))


def vary(
    case: Case, name: str, form: str, is_special: bool, shapes: list, attrs: dict[str, Any]
) -> Variation | None:
    """The variation of a case in a dtype with these shapes, if the op takes it."""
    arrays = [resized(x, shape) for x, shape in zip(case.arrays(), shapes, strict=True)]
    main = main_dtype(arrays)
    changed = [cast(x, name) if x.dtype == main else x for x in arrays]
    if (main is None and name != "float32") or not takes(case, changed, attrs):
        return None
    if is_special:
        changed = with_special_numbers(case, changed)
    return Variation(case, name, form, is_special, changed, attrs)


def main_dtype(arrays: Arrays) -> np.dtype | None:
    """The dtype that changes: that of the first inexact operand, else of the first."""
    inexact = [x.dtype for x in arrays if is_inexact(type_of(x).dtype)]
    return next(iter([*inexact, *(x.dtype for x in arrays)]), None)


def takes(case: Case, arrays: Arrays, attrs: dict[str, Any]) -> bool:
    """Whether the type rule gives results of a size to compute."""
    largest = FEW if combines(case, "mul") else LARGEST
    if any(x.size > largest for x in arrays):
        return False
    try:
        results = case.op.infer([type_of(x) for x in arrays], attrs)
    except RlxError:
        return False
    return all(r.size <= LARGEST for r in results)


# -- shapes ---------------------------------------------------------------------------------------


def forms(case: Case) -> Iterator[tuple[str, list[tuple[int, ...]], dict[str, Any]]]:
    """Names of shapes for the operands, the shapes, and attributes that go with them."""
    shapes = [x.shape for x in case.arrays()]
    yield "as it is", shapes, case.attrs
    if any(callable(attr) for attr in case.attrs.values()):
        return  # what a Python function takes, no type rule knows
    if len(set(shapes)) == 1:
        yield "0-d", [()] * len(shapes), case.attrs
    for count in sorted({1, 8 - max(map(len, shapes), default=8)} - {0}):
        yield f"{count} more axes", [(*LEADING[:count], *s) for s in shapes], case.attrs
    sizes = FEW_SIZES if takes_long(case) else SIZES
    for old in sorted({n for shape in shapes for n in shape}):
        for new in sizes:
            if new == old:
                continue
            changed = [tuple(new if n == old else n for n in shape) for shape in shapes]
            yield f"{old} -> {new}", changed, case.attrs
            attrs = {key: renumbered(value, old, new) for key, value in case.attrs.items()}
            if attrs != case.attrs:
                yield f"{old} -> {new} throughout", changed, attrs


def takes_long(case: Case) -> bool:
    """Whether an op becomes a long program of simpler ones."""
    return sum(1 for _ in expand(case.graph).walk()) > LONG


def renumbered(attr: Any, old: int, new: int) -> Any:
    """An attribute with one size in place of another."""
    if isinstance(attr, tuple):
        return tuple(renumbered(item, old, new) for item in attr)
    return new if type(attr) is int and attr == old else attr


def resized(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array repeated or cut to a shape, axis by axis."""
    if x.shape == shape:
        return x
    x = x.reshape((1,) * (len(shape) - x.ndim) + x.shape) if len(shape) > x.ndim else x
    x = x.ravel()[:1].reshape(()) if not shape and x.size else x
    if not x.size or len(shape) != x.ndim:
        return np.ones(shape, x.dtype)
    for axis, size in enumerate(shape):
        x = np.take(x, np.arange(size) % x.shape[axis], axis)
    return x


# -- numbers --------------------------------------------------------------------------------------


def with_special_numbers(case: Case, arrays: Arrays) -> Arrays:
    """The numbers that arithmetic trips over, in the operands that may have any."""
    is_in_blocks = case.op.rules.expand is not None and has_body(case, Repeat)
    tame, finite = is_tame(case), is_in_blocks or has_body(case, Blocks)
    return [
        special(type_of(x), i, tame, finite) if is_free(arg) else x
        for i, (arg, x) in enumerate(zip(case.sample.args, arrays, strict=True))
    ]


def is_tame(case: Case) -> bool:
    """Whether the largest and smallest numbers have no one answer.

    They have none where many are added or multiplied, as the order matters, nor where an op of many
    operands is made of others.
    """
    is_made = case.op.rules.expand is not None and len(case.sample.args) > 1
    return is_made or any(combines(case, how) for how in ("add", "mul"))


def combines(case: Case, how: str) -> bool:
    """Whether an op combines many numbers, or may do so out of sight."""
    if how == "add" and has_body(case, Contract, Library, Blocks):
        return True
    bodies = (node.op.rules.body for node in expand(case.graph).walk())
    return any(getattr(body, "combine", "") == how for body in bodies)


def has_body(case: Case, *kinds: type) -> bool:
    """Whether an op, or one it is made of, has a body of such a kind."""
    return any(isinstance(node.op.rules.body, kinds) for node in expand(case.graph).walk())


def is_free(arg: Any) -> bool:
    """Whether an operand of a sample is given by its shape alone: its numbers do not matter."""
    return isinstance(arg, tuple) or (isinstance(arg, Type) and is_inexact(arg.dtype))


def special(type: Type, turn: int, tame: bool, finite: bool) -> np.ndarray:
    """Special numbers of a dtype, in an order that depends on the place of the operand.

    They are `finite` where it is nobody's promise how others spread: through an elimination, the
    sums of a Fourier transform, or blocks of which those that count for nothing are left out.
    """
    found = np.array(special_numbers(type.dtype, tame), type.dtype)
    if finite and is_inexact(type.dtype):
        found = found[np.isfinite(found)]
    order = Random(turn).sample(range(len(found)), len(found))
    places = np.arange(type.size) * (1 + turn) + turn
    return found[order][places % len(found)].reshape(type.shape)


def special_numbers(dtype: np.dtype, tame: bool) -> list[Any]:
    """Zeros, ones and what is no number; unless they are tame, the largest and the smallest too."""
    if is_bool(dtype):
        return [False, True, True]
    if is_integer(dtype):
        info = ml_dtypes.iinfo(dtype)
        return [0, 1, 2, info.max, info.min, info.max - 1, info.max // 2, info.min // 2 + 1]
    if is_complex(dtype):  # what has an infinite part has no one product
        parts = [0.0, -0.0, 1.0, -0.5, 2.0]
        return [complex(x, y) for x, y in itertools.product(parts, parts)] + [complex(np.nan, 0)]
    info = ml_dtypes.finfo(dtype)
    small = [info.smallest_subnormal, info.smallest_normal, info.eps, info.max]
    finite = [0.0, 1.0, 0.5, 2.0, *([] if tame else map(float, small))]
    infinite = [np.inf, -np.inf] if np.isinf(np.array(np.inf, dtype)) else []
    return [*finite, *(-x for x in finite), *infinite, np.nan]
