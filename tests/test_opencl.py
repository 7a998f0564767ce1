"""The OpenCL device, where this machine has one: what it shares with all devices is elsewhere."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.backends.c_like.dialect import Limits
from rlx.backends.opencl import machine
from rlx.backends.opencl.backend import target_of
from rlx.backends.opencl.machine import Queued
from rlx.ir.config import config
from rlx.ir.interpret import interpret
from rlx.lower.pipeline import lower
from rlx.nn import functional

DEVICE = rlx.Device("opencl")
needs_device = pytest.mark.skipif(not DEVICE.is_available(), reason=f"opencl: {DEVICE.reason}")
X = np.linspace(-2, 2, 4 * 6 * 8).astype(np.float32).reshape(4, 6, 8)
W = np.cos(np.arange(64)).astype(np.float32).reshape(8, 8)


def open_machine() -> Any:
    """The device as the backend has it open."""
    return registry.get("opencl").memory


def check(fn, *args, tolerance=1e-5):
    """The same numbers as the reference."""
    found = rlx.tree.leaves(rlx.jit(fn, device="opencl")(*args))
    wanted = rlx.tree.leaves(rlx.jit(fn, device="reference")(*args))
    for x, y in zip(found, wanted, strict=True):
        assert (x.device, x.dtype, x.shape) == ("opencl", y.dtype, y.shape)
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), tolerance, tolerance)


@needs_device
def test_loops_and_branches_run_on_the_device():
    def f(x, w, flag):
        scanned = rlx.scan(lambda c, v: (rnp.tanh(c @ w + v), c.sum()), x[0], x, reverse=True)
        grown = rlx.while_loop(lambda s: s[1] < 5, lambda s: (s[0] * 1.5, s[1] + 1), (x, 0))
        chosen = rlx.cond(flag, lambda w: rnp.sin(w) @ w, lambda w: w + 1, w)
        filled = rlx.fori_loop(0, 5, lambda i, s: s.at[i].set(s[i] @ w), w)
        return scanned, grown, chosen, filled

    check(f, X, W, np.array(True))


@needs_device
def test_loops_of_no_rounds_leave_what_they_were_given():
    def f(rows):
        return rlx.scan(lambda c, row: (c + row, c * row), rnp.float32(2.0), rows, reverse=True)

    nothing = np.zeros(0, np.float32)
    check(f, nothing)
    check(rlx.value_and_grad(lambda rows: f(rows)[0]), nothing)


@needs_device
def test_models_and_their_gradients():
    def loss(parameters, x):
        kernel, w = parameters
        y = rnp.tanh(rlx.lax.conv_general_dilated(x[:, None], kernel, (1, 1), "SAME"))
        scores = functional.softmax(y[:, 0] @ w @ y[:, 1].swapaxes(1, 2))
        return (scores @ y[:, 0]).sum() + rnp.sort(x, axis=1)[:, 0].sum()

    kernel = np.linspace(-1, 1, 18).astype(np.float32).reshape(2, 1, 3, 3)
    check(rlx.value_and_grad(loss), (kernel, W), X, tolerance=1e-4)


@needs_device
@pytest.mark.parametrize("sizes", [(1, 70, 33), (70, 33, 1), (100, 300, 70)])
def test_products_of_all_shapes(sizes):
    m, k, n = sizes
    x = np.sin(np.arange(m * k)).astype(np.float32).reshape(m, k)
    y = np.cos(np.arange(k * n)).astype(np.float32).reshape(k, n)
    check(lambda x, y: (rnp.abs(x @ y) + 1, y.T @ x.T), x, y, tolerance=1e-4)


@needs_device
def test_halves_are_rounded_as_by_numpy():
    wide = np.array([0, -0.0, 1 / 3, 65519, 65520, 6e-8, 2.98e-8, 1e-30, np.inf, np.nan], "f4")
    both = rlx.jit(lambda x: (x.astype("float16"), x.astype("bfloat16")), device="opencl")(wide)
    with np.errstate(all="ignore"):
        halves = [wide.astype(x.dtype) for x in both]
    for found, wanted in zip(both, halves, strict=True):
        np.testing.assert_array_equal(np.asarray(found).astype("f4"), wanted.astype("f4"))
        back = rlx.jit(lambda x: x.astype("float32"), device="opencl")(wanted)
        np.testing.assert_array_equal(np.asarray(back), wanted.astype("f4"))


@needs_device
def test_arrays_of_any_shape_come_back_as_they_were():
    for array in (np.float32(3), np.zeros((0, 3), np.float32), X[:, ::2].T, np.array([True])):
        there = rnp.array(array).to("opencl")
        assert there.device == "opencl" and there.shape == np.shape(array)
        np.testing.assert_array_equal(np.asarray(there), array)
    found = rnp.array(X).to("opencl")
    assert np.mean(found == X) == 1


@needs_device
def test_what_runs_on_the_host_is_told():
    compiled = rlx.jit(lambda x: rnp.linalg.inv(x), device="opencl").lower(W).compile()
    assert "library: on the host" in compiled.report()
    assert (
        "__kernel" in rlx.jit(lambda x: x + 1, device="opencl").lower(W).compile().stages["opencl"]
    )


@needs_device
def test_built_programs_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    machine = open_machine()
    monkeypatch.setitem(vars(machine), "keeps_builds", False)
    text = "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2.0f; }"
    with config.using(cache=tmp_path):
        assert machine.build(text).kernel_names == "twice"
        assert len(list(tmp_path.iterdir())) == 1
        # the second time nothing is compiled
        monkeypatch.setattr(machine, "build_text", None)
        assert machine.build(text).kernel_names == "twice"


@needs_device
@pytest.mark.parametrize("threads", [64, 256])
def test_groups_share_rows_and_tiles_as_on_a_gpu(threads: int, monkeypatch: pytest.MonkeyPatch):
    """What is written for devices of many threads gives the same numbers."""

    def f(x, w):
        normal = functional.layer_norm(x, rnp.ones(8, "float32"), rnp.zeros(8, "float32"))
        long = rnp.concatenate([x.reshape(-1)] * 9)
        sums = [(long > 1.9).any(), rnp.max(long), long.sum(), rnp.prod(x, 1), x.T + 1]
        for line in (rnp.cumsum(long), rlx.lax.cummax(long.reshape(4, -1), axis=1, reverse=True)):
            sums.append(line[..., ::7])
        return functional.softmax(x @ w), normal, long[:99] @ long[:99], *sums

    graph = rlx.make_graph(f)(X, W)
    monkeypatch.setattr(open_machine(), "limits", Limits(threads))
    executable = registry.get("opencl").compile(graph, rlx.Array)
    assert "barrier" in executable.stages["opencl"]
    for found, wanted in zip(executable.entry(X, W), interpret(graph, [X, W]), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, 1e-5, 1e-4)


def test_a_device_without_float64_refuses_it():
    class Small:
        name, has_doubles, is_processor = "opencl", False, True

    target = target_of(Small())  # type: ignore[arg-type]
    with pytest.raises(rlx.UnsupportedDtype, match="opencl has no float64"):
        lower(rlx.make_graph(lambda x: x + 1)(np.ones(3)), target)
    made = lower(rlx.make_graph(lambda x: rnp.exp(x).sum())(X), target)
    assert "f64" not in str(made.program)


# -- failures -------------------------------------------------------------------------------------


@needs_device
def test_a_kernel_that_does_not_build():
    machine = open_machine()
    with pytest.raises(rlx.KernelBuildError, match="cannot build the kernels"):
        machine.build("__kernel void wrong(__global float *x) { x = nothing; }")
    check(lambda x: x + 1, X)


@needs_device
def test_quick_programs_are_built_together(monkeypatch: pytest.MonkeyPatch):
    machine, built = open_machine(), []
    quick = rlx.runtime.session.CompileOptions(tier="fast")
    session = rlx.Session("opencl")

    def compiled(k: int) -> Any:
        return session.compile(rlx.make_graph(lambda x: x * float(k) + 1)(X), options=quick)

    build = machine.build_text
    monkeypatch.setattr(machine, "build_text", lambda text: [built.append(text), build(text)][1])
    three = [compiled(k) for k in range(3)]
    for k in (2, 0, 1):
        np.testing.assert_array_equal(np.asarray(three[k](X)), X * np.float32(k) + 1)
    assert len(built) == 1 and built[0].count("__kernel ") == 3
    with monkeypatch.context() as patched:  # a kernel that does not build is its program's fault
        two = [compiled(7), compiled(8)]
        wrong = two[0].executable.stages["opencl"]
        fail = lambda text: build("no kernel" if "7.0f" in text else text)  # noqa: E731
        patched.setattr(machine, "build_text", fail)
        assert "7.0f" in wrong
        np.testing.assert_array_equal(np.asarray(two[1](X)), X * 8 + 1)
        with pytest.raises(rlx.KernelBuildError, match="cannot build the kernels"):
            two[0](X)


@needs_device
def test_memory_that_is_not_there():
    machine = open_machine()
    with pytest.raises(rlx.DeviceMemoryError, match="has not enough memory") as caught:
        with machine.doing("making an array"):
            machine.empty((1 << 50,), np.dtype("float32"))
    assert caught.value.where.startswith("test_opencl.py") and caught.value.notes
    check(lambda x: x + 2, X)


@needs_device
def test_a_device_that_is_lost(monkeypatch: pytest.MonkeyPatch):
    machine = open_machine()
    double = rlx.jit(lambda x: x * 2, device="opencl")
    lost = double(X)

    def fail(*args, **kwargs):
        raise machine.cl.RuntimeError("clEnqueueNDRangeKernel failed: DEVICE_NOT_AVAILABLE")

    with monkeypatch.context() as patched:
        patched.setattr(Queued, "enqueue", fail)
        with pytest.raises(rlx.DeviceLostError, match="opencl was lost at running"):
            double(X)
    with pytest.raises(rlx.DeviceLostError, match="make the array again"):
        np.asarray(lost)
    np.testing.assert_array_equal(np.asarray(double(X)), X * 2)


@pytest.mark.parametrize("version", ["OpenCL 2.0 PoCL 3.0-rc2", None])
def test_absence_has_a_reason(version: str | None, monkeypatch: pytest.MonkeyPatch):
    class Platform:
        name = "Portable Computing Language"

        def __init__(self) -> None:
            self.version = version

        def get_devices(self):
            return [FakeDevice()]

    class FakeDevice:
        name, type, platform = "cpu", 2, Platform()

    class Library:
        Error = ValueError

        class device_type:
            CPU = 2

        @staticmethod
        def get_platforms():
            if version is None:
                raise ValueError("PLATFORM_NOT_FOUND_KHR")
            return [Platform()]

    monkeypatch.setattr(machine, "library", Library)
    device, found = machine.find("")
    assert device is None and not found.is_available
    assert "pocl-opencl-icd" in found.install
    assert ("PoCL 3.0" in found.reason) == (version is not None)
    if version is not None:
        assert machine.find("pocl")[1].reason == found.reason  # by its platform's version
        assert not machine.find("²")[1].is_available
        _, other = machine.find("nvidia")
        assert "'nvidia'" in other.reason and "0: cpu" in other.install


@pytest.mark.parametrize(
    ("platform", "kind", "said", "keeps"),
    [
        ("Intel(R) OpenCL", 2, None, False),
        ("Intel(R) OpenCL", 2, "True", False),
        ("Intel(R) OpenCL", 2, "False", True),
        ("Intel(R) OpenCL Graphics", 4, None, True),
        ("Portable Computing Language", 2, None, True),
    ],
)
def test_a_driver_that_adds_in_another_order_is_known(
    platform: str, kind: int, said: str | None, keeps: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(machine.VECTORIZER, raising=False)
    if said is not None:
        monkeypatch.setenv(machine.VECTORIZER, said)
    one = machine.ClMachine.__new__(machine.ClMachine)
    one.cl = SimpleNamespace(device_type=SimpleNamespace(CPU=2))
    one.device = SimpleNamespace(type=kind, platform=SimpleNamespace(name=platform))
    assert one.keeps_order is keeps
