"""`rlx.numpy.fft` means what `jax.numpy.fft` means: values, dtypes, derivatives, batches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import ArgumentError, AttributeValueError, AxisError, DtypeError
from rlx.trace.make_graph import trace

FOUR = np.random.default_rng(0).normal(size=(3, 4, 2, 5))
REAL = FOUR[:, :, 0]
COMPLEX = REAL + 1j * FOUR[:, :, 1]
SHORT = {"float64": "float32", "complex128": "complex64"}
TAKES_REAL = ("rfft", "ihfft", "rfft2", "rfftn")
LINE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
PLANE = ("fft2", "ifft2", "rfft2", "irfft2")
SPACE = ("fftn", "ifftn", "rfftn", "irfftn")
ON_LINES = [
    {},
    {"n": 4},
    {"n": 9, "norm": "ortho"},
    {"n": 1},
    {"axis": 0, "norm": "forward"},
    {"axis": -2, "n": 7, "norm": "backward"},
]
ON_PLANES = [{}, {"s": (6, 3), "norm": "ortho"}, {"axes": (2, 0), "norm": "forward"}]
IN_SPACE = [
    {},
    {"s": (2, 7), "norm": "forward"},
    {"axes": (1, 0, 2), "norm": "ortho"},
    {"axes": (-1,)},
    {"s": (4, 4), "axes": (1, 0)},
]
CASES = [
    pytest.param(name, options, id=f"{name}-{i}")
    for names, many in ((LINE, ON_LINES), (PLANE, ON_PLANES), (SPACE, IN_SPACE))
    for name in names
    for i, options in enumerate(many)
]


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def both(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    ours, theirs = getattr(rnp.fft, name), getattr(jnp.fft, name)
    return (lambda x: ours(x, **options)), jax.jit(lambda x: theirs(x, **options))


def operand(name: str) -> np.ndarray:
    return REAL if name in TAKES_REAL else COMPLEX


def assert_near(ours: Any, theirs: Any) -> None:
    """Equal up to a few roundings, relative to the largest number of all."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    bound = 16 * np.finfo(theirs.dtype).eps * max(1, np.abs(theirs).max(initial=0))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound)


def moves(x: np.ndarray, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    real = random.normal(size=x.shape)
    return real + 1j * random.normal(size=x.shape) if x.dtype.kind == "c" else real


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), CASES)
def test_values_and_derivatives(name: str, options: dict[str, Any]):
    ours, theirs = both(name, options)
    x = operand(name)
    t = moves(x, 1)
    out, pushed = rlx.jvp(ours, (x,), (t,))
    assert_near(out, theirs(x))
    assert_near(pushed, theirs(t))
    _, pull = rlx.vjp(ours, x)
    ct = moves(np.asarray(out), 2)
    pull_theirs = jax.jit(lambda ct: jax.vjp(theirs, x)[1](ct))
    assert_near(pull(rnp.array(ct))[0], pull_theirs(ct)[0])
    short = x.astype(SHORT[x.dtype.name])
    assert_near(
        ours(short), np.asarray(theirs(short.astype(x.dtype))).astype(SHORT[out.dtype.name])
    )


@pytest.mark.parametrize("name", [*LINE, *PLANE, *SPACE])
def test_real_and_integer_operands_are_converted(name: str):
    ours, theirs = both(name, {})
    assert_near(ours(REAL), theirs(REAL))
    short = (REAL > 0).astype("float32")
    for x in (REAL > 0, (REAL > 0).astype("int64"), short.astype("float16"), short):
        assert_near(ours(x), theirs(short))


@pytest.mark.parametrize("name", SPACE)
def test_more_axes_than_the_op_takes_at_once(name: str):
    ours, theirs = both(name, {"norm": "ortho"})
    x = FOUR if name in TAKES_REAL else FOUR * (1 + 2j)
    assert_near(ours(x), theirs(x))
    five = np.stack([x, 2 * x])
    assert_near(ours(five), theirs(five))


def test_no_axes_and_empty_batches():
    assert rnp.fft.fftn(np.float32(3)).dtype == "complex64"
    assert_near(rnp.fft.fftn(REAL, axes=()), REAL + 0j)
    assert rnp.fft.rfft(np.zeros((0, 6))).shape == (0, 4)
    assert rnp.fft.irfft(np.zeros((0, 4), complex)).shape == (0, 6)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 97, 360])
