"""Forged files: refused with one kind of error, in little memory and time."""

from __future__ import annotations

import io
import json
import struct
import time
import tracemalloc
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fuzz_files import ROOM, SEEDS, fuzz
from torch_writer import archive, name, number, numbers, tensor, text

import rlx
from rlx.io import from_bytes, to_bytes


@pytest.mark.parametrize("kind", SEEDS)
def test_mutated_files_are_refused_or_read(kind):
    fuzz(kind, 20, -1)
    tracemalloc.start()
    try:
        outcomes = fuzz(kind, 200)
        assert tracemalloc.get_traced_memory()[1] < ROOM
    finally:
        tracemalloc.stop()
    least = -1 if kind == "checkpoint" else 8  # whose checksum finds each change
    assert outcomes["read"] > least and outcomes["refused"] > 80


def refused(data, kind, match):
    """Check that a file is refused at once, in little memory."""
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(rlx.FileFormatError, match=match):
            from_bytes(data, format=kind)
        assert tracemalloc.get_traced_memory()[1] < len(data) + ROOM
        assert time.perf_counter() - start < 20
    finally:
        tracemalloc.stop()


def forged(header, body=b""):
    """A safetensors file of any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def row(start, stop, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


ALL = row(0, 12, (3,))
HEADERS = {
    "overlap": (
        {"a": row(0, 4), "b": row(2, 6)},
        "'b' begins at byte 2, the array before it",
    ),
    "hole": ({"a": row(0, 4), "b": row(6, 10)}, "begins at byte 6"),
    "twins": (b'{"a":1,"a":2}', "the header has 'a' twice"),
    "inner twins": (b'{"a":{"dtype":"F32","dtype":"F32"}}', "has 'dtype' twice"),
    "outside": ({"a": row(0, 10**15, (10**15 // 4,))}, "lies outside of the file"),
    "negative": ({"a": row(-4, 0)}, "lies outside"),
    "turned": ({"a": row(4, 0)}, "lies outside"),
    "other size": ({"a": row(0, 4, (2,))}, r"is f32\[2\] of 8 bytes, the file has 4"),
    "true sizes": ({"a": row(0, 4, (True,))}, "sizes that are none"),
    "wide": ({"a": row(0, 0, (0, 2**62))}, "no memory holds|sizes that are none"),
    "axes": ({"a": row(0, 4, (1,) * 100)}, "has no shape"),
    "dtype": ({"a": row(0, 4, dtype="F4")}, "dtype 'F4', which rlx has not"),
    "fields": ({"a": {"dtype": "F32"}}, "no dtype, shape and data_offsets"),
    "float offsets": ({"a": row(0.0, 4.0)}, "no two data_offsets"),
    "metadata": ({"__metadata__": {"a": 1}, "a": row(0, 4)}, "more than texts"),
    "deep": (b'{"a":' * 100_000, "is no JSON|too many for"),
    "many": (b'{"":' + b"[[],[],[],[],[]]," * 500_000, "too many for a file of this size"),
    "no text": (b'{"\xff":1}', "no JSON"),
    "digits": (b'{"a":' + b"9" * 5000 + b"}", "no JSON"),
    "bools": ({"a": row(0, 12, (12,), "BOOL")}, "other numbers than 0 and 1"),
    "ties": ({"__metadata__": {"rlx": '{"tied":{"b":"c"}}'}, "a": ALL}, "ties 'b' to what"),
    "kinds": ({"__metadata__": {"rlx": '{"kinds":{"a":"int"}}'}, "a": ALL}, "holds no 'int'"),
    "notes": ({"__metadata__": {"rlx": "[" * 9000}, "a": ALL}, "noted in the metadata"),
    "nested names": ({"." * 200: ALL}, "nested too deeply"),
    "mixed names": ({"a": row(0, 4), "a.b": row(4, 8), "c": row(8, 12)}, "no dict has both"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_forged_headers(case):
    header, match = HEADERS[case]
    refused(forged(header, b"\x07" * 12), "safetensors", match)


def test_a_header_longer_than_the_file():
    refused(struct.pack("<Q", 2**63) + b"{}", "safetensors", "the header has 9223372036854775808 b")


def test_names_are_no_paths():
    data = forged({"../../etc/passwd": row(0, 4), "/x/..": row(4, 8)}, bytes(8))
    assert len(rlx.tree.leaves(from_bytes(data))) == 2


def deflated(size):
    """A `.npz` file of zeros that were compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "|u1", "fortran_order": False, "shape": (size,)}
        )
        made.writestr("x.npy", head.getvalue() + bytes(size))
    return buffer.getvalue()


def test_what_unfolds_to_more_than_its_file():
    assert from_bytes(deflated(10**6), format="npz")["x"].shape == (10**6,)
    refused(deflated(10**8), "npz", "far larger than its")
    lying = bytearray(deflated(10**8))
    at = lying.rfind(b"PK\1\2")
    lying[at + 24 : at + 28] = struct.pack("<I", 200)  # the size that the directory claims
    refused(bytes(lying), "npz", "is u8|damaged")


def npy(head, body=b""):
    """An archive with one array, whose head says anything."""
    return archive({"x.npy": b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + body})


