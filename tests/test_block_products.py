"""Products with numbers in blocks: against float64, alone and in batches, in all formats."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from other_block_products import products
from test_gguf_files import some_blocks

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.backends.cpu.llvm.host import Host
from rlx.backends.cpu.llvm.text import Module
from rlx.backends.cpu.packed.layout import packed_layout
from rlx.backends.cpu.packed.lines import method_of
from rlx.backends.cpu.packed.tile import tile_function
from rlx.ir.errors import ArgumentError, AttributeValueError, ShapeError
from rlx.ir.ops.blocks import COMPUTES, FORMATS, GREATEST, ROUNDED

RNG = np.random.default_rng(0)


def some_lines(rows: int, depth: int) -> np.ndarray:
    return RNG.normal(size=(rows, depth)).astype(np.float32)


def rounded(x: np.ndarray, compute: str) -> np.ndarray:
    """What `compute="int8"` or "int16" takes float32 numbers for, as float64."""
    most, together = GREATEST[compute], ROUNDED[compute]
    blocks = x.reshape(len(x), -1, together)
    step = np.abs(blocks).max(-1, keepdims=True) / np.float32(most)
    units = np.rint(blocks / np.where(step == 0, np.float32(1), step)).clip(-most, most)
    return (units.astype(float) * step).reshape(x.shape)


def assert_near(found, x: np.ndarray, w: nn.BlockArray, compute: str) -> None:
    """The error of a float32 sum is that of its terms' sizes."""
    lines = rounded(x, compute) if compute in GREATEST else x.astype(float)
    numbers = np.asarray(w.dequantize()).astype(float)
    # codes and minima are summed apart in some formats, so their sizes count
    sizes = np.abs(lines) @ np.abs(numbers).T + np.abs(lines).max() * np.abs(numbers).max() * 8
    assert (np.abs(np.asarray(found) - lines @ numbers.T) <= 4e-6 * sizes).all()


