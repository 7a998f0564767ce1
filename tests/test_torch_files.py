"""PyTorch's files: the tensors that are in them, and nothing that they ask to be run."""

from __future__ import annotations

import ast
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from torch_writer import archive, legacy_file, torch_file

import rlx
import rlx.numpy as rnp
from rlx.io import load_torch
from rlx.io.torch_files import Storage, View, _once


def same(x, y):
    """Whether two leaves are equal in type and every bit."""
    x, y = np.asarray(x), np.asarray(y)
    return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


TABLE = {
    "layers.0.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "layers.0.turned": np.arange(6.0).reshape(2, 3).T,
    "half": np.ones(3, ml_dtypes.bfloat16),
    "mask": np.array([True, False]),
    "count": np.array(3),
    "epoch": 7,
    "rate": 0.5,
}


@pytest.mark.parametrize("write", [torch_file, legacy_file])
def test_files_of_pytorch(write, tmp_path):
    path = tmp_path / "state.pt"
    path.write_bytes(write(TABLE))
    found = load_torch(path)
    assert found.keys() == TABLE.keys()
    assert all(same(found[name], x) for name, x in TABLE.items())
    nested = rlx.load(
        path, like={"layers": [{"weight": rnp.zeros((2, 3))}]}, only="layers.0.weight"
    )
    assert same(nested["layers"][0]["weight"], TABLE["layers.0.weight"])


@pytest.mark.parametrize("is_zip", [True, False])
def test_files_that_pytorch_wrote(is_zip, tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    state = model.state_dict()
    state["turned"] = torch.arange(12.0).reshape(3, 4).T[1:]
    state["wide"] = torch.ones(1, dtype=torch.bfloat16).expand(5)
    state["tied"] = state["0.weight"]
    state["parameter"] = model[0].bias
    torch.save(
        {"model": state, "epoch": 3, "small": torch.ones(3, dtype=torch.float8_e5m2)}
        if is_zip
        else {"model": state, "epoch": 3},
        tmp_path / "x.pth",
        _use_new_zipfile_serialization=is_zip,
    )
    found = load_torch(tmp_path / "x.pth")
    assert found["epoch"] == 3 and found["model.tied"] is found["model.0.weight"]
    for name, x in state.items():
        other = np.asarray(found[f"model.{name}"])
        x = x.detach()
        assert other.shape == tuple(x.shape)
        assert other.astype("f8").tolist() == x.double().numpy().tolist()


def test_a_storage_of_several_tensors_is_read_once():
    single, shared = (Storage(key, np.dtype("f4"), 6) for key in "ab")
    views = [View(single, single.dtype, 0, (6,), (1,))]
    views += [View(shared, shared.dtype, offset, (2,), (1,)) for offset in (0, 2, 4, 4)]
    read = []
    bytes_of = _once(lambda storage: read.append(storage.key) or memoryview(bytes(24)), views)
    for view in views * 2:
        assert len(bytes_of(view.storage)) == 24
    assert read == ["a", "b", "a"]  # one that is used once is not kept


def test_no_name_of_a_pickle_is_looked_up(tmp_path):
    for code in (b"cos\nsystem\n(X\x04\0\0\0echotR.", b"\x8c\x02os\x8c\x06system\x93)R."):
        (tmp_path / "evil.pt").write_bytes(archive({"a/data.pkl": b"\x80\x02" + code}))
        with pytest.raises(rlx.FileFormatError, match=r"asks for 'os.system', which rlx does not"):
            load_torch(tmp_path / "evil.pt")


def test_nothing_that_runs_code_is_used():
    for path in Path(rlx.io.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in getattr(node, "names", [])]
            assert not {"pickle", "marshal", "shelve", "importlib"} & set(map(str, names))
            assert getattr(node, "id", None) not in ("eval", "exec", "compile", "__import__")
