"""The device `cuda` without a GPU: texts, what NVRTC says of them, numbers on the host."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from cuda_texts import PROGRAMS, block_products, numbers, planned, programs, samples, texts
from cupy_on_host import CACHES, Failure, installed
from test_gguf_files import some_blocks

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.backends import registry
from rlx.backends.c_like import cuda_c
from rlx.backends.cuda import machine
from rlx.backends.cuda.machine import compiled, machine_of
from rlx.ir.ops.blocks import FORMATS
from rlx.tools.conformance import SWEPT

COMPLETE = os.environ.get("AUDIT") == "all"
FEW = ("add", "erf_inv", "population_count", "convert", "scatter_add", "argmax", "shift_left")


def compiler() -> str:
    """Why kernels cannot be compiled here; empty if they can."""
    if importlib.util.find_spec("cupy") is None:
        return "cupy is not installed"
    try:
        machine.library().cuda.nvrtc.getVersion()
    except Exception as error:
        return f"NVRTC is not installed: {error}"
    return ""


# -- texts ----------------------------------------------------------------------------------------


def test_elementwise_kernel_in_cuda():
    made = planned(rlx.make_graph(lambda x, y: rnp.exp(x) * 2.0 + y)(*[numbers(6, 40)] * 2))
    assert made.text == dedent("""\
        extern "C" __global__ void __launch_bounds__(240)
        kernel_0(const float *b0, const float *b1, float *b2) {
            const int i0 = (int)(blockIdx.x * blockDim.x + threadIdx.x);
            b2[i0] = ((expf(b0[i0]) * 2.0f) + b1[i0]);
        }
        """)


def test_half_floats_are_computed_in_float32():
    made = planned(rlx.make_graph(lambda x: x * x)(numbers(40, dtype="bfloat16")))
    (kernel,) = made.kernels
    assert "const unsigned short *b0, unsigned short *b1" in kernel.text
    assert "__uint_as_float" in made.text and "half" not in made.text


def products(fn: Callable[..., Any], *args: Any) -> list[Any]:
    made = planned(rlx.make_graph(fn)(*args))
    return [product.call for product in made.products.values()]


def test_large_products_are_the_librarys():
    x, y = numbers(200, 130), numbers(130, 170)
    (call,) = products(lambda x, y: x @ y, x, y)
    assert call.result is not None  # no kernel beside it
    assert (call.rows, call.columns, call.depth) == (200, 170, 130)
    (call,) = products(lambda x, y: rnp.tanh(x @ y), x, y)
    assert call.result is None
    (call,) = products(lambda x, y: x.T @ y, numbers(130, 200), y)
    assert (call.left.turned, call.left.pitch, call.right.turned) == (True, 200, False)
    (call,) = products(lambda x: x @ rnp.swapaxes(x, 1, 2), numbers(6, 90, 80, dtype="float16"))
    assert (call.count, call.left.step, call.right.turned) == (6, 7200, True)
    assert call.sums.dtype == np.float16


def test_other_products_are_kernels():
    assert not products(lambda x, y: x @ y, numbers(20, 20), numbers(20, 20))
    whole = np.ones((300, 300), np.int32)
    assert not products(lambda x, y: x @ y, whole, whole)
    every_other = lambda x, y: x[:, ::2] @ y  # noqa: E731
    assert not [
        c
        for c in products(every_other, numbers(200, 400), numbers(200, 200))
        if c.left.pitch == 400
    ]


# -- what NVRTC says ------------------------------------------------------------------------------


@pytest.mark.skipif(bool(compiler()), reason=f"{compiler()}: pip install 'rlx[cuda-compile]'")
def test_kernels_compile():
    few = (
        (name, graph)
        for name, graph in samples(("float32", "int8", "bfloat16"))
        if name.partition("-")[0] in FEW
    )
    found = list(texts([*programs(), *few]))
    assert sum(count for *_, count in found) > 50
    for _, text, _ in found:
        assert compiled("cuda", text, "90")


@pytest.mark.skipif(bool(compiler()), reason=f"{compiler()}: pip install 'rlx[cuda-compile]'")
def test_products_of_blocks_compile():
    given = list(block_products())
    for name, graph in given:  # rounded lines are in memory at most, never the weights' floats
        assert planned(graph).arena_bytes <= 5 * graph.params[0].type.size + 512, name
    for names, text, count in texts(given):
        assert compiled("cuda", text, "90") and count, names


@pytest.mark.skipif(not COMPLETE, reason="`make audit` compiles the kernels of every sample")
@pytest.mark.skipif(bool(compiler()), reason=f"{compiler()}: pip install 'rlx[cuda-compile]'")
@pytest.mark.parametrize("capability", ["75", "90"])
def test_all_kernels_compile(capability):
    for names, text, _ in texts([*programs(), *samples(SWEPT)]):
        assert compiled("cuda", text, capability), names


# -- numbers, on the host -------------------------------------------------------------------------


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device `cuda`, whose CuPy runs kernels on the host."""
    yield from installed(monkeypatch)


