"""The device xla: every op as its reference, programs, derivatives, errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from audit import COMPLETE, Case, all_close, graph_of, tolerance_of, type_of

import rlx
from rlx.backends import registry
from rlx.ir.builder import build
from rlx.ir.graph import OPS
from rlx.ir.interpret import interpret
from rlx.ir.op import Op
from rlx.runtime.samples import SWEPT

if not registry.availability("xla").is_available:
    pytest.skip(registry.availability("xla").reason, allow_module_level=True)

SESSION = rlx.Session("xla")
X = np.array([1.0, -2.0, 3.0], np.float32)


# -- every op -------------------------------------------------------------------------------------


def chosen(op: Op) -> Iterator[tuple[Case, str, list[np.ndarray]]]:
    """The samples of an op, each in another dtype; in all of them for `AUDIT=all`."""
    for number, sample in enumerate(op.sample_list):
        case = Case(op, sample)
        taken = list(case.swept(SWEPT))
        few = taken[number % len(taken) :: 5][:1] if taken else [("", case.arrays())]
        for name, arrays in taken if COMPLETE else few:
            yield case, name, arrays


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.sample_list])
def test_every_op_is_its_reference(name: str):
    """All samples of an op are one program: XLA takes as long for one as for ten."""
    cases = list(chosen(OPS[name]))
    given = [x for _, _, arrays in cases for x in arrays]

    def every(*xs):
        rest = iter(xs)
        made = [case.op.apply([next(rest) for _ in a], case.attrs) for case, _, a in cases]
        return [y for results in made for y in results]

    graph = build(every, [type_of(x) for x in given], name)
    options = rlx.CompileOptions(tier="fast")
    found = SESSION.compile(graph, options=options)(*given)
    rest = iter(found if isinstance(found, tuple) else [found])
    for case, dtype, arrays in cases:
        alone = graph_of(case.op, arrays, case.attrs)
        with np.errstate(all="ignore"):
            wanted = interpret(alone, arrays)
        got = [next(rest).host() for _ in wanted]
        tolerance = tolerance_of(*alone.param_types, *alone.result_types)
        all_close(got, wanted, tolerance, f"{name} {dtype}")
