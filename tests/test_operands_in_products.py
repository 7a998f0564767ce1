"""Operands that devices of kernels compute within products, from what has fewer bytes."""

from __future__ import annotations

import numpy as np
import pytest
from test_gguf_files import some_blocks

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.backends.c_like.executable import kernel_target
from rlx.ir.ops.blocks import FORMATS
from rlx.lower.lir.evaluate import evaluate
from rlx.lower.lir.program import Contraction
from rlx.lower.pipeline import lower
from rlx.nn import BlockArray

RNG = np.random.default_rng(0)
X, CODES = RNG.normal(size=(6, 64)).astype("float32"), RNG.integers(-9, 9, (64, 24), "int8")


def lowered(f, *args):
    """The program, and the contraction that is all of it, if it is."""
    program = lower(rlx.make_graph(f)(*args), kernel_target("device"), check=True).program
    is_one = len(program.steps) == 1 and isinstance(program.steps[0], Contraction)
    return program, is_one and not program.arena_bytes


def linear(x, data, format, compute="exact"):
    return nn.linear(x, BlockArray(data, format), compute=compute)


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_become_numbers_within_products(format):
    layout = FORMATS[format]
    data = some_blocks(format, rows=9, blocks=512 // layout.size)
    numbers = np.asarray(BlockArray(rnp.asarray(data), format).dequantize()).astype(float)
    x = RNG.normal(size=(5, 512)).astype("float32")
    program, is_one = lowered(lambda x, data: linear(x, data, format), x, data)
    assert is_one
    (found,) = evaluate(program, [x, data])
    np.testing.assert_allclose(
        found, x @ numbers.T, atol=1e-5 * (np.abs(x) @ np.abs(numbers.T)).max()
    )


@pytest.mark.parametrize("device", ["opencl", "webgpu"])
def test_devices_have_no_floats_of_blocks_in_memory(device):
    if not rlx.Device(device).is_available():
        pytest.skip(f"there is no device {device}")
    for format, rows in (("q4_1", 1), ("q4_1", 20), ("q8_0", 3), ("q6_k", 2)):
        data = some_blocks(format, rows=33, blocks=512 // FORMATS[format].size)
        numbers = np.asarray(BlockArray(rnp.asarray(data), format).dequantize()).astype(float)
        x = RNG.normal(size=(rows, 512)).astype("float32")
        call = rlx.jit(lambda x, data, f=format: linear(x, data, f), device=device)
        atol = 1e-5 * (np.abs(x) @ np.abs(numbers.T)).max()
        np.testing.assert_allclose(np.asarray(call(x, data)), x @ numbers.T, atol=atol)
        assert call.lower(x, data).compile().memory_plan().arena_bytes == 0


def test_any_operand_of_few_bytes_is_computed_within_the_product():
    ids = RNG.integers(0, 64, 6, "int32")
    table = RNG.normal(size=(64, 24)).astype("float32")
    for f, args in (
        (lambda x, w: x @ (w.astype("float32") * 0.5), (X, CODES)),
        (lambda i, w: nn.one_hot(i, 64) @ w, (ids, table)),
        (lambda x, w, i: x @ w[i].astype("float32"), (X, CODES, RNG.permutation(64))),
        (lambda x, w: x @ rnp.pad(w, ((0, 1), (1, 0))).astype("float32"), (X, CODES[:-1])),
        (lambda x, w: rnp.pad(w.T, ((0, 2), (1, 0))).astype("float32") @ x.T, (X, CODES[:-1])),
    ):
        program, is_one = lowered(f, *args)
        assert is_one, program
        np.testing.assert_allclose(evaluate(program, args)[0], rlx.jit(f)(*args), atol=1e-4)


def test_others_are_in_memory():
    w = RNG.normal(size=(64, 24)).astype("float32")
    for f, args in (
        (lambda x, w: x @ rnp.sin(w), (X, w)),  # as many bytes
        (lambda x, w: x @ (rnp.exp(w.astype("float32"))), (np.ones((10**4, 64), "f4"), CODES)),
        (lambda x, w: (x @ w.astype("float32"), w.astype("float32")), (X, CODES)),
        (lambda x, w: x @ rnp.broadcast_to(w.sum(0), w.shape).astype("float32"), (X, CODES)),
    ):
        program, is_one = lowered(f, *args)
        assert not is_one, program
        if len(args[0]) < 100:
            for found, wanted in zip(
                evaluate(program, args), rlx.tree.leaves(f(*args)), strict=True
            ):
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
