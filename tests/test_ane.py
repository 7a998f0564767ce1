"""Core ML programs: what MIL says of them; on a Mac their numbers too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit import graph_of, tolerance_of

import rlx
import rlx.numpy as rnp
from rlx import lax, nn

ct: Any = pytest.importorskip("coremltools", reason="coremltools is not installed")

from coremltools.converters.mil.mil import Builder as mb, Function  # noqa: E402

from rlx.backends.ane import program  # noqa: E402
from rlx.backends.ane.emit import (  # noqa: E402
    ROWS,
    run,
    table,
)
from rlx.ir.errors import RlxError  # noqa: E402
from rlx.ir.graph import OPS  # noqa: E402
from rlx.ir.interpret import interpret  # noqa: E402
from rlx.runtime.supports import Case  # noqa: E402

X = np.array([[1.0, -2.0, 3.0]], np.float32)
FLOAT32, INT32, FLOAT16 = 65568, 131104, 65552  # as Core ML numbers its dtypes


def features(path: Path) -> list[tuple[str, list[int], int]]:
    """The inputs and outputs of a package that is read again."""
    with program.quiet():
        found = ct.models.MLModel(str(path), skip_model_load=True).get_spec().description
    return [
        (f.name, list(f.type.multiArrayType.shape), f.type.multiArrayType.dataType)
        for f in (*found.input, *found.output)
    ]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_rows_have_the_types_and_numbers_of_the_reference(name: str):
    """MIL computes what it knows, in NumPy: so rows are compared with the reference anywhere."""
    written = 0
    for sample in OPS[name].sample_list:
        case = Case(OPS[name], sample)
        for _, arrays in case.swept(("bool", "int32", "float16", "float32")):
            arrays = [x.astype(np.int32) if x.dtype == np.int64 else x for x in arrays]  # indices
            graph = graph_of(case.op, arrays, case.attrs)
            try:
                stages = program.prepared(graph)
            except RlxError as error:
                assert error.fix
                continue
            compare(graph, list(stages.values())[-1], arrays)
            written += 1
    assert written


def compare(graph: Any, mir: Any, arrays: list[np.ndarray]) -> None:
    with program.quiet(), Function({}, opset_version=program.TARGET) as function:
        given = [mb.const(val=np.array(a) if a.shape else a[()]) for a in arrays]
        made = run(mir, given, table())
        function.set_outputs(list(made))
    tolerance = tolerance_of(*graph.param_types, *graph.result_types)
    for found, wanted in zip(made, interpret(graph, arrays), strict=True):
        assert program.OF_MIL[found.dtype] == wanted.dtype
        assert tuple(found.shape) == wanted.shape
        if found.val is not None:
            number = np.asarray(found.val, np.float64)
            np.testing.assert_allclose(number, wanted.astype(np.float64), tolerance, tolerance)


def test_integers_are_divided_up_to_the_least_one():
    least, most = -(2**31), 2**31 - 1
    numbers = np.array([least, least + 1, -7, -6, -1, 0, 1, 6, 7, most - 1, most], np.int32)
    x, y = np.meshgrid(numbers, numbers)

    def f(x, y):
        return x // y, x % y, lax.div(x, y), lax.rem(x, y)

    graph = rlx.make_graph(f)(x, y)
    compare(graph, list(program.prepared(graph).values())[-1], [x, y])


def test_a_package_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def write(offset: float) -> Path:
        return rlx.export_coreml(
            lambda x: x + offset, rlx.spec((2,)), path=tmp_path / "f.mlpackage"
        )

    path = write(1.0)
    files = sorted(path.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copytree", fail)
        with pytest.raises(OSError, match="no space left"):
            write(2.0)
    assert sorted(path.rglob("*")) == files and features(path)
    assert write(3.0) == path and features(path) and list(tmp_path.iterdir()) == [path]


def fail(*arguments: object) -> None:
    raise OSError("no space left")


def test_a_model_is_written_with_its_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = nn.MLP([64, 32, 10], key=rlx.random.key(0))
    path = rlx.export_coreml(model, rlx.spec((2, 64)), path=tmp_path / "digits.mlpackage")
    assert features(path) == [("x", [2, 64], FLOAT32), ("y0", [2, 10], FLOAT32)]
    assert sum(f.stat().st_size for f in path.rglob("*.bin")) > 4 * 64 * 32
    assert capsys.readouterr() == ("", "")


def test_dtypes_scalars_and_flags_of_a_package(tmp_path: Path):
    def f(größe, n, flag):
        x = größe
        return rnp.where(flag, x, x * n), (x > 0).any(), n + 1, x.astype("float16")

    specs = rlx.spec((2, 3)), rlx.spec((), "int32"), rlx.spec((), "bool")
    path = rlx.export_coreml(f, *specs, path=tmp_path / "f.mlpackage")
    inputs = [("gr_e", [2, 3], FLOAT32), ("n", [1], INT32), ("flag", [1], INT32)]
    outputs = [("y0", [2, 3], FLOAT32), ("y1", [1], INT32), ("y2", [1], INT32)]
    assert features(path) == [*inputs, *outputs, ("y3", [2, 3], FLOAT16)]


def test_loops_and_choices_are_written(tmp_path: Path):
    def f(x):
        def step(c, r):
            c = rlx.cond(r.sum() > 0, lambda c: c + r, lambda c: c * 2, c)
            return c, c.sum()

        last, sums = rlx.scan(step, x[0], x)
        return rlx.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, last), sums

    path = rlx.export_coreml(f, rlx.spec((3, 4)), path=tmp_path / "f.mlpackage")
    assert features(path)[1:] == [("y0", [4], FLOAT32), ("y1", [3], FLOAT32)]


def test_what_core_ml_cannot_run_says_why(tmp_path: Path):
    def written(f: Any, *specs: Any, **options: Any) -> None:
        rlx.export_coreml(f, *specs, **{"path": tmp_path / "f.mlpackage"} | options)

    x = rlx.spec((2, 3))
    with pytest.raises(rlx.UnsupportedDtype, match="x: ane has no float64") as caught:
        written(lambda x: x * 2, np.ones(3))
    assert "convert it to float32" in str(caught.value)
    with pytest.raises(rlx.UnsupportedOp, match="there is no row 'svd'") as unsupported:
        written(lambda x: rnp.linalg.svd(x), x)
    assert "test_ane.py" in str(unsupported.value)
    with pytest.raises(rlx.ShapeError, match="Core ML has no empty arrays"):
        written(lambda x: x, rlx.spec((0, 3)))
    with pytest.raises(rlx.AttributeValueError, match=r"end it in .mlpackage"):
        written(lambda x: x, x, path=tmp_path / "f.onnx")
    with pytest.raises(rlx.AttributeValueError, match="the precision is 'int8'"):
        written(lambda x: x, x, precision="int8")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "darwin", reason="here it runs")
def test_the_device_is_on_macs_only():
    with pytest.raises(rlx.DeviceUnavailable, match="Core ML runs on macOS only") as caught:
        rlx.jit(lambda x: x, device="ane")
    assert "rlx.export_coreml" in str(caught.value)


@pytest.mark.skipif(sys.platform != "darwin", reason="Core ML runs on macOS only")
def test_the_device_computes_what_the_reference_does():
    model = nn.MLP([3, 8, 2], key=rlx.random.key(0))
    f = lambda x: (nn.softmax(model(x)), (x > 0).all())  # noqa: E731
    found, wanted = (rlx.jit(f, device=d)(X) for d in ("ane", "reference"))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-3, atol=1e-3)
