"""Trees of arrays in files and back, bit for bit; what does not fit, and who wrote the file."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as npst
from torch_writer import torch_file

import rlx
import rlx.numpy as rnp
from rlx import nn, optim
from rlx.io import from_bytes, load_torch, to_bytes
from rlx.ir.types import DTYPES

FORMATS = ("safetensors", "npz")
KEY = rlx.random.key(0)


def same(x, y):
    """Whether two leaves are equal in kind, type and every bit."""
    if isinstance(x, bool | int | float | complex):
        return type(x) is type(y) and repr(x) == repr(y)
    x, y = np.asarray(x), np.asarray(y)
    return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


def assert_same(first, second):
    assert rlx.tree.structure(first) == rlx.tree.structure(second)
    for x, y in zip(rlx.tree.leaves(first), rlx.tree.leaves(second), strict=True):
        assert same(x, y), (x, y)


def check_text(error, text, fn, *args, **keywords):
    """Compare an error with a text; lines of this file become L, directories D."""
    with pytest.raises(error) as caught:
        fn(*args, **keywords)
    assert type(caught.value) is error
    found = re.sub(r"test_files\.py:\d+ in \w+ .*", "L", str(caught.value))
    assert re.sub(r"'/.*/", "'D/", found) == inspect.cleandoc(text)


# -- round trips ----------------------------------------------------------------------------------

dtypes = st.sampled_from([dtype for dtype in DTYPES.values()])


@st.composite
def arrays(draw):
    dtype = draw(dtypes)
    shape = draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    size = int(np.prod(shape)) * dtype.itemsize
    bits = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), "u1")
    return (bits & 1 if dtype.kind == "b" else bits).copy().view(dtype).reshape(shape)


numbers = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.complex_numbers()
)
names = st.text(st.characters(blacklist_characters=".", blacklist_categories=["Cs"]), min_size=1)
trees = st.recursive(
    st.one_of(arrays(), numbers),
    lambda inner: st.one_of(
        st.dictionaries(names, inner, max_size=3),
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("format", FORMATS)
@given(tree=trees)
@settings(max_examples=40, deadline=None)
def test_any_tree_comes_back(format, tree):
    leaves = rlx.tree.leaves(tree)
    if format == "npz" and any("\0" in name for name in rlx.io.files.named_leaves(tree)[0]):
        return
    data = to_bytes(tree, format=format)
    assert_same(from_bytes(data, like=tree, format=format), tree)
    specs = rlx.tree.map(lambda x: rlx.typeof(x) if isinstance(x, np.ndarray) else x, tree)
    found = rlx.tree.leaves(from_bytes(data, like=specs, format=format))
    assert all(map(same, found, leaves))


@given(table=st.dictionaries(names, arrays(), max_size=4))
@settings(max_examples=40, deadline=None)
def test_the_library_reads_what_is_written(table):
    table = {name: x for name, x in table.items() if x.dtype.name != "complex128"}
    written = dict(safetensors.deserialize(to_bytes(table)))
    assert written.keys() == table.keys()
    for name, row in written.items():
        assert (tuple(row["shape"]), bytes(row["data"])) == (
            table[name].shape,
            table[name].tobytes(),
        )
    plain = {n: x for n, x in table.items() if x.dtype.kind != "V" and "float8" not in x.dtype.name}
    for name, found in from_bytes(safetensors.numpy.save(plain)).items() if plain else ():
        assert same(found, plain[name])


def test_files_of_the_library_and_of_numpy_load(tmp_path):
    table = {
        "a.w": np.ones((2, 3)),
        "a.b": np.arange(3, dtype="i2"),
        "f": np.asfortranarray([[1, 2], [3, 4]]),
    }
    safetensors.numpy.save_file(
        {**table, "f": np.ones(1)}, tmp_path / "x.safetensors", {"by": "me"}
    )
    found = rlx.load(tmp_path / "x.safetensors")
    assert same(found["a"]["w"], table["a.w"]) and same(found["a"]["b"], table["a.b"])
    assert rlx.io.open(tmp_path / "x.safetensors").metadata == {"by": "me"}
    table["f"] = np.asfortranarray([[1, 2], [3, 4]])
    big = {"g": np.arange(3, dtype=">f4"), "h": np.ones(2, ml_dtypes.bfloat16)}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", **table, **big)
        found = rlx.load(tmp_path / "x.npz")
        assert same(found["f"], table["f"]) and same(found["g"], big["g"].astype("f4"))
        assert same(found["h"], big["h"])
    rlx.save(tmp_path / "y.npz", table)
    assert np.load(tmp_path / "y.npz")["a.w"].tolist() == table["a.w"].tolist()


def test_models_and_optimizers_come_back(tmp_path):
    model = nn.Sequential([nn.Linear(3, 4, key=KEY), nn.relu, nn.Linear(4, 2, key=KEY)])
    optimizer = optim.adamw(1e-3)
    state = {"model": model, "optimizer": optimizer.init(model), "key": KEY, "step": 3}
    rlx.save(tmp_path / "state.safetensors", state)
    other = nn.Sequential(
        [nn.Linear(3, 4, key=rlx.random.key(1)), nn.relu, nn.Linear(4, 2, key=KEY)]
    )
    like = {"model": other, "optimizer": optimizer.init(other), "key": rlx.random.key(5), "step": 0}
    found = rlx.load(tmp_path / "state.safetensors", like=like)
    assert_same(found, state)
    assert isinstance(found["model"].layers[0].weight, rlx.Array)
    assert "model.layers.0.weight" in rlx.io.open(tmp_path / "state.safetensors")
    specs = rlx.eval_shape(lambda model: model, model)
    again = rlx.load(tmp_path / "state.safetensors", {"model": specs}, only="model")
    assert_same(again["model"], model)


def test_a_lone_array_and_an_empty_tree():
    assert same(from_bytes(to_bytes(np.ones(2))), np.ones(2))
    assert from_bytes(to_bytes(3.5)) == 3.5
    assert from_bytes(to_bytes({})) == {} and from_bytes(to_bytes([]), like=[]) == []


@pytest.mark.parametrize("format", FORMATS)
def test_tied_arrays_are_written_once_and_stay_one(format):
    x = rnp.ones((100, 100))
    tree = {"embed": x, "head": [x, rnp.ones((100, 100))], "host": [np.zeros(1000)] * 2}
    data = to_bytes(tree, format=format)
    assert len(data) < 2 * 40_000 + 8_000 + 3_000
    found = from_bytes(data, like=tree, format=format)
    assert found["embed"] is found["head"][0] and found["embed"] is not found["head"][1]
    assert_same(found, tree)
    loose = from_bytes(data, format=format)
    assert loose["head"]["0"] is loose["embed"]


def test_an_open_file_is_a_mapping_that_reads_when_asked(tmp_path):
    rlx.save(tmp_path / "x.safetensors", {"w": rnp.ones((3, 4)), "n": 2}, {"by": "me"})
    with rlx.io.open(tmp_path / "x.safetensors") as file:
        assert sorted(file) == ["n", "w"] and len(file) == 2 and file["n"] == 2
        assert str(file.types["w"]) == "f32[3, 4]" and "nothing" not in file
        assert file.metadata == {"by": "me"}
        assert repr(file).endswith("x.safetensors': 2 arrays)")
        own = file["w"]
    assert own._data.base is None  # it can be donated
    with rlx.io.open(tmp_path / "x.safetensors", mapped=True) as file:
        shared = file["w"]
    memory = shared._data
    while isinstance(memory, np.ndarray):
        memory = memory.base
    assert type(memory.obj if isinstance(memory, memoryview) else memory).__name__ == "mmap"
    assert float((shared + 1).sum()) == 24.0


# -- what fits a tree -----------------------------------------------------------------------------

DATA = to_bytes({"encoder": {"w": rnp.ones((2, 3)), "b": rnp.zeros(3)}, "step": 4})


def test_a_part_of_a_file():
    like = {"encoder": {"w": rnp.zeros((2, 3)), "b": rnp.ones(3)}, "step": 0}
    found = from_bytes(DATA, like=like, only="encoder.w")
    assert float(found["encoder"]["w"].sum()) == 6.0 and found["step"] == 0
    assert found["encoder"]["b"] is like["encoder"]["b"]
    assert from_bytes(DATA, only=["encoder.b"])["encoder"].keys() == {"b"}
    assert from_bytes(DATA, only="*.w").keys() == {"encoder"}
    assert from_bytes(DATA, only=lambda name: "enc" not in name) == {"step": 4}


def test_other_names():
    like = {"body": {"w": rnp.zeros((2, 3)), "bias": rnp.ones(3)}, "step": 0}
    found = from_bytes(DATA, like=like, rename={"encoder": "body", "encoder.b": "body.bias"})
    assert float(found["body"]["w"].sum()) == 6.0 and float(found["body"]["bias"].sum()) == 0.0
    only = {"w": rnp.zeros((2, 3))}
    last = lambda name: "w" if name.endswith(".w") else None  # noqa: E731
    assert float(from_bytes(DATA, like=only, rename=last)["w"].sum()) == 6.0


def test_without_strictness_a_report_says_what_was_left():
    like = {"encoder": {"w": rnp.zeros((2, 4)), "beta": rnp.ones(3)}, "step": 0}
    found, report = from_bytes(DATA, like=like, strict=False)
    assert found["step"] == 4 and found["encoder"]["beta"] is like["encoder"]["beta"]
    assert (list(report.missing), list(report.unexpected)) == (["encoder.beta"], ["encoder.b"])
    assert list(report.mismatched) == ["encoder.w"] and not report.is_complete
    assert from_bytes(DATA, strict=False)[1].is_complete


def test_numbers_become_what_the_tree_has():
    data = to_bytes({"a": 3, "b": rnp.asarray(4), "c": 2.5, "d": rnp.asarray(0.5)})
    found = from_bytes(data, like={"a": rnp.asarray(0), "b": 0, "c": np.float64(0), "d": 0.0})
    assert (type(found["b"]), found["b"], found["d"]) == (int, 4, 0.5)
    assert same(found["a"], np.int32(3)) and same(found["c"], np.float64(2.5))
    assert type(found["c"]) is np.float64
    with pytest.raises(rlx.StructureError, match="a Python float in the file, i32"):
        from_bytes(to_bytes({"x": 2.5}), like={"x": rnp.asarray(0)})


class Scaled(nn.Module):
    weight: rlx.Array
    factor: float = nn.field(static=True, default=1.0)
    apply: object = nn.field(static=True, default=nn.relu)


def test_static_fields_are_compared():
    data = to_bytes({"x": [Scaled(rnp.ones(2), 3.0)]})
    assert float(from_bytes(data, like={"x": [Scaled(rnp.zeros(2), 3.0)]})["x"][0].weight[0]) == 1.0
    with pytest.raises(rlx.StructureError, match=r"x.0.factor is 3.0 in the file, 1.0 in the tree"):
        from_bytes(data, like={"x": [Scaled(rnp.ones(2))]})
    trained = to_bytes(nn.BatchNorm(2, use_bias=False))  # which says nothing of its use
    assert from_bytes(trained, like=nn.inference(nn.BatchNorm(2, use_bias=False))).inference


def test_what_the_file_holds_goes_where_the_tree_is():
    found = from_bytes(
        DATA, like={"encoder": {"w": np.zeros((2, 3), "f4"), "b": rlx.spec((3,))}, "step": 1}
    )
    assert type(found["encoder"]["w"]) is np.ndarray and type(found["encoder"]["b"]) is rlx.Array


# -- errors, word for word ------------------------------------------------------------------------


def test_names_that_do_not_fit():
    like = {"encoder": {"w": rnp.zeros((2, 4)), "bb": rnp.ones(3)}, "step": 0}
    check_text(
        rlx.StructureError,
        """
        load: 3 names of the file and of the tree do not fit
          where  L
                 missing in the file: encoder.bb, f32[3]; did you mean its 'encoder.b'?
                 unexpected in the file: encoder.b, f32[3]
                 encoder.w is f32[2, 3] in the file, f32[2, 4] in the tree
          fix    rename={'encoder.b': 'encoder.bb'},
                 only=[...] to load a part, or strict=False to keep what the tree has
                 there and get a report
        """,
        *(from_bytes, DATA, like),
    )


def test_names_that_are_not_there():
    check_text(
        rlx.ArgumentError,
        """
        load: only names 'encoder.v', which is not in the file
          where  L
          fix    did you mean 'encoder.w'? sorted(rlx.io.open(path)) lists its names
        """,
        *(from_bytes, DATA),
        only="encoder.v",
    )
    with pytest.raises(rlx.ArgumentError, match="rename names 'decoder'"):
        from_bytes(DATA, rename={"decoder": "x"})
    with pytest.raises(rlx.ArgumentError, match="rename makes 'x' of two names"):
        from_bytes(DATA, rename=lambda name: "x")


def test_what_cannot_be_saved(tmp_path):
    check_text(
        rlx.DtypeError,
        """
        save: model.name is 'big', no array or number
          where  L
          fix    make it a static field, rlx.nn.field(static=True), or put it in metadata
        """,
        *(rlx.save, tmp_path / "x.safetensors", {"model": {"name": "big"}}),
    )
    check_text(
        rlx.ArgumentError,
        """
        save: the metadata 'step' is 3, not a text
          where  L
          fix    convert it: json.dumps(value)
        """,
        *(rlx.save, tmp_path / "x.safetensors", {}, {"step": 3}),
    )
    check_text(
        rlx.StructureError,
        """
        two leaves of the tree have the name 'a.b'
          where  L
          fix    use keys without dots, and not both 1 and '1'
        """,
        *(to_bytes, {"a": {"b": 1}, "a.b": 2}),
    )
    with pytest.raises(rlx.DtypeError, match="too large for 64 bits"):
        to_bytes({"x": 2**64})
    with pytest.raises(rlx.AttributeValueError, match="writes no files of PyTorch"):
        rlx.save(tmp_path / "x.pt", {})
    with pytest.raises(rlx.AttributeValueError, match="the format's own"):
        to_bytes({"__metadata__": 1})
    with pytest.raises(rlx.ConcretizationError, match=r"save\(\) needs the numbers"):
        rlx.jit(lambda x: to_bytes({"x": x}))(rnp.ones(2))


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.npz"
    rlx.save(path, {"x": 1})
    with pytest.raises(rlx.AttributeValueError, match="cannot hold the name"):
        rlx.save(path, {"a\0": 2})
    assert rlx.load(path) == {"x": 1} and [p.name for p in tmp_path.iterdir()] == ["x.npz"]
    with pytest.raises(rlx.FileMissingError, match="make the directory first"):
        rlx.save(tmp_path / "none" / "x.safetensors", {})
    with pytest.raises(rlx.FileAccessError, match="is a directory"):
        rlx.save(tmp_path, {})


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_a_full_disk_is_an_error_that_names_the_file(suffix, tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    path = tmp_path / f"x.{suffix}"
    rlx.save(path, {"x": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(rlx.FileAccessError, match=rf"write '.*x\.{suffix}': file too large"):
            rlx.save(path, {"x": np.ones(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert rlx.load(path) == {"x": 1} and [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "runs").mkdir()
    link, target = tmp_path / "last.safetensors", tmp_path / "runs" / "a.safetensors"
    link.symlink_to(Path("runs") / "a.safetensors")
    for number in (1, 2):  # it names no file at first
        rlx.save(link, {"x": number})
        assert link.is_symlink() and not target.is_symlink()
        assert rlx.load(target) == rlx.load(link) == {"x": number}
    assert [p.name for p in target.parent.iterdir()] == [target.name]
    loop = tmp_path / "loop.npz"
    loop.symlink_to(loop.name)
    with pytest.raises(rlx.FileAccessError, match="symbolic links"):
        rlx.save(loop, {"x": 1})
    assert loop.is_symlink()


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    check_text(
        rlx.ArgumentError,
        """
        the library safetensors, which writes the files, is not installed
          where  L
          fix    pip install "rlx[io]", or write a .npz file
        """,
        *(to_bytes, {"x": 1}),
    )
    assert from_bytes(DATA)["step"] == 4


UNREADABLE = {
    "missing.safetensors": (
        rlx.FileMissingError,
        """
        cannot read 'D/missing.safetensors': there is no such file or directory
          where  L
          fix    check the path; a relative one begins where the program was started
        """,
    ),
    "empty.safetensors": (
        rlx.FileFormatError,
        """
        'D/empty.safetensors': the file has 0 bytes, too few for a safetensors file
          where  L
          fix    copy the file again, or write it anew with rlx.save
        """,
    ),
    "cut.safetensors": (
        rlx.FileFormatError,
        """
        'D/cut.safetensors': 'w' lies outside of the file, at bytes 20 to 44
          where  L
          fix    copy the file again, or write it anew with rlx.save
        """,
    ),
    "zip.safetensors": (
        rlx.FileFormatError,
        """
        'D/zip.safetensors': this is a zip archive, not a safetensors file
          where  L
          fix    name it .npz if NumPy wrote it, .pt if PyTorch did; rlx.io.load_torch reads that
        """,
    ),
    "pickle.safetensors": (
        rlx.FileFormatError,
        """
        'D/pickle.safetensors': this is a pickle, which rlx does not run, not a safetensors file
          where  L
          fix    if PyTorch wrote it, use rlx.io.load_torch; else write it anew with rlx.save
        """,
    ),
    "cut.npz": (
        rlx.FileFormatError,
        """
        'D/cut.npz': this is no zip archive, or it is cut off: it has no directory
          where  L
          fix    copy the file again, or write it anew with rlx.save
        """,
    ),
    "evil.pt": (
        rlx.FileFormatError,
        """
        'D/evil.pt': this is no file of torch.save: it has no magic number
          where  L
          fix    save the state_dict alone: torch.save(model.state_dict(), path)
        """,
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_such_file_says_so(name, tmp_path):
    table = {"w": np.ones((2, 3), "f4"), "b": np.zeros(5, "f4")}
    (tmp_path / "empty.safetensors").write_bytes(b"")
    (tmp_path / "cut.safetensors").write_bytes(to_bytes(table)[:-3])
    (tmp_path / "zip.safetensors").write_bytes(to_bytes(table, format="npz"))
    (tmp_path / "pickle.safetensors").write_bytes(b"\x80\x04\x95" + bytes(10))
    (tmp_path / "cut.npz").write_bytes(to_bytes(table, format="npz")[:-30])
    (tmp_path / "evil.pt").write_bytes(b"\x80\x02K\x01.")
    error, text = UNREADABLE[name]
    check_text(error, text, rlx.load, tmp_path / name)
    if name.endswith(".pt"):
        check_text(error, text, load_torch, tmp_path / name)


def test_what_is_no_regular_file_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(rlx.FileAccessError, match=r"cannot read .* no regular file"):
        rlx.load(tmp_path / "pipe.safetensors")
    with pytest.raises(rlx.FileAccessError, match=r"cannot write .* no regular file"):
        rlx.save(tmp_path / "pipe.safetensors", {"x": 1})
    assert (tmp_path / "pipe.safetensors").is_fifo()


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("suffix", ["safetensors", "npz", "pt"])
def test_a_file_that_is_cut_off_while_it_is_open(suffix, mapped, tmp_path):
    path, table = tmp_path / f"x.{suffix}", {"w": np.ones(100_000), "v": np.zeros(3)}
    if suffix == "pt":
        path.write_bytes(torch_file(table))
    else:
        rlx.save(path, table)
    file = rlx.io.open(path, mapped=mapped)
    assert float(file["w"].sum()) == 100_000
    os.truncate(path, 50)
    for name in table:
        with pytest.raises(rlx.FileFormatError, match=rf"x\.{suffix}': the file was cut off"):
            file[name]


def test_an_open_file_is_the_one_that_was_opened(tmp_path):
    path = tmp_path / "x.safetensors"
    for mapped in (False, True):
        rlx.save(path, {"w": np.ones(3)})
        file = rlx.io.open(path, mapped=mapped)
        rlx.save(path, {"v": np.zeros(3)})
        assert list(file) == ["w"] and file["w"].tolist() == [1, 1, 1]
