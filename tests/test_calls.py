"""Calls of jitted functions: containers, numbers, foreign and given arrays, pending calls."""

import asyncio
import collections
import dataclasses
import gc
import sys
import threading
import tracemalloc
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.runtime.entry import memory_counts
from rlx.ir.errors import ArgumentError, ConcretizationError, DtypeError, ShapeError, StructureError
from rlx.transforms.jit.paths import missed

X = np.arange(3, dtype=np.float32)
Y = np.full(3, 10, np.float32)


class Pair(NamedTuple):
    first: Any
    second: Any


class Affine(rlx.nn.Module):
    weight: rlx.Array
    bias: rlx.Array
    power: int = rlx.nn.field(static=True, default=2)


@rlx.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: Any
    step: Any
    name: str = dataclasses.field(default="a", metadata={"static": True})


class Box:
    """A class with functions to take it apart."""

    def __init__(self, content, label):
        self.content, self.label = content, label


rlx.tree_util.register_pytree_node(
    Box, lambda box: ((box.content,), box.label), lambda label, parts: Box(parts[0], label)
)
rlx_x, rlx_y = rlx.array(X), rlx.array(Y)
TREES = {
    "array": X,
    "dict": {"b": X, "a": Y},
    "other keys": {3: X, (1, 2): Y},
    "list": [X, Y],
    "tuple": (X,),
    "named tuple": Pair(X, [Y]),
    "none": (None, X, {"a": None}),
    "empty": ({}, [], (), X),
    "ordered dict": collections.OrderedDict(b=X, a=Y),
    "default dict": collections.defaultdict(list, a=X),
    "deque": collections.deque([X, Y]),
    "module": Affine(rlx_x, rlx_y, power=3),
    "dataclass": State(X, {"n": Y}, "b"),
    "class": Box({"a": X}, "label"),
    "nested": {"layers": [Affine(rlx_x, rlx_y), Pair(X, {"x": (Y,)})], "state": State(X, Y)},
}


@rlx.jit
def double(tree):
    return rlx.tree.map(lambda x: x * 2, tree)


def check(result: Any, tree: Any) -> None:
    assert rlx.tree.structure(result) == rlx.tree.structure(tree)
    for x, y in zip(rlx.tree.leaves(result), rlx.tree.leaves(tree), strict=True):
        assert type(x) is rlx.Array
        np.testing.assert_array_equal(x, np.asarray(y) * 2)


@pytest.mark.parametrize("name", TREES)
def test_containers_go_into_machine_code_without_a_general_walk(name, monkeypatch):
    tree = TREES[name]
    check(double(tree), tree)
    monkeypatch.setattr(type(double), "_call", None)
    result = double(tree)
    check(result, tree)
    if name == "dict":
        assert list(result) == sorted(tree)  # that order belongs to the structure, as in JAX
    elif isinstance(tree, dict):
        assert list(result) == list(tree)


def test_containers_too_deep_for_a_path_go_another_way():
    deep: Any = X
    for _ in range(sys.getrecursionlimit() - 20):
        deep = (deep,)
    for _ in range(2):
        (found,) = rlx.tree.leaves(double(deep))
        np.testing.assert_array_equal(found, X * 2)
    assert list(double._paths.values())[-1] is missed


def test_a_dict_keeps_the_order_the_function_gave_it():
    f = rlx.jit(lambda x: {"b": x, "a": {"d": x, "c": x + 1}})
    for _ in range(2):
        assert [list(f(X)), list(f(X)["a"])] == [["b", "a"], ["d", "c"]]


