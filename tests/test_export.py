"""`rlx.export`: files that run without the code they came from, and refuse to be altered."""

from __future__ import annotations

import inspect
import json
import pickle
import random
import re
import struct
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.interop.export import _LENGTHS, _PREFIX, MAGIC, _checksum
from rlx.ir import serialize

Params = namedtuple("Params", "scale shifts")
WEIGHTS = rnp.array(np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2))


def model(params, x, *, k=1.0):
    y = rnp.tanh(x @ WEIGHTS) * params.scale + params.shifts[0]
    return {"y": y, "more": (x.sum() * k, None, [params.shifts[0]])}


PARAMS = Params(2.0, [np.ones(2, np.float32)])
X = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
SPECS = (Params(rlx.spec(()), [rlx.spec((2,))]), rlx.spec(("rows", 3)))


def exported():
    return rlx.export(model, *SPECS, k=2.0)


def agree(found, wanted):
    assert rlx.tree.structure(found["more"]) == rlx.tree.structure(wanted["more"])
    for a, b in zip(rlx.tree.leaves(found), rlx.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=16 * np.finfo(np.float32).eps)


def test_a_file_gives_the_function_back(tmp_path):
    exported().save(tmp_path / "model.rlx")
    again = rlx.load_exported(tmp_path / "model.rlx")
    assert again.in_types == exported().in_types
    for rows in (4, 2, 1):
        agree(again(PARAMS, X[:rows], k=0.5), model(PARAMS, X[:rows], k=0.5))
    assert again.serialize() == exported().serialize()


def test_it_is_a_function_as_others_are():
    again = rlx.load_exported(exported().serialize())

    def loss(f):
        return lambda x: f(PARAMS, x, k=1.0)["y"].sum()

    wanted = rlx.grad(loss(model))(X)
    np.testing.assert_allclose(rlx.jit(rlx.grad(loss(again)))(X), wanted, rtol=1e-6)
    batch = np.stack([X, X + 1])
    many = rlx.jit(rlx.vmap(lambda x: again(PARAMS, x, k=1.0)["y"]))(batch)
    np.testing.assert_allclose(many[1], model(PARAMS, batch[1])["y"], rtol=1e-6)
    on_reference = rlx.jit(again, device="reference")(PARAMS, X, k=1.0)
    agree(on_reference, model(PARAMS, X))


@pytest.mark.parametrize("keep", ["export", "to_jax", "to_stablehlo"])
def test_a_device_that_a_file_cannot_name_is_an_error(keep: str):
    inner = rlx.jit(lambda x: x + 1, device="reference")

    def outer(x):
        return inner(x) * 2

    with pytest.raises(rlx.DeviceMismatchError, match=f"what {keep} gives does not"):
        made = getattr(rlx, keep)(outer, *([] if keep == "to_jax" else [X]))
        made(X)


def test_open_sizes_are_met_on_devices_that_know_none():
    f = rlx.export(lambda x: rnp.cumsum(x) * WEIGHTS[0, 1], rlx.spec(("n",)))
    wanted = [np.cumsum(np.ones(n, np.float32)) * np.float32(-0.6) for n in (3, 5)]
    with rlx.device("xla"):
        for expected in wanted:
            np.testing.assert_allclose(f(np.ones_like(expected)), expected, rtol=1e-6)


def test_named_tuples_come_back():
    again = rlx.load_exported(rlx.export(lambda x: Params(x, [x]), rlx.spec(())).serialize())
    found = again(2.0)
    assert type(found).__name__ == "Params"
    assert (found.scale, found.shifts) == (2.0, [2.0])


def test_no_code_of_the_user_is_needed(tmp_path):
    path = tmp_path / "model.rlx"
    rlx.export(lambda x: x @ WEIGHTS, rlx.spec((2, 3))).save(path)
    code = (
        "import numpy, rlx; x = numpy.array([[1, 0, 0], [0, 0, 2]], 'float32'); "
        f"print(rlx.load_exported({str(path)!r})(x).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wanted = np.array([[1, 0, 0], [0, 0, 2]], np.float32) @ np.asarray(WEIGHTS)
    np.testing.assert_allclose(json.loads(done.stdout), wanted, rtol=1e-6)


def test_custom_derivatives_are_not_forgotten_silently():
    @rlx.custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (square(x), x), lambda x, ct: (7 * ct,))
    again = rlx.load_exported(rlx.export(square, rlx.spec(())).serialize())
    assert again(3.0) == 9
    with pytest.raises(rlx.GradientError, match="without its custom derivatives"):
        rlx.grad(again)(3.0)
    gradient = rlx.load_exported(rlx.export(rlx.grad(square), rlx.spec(())).serialize())
    assert gradient(3.0) == 7


