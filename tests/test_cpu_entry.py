"""The builtin between Python and compiled code: checks, results, references, threads."""

import ctypes
import gc
import resource
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
from machine_code import load

import rlx
from rlx.backends.cpu.llvm import machine
from rlx.backends.cpu.runtime import entry, entry_code, object_layout
from rlx.backends.cpu.runtime.entry import MISS, Spec
from rlx.trace import array as rlx_array

TEXT = """
define i32 @affine(ptr %buffers) {
  %input = load ptr, ptr %buffers
  %place = getelementptr ptr, ptr %buffers, i64 1
  %output = load ptr, ptr %place
  %x = load <8 x float>, ptr %input, align 4
  %double = fmul <8 x float> %x, splat (float 2.0)
  %y = fadd <8 x float> %double, splat (float 1.0)
  store <8 x float> %y, ptr %output, align 4
  ret i32 0
}

define i32 @nothing(ptr %buffers) {
  ret i32 0
}

define i32 @fail(ptr %buffers) {
  ret i32 -7
}

; buffers: one i64, its copy, a constant pointer to an i64, an arena of 64 words
define i32 @arena(ptr %buffers) {
  %input = load ptr, ptr %buffers
  %place1 = getelementptr ptr, ptr %buffers, i64 1
  %output = load ptr, ptr %place1
  %place2 = getelementptr ptr, ptr %buffers, i64 2
  %constant = load ptr, ptr %place2
  %place3 = getelementptr ptr, ptr %buffers, i64 3
  %scratch = load ptr, ptr %place3
  %x = load i64, ptr %input
  br label %again
again:
  %i = phi i64 [ 0, %0 ], [ %next, %same ]
  %slot = urem i64 %i, 64
  %word = getelementptr i64, ptr %scratch, i64 %slot
  store volatile i64 %x, ptr %word
  %back = load volatile i64, ptr %scratch
  %equal = icmp eq i64 %back, %x
  br i1 %equal, label %same, label %spoilt
same:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 20000
  br i1 %more, label %again, label %done
done:
  %extra = load i64, ptr %constant
  %sum = add i64 %x, %extra
  store i64 %sum, ptr %output
  %bits = ptrtoint ptr %scratch to i64
  %low = and i64 %bits, 63
  %status = trunc i64 %low to i32
  ret i32 %status
spoilt:
  ret i32 99
}

; copies buffers[i] to buffers[count + i], four bytes each
define i32 @copies(ptr %buffers) {
  br label %again
again:
  %i = phi i64 [ 0, %0 ], [ %next, %again ]
  %from = getelementptr ptr, ptr %buffers, i64 %i
  %input = load ptr, ptr %from
  %other = add i64 %i, 500
  %to = getelementptr ptr, ptr %buffers, i64 %other
  %output = load ptr, ptr %to
  %x = load i32, ptr %input
  store i32 %x, ptr %output
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 500
  br i1 %more, label %again, label %done
done:
  ret i32 0
}
"""


class Array:
    """A stand-in for rlx's array: a slot with the data, and two more."""

    __slots__ = ("__weakref__", "_data", "device", "extra")


class StatusError(Exception):
    """What `on_error` raises here."""


def raise_status(status: int) -> None:
    raise StatusError(status)


LAYOUT = object_layout.array_layout(Array)
F32 = np.dtype(np.float32)
VECTOR = Spec(F32, (8,))


@pytest.fixture(scope="module")
def library() -> machine.Library:
    return load(TEXT)


@pytest.fixture(scope="module")
def locked_runtime() -> entry._Runtime:
    """The machine code as it is in a Python without the GIL."""
    runtime = entry._Runtime(entry_code.entry_module(locked=True))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(runtime))  # results may outlive this module
    return runtime


@pytest.fixture(params=["machine code", "locked", "python"])
def build(request, monkeypatch, library, locked_runtime):
    """`make_entry` with the library's function of a name, in all its forms."""
    if request.param == "python":
        monkeypatch.setattr(entry, "_runtime", lambda: None)
    if request.param == "locked":
        monkeypatch.setattr(entry, "_runtime", lambda: locked_runtime)

    def make(name, inputs, outputs, **options):
        options = {"array": LAYOUT, "on_error": raise_status, "keep_alive": library} | options
        return entry.make_entry(library.address(name), inputs, outputs, **options)

    return make


