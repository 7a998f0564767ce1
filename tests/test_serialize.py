"""A file gives the same graph back, and a damaged one an error that says so."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.config import Config, Settings, from_environment
from rlx.ir.errors import ConfigError, FileFormatError
from rlx.ir.graph import Graph
from rlx.ir.interpret import interpret
from rlx.ir.ops.custom import Rule
from rlx.ir.serialize import dumps, load, loads, save
from rlx.ir.text import equal
from rlx.ir.types import Type, as_dtype

VECTOR = Type(as_dtype("f32"), (100,))


def model() -> Graph:
    weights = np.linspace(0, 1, 100, dtype=np.float32)
    half = np.arange(3).astype(as_dtype("bf16"))
    inner = build(lambda x: ops.exp(x) * ops.constant.lift(weights), [VECTOR], "inner")

    def run(x):
        (y,) = ops.call(x, graph=inner, name="inner")
        return y + ops.constant.lift(weights), ops.constant.lift(half)

    return build(run, [VECTOR], "model", ["argument 0"])


def test_loads_undoes_dumps(tmp_path):
    graph = model()
    assert equal(loads(dumps(graph)), graph)
    assert dumps(loads(dumps(graph))) == dumps(graph)
    save(graph, tmp_path / "model.rlx")
    again = load(tmp_path / "model.rlx")
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    for a, b in zip(interpret(graph, [x]), interpret(again, [x]), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_equal_constants_are_kept_once():
    assert len(dumps(model())) < 2 * 400 + 1500


def test_every_truncation_is_refused():
    data = dumps(model())
    for length in [*range(60), *range(60, len(data), 37), len(data) - 1]:
        with pytest.raises(FileFormatError):
            loads(data[:length])
    with pytest.raises(FileFormatError):
        loads(data + b"\0")


def test_every_altered_byte_is_refused():
    data = dumps(model())
    for place in [*range(60), *range(60, len(data), 23)]:
        altered = bytearray(data)
        altered[place] ^= 0x41
        with pytest.raises(FileFormatError):
            loads(bytes(altered))


def forged(header: bytes, blob: bytes = b"") -> bytes:
    """A file with a right checksum around any header."""
    lengths = struct.pack("<IQQ", 1, len(header), len(blob))
    digest = hashlib.blake2b(b"rlxgraph" + lengths + header + blob, digest_size=16).digest()
    return b"rlxgraph" + lengths + digest + header + blob


def with_constant(**entry) -> dict:
    text = "graph f() -> f32[2] { %0: f32[2] = constant {value=f32[2](@ab)} return %0 }"
    return {"graph": text, "constants": {"ab": {"dtype": "float32", "shape": [2], **entry}}}


TYPED_WRONG = "graph f(%0: f32[2]) -> f32[3] { %1: f32[3] = sin %0 return %1 }"
SENSELESS = "graph f() -> f32[3] { %0: f32[3] = full {shape=f32, value=1, dtype=f32} return %0 }"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"graph": 3, "constants": {}}).encode(),
        json.dumps({"graph": "nothing", "constants": {}}).encode(),
        json.dumps({"graph": TYPED_WRONG, "constants": {}}).encode(),
        json.dumps({"graph": SENSELESS, "constants": {}}).encode(),
        json.dumps(with_constant()).encode(),
        json.dumps(with_constant(start=0)).encode(),
        json.dumps(with_constant(start=-8)).encode(),
        json.dumps(with_constant(start="0")).encode(),
        json.dumps(with_constant(start=0, shape=[10**15])).encode(),
        json.dumps(with_constant(start=0, shape=[0, 10**40])).encode(),
        json.dumps(with_constant(start=0, shape=[-1])).encode(),
        json.dumps(with_constant(start=0, shape=None)).encode(),
        json.dumps(with_constant(start=0, dtype="object")).encode(),
        json.dumps(with_constant(start=0, dtype=["float32"])).encode(),
    ],
)
def test_forged_headers_are_refused(header):
    with pytest.raises(FileFormatError):
        loads(forged(header))


def test_forged_file_with_right_contents_loads():
    blob = np.array([1, 2], np.float32).tobytes()
    graph = loads(forged(json.dumps(with_constant(start=0)).encode(), blob))
    np.testing.assert_array_equal(interpret(graph, [])[0], [1, 2])


def test_other_versions_are_named():
    data = bytearray(dumps(model()))
    data[8] = 9
    with pytest.raises(FileFormatError, match="version 9"):
        loads(bytes(data))


def test_python_functions_are_refused():
    double = build(lambda x: x + x, [VECTOR], "double")
    rule = Rule(lambda primals, tangents: (primals, tangents))
    graph = build(lambda x: list(ops.custom_jvp_call(x, graph=double, rule=rule)), [VECTOR])
    with pytest.raises(FileFormatError, match="Python function"):
        dumps(graph)


# -- settings -------------------------------------------------------------------------------------


def test_settings_come_from_the_environment():
    settings = from_environment(
        {"RLX_DEBUG": "3", "RLX_CHECK": "1", "RLX_DUMP": "out", "RLX_DEVICE": "", "PATH": "/bin"}
    )
    assert settings.debug == 3
    assert settings.check
    assert str(settings.dump) == "out"
    assert settings.device is None


@pytest.mark.parametrize(
    ("environment", "what", "fix"),
    [
        ({"RLX_DEBUG": "7"}, "RLX_DEBUG is '7'", "0, 1, 2, 3, 4, 5, 6"),
        ({"RLX_DEBUG": "yes"}, "RLX_DEBUG is 'yes'", "0, 1, 2"),
        ({"RLX_CHECK": "true"}, "RLX_CHECK is 'true'", "0, 1"),
        ({"RLX_NUM_THREADS": "0"}, "RLX_NUM_THREADS is '0'", "from 1 to 1024"),
        ({"RLX_NUM_THREADS": "two"}, "RLX_NUM_THREADS is 'two'", "from 1 to 1024"),
        ({"RLX_NUM_THREADS": "1025"}, "RLX_NUM_THREADS is '1025'", "from 1 to 1024"),
        ({"RLX_NUM_THREADS": "9" * 5000}, "RLX_NUM_THREADS is '9", "from 1 to 1024"),
        ({"RLX_DEBGU": "1"}, "no setting RLX_DEBGU", "did you mean RLX_DEBUG"),
    ],
)
def test_wrong_settings_name_the_valid_ones(environment, what, fix):
    with pytest.raises(ConfigError, match=what) as caught:
        from_environment(environment)
    assert fix in caught.value.fix


@pytest.mark.parametrize("word", ["0", "off", "None"])
def test_words_turn_the_cache_on_disk_off(word, tmp_path):
    assert from_environment({"RLX_CACHE": word}).cache is False
    assert from_environment({"RLX_CACHE": "on"}).cache is True
    folder = str(tmp_path / "off")
    assert str(from_environment({"RLX_CACHE": folder}).cache) == folder


def test_the_keys_of_servers_are_no_unknown_setting():
    assert from_environment({"RLX_API_KEYS": "a,b"}) == Settings()


def test_settings_change_for_a_block():
    config = Config(Settings())
    with config.using(debug=4, check=True):
        assert config.debug == 4
        assert config.check
    assert config.debug == 0
    with pytest.raises(ConfigError, match="no setting 'colour'"):
        config.update(colour=1)
    with pytest.raises(ConfigError, match="RLX_DEBUG is '9'"):
        config.update(debug=9)
    assert config.debug == 0