def test_ops_of_users_are_kept_as_their_formulas():
    @rlx.custom_op(elementwise=True)
    def exported_square(x):
        return x * x

    spec = rlx.spec((2,))
    with pytest.raises(rlx.FileFormatError, match="exported_square calls a Python function"):
        rlx.export(exported_square, spec)
    exported_square.defformula(lambda x: x * x)
    data = rlx.export(exported_square, spec).serialize()
    assert b"= exported_square %0" not in data
    again = rlx.load_exported(data)
    assert again(np.float32([2, 3])).tolist() == [4, 9]
    assert rlx.grad(lambda x: again(x).sum())(np.float32([2, 3])).tolist() == [4, 6]
    exported_square.defvjp(lambda ct, out, x: (7 * ct,))
    without = rlx.load_exported(rlx.export(exported_square, spec).serialize())
    with pytest.raises(rlx.GradientError, match="without its custom derivatives"):
        rlx.grad(lambda x: without(x).sum())(np.float32([2, 3]))


def test_it_is_pickled_as_its_file():
    again = pickle.loads(pickle.dumps(exported()))
    assert again.serialize() == exported().serialize()
    np.testing.assert_array_equal(again(PARAMS, X, k=2.0)["y"], exported()(PARAMS, X, k=2.0)["y"])


def test_what_cannot_be_exported():
    with pytest.raises(rlx.FileFormatError, match="pure_callback calls a Python") as caught:
        shape = rlx.spec((2,))
        rlx.export(lambda x: rlx.pure_callback(np.sin, shape, x), shape)
    assert "test_export.py" in str(caught.value)
    with pytest.raises(rlx.StructureError, match="the arguments of f hold a Linear"):

        def f(layer, x):
            return layer(x)

        rlx.export(f, rlx.nn.Linear(2, 2, key=rlx.random.key(0)), rlx.spec((2,)))


def test_other_arguments_are_refused():
    f = exported()
    with pytest.raises(rlx.StructureError, match="other containers"):
        f(list(PARAMS), X, k=1.0)
    with pytest.raises(rlx.StructureError, match=r"k=f32\[\]; it was given 2 positional arguments"):
        f(PARAMS, X)
    with pytest.raises(rlx.ShapeError):
        f(PARAMS, X[:, :2], k=1.0)
    with pytest.raises(rlx.DtypeError):
        f(PARAMS, X.astype(np.float64), k=1.0)


# -- damaged files ------------------------------------------------------------------------------


def test_every_truncation_is_refused():
    data = exported().serialize()
    for length in [*range(80), *range(80, len(data), 41), len(data) - 1]:
        with pytest.raises(rlx.FileFormatError):
            rlx.load_exported(data[:length])
    with pytest.raises(rlx.FileFormatError):
        rlx.load_exported(data + b"\0")


def test_every_altered_byte_is_refused():
    data = exported().serialize()
    for place in [*range(80), *range(80, len(data), 29)]:
        altered = bytearray(data)
        altered[place] ^= 0x41
        with pytest.raises(rlx.FileFormatError):
            rlx.load_exported(bytes(altered))


def test_a_newer_version_says_so():
    data = bytearray(exported().serialize())
    data[len(MAGIC)] = 9
    with pytest.raises(rlx.FileFormatError, match="version 9"):
        rlx.load_exported(bytes(data))


def parts_of(data):
    """The header, the graph file and the weights."""
    _, n_header, n_graph, _ = _LENGTHS.unpack(data[len(MAGIC) : len(MAGIC) + _LENGTHS.size])
    body = data[_PREFIX:]
    return body[:n_header], body[n_header : n_header + n_graph], body[n_header + n_graph :]


def forged(header, graph, weights):
    """A file with right lengths and checksums around any contents."""
    lengths = _LENGTHS.pack(1, len(header), len(graph), len(weights))
    body = header + graph + weights
    return MAGIC + lengths + _checksum(lengths, body) + body


def signed(graph):
    """A graph file whose contents were altered, with a checksum that fits."""
    start = len(serialize.MAGIC)
    lengths = graph[start : start + serialize._LENGTHS.size]
    body = graph[serialize._PREFIX :]
    return serialize.MAGIC + lengths + serialize._checksum(lengths, body) + body


def check_text(error, text, fn, *args):
    """Compare an error with a text, where the lines of this file are L and its directory is D."""
    with pytest.raises(error) as caught:
        fn(*args)
    assert type(caught.value) is error
    found = re.sub(r"test_export\.py:\d+ in \w+ .*", "L", str(caught.value))
    assert re.sub(r"'/.*/", "'D/", found) == inspect.cleandoc(text)


