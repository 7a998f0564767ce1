"""Every sample of every op, compiled for `cpu`, against the reference.

The first one of each op in all dtypes; the others in some, and in all of them in `make audit`.
"""

from __future__ import annotations

import numpy as np
import pytest
from audit import Case, all_close, graph_of, tolerance_of
from laws_of_meaning import compiled_dtypes

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.ir.graph import OPS
from rlx.ir.interpret import interpret
from rlx.trace.array import Array

CASES = [
    pytest.param(Case(op, sample), id=f"{op.name}-{number}")
    for op in OPS.values()
    for number, sample in enumerate(op.sample_list)
]


@pytest.mark.parametrize("case", CASES)
def test_cpu_is_the_reference(case: Case) -> None:
    cpu = registry.get("cpu")
    for name, arrays in case.swept(compiled_dtypes(case)):
        graph = graph_of(case.op, arrays, case.attrs)
        tolerance = tolerance_of(*graph.param_types, *graph.result_types)
        executable = cpu.compile(graph, Array)
        results = executable.entry(*(np.array(a, order="C") for a in arrays))
        assert results is not executable.miss
        results = results if isinstance(results, tuple) else (results,)
        found = [r.host() for r in results]
        all_close(found, interpret(graph, arrays), tolerance, name)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
@pytest.mark.parametrize("n", [17, 64])
def test_divided_indices_in_many_lanes(dtype: str, n: int) -> None:
    """64 lanes of 32 bits are not 64 bits."""
    x = (np.arange(n * n) % 11).reshape(n, n).astype(dtype)
    turned = rlx.jit(lambda x: x.T.reshape(-1)[::-1].reshape(x.shape))
    rolled = rlx.jit(lambda x: rnp.roll(x.T.reshape(-1), 3).reshape(x.shape))
    np.testing.assert_array_equal(turned(x), x.T.reshape(-1)[::-1].reshape(x.shape))
    np.testing.assert_array_equal(rolled(x), np.roll(x.T.reshape(-1), 3).reshape(x.shape))
