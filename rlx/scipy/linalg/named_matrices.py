"""Special matrices by name: hilbert, toeplitz, block_diag."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy
from ...ir.types import as_dtype, is_complex
from ...numpy.elementwise import Tensor
from ...numpy.linalg.matrices import inexact, wrong_shape, wrong_value
from ...trace.apply import as_tensor
from ...trace.arguments import choice, count_of, flag
from ...trace.array import Array

# -- matrices made from parts: block_diag, toeplitz ------------------------------------------------


def block_diag(*arrs: Tensor) -> Array:
    """The block diagonal matrix of the given matrices `arrs`; vectors count as rows.

    >>> block_diag([[1, 2]], 3).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    if not arrs:
        return numpy.zeros((1, 0))
    blocks = [numpy.atleast_2d(as_tensor(x)) for x in arrs]
    for x in blocks:
        if x.ndim > 2:
            what = f"{x.type} has more than two axes"
            wrong_shape("block_diag", what, *blocks, fix="give matrices, vectors or numbers")
    width, before, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(numpy.pad(x, ((0, 0), (before, after))))
        before += x.shape[1]
    return numpy.concatenate(rows)


def toeplitz(c: Tensor, r: Tensor | None = None) -> Array:
    """The Toeplitz matrix with first column c and first row r.

    r is by default the conjugate of c; its first element is ignored. Axes before the last are a
    batch.

    >>> toeplitz([1, 2, 3], [0, 8, 9]).tolist()
    [[1, 8, 9], [2, 1, 8], [3, 2, 1]]
    """
    column = numpy.atleast_1d(as_tensor(c))
    row = numpy.conj(column) if r is None else numpy.atleast_1d(as_tensor(r))
    batch = numpy.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = (numpy.broadcast_to(x, (*batch, x.shape[-1])) for x in (column, row))
    m, n = column.shape[-1], row.shape[-1]
    line = numpy.concatenate([numpy.flip(column, -1), row[..., 1:]], axis=-1)
    places = m - 1 - np.arange(m, dtype="int32")[:, None] + np.arange(n, dtype="int32")
    return line[..., places]


MOST_ROWS = 2000  # of matrices whose numbers, exact ones, grow beyond all floats
KINDS = ("symmetric", "lower", "upper")


# -- of a size ------------------------------------------------------------------------------------


def hilbert(n: int) -> Array:
    """The Hilbert matrix with elements 1 / (i + j + 1).

    >>> hilbert(2).tolist()
    [[1.0, 0.5], [0.5, 0.3333333432674408]]
    """
    places = np.arange(_size("hilbert", n))
    return numpy.asarray((1 / (places[:, None] + places + 1)).astype("float32"))


def invhilbert(n: int) -> Array:
    """The inverse of the Hilbert matrix, exact integers rounded to float32."""
    n = _size("invhilbert", n, most=MOST_ROWS)
    comb = math.comb
    rows = [
        [
            (-1) ** (i + j)
            * (i + j + 1)
            * comb(n + i, n - j - 1)
            * comb(n + j, n - i - 1)
            * comb(i + j, i) ** 2
            for j in range(n)
        ]
        for i in range(n)
    ]
    return _exact(rows)


def _exact(rows: list[list[int]]) -> Array:
    with np.errstate(over="ignore"):
        numbers = np.array(rows, "float64").reshape(len(rows), len(rows))
        return numpy.asarray(numbers.astype("float32"))


def pascal(n: int, kind: str | None = None) -> Array:
    """The Pascal matrix of binomial coefficients.

    `kind` is "symmetric", "lower" or "upper".

    >>> pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    lower = _triangle("pascal", n, kind, 1)
    return _exact({"lower": lower, "upper": lower.T}.get(kind or "", lower @ lower.T).tolist())


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of the Pascal matrix; `kind` is as for `pascal`."""
    lower = _triangle("invpascal", n, kind, -1)
    return _exact({"lower": lower, "upper": lower.T}.get(kind or "", lower.T @ lower).tolist())


