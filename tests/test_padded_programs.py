"""Programs on arrays padded to buckets: they give what the same programs give without padding.

A longer run: `RANDOM_PROGRAMS=2000 pytest tests/test_padded_programs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from programs import some

import rlx
import rlx.numpy as rnp

ROWS = {"x": {0: "n"}}
POW2 = {"n": "pow2"}


def places(x: Any, count: Any) -> Any:
    """A row of x for each of its rows, computed from their numbers."""
    return (rnp.abs(x[:, 0]).astype("int32") * 3 + rnp.arange(count)) % count


def total(carry: Any, row: Any) -> tuple[Any, Any]:
    return row - carry, carry * 2


# Each takes and gives an array of three columns, with one row or more.
STEPS: dict[str, Callable[[Any], Any]] = {
    "the last row": lambda x: x[-1:],
    "the last row taken off": lambda x: x - x[-1],
    "a row at a size": lambda x: x + x[x.shape[0] - 1],
    "flipped": lambda x: x[::-1],
    "every second": lambda x: x[::2],
    "every third from the end": lambda x: x[::-3],
    "rolled": lambda x: rnp.roll(x, 2, 0),
    "moved by one": lambda x: rnp.concatenate([x[1:], x[:1]]),
    "joined": lambda x: rnp.concatenate([x, x[:1], x + 1]),
    "joined beside": lambda x: rnp.concatenate([x[:, 1:], x[::-1, :1]], 1),
    "repeated": lambda x: rnp.repeat(x, 2, 0),
    "padded": lambda x: rnp.pad(x, ((1, 2), (0, 0)), constant_values=2),
    "padded at an edge": lambda x: rnp.pad(x, ((0, 1), (0, 0)), mode="edge"),
    "spaced": lambda x: rlx.lax.pad(x, rnp.asarray(1, x.dtype), ((2, 0, 1), (0, 0, 0))),
    "turned": lambda x: x.T.reshape(-1, 3),
    "sorted": lambda x: rnp.sort(x, 0),
    "sorted across": lambda x: rnp.sort(x, 1),
    "sorted by a column": lambda x: x[rnp.argsort(x[:, 1])],
    "largest": lambda x: rlx.lax.top_k(x.T, 1)[0].T - x,
    "place of the largest": lambda x: x - x[rnp.argmax(x[:, 2])],
    "scanned": lambda x: rlx.scan(total, x[0], x)[1],
    "scanned from the end": lambda x: x + rlx.scan(total, x[0], x, reverse=True)[0],
    "summed": lambda x: rnp.cumsum(x, 0),
    "summed from the end": lambda x: rnp.cumsum(x[::-1], 0)[::-1],
    "gathered": lambda x: x[places(x, x.shape[0])],
    "added at places": lambda x: x.at[places(x, x.shape[0])].add(x),
    "set at places": lambda x: x.at[places(x, x.shape[0])].set(x),
    "largest at places": lambda x: x.at[places(x, x.shape[0])].max(1),
    "the last row set": lambda x: x.at[-1].set(5),
    "every second doubled": lambda x: x.at[::2].multiply(2),
    "a block": lambda x: x + rlx.lax.dynamic_slice(x, (places(x, x.shape[0])[0], 0), (1, 3)),
    "of complex numbers": lambda x: rnp.conj(x[::-1] + 1j * x).imag.astype(x.dtype) - x,
    "where": lambda x: rnp.where(x > x[::-1], x, -x),
    "counted": lambda x: x * x.shape[0] - rnp.arange(x.shape[0])[:, None].astype(x.dtype),
    "in a branch": lambda x: rlx.cond(x[-1, 0] > 0, lambda x: x[::-1], lambda x: x * 2, x),
    "in a loop": lambda x: rlx.fori_loop(0, x.shape[0], lambda i, y: y - x[i], x),
}
# numbers that tie, come last when sorted, or have a sign though they are 0
NUMBERS = [-3, -2, -1, -0.0, 0.0, 1, 2, 3, np.nan, np.inf]


def composed(names: Sequence[str]) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        for name in names:
            x = STEPS[name](x) % 16  # so small that sums are exact
        return x

    return program


def drawn(n: int, dtype: str, numbers: Sequence[Any] = NUMBERS) -> np.ndarray:
    return np.random.default_rng(n).choice(numbers, (n, 3)).astype(dtype)


def same(found: Any, wanted: Any, name: Any) -> None:
    for got, want in zip(rlx.tree.leaves(found), rlx.tree.leaves(wanted), strict=True):
        got, want = np.asarray(got), np.asarray(want)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, err_msg=str(name))
        if got.dtype.kind == "f":
            is_number = ~np.isnan(want)
            signs = np.signbit(got)[is_number], np.signbit(want)[is_number]
            np.testing.assert_array_equal(*signs, err_msg=str(name))


steps = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4)


@some(8)
@given(steps, st.sampled_from(["float32", "int32"]))
def test_padding_changes_no_result(names: list[str], dtype: str) -> None:
    program = composed(names)
    padded = rlx.jit(program, dynamic=ROWS, buckets=POW2, device="reference")
    numbers = NUMBERS if dtype == "float32" else range(-3, 4)
    for n in range(1, 21):
        x = drawn(n, dtype, numbers)
        with rlx.config.using(device="reference"):
            wanted = program(rlx.array(x))
        same(padded(x), wanted, (names, n))


@some(4)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3))
def test_padding_changes_no_derivative(names: list[str]) -> None:
    def slopes(x: Any, t: Any) -> Any:
        weighted = rlx.grad(lambda x: rnp.sum(composed(names)(x) ** 2))
        return weighted(x), rlx.jvp(composed(names), (x,), (t,))[1]

    sizes = {"x": {0: "n"}, "t": {0: "n"}}
    padded = rlx.jit(slopes, dynamic=sizes, buckets=POW2, device="reference")
    for n in (1, 2, 3, 5, 8, 13):
        x, t = (drawn(n + i, "float64", range(-3, 4)) for i in (0, 1))
        x, t = x[:n], t[:n]
        with rlx.config.using(device="reference"):
            wanted = slopes(rlx.array(x), rlx.array(t))
        same(padded(x, t), wanted, (names, n))


@some(4)
@given(steps, st.sampled_from([0, 1]))
def test_padding_changes_no_member_of_a_batch(names: list[str], axis: int) -> None:
    """The open axis is that of the batch, or that of the rows of its members."""
    batch = rlx.vmap(composed(names))
    padded = rlx.jit(batch, dynamic={"x": {axis: "n"}}, buckets=POW2, device="reference")
    for n in (1, 2, 3, 5, 8, 13):
        x = np.random.default_rng(n).choice(NUMBERS, (n, 4, 3)).astype("float32").swapaxes(0, axis)
        with rlx.config.using(device="reference"):
            wanted = batch(rlx.array(x))
        same(padded(x), wanted, (names, n))


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_devices_compile_padded_programs(device: str) -> None:
    if device == "xla":
        pytest.importorskip("jax", reason="the device xla needs JAX")

    def every(x: Any) -> Any:
        return [composed([name])(x) for name in STEPS], rlx.grad(slope)(x)

    def slope(x: Any) -> Any:
        moved = composed(["joined", "sorted by a column", "moved by one"])(x)
        return rnp.sum(moved * rlx.scan(total, x[-1], x)[1][-1])

    padded = rlx.jit(every, dynamic=ROWS, buckets={"n": (8,)}, device=device)
    plain = rlx.jit(every, device="reference")
    for n in (3, 8):
        x = drawn(n, "float32", range(-3, 4))
        pairs = zip(rlx.tree.leaves(padded(x)), rlx.tree.leaves(plain(x)), strict=True)
        for found, wanted in pairs:  # XLA's remainders have other signs of 0
            np.testing.assert_array_equal(found, wanted)
    assert padded.cache_info().compiles == 1


def test_rows_have_the_same_bits_whatever_the_padding() -> None:
    weights = np.random.default_rng(0).normal(size=(48, 48)).astype("float32")

    def model(x: Any) -> Any:
        y = rlx.nn.softmax(x @ weights) + rnp.tanh(x).mean(1, keepdims=True)
        sorted_rows = rnp.sort(rnp.concatenate([y, x[-1:]]), 0)
        return y, sorted_rows, rlx.scan(lambda h, row: (rnp.tanh(row @ weights + h), h), x[0], y)

    options: dict[str, Any] = {"deterministic": "batch"}
    padded = rlx.jit(model, dynamic=ROWS, buckets=POW2, **options)
    plain = rlx.jit(model, **options)
    for n in (1, 5, 8):
        x = np.random.default_rng(n).normal(size=(n, 48)).astype("float32")
        same(padded(x), plain(x), n)


def test_two_open_axes_are_padded_apart() -> None:
    def both(x: Any, y: Any) -> Any:
        product, rows = x @ y.T, rnp.abs(y[:, 0]).astype("int32") % x.shape[0]
        return (
            rnp.concatenate([x, y, x]),
            (product.reshape(-1), product.T.reshape(-1)[::-1], product[-1], product[:, -1]),
            (x.at[rows].add(y), x[rows]),
            (rnp.diagonal(product), rnp.trace(product), product[-1:, ::-1]),
            rnp.zeros((x.shape[0] * 2 + y.shape[0], 3)).at[: y.shape[0]].set(y),
        )

    sizes = {"x": {0: "n"}, "y": {0: "m"}}
    padded = rlx.jit(both, dynamic=sizes, buckets={**POW2, "m": (5, 9)}, device="reference")
    for n, m in ((1, 1), (3, 7), (8, 5), (13, 2)):
        x, y = drawn(n, "float32", range(-3, 4)), drawn(m, "float32", range(-3, 4))
        same(padded(x, y), rlx.jit(both, device="reference")(x, y), (n, m))


def test_rounds_beyond_the_true_ones_do_nothing() -> None:
    seen: list[float] = []

    def noted(x: np.ndarray) -> np.ndarray:
        seen.append(float(x))
        return x

    def doubled(limit: Any, h: Any) -> Any:  # never ends where the limit is 0 and h is 1
        return rlx.while_loop(lambda v: v != limit, lambda v: v + 1, h)

    def run(x: Any) -> Any:
        def step(h: Any, limit: Any) -> tuple[Any, Any]:
            spec = rlx.spec((), "float32")
            return doubled(limit, h), rlx.pure_callback(noted, spec, limit)

        return rlx.scan(step, rnp.float32(0), x)

    padded = rlx.jit(run, dynamic=ROWS, buckets={"n": (8,)})
    last, rows = padded(np.asarray([1, 4, 9], "float32"))
    assert (last.item(), rows.tolist()) == (9, [1, 4, 9])
    assert seen == [1, 4, 9]


def test_a_size_that_only_attributes_name_is_the_true_one() -> None:
    table = np.arange(12, dtype="float32")

    def run(x: Any) -> Any:
        return rnp.asarray(table)[x.shape[0]], rnp.asarray(table)[x.shape[0] : x.shape[0] + 2]

    padded = rlx.jit(run, dynamic=ROWS, buckets={"n": (8,)})
    same(padded(np.ones(3, "float32")), (table[3], table[3:5]), "table")


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "symmetric", "maximum", "mean"])
def test_borders_of_open_sizes_are_those_of_numpy(mode: Any) -> None:
    widths = ((2, 3), (0, 1))
    for buckets in (None, POW2):
        padded = rlx.jit(lambda x: rnp.pad(x, widths, mode=mode), dynamic=ROWS, buckets=buckets)
        for n in (1, 2, 5):
            x = np.arange(3 * n, dtype="float32").reshape(n, 3)
            np.testing.assert_allclose(padded(x), np.pad(x, widths, mode=mode), rtol=1e-6)


def test_what_would_depend_on_padding_is_an_error() -> None:
    padded = rlx.jit(lambda x: rnp.fft.fft(x), dynamic=ROWS, buckets=POW2)
    with pytest.raises(rlx.UnsupportedOp, match="would depend on the padding") as caught:
        padded(np.ones(3, "complex64"))
    assert "specialize=True" in caught.value.fix


@pytest.mark.parametrize("buckets", [None, POW2])
def test_loops_of_as_many_rounds_as_an_open_size_have_derivatives(buckets: Any) -> None:
    def run(x: Any) -> Any:
        def moved(i: Any, y: Any) -> Any:
            return rnp.tanh(y + x[i % x.shape[0]])

        last = rlx.fori_loop(x.shape[0], 2 * x.shape[0] + 1, moved, x[0])
        doubled, _ = rlx.scan(lambda y, _: (y * 2, None), last, None, length=x.shape[0])
        known = rlx.fori_loop(0, 3, moved, rlx.fori_loop(2, x.shape[0], moved, x[0]))
        return doubled.sum() + rlx.lax.stop_gradient(known).sum()

    loops = rlx.jit(rlx.value_and_grad(run), dynamic=ROWS, buckets=buckets)
    for n in (1, 2, 5):
        x = np.random.default_rng(n).normal(size=(n, 3))
        for found, wanted in zip(loops(x), rlx.value_and_grad(run)(rlx.array(x)), strict=True):
            np.testing.assert_allclose(found, wanted, 1e-9, 1e-9)


def test_ops_that_take_each_member_of_an_open_batch_by_itself_are_padded() -> None:
    def run(x: Any) -> Any:
        inverse, linalg = rnp.linalg.inv(x), rnp.linalg
        values = linalg.eigvalsh(x + rnp.swapaxes(x, 1, 2)), linalg.svd(x)[1], linalg.det(x)
        return inverse, values, rnp.fft.rfft(x).real, rlx.grad(lambda x: linalg.inv(x).sum())(x)

    none = rlx.jit(lambda x: rnp.linalg.eigvalsh(x[1:]), dynamic=ROWS, buckets=POW2)
    assert none(np.eye(3)[None]).shape == (0, 3)
    for device in ("cpu", "reference"):
        padded = rlx.jit(run, dynamic=ROWS, buckets=POW2, device=device)
        x = np.random.default_rng(0).normal(size=(3, 4, 4)) + 4 * np.eye(4)
        pairs = zip(rlx.tree.leaves(padded(x)), rlx.tree.leaves(run(rlx.array(x))), strict=True)
        for found, wanted in pairs:
            np.testing.assert_allclose(found, wanted, 1e-9, 1e-9)


def test_padding_is_sorted_behind_every_complex_number() -> None:
    both = rlx.jit(
        lambda x: (rnp.argsort(x), rnp.argsort(x, descending=True)),
        dynamic={"x": {0: "n"}},
        buckets=POW2,
        device="reference",
    )
    x = np.array([complex("nan+nanj"), 1, complex("nan+1j"), -1, complex("1+nanj")], "complex64")
    up, down = both(x)
    np.testing.assert_array_equal(up, np.argsort(x, stable=True))
    np.testing.assert_array_equal(down, rnp.argsort(rlx.array(x), descending=True))