VARIANTS = {
    "another key": ({"a": X, "b": Y}, {"a": X, "c": Y}),
    "a key more": ({"a": X}, {"a": X, "b": Y}),
    "another class": ([X, Y], (X, Y)),
    "a subclass": ({"a": X}, collections.OrderedDict(a=X)),
    "a longer list": ([X], [X, Y]),
    "none": ([X, None], [X, Y]),
    "an array for none": ([X, Y], [X, None]),
    "a static field": (Affine(rlx_x, rlx_y, power=2), Affine(rlx_x, rlx_y, power=3)),
    "another type of a static field": (State(X, Y, 1), State(X, Y, 1.0)),
    "a static field of a dataclass": (State(X, Y, "a"), State(X, Y, "b")),
    "fixed data": (Box(X, 1), Box(X, 2)),
    "a deeper tree": ({"a": X}, {"a": {"a": X}}),
    "a number": ([X, np.float32(1.5)], [X, 1.5]),
    "an array for a number": ([X, 1.5], [X, np.array(1.5, np.float32)]),
    "an integer for a number": ([X, 1.5], [X, 2]),
    "a truth for an integer": ([X, 1], [X, True]),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_structure_that_differs_is_not_taken_for_another(name):
    f = rlx.jit(lambda tree: (rlx.tree.map(lambda x: x * 2, tree), rlx.tree.leaves(tree)[-1]))
    for tree in VARIANTS[name] * 3:
        result, last = f(tree)
        assert rlx.tree.structure(result) == rlx.tree.structure(tree)
        np.testing.assert_array_equal(last, np.asarray(rlx.tree.leaves(tree)[-1], last.dtype))
    assert f.cache_info().compiles <= 2


def test_numbers_keep_their_meaning_beside_arrays_of_their_dtype():
    """A Python number yields to half precision, an array of float32 does not."""
    half = np.ones(3, np.float16)
    scale = rlx.jit(lambda x, s: x * s)
    for _ in range(3):
        assert scale(half, 0.5).dtype == np.float16
        assert scale(half, np.array(0.5, np.float32)).dtype == np.float32
        assert scale(half, np.float32(0.5)).dtype == np.float32
        assert scale(half, 2).dtype == np.float16
        assert scale(half, True).dtype == np.float16


@pytest.mark.parametrize("number", [0.1, -1e300, float("nan"), 7, -(2**31), True, False])
def test_numbers_are_passed_as_they_are_converted(number):
    same = rlx.jit(lambda x: {"x": x})
    for _ in range(3):
        result = same(number)["x"]
        np.testing.assert_array_equal(result, rlx.array(number))
        assert result.dtype == rlx.array(number).dtype


def test_a_number_that_does_not_fit_says_so():
    same = rlx.jit(lambda x: x)
    same(3)
    for wrong in (2**31, 2**70, -(2**31) - 1):
        with pytest.raises(DtypeError, match="does not fit int32"):
            same(wrong)
    assert same(2**31 - 1).item() == 2**31 - 1


def test_keywords_and_static_arguments_take_the_path_too(monkeypatch):
    f = rlx.jit(lambda x, y, n, m=2: x * n + y * m, static_argnames=("n", "m"))
    expected = {n: np.asarray(f(X, n=n, y=Y)) for n in (2, 3)}
    with monkeypatch.context() as patch:
        patch.setattr(type(double), "_call", None)
        for n, result in expected.items():
            np.testing.assert_array_equal(f(X, n=n, y=Y), result)
            np.testing.assert_array_equal(f(X, y=Y, n=n), result)
    assert f(X, Y, 2.0).dtype == np.float32
    assert f.cache_info().compiles == 3


def test_arrays_from_outside_go_along(monkeypatch):
    held = rlx.array(Y)
    f = rlx.jit(lambda tree: {"y": tree["x"] + held})
    f({"x": X})
    monkeypatch.setattr(type(double), "_call", None)
    np.testing.assert_array_equal(f({"x": X})["y"], X + Y)


def test_several_kinds_of_arguments_in_turns(monkeypatch):
    f = rlx.jit(lambda tree: {"y": tree["x"] * 2})
    kinds = [{"x": np.ones(n, np.float32)} for n in (1, 2, 3)]
    for kind in kinds:
        f(kind)
    monkeypatch.setattr(type(double), "_call", None)
    for kind in kinds * 3:
        np.testing.assert_array_equal(f(kind)["y"], kind["x"] * 2)


def test_threads_with_trees_of_several_kinds():
    f, failures = rlx.jit(lambda tree: {"y": tree["x"] + tree["s"]}), []

    def work(i: int) -> None:
        for k in range(200):
            x = np.full(i % 6 + 1, k, np.float32)
            if not np.array_equal(f({"x": x, "s": float(i)})["y"], x + i):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures


# -- arrays of other libraries --------------------------------------------------------------------


class Foreign:
    """An array of a library that speaks nothing but DLPack."""

    def __init__(self, data, device=1, refusal=None):
        self.data, self.device, self.refusal = data, device, refusal

    def __dlpack__(self, **options):
        if self.refusal:
            raise BufferError(self.refusal)
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self.device, 0)


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def test_foreign_arrays_are_read_where_they_lie(monkeypatch):
    seen = []
    f = rlx.jit(lambda tree: tree["x"] * 2)
    f({"x": X})
    entry = type(f._recent).try_run
    watched = lambda self, leaves: (seen.append(leaves[0]), entry(self, leaves))[1]  # noqa: E731
    monkeypatch.setattr(type(f._recent), "try_run", watched)
    x = X.copy()
    np.testing.assert_array_equal(f({"x": Foreign(x)}), x * 2)
    x[...] = 7
    np.testing.assert_array_equal(f({"x": Foreign(x)}), x * 2)
    np.testing.assert_array_equal(f({"x": jnp.asarray(x)}), x * 2)
    assert [address(leaf) for leaf in seen[:2]] == [address(x)] * 2
    assert f.cache_info().compiles == 1


