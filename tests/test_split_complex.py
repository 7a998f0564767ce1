"""Complex numbers in kernels: each part is computed for itself."""

import numpy as np
import pytest
from lowering import check, typed

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.interpret import interpret
from rlx.runtime.session import default_session

EPS = float(np.finfo(np.float32).eps)
rng = np.random.default_rng(0)


def numbers(*shape: int, dtype: str = "complex64") -> np.ndarray:
    """Normal numbers for both parts."""
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


X, Y = numbers(5, 6), numbers(5, 6)
PROGRAMS = {
    "arithmetic": lambda m, x, y: (x * y - m.conj(x)) / y + 2.5 * x - 1j,
    "powers": lambda m, x, y: x**3 + m.square(y) + x**-2,
    "lengths": lambda m, x, y: m.abs(x) + (x * m.conj(x)).real + y.imag,
    "angles": lambda m, x, y: m.exp(1j * x.real) * m.exp(y),
    "sums": lambda m, x, y: m.sum(x * y, axis=0) + m.mean(x) + m.cumsum(y, axis=1)[0],
    "choices": lambda m, x, y: m.where((x == y) | (abs(x) > 1), x, y * 2),
    "movement": lambda m, x, y: m.concatenate([x.T[::-1], (x + y).reshape(6, 5)]).T,
    "stacks": lambda m, x, y: m.stack([x, y, x + y], axis=-1),
    "constants": lambda m, x, y: m.zeros_like(x) + x * np.array([1j, 2, 3, 4, 5, 6], "complex64"),
    "conversion": lambda m, x, y: (
        x.real.astype("complex64") * y + m.ones((5, 6)).astype("complex64")
    ),
    "gather": lambda m, x, y: (x + y)[:, np.array([3, 0, 5])] * 1j,
    "pad": lambda m, x, y: m.pad(x * y, 1, constant_values=2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_those_of_numpy_and_call_no_library(name: str):
    def program(x, y):
        return PROGRAMS[name](rnp, x, y)

    compiled = rlx.jit(program).lower(X, Y).compile()
    expected = PROGRAMS[name](np, X.astype("complex128"), Y.astype("complex128"))
    result = np.asarray(compiled(X, Y))
    assert "library" not in compiled.report()
    assert result.dtype == PROGRAMS[name](np, X, Y).dtype
    scale = np.abs(expected).max()
    np.testing.assert_allclose(result, expected, rtol=0, atol=16 * EPS * scale)


PRODUCTS = [
    ("ij,jk->ik", (7, 33), (33, 20)),
    ("bij,bjk->bik", (3, 4, 5), (3, 5, 6)),
    ("ij,j->i", (40, 30), (30,)),
    ("i,ij->j", (40,), (40, 30)),
    ("i,i->", (9,), (9,)),
    ("abc,cbd->ad", (3, 5, 7), (7, 5, 2)),
    ("ab,bcd->acd", (2, 3), (3, 20, 6)),
    ("ba,cbd->bcad", (6, 4), (5, 6, 30)),
    ("ij,jk->ik", (0, 3), (3, 4)),
    ("ij,jk->ik", (3, 0), (0, 4)),
]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("axes", "left", "right"), PRODUCTS)
def test_products(axes: str, left: tuple, right: tuple, dtype: str):
    x, y = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype)
    result = np.asarray(rlx.jit(lambda x, y: rnp.einsum(axes, x, y))(x, y))
    expected = np.einsum(axes, x.astype("clongdouble"), y.astype("clongdouble"))
    depth = np.prod([n for i, n in zip(axes.split(",")[0], left, strict=False)])
    eps = float(np.finfo(dtype).eps)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=16 * eps * max(1, depth) ** 0.5)


ODD = [0.0, -0.0, 1.0, -2.5, 3e38, 1e-38, np.inf, -np.inf, np.nan, 88.8, -104.0]
PLANE = np.array([complex(a, b) for a in ODD for b in ODD], "complex64")


