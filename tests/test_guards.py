"""RLX_GUARDS: what reads or writes beyond its arrays is found."""

import os
import subprocess
import sys

import numpy as np
import pytest
from machine_code import load

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.runtime import entry
from rlx.backends.cpu.runtime.object_layout import Spec, array_layout
from rlx.ir.errors import InternalError

X = np.random.default_rng(0).normal(size=(37, 53)).astype(np.float32)


@pytest.fixture
def guards():
    with rlx.config.using(guards=True):
        yield


def several(x):
    y = rlx.nn.softmax(rnp.tanh(x @ x.T) + x.sum(1))
    return {"y": y, "sorted": rnp.sort(x, 0)[::-1], "sums": (x.mean(), x[:, ::3].sum(0))}


@pytest.mark.usefixtures("guards")
def test_programs_run_between_guards():
    wanted = rlx.jit(several, device="reference")(X)
    compiled = rlx.jit(several)
    out = rlx.tree.map(lambda x: np.empty(x.shape, x.dtype), wanted)
    compiled.run_into(X, out=out)
    for found in (compiled(X), out):
        for x, y in zip(rlx.tree.leaves(found), rlx.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("guards")
def test_donated_memory_is_used_again_between_guards():
    add = rlx.jit(lambda x, y: x.at[3].add(y), donate_argnums=0)
    for _ in range(3):
        found = add(rlx.array(X), X[0])
        expected = X.copy()
        expected[3] += X[0]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("guards")
def test_an_element_that_is_stored_twice_is_no_pair():
    x = np.random.default_rng(1).normal(size=(256, 3))  # the middle of the spectrum is its mirror
    np.testing.assert_allclose(rlx.jit(rnp.fft.irfft)(x), np.fft.irfft(x), atol=1e-15)


def last_of_a_line(x):
    halves = x.astype("bfloat16")
    sums = rnp.cumsum(halves, axis=0)  # 65 numbers: one is left after whole vectors
    return sums, sums[::-1].astype("int8"), rnp.cumsum(x[::-1] > 0), (x * 2).astype("int8")


@pytest.mark.usefixtures("guards")
@pytest.mark.parametrize("tier", ["auto", "max"])
def test_one_number_that_is_left_is_stored_as_wide_as_it_is(tier: str):
    x = np.ones(65, np.float32)
    found = rlx.jit(last_of_a_line, tier=tier)(x)
    wanted = rlx.jit(last_of_a_line, device="reference")(x)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Each of them moves 32 bytes from the input, or the memory for temporaries, to the output.
WRONG = """
define i32 @{name}(ptr %buffers) {{
  %input = load ptr, ptr %buffers
  %place1 = getelementptr ptr, ptr %buffers, i64 1
  %output = load ptr, ptr %place1
  %place2 = getelementptr ptr, ptr %buffers, i64 2
  %arena = load ptr, ptr %place2
  %from = getelementptr i8, ptr {origin}, i64 {read}
  %to = getelementptr i8, ptr {target}, i64 {write}
  %x = load <8 x float>, ptr %from, align 4
  store <8 x float> %x, ptr %to, align 4
  ret i32 0
}}
"""
PLACES = {
    "right": ("%input", 0, "%output", 0),
    "reads_beyond": ("%input", 4, "%output", 0),
    "writes_beyond": ("%input", 0, "%output", 4),
    "reads_far_before": ("%input", -4096, "%output", 0),
    "writes_before": ("%input", 0, "%output", -4),
    "writes_beyond_the_arena": ("%input", 0, "%arena", 36),
    "writes_to_an_argument": ("%arena", 0, "%input", 0),
    "reads_what_nobody_wrote": ("%arena", 0, "%output", 0),
}


class Array:
    """What results are wrapped in here."""

    __slots__ = ("_data",)


def call(name: str) -> np.ndarray:
    origin, read, target, write = PLACES[name]
    text = WRONG.format(name=name, origin=origin, read=read, target=target, write=write)
    library, spec = load(text), Spec(np.dtype(np.float32), (8,))
    run = entry.make_entry(
        library.address(name),
        [spec],
        [spec],
        arena_bytes=64,
        array=array_layout(Array),
        guards=True,
        on_error=print,
        keep_alive=library,
    )
    return run(np.arange(8, dtype=np.float32))._data


@pytest.mark.usefixtures("guards")
def test_wrong_code_that_can_be_told_in_the_process():
    np.testing.assert_array_equal(call("right"), np.arange(8))
    with pytest.raises(InternalError, match="compiled code wrote to argument 0"):
        call("writes_to_an_argument")
    with pytest.raises(InternalError, match="wrote before the first byte of an array"):
        call("writes_before")
    assert np.isnan(call("reads_what_nobody_wrote")).all()


@pytest.mark.parametrize("name", ["reads_beyond", "writes_beyond_the_arena"])
def test_wrong_code_ends_its_process(name):
    program = f"import test_guards\ntest_guards.call({name!r})\nprint('still here')"
    paths = [os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"RLX_GUARDS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode < 0 and not done.stdout, done


@pytest.mark.usefixtures("guards")
def test_nothing_is_read_of_an_empty_array():
    x = np.zeros((15, 0))
    found = rlx.jit(lambda x: rnp.cumprod(rnp.pad(x, 1, constant_values=2.0), 1))(x)
    np.testing.assert_array_equal(found, np.cumprod(np.pad(x, 1, constant_values=2.0), 1))
