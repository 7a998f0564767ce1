"""Discrete Fourier transforms over the last axes, and their passes over memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..body import Blocks, Pass
from ..dims import Dim, Size, compare
from ..errors import AttributeValueError, DtypeError, ShapeError
from ..graph import Value
from ..op import ALIGNED, define
from ..record import record
from ..types import Type
from .arithmetic import div, mul, sub
from .compare import eq, select
from .constant import constant, full, iota, like
from .convert import COMPLEX_OF, REAL_PART, conj, convert
from .movement import broadcast
from .reduce import reduce_sum

# -- as passes over memory -------------------------------------------------------------------------
#
# For lengths without large prime factors, by Stockham's algorithm: each pass takes one factor off
# the length, and puts the results where the next one finds them side by side. A complex number is
# the pair of its parts here.


PRIMES = (3, 5, 7, 11, 13)  # odd factors of a length that a pass can take off
LONGEST = 1 << 20  # a longer transform would carry large tables along
Pair: TypeAlias = tuple[Any, Any]


Load: TypeAlias = Callable[[int, tuple], Any]


@record
class Work:
    """What the passes of a transform share: the kind, the scale, the real dtype."""

    kind: str
    scale: float
    dtype: np.dtype

    @property
    def is_inverse(self) -> bool:
        """Whether it is an inverse."""
        return self.kind in ("ifft", "irfft")


@record
class Step:
    """A pass before it is known whether it is the first or the last one.

    `compute(place, read, table)` gives the places of the results and the results; `read(there)` is
    a number of the pass before, `table(i, there)` an element of a table.
    """

    shape: tuple[Any, ...]
    extents: tuple[Any, ...]
    compute: Callable[..., tuple[list[tuple], list[Pair]]]
    tables: Callable[[], Sequence[np.ndarray]] = tuple


def fft_passes(types: Sequence[Type], *, kind: str, lengths: tuple[int, ...]) -> list[Pass] | None:
    """The passes of a transform; None if the library is to do it."""
    (x,) = types
    is_real = kind in ("rfft", "irfft")
    if not all(isinstance(n, int) for n in lengths):
        return None
    if max(lengths) > LONGEST or (is_real and lengths[-1] % 2):
        return None
    last = lengths[-1] // 2 if is_real else lengths[-1]
    others = lengths[:-1]
    if any(factors(n) is None for n in (*others, last)):
        return None
    before = x.shape[: -len(lengths)]
    line = (*before, *others, last)
    rest = (*before, *others, last + 1) if is_real else line
    along_last = [[step] for step in _line_steps(line, len(line) - 1)]
    axes = reversed(range(len(before), x.rank - 1))
    along_others = [[step] for axis in axes for step in _line_steps(rest, axis)]
    if kind == "rfft":
        groups = [*along_last, _halves_steps(rest), *along_others]
    elif kind == "irfft":
        groups = [*along_others, _whole_steps(line), *along_last]
    else:
        groups = [*along_last, *along_others]
    if not groups:
        groups = [[Step(line, line, lambda place, read, table: ([place], [read(place)]))]]
    work = Work(kind, 1 / math.prod(lengths), REAL_PART.get(x.dtype.name, x.dtype))
    return [
        _pass(work, step, group is groups[0], group is groups[-1], step is not group[0])
        for group in groups
        for step in group
    ]


def _pass(work: Work, step: Step, is_first: bool, is_last: bool, continues: bool) -> Pass:
    """A step that reads the operand if it is the first, and fills the result if it is the last.

    The parts exchanged before and after a transform make it the inverse.
    """
    before = 1 if is_first else 2  # arrays that come before the tables
    turns = -1 if work.is_inverse else 1

    def compute(place: tuple, load: Load) -> list[list[tuple]]:
        def read(there: tuple) -> Pair:
            if not is_first:
                return load(0, there), load(1, there)
            if work.kind != "rfft":
                return load(0, there)[::turns]
            pair = [(*there[:-1], there[-1] * 2 + i) for i in (0, 1)]
            return load(0, pair[0]), load(0, pair[1])

        places, values = step.compute(place, read, lambda i, there: load(before + i, there))
        if not is_last:
            return [
                [(there, v[i]) for there, v in zip(places, values, strict=True)] for i in (0, 1)
            ]
        if work.is_inverse:
            values = [(re * work.scale, im * work.scale) for im, re in values]
        if work.kind != "irfft":
            return [list(zip(places, values, strict=True))]
        return [
            [
                ((*there[:-1], there[-1] * 2 + i), v[i])
                for there, v in zip(places, values, strict=True)
                for i in (0, 1)
            ]
        ]

    part = Type(work.dtype, step.shape)
    types = () if is_last else (part, part)

    def tables() -> list[np.ndarray]:
        return [table.astype(work.dtype) for table in step.tables()]

    return Pass(step.extents, compute, types, tables, continues)


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


def _line_steps(shape: tuple[Any, ...], axis: int) -> list[Step]:
    """The steps of complex transforms along an axis."""
    steps, left, done = [], int(shape[axis]), 1
    for radix in factors(left) or ():
        steps.append(_radix_step(shape, axis, left, radix, done))
        left, done = left // radix, done * radix
    return steps


def _radix_step(shape: tuple[Any, ...], axis: int, left: int, radix: int, done: int) -> Step:
    """One step takes `radix` off what is `left` of an axis; `done` was taken before."""
    parts = left // radix
    extents = (*shape[:axis], parts, done, *shape[axis + 1 :])

    def compute(place: tuple, read: Any, table: Any) -> tuple[list[tuple], list[Pair]]:
        outer, (p, q), inner = place[:axis], place[axis : axis + 2], place[axis + 2 :]

        def at(block: Any) -> tuple:
            return (*outer, block * done + q, *inner)

        values = transformed([read(at(p + parts * k)) for k in range(radix)])
        if parts > 1:
            turns = [(table(0, (k, p)), table(1, (k, p))) for k in range(radix - 1)]
            values = [values[0], *map(_product, values[1:], turns)]
        return [at(p * radix + k) for k in range(radix)], values

    tables = functools.partial(_turns, left, radix) if parts > 1 else tuple
    return Step(shape, extents, compute, tables)


def _turns(left: int, radix: int) -> list[np.ndarray]:
    """The parts of exp(-2 pi i k p / left), k from 1 to radix - 1."""
    k, p = np.arange(1, radix)[:, None], np.arange(left // radix)
    angles = -2 * np.pi / left * (k * p)
    return [np.cos(angles), np.sin(angles)]


def _halves_steps(shape: tuple[Any, ...]) -> list[Step]:
    """The transform of 2 m real numbers from that of m pairs of them taken as complex ones.

    Those of the even and of the odd ones follow from the k-th and the k-th from the end.
    """
    m = int(shape[-1]) - 1

    def inner(place: tuple, read: Any, table: Any) -> tuple[list[tuple], list[Pair]]:
        *outer, j = place
        both = (*outer, j + 1), (*outer, m - 1 - j)
        (re, im), (back, down) = map(read, both)
        even = (re + back) * 0.5, (im - down) * 0.5
        odd = (im + down) * 0.5, (back - re) * 0.5
        re, im = _product(odd, (table(0, (j,)), table(1, (j,))))
        return list(both), [(even[0] + re, even[1] + im), (even[0] - re, im - even[1])]

    def ends(place: tuple, read: Any, table: Any) -> tuple[list[tuple], list[Pair]]:
        re, im = read((*place, 0))
        return [(*place, 0), (*place, m)], [(re + im, 0.0), (re - im, 0.0)]

    turns = functools.partial(_half_turns, m)
    return [Step(shape, (*shape[:-1], m // 2), inner, turns), Step(shape, shape[:-1], ends)]


def _whole_steps(shape: tuple[Any, ...]) -> list[Step]:
    """The inverse of `_halves_steps`, times 2, the parts exchanged.

    The first one and that in the middle count as real.
    """
    m = int(shape[-1])

    def inner(place: tuple, read: Any, table: Any) -> tuple[list[tuple], list[Pair]]:
        *outer, j = place
        both = (*outer, j + 1), (*outer, m - 1 - j)
        (im, re), (down, back) = map(read, both)
        even = re + back, im - down
        odd = _product((re - back, im + down), (table(0, (j,)), -table(1, (j,))))
        return list(both), [
            (even[1] + odd[0], even[0] - odd[1]),
            (odd[0] - even[1], even[0] + odd[1]),
        ]

    def ends(place: tuple, read: Any, table: Any) -> tuple[list[tuple], list[Pair]]:
        (_, first), (_, middle) = read((*place, 0)), read((*place, m))
        return [(*place, 0)], [(first - middle, first + middle)]

    turns = functools.partial(_half_turns, m)
    return [Step(shape, (*shape[:-1], m // 2), inner, turns), Step(shape, shape[:-1], ends)]


def _half_turns(m: int) -> list[np.ndarray]:
    """The parts of exp(-pi i k / m), k from 1 to m / 2."""
    angles = -np.pi / m * np.arange(1, m // 2 + 1)
    return [np.cos(angles), np.sin(angles)]


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


TRANSFORMS = {
    "fft": np.fft.fftn,
    "ifft": np.fft.ifftn,
    "rfft": np.fft.rfftn,
    "irfft": np.fft.irfftn,
}


@define
def fft(x: Type, *, kind: str, lengths: tuple[Size, ...]) -> Type:
    """The discrete Fourier transform over the last one to three axes.

    `c64[..., n] → c64[..., n]`, with y[k] the sum of x[j] exp(-2 pi i j k / n) over j. `kind` is
    "fft", "ifft" (the inverse, divided by the count of terms), "rfft" (from real numbers, the last
    axis cut to n // 2 + 1, as the rest mirrors it) or "irfft" (its inverse, `c64[n // 2 + 1] →
    f32[n]`). `lengths` are the sizes of the axes, those of the result for "irfft".
    """
    _check_attributes(x, kind, lengths)
    dtypes = COMPLEX_OF if kind == "rfft" else REAL_PART
    if x.dtype.name not in dtypes:
        raise DtypeError(
            f"{kind} of {x.dtype.name} has no meaning",
            fix=f"convert the operand to {' or '.join(dtypes)}",
        )
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    before, after = x.shape[: -len(lengths)], x.shape[-len(lengths) :]
    wanted = half if kind == "irfft" else lengths
    if after != wanted:
        raise ShapeError(
            f"{kind} of the lengths {lengths} takes the last axes {wanted}, not {after}",
            fix="pad or cut the operand, or pick lengths that fit; rlx.numpy.fft does this",
        )
    if kind == "rfft":
        return Type(COMPLEX_OF[x.dtype.name], (*before, *half))
    return Type(REAL_PART[x.dtype.name], (*before, *lengths)) if kind == "irfft" else x


def _check_attributes(x: Type, kind: str, lengths: tuple[Size, ...]) -> None:
    if kind not in TRANSFORMS:
        raise AttributeValueError(
            f"there is no kind {kind!r}", fix=f"use one of {', '.join(TRANSFORMS)}"
        )
    if not 1 <= len(lengths) <= min(3, x.rank):
        raise AttributeValueError(
            f"{len(lengths)} lengths do not fit {x}",
            fix="give a length for each of the last axes, one to three",
        )
    if any(not isinstance(n, int | Dim) or compare(n, 1) is False for n in lengths):
        raise AttributeValueError(
            f"the lengths {lengths} are not all positive integers", fix="use lengths from 1"
        )


@fft.reference
def fft_reference(x: np.ndarray, *, kind: str, lengths: tuple[Size, ...]) -> np.ndarray:
    return TRANSFORMS[kind](x, s=lengths, axes=range(-len(lengths), 0))


fft.body(Blocks(fft_passes))


@fft.transpose
def fft_transpose(ct: Value, x: Value, *, kind: str, lengths: tuple[Size, ...]) -> list[Value]:
    """Cotangents pair without conjugation, and the matrix of "fft" is symmetric.

    "rfft" sums the real part of c[k] exp(-2 pi i j k / n) over half of the k. This is the inverse
    transform of conj(c), once its terms that stand for two are halved; "irfft" likewise.
    """
    if kind in ("rfft", "irfft") and not all(isinstance(n, int) for n in lengths):
        return [_open_transpose(ct, kind, lengths)]
    count: Any = math.prod(lengths)
    if kind == "rfft":
        halved = _times(conj(ct), count / _multiplicity(lengths[-1]))
        return [fft(halved, kind="irfft", lengths=lengths)]
    if kind == "irfft":
        mirrored = conj(fft(ct, kind="rfft", lengths=lengths))
        return [_times(mirrored, _multiplicity(lengths[-1]) / count)]
    return [fft(ct, kind=kind, lengths=lengths)]


def _open_transpose(ct: Value, kind: str, lengths: tuple[Size, ...]) -> Value:
    """The same with weights that are computed where the lengths are numbers."""
    dtype = REAL_PART.get(ct.dtype.name, ct.dtype)
    line = iota(shape=(lengths[-1] // 2 + 1,), axis=0, dtype=dtype)
    mirror = sub(broadcast(_number(lengths[-1:], dtype), shape=line.shape, axes=()), line)
    is_own = eq(mul(line, sub(mirror, line)), like(line, 0))  # k = 0, or k = n - k
    weights = select(is_own, like(line, 1), like(line, 2))
    count = broadcast(_number(lengths, dtype), shape=line.shape, axes=())
    if kind == "rfft":
        return fft(_weighted(conj(ct), div(count, weights)), kind="irfft", lengths=lengths)
    return _weighted(conj(fft(ct, kind="rfft", lengths=lengths)), div(weights, count))


def _number(lengths: tuple[Size, ...], dtype: np.dtype) -> Value:
    """The product of lengths as a scalar."""
    return reduce_sum(full(shape=lengths, value=1, dtype=dtype), axes=tuple(range(len(lengths))))


def _weighted(x: Value, line: Value) -> Value:
    spread = convert(line, dtype=x.dtype)
    return mul(x, broadcast(spread, shape=x.shape, axes=(x.rank - 1,)))


def _multiplicity(n: Any) -> np.ndarray:
    """How many of n frequencies each of the first half stands for, with its mirror."""
    k = np.arange(n // 2 + 1)
    return np.where((k == 0) | (2 * k == n), 1.0, 2.0)


def _times(x: Value, weights: np.ndarray) -> Value:
    """The product with a weight for each place of the last axis."""
    line = constant.lift(weights.astype(x.dtype))
    return mul(x, broadcast(line, shape=x.shape, axes=(x.rank - 1,)))


fft.batch(ALIGNED)


_ANY = Type(np.dtype("complex128"), (2, 4))
fft.samples(_ANY, kind="fft", lengths=(4,))
fft.samples(_ANY, kind="ifft", lengths=(2, 4))
fft.samples((2, 4), kind="rfft", lengths=(4,))
fft.samples((2, 5), kind="rfft", lengths=(2, 5))
fft.samples(Type(np.dtype("complex128"), (2, 3, 3)), kind="irfft", lengths=(2, 3, 4))
fft.samples(Type(np.dtype("complex128"), (2, 3)), kind="irfft", lengths=(5,))
fft.samples(np.array([1.0, 2j, -3, 0]), kind="fft", lengths=(4,), expect=[-2 + 2j, 6, -2 - 2j, 2])
fft.samples(np.array([4j, 8.0]), kind="ifft", lengths=(2,), expect=[4 + 2j, -4 + 2j])
fft.samples([1.0, 2, 3, 4], kind="rfft", lengths=(4,), expect=[10, -2 + 2j, -2])
fft.samples(np.array([6, -3 + 0j]), kind="irfft", lengths=(3,), expect=[0.0, 3.0, 3.0])