def _triangle(name: str, n: Any, kind: str | None, sign: int) -> np.ndarray:
    """The binomial coefficients as exact integers, `sign` to the power of the diagonal's number."""
    choice(f"{name}: kind", kind, (None, *KINDS))
    n = _size(name, n, most=MOST_ROWS)
    rows = [[sign ** (i + j) * math.comb(i, j) for j in range(n)] for i in range(n)]
    return np.array(rows, object).reshape(n, n)


def _size(name: str, n: Any, least: int = 0, most: int = 2**31 - 1) -> int:
    return count_of(f"{name}: n", n, least, most)


def helmert(n: int, full: bool = False) -> Array:
    """The Helmert matrix, whose orthonormal rows sum to 0; `full` adds a constant row.

    >>> helmert(2).round(3).tolist()
    [[0.7070000171661377, -0.7070000171661377]]
    """
    full = flag("helmert: full", full)
    n = _size("helmert", n, 1)
    i, j = np.arange(n)[:, None], np.arange(n)
    rows = np.where(j < i, 1.0, np.where(j == i, -i, 0.0))
    rows[0] = 1
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return numpy.asarray((rows if full else rows[1:]).astype("float32"))


def hadamard(n: int, dtype: Any = int) -> Array:
    """The Hadamard matrix by Sylvester's construction; n is a power of 2.

    >>> hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    n = _size("hadamard", n, 1)
    if n & (n - 1):
        wrong_value("hadamard", f"n is {n}", fix="use a power of 2")
    both = np.arange(n)[:, None] & np.arange(n)
    signs = 1 - 2 * (np.bitwise_count(both).astype("int64") & 1)
    return numpy.asarray(signs.astype(as_dtype(dtype)))


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """The matrix of the discrete Fourier transform.

    The `scale` "sqrtn" makes it unitary, "n" divides by n.
    """
    n = _size("dft", n)
    chosen = as_dtype("complex64" if dtype is None else dtype)
    choice("dft: scale", scale, (None, "sqrtn", "n"))
    if not is_complex(chosen):
        wrong_value("dft", f"the dtype is {chosen.name}", fix="use a complex dtype")
    places = np.arange(n)
    turns = np.exp(-2j * math.pi * (np.outer(places, places) % n) / max(n, 1))
    by = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale]
    return numpy.asarray((turns / (by or 1.0)).astype(chosen))


# -- of numbers -----------------------------------------------------------------------------------


def _line(name: str, x: Tensor, least: int = 1) -> Array:
    line = numpy.atleast_1d(as_tensor(x))
    if line.shape[-1] < least:
        wrong_shape(name, f"{line.type} is too short", line, fix=f"give {least} numbers or more")
    return line


def hankel(c: Tensor, r: Tensor | None = None) -> Array:
    """The Hankel matrix with first column c and last row r.

    r is by default zero; its first element is ignored.

    >>> hankel([1, 2, 3]).tolist()
    [[1, 2, 3], [2, 3, 0], [3, 0, 0]]
    """
    column = _line("hankel", c)
    row = numpy.zeros_like(column) if r is None else _line("hankel", r)
    batch = numpy.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = (numpy.broadcast_to(x, (*batch, x.shape[-1])) for x in (column, row))
    line = numpy.concatenate([column, row[..., 1:]], axis=-1)
    m, n = column.shape[-1], row.shape[-1]
    return line[..., np.arange(m, dtype="int32")[:, None] + np.arange(n, dtype="int32")]


def circulant(c: Tensor) -> Array:
    """The circulant matrix with first column c.

    >>> circulant([1, 2, 3]).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    line = _line("circulant", c)
    n = line.shape[-1]
    places = (np.arange(n)[:, None] - np.arange(n)) % n
    return line[..., places.astype("int32")]