def wrapped(data: np.ndarray) -> Array:
    made = Array()
    made._data = data
    return made


def test_the_layouts_hold_here():
    assert entry._layouts_hold()


def test_a_result_is_an_array_with_its_slots_filled(build):
    call = build("affine", [VECTOR], [VECTOR])
    x = np.arange(8, dtype=np.float32)
    result = call(x)
    assert type(result) is Array
    assert result.device is None and result.extra is None
    assert type(result._data) is np.ndarray
    np.testing.assert_array_equal(result._data, 2 * x + 1)
    again = call(result)
    np.testing.assert_array_equal(again._data, 4 * x + 3)
    np.testing.assert_array_equal(result._data, 2 * x + 1)


def test_the_real_array_has_a_layout(build):
    layout = object_layout.array_layout(rlx_array.Array)
    call = build("affine", [VECTOR], [VECTOR], array=layout)
    result = call(rlx_array.Array(np.ones(8, np.float32)))
    assert type(result) is rlx_array.Array
    assert result.device == "cpu" and result.tolist() == [3.0] * 8
    assert call(result).tolist() == [7.0] * 8


def test_a_result_is_read_only_aligned_and_plain(build):
    data = build("nothing", [], [Spec(F32, (3, 4))])()._data
    assert data.flags.c_contiguous and data.flags.aligned and not data.flags.writeable
    assert not data.flags.f_contiguous
    assert data.__array_interface__["data"][0] % 64 == 0
    assert data.shape == (3, 4) and data.strides == (16, 4) and data.dtype is F32


def test_read_only_and_offset_inputs_are_taken(build):
    call = build("affine", [VECTOR], [VECTOR])
    x = np.arange(16, dtype=np.float32)[3:11]
    x.flags.writeable = False
    np.testing.assert_array_equal(call(x)._data, 2 * x + 1)
    np.testing.assert_array_equal(call(wrapped(x))._data, 2 * x + 1)


class Subarray(np.ndarray):
    pass


class ArrayChild(Array):
    __slots__ = ()


X = np.zeros(8, np.float32)
BYTES = np.zeros(33, np.uint8)
MISFITS = {
    "number": 1.0,
    "list": [0.0] * 8,
    "none": None,
    "float64": X.astype(np.float64),
    "int32": X.view(np.int32),
    "bfloat16": X.astype(ml_dtypes.bfloat16),
    "big endian": X.astype(">f4"),
    "short": X[:7],
    "row": X[None],
    "column": X[:, None],
    "scalar": np.zeros((), np.float32),
    "numpy scalar": np.float32(0),
    "strided": np.zeros(16, np.float32)[::2],
    "reversed": X[::-1],
    "broadcast": np.broadcast_to(np.float32(1), (8,)),
    "misaligned": BYTES[1:].view(np.float32),
    "subclass": X.view(Subarray),
    "array": wrapped(X[:4]),
    "array of a subclass": wrapped(X.view(Subarray)),
    "array of a list": wrapped([1.0]),  # type: ignore[arg-type]
    "array child": ArrayChild(),
    "class": Array,
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_misfit_is_missed(build, name):
    call = build("affine", [VECTOR], [VECTOR])
    assert call(MISFITS[name]) is MISS


def test_an_empty_array_slot_is_missed(build):
    assert build("nothing", [VECTOR], [])(Array()) is MISS


def test_wrong_counts_and_keywords_are_missed(build):
    call = build("affine", [VECTOR], [VECTOR])
    assert call() is MISS
    assert call(X, X) is MISS
    assert call(x=X) is MISS
    assert call(X, y=X) is MISS
    assert call(*[X] * 300) is MISS
    assert repr(MISS) == "MISS"


def test_shape_is_compared_axis_by_axis(build):
    call = build("nothing", [Spec(F32, (2, 3, 4))], [])
    assert call(np.zeros((2, 3, 4), np.float32)) == ()
    for shape in [(2, 3, 5), (3, 3, 4), (2, 4, 4), (2, 12), (24,), (4, 3, 2)]:
        assert call(np.zeros(shape, np.float32)) is MISS
    assert call(np.zeros((4, 3, 2), np.float32).T) is MISS


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_scalars_and_empty_arrays_pass(build, shape):
    spec = Spec(np.dtype(np.int64), shape)
    call = build("nothing", [spec], [spec])
    result = call(np.zeros(shape, np.int64))
    assert result._data.shape == shape
    assert call(result)._data.dtype is spec.dtype


def test_a_scalar_array_is_computed(build):
    word = ctypes.c_int64(1000)
    spec = Spec(np.dtype(np.int64), ())
    call = build("arena", [spec], [spec], constants=[ctypes.addressof(word)], arena_bytes=512)
    assert call(np.array(5))._data[()] == 1005


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.uint8, np.float16, np.float64, ml_dtypes.bfloat16, np.complex64]
)
def test_every_dtype_passes(build, dtype):
    spec = Spec(np.dtype(dtype), (2, 5))
    result = build("nothing", [spec], [spec])(np.zeros((2, 5), dtype))
    assert result._data.dtype is spec.dtype
    assert result._data.nbytes == spec.nbytes


