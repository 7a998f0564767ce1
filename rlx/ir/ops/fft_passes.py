"""Fast Fourier transforms as passes over memory, for lengths without large prime factors.

This is Stockham's algorithm: each pass takes one factor off the length, and puts the results where
the next one finds them side by side. A complex number is the pair of its parts here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..body import Pass
from ..types import Type
from .convert import REAL_PART

PRIMES = (3, 5, 7, 11, 13)  # odd factors of a length that a pass can take off
LONGEST = 1 << 20  # a longer transform would carry large tables along
Pair: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True)
class Stage:
    """One pass: takes `radix` off what is `left` of an axis; `done` is what was taken before."""

    axis: int
    left: int
    radix: int
    done: int


def fft_passes(types: Sequence[Type], *, kind: str, lengths: tuple[int, ...]) -> list[Pass] | None:
    """The passes of a transform; None if the library is to do it."""
    (x,) = types
    if kind not in ("fft", "ifft") or max(lengths) > LONGEST:
        return None
    stages: list[Stage] = []
    for axis in reversed(range(x.rank - len(lengths), x.rank)):
        radices = factors(int(x.shape[axis]))
        if radices is None:
            return None
        left, done = int(x.shape[axis]), 1
        for radix in radices:
            stages.append(Stage(axis, left, radix, done))
            left, done = left // radix, done * radix
    stages = stages or [Stage(x.rank - 1, 1, 1, 1)]
    first, last = stages[0], stages[-1]
    return [
        _pass(x, s, kind == "ifft", s is first, 1 / math.prod(lengths) if s is last else None)
        for s in stages
    ]


def factors(n: int) -> list[int] | None:
    """The radices of the passes over a length; None if a prime factor is too large."""
    found: list[int] = []
    for prime in PRIMES:
        while n % prime == 0:
            found.append(prime)
            n //= prime
    twos = n.bit_length() - 1
    if n != 1 << twos:
        return None
    eights, rest = divmod(twos, 3)
    if rest == 1 and eights:  # two passes of 4 cost less than one of 2 and one of 8
        return [4, 4, *[8] * (eights - 1), *found]
    return [*([1 << rest] if rest else []), *[8] * eights, *found]


def _pass(x: Type, stage: Stage, is_inverse: bool, is_first: bool, scale: float | None) -> Pass:
    axis, radix, done = stage.axis, stage.radix, stage.done
    parts = stage.left // radix
    extents = (*x.shape[:axis], parts, done, *x.shape[axis + 1 :])
    is_last = scale is not None
    table = 1 if is_first else 2  # the arrays before the tables

    def compute(place: tuple, load: Callable[[int, tuple], Any]) -> list[list[tuple]]:
        outer, (p, q), inner = place[:axis], place[axis : axis + 2], place[axis + 2 :]

        def at(block: Any) -> tuple:
            return (*outer, block * done + q, *inner)

        given = [at(p + parts * k) for k in range(radix)]
        if is_first:
            values = [_turned_over(load(0, there), is_inverse) for there in given]
        else:
            values = [(load(0, there), load(1, there)) for there in given]
        values = transformed(values)
        if parts > 1:
            turns = [(load(table, (k, p)), load(table + 1, (k, p))) for k in range(radix - 1)]
            values = [values[0], *map(_product, values[1:], turns)]
        places = [at(p * radix + k) for k in range(radix)]
        if not is_last:
            return [
                [(there, v[i]) for there, v in zip(places, values, strict=True)] for i in (0, 1)
            ]
        values = [_turned_over(v, is_inverse) for v in values]
        if is_inverse:
            values = [(re * scale, im * scale) for re, im in values]
        return [list(zip(places, values, strict=True))]

    part = x.with_dtype(REAL_PART[x.dtype.name])
    tables = functools.partial(_turns, stage.left, radix, part.dtype) if parts > 1 else tuple
    return Pass(extents, compute, () if is_last else (part, part), tables)


def _turns(left: int, radix: int, dtype: np.dtype) -> list[np.ndarray]:
    """The parts of exp(-2 pi i k p / left), k from 1 to radix - 1."""
    k, p = np.arange(1, radix)[:, None], np.arange(left // radix)
    angles = -2 * np.pi / left * (k * p)
    return [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]


def _turned_over(x: Pair, is_inverse: bool) -> Pair:
    """The parts exchanged before and after a transform make it the inverse."""
    return (x[1], x[0]) if is_inverse else x


def transformed(x: list[Pair]) -> list[Pair]:
    """The transform of a few numbers, written out."""
    n = len(x)
    if n == 1:
        return x
    if n % 2:
        return _transformed_odd(x)
    even, odd = transformed(x[::2]), transformed(x[1::2])
    odd = [_turned(each, k, n) for k, each in enumerate(odd)]
    return [
        *((a[0] + b[0], a[1] + b[1]) for a, b in zip(even, odd, strict=True)),
        *((a[0] - b[0], a[1] - b[1]) for a, b in zip(even, odd, strict=True)),
    ]


def _transformed_odd(x: list[Pair]) -> list[Pair]:
    """An odd number of them: the k-th and the k-th from the end share their products."""
    n = len(x)
    sums = [(x[j][0] + x[n - j][0], x[j][1] + x[n - j][1]) for j in range(1, n // 2 + 1)]
    differences = [(x[j][0] - x[n - j][0], x[j][1] - x[n - j][1]) for j in range(1, n // 2 + 1)]
    result = [(sum((s[i] for s in sums), start=x[0][i])) for i in (0, 1)]
    low, high = [], []
    for k in range(1, n // 2 + 1):
        (re, im), (up, across) = x[0], (0.0, 0.0)
        for j, (s, d) in enumerate(zip(sums, differences, strict=True), 1):
            angle = 2 * math.pi * (j * k % n) / n
            re, im = re + s[0] * math.cos(angle), im + s[1] * math.cos(angle)
            up, across = d[1] * math.sin(angle) + up, d[0] * math.sin(angle) + across
        low.append((re + up, im - across))
        high.append((re - up, im + across))
    return [(result[0], result[1]), *low, *reversed(high)]


def _turned(x: Pair, k: int, n: int) -> Pair:
    """x exp(-2 pi i k / n), for k less than n / 2."""
    re, im = x
    if k == 0:
        return x
    if 4 * k == n:
        return im, -re
    half = math.sqrt(0.5)
    if 8 * k == n:
        return (re + im) * half, (im - re) * half
    if 8 * k == 3 * n:
        return (im - re) * half, (re + im) * -half
    angle = -2 * math.pi * k / n
    return _product(x, (math.cos(angle), math.sin(angle)))


def _product(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]