def leslie(f: Tensor, s: Tensor) -> Array:
    """The Leslie matrix of a population with fecundities `f` and survival rates `s`.

    >>> leslie([1.0, 2.0, 3.0], [0.5, 0.25]).tolist()
    [[1.0, 2.0, 3.0], [0.5, 0.0, 0.0], [0.0, 0.25, 0.0]]
    """
    first, second = inexact(_line("leslie", f, 2), _line("leslie", s))
    if second.shape[-1] != first.shape[-1] - 1:
        fix = "give one survival less than births"
        wrong_shape("leslie", "the lengths do not fit", first, second, fix=fix)
    return _below_row(first, second)


def _below_row(row: Any, below: Any) -> Array:
    """A first row, and numbers on the diagonal below the main one."""
    batch = numpy.broadcast_shapes(row.shape[:-1], below.shape[:-1])
    n = row.shape[-1]
    row = numpy.broadcast_to(row, (*batch, n))
    below = numpy.broadcast_to(below, (*batch, n - 1))
    rest = below[..., :, None] * np.eye(n - 1, n).astype(below.dtype)
    return numpy.concatenate([row[..., None, :], rest], axis=-2)


def companion(a: Tensor) -> Array:
    """The companion matrix of a polynomial, whose eigenvalues are its roots.

    The coefficients have the highest power first.

    >>> companion([1.0, -3.0, 2.0]).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    (line,) = inexact(_line("companion", a, 2))
    row = -line[..., 1:] / line[..., :1]
    return _below_row(row, numpy.ones(row.shape[-1] - 1, row.dtype))


def fiedler(a: Tensor) -> Array:
    """The Fiedler matrix of absolute differences |a_i - a_j|.

    >>> fiedler([1, 4, 6]).tolist()
    [[0, 3, 5], [3, 0, 2], [5, 2, 0]]
    """
    line = _line("fiedler", a, 0)
    return numpy.abs(line[..., :, None] - line[..., None, :])


def fiedler_companion(a: Tensor) -> Array:
    """The pentadiagonal companion matrix of a polynomial; see `companion`.

    Fiedler, "A note on companion matrices", 2003.
    """
    (line,) = inexact(_line("fiedler_companion", a))
    n = line.shape[-1] - 1
    if n < 1:
        return numpy.zeros((*line.shape[:-1], 0, 0), line.dtype)
    tail = line[..., 1:] / line[..., :1]
    result = numpy.zeros((*line.shape[:-1], n, n), line.dtype)
    result = result.at[..., 0, 0].set(-tail[..., 0])
    for k in range(1, n):
        if k % 2:  # a coefficient to the right of the diagonal, 1 below it
            result = result.at[..., k - 1, k].set(-tail[..., k])
            result = result.at[..., k, max(k - 2, 0)].set(1)
        else:
            result = result.at[..., k, k - 1].set(-tail[..., k])
            result = result.at[..., k - 2, k].set(1)
    return result


def convolution_matrix(a: Tensor, n: int, mode: str = "full") -> Array:
    """The matrix that convolves a vector of `n` elements with a.

    `mode` is "full", "same" or "valid".

    >>> convolution_matrix([1, 2], 2).tolist()
    [[1, 0], [2, 1], [0, 2]]
    """
    line, n = _line("convolution_matrix", a), _size("convolution_matrix", n, 1)
    choice("convolution_matrix: mode", mode, ("full", "same", "valid"))
    m = line.shape[-1]
    pads = [(0, 0)] * (line.ndim - 1)
    whole = toeplitz(
        numpy.pad(line, [*pads, (0, n - 1)]), numpy.pad(line[..., :1], [*pads, (0, n - 1)])
    )
    cut = {"full": 0, "same": min(n, m) - 1, "valid": 2 * (min(n, m) - 1)}[mode]
    before = cut // 2
    return whole[..., before : m + n - 1 - (cut - before), :]