def test_forged_archives():
    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
    assert from_bytes(npy(good.encode(), bytes(8)), format="npz")["x"].shape == (2,)
    for old, new, match in (
        ("(2,)", "(1000000000000,)", "of 4000000000000 bytes, the archive has 8"),
        ("<f4", "|O8", "no array of numbers"),
        ("<f4", "<V4", "the dtype"),
        ("<f4", "<f7", "a dtype or a shape that is none"),
        ("False", "print", "no array of numbers"),
    ):
        refused(npy(good.replace(old, new).encode(), bytes(8)), "npz", match)
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as made, pytest.warns(UserWarning, match="Duplicate"):
        for _ in range(2):
            made.writestr("x.npy", b"")
    refused(twice.getvalue(), "npz", "'x.npy' twice")


def test_files_in_an_archive_that_share_bytes():
    data = bytearray(archive({"a.npy": bytes(200), "b.npy": bytes(200)}))
    second = data.rfind(b"PK\1\2")
    data[second + 42 : second + 46] = bytes(4)  # where its bytes are: those of the first
    refused(bytes(data), "npz", "overlap")


def test_an_archive_of_very_many_files():
    count = 200_000
    central = struct.pack("<4s6H3I5H2I", b"PK\1\2", *[0] * 16)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0, 0, len(central) * count, 0, 0)
    refused(central * count + end, "npz", "too many files for its size")


# -- pickles --------------------------------------------------------------------------------------


def pickled(code, storage=bytes(16)):
    return archive({"a/data.pkl": b"\x80\x02" + code + b".", "a/data/0": storage})


def one(code):
    """The pickle of {"x": what the code makes}."""
    return pickled(b"}" + text("x") + code + b"s")


X = tensor(np.zeros(4, np.float32), "0")
DOUBLING = b"".join(b"h%c" % i * 2 + b"\x86q%c" % (i + 1) for i in range(60))
PICKLES = {
    "a call": (one(name("os", "system") + b"(" + text("echo") + b"tR"), "asks for 'os.system'"),
    "eval": (one(name("builtins", "eval")), "asks for 'builtins.eval'"),
    "numpy": (one(name("numpy._core.multiarray", "scalar")), "asks for 'numpy._core"),
    "a class of torch": (one(name("torch.nn", "Linear")), "asks for 'torch.nn.Linear'"),
    "an old instruction": (one(b"ios\nsystem\n"), "the instruction b'i', which rlx refuses"),
    "a state": (one(name("torch", "Size") + b"}b"), "damaged at byte"),
    "a key of tuples": (pickled(b"})K\1s"), "damaged at byte"),
    "doubling": (one(b"()q\0" + DOUBLING + b"t"), "nested without end"),
    "itself": (pickled(b"}q\0" + text("x") + b"h\0s"), "nested without end"),
    "deep": (one(b")" + b"\x85" * 5_000), "nested without end"),
    "cut off": (pickled(b"}X\xff\xff\xff\x7f"), "cut off"),
    "no mark": (one(b"t"), "damaged"),
    "outside": (one(X.replace(numbers((4,)), numbers((5,)))), "outside of its storage"),
    "far": (one(X.replace(numbers((1,)), numbers((1 << 30,)))), "outside of its storage"),
    "backwards": (one(X.replace(numbers((1,)), numbers((-1,)))), "damaged"),
    "a long storage": (one(X.replace(number(4) + b"tQ", number(1 << 30) + b"tQ")), "cut off"),
    "repeated": (
        one(X.replace(numbers((4,)), numbers((1 << 30,))).replace(numbers((1,)), numbers((0,)))),
        "repeat the file's numbers",
    ),
    "no storage": (one(X.replace(text("0"), text("7"))), "the storage '7' is missing"),
}


@pytest.mark.parametrize("case", PICKLES)
def test_forged_pickles(case):
    data, match = PICKLES[case]
    refused(data, "pt", match)


def test_a_pickle_of_very_many_objects():
    with pytest.raises(rlx.FileFormatError, match="too many objects for its size"):
        from_bytes(pickled(b"(" + b"]" * 700_000 + b"t"), format="pt")


def test_a_good_pickle_is_read():
    assert from_bytes(one(X), format="pt")["x"].shape == (4,)


def test_a_storage_with_another_checksum():
    data = bytearray(one(X))
    data[data.find(b"a/data/0") + 9] ^= 1
    assert zlib.crc32(bytes(16)) != zlib.crc32(b"\1" + bytes(15))
    refused(bytes(data), "pt", "its checksum differs")


def test_every_truncation_is_refused():
    data = to_bytes({"a": np.ones(3), "b": 2})
    for length in range(len(data)):
        with pytest.raises(rlx.FileFormatError):
            from_bytes(data[:length])


def test_small_arrays_are_read_many_at_once(tmp_path):
    """Of sizes that end within, at and beyond what is read at once; in any order, by threads."""
    sizes = [0, 1, 3, 511, 512, 513, 7, *range(900, 1100, 20), 5]
    tree = {f"w{i}": np.arange(n).astype(np.uint8) for i, n in enumerate(sizes * 9)}
    tree["wide"] = np.arange(4097, dtype=np.float64)
    rlx.save(tmp_path / "x.safetensors", tree)
    file = rlx.io.open(tmp_path / "x.safetensors")
    names = [*tree, *reversed(tree)] * 2
    with ThreadPoolExecutor(4) as pool:
        for name, found in zip(names, pool.map(file.__getitem__, names), strict=True):
            np.testing.assert_array_equal(found, tree[name])
            assert found.dtype == tree[name].dtype
