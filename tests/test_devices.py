"""Devices by name, arrays that lie on one, and devices that other packages bring."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.runtime.session import default_session

X = np.array([1.0, 2.0, 3.0], np.float32)


# -- names ----------------------------------------------------------------------------------------


def test_devices_are_known_by_name():
    assert rlx.Device("host") == "cpu" == str(rlx.Device("cpu"))
    assert rlx.Device("cpu") in rlx.devices() and rlx.Device("cpu").reason == ""
    with pytest.raises(rlx.UnknownDeviceError, match="did you mean 'reference'"):
        rlx.Device("referense")
    with pytest.raises(rlx.UnknownDeviceError, match="the device 'cpu' has no parts"):
        rlx.Device("cpu:1")
    with pytest.raises(
        rlx.UnknownDeviceError, match="behind the colon of 'cuda:' there is nothing"
    ):
        rlx.Device("cuda:")
    for open_device in (rlx.Session, lambda name: rlx.jit(lambda x: x, device=name)):
        with pytest.raises(rlx.UnknownDeviceError, match="there is no device ''"):
            open_device("")
    uses: list[Any] = [rnp.ones(2).to, rlx.Session, lambda x: rlx.array(X, device=x)]
    uses.append(lambda x: rlx.device(x).__enter__())
    for use in uses:
        with pytest.raises(rlx.UnknownDeviceError, match="there is no device 3") as caught:
            use(3)
        assert "test_devices.py" in str(caught.value)


@pytest.mark.parametrize("name", ["xla", "mlx", "opencl", "webgpu"])
def test_all_names_of_a_device_are_one(name: str):
    if not rlx.Device(name).is_available():
        pytest.skip(rlx.Device(name).reason)
    opened: Any = registry.get(name)
    parts = {
        "xla": lambda: f"{opened.device.platform}:0",
        "mlx": lambda: "gpu" if opened.is_gpu else "cpu",
        "opencl": lambda: "0",
        "webgpu": lambda: opened.description().partition(" ")[0],
    }
    longer = f"{name}:{parts[name]()}"
    assert rlx.Device(longer) == rlx.Device(name) == name
    assert registry.get(longer) is opened
    there = rlx.device_put(X, longer)
    double = rlx.jit(lambda x: x * 2, device=longer)
    assert double(there).device == name and there.to(name) is there
    assert default_session(longer) is default_session(name)


def test_every_device_says_what_runs_it_or_what_to_install():
    for device in rlx.devices():
        if device.is_available():
            assert device.description and not device.reason
        else:
            assert device.reason and device.install
            with pytest.raises(rlx.DeviceUnavailable) as caught:
                rlx.jit(lambda x: x, device=device)
            assert device.reason in str(caught.value) and device.install in str(caught.value)


def test_the_doctor_prints_all_devices():
    command = [sys.executable, "-m", "rlx", "doctor"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text.startswith("rlx ") and all(f" {d} " in text for d in rlx.devices())


def test_a_package_brings_a_device(boxed: str):
    assert boxed in rlx.devices() and rlx.Device(boxed).description == "boxes"
    found = rlx.testing.check_backend(boxed, ops=["add", "sort", "scan"])
    assert len(found.outcomes) > 10 and not found.gaps
    with pytest.raises(rlx.ArgumentError, match="there is no op 'sorted'"):
        rlx.testing.check_backend(boxed, ops=["add", "sorted"])


def test_a_package_takes_no_name_of_ours_and_none_with_a_colon(boxed: str):
    names = [str(device) for device in rlx.devices()]
    assert names[-1] == boxed and len(names) == len(registry.BACKENDS) + 1


def test_a_package_that_fails_says_so(boxed: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "boxed_backend", None)
    registry._open.cache_clear()
    assert "ImportError" in rlx.Device(boxed).reason or "ModuleNotFound" in rlx.Device(boxed).reason
    with pytest.raises(rlx.DeviceUnavailable, match="the package that brings the device 'boxed'"):
        rlx.Session(boxed)


def test_memory_that_cannot_wait_is_told(boxed: str, monkeypatch: pytest.MonkeyPatch):
    import boxed_backend

    class Hasty(boxed_backend.BoxMemory):
        wait = None

    monkeypatch.setattr(boxed_backend.BoxedBackend, "memory", Hasty())
    for use in (rlx.testing.check_backend, rnp.ones(2).to, rlx.Session):
        with pytest.raises(rlx.DeviceUnavailable, match="a Hasty, is no rlx"):
            use(boxed)


# -- arrays there ---------------------------------------------------------------------------------


def test_arrays_move_and_ops_run_where_they_lie(boxed: str):
    x = rnp.array(X).to(boxed)
    assert (x.device, x.to("cpu").device, rlx.device_put(X, boxed).device) == (boxed, "cpu", boxed)
    assert (x + 1).device == (x * X).device == (rnp.ones(3) - x).device == boxed
    assert rnp.sin(x).tolist() == pytest.approx(np.sin(X).tolist())
    assert rlx.grad(lambda x: (x * x).sum())(x).device == boxed
    assert repr(x) == "Array([1., 2., 3.], dtype=float32, device='boxed')"
    np.testing.assert_array_equal(np.asarray(x.at[1].set(7.0)), [1, 7, 3])
    x[0] = 5.0
    assert (x.device, x.tolist()) == (boxed, [5, 2, 3])


def test_compiled_functions_run_where_their_arguments_lie(boxed: str):
    f = rlx.jit(lambda x, y: {"sum": x + y, "x": x})
    there = rnp.array(X).to(boxed)
    for _ in range(2):  # recorded, then remembered
        assert f(X, X)["sum"].device == "cpu"
        assert f(there, X)["sum"].device == f(X, there)["x"].device == boxed
    assert f.lower(there, X).compile()(X, X)["x"].device == boxed
    assert f.run_async(there, X).result()["x"].device == boxed
    out = {"sum": np.empty(3, np.float32), "x": np.empty(3, np.float32)}
    f.run_into(there, X, out=out)
    np.testing.assert_array_equal(out["sum"], X + X)


def test_a_named_device_gets_its_arguments(boxed: str):
    weights = rnp.array(X)  # from outside: copied there once
    f = rlx.jit(lambda x: x * weights, device=boxed)
    there = rnp.array(X).to(boxed)
    assert f(X).device == f(there).device == f(rnp.array(X)).device == boxed
    assert rlx.jit(lambda x: x, device="reference")(there).device == "cpu"
    compiled = f.lower(X).compile()
    compiled.bind(x=there)
    assert compiled().tolist() == [1, 4, 9]


def test_the_default_device(boxed: str):
    f = rlx.jit(lambda x: x + 1)
    assert f(X).device == "cpu"
    with rlx.device(boxed):
        assert rlx.default_device() == boxed
        assert f(X).device == rnp.ones(2).device == rnp.array([1, 2]).device == boxed
        assert rlx.random.normal(rlx.random.key(0), (3,)).device == boxed
    assert f(X).device == rnp.ones(2).device == "cpu"


class _Elsewhere:
    name = "elsewhere"

    def to_host(self, data: np.ndarray) -> np.ndarray:
        return data

    def from_host(self, array: np.ndarray) -> np.ndarray:
        return array

    def wait(self, data: np.ndarray) -> None:
        pass


def test_two_devices_do_not_mix(boxed: str):
    here, there = rnp.array(X).to(boxed), rnp.array(X).to(_Elsewhere())
    for add in (lambda x, y: x + y, rlx.jit(lambda x, y: x + y)):
        with pytest.raises(rlx.DeviceMismatchError, match="boxed and elsewhere"):
            add(here, there)


def test_arrays_from_outside_say_where_a_function_runs(boxed: str):
    weights = rnp.array(X).to(boxed)
    f, scale = rlx.jit(lambda x: x * weights), rlx.jit(lambda x: x * weights[0])
    for _ in range(2):
        assert f(X).device == f(weights).device == (X * weights).device == scale(X).device == boxed
    assert f.lower(X).compile()(X).device == boxed
    elsewhere = rnp.array(X).to(_Elsewhere())
    with pytest.raises(rlx.DeviceMismatchError, match="boxed and elsewhere"):
        rlx.jit(lambda x: x + weights + elsewhere)(X)


def test_what_is_compiled_for_a_device_counts(boxed: str):
    f = rlx.jit(lambda x: x + 1)
    with pytest.raises(rlx.ArgumentError, match="it has no graph"):
        _ = f.graph
    f(rnp.ones((2, 3), device=boxed))
    assert f.graph.params[0].type.shape == (2, 3)
    f(X)
    assert f.graph.params[0].type.shape == (3,)
    assert f.cache_size() == f.cache_info().compiles == f.cache_info().entries == 2


@pytest.mark.parametrize("how", [{"specialize": True}, {"buckets": {"n": (4, 8)}}])
def test_open_sizes_stay_on_the_device(boxed: str, how: dict):
    f = rlx.jit(lambda x: {"twice": x * 2, "sum": x.sum()}, dynamic={"x": {0: "n"}}, **how)
    there = rnp.array(X).to(boxed)
    for x, place in ((there, boxed), (X, "cpu"), (there, boxed), (rnp.array(X), "cpu")):
        found = f(x)
        assert found["twice"].device == found["sum"].device == place
        assert found["twice"].tolist() == [2, 4, 6]
        assert found["sum"].item() == 6


def test_arrays_made_of_others_lie_beside_them(boxed: str):
    x = rnp.array(X).to(boxed)
    made = [rnp.zeros_like(x), rnp.full_like(x, 2.0), *rnp.nonzero(x), rnp.unique(x)]
    made += [rnp.setdiff1d(x, X), rnp.intersect1d(X, x), rnp.setxor1d(x, X)]
    with rlx.device(boxed):
        made += [rnp.arange(0.0, 1.0, 0.25), rnp.hanning(3), rlx.random.key(0)]
        made += rnp.tril_indices(2)
    assert {y.device for y in made} == {boxed}


def test_what_is_copied_from_and_to_a_device(boxed: str, monkeypatch: pytest.MonkeyPatch):
    memory = sys.modules["boxed_backend"].BoxMemory
    copies: list[str] = []

    def counted(name: str) -> None:
        copy = getattr(memory, name)
        monkeypatch.setattr(memory, name, lambda self, x: [copies.append(name), copy(self, x)][1])

    x = rnp.array([X, X, X]).to(boxed)
    f = rlx.jit(lambda x, y: x + y)
    compiled = rlx.Session(boxed).compile(lambda x, y: x + y, X, X)
    compiled.bind("x", rnp.array(X))
    out = np.empty((3, 3), np.float32)
    counted("wait")
    counted("to_host"), counted("from_host")
    rows = list(x)
    assert [r.device for r in rows] == [boxed] * 3
    assert copies.count("to_host") == 1
    copies.clear()
    assert x.__dlpack_device__() == np.ones(1).__dlpack_device__()
    f(x, x), compiled(rows[0])
    assert copies == []
    assert rlx.block_until_ready([x, x.block_until_ready()])[0] is x
    assert copies == ["wait"] * 3
    copies.clear()
    f.run_into(x, x, out=out)
    assert copies == ["to_host"]
    sizes = []
    copy = memory.from_host
    monkeypatch.setattr(
        memory, "from_host", lambda self, x: [sizes.append(x.size), copy(self, x)][1]
    )
    assert ((x + 1) * 2.0).tolist() == ((np.asarray(x) + 1) * 2).tolist()
    assert sizes == [1, 1]
    np.testing.assert_array_equal(out, [X + X] * 3)


def test_an_exported_function_runs_where_its_arguments_lie(
    boxed: str, monkeypatch: pytest.MonkeyPatch
):
    weights = rnp.array(X)
    f = rlx.export(lambda x: x * weights, rlx.spec((3,)))
    g = rlx.export(lambda x: x * weights.sum(), rlx.spec(("n",)))
    there = rnp.array(X).to(boxed)
    for _ in range(2):
        assert f(X).device == g(X).device == "cpu"
        assert f(there).device == boxed
        with rlx.device(boxed):
            assert f(X).device == boxed
    monkeypatch.setattr(sys.modules["boxed_backend"].BoxMemory, "from_host", None)
    assert f(there).tolist() == [1, 4, 9]  # the weights lie there


def test_rows_are_those_of_now(boxed: str):
    x = rnp.array([1.0, 2.0, 3.0]).to(boxed)
    rows = iter(x)
    assert next(rows).item() == 1
    x[1] = 7.0
    assert [r.item() for r in rows] == [7, 3]


def test_donated_arrays_of_a_device_are_gone(boxed: str):
    f = rlx.jit(lambda x: x + 1, donate_argnums=0)
    x = rnp.array(X).to(boxed)
    assert f(x).tolist() == [2, 3, 4]
    with pytest.raises(rlx.DonatedError):
        f(x)


def test_a_device_with_wrong_numbers_is_found_out(boxed: str, monkeypatch: pytest.MonkeyPatch):
    boxes = sys.modules["boxed_backend"]
    wrong = lambda graph, arrays: [r + 1 for r in interpret(graph, arrays)]  # noqa: E731
    interpret = boxes.interpret
    monkeypatch.setattr(boxes, "interpret", wrong)
    with pytest.raises(rlx.DivergenceError) as caught:
        rlx.testing.check_backend(boxed, ops=["sin"], dtypes=["float32"])
    assert "sin-0 float32: off by" in str(caught.value)


def test_the_default_device_is_chosen_by_the_environment():
    code = "import rlx; print(rlx.default_device(), rlx.jit(lambda x: x)(1).device)"
    environment = {"RLX_DEVICE": "reference", "RLX_CACHE": "0", "PATH": ""}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert run.stdout.split() == ["reference", "cpu"]


def test_every_device_waits_for_its_arrays():
    for device in filter(rlx.Device.is_available, rlx.devices()):
        for x in (X, X[:0]):
            there = rlx.array(x, device=device)
            assert there.block_until_ready() is there
            assert there.tolist() == x.tolist()


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_memory_that_cannot_be_had(device: str):
    square = rlx.jit(lambda x: x[:, None] * x[None, :], device=device)
    for _ in range(2):  # the first call compiles
        with pytest.raises(rlx.DeviceMemoryError, match=f"{device} has not enough memory"):
            square(np.ones(3_000_000, np.float32))
    assert square(np.ones(2, np.float32)).tolist() == [[1, 1], [1, 1]]
