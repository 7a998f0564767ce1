"""`cpu` against `reference` on variations of every sample: dtypes, sizes, ranks, special numbers.

All of them: `AUDIT=all pytest tests/test_variations.py`, which `make audit` does.
"""

from __future__ import annotations

import numpy as np
import pytest
from audit import COMPLETE, Case, all_close, graph_of, tolerance_of
from claims import cases_of
from variations import Variation, few_variations, variations

from rlx.backends import registry
from rlx.ir.graph import OPS
from rlx.ir.interpret import interpret
from rlx.trace.array import Array

FEW = 1  # of each sample in the default run
CASES = [
    pytest.param(case, id=f"{op.name}-{number}")
    for op in OPS.values()
    for number, case in enumerate(cases_of(op))
]


def check(variation: Variation) -> None:
    """Compare both devices on one variation."""
    arrays = variation.arrays
    graph = graph_of(variation.case.op, arrays, variation.attrs)
    executable = registry.get("cpu").compile(graph, Array)
    results = executable.entry(*(np.array(a, order="C") for a in arrays))
    assert results is not executable.miss
    results = results if isinstance(results, tuple) else (results,)
    with np.errstate(all="ignore"):
        wanted = interpret(graph, arrays)
        tolerance = tolerance_of(*graph.param_types, *graph.result_types)
        all_close(
            [r.host() for r in results], wanted, tolerance, str(variation), variation.terms(wanted)
        )


@pytest.mark.parametrize("case", CASES)
def test_cpu_is_the_reference_on_variations(case: Case) -> None:
    for variation in variations(case) if COMPLETE else few_variations(case, FEW):
        check(variation)