def test_no_outputs_give_an_empty_tuple_and_two_a_pair(build):
    assert build("nothing", [], [])() == ()
    pair = build("nothing", [], [VECTOR, Spec(np.dtype(np.int8), ())])()
    assert type(pair) is tuple and [x._data.shape for x in pair] == [(8,), ()]


@pytest.mark.parametrize("release_gil", [False, True])
def test_many_inputs_and_outputs(build, release_gil):
    specs = [Spec(np.dtype(np.int32), (1,))] * 500
    call = build("copies", specs, specs, release_gil=release_gil)
    inputs = [np.array([i], np.int32) for i in range(500)]
    inputs[::2] = [wrapped(x) for x in inputs[::2]]  # type: ignore[call-overload]
    assert [x._data[0] for x in call(*inputs)] == list(range(500))
    assert call(*inputs[:-1]) is MISS


def test_an_output_goes_to_the_array_given_for_it(build):
    call = build("affine", [VECTOR], [VECTOR], takes_outputs=True)
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    result = call(x, out)
    assert type(result) is Array and result._data is out
    np.testing.assert_array_equal(out, 2 * x + 1)
    fresh = call(wrapped(x), None)
    assert fresh._data is not out and not fresh._data.flags.writeable
    np.testing.assert_array_equal(fresh._data, out)
    in_place = call(x, x)  # each element is read before it is written
    assert in_place._data is x
    np.testing.assert_array_equal(x, out)


def test_outputs_that_do_not_fit_are_missed(build):
    call = build("affine", [VECTOR], [VECTOR] * 2, takes_outputs=True)
    good = np.zeros(8, np.float32)
    wrong = [X[:7], X.astype(np.float64), X.view(Subarray), np.zeros(16, np.float32)[::2], 1, [1.0]]
    before = sys.getrefcount(good)
    for bad in [*wrong, wrapped(X.copy())]:
        assert call(X, good, bad) is MISS
        assert call(X, bad, good) is MISS
        assert call(X, None, bad) is MISS
    assert call(X) is MISS and call(X, None) is MISS and call(X, None, None, None) is MISS
    assert call("x", good, good) is MISS
    assert sys.getrefcount(good) == before
    assert not good.any()


def collect() -> None:
    """Free all that nobody can reach: what goes may have held something else that can go then."""
    while gc.collect():
        pass


def test_arrays_given_for_outputs_do_not_leak(build):
    calls = [build(name, [VECTOR], [VECTOR] * 2, takes_outputs=True) for name in ("affine", "fail")]
    x, out = X.copy(), X.copy()
    collect()
    before = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(None)
    for _ in range(1000):
        calls[0](x, out, None)
        calls[0](x, out, 1)
        with pytest.raises(StatusError):
            calls[1](x, None, out)
    collect()
    after = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(None)
    assert all(abs(new - old) < 100 for new, old in zip(after, before, strict=True))


def test_a_status_is_raised(build):
    call = build("fail", [VECTOR], [VECTOR, VECTOR])
    with pytest.raises(StatusError) as caught:
        call(X)
    assert caught.value.args == (-7,)


def test_an_error_that_is_not_raised_is_an_error(build):
    with pytest.raises(SystemError):
        build("fail", [], [VECTOR], on_error=lambda status: None)()


