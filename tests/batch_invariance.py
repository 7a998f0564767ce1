"""Whether a row's bits depend on how many rows there are, and what that costs.

    python tests/batch_invariance.py --page docs/determinism.md

prints a table: for each family of ops, dtype and way to hold the weights whether a row alone and
among others has the same bits under `jit(deterministic="batch")`, and how many times as fast as
the same program without it that is (medians of processor time, of runs in turns). `--page` writes
it into the page.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import rlx
import rlx.numpy as rnp

DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "int8": np.int8}
HELD = ("argument", "captured", "bound")
ROWS = (1, 2, 3, 7, 8, 16, 31, 33, 64)
TIMED = (1, 8, 64)
ANEW = 5  # times that both are compiled: caches may hold the memory of one worse than the other's
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


@dataclass(frozen=True)
class Family:
    """Ops of rows `x`, which lie along axis 0, and of weights; the shapes are of one row."""

    function: Callable[[Any, Any], Any]
    row: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ("float32", "bfloat16")

    def arrays(self, dtype: str, rows: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Rows and weights."""
        random = np.random.default_rng(0)

        def made(*shape: int) -> np.ndarray:
            x = random.normal(size=shape)
            x = np.clip(x * 30, -127, 127) if dtype == "int8" else x
            return x.astype(DTYPES[dtype])

        return made(rows, *self.row), [made(*shape) for shape in self.weights]


def dot(x: Any, w: Any) -> Any:
    """A product, of bytes with sums of four."""
    sums = "int32" if x.dtype == np.int8 else None
    dims = (((x.ndim - 1,), (0,)), ((), ()))
    return rlx.lax.dot_general(x, w, dims, preferred_element_type=sums)


def perceptron(x: Any, weights: Any) -> Any:
    return rlx.nn.gelu(x @ weights[0] / 30 + weights[1]) @ weights[2] / 30 + x


def heads(x: Any, weights: Any) -> Any:
    return rnp.concatenate([rnp.tanh(x @ w / 30) for w in weights], -1)


def attention(x: Any, weights: Any) -> Any:
    q, k, v = ((x @ w / 8).reshape(*x.shape[:2], 4, -1) for w in weights)
    return rlx.nn.dot_product_attention(q, k, v, is_causal=True)