UNREADABLE = {
    "missing.rlx": (
        rlx.FileMissingError,
        """
        cannot read 'D/missing.rlx': there is no such file or directory
          where  L
          fix    check the path; a relative one begins where the program was started
        """,
    ),
    "folder": (
        rlx.FileAccessError,
        """
        cannot read 'D/folder': is a directory
          where  L
          fix    give the path of a file that you may read
        """,
    ),
    "a\0b": (
        rlx.FileAccessError,
        """
        the path 'D/a\\x00b' holds the character NUL, which no path does
          where  L
          fix    give the path of a file
        """,
    ),
    "pickle.rlx": (
        rlx.FileFormatError,
        """
        'D/pickle.rlx': this is no exported function: it begins with b'\\x80\\x04\\x95\\n\\x00\\x00\\x00\\x00'
          where  L
          fix    copy the file again, or export the function anew
        """,  # noqa: E501  (word for word)
    ),
    "empty.rlx": (
        rlx.FileFormatError,
        """
        'D/empty.rlx': this is no exported function: it begins with b''
          where  L
          fix    copy the file again, or export the function anew
        """,
    ),
    "cut.rlx": (
        rlx.FileFormatError,
        """
        'D/cut.rlx': the file has 52 bytes of 99
          where  L
          fix    copy the file again, or export the function anew
        """,
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_file_of_a_function_says_so(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "pickle.rlx").write_bytes(pickle.dumps({"a": 1}, protocol=4))
    (tmp_path / "empty.rlx").write_bytes(b"")
    (tmp_path / "cut.rlx").write_bytes(forged(b"{" + b" " * 98, b"", b"")[:-47])
    error, text = UNREADABLE[name]
    check_text(error, text, rlx.load_exported, f"{tmp_path}/{name}")
    check_text(error, text, rlx.load_exported, tmp_path / name)


def test_a_path_that_cannot_be_written_says_so(tmp_path):
    text = """
    cannot write 'D/model.rlx': there is no such file or directory
      where  L
      fix    make the directory first: pathlib.Path(path).parent.mkdir(parents=True)
    """
    check_text(rlx.FileMissingError, text, exported().save, tmp_path / "none" / "model.rlx")
    text = f"""
    cannot write 'D/{tmp_path.name}': is a directory
      where  L
      fix    give the path of a file that you may write
    """
    check_text(rlx.FileAccessError, text, exported().save, tmp_path)
    text = """
    a file is named by a text or a pathlib.Path, which int is not
      where  L
      fix    give the path of the file
    """
    check_text(rlx.ArgumentError, text, rlx.load_exported, 3)


def test_forgeries_with_right_checksums_never_crash():
    """Bytes of the header and the graph, altered at random: refused, or a function as good."""
    header, graph, weights = parts_of(exported().serialize())
    chance, refused = random.Random(0), 0
    for number in range(400):
        altered = bytearray(header if number % 2 else graph)
        start = 0 if number % 2 else serialize._PREFIX
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(start, len(altered))
            altered[place] = chance.choice([chance.randrange(256), *b'0129[]{}",:*-e'])
        changed = bytes(altered)
        data = forged(changed, graph, weights) if number % 2 else None
        try:
            rlx.load_exported(data or forged(header, signed(changed), weights))
        except rlx.FileFormatError:
            refused += 1
    assert refused > 200


HEADERS = {
    "no json": b"{",
    "a list": b"[]",
    "nothing": b"{}",
    "deep": b"[" * 100_000,
    "not text": b"\xff",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_forged_headers_are_refused(header):
    _, graph, weights = parts_of(exported().serialize())
    with pytest.raises(rlx.FileFormatError):
        rlx.load_exported(forged(header, graph, weights))


CHANGES = {
    "leaves": {"inputs": {"tuple": ["*"]}},
    "results": {"results": {"dict": []}},
    "container": {"inputs": {"set": ["*"]}},
    "names": {"results": {"namedtuple": ["import os", [["a b", "*"]]]}},
    "keys": {"results": {"dict": [["a", "*"], ["a", "*"]]}},
    "no pairs": {"results": {"dict": ["abc"]}},
    "outside": {"weights": [{"dtype": "float32", "shape": [3, 2], "start": 64}]},
    "negative": {"weights": [{"dtype": "float32", "shape": [3, 2], "start": -4}]},
    "huge": {"weights": [{"dtype": "float32", "shape": [10**15], "start": 0}]},
    "objects": {"weights": [{"dtype": "object", "shape": [3, 2], "start": 0}]},
    "other dtype": {"weights": [{"dtype": "int32", "shape": [3, 2], "start": 0}]},
    "fewer": {"weights": []},
    "rules": {"without_rules": 1},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_forged_contents_are_refused(change):
    header, graph, weights = parts_of(exported().serialize())
    contents = json.loads(header) | change
    with pytest.raises(rlx.FileFormatError):
        rlx.load_exported(forged(json.dumps(contents).encode(), graph, weights))


def test_a_forgery_with_right_contents_loads():
    parts = parts_of(exported().serialize())
    assert struct.calcsize("<IQQQ") == _LENGTHS.size
    agree(rlx.load_exported(forged(*parts))(PARAMS, X, k=1.0), model(PARAMS, X))
