"""Every function of `rlx.numpy` differentiates and batches: derivatives against differences."""

import numpy as np
import pytest
from test_numpy import ALL, ARRAYS, BY_VALUE, evaluate

import rlx.numpy as rnp
from rlx.ir.interpret import interpret
from rlx.trace.make_graph import trace
from rlx.transforms.jvp import jvp_graph
from rlx.transforms.vmap import batch_graph

WIDE = {"float32": "float64", "complex64": "complex128"}
NAMES = sorted(ARRAYS)
INPUTS = [
    ARRAYS[name].astype(WIDE.get(ARRAYS[name].dtype.name, ARRAYS[name].dtype)) for name in NAMES
]
# infinities, NaN, halves and complex numbers have no differences to compare with
SMOOTH = [x.dtype == "float64" and bool(np.isfinite(x).all()) for x in INPUTS]
TIES = {"sort(v)"}  # equal elements: the difference is a mean of two derivatives
EXPRESSIONS = [e for e in ALL if e.split("(")[0] not in BY_VALUE and "array([1, 2, 0])" not in e]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_differentiates_and_batches(expression):
    def fn(given):
        return evaluate(expression, rnp, dict(zip(NAMES, given, strict=True)))

    recorded = trace(fn, (INPUTS,))
    inputs = [*INPUTS, *(c.host() for c in recorded.captures)]
    active = [*SMOOTH, *[False] * len(recorded.captures)]
    check_derivative(expression, recorded.graph, inputs, active)
    check_batch(recorded.graph, inputs)


def check_derivative(expression, graph, inputs, active):
    random = np.random.default_rng(0)
    tangents = [
        random.normal(size=x.shape) if on else None for x, on in zip(inputs, active, strict=True)
    ]
    pushed, (has_tangent,) = jvp_graph(graph, active)
    if not has_tangent or expression in TIES:
        return
    _, tangent = interpret(pushed, [*inputs, *(t for t in tangents if t is not None)])
    step = 1e-6
    moved = [
        [x if t is None else x + sign * step * t for x, t in zip(inputs, tangents, strict=True)]
        for sign in (1, -1)
    ]
    above, below = (interpret(graph, arrays)[0] for arrays in moved)
    with np.errstate(all="ignore"):
        difference = (above - below) / (2 * step)
    known = np.isfinite(difference)
    np.testing.assert_allclose(tangent[known], difference[known], rtol=1e-3, atol=1e-4)


def check_batch(graph, inputs):
    many = [np.stack([x, x[::-1] if x.dtype == "float64" and x.ndim else x]) for x in inputs]
    batched, _ = batch_graph(graph, [True] * len(inputs), 2, [True])
    (found,) = interpret(batched, many)
    for i in range(2):
        (one,) = interpret(graph, [x[i] for x in many])
        np.testing.assert_allclose(found[i], one, rtol=1e-6, atol=1e-6)
