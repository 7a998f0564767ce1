"""Arguments bound to a compiled function: the same results, and what is done once."""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from libraries import OURS
from programs import Program, any_program, same

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.backends import bound_memory
from rlx.backends.cpu.llvm.host import host
from rlx.backends.cpu.products import constants
from rlx.ir.errors import ArgumentError, DtypeError, RlxError, ShapeError, StructureError
from rlx.runtime.session import default_session

random = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return rlx.array(random.normal(size=shape)).astype(dtype)


W, V, B = normal(70, 90), normal(90, 50), normal(90)
PARAMS = {"up": {"w": W, "b": B}, "down": V}
X = normal(40, 70)


def perceptron(params: Any, x: Any) -> Any:
    hidden = rnp.tanh(x @ params["up"]["w"] + params["up"]["b"])
    return hidden @ params["down"]


def compiled(f: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return rlx.jit(f, **options).lower(*args).compile()


def assert_equal(x: Any, y: Any) -> None:
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def close(x: Any, y: Any) -> None:
    """Sums in another order may differ in the last digits."""
    x, y = (np.asarray(rlx.array(z).astype(np.float64)) for z in (x, y))
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-5 * np.abs(y).max())


# -- results --------------------------------------------------------------------------------------

PRODUCTS = {
    "right": (lambda w, x: x @ w, normal(70, 90), X),
    "right, transposed": (lambda w, x: x @ w.T, normal(90, 70), X),
    "left": (lambda w, x: w @ x, normal(90, 40), X),
    "left, transposed": (lambda w, x: w.T @ x, normal(40, 90), X),
    "deep": (lambda w, x: x @ w + 1, normal(3000, 90), normal(40, 3000)),
    "few columns": (lambda w, x: x @ w, normal(70, 3), X),
    "few rows": (lambda w, x: x @ w, normal(70, 90), normal(2, 70)),
    "one row": (lambda w, x: x @ w, normal(70, 90), normal(70)),
    "odd edges": (lambda w, x: x @ w, normal(33, 101), normal(29, 33)),
    "a batch": (lambda w, x: x @ w, normal(70, 90), normal(3, 17, 70)),
    "matrices of a batch": (lambda w, x: x @ w, normal(3, 70, 90), normal(3, 17, 70)),
    "double": (
        lambda w, x: x @ w,
        normal(70, 90, dtype=np.float64),
        normal(40, 70, dtype=np.float64),
    ),
    # so many rows that they are packed where the processor has no products of halves, too
    "half": (
        lambda w, x: x @ w,
        normal(70, 90, dtype="bfloat16"),
        normal(100, 70, dtype="bfloat16"),
    ),
    "cut": (lambda w, x: x @ w[10:80, ::2], normal(90, 90), X),
    "convolution": (
        lambda w, x: rlx.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        normal(24, 8, 3, 3),
        normal(2, 8, 13, 17),
    ),
    "windows": (
        lambda w, x: rlx.lax.conv_general_dilated(w, x, (1, 1), "VALID"),
        normal(1, 8, 13, 17),
        normal(24, 8, 3, 3),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_a_bound_operand_are_the_same(name: str) -> None:
    f, w, x = PRODUCTS[name]
    program = compiled(f, w, x)
    expected = program(w, x)
    program.bind(w=w)
    close(program(x), expected)
    is_packed = name not in ("few columns", "matrices of a batch")
    assert f"operands packed once: {int(is_packed)}, " in program.report()


def test_matrices_are_packed_once_and_their_arrays_are_not_kept() -> None:
    program = compiled(perceptron, PARAMS, X)
    expected = program(PARAMS, X)
    program.bind(params=PARAMS)
    close(program(X), expected)
    report = program.report().splitlines()
    assert report[-2].startswith("operands packed once: 2, ")
    assert report[-1] == "bound: params; values computed once: 0"
    early = program._binding.constants.late.executable.prepare.__self__.code.early
    assert len(early.kept) == 1, "the vector is read as it is, the matrices are not read"


def test_panels_of_both_operands_suit_one_product() -> None:
    """Few rows, and more columns than caches hold, which are not read as panels else."""
    random = np.random.default_rng(0)
    x, a, b = (random.normal(size=shape) for shape in ((48, 900), (48, 2000), (2000, 900)))
    options = rlx.CompileOptions(fixed=2)
    program = rlx.Session("cpu").compile(lambda x, a, b: x + a @ b, x, a, b, options=options)
    assert program.unprepared is not None
    result = program.unprepared.entry(x, *program.unprepared.prepare([a, b]))
    np.testing.assert_allclose(result, x + a @ b, rtol=1e-10, atol=1e-10)


def test_what_depends_on_bound_arguments_alone_is_computed_once() -> None:
    calls = []

    def seen(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        return np.asarray(x)

    def f(scale: Any, x: Any) -> Any:
        factor = rnp.exp(rlx.pure_callback(seen, rlx.spec(scale.shape), scale) * 2)
        return x * factor[::-1]

    program = compiled(lambda scale, x: x * rnp.exp(scale)[::-1], B, normal(3, 90))
    x = normal(3, 90)
    expected = program(B, x)
    program.bind(scale=B)
    assert_equal(program(x), expected)
    assert program.report().endswith("bound: scale; values computed once: 1")
    assert "exp" not in program.stages["hir"]
    # a function of the user runs in each call, as it may look at the world
    program = compiled(f, B, x)
    program.bind(scale=B)
    calls.clear()
    program(x), program(x)
    assert len(calls) == 2


def test_what_would_take_up_more_memory_is_not_kept() -> None:
    program = compiled(lambda w, x: x @ w.astype(np.float32), W.astype(np.int8), X)
    expected = program(W.astype(np.int8), X)
    program.bind(w=W.astype(np.int8))
    assert "values computed once: 0" in program.report()
    close(program(X), expected)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_are_the_same_with_bound_arguments(seed: int) -> None:
    made: Program = any_program(seed)
    names = [f"x{i}" for i in range(len(made.inputs))]
    f = eval(f"lambda {', '.join(names)}: run({', '.join(names)})", {"run": made.on(OURS)})
    program = compiled(f, *made.inputs)
    expected = program(*made.inputs)
    bound = dict(list(zip(names, made.inputs, strict=True))[::2])
    with rlx.config.using(check=True):
        program.bind(**bound)
    same(program(*made.inputs[1::2]), expected, made)


def test_arrays_from_outside_are_packed_once_too() -> None:
    f = rlx.jit(lambda x, y=0.0: perceptron(PARAMS, x) + y)
    expected = perceptron(PARAMS, X)
    for _ in range(2):
        close(f(X), expected)
    close(f(X, 1.0), expected + 1)
    close(f(np.asarray(X).T.copy().T), expected)
    assert "operands packed once: 2, " in f.lower(X).compile().report()
    out = np.empty((40, 50), np.float32)
    for _ in range(2):
        out[...] = 0
        f.run_into(X, out=out)
        close(out, expected)
    close(f.run_async(X).result(), expected)
    with pytest.raises(ShapeError, match=r"perceptron|matmul|dot"):
        f(X.T)


# -- binding again, and other ways to call --------------------------------------------------------


def test_binding_again_compiles_nothing() -> None:
    program = compiled(perceptron, PARAMS, X)
    program.bind(params=PARAMS)
    before = default_session("cpu").cache.stats
    other = rlx.tree.map(lambda x: x * 2, PARAMS)
    with rlx.no_recompile():
        program.bind(params=other)
        found = program(X)
    assert default_session("cpu").cache.stats == before
    close(found, perceptron(other, X))
    program.bind()
    close(program(PARAMS, X), perceptron(PARAMS, X))


def test_arrays_of_numpy_may_change_later() -> None:
    scale, matrix = np.ones(90, np.float32), np.ones((70, 90), np.float32)
    program = compiled(lambda s, w, x: (x @ w) * s, scale, matrix, X)
    program.bind(s=scale, w=matrix)
    expected = program(X)
    scale[...], matrix[...] = 0, 0
    assert_equal(program(X), expected)


def test_other_ways_to_call_take_the_others_too() -> None:
    program = compiled(lambda p, x: {"y": perceptron(p, x)}, PARAMS, X)
    program.bind(p=PARAMS)
    expected = program(X)["y"]
    out = {"y": np.empty((40, 50), np.float32)}
    program.run_into(X, out=out)
    assert_equal(out["y"], expected)
    assert_equal(program.run_async(X).result()["y"], expected)
    strided = {"y": np.empty((40, 100), np.float32)[:, ::2]}
    program.run_into(np.asarray(X), out=strided)
    assert_equal(strided["y"], expected)


def test_static_and_named_arguments_and_what_is_outside() -> None:
    shift = normal(90)

    def f(x: Any, n: int, *, w: Any, scale: Any) -> Any:
        return (x @ w) * scale * n + rnp.exp(shift)

    program = rlx.jit(f, static_argnames="n").lower(X, 3, w=W, scale=2.0).compile()
    expected = program(X, w=W, scale=2.0)
    program.bind(w=W)
    close(program(X, scale=2.0), expected)
    program.bind(w=W, scale=2.0)
    close(program(X), expected)
    program.bind(x=X)
    close(program(w=W, scale=2.0), expected)


def test_an_open_size() -> None:
    program = compiled(lambda w, x: rnp.tanh(x @ w), W, X, dynamic={"x": {0: "n"}})
    program.bind(w=W)
    for n in (1, 9, 40):
        close(program(X[:n]), rnp.tanh(X[:n] @ W))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8"])
@pytest.mark.parametrize("is_turned", [False, True])
def test_all_numbers_of_rows_read_the_same_panels(dtype: str, is_turned: bool) -> None:
    """An open number of rows is met in blocks; each sum is that of a known number of rows."""
    depth, columns = 333, 70
    w = (10 * normal(*((columns, depth) if is_turned else (depth, columns)))).astype(dtype)
    b = normal(columns)
    sums = {"int8": "int32", "bfloat16": "float32"}.get(dtype, dtype)

    def f(w: Any, x: Any) -> Any:
        dims = (((1,), (int(is_turned),)), ((), ()))
        return lax.dot_general(x, w, dims, preferred_element_type=sums) * 2 + b

    x = (10 * normal(150, depth)).astype(dtype)
    options: dict[str, Any] = {"deterministic": "batch"}
    program = rlx.jit(f, dynamic={"x": {0: "n"}}, **options).lower(w, x).compile()
    program.bind(w=w)
    is_grouped = dtype in host().grouped and not host().has_tiles
    is_packed = is_grouped or dtype in ("float32", "float64")
    assert f"operands packed once: {int(is_packed)}, " in program.report()
    whole = np.asarray(rlx.jit(f, **options)(w, x))
    for n in (1, 3, 12, 64, 77, 150):
        assert_equal(program(x[:n]), whole[:n])


def test_bound_arrays_tell_open_sizes() -> None:
    dynamic = {"w": {0: "n"}, "x": {0: "n"}, "y": {0: "m"}}
    f = lambda w, x, y: (w * x)[:, None] * y  # noqa: E731
    w, x, y = normal(7), normal(7), normal(5)
    program = compiled(f, w, x, y, dynamic=dynamic)
    expected = program(w, x, y)
    program.bind(w=w)
    assert_equal(program(x, y), expected)
    out = np.empty((7, 5), np.float32)
    program.run_into(np.asarray(x), np.repeat(y, 2)[::2], out=out)
    assert_equal(out, expected)
    with pytest.raises(ShapeError, match=r"argument 1 of <lambda>, x is f32\[6\], .* f32\[7\]"):
        program(x[:6], y)
    program.bind(y=y)
    program.run_into(w, x, out=out)
    assert_equal(out, expected)


def test_donated_arguments_beside_bound_ones() -> None:
    program = compiled(lambda p, s: s + p.sum(), B, normal(90), donate_argnames="s")
    program.bind(p=B)
    state = normal(90)
    expected = state + B.sum()
    close(program(state), expected)
    with pytest.raises(RlxError, match="used after it was donated"):
        state + 1


def test_threads_see_all_of_one_binding() -> None:
    program = compiled(lambda p, x: x @ p["w"] + p["b"], {"w": W, "b": B}, X)
    bindings = [{"w": W, "b": B}, {"w": -W, "b": -B}]
    program.bind(p=bindings[0])
    expected = np.asarray(program(X))
    wrong: list[int] = []

    def call() -> None:
        for _ in range(50):
            found = np.asarray(program(X))
            if not any(np.array_equal(found, sign * expected) for sign in (1, -1)):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(30):
        program.bind(p=bindings[i % 2])
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_reference_binds_too() -> None:
    program = compiled(perceptron, PARAMS, X, device="reference")
    expected = program(PARAMS, X)
    program.bind(params=PARAMS)
    close(program(X), expected)
    scale = np.ones(90, np.float32)
    program = compiled(lambda s, x: x * rlx.lax.stop_gradient(s), scale, B, device="reference")
    program.bind(s=scale)
    scale[...] = 0
    assert_equal(program(B), B)


# -- errors ---------------------------------------------------------------------------------------


def test_errors_of_bind() -> None:
    program = compiled(perceptron, PARAMS, X)
    with pytest.raises(
        ArgumentError, match="perceptron has no argument 'weights' to bind"
    ) as found:
        program.bind(weights=PARAMS)
    assert found.value.fix == "its arguments are params, x"
    with pytest.raises(StructureError, match=r"bind params: .* has 'b', 'w' in the"):
        program.bind(params={"up": {"w": W}, "down": V})
    wrong = {"up": {"w": V, "b": B}, "down": V}
    with pytest.raises(ShapeError, match=r'argument 0 of perceptron, params\["up"\]\["w"\] is f32'):
        program.bind(params=wrong)
    with pytest.raises(DtypeError, match=r'params\["down"\] is f64\[90, 50\]'):
        program.bind(params=PARAMS | {"down": np.ones((90, 50))})
    close(program(PARAMS, X), perceptron(PARAMS, X))


def test_errors_of_calls_with_bound_arguments() -> None:
    program = compiled(perceptron, PARAMS, X)
    program.bind(params=PARAMS)
    with pytest.raises(StructureError, match="1 positional in the compiled ones, 2 in") as found:
        program(PARAMS, X)
    assert found.value.fix == "leave out what is bound (params) and what is static"
    with pytest.raises(ShapeError, match=r"argument 1 of perceptron, x is f32\[70, 40\]"):
        program(X.T)


def test_a_donated_argument_cannot_be_bound() -> None:
    program = compiled(lambda p, x: p + x, B, B, donate_argnames="p")
    with pytest.raises(ArgumentError, match="'p' of <lambda> is donated") as found:
        program.bind(p=B)
    assert found.value.fix == "do not donate what is bound"


def test_threads_share_the_packing_of_large_matrices() -> None:
    w, x = normal(2000, 1201), normal(70, 2000)
    program = compiled(lambda w, x: x @ w, w, x)
    program.bind(w=w)
    assert program._binding.code.executable.held[-1].nbytes > constants.PART
    close(program(x), np.asarray(x, np.float64) @ np.asarray(w, np.float64))


def test_copies_are_dense_whatever_they_are_of(monkeypatch):
    monkeypatch.setattr(bound_memory, "LARGE", 100)
    monkeypatch.setattr(bound_memory, "PART", 64)  # some parts of each
    x = np.arange(60, dtype="f4").reshape(5, 4, 3)
    given = [x, x.T, x[:, ::2], x[::-1], np.asfortranarray(x), np.zeros((0, 3)), x[0, 0, 0, None]]
    for made, old in zip(bound_memory.copies(given), given, strict=True):
        assert made.flags.c_contiguous and made.base is not old
        np.testing.assert_array_equal(made, old)


def test_large_rooms_and_small_ones_are_alike():
    sizes = [bound_memory.LARGE_ROOM, 5, 0, 70]
    rooms = bound_memory.room_for(sizes)
    assert [room.nbytes for room in rooms] == sizes
    assert not any(room.ctypes.data % bound_memory.ALIGNMENT for room in rooms)
    rooms[0][:], rooms[1][:] = 3, 7
    assert (rooms[0][-1], rooms[1][0]) == (3, 7)


def test_joined_pages_hold_what_they_held(monkeypatch):
    monkeypatch.setattr(bound_memory, "LATER", 0.0)
    (room,) = bound_memory.room_for([3 * bound_memory.LARGE_PAGE + 5])
    room[:] = np.arange(room.size) % 251
    for thread in threading.enumerate():
        if thread.name == "rlx joins pages":
            thread.join()
    np.testing.assert_array_equal(room, np.arange(room.size) % 251)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are joined by Linux alone")
def test_pages_are_joined_once_a_thread_can_start(monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("can't start new thread")

    joins = bound_memory._Joins()
    monkeypatch.setattr(bound_memory, "LATER", 0.0)
    rooms = [mmap.mmap(-1, bound_memory.LARGE_PAGE) for _ in range(2)]
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        joins.add(0, 0, rooms[0])
    assert len(joins._rooms) == 1
    monkeypatch.setattr(threading.Thread, "start", lambda thread: thread.run())
    joins.add(0, 0, rooms[1])
    assert not joins._rooms
