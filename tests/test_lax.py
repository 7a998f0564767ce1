"""`rlx.lax` against `jax.lax`: values and dtypes, at once and compiled; what it refuses."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.lax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.ir.errors import RlxError

_random = np.random.default_rng(0)
ARRAYS = {
    "a": _random.normal(size=(2, 3)).astype("float32"),
    "b": _random.normal(size=(2, 3)).astype("float32"),
    "p": _random.uniform(0.5, 3.0, size=(2, 3)).astype("float32"),
    "u": _random.uniform(-0.9, 0.9, size=(2, 3)).astype("float32"),
    "r": _random.normal(size=(1, 3)).astype("float32"),
    "t": _random.normal(size=(2, 3, 4)).astype("float32"),
    "w": _random.normal(size=(3, 4)).astype("float32"),
    "v": np.array([3.0, 1.0, 2.0, 1.0, 5.0], "float32"),
    "h": np.array([-2.5, -1.5, -0.5, -0.3, 0.49999997, 0.5, 1.5, 2.5], "float32"),
    "f": np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 2.5], "float32"),
    "i": np.array([[3, -4, 5], [-7, 8, 0]], "int32"),
    "j": np.array([[2, 3, -2], [5, -3, 1]], "int32"),
    "k": np.array([2, 0, 1], "int32"),
    "q": np.array([5, 3, 200], "uint8"),
    "s": np.array([1, 2, 3], "uint8"),
    "m": np.array([[True, False, True], [False, False, True]]),
    "o": np.array([True, False, True]),
    "c": (_random.normal(size=3) + 1j * _random.normal(size=3)).astype("complex64"),
    "n": np.array(2, "int32"),
}
ELEMENTWISE = """
abs(a) | abs(c) | acos(u) | acosh(add(p, 1.0)) | asin(u) | asinh(a) | atan(a) | atanh(u)
bitwise_not(i) | bitwise_not(m) | cbrt(a) | ceil(a) | clz(i) | cos(a) | cosh(a) | erf(a)
erf_inv(u) | erfc(a) | exp(a) | exp(c) | exp2(a) | expm1(a) | floor(a) | imag(c) | is_finite(f)
log(p) | log1p(p) | logistic(a) | neg(i) | population_count(q) | real(c) | rsqrt(p) | sign(a)
sign(i) | sin(a) | sinh(a) | sqrt(p) | square(i) | tan(a) | tanh(a) | add(a, b)
add(a, 1.0) | add(a, r) | add(n, i) | sub(i, 3) | mul(c, c) | div(i, j)
div(a, b) | rem(i, j) | rem(a, b)
max(a, 0.0) | min(f, 1.0) | atan2(a, b) | complex(a, b) | bitwise_and(i, j) | bitwise_or(m, m)
bitwise_xor(i, 7) | shift_left(i, 2) | shift_right_arithmetic(i, 1) | shift_right_logical(i, 1)
eq(a, b) | ne(a, b) | lt(a, 0.0) | le(i, j) | gt(i, j) | ge(a, b) | round(h)
round(h, RoundingMethod.TO_NEAREST_EVEN) | integer_pow(a, 3) | integer_pow(p, -2)
pow(p, a) | pow(a, 2) | pow(a, i) | reciprocal(p) | conj(c) | conj(a) | select(m, a, b)
select(lt(n, 5), a, b) | select_n(m, a, b)
select_n(rem(abs(i), 3), a, b, p) | select_n(n, a, b, p)
clamp(-0.5, a, 0.5) | clamp(0, i, 4) | clamp(neg(abs(a)), b, abs(a)) | nextafter(a, b)
convert_element_type(a, "int32") | convert_element_type(i, "float32")
bitcast_convert_type(a, "int32") | bitcast_convert_type(i, "float32")
"""
SHAPES = """
broadcast(a, (4, 2)) | broadcast_in_dim(r, (5, 4, 3), (1, 2))
full(broadcast_shapes((2, 1), (1, 3), (4, 1, 1)), 1.0)
broadcast_to_rank(a, 4) | broadcasted_iota("int32", (2, 3), 1) | iota("float32", 4)
collapse(t, 1) | collapse(t, 0, 2) | concatenate([a, b], 1) | expand_dims(a, (0, 2))
expand_dims(a, (-1,)) | full((2, 2), 3.0) | full((2,), 3, "uint8") | full_like(a, 7)
full_like(i, 2, shape=(3,)) | index_in_dim(t, 1, 1) | index_in_dim(t, -1, 2, keepdims=False)
pad(a, 1.0, [(1, 0, 0), (0, 2, 1)]) | pad(i, 0, [(-1, 0, 0), (0, -1, 2)]) | reshape(t, (4, 6))
reshape(a, (6,), (1, 0)) | rev(t, (0, 2)) | slice(t, (0, 1, 0), (2, 3, 4), (1, 1, 2))
slice(a, (1, 0), (2, 2)) | slice_in_dim(v, 1, -1, 2) | slice_in_dim(t, None, 2, axis=-1)
split(v, (2, 3)) | split(t, (1, 3), axis=2) | squeeze(r, (0,)) | squeeze(r, (-2,))
stack([a, b], 1) | stack([a, b], -1) | unstack(t, 1)
tile(a, (2, 1)) | transpose(t, (2, 0, 1))
"""
SPECIAL = """
lgamma(p) | digamma(p) | polygamma(full_like(p, 2.0), p) | zeta(add(p, 1.0), p) | igamma(p, abs(a))
igammac(p, abs(a)) | igamma_grad_a(p, abs(a)) | betainc(p, add(p, 0.5), abs(u)) | bessel_i0e(a)
bessel_i1e(a) | random_gamma_grad(p, abs(a)) | fft(c, "FFT", (3,)) | fft(w, "RFFT", (3, 4))
fft(c, FftType.IFFT, (3,)) | fft(fft(w, "RFFT", (4,)), "IRFFT", (4,))
"""
REDUCTIONS = """
reduce_sum(t, (0, 2)) | reduce_prod(a, (1,)) | reduce_max(t, (1,)) | reduce_min(t, (0, 1, 2))
reduce_and(m, (0,)) | reduce_or(m, (1,)) | reduce_xor(i, (0,)) | reduce_xor(m, (1,))
reduce(a, np.float32(0), add, (0,)) | reduce(a, np.float32(2), mul, (0, 1))
reduce(i, np.int32(-100), max, (1,)) | reduce(i, np.int32(1), min, (1,))
reduce(a, np.float32(0), lambda x, y: x + y - 0.0 * y, (0,))
reduce(m, np.bool_(True), bitwise_and, (0,))
reduce((v, iota("int32", 5)), (np.float32(9), np.int32(-1)), first_least, (0,))
argmax(t, 1, "int32") | argmin(a, 0, "uint8") | cumsum(t, 1) | cumsum(i, 0, reverse=True)
cumprod(a, 1) | cummax(a, 1) | cummin(i) | cumlogsumexp(t, 2) | cumlogsumexp(a, 1, reverse=True)
sort(a) | sort(i, 0) | sort((i, a), num_keys=1) | sort([i, j], 0, num_keys=2)
sort_key_val(v, iota("int32", 5)) | top_k(a, 2) | top_k(t, 1, axis=0) | top_k(i, 2)
dot(a, w) | dot(v, v) | dot(w, v[:4]) | batch_matmul(t, transpose(t, (0, 2, 1)))
dot_general(t, t, (((2,), (2,)), ((0,), (0,)))) | dot_general(t, w, (((1, 2), (0, 1)), ((), ())))
dot(q[None], s, preferred_element_type="int32") | dot(a, w, precision=Precision.HIGHEST)
"""
INDEXING = """
dynamic_slice(t, (0, n, -2), (1, 1, 2)) | dynamic_slice(v, [7], (3,))
dynamic_slice(w, k[:2], (2, 2))
dynamic_slice(v, (-2,), (2,)) | dynamic_slice(v, (neg(n),), (2,)) | dynamic_slice_in_dim(w, n, 2, 1)
dynamic_index_in_dim(t, n, 1) | dynamic_index_in_dim(t, neg(n), -1, keepdims=False)
dynamic_update_slice(w, a[:, :2], (1, n)) | dynamic_update_slice_in_dim(v, v[:2], 4, 0)
dynamic_update_index_in_dim(w, v[:4], n, 0)
dynamic_update_index_in_dim(w, a[:1, :1] + w[:, :1], 1, 1)
index_take(t, (k[:2] - 0, k[:2]), (1, 2))
gather(w, k[:, None], rows(GatherDimensionNumbers), (1, 4))
gather(w, k[:, None] + 1, rows(GatherDimensionNumbers), (1, 4))
gather(w, k[:, None] + 1, rows(GatherDimensionNumbers), (1, 2), mode="clip")
gather(w, k[:, None] + 1, rows(GatherDimensionNumbers), (1, 4), mode="fill", fill_value=7.0)
gather(w, k[:, None], rows(GatherDimensionNumbers), (1, 4), mode=GatherScatterMode.CLIP)
scatter(w, k[:, None], w, places(ScatterDimensionNumbers))
scatter(w, k[:, None] + 1, w, places(ScatterDimensionNumbers))
scatter_add(w, k[:, None] + 1, w, places(ScatterDimensionNumbers), mode="clip")
scatter_add(w, k[:, None] * 0, w, places(ScatterDimensionNumbers))
scatter_sub(w, k[:, None] * 0, w, places(ScatterDimensionNumbers))
scatter_mul(w, k[:, None] + 1, w, places(ScatterDimensionNumbers), mode=GatherScatterMode.CLIP)
scatter_min(w, k[:, None], 0 * w, places(ScatterDimensionNumbers))
scatter_max(w, k[:, None], 0 * w, places(ScatterDimensionNumbers), unique_indices=True)
"""
CONTROL = """
cond(n > 1, lambda x: x + 1, lambda x: x - 1, a) | cond(False, exp, neg, a)
switch(n, [exp, neg, square], a) | switch(7, [exp, neg], a)
while_loop(lambda x: x[0] < 50, lambda x: 2 * x, v) | fori_loop(0, 4, lambda i, x: x * 2 + i, a)
fori_loop(0, n, lambda i, x: x + 1, i) | scan(lambda c, x: (c + x, c * x), a[0], t[:, :, 0])
scan(lambda c, x: (c + 1, x), 0, v, reverse=True) | map(lambda x: x * x, v)
map(lambda x: (x.sum(), x + 1), t, batch_size=2) | map(lambda x: x[0], w, batch_size=2)
associative_scan(add, t, axis=1) | associative_scan(mul, v, reverse=True) | stop_gradient((a, i))
"""


def expressions(text: str) -> list[str]:
    return [part.strip() for part in text.strip().replace("\n", "|").split("|")]


def first_least(x: Any, y: Any) -> Any:
    """The lesser of two (number, index), by functions that arrays of both libraries have."""
    chosen = x[0] <= y[0]
    where = rnp.where if isinstance(chosen, rlx.Array | rlx.TracedTensor) else jnp.where
    return where(chosen, x[0], y[0]), where(chosen, x[1], y[1])


NAMES = {
    "np": np,
    "first_least": first_least,
    "rows": lambda numbers: numbers((1,), (0,), (0,)),
    "places": lambda numbers: numbers((1,), (0,), (0,)),
}


def evaluate(expression: str, module: Any, arrays: dict[str, Any]) -> Any:
    return eval(expression, {**vars(module), **NAMES, **arrays})


def assert_same(text: str, ours: Any, theirs: Any) -> None:
    ours, theirs = ([np.asarray(x) for x in rlx.tree.leaves(tree)] for tree in (ours, theirs))
    types = [[(x.dtype, x.shape) for x in tree] for tree in (ours, theirs)]
    assert types[0] == types[1], text
    for x, y in zip(ours, theirs, strict=True):
        tolerance = 4e-6 if x.dtype.kind in "fc" else 0
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=text)


TOPICS = {
    "elementwise": ELEMENTWISE,
    "shapes": SHAPES,
    "special": SPECIAL,
    "reductions": REDUCTIONS,
    "indexing": INDEXING,
    "control": CONTROL,
}


@pytest.mark.parametrize("topic", TOPICS)
def test_functions_give_what_those_of_jax_give(topic: str):
    """At once and compiled; all of a topic in one graph, which compiles faster than each."""
    texts = expressions(TOPICS[topic])

    def every(module: Any) -> Any:
        return lambda arrays: [evaluate(text, module, arrays) for text in texts]

    theirs = jax.jit(every(jax.lax))(ARRAYS)
    own = {name: rlx.array(x) for name, x in ARRAYS.items()}
    for run in (every(lax), rlx.jit(every(lax))):
        for text, x, y in zip(texts, run(own), theirs, strict=True):
            assert_same(text, x, y)


def test_parameters_have_the_names_of_jax():
    """But for those that concern many devices, or that only JAX's own code gives."""
    ignored = {"out_sharding", "sharding", "operand", "_split_transpose", "mode", "out_dtype"}
    ignored |= {"to"}
    for name in vars(lax):
        theirs = getattr(jax.lax, name, None)
        ours = getattr(lax, name)
        if name.startswith("_") or not inspect.isfunction(ours) or theirs is None:
            continue
        wanted = [p for p in inspect.signature(theirs).parameters if p not in ignored]
        given = list(inspect.signature(ours).parameters)
        if name in ("associative_scan", "scatter_sub", "stop_gradient", "random_gamma_grad"):
            continue
        given = [p for p in given if p not in ignored and (p != "accuracy" or p in wanted)]
        assert given == wanted, name


