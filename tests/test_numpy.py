"""`rlx.numpy` against NumPy's numbers and JAX's dtypes, at once and recorded."""

import builtins

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx.numpy as rnp
from rlx.ir.interpret import interpret
from rlx.trace.make_graph import trace

_random = np.random.default_rng(0)
ARRAYS = {
    "a": _random.normal(size=(2, 3)).astype("float32"),
    "b": _random.normal(size=(3,)).astype("float32"),
    "p": _random.uniform(0.5, 3.0, size=(2, 3)).astype("float32"),
    "u": _random.uniform(-0.9, 0.9, size=(2, 3)).astype("float32"),
    "w": _random.normal(size=(3, 4)).astype("float32"),
    "t": _random.normal(size=(2, 3, 4)).astype("float32"),
    "s": _random.normal(size=(2, 4, 5)).astype("float32"),
    "v": np.array([3.0, 1.0, 2.0, 1.0, 5.0], "float32"),
    "n": np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]], "float32"),
    "f": np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 2.5], "float32"),
    "i": np.array([[3, -4, 5], [-7, 8, 0]], "int32"),
    "j": np.array([[2, 3, -2], [5, -3, 1]], "int32"),
    "k": np.array([2, 0, 1], "int32"),
    "q": np.array([5, 3, 200], "uint8"),
    "h": np.array([1.5, 2.5, -3.0], "float16"),
    "m": np.array([[True, False, True], [False, False, True]]),
    "o": np.array([True, False, True]),
    "c": (_random.normal(size=3) + 1j * _random.normal(size=3)).astype("complex64"),
}