def test_inverse_of_any_length(n: int):
    x = np.random.default_rng(n).normal(size=n)
    assert_near(rnp.fft.irfft(rnp.fft.rfft(x), n), x)
    assert_near(rnp.fft.ifft(rnp.fft.fft(x)), x + 0j)


@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name: str, n: int):
    ours, theirs = getattr(rnp.fft, name), getattr(jnp.fft, name)
    for options in ({}, {"d": 0.1}):
        assert ours(n, **options).dtype == "float32"
        assert_near(ours(n, dtype="float64", **options), theirs(n, dtype="float64", **options))


@pytest.mark.parametrize("axes", [None, 0, (1, -1)])
def test_shifts(axes: Any):
    assert_near(rnp.fft.fftshift(REAL, axes), jnp.fft.fftshift(REAL, axes))
    assert_near(rnp.fft.ifftshift(REAL, axes), jnp.fft.ifftshift(REAL, axes))


# -- transforms -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LINE, *PLANE, *SPACE])
def test_batches_and_second_order(name: str):
    ours, theirs = both(name, {})
    x = operand(name)
    many = np.stack([x, 2 * x, moves(x, 3)], axis=1)
    assert_near(rlx.vmap(ours, in_axes=1)(many), jax.jit(jax.vmap(theirs, in_axes=1))(many))

    def energy(function: Any, numpy: Any) -> Any:
        return lambda x: numpy.sum(numpy.abs(function(x)) ** 4)

    t = moves(x, 4)
    push = rlx.jvp(rlx.grad(energy(ours, rnp)), (x,), (t,))[1]
    second = jax.jit(lambda t: jax.jvp(jax.grad(energy(theirs, jnp)), (x,), (t,))[1])
    assert_near(push, second(t))


@pytest.mark.parametrize("name", LINE)
def test_compiled(name: str):
    ours, _ = both(name, {"n": 6, "norm": "ortho"})
    assert_near(rlx.jit(ours)(operand(name)), ours(operand(name)))


def test_axes_beside_may_be_symbolic():
    graph = trace(rnp.fft.rfft, (rlx.spec(("n", 6), "float32"),)).graph
    assert str(graph.results[0].type) == "c64[n, 4]"


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: rnp.fft.fft(REAL, n=0), AttributeValueError),
        (lambda: rnp.fft.irfft(REAL[..., :1]), AttributeValueError),
        (lambda: rnp.fft.rfft(np.zeros((3, 0))), AttributeValueError),
        (lambda: rnp.fft.fft(REAL, n=2.5), ArgumentError),
        (lambda: rnp.fft.fft(REAL, axis=3), AxisError),
        (lambda: rnp.fft.fft(REAL, axis=None), ArgumentError),
        (lambda: rnp.fft.fft(np.float32(1)), AxisError),
        (lambda: rnp.fft.rfftn(np.float32(1)), AxisError),
        (lambda: rnp.fft.fftn(REAL, axes=(0, 0)), AxisError),
        (lambda: rnp.fft.fftn(REAL, s=(2, 2, 2, 2)), AxisError),
        (lambda: rnp.fft.fftn(REAL, s=(2, 2), axes=(0,)), ArgumentError),
        (lambda: rnp.fft.fftn(REAL, s=2), ArgumentError),
        (lambda: rnp.fft.fft2(REAL, axes=(0,)), ArgumentError),
        (lambda: rnp.fft.fft(REAL, norm="Ortho"), AttributeValueError),
        (lambda: rnp.fft.rfft(COMPLEX), DtypeError),
        (lambda: rnp.fft.ihfft(COMPLEX), DtypeError),
        (lambda: rnp.fft.fftfreq(0), AttributeValueError),
        (lambda: rnp.fft.fftfreq(4, dtype="int32"), DtypeError),
        (lambda: rnp.fft.fftshift(REAL, 3), AxisError),
    ],
)
def test_bad_input_is_an_error_with_a_fix(call: Any, error: type):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.where
    assert caught.value.fix
