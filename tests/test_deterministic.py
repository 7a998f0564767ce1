"""The same bits for any number of threads, and with `deterministic="batch"` for any batch."""

import platform

import numpy as np
import pytest
from batch_invariance import HELD, differing, families
from thread_digests import MODELS, THREADS, run

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.llvm.host import host
from rlx.ir.errors import ArgumentError

random = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def test_any_number_of_threads_gives_the_same_bits():
    first, *others = (run(threads, ["--families", "1"]) for threads in THREADS)
    assert len(first) == len(MODELS) + 1 + 4  # one of the models bound, too
    for lines in others:
        assert lines == first


IN, HIDDEN, OUT = normal(48, 100), normal(100), normal(100, 10)
FILTERS, QUERIES, KEYS = normal(6, 3, 3, 3), normal(32, 32), normal(32, 32)


def perceptron(x):
    return rlx.nn.softmax(rnp.tanh(x @ IN + HIDDEN) @ OUT)


def columns(x):
    """The batch along the last axis."""
    return rlx.nn.softmax(OUT.T @ rnp.tanh(IN.T @ x.T), 0).T


def layer_norm(x):
    centered = x - x.mean(-1, keepdims=True)
    return centered / rnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def attention(x):
    q, k = ((x @ w).reshape(x.shape[0], -1, 4, 8).transpose(0, 2, 1, 3) for w in (QUERIES, KEYS))
    return (rlx.nn.softmax(q @ k.transpose(0, 1, 3, 2) / 3) @ k).transpose(0, 2, 1, 3)


def convolution(x):
    y = rlx.lax.conv_general_dilated(x, FILTERS, (1, 1), "SAME")
    return rnp.maximum(y, 0).mean((2, 3))


BATCHED = {
    "perceptron": (perceptron, normal(70, 48)),
    "batch along columns": (columns, normal(70, 48)),
    "layer norm": (layer_norm, normal(70, 333)),
    "attention": (attention, normal(20, 11, 32)),
    "convolution": (convolution, normal(17, 3, 9, 9)),
    "few long sums": (lambda x: x.sum(1), normal(9, 1 << 17)),
    "sums over two axes": (lambda x: (x * x).sum((1, 3)), normal(20, 5, 6, 7)),
    "gradients": (rlx.vmap(rlx.grad(lambda row: perceptron(row)[0])), normal(70, 48)),
    "one column": (lambda x: x @ IN[:, 0], normal(70, 48)),
    "bfloat16": (lambda x: rlx.nn.softmax(x @ IN.astype("bfloat16")), normal(70, 48)),
}


@pytest.mark.parametrize("name", BATCHED)
def test_rows_do_not_depend_on_the_batch(name):
    function, x = BATCHED[name]
    if name == "bfloat16":
        x = np.asarray(rlx.array(x).astype("bfloat16"))
    compiled = rlx.jit(function, deterministic="batch")
    whole = np.asarray(compiled(x))
    wanted = np.asarray(rlx.jit(function, device="reference")(x), np.float32)
    np.testing.assert_allclose(whole.astype(np.float32), wanted, rtol=0.03, atol=1e-3)
    for count in (1, 5):
        part = np.asarray(compiled(x[:count]))
        assert part.tobytes() == whole[:count].tobytes()[: part.nbytes], count


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_rows_of_complex_products_do_not_depend_on_the_batch(dtype, swapped):
    """Whichever operand is the larger, the parts are added in one order."""
    x, w = ((normal(*s) + 1j * normal(*s)).astype(dtype) for s in ((70, 48), (48, 10)))
    product = (lambda x, w: (w.T @ x.T).T) if swapped else (lambda x, w: x @ w)
    f = rlx.jit(product, deterministic="batch")
    whole = np.asarray(f(x, w))
    np.testing.assert_allclose(whole, x @ w, rtol=1e-4, atol=1e-4)
    for count in (1, 5, 33):
        part = np.asarray(f(x[:count], w))
        assert part.tobytes() == whole[:count].tobytes(), count


DEEP = families(1100)  # deeper than what is summed at once


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", ["products", "transposed products"])
@pytest.mark.parametrize("held", HELD)
def test_rows_of_deep_products_do_not_depend_on_the_batch(name, held, dtype):
    assert differing(DEEP[name], dtype, held, (1, 7, 33), 70) == []


@pytest.mark.parametrize("name", [n for n, f in DEEP.items() if "int8" not in f.dtypes])
def test_rows_of_every_family_do_not_depend_on_the_batch(name):
    assert differing(DEEP[name], "float32", "argument", (1, 5), 18) == []


EINSUMS = {
    "bik,kj->bij": "a matrix for all",
    "ijb,jik->kb": "the batch last",
    "bsd,sdt->bst": "a matrix for each",
    "kjb,kji->ibj": "the batch in the middle",
    "bkl,lkb->b": "one number for each",
    "bki,jk->jib": "nothing in its place",
}


