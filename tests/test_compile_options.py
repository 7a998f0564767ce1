"""The options `dce`, `const_fold`, `fuse`, `dump_ir` and `assert_fused`, and what `jit` advises."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.builder import build
from rlx.ir.graph import OPS, Constant
from rlx.ir.types import type_of
from rlx.lower.target import FUSIONS

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(-1, 2, 16, dtype=np.float32).reshape(4, 4)
DEVICES = ["cpu", "reference", "xla", "mlx", "opencl", "webgpu"]


def compiled(fn, *specs, device="cpu", **options) -> rlx.CompiledGraph:
    if not rlx.Device(device).is_available():
        pytest.skip(f"{device} is not here")
    return rlx.Session(device).compile(fn, *specs, options=options)


def network(x, w):
    y = rnp.exp(x) * 2 + 1
    y = rnp.tanh(y @ w + 1)
    return (y / y.sum(axis=1, keepdims=True)) * 3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options",
    [{"dce": False}, {"const_fold": False}, {"fuse": False}, {"fuse": ("rows", "epilogues")}],
    ids=str,
)
def test_results_stay_the_same(device, options):
    usual = compiled(network, X, W, device=device)(X, W)
    found = compiled(network, X, W, device=device, **options)(X, W)
    np.testing.assert_allclose(np.asarray(found), np.asarray(usual), rtol=1e-6)


def steps(program: rlx.CompiledGraph) -> int:
    """How many steps its loop program has."""
    (count,) = re.findall(r"ops became (\d+) steps", program.report())
    return int(count)


def test_fewer_kinds_of_fusion_make_more_steps():
    x = np.ones((64, 256), np.float32)
    w = np.ones((256, 256), np.float32)
    counts = [steps(compiled(network, x, w, fuse=kinds)) for kinds in (True, FUSIONS[:3], False)]
    assert counts[0] <= counts[1] < counts[2]
    alone = compiled(lambda x: rnp.exp(x) * 2 + 1, x, fuse=False)
    assert steps(alone) == 3 and steps(compiled(lambda x: rnp.exp(x) * 2 + 1, x)) == 1
    assert steps(compiled(network, x, w, fuse=set(FUSIONS) - {"rows"})) > counts[0]


def test_xla_fuses_nothing_where_it_is_not_to():
    alone = compiled(network, X, W, device="xla", fuse=False).stages["hlo"]
    assert fused_by_xla(compiled(network, X, W, device="xla").stages["hlo"])
    assert not fused_by_xla(alone)


def fused_by_xla(text: str) -> list[str]:
    """Computations of several operations; some emitters of XLA wrap each single one as well."""
    called = re.findall(r" fusion\(.*calls=%?([\w.-]+)", text)
    return [name for name in called if not name.startswith("wrapped_")]


def test_dead_operations_stay_if_they_are_to():
    def f(x):
        rnp.sin(x)  # nobody needs it
        return x + 1

    graph = rlx.make_graph(f)(X)
    assert any(node.op.name == "sin" for node in graph.nodes)
    for device in ("cpu", "xla"):
        usual, whole = (compiled(graph, device=device, dce=d) for d in (True, False))
        last = list(usual.stages)[-1] if device == "xla" else "lir"
        assert "sin" not in usual.stages[last] and "sin" in whole.stages[last]
        np.testing.assert_array_equal(np.asarray(whole(X)), X + 1)
    out = np.empty_like(X)
    whole.run_into(X, out=[out])
    np.testing.assert_array_equal(out, X + 1)
    jitted = rlx.jit(f, options={"dce": False})
    np.testing.assert_array_equal(np.asarray(jitted(X)), X + 1)
    assert "sin" in jitted.lower(X).compile().stages["lir"]


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_constants_are_folded_unless_they_are_not_to_be(device):
    graph = build(lambda x: x + OPS["sin"](OPS["constant"](value=Constant(X))), [type_of(X)], "f")
    usual, kept = (compiled(graph, device=device, const_fold=fold) for fold in (True, False))
    stage = "lir" if device == "cpu" else "simplified again"
    assert "sin" not in usual.stages[stage] and "sin" in kept.stages[stage]
    for program in (usual, kept):
        np.testing.assert_allclose(np.asarray(program(X)), X + np.sin(X), rtol=1e-6)


def test_stages_are_dumped(tmp_path):
    place = tmp_path / "stages"
    for _ in range(2):
        compiled(network, X, W, dump_ir=place)
        (folder,) = place.iterdir()
    names = {path.name for path in folder.iterdir()}
    assert {"00_hir.txt", "report.txt"} <= names and any(n.endswith(".s") for n in names)
    f = rlx.jit(network, options=rlx.CompileOptions(dump_ir=tmp_path / "jitted"))
    f(X, W)
    assert len(list((tmp_path / "jitted").iterdir())) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(rlx.ConfigError, match="nothing can be written"):
        compiled(network, X, W, dump_ir=tmp_path / "file")


def test_what_is_not_fused_is_an_error_if_it_is_to_be():
    def f(x):
        y = rnp.exp(x)
        return y / y.sum(axis=0)

    assert compiled(lambda x: rnp.exp(x) + 1, X, assert_fused=True) is not None
    x = np.ones((300, 400), np.float32)
    with pytest.raises(rlx.FusionError) as caught:
        compiled(f, x, assert_fused=True)
    text = str(caught.value)
    assert re.search(r"f: \d operations? could not be fused", text)
    assert "test_compile_options.py" in text and "  fix    leave out assert_fused" in text
    with pytest.raises(rlx.FusionError):
        compiled(lambda x: rnp.exp(x) + 1, X, assert_fused=True, fuse=False)
    with pytest.raises(rlx.ArgumentError, match="does not tell which"):
        compiled(f, x, device="reference", assert_fused=True)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"dce": 1}, "dce is 1"),
        ({"const_fold": "no"}, "const_fold is 'no'"),
        ({"fuse": "row"}, "fuse is 'row'"),
        ({"fuse": ["rows", 3]}, "fuse is"),
        ({"fuse": None}, "fuse is None"),
        ({"fuse": np.ones(2)}, "fuse is"),
        ({"dump_ir": 3}, "dump_ir is 3"),
        ({"dump_ir": ""}, "dump_ir is ''"),
        ({"assert_fused": None}, "assert_fused is None"),
    ],
)
def test_wrong_options_are_named(options, what):
    with pytest.raises(rlx.ArgumentError, match=re.escape(what)):
        rlx.CompileOptions(**options)


def test_options_are_in_the_key():
    session = rlx.Session("cpu")
    kinds: list[dict] = [{}, {"dce": False}, {"const_fold": False}, {"fuse": False}]
    kinds += [{"fuse": "rows"}, {"assert_fused": True}]
    for options in (*kinds, *kinds):
        session.compile(lambda x: rnp.exp(x) + 1, X, options=options)
    assert session.cache.stats.misses == len(kinds)
    assert rlx.CompileOptions(fuse=FUSIONS).fuse is True
    assert rlx.CompileOptions(fuse={"rows", "chains"}) == rlx.CompileOptions(
        fuse=["chains", "rows"]
    )


def test_jit_takes_options():
    f = rlx.jit(lambda x: rnp.exp(x) * 2, options={"fuse": False}, tier="max")
    assert steps(f.lower(X).compile()) == 2
    with pytest.raises(rlx.ArgumentError, match="tier is given twice"):
        rlx.jit(lambda x: x, options={"tier": "fast"}, tier="max")
    with pytest.raises(rlx.ArgumentError, match="no field 'fused'"):
        rlx.jit(lambda x: x, options={"fused": True})


def test_sizes_that_change_are_advised():
    f = rlx.jit(lambda x, w: x @ w)
    assert f.cache_info().advice == ""
    for n in (3, 5):
        f(np.ones((n, 4), np.float32), W)
    assert f.cache_info().advice == "rlx.jit(f, dynamic={'x': {0: 'n'}})"
    better = rlx.jit(lambda x, w: x @ w, dynamic={"x": {0: "n"}})
    for n in (3, 5):
        better(np.ones((n, 4), np.float32), W)
    assert better.cache_info().compiles == 1 and better.cache_info().advice == ""


def test_equal_sizes_have_one_name():
    f = rlx.jit(lambda b, y: b["x"].sum() + b["x"] @ y)
    for n in (3, 5, 6):
        f({"x": np.ones((n, n), np.float32)}, np.ones(n, np.float32))
    advice = f.cache_info().advice
    assert advice == """rlx.jit(f, dynamic={'b["x"]': {0: 'n', 1: 'n'}, 'y': {0: 'n'}})"""
    g = rlx.jit(lambda x: x)
    g(np.ones(3, np.float32)), g(np.ones(3, np.int32)), g(np.ones((3, 3), np.float32))
    assert g.cache_info().advice == ""
