"""Arrays in parts on many devices of xla, and processes that train together."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_served import small_model

import rlx
from rlx.backends import registry
from rlx.ir import sharding

if not registry.availability("xla").is_available:
    pytest.skip(registry.availability("xla").reason, allow_module_level=True)

SCRIPT = Path(__file__).parent / "sharded_training.py"
ROUNDED = 1e-12  # of weights in double precision, whose sums are added in another order
MESH = rlx.Mesh((1,), ("data",))
PARTS = rlx.NamedSharding(MESH, rlx.P("data"))


def started(*arguments: object, script: Path = SCRIPT) -> subprocess.Popen[str]:
    """The training in a process of its own: JAX counts its devices once."""
    root = str(Path(rlx.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


def result_of(process: subprocess.Popen[str]) -> list:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def same(found: dict, wanted: dict) -> None:
    for name, weights in wanted.items():
        np.testing.assert_allclose(found[name], weights, ROUNDED, ROUNDED)


def test_a_language_model_is_parted_among_two_devices():
    apart, shapes = result_of(started(script=SCRIPT.with_name("parted_model.py")))
    assert apart < 2e-5  # float32 sums in another order, logits near 10
    # queries, keys and values, what is made of them, gate and up, down, norms
    assert {"(16, 32)", "(8, 32)", "(32, 16)", "(24, 32)", "(32, 24)", "(32,)"} <= set(shapes)
    with pytest.raises(rlx.ArgumentError, match="'model' is none of its axes"):
        rlx.models.tensor_parallel(small_model(), MESH, "model")
    assert "LanguageModel" in repr(rlx.models.tensor_parallel(small_model(), MESH, "data"))


def test_four_devices_and_two_processes_train_as_one():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    two = [started(address, 2, number) for number in range(2)]
    weights, loss, alone, loss_alone, shapes, equal = result_of(started())
    same(weights, alone)
    assert loss == pytest.approx(loss_alone, ROUNDED)
    assert shapes == [[2, 4], [2, 4], [1, 8]]
    assert equal == [True] * 6
    for number, process in enumerate(two):
        index, weights, loss, lost = result_of(process)
        assert (index, lost) == (number, ["DeviceFailure", ""][number])
        same(weights, alone)


def test_a_device_without_parts_says_so():
    x = np.ones(4, np.float32)
    with pytest.raises(rlx.ArgumentError, match="the device cpu does not part arrays"):
        rlx.jit(lambda x: x, device="cpu", in_shardings=PARTS)(x)
    with pytest.raises(rlx.ArgumentError, match="the device cpu does not part arrays"):
        rlx.device_put(x, rlx.NamedSharding(rlx.Mesh(1, "data", device="cpu"), rlx.P()))


@pytest.mark.parametrize("wrap", [rlx.jit, rlx.grad, rlx.vmap])
def test_a_traced_array_is_not_parted_silently(wrap):
    def fn(x):
        return (rlx.device_put({"x": x}, PARTS)["x"] * 2).sum()

    with pytest.raises(rlx.ArgumentError, match=r"it is traced(.|\n)*in_shardings"):
        wrap(fn)(np.ones(4, np.float32))


def test_what_does_not_part_is_an_error(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(rlx.ArgumentError, match="there is no axis 'model' of the mesh"):
        rlx.NamedSharding(MESH, rlx.P("model"))
    with pytest.raises(rlx.ArgumentError, match="cannot have axes"):
        rlx.Mesh((2, 2), ("data",))
    with pytest.raises(rlx.ArgumentError, match="the axis 'data' of the mesh is named twice"):
        rlx.NamedSharding(MESH, rlx.P("data", "data"))
    with pytest.raises(rlx.DeviceUnavailable, match="a mesh of 4096 devices: 'xla' has"):
        rlx.Mesh(4096, "data")
    with monkeypatch.context() as patched:  # as one that was pickled where there are more
        patched.setattr(sharding, "_check", None)
        many = rlx.NamedSharding(rlx.Mesh(4096, "data"), rlx.P("data"))
    with pytest.raises(rlx.ShapeError, match="axis 0 of argument 0 of f, x has 3 places"):
        rlx.jit(f, in_shardings=(many,))(np.ones(3, np.float32))
    with pytest.raises(rlx.DeviceUnavailable, match="a mesh of 4096 devices: 'xla' has"):
        rlx.device_put(np.ones(4096, np.float32), many)
    with pytest.raises(rlx.ArgumentError, match="in_shardings has 2 items for 1 arguments"):
        rlx.jit(f, in_shardings=(PARTS, PARTS))(np.ones(4, np.float32))
    with pytest.raises(rlx.ArgumentError, match="the meshes have 1 and 4096 devices"):
        rlx.jit(f, in_shardings=PARTS, out_shardings=many)(np.ones(4096, np.float32))
    with pytest.raises(rlx.ArgumentError, match="which names no mesh"):
        rlx.jit(f, in_shardings=(rlx.P("data"),), device="xla")(np.ones(4, np.float32))


def f(x):
    return x + 1


def test_trees_of_shardings_and_arrays_from_outside():
    scale = rlx.numpy.array([2.0, 3.0])
    g = rlx.jit(
        lambda tree, x: {"y": tree["a"] * x + tree["b"] * scale, "n": 1},
        in_shardings=({"a": PARTS, "b": None}, PARTS),
        out_shardings={"y": PARTS, "n": None},
    )
    x = np.array([1.0, 2.0], np.float32)
    for _ in range(2):
        assert g({"a": x, "b": x}, x)["y"].tolist() == [3.0, 10.0]