@pytest.mark.parametrize("compute", COMPUTES)
@pytest.mark.parametrize("format", FORMATS)
def test_products_are_those_of_the_numbers(format, compute):
    size = FORMATS[format].size
    w = nn.BlockArray(rnp.asarray(some_blocks(format, rows=37, blocks=96 // size or 1)), format)
    call = rlx.jit(lambda x, w: nn.linear(x, w, compute=compute), dynamic={"x": {0: "n"}})
    for rows in (1, 3, 8, 33):
        x = some_lines(rows, w.shape[1])
        found = call(x, w)
        assert_near(found, x, w, compute)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="this is no x86")
def test_other_processors_and_threads_give_the_same_bits():
    assert found_by("avx2", 3) == products()
    for name, (error, off, _) in found_by("sse", 2).items():
        assert error < 8 and off < 0.01, name


@pytest.mark.parametrize("rows", [4, 8])
@pytest.mark.parametrize("compute", GREATEST)
@pytest.mark.parametrize("format", ["q4_1", "q8_0", "q6_k"])
def test_no_product_waits_for_the_one_before(format, compute, rows):
    features = "+avx512f,+avx512bw,+avx512vnni,+f16c"
    host = Host("", features, 64, 32, 32 << 10, 1 << 20, 32 << 20, cores=1)
    method = method_of(packed_layout(format, host), compute, host)
    module = Module()
    text = module.functions[tile_function(module, method, rows)].text
    added = re.findall(r"(%\S+) = call \S+ \S+ \S+ @llvm.x86.avx512.vpdpbusd.512\((.*)\)", text)
    assert len(added) == rows * 8 * method.digits
    last = [name for name, _ in added]
    assert not [name for name, (_, given) in zip(last, added[1:], strict=False) if name in given]


def found_by(processor: str, threads: int) -> dict[str, list[float]]:
    """What the script says of each format."""
    script = Path(__file__).with_name("other_block_products.py")
    command = [sys.executable, str(script), processor]
    environment = {**os.environ, "RLX_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_a_product_with_what_blocks_stand_for_stays_packed():
    w = nn.quantize_blocks(some_lines(6, 64), "q4_1")
    x = some_lines(3, 64)
    for f in (
        lambda x, w: x @ w.dequantize().T,
        lambda x, w: (w.dequantize() @ x.T).T,
        lambda x, w: rnp.einsum("bk,nk->bn", x, w.dequantize()),
    ):
        assert "block_dot" in rlx.jit(f).lower(x, w).compile().stages["simplified"]
        assert_near(rlx.jit(f)(x, w), x, w, "exact")


def test_constants_are_packed_once():
    w = nn.quantize_blocks(some_lines(40, 64), "q4_1")
    x = some_lines(3, 64)
    open_rows = {"dynamic": {"x": {0: "n"}}}
    wanted = nn.linear(x, w)
    for options in ({}, open_rows):
        held = rlx.jit(lambda x: nn.linear(x, w), **options).lower(x).compile()
        bound = rlx.jit(nn.linear, **options).lower(x, w).compile()
        bound.bind(w=w)
        for call in (held, bound):
            np.testing.assert_allclose(call(x), wanted, rtol=1e-5, atol=1e-5)
            assert "operands packed once: 1" in call.report() and "library" not in call.report()


def test_derivative_and_batches():
    w = nn.quantize_blocks(some_lines(6, 64), "q4_1")
    numbers = np.asarray(w.dequantize())
    x = some_lines(3, 64)
    for compute in COMPUTES:
        slope = rlx.jit(rlx.grad(lambda x: nn.linear(x, w, compute=compute).sum()))(x)  # noqa: B023
        np.testing.assert_allclose(slope, np.tile(numbers.sum(0), (3, 1)), rtol=1e-5, atol=1e-5)
    many = nn.BlockArray(rnp.stack([w.data, w.data[::-1]]), "q4_1")
    both = rlx.jit(rlx.vmap(nn.linear, in_axes=(None, 0)))(x, many)
    assert_near(both[0], x, w, "exact")
    np.testing.assert_allclose(both[1], both[0][:, ::-1], rtol=1e-5, atol=1e-5)


def test_an_index_leaves_blocks_whole():
    w = nn.quantize_blocks(some_lines(6, 64), "q8_0")
    for index in (np.s_[2], np.s_[::-1], np.s_[...], np.s_[:, :], np.s_[..., :], np.s_[None, 1:]):
        np.testing.assert_array_equal(w[index].dequantize(), w.dequantize()[index])
    for index in (np.s_[:, ::-1], np.s_[..., ::-1], np.s_[:, np.arange(68)[::-1]], np.s_[:, :99]):
        with pytest.raises(ArgumentError, match="reaches the last axis"):
            w[index]


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_other_dtypes(dtype):
    w = nn.quantize_blocks(some_lines(6, 64), "q8_0")
    x = (some_lines(3, 64) * 8).astype(dtype)
    for compute in COMPUTES:
        found = rlx.jit(lambda x: nn.linear(x, w, np.ones(6, "f4"), compute=compute))(x)  # noqa: B023
        wanted = nn.linear(x.astype("float32"), w, compute=compute) + 1
        assert found.dtype == ("float32" if dtype == "int32" else dtype)
        np.testing.assert_allclose(found, wanted, rtol=2e-3 if dtype == "float16" else 1e-5)


def test_odd_numbers():
    w = nn.quantize_blocks(some_lines(5, 64), "q4_0")
    x = np.zeros((6, 64), np.float32)
    x[0, 3], x[1, 40], x[2, 5], x[3, 9], x[4, :3] = np.nan, np.inf, 1e-45, 2e-38, 3e38
    for compute in COMPUTES:
        found = np.asarray(rlx.jit(lambda x: nn.linear(x, w, compute=compute))(x))  # noqa: B023
        assert np.isnan(found[0]).all() and not np.isfinite(found[1]).any()
        assert_near(found[2:4], x[2:4], w, compute)
        assert (found[5] == 0).all()


def test_rows_of_a_table_are_gathered_packed():
    table = nn.quantize_blocks(some_lines(50, 64), "q8_0")
    ids = np.array([[7, 0], [49, -1]])
    call = rlx.jit(lambda w, ids: w[ids].dequantize())
    np.testing.assert_array_equal(call(table, ids), np.asarray(table.dequantize())[ids])
    stages = call.lower(table, ids).compile().stages
    assert not any("f32[50, 64]" in text for text in stages.values())
    with pytest.raises(ArgumentError, match="last axis"):
        table[:, 3:5]


def test_wrong_products_are_refused():
    w = nn.quantize_blocks(some_lines(4, 64), "q4_0")
    with pytest.raises(ArgumentError, match="not packed"):
        nn.linear(some_lines(2, 64), np.ones((4, 64), "f4"), compute="int8")
    with pytest.raises(AttributeValueError, match="int4"):
        nn.linear(some_lines(2, 64), w, compute="int4")
    with pytest.raises(ShapeError, match="last axis of 64"):
        nn.linear(some_lines(2, 32), w)
    with pytest.raises(ShapeError, match="matrix"):
        nn.linear(some_lines(2, 64), w[0])


def test_the_number_of_packed_lines_may_be_open():
    call = rlx.jit(nn.linear, dynamic={"w.data": {0: "n"}})
    x = some_lines(3, 64)
    for count in (5, 33):
        w = nn.quantize_blocks(some_lines(count, 64), "q4_1")
        assert_near(call(x, w), x, w, "exact")


@pytest.mark.parametrize("format", ["q4_0", "q4_1", "q8_0", "iq4_nl", "q4_k", "q6_k"])
@pytest.mark.parametrize("size", [1e9, 3e38])
def test_numbers_that_need_greater_scales_than_float16_has_are_refused(format, size):
    with pytest.raises(rlx.DtypeError, match="too great"):
        nn.quantize_blocks(np.linspace(-size, size, 256, dtype="f4"), format)
