"""Kernels within the number of arrays that a device binds: WGSL's, evaluated by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.backends.c_like.plan import plan
from rlx.backends.webgpu.backend import few_arrays
from rlx.backends.webgpu.wgsl import Wgsl
from rlx.lower.lir import evaluate
from rlx.lower.pipeline import lower
from rlx.lower.target import Target

TARGET = Target("device", most_ranked=64, has_sort=True, has_symbolic_sizes=False)
MOST = 15


@pytest.mark.parametrize(
    "fn",
    [
        lambda *xs: (sum(xs), xs[0] * xs[19]),
        lambda *xs: tuple(x * 2 + 1 for x in xs),
        lambda *xs: tuple(x + xs[3] for x in xs),
    ],
    ids=["reads", "writes", "both"],
)
def test_kernels_need_few_arrays(fn: Callable[..., Any]):
    arrays = [np.full((2, 3), i, np.float32) for i in range(20)]
    arrays[3] = np.float32(3)
    program = lower(rlx.make_graph(fn)(*arrays), TARGET).program
    few_arrays(program, MOST)
    launches = [launch for each in plan(program, Wgsl()).launches.values() for launch in each]
    assert max(len(launch.buffers) for launch in launches) <= MOST
    for number, buffer in enumerate({b for launch in launches for b in launch.buffers}):
        buffer.offset = 1024 * number if buffer.kind == "temporary" else None
    program.arena_bytes = 1024 * 64
    for found, wanted in zip(evaluate(program, arrays), fn(*arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