def close(found: Any, wanted: Any) -> None:
    """Whether numbers are the same but for a few roundings of their dtype."""
    found, wanted = rlx.tree.leaves(found), rlx.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype
        tolerance = 0.0 if y.dtype.kind in "biu" else 64 * float(rnp.finfo(y.dtype).eps)
        wide = np.float64
        np.testing.assert_allclose(x.astype(wide), y.astype(wide), tolerance, tolerance)


def test_programs_on_the_host(cuda):
    few = ("attention in bfloat16", "scan", "top_k", "train step", "reductions")
    chosen = PROGRAMS if COMPLETE else few

    def everything(given: dict[str, Any]) -> dict[str, Any]:
        return {name: PROGRAMS[name][0](*given[name]) for name in chosen}

    given = {name: PROGRAMS[name][1] for name in chosen}
    f = rlx.jit(everything, device="cuda")
    wanted = rlx.jit(everything, device="reference")(given)
    close(f(given), wanted)
    close(f(given), wanted)
    assert "__shfl_xor_sync(0xffffffffu, " in f.lower(given).compile().stages["cuda"]
    assert sys.modules["cupy_backends.cuda.libs"].cublas.calls > 0


def test_products_of_blocks_on_the_host(cuda):
    random, given = np.random.default_rng(0), {}
    for number, (format, layout) in enumerate(FORMATS.items()):
        data = some_blocks(format, rows=35, blocks=512 // layout.size)
        given[format] = random.normal(size=((1, 64)[number % 2], 512)).astype("float32"), data

    def products(given: dict[str, Any]) -> dict[str, Any]:
        return {name: nn.linear(x, nn.BlockArray(w, name)) for name, (x, w) in given.items()}

    found = rlx.jit(products, device="cuda")(given)
    for name, (x, data) in given.items():
        w = np.asarray(nn.BlockArray(rnp.asarray(data), name).dequantize()).astype(float)
        near = 1e-6 * (np.abs(x) @ np.abs(w.T)).max()
        np.testing.assert_allclose(np.asarray(found[name]), x @ w.T, rtol=0, atol=near)


def test_samples_on_the_host(cuda):
    found = rlx.testing.check_backend("cuda", ops=["clz", "scatter_add"], dtypes=["int8", "bool"])
    assert len(found.outcomes) > 3 and not found.gaps
    assert rlx.Device("cuda").description.startswith("Host, cuda 90")


@pytest.mark.skipif(not COMPLETE, reason="`make audit` runs the kernels of every sample")
def test_all_samples_on_the_host(cuda):
    found = rlx.testing.check_backend("cuda", dtypes=["float32", "int32", "bfloat16"])
    assert not found.gaps


# -- the device -----------------------------------------------------------------------------------


def test_calls_become_graphs(cuda):
    f = rlx.jit(lambda x: rnp.sort(x) + rnp.cumsum(x).sum(), device="cuda")
    given = [numbers(50) * np.float32(n) for n in (1, 2)]
    there = [rnp.array(x).to("cuda") for x in given]
    results = [f(there[n % 2]) for n in range(9)]
    assert machine_of("cuda", 0).stream.launched == 0  # nine results lie at nine places
    for n, result in enumerate(results):
        close(result, np.sort(given[n % 2]) + np.cumsum(given[n % 2]).sum())
    del results, result
    for n in range(9):  # what is dropped makes room for the next one
        close(f(there[n % 2]), np.sort(given[n % 2]) + np.cumsum(given[n % 2]).sum())
    assert machine_of("cuda", 0).stream.launched >= 4


def test_steps_are_timed_by_events_of_the_stream(cuda):
    def f(x, y):
        z = rlx.scan(lambda c, _: (rnp.tanh(c) * 2, None), x @ y, None, length=3)[0]
        return rnp.cumsum(z.sum(axis=0))

    given = numbers(150, 130), numbers(130, 170)
    step = rlx.jit(f, device="cuda")
    with rlx.profile() as p:
        for _ in range(4):
            found = step(*given)
    close(found, rlx.jit(f, device="reference")(*given))
    assert machine_of("cuda", 0).stream.launched == 0  # no graph has the events of a call
    rows = {row.name: row for row in p.kernels}
    assert rows["contraction dot_general"].seconds > 0  # of the library
    assert rows["kernel tanh, mul"].count == 12 and "loop scan" not in rows  # which adds nothing
    assert sum(row.seconds for row in p.kernels) <= p.call_seconds
    assert {row.device for row in p.kernels} == {"cuda"}


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float8_e5m2", "complex128"])
def test_arrays_lie_there(cuda, dtype):
    for x in (np.ones((2, 0, 3)), np.float32(1), numbers(3, 5)):
        here = np.asarray(x).astype(rnp.dtype(dtype))
        there = rnp.array(here).to("cuda")
        assert (there.device, there.dtype, there.shape) == ("cuda", here.dtype, here.shape)
        np.testing.assert_array_equal(there.host(), here)


def test_numbers_of_devices(cuda):
    assert rlx.Device("nvidia").is_available() and rlx.Device("cuda:0").is_available()
    there = rnp.array(numbers(3)).to("cuda:0")
    assert rlx.Device("cuda:0") == "cuda" and registry.get("cuda:0") is registry.get("cuda")
    assert rlx.jit(lambda x: x + 1, device="cuda")(there).device == "cuda"
    assert "no cuda device has the number '7'" in rlx.Device("cuda:7").reason
    assert "for CUDA" in rlx.Device("rocm").reason


def test_memory_is_shared_by_dlpack(cuda):
    there = rnp.array(numbers(3, 5)).to("cuda")
    assert there.__dlpack_device__() == (2, 0)
    given = there.__dlpack__(stream=None)
    assert (given.shape, given.dtype, given.data) == ((3, 5), np.float32, there._data.memory)
    back = rnp.from_dlpack(given, copy=False)
    assert (back.device, back._data.address) == ("cuda", there._data.address)
    np.testing.assert_array_equal(np.from_dlpack(there, device="cpu"), numbers(3, 5))
    with pytest.raises(rlx.DtypeError, match="bfloat16"):
        rnp.array(numbers(3, dtype="bfloat16")).to("cuda").__dlpack__()
    with pytest.raises(rlx.ArgumentError, match="takes it over, where it lies"):
        rlx.jit(lambda x: x)(given)


# -- what goes wrong ------------------------------------------------------------------------------


def works() -> None:
    close(rlx.jit(lambda x: x * 3, device="cuda")(numbers(4)), numbers(4) * np.float32(3))


def test_no_memory_left(cuda):
    f = rlx.jit(lambda x: rnp.broadcast_to(x[:, None], (1 << 15, 1 << 15)) * 1.5, device="cuda")
    with pytest.raises(rlx.DeviceMemoryError, match="cuda has not enough memory for running"):
        f(numbers(1 << 15))
    works()


def test_kernels_that_do_not_compile(cuda, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(cuda_c.NARROW, "tanh", "no_such_function")
        with pytest.raises(rlx.KernelBuildError, match="cuda cannot build the kernels") as caught:
            rlx.jit(rnp.tanh, device="cuda")(numbers(4))
    assert "no_such_function" in str(caught.value)
    works()


def test_a_callback_compiles_and_runs_for_the_device_in_another_thread(cuda):
    given = np.arange(1000, dtype=np.int32)
    other = rlx.jit(lambda x: rnp.cumsum(rnp.sort(x)) * 3, device="cuda")
    pool = ThreadPoolExecutor(1)

    def called(x: np.ndarray) -> np.ndarray:
        return pool.submit(lambda: np.asarray(other(x))).result(timeout=60)  # or it waits forever

    @rlx.jit(device="cuda")
    def fn(x):
        sums = rnp.cumsum(x * 2)  # in memory for temporaries, while the callback runs
        y = rlx.pure_callback(called, rlx.spec(given.shape, "int32"), x)
        return rnp.cumsum(sums) + y + sums[::-1]

    sums = np.cumsum(given * 2)
    np.testing.assert_array_equal(fn(given), np.cumsum(sums) + np.cumsum(given) * 3 + sums[::-1])


def test_a_lost_device(cuda, monkeypatch):
    there = rnp.array(numbers(4)).to("cuda")

    def fails(*_: Any) -> None:
        raise Failure(700)

    with monkeypatch.context() as patch:
        patch.setattr(cuda.runtime, "memcpyAsync", fails)
        with pytest.raises(rlx.DeviceLostError, match="cuda was lost at copying 16 bytes from it"):
            there.host()
    with pytest.raises(rlx.DeviceLostError, match="start Python again"):
        works()
    close(rlx.jit(lambda x: x * 3, device="cpu")(numbers(4)), numbers(4) * np.float32(3))


def test_a_forked_child(cuda, monkeypatch):
    there = rnp.array(numbers(4)).to("cuda")
    monkeypatch.setattr(os, "getpid", lambda: 0)
    for use in (works, there.host, there.__dlpack__, there.__dlpack_device__):
        with pytest.raises(rlx.DeviceLostError, match="cuda was opened before this process"):
            use()


def test_no_driver(cuda, monkeypatch):
    def fails() -> int:
        raise Failure(35)

    monkeypatch.setattr(cuda.runtime, "getDeviceCount", fails)
    assert "CUDA 13.0, is too old" in machine.find("cuda", "").reason
    monkeypatch.setattr(cuda.runtime, "driverGetVersion", lambda: 0)
    device = rlx.Device("cuda")
    assert "no driver of NVIDIA" in device.reason and "nvidia.com" in device.install
    with pytest.raises(rlx.DeviceUnavailable, match="no driver of NVIDIA"):
        rlx.jit(lambda x: x, device="cuda")(numbers(4))


def test_no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    for cache in CACHES:
        cache.cache_clear()
    assert rlx.Device("cuda").reason == "the package cupy is not installed"
    assert "cupy-cuda13x" in rlx.Device("cuda").install
    assert "cupy-rocm" in rlx.Device("rocm").install
    for cache in CACHES:
        cache.cache_clear()
