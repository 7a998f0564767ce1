"""Programs lowered for the device `cuda`, and their kernels as few texts, without a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.backends.c_like.cuda_c import CudaC
from rlx.backends.c_like.dialect import Limits
from rlx.backends.c_like.plan import Plan, plan
from rlx.backends.cuda.backend import CudaBackend
from rlx.backends.cuda.products import claim
from rlx.ir.errors import UnsupportedDtype, UnsupportedOp
from rlx.ir.graph import Graph
from rlx.ir.ops.blocks import FORMATS
from rlx.lower.pipeline import lower
from rlx.runtime.supports import SWEPT, graph_of
from rlx.tools.conformance import cases

TARGET, DIALECT = CudaBackend().target, CudaC(Limits(subgroup=32))
DTYPES = ("bool", "int8", "int32", "uint64", "bfloat16", "float16", "float32", "float64")
IN_A_TEXT = 60  # kernels


def planned(graph: Graph) -> Plan:
    """The kernels of a graph."""
    return plan(lower(graph, TARGET).program, DIALECT, claim)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Numbers of a shape."""
    return np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape).astype(dtype)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Attention of one head."""
    return nn.dot_product_attention(q, k, v)


def train_step(weights: Any, x: Any, y: Any) -> Any:
    """A step of gradient descent of two layers."""

    def loss(weights: Any) -> Any:
        hidden = rnp.tanh(x @ weights["in"] + weights["bias"])
        return rnp.mean((hidden @ weights["out"] - y) ** 2)

    value, gradient = rlx.value_and_grad(loss)(weights)
    return value, {name: w - 0.1 * gradient[name] for name, w in weights.items()}


def reductions(*arrays: Any) -> list[Any]:
    """Long rows of some dtypes by all that combines numbers."""
    ways = [rnp.sum, rnp.prod, rnp.max, rnp.min, rnp.argmax, rnp.any, rnp.all]
    return [way(x, axis=1) for x in arrays for way in ways]


def rows_of(dtype: str) -> np.ndarray:
    """Three rows of 300 numbers, one of them with a NaN if there are any."""
    x = np.random.default_rng(3).integers(-3, 4, (3, 300))
    x = (1 + x / 64 if "float" in dtype else x).astype(rnp.dtype(dtype))
    if "float" in dtype:
        x[1, 77] = np.nan
    return x


WEIGHTS = {"in": numbers(192, 256), "bias": numbers(256), "out": numbers(256, 8)}
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "attention": (attention, (numbers(2, 40, 4, 16),) * 3),
    "attention in bfloat16": (attention, (numbers(2, 64, 4, 32, dtype="bfloat16"),) * 3),
    "conv": (
        lambda x, w: rlx.lax.conv(x, w, (1, 1), "SAME"),
        (numbers(2, 3, 12, 12), numbers(8, 3, 3, 3)),
    ),
    "scan": (
        lambda xs: rlx.scan(lambda c, x: (rnp.tanh(c + x), c * x), rnp.zeros(40), xs),
        (numbers(6, 40),),
    ),
    "cumsum": (lambda x: rnp.cumsum(x, axis=1), (numbers(6, 300),)),
    "sort": (lambda x: (rnp.sort(x, axis=1), rnp.argsort(x, axis=1)), (numbers(5, 200),)),
    "top_k": (lambda x: rlx.lax.top_k(x, 4), (numbers(5, 200),)),
    "softmax": (lambda x: nn.softmax(x, axis=-1), (numbers(7, 130, dtype="float16"),)),
    "layer norm": (
        lambda x, g, b: nn.layer_norm(x, g, b),
        (numbers(7, 96), numbers(96), numbers(96)),
    ),
    "train step": (train_step, (WEIGHTS, numbers(128, 192), numbers(128, 8))),
    "matmul in float64": (
        lambda x, y: x @ y,
        (numbers(65, 33, dtype="float64"), numbers(33, 70, dtype="float64")),
    ),
    "large matmul": (lambda x, y: rnp.maximum(x @ y, 0), (numbers(300, 200), numbers(200, 170))),
    "while": (lambda x: rlx.while_loop(lambda c: c.sum() < 90, lambda c: c * 2, x), (numbers(9),)),
    "reductions": (reductions, tuple(map(rows_of, (*DTYPES, "int16", "uint8", "uint32")))),
    "random": (lambda key: rlx.random.normal(key, (5, 7)), (rlx.random.key(3),)),
}


def programs() -> Iterator[tuple[str, Graph]]:
    """Whole programs of all kinds of steps."""
    for name, (fn, args) in PROGRAMS.items():
        yield name, rlx.make_graph(fn)(*args)


def block_products() -> Iterator[tuple[str, Graph]]:
    """Products with blocks of each format: 1 and 64 rows, all kinds of inputs."""
    for format, layout in FORMATS.items():
        data = np.zeros((48, 512 // layout.size * layout.nbytes), np.uint8)
        for rows, (dtype, compute) in itertools.product((1, 64), INPUTS):
            x = numbers(rows, 512, dtype=dtype)
            yield f"{format}, {rows} of {dtype} {compute}", block_product(x, data, format, compute)


def block_product(x: np.ndarray, data: np.ndarray, format: str, compute: str) -> Graph:
    """The product of lines with the numbers of blocks."""
    return rlx.make_graph(
        lambda x, data: nn.linear(x, nn.BlockArray(data, format), compute=compute)
    )(x, data)


INPUTS = (("float32", "exact"), ("bfloat16", "exact"), ("float32", "int8"))


def samples(dtypes: Iterable[str] = DTYPES) -> Iterator[tuple[str, Graph]]:
    """Every sample of every op in some dtypes."""
    for case, number in cases():
        for dtype, arrays in case.swept(tuple(dtypes)):
            yield f"{case.op.name}-{number} {dtype}", graph_of(case.op, arrays, case.attrs)


def texts(graphs: Iterable[tuple[str, Graph]]) -> Iterator[tuple[list[str], str, int]]:
    """The kernels of graphs in texts of many: the graphs' names, the text, how many.

    Kernels that are equal but for their names are taken once.
    """
    known: set[str] = set()
    functions: dict[str, None] = {}
    kernels: list[str] = []
    names: list[str] = []
    for name, graph in graphs:
        try:
            made = planned(graph)
        except (UnsupportedOp, UnsupportedDtype):
            continue
        for kernel in made.kernels:
            text = kernel.text.replace(f"{kernel.name}(", "kernel_NUMBER(", 1)
            if text in known:
                continue
            known.add(text)
            functions.update(dict.fromkeys(made.functions.needed(kernel.called)))
            kernels.append(text.replace("NUMBER", str(len(kernels)), 1))
            names.append(name)
        if len(kernels) >= IN_A_TEXT:
            yield names, DIALECT.module(list(functions), kernels), len(kernels)
            functions, kernels, names = {}, [], []
    if kernels:
        yield names, DIALECT.module(list(functions), kernels), len(kernels)


__all__ = [
    "SWEPT", "block_product", "block_products", "planned", "programs", "samples", "texts",
]  # fmt: skip