def alike(result: np.ndarray, expected: np.ndarray) -> None:
    """Each part is near, or the same special number."""
    for ours, theirs in ((result.real, expected.real), (result.imag, expected.imag)):
        np.testing.assert_allclose(ours, theirs, rtol=8 * EPS, atol=1e-44)


def test_lengths_of_odd_numbers():
    with np.errstate(all="ignore"):
        alike(np.asarray(rlx.jit(rnp.abs)(PLANE)), np.abs(PLANE))


def test_exponentials_of_odd_numbers():
    # what has no bound in both parts has no angle either: any sign is right there
    given = PLANE[~(np.isinf(PLANE.real) & ~np.isfinite(PLANE.imag))]
    with np.errstate(all="ignore"):
        expected = np.exp(given.astype("complex128")).astype("complex64")
    alike(np.asarray(rlx.jit(rnp.exp)(given)), expected)
    no_angle = np.array([complex(-np.inf, np.inf), complex(-np.inf, np.nan)], "complex64")
    assert not np.asarray(rlx.jit(rnp.exp)(no_angle)).any()


ARCS = ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"]
POWERS = ["exp", "exp2", "expm1", "log1p"]
SMOOTH = ["sqrt", "log", "sin", "cos", "sinh", "cosh", "tan", "tanh", *ARCS, *POWERS]


@pytest.mark.parametrize("name", SMOOTH)
def test_functions_are_near_for_both_parts_together(name: str):
    around = np.exp(1j * rng.uniform(-np.pi, np.pi, 500)) * (1 + 1e-3 * rng.standard_normal(500))
    small = numbers(500) * 10.0 ** rng.uniform(-6, 0, 500)
    x = np.concatenate([3 * numbers(500), around, small, small + 1, small - 1, small + 1j])
    x = x.astype("complex64")
    result = np.asarray(rlx.jit(getattr(rnp, name))(x))
    expected = getattr(np, name)(x.astype("clongdouble"))
    assert np.max(np.abs(result - expected) / np.abs(expected)) <= 3 * EPS
    assert "library" not in rlx.jit(getattr(rnp, name)).lower(x).compile().report()


@pytest.mark.parametrize("name", [name for name in SMOOTH if name not in POWERS])
def test_functions_of_odd_numbers(name: str):
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(PLANE.astype("complex128")).astype("complex64")
    result = np.asarray(rlx.jit(getattr(rnp, name))(PLANE))
    # the sign of what is infinite beside NaN is anybody's
    for ours, theirs in ((result.real, expected.real), (result.imag, expected.imag)):
        loose = np.isinf(theirs) & (np.isnan(expected.real) | np.isnan(expected.imag))
        np.testing.assert_allclose(ours[~loose], theirs[~loose], rtol=8 * EPS, atol=1e-44)
        assert np.isinf(ours[loose]).all()


def test_quotients_neither_overflow_nor_vanish():
    x = np.array([1e38 + 1e38j, 1e-30 + 1e-30j, 1 + 2j, 0j, 3j], "complex64")
    y = np.array([1e38 - 1e38j, 1e-30 + 2e-30j, 0j, 0j, 1e-20 + 0j], "complex64")
    with np.errstate(all="ignore"):
        expected = x / y
    alike(np.asarray(rlx.jit(lambda x, y: x / y)(x, y)), expected)


SIMPLE = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
SPECIAL = np.array([complex(a, b) for a in SIMPLE for b in SIMPLE], "complex64")


def test_quotients_of_special_numbers_are_those_of_numpy():
    x, y = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
    result = np.asarray(rlx.jit(lambda x, y: x / y)(x, y))
    with np.errstate(all="ignore"):
        expected = x / y
    for ours, theirs in ((result.real, expected.real), (result.imag, expected.imag)):
        np.testing.assert_allclose(ours, theirs, rtol=4 * EPS)
        zeros = theirs == 0
        np.testing.assert_array_equal(np.signbit(ours[zeros]), np.signbit(theirs[zeros]))


