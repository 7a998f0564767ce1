"""Where the temporaries of a program lie on a device of WebGPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.c_like.dialect import Limits
from rlx.backends.c_like.plan import Plan, plan
from rlx.backends.webgpu.layout import Layout, place_temporaries
from rlx.backends.webgpu.wgsl import Wgsl
from rlx.lower.pipeline import lower
from rlx.lower.target import Target

TARGET = Target("device", most_ranked=64, has_sort=True, has_symbolic_sizes=False)
F32 = np.ones((6, 40), np.float32)


def planned(fn: Callable[..., Any], *args: np.ndarray) -> Plan:
    graph = rlx.make_graph(fn)(*args)
    return plan(lower(graph, TARGET).program, Wgsl(Limits(threads=64)))


def test_temporaries_used_together_lie_apart():
    made = planned(lambda x: rnp.sort(rnp.cumsum(x, axis=0) @ x.T, axis=0), F32)
    offsets, nbytes = place_temporaries(made, Layout())
    assert offsets and all(at % 256 == 0 for at in offsets.values())
    for launches in made.launches.values():
        for launch in launches:
            used = sorted({offsets[b] for b in launch.buffers if b in offsets})
            assert len(used) == len({b for b in launch.buffers if b in offsets})
    assert nbytes < sum(1024 + 4 * b.count for b in offsets)


divided = rlx.from_jax(jnp.polydiv)  # changes two arrays step by step, each in turn
X, Y = np.array([2, 1, 0, 3, 1, 5], np.float32), np.array([2, 4, 1, 1], np.float32)


def test_what_is_changed_in_place_stays_there():
    """Lowering leaves out copies to where numbers are already; the device's places must know."""
    made = planned(divided, X, Y)
    offsets, _ = place_temporaries(made, Layout())
    heirs = [b for b in offsets if b.continues is not None]
    assert heirs
    assert all(offsets[b] == offsets[b.continues] for b in heirs if b.continues)


@pytest.mark.parametrize("device", ["vulkan", "opengl"])
def test_arrays_changed_in_place_on_the_device(device: str):
    if not rlx.Device(device).is_available():
        pytest.skip(f"{device}: {rlx.Device(device).reason}")
    for found, wanted in zip(rlx.jit(divided, device=device)(X, Y), jnp.polydiv(X, Y), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