def test_foreign_arrays_of_dtypes_numpy_does_not_read():
    x = jnp.asarray([[1.5, 2.5], [3, 4]], jnp.bfloat16)
    f = rlx.jit(lambda x: x + 1)
    for _ in range(2):
        result = f(x)
        assert result.dtype.name == "bfloat16"
        np.testing.assert_array_equal(result, np.asarray(x) + 1)
    np.testing.assert_array_equal(rlx.array(Foreign(X)) + 1, X + 1)


def test_foreign_arrays_that_cannot_be_read_say_why():
    f = rlx.jit(lambda x: x)
    with pytest.raises(ArgumentError, match=r"a Foreign lies in the memory of another device") as e:
        f(Foreign(X, device=8))
    assert e.value.fix == "copy it to the host first"
    with pytest.raises(ArgumentError, match=r"DLPack calls it 2") as e:
        f(Foreign(X, device=2))
    assert e.value.fix == "rlx.numpy.from_dlpack(x) takes it over, where it lies"
    with pytest.raises(ArgumentError, match="does not give its memory: it has a gradient"):
        f(Foreign(X, refusal="it has a gradient"))


# -- given memory ---------------------------------------------------------------------------------


def test_run_into_writes_a_tree():
    f = rlx.jit(lambda p, x: {"y": p["w"] * x, "sums": (x.sum(), None)})
    out = {"y": np.empty(3, np.float32), "sums": (np.empty((), np.float32), None)}
    for x in (X, Y, rlx_x):
        assert f.run_into({"w": Y}, x, out=out) is None
        np.testing.assert_array_equal(out["y"], Y * np.asarray(x))
        np.testing.assert_array_equal(out["sums"][0], np.asarray(x).sum())
    compiled = f.lower({"w": Y}, X).compile()
    compiled.run_into({"w": X}, X, out=out)
    np.testing.assert_array_equal(out["y"], X * X)


def test_run_into_may_write_to_an_argument():
    f, x = rlx.jit(lambda x: x[::-1] + 1), X.copy()
    f.run_into(x, out=np.empty(3, np.float32))
    f.run_into(x, out=x)
    np.testing.assert_array_equal(x, X[::-1] + 1)