def reference(name: str, *arrays: np.ndarray) -> np.ndarray:
    """What an op means, of arrays of one shape."""
    types = [typed(*x.shape, dtype=x.dtype.name) for x in arrays]
    with np.errstate(all="ignore"):
        return interpret(build(getattr(ops, name), types), arrays)[0]


def in_kernels(name: str, *arrays: np.ndarray) -> np.ndarray:
    """What an op gives, without a library."""
    types = [typed(*x.shape, dtype=x.dtype.name) for x in arrays]
    made = default_session().compile(build(getattr(ops, name), types))
    assert "library" not in made.report()
    return np.asarray(made(*arrays))


@pytest.mark.parametrize("name", ["sign", "exp2", "expm1", "log1p"])
def test_functions_of_special_numbers_are_their_references(name: str):
    expected, result = reference(name, SPECIAL.astype("complex128")), in_kernels(name, SPECIAL)
    # the sign of what is infinite or nothing beside NaN is anybody's
    for ours, theirs in ((result.real, expected.real), (result.imag, expected.imag)):
        np.testing.assert_allclose(ours, theirs, rtol=8 * EPS, atol=1e-44)


def test_signs_of_infinite_numbers_are_those_of_numpy():
    with np.errstate(all="ignore"):
        expected = np.sign(SPECIAL)
    np.testing.assert_allclose(rlx.jit(rnp.sign)(SPECIAL), expected, rtol=EPS)


def test_powers_are_those_of_numpy():
    plane = np.array([complex(a, b) for a in (*SIMPLE, 3.0) for b in (*SIMPLE, 0.5)])
    x, y = np.repeat(plane, len(plane)), np.tile(plane, len(plane))
    result, expected = in_kernels("pow", x, y), reference("pow", x, y)
    finite = np.isfinite(expected)
    np.testing.assert_allclose(result[finite], expected[finite], rtol=1e-13)
    for ours, theirs in ((result.real, expected.real), (result.imag, expected.imag)):
        np.testing.assert_array_equal(ours[~finite], theirs[~finite])


def test_whole_powers_are_products():
    x, y = np.array([1 + 1j, 2 - 1j, 3j, 2 + 0j]), np.array([4, 3, -2, 30], "complex128")
    expected = [-4, 2 - 11j, -1 / 9, 2**30]
    np.testing.assert_array_equal(in_kernels("pow", x, y), expected)


READERS = {
    "cumprod": lambda m, product: m.cumprod(product, axis=0),
    "fft": lambda m, product: m.fft.fft(product),
    "det": lambda m, product: m.linalg.det(product),
}


@pytest.mark.parametrize("name", READERS)
def test_products_are_read_whole(name: str):
    x, y = numbers(5, 6, dtype="complex128"), numbers(6, 5, dtype="complex128")
    result = np.asarray(rlx.jit(lambda x, y: READERS[name](rnp, x @ y))(x, y))
    np.testing.assert_allclose(result, READERS[name](np, x @ y), rtol=1e-10)


