"""The WebGPU device: its language, its memory, its functions, and what happens when it fails."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.backends.c_like.dialect import Limits
from rlx.backends.c_like.plan import Plan, plan
from rlx.backends.webgpu import adapters
from rlx.backends.webgpu.blocks import KEPT_BYTES, Pool
from rlx.backends.webgpu.device import ARRAYS, Device, Pipeline, Region
from rlx.backends.webgpu.layout import Layout
from rlx.backends.webgpu.machine import ROW, Kernels
from rlx.backends.webgpu.scalar import literal, template
from rlx.backends.webgpu.wgsl import Wgsl, called_by, declarations
from rlx.ir.types import DTYPES
from rlx.lower.pipeline import lower
from rlx.lower.target import Target

TARGET = Target("device", most_ranked=64, has_sort=True, has_symbolic_sizes=False)
F32 = np.ones((6, 40), np.float32)
X = np.array([1.0, 2.0, 3.0], np.float32)
HERE = [name for name in ("vulkan", "opengl") if rlx.Device(name).is_available()]


@pytest.fixture(params=["vulkan", "opengl"])
def device(request: pytest.FixtureRequest) -> str:
    """A device that is here."""
    if request.param not in HERE:
        pytest.skip(f"{request.param}: {rlx.Device(request.param).reason}")
    return request.param


def planned(fn: Callable[..., Any], *args: np.ndarray, layout: Layout | None = None) -> Plan:
    graph = rlx.make_graph(fn)(*args)
    return plan(lower(graph, TARGET).program, Wgsl(Limits(threads=64), layout))


def test_adapters_are_found_without_a_word(device: str):
    """Mesa asks for a desktop, and prints errors where the environment names none."""
    script = f"import os, rlx; assert rlx.Device({device!r}).is_available(); print(*os.environ)"
    given = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}
    given["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=given,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and "XDG_RUNTIME_DIR" not in done.stdout


# -- the language ---------------------------------------------------------------------------------


def test_reduction_in_wgsl():
    made = planned(lambda x: rnp.sum(x > 0, axis=1), F32)
    (kernel,) = made.kernels
    assert kernel.text == dedent("""\
        @group(0) @binding(0) var<storage, read_write> b0: array<f32>;
        @group(0) @binding(1) var<storage, read_write> b1: array<i32>;

        @compute @workgroup_size(6, 1, 1)
        fn kernel_0(
          @builtin(workgroup_id) group_id: vec3<u32>,
          @builtin(local_invocation_id) thread_id: vec3<u32>,
          @builtin(global_invocation_id) place_id: vec3<u32>,
        ) {
          let i0: i32 = i32(place_id.x);
          var r0: i32 = 0i;
          for (var k0: i32 = 0i; k0 < 40i; k0 += 1i) {
              r0 = (r0 + select(0i, 1i, (b0[i0 * 40i + k0] > 0.0f)));
          }
          b1[i0] = r0;
        }""")


def test_small_numbers_in_wgsl():
    """A byte is cut to its width, a half is widened from its bits, a bool is a word."""
    made = planned(lambda x: x + x, np.ones(3, np.int8))
    assert "b1[i0] = extractBits((t0 + t0), 0u, 8u);" in made.text
    made = planned(lambda x: x * x, np.ones(3, np.float16))
    assert "narrow_float16_f32(round_float16_f32((" in made.text
    assert "widen_float16_u16(b0[i0])" in made.text
    made = planned(lambda x: x * x, np.ones(3, np.float16), layout=Layout(has_halves=True))
    assert "b1[i0] = f16(round_float16_f32((" in made.text and "f32(b0[i0])" in made.text
    assert made.text.startswith("enable f16;")
    made = planned(lambda x, y: x == y, X, X)
    assert "b2[i0] = u32(equals_f32(b0[i0], b1[i0]));" in made.text


def test_rounds_of_a_loop_are_told_where_their_rows_begin():
    made = planned(lambda x: rlx.scan(lambda c, row: (c + row, c), x[0], x), F32)
    moved = [k for k in made.kernels if any(p.has_offset for p in k.signature.parameters)]
    assert moved and all("let b0_at = numbers[0];" in k.text for k in moved)
    assert all(f"[i0 + {p.offset_name}]" in k.text for k in moved for p in k.signature.parameters)


def test_rows_wait_for_what_is_written_to_arrays():
    """What one kernel of a row writes the next one reads in other threads."""
    made = planned(lambda x: x / rnp.sum(x, axis=1, keepdims=True), np.ones((10, 40), np.float32))
    (kernel,) = made.kernels
    assert kernel.text.count("storageBarrier();") == 1 and "workgroupBarrier();" in kernel.text


@pytest.mark.parametrize(
    ("dtype", "number", "text"),
    [
        ("float32", 1, "1.0f"),
        ("float32", 1e20, "1e+20f"),
        ("float32", -0.0, "bitcast<f32>(2147483648u)"),
        ("float32", 1e-40, "bitcast<f32>(71362u)"),
        ("float32", -math.inf, "(-infinite_f32())"),
        ("float64", 0.1, "0.1lf"),
        ("float64", math.nan, "nan_f64()"),
        ("int32", -(2**31), "(-2147483647i - 1i)"),
        ("int64", 5, "5li"),
        ("uint8", 255, "255u"),
        ("bool", True, "true"),
    ],
)
def test_literals(dtype: str, number: Any, text: str):
    assert literal(DTYPES[dtype], DTYPES[dtype].type(number)) == text


def test_functions_bring_those_that_they_call():
    text = called_by("erfc_f32(1.0)")
    assert text.index("fn is_nan_f32(") < text.index("fn exp_f32(") < text.index("fn erfc_f32(")
    assert "log_f32" not in text and called_by("x + 1.0") == ""


def test_every_function_of_the_library_is_called():
    """Each by an instruction, or by another function."""
    names = ["float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"]
    asked = [
        template(instruction, DTYPES[name], DTYPES[other]) or ""
        for name in names
        for other in names
        for instruction in INSTRUCTIONS
    ]
    floats = [DTYPES[name] for name in ("float32", "float64")]
    asked += [text for d in floats for text in (literal(d, math.inf), Wgsl().zero_factor(d, ""))]
    known = called_by(" ".join(asked))
    missing = [name for name in declarations() if f" {name}" not in known]
    assert not missing


INSTRUCTIONS = """
cast neg sub eq is_finite max min sign rem pow popcount clz exp exp2 log logistic sin cos tanh
expm1 log1p tan erf erfc cbrt asin acos atan sinh cosh erf_inv asinh acosh atanh atan2
""".split()


# -- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [Layout(), Layout(has_halves=True)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_lie_in_words_and_come_back(dtype: str, layout: Layout):
    array = np.arange(4).astype(DTYPES[dtype])
    words = layout.words(array)
    is_half = layout.has_halves and dtype == "float16"
    assert words.dtype == layout.word(array.dtype) and words.itemsize % (2 if is_half else 4) == 0
    np.testing.assert_array_equal(layout.numbers(words.view(np.uint8), array.dtype), array)


class FakeBuffer:
    def __init__(self, size: int) -> None:
        self.size, self.is_destroyed = size, False

    def destroy(self) -> None:
        self.is_destroyed = True


def test_free_blocks_are_given_out_again():
    pool = Pool(FakeBuffer)
    first = pool.make(1000)
    buffer, size = first.buffer, first.size
    assert size == 1024 and pool.reuse(1000) is None
    del first
    again = pool.reuse(900)
    assert again is not None and again.buffer is buffer and pool.made == 1
    huge = pool.make(KEPT_BYTES + 1).buffer
    del again
    assert pool.reuse(1) is None
    assert huge.is_destroyed and not buffer.is_destroyed
    pool.trim()
    assert buffer.is_destroyed


def test_memory_is_bound_anew_for_more_bytes_of_it():
    """A kernel that copies sees all of an array where a shorter one lay before."""

    class Adapter:
        def bind(self, pipeline: Pipeline, regions: Sequence[Region]) -> list[int]:
            return [region.nbytes for region in regions]

    pipeline = Pipeline("kernel", "layout")
    kernels = Kernels(Adapter(), planned(rnp.exp, X))  # type: ignore[arg-type]
    for nbytes in (4, 200, 4):
        assert kernels.bound(pipeline, [Region("memory", 0, nbytes)]) == [nbytes]


def test_kernels_of_no_more_arrays_than_are_told_where_they_begin(monkeypatch: pytest.MonkeyPatch):
    handle = SimpleNamespace(limits={ARRAYS: 1 << 20}, queue=None)
    info = {"adapter_type": "CPU"}
    adapter = SimpleNamespace(
        features=(), limits={}, info=info, request_device_sync=lambda **_: handle
    )
    monkeypatch.setattr(adapters, "choose", lambda name: adapter)
    assert 4 * Device("webgpu").limits[ARRAYS] <= ROW


# -- adapters -------------------------------------------------------------------------------------


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(adapters, "found", list)
    found = adapters.availability("vulkan")
    assert found.reason == "there is no adapter for Vulkan: wgpu finds none"
    assert "apt-get install" in found.install

    def absent() -> list[Any]:
        raise ImportError

    monkeypatch.setattr(adapters, "found", absent)
    assert adapters.availability("webgpu").install == 'pip install "rlx[webgpu]"'


def test_hardware_comes_before_processors_and_opengl_last(monkeypatch: pytest.MonkeyPatch):
    class Fake:
        def __init__(self, hardware: str, interface: str, name: str) -> None:
            names = {"vendor": "", "description": "", "device": name}
            self.info = {"adapter_type": hardware, "backend_type": interface, **names}

    cpu, old, new = (
        Fake("CPU", "Vulkan", "llvmpipe (LLVM 15.0.2)"),
        Fake("DiscreteGPU", "OpenGL", "Nameless"),
        Fake("DiscreteGPU", "Vulkan", "Nameless"),
    )
    monkeypatch.setattr(adapters, "found", lambda: [cpu, old, new])
    chosen = ["webgpu", "opengl", "vulkan", "webgpu:opengl", "webgpu:pipe", "directx"]
    assert [adapters.choose(name) for name in chosen] == [new, old, new, old, cpu, None]
    # a number is that of an adapter, not a part of its name
    numbered = ["webgpu:0", "webgpu:1", "webgpu:2", "webgpu:15"]
    assert [adapters.choose(name) for name in numbered] == [cpu, old, new, None]
    assert "called 'other'" in adapters.availability("webgpu:other").reason
    assert (
        "D3D12: wgpu finds 0: llvmpipe (LLVM 15.0.2) (Vulkan); 1: "
        in adapters.availability("directx").reason
    )


# -- on a device ----------------------------------------------------------------------------------


def test_products_loops_and_branches(device: str):
    def step(state: Any, row: Any) -> Any:
        state = rlx.cond(row.sum() > 0, lambda s: s * 0.5 + row, lambda s: s - row, state)
        return state, state.max()

    def fn(x: Any, w: Any) -> Any:
        last, tops = rlx.scan(step, x[0], rnp.tanh(x @ w), reverse=True)
        return rlx.while_loop(lambda s: s.sum() < 30, lambda s: abs(s) + 1, last), tops

    x = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    w = np.random.default_rng(1).normal(size=(5, 5)).astype(np.float32)
    found = rlx.jit(fn, device=device)(x, w)
    for got, wanted in zip(found, rlx.jit(fn, device="reference")(x, w), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), 1e-5, 1e-5)


def test_more_groups_than_an_axis_has(device: str):
    x = np.arange(70_000 * 64, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(rlx.jit(lambda x: x * 2, device=device)(x)), x * 2)


def test_many_arguments(device: str):
    arrays = [X + i for i in range(40)]
    total = rlx.jit(lambda *xs: sum(xs), device=device)(*arrays)
    np.testing.assert_array_equal(np.asarray(total), sum(arrays))


def test_a_call_is_one_submission(device: str, monkeypatch: pytest.MonkeyPatch):
    compiled = rlx.jit(lambda x: rnp.sort(rnp.cumsum(x) @ x + x), device=device)
    there = rnp.array(X).to(device)
    compiled(there)
    queue = registry.get(device).device.queue  # type: ignore[attr-defined]
    calls: list[Any] = []
    submit = type(queue).submit
    monkeypatch.setattr(type(queue), "submit", lambda *a: calls.append(a) or submit(*a))
    compiled(there)
    assert len(calls) == 1


def test_memory_is_used_again(device: str):
    compiled = rlx.jit(lambda x: x + 1, device=device)
    there = rnp.array(X).to(device)
    for _ in range(5):
        there = compiled(there)
    made = registry.get(device).device.pool.made  # type: ignore[attr-defined]
    for _ in range(50):
        there = compiled(there)
    assert registry.get(device).device.pool.made <= made + 1  # type: ignore[attr-defined]
    assert there.tolist() == [56, 57, 58]


def test_threads_share_a_device(device: str):
    compiled = rlx.jit(lambda x: rnp.cumsum(x * 2), device=device)
    wrong: list[Any] = []

    def run(start: int) -> None:
        for i in range(start, start + 20):
            got = compiled(X + i).tolist()
            wrong.extend([got] if got != np.cumsum((X + i) * 2).tolist() else [])

    threads = [threading.Thread(target=run, args=(i * 100,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_runs_on_the_host_is_reported(device: str):
    x = np.diag(X)
    compiled = rlx.jit(lambda x: rnp.linalg.eigh(x)[0], device=device)
    assert compiled(x).tolist() == [1, 2, 3]
    assert "eigh: library: on the host" in compiled.lower(x).compile().report()


def test_a_dtype_that_is_missing(device: str):
    fn = rlx.jit(lambda x: x + 1, device=device)
    x = np.arange(3, dtype=np.int64)
    if "int64" in registry.get(device).target.stored:
        assert fn(x).tolist() == [1, 2, 3]
        return
    with pytest.raises(rlx.UnsupportedDtype, match=f"{device} has no int64"):
        fn(x)


def test_every_half_comes_and_goes(device: str):
    """One more than there are, so that the last one has a word of its own."""
    x = np.arange(65537).astype(np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        wanted = [x, x[::-1], x.astype(np.float32), x.astype(np.float32).astype(np.float16), x * x]

    def fn(x: Any) -> Any:
        wide = x.astype("float32")
        return rnp.array(x), x[::-1], wide, wide.astype("float16"), x * x

    for got, exact in zip(rlx.jit(fn, device=device)(x), wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(got), exact)
        is_number = ~np.isnan(exact)
        np.testing.assert_array_equal(
            np.signbit(np.asarray(got))[is_number], np.signbit(exact)[is_number]
        )


def test_rows_of_halves_in_a_loop(device: str):
    """Of odd length, so that they begin inside of words; copied, and written by the host."""

    @rlx.custom_op(elementwise=True)
    def negative_on_the_host(x: Any) -> Any:
        return -x

    def step(c: Any, row: Any) -> Any:
        return row, (c, negative_on_the_host(row))

    x = np.arange(12, dtype=np.float16).reshape(4, 3)
    last, (rows, negative) = rlx.jit(lambda x: rlx.scan(step, x[0], x), device=device)(x)
    np.testing.assert_array_equal(np.asarray(last), x[-1])
    np.testing.assert_array_equal(np.asarray(rows), x[[0, 0, 1, 2]])
    np.testing.assert_array_equal(np.asarray(negative), -x)


# -- failures -------------------------------------------------------------------------------------


@pytest.fixture
def doubled(device: str) -> Iterator[tuple[str, Any]]:
    """A function that works on the device before and after."""
    fn = rlx.jit(lambda x: x * 2, device=device)
    assert fn(X).tolist() == [2, 4, 6]
    yield device, fn
    assert fn(X).tolist() == [2, 4, 6]


def test_a_lost_device_is_opened_anew(doubled: tuple[str, Any]):
    name, fn = doubled
    there, result = rnp.array(X).to(name), fn(X)
    registry.get(name).device.handle.destroy()  # type: ignore[attr-defined]
    with pytest.raises(rlx.DeviceLostError, match=f"the device {name} was lost"):
        fn(there)
    with pytest.raises(rlx.DeviceLostError, match="reading an array"):
        result.tolist()
    assert fn(rnp.array(X).to(name)).tolist() == [2, 4, 6]


def test_memory_that_is_not_there(doubled: tuple[str, Any]):
    name, _ = doubled
    memory = registry.get(name).memory
    with pytest.raises(rlx.DeviceMemoryError, match="max-storage-buffer-binding-size"):
        memory.empty((1 << 40,), np.dtype(np.float32))  # type: ignore[union-attr]
    with pytest.raises(rlx.DeviceMemoryError, match="a temporary of <lambda>"):
        rlx.jit(lambda x: rnp.cumsum(x[:, None] * x, axis=0).sum(), device=name)(
            np.ones(7000, np.float32)
        )
    # elements that no int32 counts
    wide = rlx.jit(lambda x: rnp.broadcast_to(x, (1 << 20, 1 << 12)) * 2, device=name)
    with pytest.raises(
        rlx.DeviceMemoryError, match=f"kernels of {name} cannot reach 171"
    ) as caught:
        wide(np.ones(1 << 12, np.float32))
    assert caught.value.where.startswith("test_webgpu.py")
    assert "max-storage-buffer-binding-size" in caught.value.notes[0]


@pytest.mark.parametrize(
    ("raised", "error"),
    [("GPUOutOfMemoryError", rlx.DeviceMemoryError), ("GPUInternalError", rlx.DeviceFailure)],
)
def test_what_the_driver_refuses(
    doubled: tuple[str, Any], monkeypatch: pytest.MonkeyPatch, raised: str, error: type
):
    import wgpu

    name, fn = doubled
    opened = registry.get(name).device  # type: ignore[attr-defined]

    def refused(**kw: Any) -> None:
        raise getattr(wgpu, raised)("the driver stumbled")

    with monkeypatch.context() as patched:
        patched.setattr(opened.handle, "create_buffer", refused)
        opened.pool.trim()
        with pytest.raises(error, match="the driver stumbled"):
            rnp.array(np.ones(5000, np.float32)).to(name)
    assert fn(rnp.array(X).to(name)).tolist() == [2, 4, 6]


def test_a_kernel_that_does_not_compile(doubled: tuple[str, Any], monkeypatch: pytest.MonkeyPatch):
    name, _ = doubled
    with monkeypatch.context() as patched:
        patched.setattr(Wgsl, "loop", lambda self, *_: "no word of the language {")
        with pytest.raises(rlx.KernelBuildError, match="does not compile this kernel"):
            rlx.jit(lambda x: x @ x + 1, device=name)(F32[:, :6])