def test_memory_that_cannot_be_had_is_a_memory_error(build):
    before = sys.getrefcount(F32)
    call = build("nothing", [], [VECTOR, Spec(np.dtype(np.int8), (1 << 50,))])
    scratch = build("nothing", [], [VECTOR], arena_bytes=1 << 50)
    for _ in range(10):
        with pytest.raises(
            rlx.DeviceMemoryError, match=r"not enough memory .* 1,125,899,906,842,624 b"
        ):
            call()
        with pytest.raises(rlx.DeviceMemoryError, match="cpu has not enough memory"):
            scratch()
    del call, scratch
    assert sys.getrefcount(F32) - before < 8


def test_nothing_leaks(build, library):
    x, boxed = X.copy(), wrapped(X.copy())
    calls = [
        build("affine", [VECTOR], [VECTOR], release_gil=False),
        build("affine", [VECTOR], [VECTOR], release_gil=True),
        build("nothing", [VECTOR], [VECTOR] * 3, arena_bytes=1000),
        build("fail", [VECTOR], [VECTOR] * 2),
    ]

    def use() -> None:
        for call in calls:
            for argument in (x, boxed, 1):
                try:
                    call(argument)
                except StatusError:
                    pass

    watched = [x, boxed, boxed._data, F32, MISS, None, Array, raise_status]
    use()
    collect()
    before = [sys.getrefcount(thing) for thing in watched]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3000):
        use()
    collect()
    growth = [sys.getrefcount(thing) - n for thing, n in zip(watched, before, strict=True)]
    assert max(map(abs, growth)) < 20, growth
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 4096  # KiB


def test_an_entry_and_its_code_are_freed(build):
    class Owner:
        pass

    owner = Owner()
    count = sys.getrefcount(owner)
    call = build("nothing", [], [VECTOR], keep_alive=owner)
    assert sys.getrefcount(owner) == count + 1
    result = call()
    del call
    collect()
    assert sys.getrefcount(owner) == count
    assert result._data.shape == (8,)


def test_results_outlive_their_entry_and_reuse_memory(library):
    call = entry.make_entry(
        library.address("nothing"), [], [Spec(F32, (1 << 20,))], array=LAYOUT, on_error=raise_status
    )
    first = call()
    second = call()
    view = first._data[5:]
    place = first._data.__array_interface__["data"][0]
    assert second._data.__array_interface__["data"][0] != place
    del first
    assert call()._data.__array_interface__["data"][0] != place
    del view
    assert call()._data.__array_interface__["data"][0] == place


@pytest.mark.parametrize("release_gil", [False, True])
def test_eight_threads_call_at_once(build, release_gil):
    word = ctypes.c_int64(1)
    spec = Spec(np.dtype(np.int64), (1,))
    call = build(
        "arena",
        [spec],
        [spec],
        constants=[ctypes.addressof(word)],
        arena_bytes=512,
        release_gil=release_gil,
    )
    failures = []

    def work(seed: int) -> None:
        try:
            for i in range(100):
                x = wrapped(np.array([seed * 1000 + i]))
                assert call(x)._data[0] == seed * 1000 + i + 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_results_may_outlive_the_interpreter():
    program = (
        "import numpy as np, sys\n"
        "from rlx.backends.cpu.llvm import machine\n"
        "from rlx.backends.cpu.runtime import entry, object_layout\n"
        "class Array:\n"
        "    __slots__ = ('_data',)\n"
        "text = 'define i32 @main(ptr %b) {\\n  ret i32 0\\n}'\n"
        "made, names = machine.compile_beside(text)\n"
        "code = machine.Library([made], names)\n"
        "spec = entry.Spec(np.dtype(np.float32), (1000,))\n"
        "call = entry.make_entry(code.address('main'), [], [spec], keep_alive=code,\n"
        "    array=object_layout.array_layout(Array), on_error=print)\n"
        "kept = [call() for _ in range(10)]\n"
        "sys.kept = [kept, call]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_layouts_fall_back(monkeypatch, library):
    monkeypatch.setattr(entry, "_layouts_hold", lambda: False)
    entry._runtime.cache_clear()
    try:
        call = entry.make_entry(
            library.address("affine"), [VECTOR], [VECTOR], array=LAYOUT, on_error=raise_status
        )
        assert call(X)._data[0] == 1
    finally:
        entry._runtime.cache_clear()
