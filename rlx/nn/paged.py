"""Attention to keys and values in pages, for many sequences that grow together.

A pool has pages of a fixed number of places. Each sequence has a row of a table, with the numbers
of its pages in order: position j is in page `tables[s, j // size]`. Tokens of all sequences stand
in one line: prompts, parts of them, and single ones. A token's result has the same bits whatever
stands beside it, wherever its pages lie, and in whatever parts its sequence came.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, DtypeError
from ..ir.types import as_dtype
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice, count_of, wrong
from ..trace.array import Array
from ..trace.array_arguments import known_real
from ..trace.axes import integer
from ..trace.promotion import convert
from ..transforms.eager import eager

DTYPES = ("float32", "bfloat16", "float16", "float64", "int8")
LARGEST = 127  # of the codes of int8


class KVPages(NamedTuple):
    """A pool of pages: keys and values, of int8 with `key_scale` and `value_scale`."""

    key: Any  # [pages, places, kv_heads, size]
    value: Any  # likewise
    key_scale: Any = None  # f32[pages, places, kv_heads], with int8
    value_scale: Any = None


def empty_pages(
    pages: int, places: int, kv_heads: int, size: int, dtype: Any = "float32"
) -> KVPages:
    """Make a pool of so many `pages`, each with `places` for keys and values.

    `kv_heads` and `size` are those of a key. The dtype is a float, or int8: then each key and each
    value of a head has a scale of its own. Returns `KVPages`; another dtype is an `ArgumentError`.

    >>> empty_pages(10, 16, 2, 8, "bfloat16").key.shape
    (10, 16, 2, 8)
    """
    name = choice("empty_pages: dtype", as_dtype(dtype).name, DTYPES)
    sizes = [
        ("pages", pages, 0),
        ("places", places, 1),
        ("kv_heads", kv_heads, 1),
        ("size", size, 1),
    ]
    shape = tuple(count_of(f"empty_pages: {what}", n, least) for what, n, least in sizes)
    codes = [rnp.zeros(shape, name) for _ in range(2)]
    scales = [rnp.zeros(shape[:3], "float32") for _ in range(2 if name == "int8" else 0)]
    return KVPages(*codes, *scales)


@eager
def paged_write(
    pages: KVPages, key: Any, value: Any, tables: Any, sequence: Any, positions: Any
) -> KVPages:
    """Write the keys and values of tokens into the pages of their sequences.

    `key` and `value` are [tokens, kv_heads, size], `tables` i32[sequences, pages of each],
    `sequence` and `positions` i32[tokens]: where each of them goes. One of a negative position, or
    of a page that does not exist, is left out. Numbers become the dtype of the pages; for int8 they
    are divided by the greatest of the key / 127. Returns the new `pages`; those given, if donated
    to the function that calls this, are written in place. Raises a `ShapeError` or a `DtypeError`
    for what does not fit.

    >>> one = np.ones((1, 2, 8), "float32")
    >>> pages = paged_write(empty_pages(4, 16, 2, 8), one, one, [[3, 0]], [0], [17])
    >>> pages.key[0, 1, 0, 0].item()
    1.0
    """
    where = _places("paged_write", tables, sequence, positions)
    pages = _pool("paged_write", pages)
    made: list[Any] = []
    scales: list[Any] = []
    for pool, scale, rows in (
        (pages.key, pages.key_scale, as_tensor(key)),
        (pages.value, pages.value_scale, as_tensor(value)),
    ):
        if scale is None:
            made.append(apply("paged_write", pool, convert(rows, pool.dtype), *where))
            continue
        rows = convert(rows, scale.dtype)
        largest = rnp.max(rnp.abs(rows), -1, initial=0.0)
        step = convert(largest / LARGEST, scale.dtype)
        codes = rnp.round(rows / rnp.where(step > 0, step, 1.0)[..., None])
        codes = convert(rnp.clip(codes, -LARGEST, LARGEST), pool.dtype)
        made.append(apply("paged_write", pool, codes, *where))
        scales.append(apply("paged_write", scale, step, *where))
    return KVPages(*made, *scales)


@eager
def paged_attention(
    query: Any,
    pages: KVPages,
    tables: Any,
    sequence: Any,
    positions: Any,
    *,
    scale: float | None = None,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Array:
    """Causal attention of tokens to keys and values in pages of their sequences.

    `query` is [tokens, heads, size], with as many heads as the `pages` or a multiple, which share
    them in groups; `tables`, `sequence` and `positions` are those of `paged_write`. A token sees
    the positions up to its own, of which the last `window` besides its own if that is given; one of
    a negative position sees none, and gives 0. Products are multiplied by `scale`, 1 / sqrt(size)
    if not given, and bounded by `soft_cap` as `nn.masks.soft_cap` says. Returns the shape and dtype
    of `query`. Raises a `ShapeError` or a `DtypeError` for what does not fit.

    >>> one = np.ones((1, 2, 8), "float32")
    >>> where = np.array([[3, 0]]), np.array([0]), np.array([0])
    >>> pages = paged_write(empty_pages(4, 16, 2, 8), one, 5 * one, *where)
    >>> paged_attention(np.ones((1, 4, 8), "float32"), pages, *where)[0, :, 0].tolist()
    [5.0, 5.0, 5.0, 5.0]
    """
    name = "paged_attention"
    query, pages = as_tensor(query), _pool(name, pages)
    where = _places(name, tables, sequence, positions)
    scales = [x for x in (pages.key_scale, pages.value_scale) if x is not None]
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.ndim and query.shape[-1] else 1.0
    return apply(
        name,
        *(query, pages.key, pages.value, *where, *scales),
        scale=known_real(f"{name}: scale", scale),
        window=None if window is None else integer(f"{name}: window", window),
        soft_cap=None if soft_cap is None else known_real(f"{name}: soft_cap", soft_cap),
    )


def _pool(name: str, pages: Any) -> KVPages:
    if not isinstance(pages, KVPages):
        raise wrong(f"{name}: pages", pages, "a KVPages", "pass what nn.empty_pages gave")
    scales = [x is None for x in (pages.key_scale, pages.value_scale)]
    if scales[0] != scales[1]:
        raise ArgumentError(f"{name}: pages have one scale of two", fix="give both, or none")
    return KVPages(*(None if x is None else as_tensor(x) for x in pages))


def _places(name: str, *given: Any) -> list[Any]:
    """Tables, sequences and positions as int32."""
    made = []
    for what, x in zip(("tables", "sequence", "positions"), given, strict=True):
        x = as_tensor(x if hasattr(x, "dtype") else np.asarray(x))
        if x.dtype.kind not in "iu":
            raise DtypeError(f"{name}: {what} is {x.type}", fix="give integers, int32 say")
        made.append(convert(x, as_dtype("int32")))
    return made