@pytest.mark.parametrize("text", EINSUMS)
@pytest.mark.parametrize("sizes", [(3, 1, 300), (1, 5, 40), (16, 3, 1)])
def test_products_in_any_layout_do_not_depend_on_the_batch(text, sizes):
    """What the matrix kernel cannot store is summed in its order, too."""
    size = dict(zip("ijksdtlb", (*sizes, *sizes, 2, 9), strict=True))
    (left, right), out = text.split("->")[0].split(","), text.split("->")[1]
    x, w = (normal(*(size[c] for c in letters)) for letters in (left, right))
    f = rlx.jit(lambda x, w: rnp.tanh(rnp.einsum(text, x, w)), deterministic="batch")
    whole = np.asarray(f(x, w))
    np.testing.assert_allclose(whole, np.tanh(np.einsum(text, x, w)), rtol=1e-3, atol=1e-4)
    for count in (1, 4):
        parts = [
            np.take(array, range(count), letters.index("b")) if "b" in letters else array
            for array, letters in ((x, left), (w, right))
        ]
        wanted = np.take(whole, range(count), out.index("b"))
        np.testing.assert_array_equal(np.asarray(f(*parts)), wanted)


ROUNDS_TWICE = platform.machine() in ("x86_64", "AMD64") and "+fma" not in host().features


def in_turn(x, w):
    """Products of `w` with the windows of `x`, each rounded once as it is added."""
    size, places = len(w), x.shape[1] - len(w) + 1
    total = np.zeros((len(x), places, places, x.shape[3]), np.float32)
    for i, j in np.ndindex(size, size):
        seen = x[:, i : i + places, j : j + places].astype(np.float64)
        total = (seen * w[i, j, 0] + total).astype(np.float32)
    return total


@pytest.mark.skipif(ROUNDS_TWICE, reason="the processor has no fused multiply-adds")
@pytest.mark.parametrize(
    ("layout", "size"), [("NHWC", 3), ("NHWC", 7), ("NCHW", 3), ("HWNC", 3), ("NWHC", 3)]
)
def test_products_of_small_windows_are_added_in_turn(layout, size):
    """As the kernel of matrix products adds, so that the fast mode's multiply-adds are kept."""
    x, w = normal(17, 9, 9, 6), normal(size, size, 1, 6)
    order = ["NHWC".index(axis) for axis in layout]

    def convolve(x):
        return rlx.lax.conv_general_dilated(
            x, w, (1, 1), "VALID", dimension_numbers=(layout, "HWIO", layout), feature_group_count=6
        )

    f = rlx.jit(convolve, deterministic="batch")
    for count in (1, 5, 17):
        found = np.asarray(f(np.ascontiguousarray(x[:count].transpose(order))))
        wanted = in_turn(x[:count], w).transpose(order)
        np.testing.assert_array_equal(found, wanted)


def test_products_of_open_sizes_add_in_the_same_order():
    x, w = normal(70, 700), normal(700, 33)
    known = rlx.jit(lambda x, w: x @ w, deterministic="batch")
    rows = rlx.jit(lambda x, w: x @ w, deterministic="batch", dynamic={"x": {0: "n"}})
    axes = {"x": {0: "n", 1: "k"}, "w": {0: "k"}}
    both = rlx.jit(lambda x, w: x @ w, deterministic="batch", dynamic=axes)
    for count in (1, 9, 70):
        np.testing.assert_array_equal(rows(x[:count], w), known(x[:count], w))
        np.testing.assert_array_equal(both(x[:count], w), known(x[:count], w))


@pytest.mark.parametrize("extent", [3, 16, 41])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_go_in_one_order_along_any_axis(extent, dtype):
    """Alone, side by side in memory, and between other axes."""
    x = (random.normal(size=(5, extent, 4)) * 100).astype(dtype)
    add = rlx.jit(lambda x, axis: x.sum(axis), static_argnames="axis", deterministic="batch")
    whole = np.asarray(add(x, axis=1))
    np.testing.assert_array_equal(np.asarray(add(x[:, :, 0].copy(), axis=1)), whole[:, 0])
    np.testing.assert_array_equal(np.asarray(add(x[0, :, 1].copy(), axis=0)), whole[0, 1])
    np.testing.assert_array_equal(np.asarray(add(x[1], axis=0)), whole[1])
    np.testing.assert_array_equal(np.asarray(add(x[2].T.copy(), axis=1)), whole[2])
    np.testing.assert_array_equal(np.asarray(add(np.moveaxis(x, 1, 0), axis=0)), whole)