def layer_norm(x: Any, weights: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered / rnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def convolution(layout: str, strides: int = 1, groups: int = 1) -> Callable[[Any, Any], Any]:
    """A convolution of images (or of lines, if the layout has one axis less)."""
    axes = "".join(c for c in layout if c in "HW")
    spec = (layout, "OI" + axes if layout[1] == "C" else axes + "IO", layout)

    def function(x: Any, weights: Any) -> Any:
        y = rlx.lax.conv_general_dilated(
            x, weights[0], (strides,) * len(axes), "SAME", dimension_numbers=spec,
            feature_group_count=groups,
        )  # fmt: skip
        return rnp.maximum(y, 0)

    return function


def gradient(x: Any, weights: Any) -> Any:
    """Of each row alone."""
    return rlx.vmap(rlx.grad(lambda row: rnp.tanh(row @ weights[0] / 30).sum()))(x)


def families(depth: int) -> dict[str, Family]:
    """The families, with products of about this depth."""
    k, n, every = depth, depth * 3 // 4, ("float32", "bfloat16", "int8")
    images, lines = convolution("NHWC"), convolution("NCW", 2)
    return {
        "products": Family(lambda x, w: dot(x, w[0]), (k,), ((k, n),), every),
        "transposed products": Family(lambda x, w: dot(x, w[0].T), (k,), ((n, k),), every),
        "perceptrons": Family(perceptron, (k,), ((k, n), (n,), (n, k))),
        "products of one operand": Family(heads, (k,), ((k, n), (k, n), (k, 64))),
        "batched products": Family(lambda x, w: x @ x.swapaxes(1, 2) @ w[0], (24, k), ((24, 40),)),
        "attention": Family(attention, (37, 64), ((64, 64), (64, 64), (64, 64))),
        "norms": Family(layer_norm, (k,)),
        "softmax": Family(lambda x, w: rlx.nn.softmax(x, -1), (k,)),
        "sums": Family(lambda x, w: (x.sum(1), (x * x).mean((1, 2))), (24, k)),
        "running sums": Family(lambda x, w: rnp.cumsum(x, 1), (k,)),
        "convolutions": Family(images, (14, 14, 40), ((3, 3, 40, 32),)),
        "convolutions, channels first": Family(
            convolution("NCHW"), (40, 14, 14), ((32, 40, 3, 3),)
        ),
        "convolutions of lines": Family(lines, (17, 50), ((16, 17, 5),)),
        "depthwise convolutions": Family(
            convolution("NHWC", 1, 24), (14, 14, 24), ((3, 3, 1, 24),)
        ),
        "gradients": Family(gradient, (k,), ((k, n),)),
    }


def held(family: Family, how: str, weights: Sequence[Any], options: dict[str, Any]) -> Any:
    """The compiled function of rows."""
    if how == "captured":
        return rlx.jit(lambda x: family.function(x, weights), **options)
    compiled = rlx.jit(lambda x, weights: family.function(x, weights), **options)
    if how == "argument":
        return lambda x: compiled(x, weights)
    bound: dict[int, Any] = {}

    def run(x: Any) -> Any:
        if len(x) not in bound:
            bound[len(x)] = compiled.lower(x, weights).compile()
            bound[len(x)].bind(weights=weights)
        return bound[len(x)](x)

    return run


def bits(tree: Any, count: int) -> bytes:
    """The bits of the first rows of all results."""
    return b"".join(np.ascontiguousarray(np.asarray(y)[:count]).tobytes() for y in leaves(tree))


def leaves(tree: Any) -> list[Any]:
    return rlx.tree.leaves(tree)


def differing(family: Family, dtype: str, how: str, rows: Sequence[int], most: int) -> list[int]:
    """The numbers of rows with other bits than they have among the most."""
    x, weights = family.arrays(dtype, most)
    run = held(family, how, weights, {"deterministic": "batch"})
    whole = run(x)
    return [count for count in rows if bits(run(x[:count]), count) != bits(whole, count)]


def ratio(family: Family, dtype: str, how: str, count: int, seconds: float) -> float:
    """How many times as fast as the fast mode: medians of processor time, in turns."""
    x, weights = family.arrays(dtype, count)
    weights = [rlx.array(w) for w in weights]  # NumPy's begin anywhere, and may cost more to read
    runs = [held(family, how, weights, options) for options in ({}, {"deterministic": "batch"})]
    x = rlx.array(x)
    for run in runs:
        rlx.block_until_ready(run(x))
    before = time.perf_counter()
    runs[0](x)
    again = max(1, int(1e-3 / max(time.perf_counter() - before, 1e-6)))
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 7:
        for run, found in zip(runs, times, strict=True):
            before = time.process_time()
            for _ in range(again):
                run(x)
            found.append(time.process_time() - before)
    fast, alike = map(statistics.median, times)
    return fast / alike


def ways(family: Family) -> Sequence[str]:
    """How weights can be held, if there are any."""
    return HELD if family.weights else HELD[:1]


def table(depth: int, most: int, seconds: float, only: str = "") -> Iterator[tuple[str, bool]]:
    """The lines of the table, each with whether it says that bits differ.

    `only` the families whose names begin so.
    """
    heads = [f"{count} row{'s' * (count > 1)}" for count in TIMED]
    yield f"| family | dtype | weights | bits | {' | '.join(heads)} |", False
    yield f"|---|---|---|---|{'--:|' * len(TIMED)}", False
    for name, family in families(depth).items():
        for dtype in family.dtypes if name.startswith(only) else ():
            for how in ways(family):
                wrong = differing(family, dtype, how, ROWS, most)
                found = []
                for count in TIMED:
                    each = [ratio(family, dtype, how, count, seconds) for _ in range(ANEW)]
                    found.append(f"{statistics.median(each):.2f}")
                said = f"differ for {wrong}" if wrong else "equal"
                way = how if family.weights else ""
                yield f"| {name} | {dtype} | {way} | {said} | {' | '.join(found)} |", bool(wrong)


def key_of(line: str) -> tuple[str, ...]:
    """What a line of the table is about."""
    return tuple(cell.strip() for cell in line.split("|")[1:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--depth", type=int, default=768)
    parser.add_argument("--most", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--only", default="", help="families whose names begin so")
    options = parser.parse_args()
    lines, has_failed = [], False
    given = options.depth, options.most, options.seconds, options.only
    for line, is_wrong in table(*given):
        print(line, flush=True)
        lines.append(line)
        has_failed |= is_wrong
    if options.page:
        text = options.page.read_text()
        before, rest = text.split(BEGIN)
        old, after = rest.split(END)
        kept = {key_of(line): line for line in old.strip().splitlines()}
        found = {key_of(line): line for line in lines}
        lines = list({**(kept if options.only else {}), **found}.values())
        options.page.write_text("\n".join([before + BEGIN, *lines, END + after]))
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