VIEWS = {
    "sum": (lambda x: ops.view_as_complex(ops.cumsum(x, axis=0)), typed(4, 2)),
    "order": (lambda x: ops.sort(ops.view_as_real(x), axis=1)[0], typed(4, dtype="c128")),
    "call": (lambda x: ops.cumprod(ops.view_as_complex(x * x), axis=0), typed(4, 2)),
    "result": (lambda x: ops.view_as_real(ops.cumprod(x, axis=0)), typed(4, dtype="c128")),
    "scatter": (
        lambda x: ops.view_as_complex(
            ops.dynamic_update_slice(
                ops.view_as_real(x),
                ops.full(shape=(1, 2), value=7.0, dtype="float64"),
                ops.full(shape=(), value=1, dtype="int32"),
                ops.full(shape=(), value=0, dtype="int32"),
            )
        ),
        typed(4, dtype="c128"),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_arrays_lie_in_memory_declared_otherwise(name: str):
    f, given = VIEWS[name]
    graph, x = build(f, [given]), np.arange(1.0, 1 + given.size).reshape(given.shape)
    x = (x * 1.5j - x if given.dtype.kind == "c" else x).astype(given.dtype)
    check(graph, [x])
    result = np.asarray(default_session().compile(graph)(x))
    np.testing.assert_allclose(result, interpret(graph, [x])[0], rtol=1e-12)


def test_real_products_may_have_a_complex_dtype():
    x, y = numbers(4, 5).real, numbers(5, 3).real

    def product(x, y):
        return rnp.matmul(x, y, preferred_element_type="complex64")

    result = np.asarray(rlx.jit(product)(x, y))
    assert result.dtype == "complex64"
    np.testing.assert_allclose(result, x @ y, rtol=0, atol=16 * EPS)


IN_PLACE = {
    "scaled": (lambda x: x * (2 - 1j) + 1, True),
    "swapped": (lambda x: lax.complex(x.imag, x.real), True),
    "normalized": (lambda x: x / rnp.sum(rnp.abs(x), axis=1, keepdims=True), True),
    "transposed": (lambda x: x.T * 2 + x, False),
    "reversed": (lambda x: x[:, ::-1] * 1j, False),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_donated_numbers_are_overwritten_when_both_parts_are_read(name: str):
    program, is_in_place = IN_PLACE[name]
    x = numbers(37, 37)
    compiled = rlx.jit(program, donate_argnums=0).lower(x).compile()
    assert ("takes its memory" in compiled.report()) == is_in_place
    np.testing.assert_array_equal(compiled(rlx.array(x)), rlx.jit(program)(x))


def test_a_product_goes_around_a_loop_of_no_rounds():
    def program(x, y):
        return lax.fori_loop(0, 0, lambda i, c: c * y, x @ y)

    x, y = numbers(3, 3, dtype="complex128"), numbers(3, 3, dtype="complex128")
    check(rlx.make_graph(program)(x, y), [x, y])
    np.testing.assert_allclose(np.asarray(rlx.jit(program)(x, y)), x @ y, rtol=1e-12)


def test_a_result_of_another_width_does_not_take_the_place_of_one_read():
    def program(x):
        x = rnp.fft.fft(x)  # in memory, and read in parts for the last time
        return rnp.fft.ifft((x.real + x.imag).astype("float64").astype("complex128")).real

    x = numbers(64)
    spectrum = np.fft.fft(x)
    expected = np.fft.ifft((spectrum.real + spectrum.imag).astype("float64")).real
    result = np.asarray(rlx.jit(program)(x))
    np.testing.assert_allclose(result, expected, rtol=0, atol=64 * EPS)


def test_loops_carry_complex_numbers():
    def program(x, y):
        def step(c, row):
            c = c * row + 1j
            return c, rnp.abs(c)

        return lax.scan(step, x[0], y)

    carry, lengths = rlx.jit(program)(X, Y)
    expected, sizes = X[0].astype("complex128"), []
    for row in Y.astype("complex128"):
        expected = expected * row + 1j
        sizes.append(np.abs(expected))
    np.testing.assert_allclose(carry, expected, rtol=32 * EPS)
    np.testing.assert_allclose(lengths, sizes, rtol=32 * EPS)


def test_what_has_no_rule_gets_whole_numbers():
    def program(x, y):
        return rnp.cumprod(x * y, axis=0) * 2 + rnp.fft.fft(x + y)

    compiled = rlx.jit(program).lower(X, Y).compile()
    wide = X.astype("complex128"), Y.astype("complex128")
    expected = np.cumprod(wide[0] * wide[1], axis=0) * 2 + np.fft.fft(wide[0] + wide[1])
    np.testing.assert_allclose(np.asarray(compiled(X, Y)), expected, rtol=0, atol=256 * EPS)
    assert "cumprod: library" in compiled.report()