def test_sums_of_open_length_go_in_the_same_order():
    x = normal(3, 37)
    known = rlx.jit(lambda x: x.sum(1), deterministic="batch")
    by_rows = rlx.jit(lambda x: x.sum(1), deterministic="batch", dynamic={"x": {1: "n"}})
    by_columns = rlx.jit(lambda x: x.sum(0), deterministic="batch", dynamic={"x": {0: "n"}})
    for count in (1, 15, 16, 17, 37):
        part = x[:, :count].copy()
        np.testing.assert_array_equal(by_rows(part), known(part))
        np.testing.assert_array_equal(by_columns(part.T.copy()), known(part))


def test_what_cannot_be_had_is_refused():
    with pytest.raises(ArgumentError, match="deterministic is 'threads'") as caught:
        rlx.jit(lambda x: x, deterministic="threads")
    assert caught.value.fix.startswith('give "batch", or leave it out')
    with pytest.raises(ArgumentError, match='reference does not offer deterministic="batch"'):
        rlx.jit(lambda x: x, device="reference", deterministic="batch")(IN)


# -- called by others ------------------------------------------------------------------------------

DEEP_WEIGHT = normal(1100, 40)


@rlx.jit(deterministic="batch")
def inner(x):
    return rnp.tanh(x @ DEEP_WEIGHT / 30)


@rlx.jit(deterministic="batch", precision="mixed_bf16")
def inner_low(x):
    return rnp.tanh(x @ DEEP_WEIGHT / 30)


def in_scan(x):
    return rlx.scan(lambda carry, _: (carry + inner(x).sum(-1), None), x[:, 0], None, 3)[0]


def in_cond(x):
    return rlx.cond(rnp.array(True), inner, lambda x: x[:, :40], x)


def along_axis(x):
    return rlx.vmap(lambda row: inner(row) + rlx.lax.axis_index("i") * 0, axis_name="i")(x)


CALLERS = {
    "a function": lambda x: inner(x) * 2,
    "one with a policy": lambda x: inner_low(x) * 2,
    "a third": lambda x: rlx.jit(lambda x: inner(x) + 1)(x),
    "vmap": rlx.vmap(inner),
    "vmap of a named axis": along_axis,
    "gradients": rlx.vmap(rlx.grad(lambda row: inner(row).sum())),
    "pullback": lambda x: rlx.vjp(inner, x)[1](rnp.ones((len(x), 40)))[0],
    "jvp": lambda x: rlx.jvp(inner, (x,), (x,))[1],
    "checkpoint": rlx.grad(lambda x: (rlx.checkpoint(inner)(x) ** 2).sum()),
    "scan": in_scan,
    "cond": in_cond,
}


@pytest.mark.parametrize("is_eager", [True, False])
@pytest.mark.parametrize("name", CALLERS)
def test_what_calls_an_invariant_function_is_invariant(name, is_eager):
    call = CALLERS[name] if is_eager else rlx.jit(CALLERS[name])
    x = normal(70, 1100)
    whole = np.asarray(call(x))
    for count in (1, 9):
        np.testing.assert_array_equal(np.asarray(call(x[:count])), whole[:count])


def test_a_device_that_cannot_refuses_a_call_too():
    with pytest.raises(ArgumentError, match='reference does not offer deterministic="batch"'):
        rlx.jit(lambda x: inner(x) * 2, device="reference")(normal(2, 1100))


@pytest.mark.parametrize("extent", [3, 16, 41])
@pytest.mark.parametrize(("dtype", "reverse"), [("float32", False), ("bfloat16", True)])
def test_running_sums_go_in_one_order_along_any_axis(extent, dtype, reverse):
    """Alone, side by side in memory, between other axes, and of open length."""
    x = (random.normal(size=(5, extent, 20)) * 100).astype("float32").astype(dtype)

    def run(x, axis):
        return rlx.lax.cumsum(x, axis, reverse)

    add = rlx.jit(run, static_argnames="axis", deterministic="batch")
    whole = np.asarray(add(x, axis=1))
    np.testing.assert_array_equal(np.asarray(add(x[2], axis=0)), whole[2])
    np.testing.assert_array_equal(np.asarray(add(x[:, :, 3].copy(), axis=1)), whole[:, :, 3])
    np.testing.assert_array_equal(np.asarray(add(x[0, :, 1].copy(), axis=0)), whole[0, :, 1])
    turned = np.asarray(add(x.transpose(1, 0, 2).copy(), axis=0))
    np.testing.assert_array_equal(turned.transpose(1, 0, 2), whole)
    for axis, part, wanted in ((1, x[:, :, 3], whole[:, :, 3]), (0, x[1], whole[1])):
        options = {"deterministic": "batch", "dynamic": {"x": {axis: "n"}}}
        by_length = rlx.jit(lambda x, axis=axis: run(x, axis), **options)
        np.testing.assert_array_equal(np.asarray(by_length(part.copy())), wanted)