# each expression is evaluated with the names of NumPy, of jax.numpy and of rlx.numpy
ELEMENTWISE = """
exp(a) | exp2(a) | expm1(a) | log(p) | log2(p) | log10(p) | log1p(p) | sqrt(p) | cbrt(a) | sin(a)
cos(a) | tan(a) | arcsin(u) | arccos(u) | arctan(a) | sinh(a) | cosh(a) | tanh(a) | arcsinh(a)
arccosh(p + 1) | arctanh(u) | arctan2(a, b) | hypot(a, b) | sinc(a) | logaddexp(a, b)
logaddexp2(a, b) | add(a, b) | subtract(a, 1) | multiply(i, 2.5) | divide(i, j)
true_divide(a, b) | maximum(a, b) | minimum(a, 0) | maximum(n, 2) | fmax(n, 2.0) | fmin(n, 2.0)
less(m, o) | less_equal(m, True) | greater(False, m) | greater_equal(m, o) | m < o | True >= m
equal(i, 3) | not_equal(a, b) | less(a, b) | less_equal(i, j) | greater(a, 0)
greater_equal(i, 0) | bitwise_and(i, j) | bitwise_or(i, 1) | bitwise_xor(i, j) | invert(i)
invert(m) | left_shift(i, 2) | right_shift(i, 1) | right_shift(q, 1) | bitwise_and(m, o)
negative(i) | positive(a) | abs(i) | absolute(a) | fabs(i) | sign(a) | sign(i) | square(i)
reciprocal(p) | signbit(f) | copysign(a, b) | heaviside(a, 0.5) | floor(a) | ceil(a) | trunc(a)
rint(a) | round(a) | round(a, 2) | around(a, -1) | clip(a, -0.5, 0.5) | clip(i, None, 3)
floor_divide(i, j) | remainder(i, j) | mod(a, b) | fmod(a, b) | fmod(i, j) | divmod(i, j)[0]
divmod(a, b)[1] | modf(a)[0] | modf(a)[1] | floor_divide(a, b) | power(p, 2) | power(p, b)
power(a, 3) | power(i, 2) | float_power(p, 2.0) | power(2, abs(i)) | gcd(i, j) | lcm(i, j)
deg2rad(a) | rad2deg(a) | radians(a) | degrees(a) | ldexp(a, k) | nan_to_num(f)
nan_to_num(f, nan=1.0, posinf=2.0, neginf=-2.0) | isnan(f) | isinf(f) | isfinite(f) | isposinf(f)
isneginf(f) | isnan(i) | logical_and(a, o) | logical_or(i, o) | logical_xor(m, o) | logical_not(i)
where(m, a, b) | where(a > 0, a, 0) | where(m, 1, 2.5) | select([m, a > 0], [a, 2 * a], 7.0)
isclose(a, a + 1e-7) | allclose(a, a) | array_equal(a, a) | array_equal(a, b)
array_equiv(a, a[None]) | real(c) | imag(c) | conj(c) | angle(c) | abs(c) | c * c + 1 | exp(c)
sqrt(c) | c / c | square(c) | i / 2 | i // 2 | i % 3 | i ** 2 | -a | ~m | p ** 0.5 | 2 ** k
2.0 ** a | 1 - i | 3 / p | 7 // j | 7 % j | i & 1 | i << k | q + 1 | q * q | h + 1 | h * b | h + k
q + i[0] | q + h | m + m | m * o | o + 1 | o + 1.5 | a + 1j | i + 1.5 | bitwise_count(q)
unwrap(4 * b) | i0(a) | nextafter(a, b) | frexp(p)[0] | frexp(p)[1] | isreal(c) | iscomplex(c)
piecewise(a, [a < 0, a >= 0], [-1.0, 2.0]) | hypot(f, f[::-1]) | floor_divide(a, 0 * b)
ldexp(0.0 * a, 300) | ldexp(1e-30 * a, 140) | bitwise_count(o)
i % 0 | fmod(i, 0 * j) | divmod(i, 0 * j)[1] | c < c[::-1] | c >= 0.1 | greater(c.real, c)
"""
REDUCTIONS = """
sum(a) | sum(a, axis=0) | sum(a, axis=(0, 1)) | sum(a, axis=-1, keepdims=True) | sum(i) | sum(m)
sum(q) | sum(h) | sum(a, where=m) | sum(a, initial=2.0) | sum(t, axis=(0, 2)) | prod(p)
prod(i, 1) | max(a) | min(a, axis=1) | max(m) | max(i, initial=9)
max(a, axis=0, where=m, initial=-5.0) | amax(a) | amin(a) | any(m) | all(m, axis=0)
any(i, axis=1) | all(i) | mean(a) | mean(i, axis=0) | mean(h) | mean(a, where=m)
mean(t, axis=(0, 1), keepdims=True) | var(a) | var(a, axis=0, ddof=1) | std(a, axis=1) | std(i)
var(c) | argmax(a) | argmax(a, axis=0) | argmin(i, axis=1) | argmax(a, axis=1, keepdims=True)
argmax(n) | cumsum(a) | cumsum(a, axis=1) | cumsum(i, axis=0) | cumprod(p, axis=1)
cumsum(m, axis=1) | diff(a) | diff(v, n=2) | diff(a, axis=0) | ediff1d(v) | ptp(a)
ptp(a, axis=0) | count_nonzero(i) | count_nonzero(i, axis=0) | trapezoid(a)
trapezoid(a, dx=2.0, axis=0) | trapezoid(v, cumsum(v)) | average(a) | trapezoid(i, j)
average(q, weights=q)
average(a, axis=1, weights=b) | nansum(n) | nanprod(n, axis=0) | nanmax(n, axis=1) | nanmin(n)
nanmean(n, axis=0) | nanvar(n) | nanstd(n, axis=1) | nanargmax(n, axis=1) | nanargmin(n)
nancumsum(n, axis=1) | nancumprod(n) | median(a) | median(a, axis=0) | quantile(a, 0.3)
quantile(t, b * b * 0.1, axis=1) | quantile(a, 0.4, axis=1, method="nearest")
percentile(a, 30.0, axis=0, keepdims=True) | nanmedian(n, axis=1) | nanquantile(n, 0.25)
median(n) | cov(a) | cov(a, b[None]) | corrcoef(a) | a.sum() | a.mean(0) | a.max(axis=1)
a.T.sum(0) | a.std() | (a > 0).all() | i.prod() | m.any(0) | a.argmax() | a.cumsum(1)
v.argsort() | a.clip(0, 1) | a.round(1) | i.astype("float32")
"""
SHAPES = """
reshape(t, (6, 4)) | reshape(t, (-1, 2)) | reshape(t, -1) | reshape(t, (4, 6), order="F")
ravel(t) | ravel(t, order="F") | transpose(t) | transpose(t, (1, 2, 0)) | swapaxes(t, 0, 2)
moveaxis(t, 0, -1) | moveaxis(t, (0, 1), (-1, 0)) | rollaxis(t, 2) | expand_dims(a, 1)
expand_dims(a, (0, 2)) | squeeze(t[:1]) | squeeze(t[:, :1], 1) | atleast_1d(a) | atleast_2d(b)
atleast_3d(a) | broadcast_to(b, (4, 3)) | broadcast_arrays(a, b)[1] | concatenate([a, a])
concatenate([a, i], axis=1) | concatenate([a, b], axis=None) | stack([a, a])
stack([b, b], axis=1) | vstack([a, b]) | hstack([b, b]) | hstack([a, a]) | dstack([a, a])
column_stack([b, b]) | append(a, b) | split(v[:4], 2)[1] | split(v, [1, 3])[1]
array_split(v, 3)[0] | hsplit(w, 2)[1] | vsplit(a, 2)[0] | tile(b, 2) | tile(a, (2, 1, 2))
repeat(b, 2) | repeat(a, 2, axis=1) | repeat(a, array([1, 2, 0]), axis=1) | flip(a) | flip(a, 1)
flipud(a) | fliplr(a) | rot90(a) | rot90(a, 2) | rot90(a, -1) | roll(a, 1) | roll(a, 1, axis=1)
roll(a, (1, -1), axis=(0, 1)) | roll(v, -2) | pad(a, 1) | pad(a, ((0, 1), (2, 0)))
pad(a, 1, constant_values=5.0) | pad(v, 2, mode="edge") | pad(v, 3, mode="reflect")
pad(v, (1, 2), mode="symmetric") | pad(v, 7, mode="wrap") | pad(a, 1, mode="edge")
pad(a, 1, mode="maximum") | pad(a, 1, mode="mean") | pad(a, ((1, 1), (0, 2)), mode="minimum")
pad(v, 2, mode="linear_ramp", end_values=1.0) | tril(w) | triu(w, 1) | tril(t, -1) | diag(b)
diag(b, 1) | diag(b, -2) | diag(w) | diag(w, 1) | diagonal(t) | diagonal(t, 1, 1, 2) | trace(w)
diagflat(a[:, :1]) | vander(v, 3) | vander(v, increasing=True) | meshgrid(b, v)[0]
meshgrid(b, v, indexing="ij")[1] | meshgrid(b, v, sparse=True)[1] | block([[a, a], [a, a]])
resize(a, (3, 3)) | trim_zeros(f[3:]) | zeros((2, 3)) | ones(4, dtype="int32") | full((2,), 7)
full((2,), 1.5) | zeros_like(i) | ones_like(a) | full_like(a, 3) | arange(5) | arange(1, 9, 2)
arange(0.0, 1.0, 0.25) | arange(5, 0, -2) | linspace(0.0, 1.0, 5)
linspace(0, 10, 5, endpoint=False) | linspace(b, b + 1, 4) | linspace(b, b + 1, 4, axis=1)
logspace(0.0, 2.0, 3) | geomspace(1.0, 100.0, 3) | eye(3) | eye(2, 3, 1) | identity(2) | tri(3)
tri(2, 4, 1) | indices((2, 3)) | array([1, 2]) | array([1.0, 2.5]) | array([True])
array([[1, 2], [3, 4]], dtype="float32") | asarray(a) | array([1, 2.5]) | array(3) | array(2.5)
unstack(a)[1] | permute_dims(t, (2, 0, 1)) | matrix_transpose(t) | insert(b, 1, 9.0)
delete(v, 2) | insert(a, 1, b, axis=0) | hanning(6) | hamming(5) | blackman(6) | bartlett(7)
kaiser(5, 8.6) | astype(a, "int32")
"""
PRODUCTS = """
a @ w | matmul(b, w) | matmul(a, b) | matmul(t, s) | matmul(t, s[0]) | matmul(t[0], s)
matmul(b, t) | matmul(t[None], s[:, None]) | matmul(t[:, None], s[None]) | matmul(t[:1], s)
dot(a, w) | dot(b, b) | dot(a, 2.0) | dot(t, s[0]) | inner(a, b)
inner(t, w.T[:, :1] * ones((4,), "float32")) | vdot(a, a) | vdot(c, c) | outer(a, b)
kron(a, w) | cross(b, b[::-1]) | cross(a, b)
tensordot(t, s, ((0, 2), (0, 1))) | tensordot(a, w, 1) | tensordot(a, a) | vecdot(a, b)
tensordot(a, w, (1, 0)) | i @ j.T | einsum("ij,jk->ik", a, w) | einsum("ij,jk", a, w)
einsum("ij->ji", a) | einsum("ij->", a) | einsum("ii->i", w[:, :3]) | einsum("ii", w[:, :3])
einsum("bij,bjk->bik", t, s) | einsum("...ij,...jk->...ik", t, s) | einsum("ij,j->i", a, b)
einsum("i,j->ij", b, v) | einsum("ij,ij->ij", a, a) | einsum("bij,jk,kl->bil", t, w.T, w)
einsum("i...->...", t) | einsum("ij,ik->jk", a, a) | einsum("a,b,c->", b, v, b)
einsum("ijk,il->ljk", t, a) | convolve(v, b) | convolve(v, b, mode="same")
convolve(v, b, mode="valid") | correlate(v, b) | correlate(v, b, mode="full")
correlate(b, v, mode="full") | polyval(b, v) | polyadd(b, v) | polysub(v, b) | polymul(b, v)
polyder(v) | polyint(v) | interp(b, arange(5.0), v)
interp(b, array([0.0, 1.0]), array([2.0, 3.0]), left=9.0, right=8.0) | matvec(a, b) | vecmat(b, w)
"""
ORDER = """
sort(v) | sort(a, axis=0) | sort(a, axis=None) | sort(n) | sort(m) | argsort(v)
argsort(a, axis=0) | argsort(-i, axis=1) | lexsort((v, v[::-1])) | searchsorted(sort(v), b)
searchsorted(sort(v), v, side="right") | searchsorted(array([1.0, 2.0, nan]), array([nan, 1.5]))
digitize(b, array([-1.0, 0.0, 1.0])) | digitize(b, array([1.0, 0.0, -1.0]))
take(a, k[:2] % 2, axis=0) | take(a, k) | take(a, array([[0, 5]]))
take_along_axis(a, argsort(a, axis=1), axis=1) | take_along_axis(a, k[None] % 2, axis=0)
nonzero(i)[0] | flatnonzero(i) | argwhere(m) | compress(o, a, axis=1) | extract(m, a)
choose(k, [b, b, b], mode="clip") | unravel_index(array([1, 5]), (2, 3))[1]
ravel_multi_index((array([1]), array([2])), (2, 3)) | tril_indices(3)[0] | triu_indices(3, 1)[1]
diag_indices(3)[0] | a[ix_(k[1:], k)] | unique(v) | unique(i) | isin(i, j) | intersect1d(v, b)
union1d(v, b) | setdiff1d(v, array([1.0])) | setxor1d(v, b) | unique(v, return_counts=True)[1]
unique(v, return_inverse=True)[1] | unique(v, return_index=True)[1] | bincount(k)
bincount(array([1, 1, 3]), minlength=6) | bincount(k, weights=b) | histogram(v, bins=3)[0]
histogram(a, bins=array([-2.0, 0.0, 2.0]))[0] | histogram(v, bins=3)[1]
histogram_bin_edges(v, 4)
"""