REFUSED = {
    "structure": (
        {"z": X.copy()}, StructureError,
        'run_into: the result and `out` differ in structure: the whole tree has "y" in the '
        'result, "z" in `out`',
    ),
    "shape": (
        {"y": np.empty(4, np.float32)}, ShapeError, "out[0] is float32[4], the result is f32[3]",
    ),
    "dtype": (
        {"y": np.empty(3, np.float64)}, ShapeError, "out[0] is float64[3], the result is f32[3]",
    ),
    "class": (
        {"y": rlx_x}, ArgumentError, "out[0] is of type Array, but the result is written to it",
    ),
    "read-only": (
        {"y": np.broadcast_to(X, (3,))}, ArgumentError,
        "out[0] is read-only, but the result is written to it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_run_into_refuses_what_cannot_be_written(name):
    out, kind, text = REFUSED[name]
    f = rlx.jit(lambda x: {"y": x + 1})
    for _ in range(2):
        f.run_into(X, out={"y": np.empty(3, np.float32)})
        with pytest.raises(kind) as caught:
            f.run_into(X, out=out)
        assert str(caught.value).splitlines()[0].replace("'", '"') == text.replace("'", '"')


def test_run_into_refuses_one_array_for_two_results():
    f, y = rlx.jit(lambda x: (x + 1, x + 2)), np.empty(3, np.float32)
    for _ in range(2):
        f.run_into(X, out=(y, np.empty(3, np.float32)))
        with pytest.raises(ArgumentError, match=r"out\[1\] shares memory with an earlier array"):
            f.run_into(X, out=(y, y))


def test_run_into_counts_arguments_and_outputs_apart():
    f = rlx.Session().compile(lambda x, y: x + y, X, Y)
    with pytest.raises(ArgumentError, match="has 1 results, `out` has 2 arrays"):
        f.run_into(X, out=[Y.copy(), Y.copy()])


def blocks_grown(call: Any, times: int) -> tuple[int, int]:
    """How many more blocks Python has after some calls, and the system has given to rlx."""
    gc.collect()
    gc.disable()  # which would empty the lists where Python keeps small objects for reuse
    try:
        for _ in range(200):  # fills these lists
            call()
        made, before = memory_counts()[0], sys.getallocatedblocks()
        for _ in range(times):
            call()
        return sys.getallocatedblocks() - before, memory_counts()[0] - made
    finally:
        gc.enable()


def test_calls_allocate_nothing_but_their_results():
    """Temporaries lie in an arena, and memory that results leave is used again."""
    size = 40_000
    tree = {"x": np.ones(size, np.float32)}
    f = rlx.jit(lambda tree: {"y": rnp.cumsum(tree["x"] * 2) @ tree["x"], "z": tree["x"] + 1})
    out = {"y": np.empty((), np.float32), "z": np.empty(size, np.float32)}
    for call in (lambda: f.run_into(tree, out=out), lambda: f(tree)):
        objects, blocks = blocks_grown(call, 1000)
        assert objects < 100  # one that each call left would make 1000
        assert blocks == 0
    assert len({address(f(tree)["z"].host()) for _ in range(20)}) <= 2
    tracemalloc.start()
    try:
        for _ in range(200):
            f.run_into(tree, out=out)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            f.run_into(tree, out=out)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held - before < 1000
    assert peak - before < 4000  # names and tuples of a call; an array of `size` has 160,000 bytes


# -- pending calls --------------------------------------------------------------------------------


def test_pending_calls_give_their_results_in_any_order():
    f = rlx.jit(lambda tree: {"y": tree["x"] * 2})
    x, pending = X.copy(), []
    for i in range(20):
        x[...] = i
        pending.append(f.run_async({"x": x}))
    for i, each in reversed(list(enumerate(pending))):
        np.testing.assert_array_equal(each.result(60)["y"], np.full(3, 2.0 * i))
        assert each.done() and each.exception() is None and not each.cancel()


def test_errors_come_out_where_the_result_is_asked_for():
    f = rlx.jit(lambda x: x @ np.ones((4, 4), np.float32))
    good, bad = f.run_async(np.ones(4, np.float32)), f.run_async(X)
    with pytest.raises(ShapeError):
        bad.result(60)
    assert isinstance(bad.exception(60), ShapeError)
    np.testing.assert_array_equal(good.result(60), np.full(4, 4.0))
    compiled = f.lower(np.ones(4, np.float32)).compile()
    with pytest.raises(ShapeError):
        compiled.run_async(X).result(60)
    with pytest.raises(StructureError):
        compiled.run_async({"x": X}).result(60)


def test_pending_calls_can_be_awaited():
    async def main() -> list[Any]:
        return await asyncio.gather(*[double.run_async({"x": X + i}) for i in range(5)])

    for i, result in enumerate(asyncio.run(main())):
        np.testing.assert_array_equal(result["x"], (X + i) * 2)


def test_inside_of_a_trace_there_is_nothing_to_run():
    with pytest.raises(ConcretizationError, match="run_into of double was called while"):
        rlx.jit(lambda x: double.run_into(x, out=X.copy()))(X)
    with pytest.raises(ConcretizationError, match="run_async of double was called while"):
        rlx.jit(lambda x: double.run_async(x).result())(X)
