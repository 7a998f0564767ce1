"""What the tests of lowering share: checking against the interpreter, random graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.graph import OPS, Graph, Value
from rlx.ir.interpret import interpret
from rlx.ir.types import Type, as_dtype
from rlx.lower.lir import Contraction, Program, RowGroup, Step, evaluate
from rlx.lower.pipeline import Lowered, lower
from rlx.lower.target import Target

CPU = Target("cpu")
LOCAL = Target("cpu", local_bytes=16384)
CHAINED = Target("cpu", local_bytes=16384, has_chains=True, threads=2)


def typed(*shape: int, dtype: str = "f64") -> Type:
    return Type(as_dtype(dtype), shape)


def arrays_for(types: Sequence[Type], seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.uniform(-2, 2, t.shape).astype(t.dtype) for t in types]


def check(graph: Graph, arrays: Sequence[Any] | None = None, tolerance: float = 1e-9) -> Lowered:
    """Lower, evaluate, and compare with the interpreter."""
    lowered = lower(graph, CPU, check=True)
    arrays = arrays_for(graph.param_types) if arrays is None else arrays
    meanings = interpret(graph, arrays)
    compare(evaluate(lowered.program, arrays), meanings, tolerance)
    if any(isinstance(step, RowGroup) for p in lowered.program.programs for step in p.steps):
        local = lower(graph, LOCAL, check=True).program
        compare(evaluate(local, arrays), meanings, tolerance)
    if any(isinstance(step, Contraction) for p in lowered.program.programs for step in p.steps):
        chained = lower(graph, CHAINED, check=True).program
        compare(evaluate(chained, arrays), meanings, tolerance)
    return lowered


def compare(
    results: Sequence[np.ndarray], meanings: Sequence[np.ndarray], tolerance: float
) -> None:
    for ours, meant in zip(results, meanings, strict=True):
        assert (ours.dtype, ours.shape) == (meant.dtype, meant.shape)
        wide = complex if meant.dtype.kind == "c" else float
        np.testing.assert_allclose(
            ours.astype(wide), meant.astype(wide), rtol=tolerance, atol=tolerance
        )


def check_fn(fn: Callable[..., Any], *types: Type, tolerance: float = 1e-9) -> Program:
    return check(build(fn, types, "f"), tolerance=tolerance).program


def text(program: Program) -> str:
    """The text without the lines of buffers."""
    lines = str(program).splitlines()
    return "\n".join(line for line in lines[1:] if not line.startswith("  b") or "=" in line)


def kinds(program: Program) -> list[type[Step]]:
    return [type(step) for step in program.steps]


def rows_of(x: Value, like: Value) -> Value:
    return ops.broadcast(x, shape=like.shape, axes=(0,))


def softmax_of(x: Value) -> Value:
    e = ops.exp(x - rows_of(ops.reduce_max(x, axes=(1,)), x))
    return e / rows_of(ops.reduce_sum(e, axes=(1,)), x)


UNARY = ["neg", "tanh", "abs", "square", "sin"]
BINARY = ["add", "sub", "mul", "max", "min"]


def random_graph(random: Random, size: int = 10) -> Graph:
    """A graph of pointwise ops, movement, reductions, scans and concatenations."""

    def grow(*params: Value) -> list[Value]:
        values = list(params)
        for _ in range(size):
            values.append(random_value(random, values))
        return [*random.sample(values, 2), values[-1]]

    types = [typed(*random.choice([(2, 3), (3, 2), (6,), (2, 3, 4), ()])) for _ in range(3)]
    return build(grow, types, "random")


def random_value(random: Random, values: Sequence[Value]) -> Value:
    x = random.choice(values)
    same = [v for v in values if v.shape == x.shape]
    choice = random.randrange(10)
    axis = random.randrange(x.rank) if x.rank else 0
    if choice < 2 or not x.rank:
        return OPS[random.choice(UNARY)](x)
    if choice < 4:
        return OPS[random.choice(BINARY)](x, random.choice(same))
    if choice == 4:
        axes = tuple(random.sample(range(x.rank), random.randint(1, x.rank)))
        return OPS[random.choice(["reduce_sum", "reduce_max"])](x, axes=tuple(sorted(axes)))
    if choice == 5:
        return ops.transpose(x, axes=tuple(random.sample(range(x.rank), x.rank)))
    if choice == 6:
        return ops.reshape(x, shape=random_shape(random, x.type.size))
    if choice == 7 and x.rank < 4:
        place = random.randint(0, x.rank)
        shape = (*x.shape[:place], 2, *x.shape[place:])
        axes = tuple(i for i in range(x.rank + 1) if i != place)
        return ops.broadcast(x, shape=shape, axes=axes)
    return random_cut(random, x, axis)


def random_cut(random: Random, x: Value, axis: int) -> Value:
    choice = random.randrange(5)
    if choice == 0:
        return ops.concat(x, ops.neg(x), axis=axis)
    if choice == 1:
        return ops.cumsum(x, axis=axis, reverse=random.random() < 0.5)
    if choice == 2:
        return ops.flip(x, axes=(axis,))
    if choice == 3 and x.shape[axis] > 1:
        start = tuple(int(i == axis) for i in range(x.rank))
        return ops.slice(x, start=start, stop=x.shape, step=(1,) * x.rank)
    low = tuple(random.randint(-1, 2) if n > 1 else 0 for n in x.shape)
    interior = tuple(random.randint(0, 1) for _ in x.shape)
    zero = ops.full(shape=(), value=0.5, dtype=x.dtype)
    return ops.pad(
        x, zero, low=low, high=low[::-1] if x.rank == 1 else (0,) * x.rank, interior=interior
    )


def random_shape(random: Random, size: int) -> tuple[int, ...]:
    shape: list[int] = []
    while size > 1:
        factors = [n for n in range(2, size + 1) if size % n == 0]
        shape.append(random.choice(factors))
        size //= shape[-1]
    return tuple(shape) or (1,)
