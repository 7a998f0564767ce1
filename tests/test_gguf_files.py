"""GGUF files: what they hold, against the package `gguf`, and forged ones."""

from __future__ import annotations

import gguf as oracle
import numpy as np
import pytest
from gguf_writer import gguf, info, row, small_file, text
from test_hostile_files import refused

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.io import from_bytes
from rlx.ir.ops.blocks import FORMATS

RNG = np.random.default_rng(0)
MADE_BY_GGML = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")


def kind_of(format: str) -> oracle.GGMLQuantizationType:
    return oracle.GGMLQuantizationType[format.upper()]


def some_blocks(format: str, rows: int = 3, blocks: int = 2) -> np.ndarray:
    """Random bytes whose float16s are ordinary numbers."""
    layout = FORMATS[format]
    found = RNG.integers(0, 256, (rows, blocks, layout.nbytes), dtype=np.uint8)
    if layout.is_power:
        found[..., layout.scale] = RNG.integers(0, 240, (rows, blocks))
    for place in (None if layout.is_power else layout.scale, layout.minimum):
        if place is not None:
            halves = RNG.normal(size=(rows, blocks, 1)).astype("<f2")
            found[..., place : place + 2] = halves.view(np.uint8)
    return found.reshape(rows, -1)


@pytest.mark.parametrize("format", FORMATS)
def test_blocks_stand_for_the_numbers_of_ggml(format):
    data = some_blocks(format)
    found = nn.dequantize_blocks(data, format)
    np.testing.assert_array_equal(found, oracle.quants.dequantize(data, kind_of(format)))
    compiled = rlx.jit(lambda x: nn.dequantize_blocks(x, format))
    np.testing.assert_array_equal(compiled(data), found)


@pytest.mark.parametrize("format", FORMATS)
def test_packed_numbers_are_near(format):
    layout = FORMATS[format]
    x = RNG.normal(size=(2, 5, 512)).astype(np.float32)
    x[0, 0], x[0, 1] = 0, 1
    made = nn.quantize_blocks(x, format)
    assert made.shape == x.shape and made.data.shape[-1] == 512 // layout.size * layout.nbytes
    back = np.asarray(made.dequantize())
    bits = sum(b.count for b in layout.codes.bits)
    error = np.sqrt(np.mean((back - x) ** 2, axis=-1))
    spread = 8.0  # standard deviations that the codes of normal numbers span, at most
    assert (error <= spread / (2**bits - 1) * 0.5).all()
    assert not error[0, 0] and error[0, 1] < 2e-3
    if format in MADE_BY_GGML:
        np.testing.assert_array_equal(made.data, oracle.quants.quantize(x, kind_of(format)))


@pytest.mark.parametrize(
    ("x", "format", "error"),
    [
        (np.ones(31, "f4"), "q4_0", rlx.ShapeError),
        (np.ones(32, "i4"), "q4_0", rlx.DtypeError),
        (np.float32(1), "q4_0", rlx.ShapeError),
        (np.full(32, np.nan, "f4"), "q4_0", rlx.DtypeError),
        (np.ones(32, "f4"), "q4_2", rlx.errors.AttributeValueError),
    ],
)
def test_what_does_not_part_in_blocks_is_an_error(x, format, error):
    with pytest.raises(error, match="fix"):
        nn.quantize_blocks(x, format)


@pytest.mark.parametrize(
    ("x", "format", "error"),
    [
        (np.ones(19, "u1"), "q4_0", rlx.ShapeError),
        (np.ones(18, "i1"), "q4_0", rlx.DtypeError),
        (np.uint8(1), "q4_0", rlx.ShapeError),
        (np.ones(18, "u1"), "Q4_0", rlx.errors.AttributeValueError),
    ],
)
def test_what_is_no_blocks_is_an_error(x, format, error):
    with pytest.raises(error, match="fix"):
        nn.dequantize_blocks(x, format)


def test_no_numbers_are_no_blocks():
    made = nn.quantize_blocks(np.zeros((0, 256), "f4"), "q4_k")
    assert made.data.shape == (0, 144) and made.dequantize().shape == (0, 256)


def test_a_block_array_is_a_tree_that_is_saved_and_loaded(tmp_path):
    made = nn.quantize_blocks(np.linspace(-1, 1, 64, dtype="f4"), "q5_1")
    rlx.save(tmp_path / "w.safetensors", {"w": made})
    same = rlx.load(tmp_path / "w.safetensors", like={"w": made})["w"]
    assert same.format == "q5_1" and (same.data == made.data).all()


# -- files ----------------------------------------------------------------------------------------