def _expressions(text: str) -> list[str]:
    found = []
    for line in text.strip().splitlines():
        found += [part.strip() for part in line.split(" | ")]
    return found


ALL = [e for text in (ELEMENTWISE, REDUCTIONS, SHAPES, PRODUCTS, ORDER) for e in _expressions(text)]
# the size of the result depends on the elements
BY_VALUE = (
    "nonzero flatnonzero argwhere compress extract unique intersect1d union1d setdiff1d setxor1d "
    "bincount trim_zeros ravel_multi_index"
).split()


def evaluate(expression: str, module, arrays):
    names = {"__builtins__": builtins}
    exec(f"from {module.__name__} import *", names)
    return eval(expression, {**names, **arrays})


@pytest.mark.parametrize("expression", ALL)
def test_numbers_are_numpys_and_dtypes_are_jaxs(expression):
    arrays = {name: rnp.array(x) for name, x in ARRAYS.items()}
    found = evaluate(expression, rnp, arrays)
    with np.errstate(all="ignore"):
        expected = np.asarray(evaluate(expression, np, ARRAYS))
    assert found.shape == expected.shape
    np.testing.assert_allclose(
        np.asarray(found).astype(expected.dtype), expected, rtol=_tolerance(found.dtype), atol=2e-6
    )
    if expression.split("(")[0] in BY_VALUE or "array([1, 2, 0])" in expression:
        return
    assert found.dtype == _jax_dtype(expression)
    recorded = trace(lambda given: evaluate(expression, rnp, given), (arrays,))
    inputs = [x.host() for _, x in sorted(arrays.items())]
    (again,) = interpret(recorded.graph, [*inputs, *(x.host() for x in recorded.captures)])
    assert again.dtype == found.dtype
    np.testing.assert_allclose(again, np.asarray(found), rtol=1e-5, atol=1e-6)


def _tolerance(dtype) -> float:
    return 2e-3 if dtype.itemsize == 2 else 2e-5


def _jax_dtype(expression: str):
    with jax.enable_x64(False):
        shaped = jax.eval_shape(lambda given: evaluate(expression, jnp, given), dict(ARRAYS))
    return shaped.dtype