def test_derivatives_go_through():
    x = rlx.array(ARRAYS["a"])
    for f in (
        lambda x: lax.reduce(x, np.float32(1), lambda a, b: a * b + 0 * a, (0, 1)),
        lambda x: lax.cumlogsumexp(x, 1).sum(),
        lambda x: lax.pow(lax.square(x), np.float32(1.5)).sum(),
        lambda x: lax.dynamic_index_in_dim(x, 1, 1).sum(),
        lambda x: lax.map(lambda row: row * row.sum(), x, batch_size=2).sum(),
    ):
        wanted = rlx.jvp(f, (x,), (rnp.ones_like(x),))[1]
        np.testing.assert_allclose(rlx.grad(f)(x).sum(), wanted, rtol=1e-5)


# -- what it refuses ----------------------------------------------------------------------------

BAD = {
    "add(a, i)": "the dtypes differ, float32 and int32",
    "add(i, 0.5)": "a float32 number does not fit int32",
    "add(m, 1)": "a int32 number does not fit bool",
    "add(a, t)": "the operands have 2 and 3 axes",
    "add(a, w)": "do not broadcast",
    'add(a, convert_element_type(a, "float16"))': "the dtypes differ",
    "exp(i)": "no meaning for int32",
    "sin(m)": "no meaning for bool",
    "bitwise_and(a, a)": "no meaning for float32",
    "select(a, a, b)": "select",
    "select(m, a, i)": "the dtypes differ",
    "select_n(m, a, i)": "the dtypes differ",
    "clamp(0.5, i, 2)": "does not fit int32",
    "dot(t, a)": "are not vectors or matrices",
    "dot(a, a)": "the inner sizes differ",
    "dot_general(a, a, 3)": "do not pair axes",
    "batch_matmul(t, a)": "not equally many matrices",
    "reshape(a, (4,))": "reshape",
    "transpose(a, (0,))": "no order of the 2 axes",
    "transpose(a, 1)": "no sequence of integers",
    "broadcast_in_dim(a, (2, 4), (0, 1))": "neither 1 nor 4",
    "concatenate([a, i], 0)": "the dtypes differ",
    "concatenate([], 0)": "no operands",
    "pad(a, 1j, [(0, 0, 0)] * 2)": "does not fit float32",
    "select_n(m)": "there are no cases",
    "integer_pow(a, 2.5)": "not an integer",
    "reduce_sum(a, 1)": "no sequence of integers",
    "reduce(a, v, add, (0,))": "the initial value is f32[5]",
    "concatenate(1, 0)": "int is no sequence",
    "scatter(w, k[:, None], w, 3)": "the dimension_numbers are of int",
    "conv_dimension_numbers((1, 2, 3), (1, 2, 3), 5)": "int is no sequence",
    "pad(a, 0.0, [(1, 0, 0)])": "has 1 numbers for the 2 axes",
    "pad(a, 0.0, [(1, 0), (1, 0)])": "has 2 numbers, not 3",
    "slice(a, (0, 0), (3, 3))": "does not lie in an axis",
    "split(v, (2, 2))": "sum to 4",
    "collapse(a, 2)": "there are no axes",
    "squeeze(a, (0,))": "squeeze",
    "rev(a, (2,))": "axis 2 is outside",
    "reduce_sum(a, (0, 0))": "named twice",
    "reduce(a, 0, lambda x: x, (0,))": "",
    "reduce(a, np.int32(0), add, (0,))": "the dtypes differ",
    "cumsum(a, 2)": "axis 2 is outside",
    "argmax(a, 0, 'float32')": "no dtype for an index",
    "sort((a, v))": "the shapes differ",
    "top_k(a, 4)": "there are no 4 numbers",
    "dynamic_slice(a, (0,), (1, 1))": "there are 1 starts",
    "dynamic_slice(a, (0, 0.5), (1, 1))": "not an integer",
    "dynamic_slice(a, (0, a[0, 0]), (1, 1))": "a start is f32[]",
    "dynamic_slice(a, (0, 0), (3, 1))": "does not fit",
    "dynamic_slice(a, n, (1, 1))": "the starts are i32[]",
    "dynamic_update_slice(a, i[:1], (0, 0))": "the dtypes differ",
    "gather(w, k[:, None], rows(GatherDimensionNumbers), (1, 4), mode='never')": "no mode 'never'",
    "gather(w, k, rows(GatherDimensionNumbers), (1, 4))": "do not end in an axis",
    "scatter_add(w, k[:, None], i, places(ScatterDimensionNumbers))": "the dtypes differ",
    'fft(c, "DCT", (3,))': "there is no transform 'DCT'",
    "stack([a, i])": "the dtypes differ",
    "lgamma(i)": "no meaning for int32",
    "map(exp, a, batch_size=0)": "is not positive",
    "fori_loop(0, 3.5, lambda i, c: c, 0.0)": "the upper bound is f32[], not an integer",
    "fori_loop(v, 3, lambda i, c: c, 0.0)": "the lower bound is f32[5], not a scalar",
    "integer_pow(i, -1)": "is a fraction",
    "convert_element_type(a, 'float31')": "there is no dtype 'float31'",
}


@pytest.mark.parametrize("expression", BAD)
def test_bad_input_says_what_and_how_to_mend_it(expression: str):
    with pytest.raises((RlxError, TypeError)) as caught:
        evaluate(expression, lax, {k: rlx.array(x) for k, x in ARRAYS.items()})
    assert BAD[expression] in str(caught.value)
    if BAD[expression]:
        assert isinstance(caught.value, RlxError) and caught.value.fix