def test_a_small_file_is_read(tmp_path):
    path = tmp_path / "small.gguf"
    path.write_bytes(small_file())
    with rlx.io.open(path) as file:
        assert file.metadata["general.architecture"] == "llama"
        assert file.metadata["tokens"] == ["a", "bc", "é"]
        assert file.metadata["n.bool"] is True and file.metadata["n.i64"] == 1
        assert file.metadata["scores"].tolist() == [0.5, -1.0]
        assert str(file.types["blk.0.weight"]) == "f32[2, 32]"
        assert file["half"].tolist() == [1.0, -2.0]
    tree = rlx.load(path)
    packed = tree["blk"]["0"]["weight"]
    assert isinstance(packed, nn.BlockArray) and packed.format == "q4_1"
    assert packed.dequantize()[1, :3].tolist() == [-1.0, -0.5, 0.0]
    like = {"norm": {"weight": rnp.zeros((2, 3))}, "blk": [{"weight": rnp.zeros((2, 32))}]}
    filled, report = rlx.load(path, like=like, strict=False)
    assert list(report.unexpected) == ["half"] and not report.missing
    assert (filled["blk"][0]["weight"] == packed.dequantize()).all()
    wrong = {"blk": [{"weight": rnp.zeros((2, 31))}]}
    with pytest.raises(rlx.StructureError, match=r"q4_1\[2, 32\] in the file"):
        rlx.load(path, like=wrong, only="blk")
    with pytest.raises(rlx.errors.AttributeValueError, match="safetensors"):
        rlx.save(tmp_path / "other.gguf", tree)


def test_files_of_the_package_are_read(tmp_path):
    """All formats, dense dtypes and alignments, as its writer lays them out."""
    path = tmp_path / "made.gguf"
    writer = oracle.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    writer.add_token_list(["<s>", "a", "ü"])
    expect = {}
    for dtype in ("float32", "float16", "float64", "int8", "int16", "int32", "int64"):
        expect[dtype] = RNG.normal(size=(2, 5)).astype(dtype)
        writer.add_tensor(dtype, expect[dtype])
    for format in FORMATS:
        data = some_blocks(format)
        writer.add_tensor(format, data, raw_dtype=kind_of(format))
        expect[format] = oracle.quants.dequantize(data, kind_of(format))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with rlx.io.open(path) as file:
        assert file.metadata["tokenizer.ggml.tokens"] == ["<s>", "a", "ü"]
        assert sorted(file) == sorted(expect)
        for name, numbers in expect.items():
            found = file[name]
            found = found.dequantize() if isinstance(found, nn.BlockArray) else found
            np.testing.assert_array_equal(found, numbers, err_msg=name)


ONE = [info("w", (32,), 0, 0)]
BODY = bytes(128)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "begins with"),
        (b"GGML" + bytes(40), "no GGUF file"),
        (b"GGUF", "the version"),
        (gguf(version=1), "version 1"),
        (gguf(version=3 << 24), "big-endian"),
        (gguf(counts=(2**63, 0)), "number of tensors"),
        (gguf(counts=(0, 2**64 - 1)), "entries of the metadata"),
        (gguf([text("k") + b"\x09\0\0\0\x04\0\0\0" + b"\xff" * 8]), "length of 'k'"),
        (gguf([text("k") + b"\x09\0\0\0\x09\0\0\0" + bytes(8)]), "list of lists"),
        (gguf([text("k") + b"\x0d\0\0\0" + bytes(8)]), "unknown kind 13"),
        (gguf([row("k", "u8", 1), row("k", "u8", 1)]), "'k' twice"),
        (gguf([row("k", "text", b"\xff\xfe")]), "UTF-8"),
        (gguf([text("k") + b"\x07\0\0\0\x02"]), "bools other"),
        (gguf([row("k" * 70000, "u8", 1)]), "more than 65535"),
        (gguf([row("general.alignment", "u32", 24)]), "power of two"),
        (gguf([row("general.alignment", "u32", 1 << 21)]), "power of two"),
        (gguf([row("general.alignment", "text", "x")]), "power of two"),
        (gguf([row("split.count", "u16", 3)]), "several parts"),
        (gguf([], [info("w", (1,) * 5, 0, 0)]), "5 axes"),
        (gguf([], [info("w", (2**40, 2**40), 0, 0)]), "no memory"),
        (gguf([], [info("w", (2**63,), 0, 0)]), "sizes that are none"),
        (gguf([], [info("w", (32,), 99, 0)], BODY), "type 99"),
        (gguf([], [info("w", (33,), 3, 0)], BODY), "no whole blocks"),
        (gguf([], [info("w", (), 3, 0)], BODY), "no whole blocks"),
        (gguf([], [info("w", (32,), 0, 2**64 - 64)], BODY), "cut off or damaged"),
        (gguf([], [info("w", (32,), 0, 8)], BODY), "no multiple of 32"),
        (gguf([], [*ONE, info("v", (32,), 0, 64)], BODY * 2), "ends at"),
        (gguf([], [*ONE, *ONE], BODY), "twice"),
        (gguf([], ONE, BODY[:-1]), "cut off or damaged"),
    ],
    ids=lambda x: x if isinstance(x, str) else "file",
)
def test_forged_files_are_refused(data, match):
    refused(data, "gguf", match)


def test_every_beginning_of_a_file_is_refused():
    data = small_file()
    for length in range(len(data)):
        with pytest.raises(rlx.FileFormatError):
            from_bytes(data[:length], format="gguf")


def test_many_short_texts_take_no_more_memory_than_allowed():
    rows = [row("k", "text*", [""] * 200_000), row("l", "text*", ["ab"] * 200_000)]
    data = gguf(rows)
    assert from_bytes(data, format="gguf") == {}
    hostile = gguf([row("k", "text*", [""] * 2_000_000)])
    refused(hostile, "gguf", "more memory")
