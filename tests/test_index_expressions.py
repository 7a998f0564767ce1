"""Every index: read, written and updated as in NumPy and jax.numpy, known or traced."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from index_expressions import indexed_arrays, numpys

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import BoundsError, ConcretizationError, ShapeError
from rlx.ir.interpret import interpret
from rlx.trace.array import Array
from rlx.trace.make_graph import trace

X = np.arange(12, dtype="float32").reshape(3, 4)


def run(fn: Any, *args: Any) -> Any:
    """Record a function, and evaluate the graph with NumPy."""
    recorded = trace(fn, args)
    captures = [c.host() for c in recorded.captures]
    results = [Array(r) for r in interpret(recorded.graph, [*map(np.asarray, args), *captures])]
    return recorded.unflatten(results)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def is_refused(x: np.ndarray, index: Any) -> bool:
    """Whether a place is outside; NumPy does not look where the result has no elements."""
    try:
        rlx.array(x)[index]
    except BoundsError:
        return True
    return False


def written(x: Any, index: Any, values: Any) -> Any:
    """A copy of x with values assigned at an index."""
    x = x.copy()
    x[index] = values
    return x


# -- NumPy's meaning ------------------------------------------------------------------------------


@given(indexed_arrays())
@settings(max_examples=120, deadline=None)
def test_every_index_reads_as_in_numpy(case):
    x, index = case
    expected = numpys(x, index)
    if expected is None:
        with pytest.raises((IndexError, ShapeError)):
            rlx.array(x)[index]
        return
    if not expected.size and is_refused(x, index):
        return
    same(rlx.array(x)[index], expected)
    same(run(lambda a: a[index], x), expected)


@given(indexed_arrays(), st.sampled_from(["one", "each", "row"]))
@settings(max_examples=120, deadline=None)
def test_every_index_writes_as_in_numpy(case, kind):
    x, index = case
    part = numpys(x, index)
    if part is None:
        with pytest.raises((IndexError, ShapeError)):
            written(rlx.array(x), index, 1.0)
        return
    if not part.size and is_refused(x, index):
        return
    shape = {"one": (), "each": part.shape, "row": part.shape[-1:]}[kind]
    values = -1 - np.arange(np.prod(shape), dtype="float32").reshape(shape)
    expected = written(x, index, values)
    same(written(rlx.array(x), index, values), expected)
    same(run(lambda a, v: written(a, index, v), x, values), expected)


@given(indexed_arrays())
@settings(max_examples=60, deadline=None)
def test_traced_places_read_and_write_as_in_numpy(case):
    x, index = case
    part = numpys(x, index)
    if part is None or (not part.size and is_refused(x, index)):
        return
    is_traced = [isinstance(i, np.ndarray | np.integer) and i.dtype != bool for i in index]
    arrays = [np.asarray(i) for i, is_one in zip(index, is_traced, strict=True) if is_one]

    def place(given: Any) -> tuple[Any, ...]:
        rest = iter(given)
        return tuple(
            next(rest) if is_one else i for i, is_one in zip(index, is_traced, strict=True)
        )

    same(run(lambda a, *given: a[place(given)], x, *arrays), part)
    expected = written(x, index, -1.0)
    same(run(lambda a, *given: written(a, place(given), -1.0), x, *arrays), expected)


# -- masks that are not known while tracing -------------------------------------------------------

MASKS: list[Any] = [
    lambda m: m, lambda m: (m,), lambda m: (..., m[0]), lambda m: (slice(None), m[1]),
    lambda m: (m[:, 0], 1), lambda m: (1, m[0]), lambda m: (m[:, 1], slice(1, None, 2)),
    lambda m: (slice(None, None, -1), m[0]), lambda m: (None, m), lambda m: (m, None),
    lambda m: (m[:, 0],), lambda m: (m[:, 0], None, 2), lambda m: m[0, 0], lambda m: (m[0, 0], 1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MASKS)))
@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "max"])
def test_traced_masks_choose_beside_other_items(number, method):
    mask = np.array([[1, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0]], bool)
    ufuncs = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
    index = MASKS[number](mask)
    values = [np.float32(5.0)]
    part = X[index]
    if part.ndim > 1 and number not in (2, 3, 7, 8, 11):  # one row of values for all places
        values.append(np.arange(part.shape[-1], dtype="float32") + 3)
    if number in (2, 3, 7):
        values.append(np.arange(3, dtype="float32")[:, None])
    for v in values:
        expected = X.copy()
        if method == "set":
            expected[index] = v
        else:
            expected[index] = ufuncs[method](expected[index], v)
        found = rlx.jit(lambda x, m, v: getattr(x.at[MASKS[number](m)], method)(v))(X, mask, v)
        same(found, expected)
    if method == "set":
        same(rlx.jit(lambda x, m: written(x, MASKS[number](m), 5.0))(X, mask), written(X, index, 5))


def test_a_traced_mask_beside_a_traced_number():
    mask = np.array([True, False, True])
    found = rlx.jit(lambda x, m, i: x.at[m, i].set(9.0))(X, mask, 2)
    same(found, written(X, (mask, 2), 9.0))


def test_masks_that_cannot_choose_say_so():
    mask = np.array([True, False, True])
    with pytest.raises(ShapeError, match="takes one value for all places"):
        rlx.jit(lambda x, m: written(x, m, rnp.ones((2, 4))))(X, mask)
    with pytest.raises(BoundsError, match="does not fit axes of the sizes"):
        rlx.jit(lambda x, m: written(x, m, 1.0))(X, mask[:2])
    with pytest.raises(ConcretizationError, match="beside a mask whose elements are not known"):
        rlx.jit(lambda x, m: written(x, (m, np.array([0, 1])), 1.0))(X, mask)
    with pytest.raises(ConcretizationError, match="boolean mask"):
        rlx.jit(lambda x, m: x[m])(X, mask)
    # where the mask is known, so is the number of its places
    slope = rlx.grad(lambda x: (written(x, x > 9, x[0, :2]) * 2).sum())(rlx.array(X))
    same(slope, np.where(X > 9, 0, 2) + np.where(np.arange(12).reshape(3, 4) < 2, 2, 0))


# -- x.at beside jax.numpy ------------------------------------------------------------------------

MODES = (None, "clip", "drop", "fill", "promise_in_bounds")


@pytest.mark.parametrize("wraps", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_updates_at_places_outside_are_jaxs(mode, wraps):
    inside = mode == "promise_in_bounds"
    places = np.array([0, 2, 1] if inside else [0, 7, -1, -9, 2], "int32")
    column = np.int32(1 if inside else 4)
    x, v = X + 1, np.float32(3.0)
    options = {"mode": mode, "wrap_negative_indices": wraps, "indices_are_sorted": False}
    indices: list[Any] = [
        lambda i, j: i, lambda i, j: (slice(1), i), lambda i, j: (i, j), lambda i, j: (j, slice(2)),
    ]  # fmt: skip
    for pick in indices if wraps else indices[:2]:
        methods = METHODS if wraps and pick is indices[0] else ("set", "add")
        update = functools.partial(_updated, pick, methods, v, options)
        expected = jax.jit(update)(x, places, column)
        found = (rlx.jit(update) if wraps else functools.partial(run, update))(x, places, column)
        for method, a, b in zip(methods, found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=method)
        if mode is None:
            continue
        fill = {"fill_value": -5.0} if mode == "fill" else {}
        read = functools.partial(_read, pick, {**options, **fill})
        expected = jax.jit(read)(x, places, column)
        same(run(read, x, places, column), expected)
        same(read(rlx.array(x), places, column), expected)


METHODS = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")


def _updated(pick: Any, names: Any, v: Any, options: Any, x: Any, i: Any, j: Any) -> Any:
    return [getattr(x.at[pick(i, j)], name)(v, **options) for name in names]


def _read(pick: Any, options: Any, x: Any, i: Any, j: Any) -> Any:
    return x.at[pick(i, j)].get(**options)


def test_options_reach_the_places_beside_masks():
    mask = np.array([True, False, True, True])

    def update(x, mask, options):
        places = ((-1, mask), (np.int32(-1), mask), (True, [-1]))
        return [x.at[place].set(9.0, **options) for place in places]

    for mode, rows in ((None, 0), ("clip", 1), ("drop", 0)):
        options = {"mode": mode, "wrap_negative_indices": False}
        found = rlx.jit(functools.partial(update, options=options))(X, mask)
        for columns, each in zip((mask, mask, slice(None)), found, strict=True):
            expected = X.copy()
            expected[:rows, columns] = 9.0
            same(each, expected)
    text = str(rlx.make_graph(lambda x: x.at[True, [0, 2]].set(1.0, unique_indices=True))(X))
    assert "unique=True" in text


# -- bounds ---------------------------------------------------------------------------------------


def test_known_places_outside_are_errors():
    arrays = ([0, 3], (slice(None), np.array([[5]])))
    for index in (3, -4, (0, 4), np.int32(3), *arrays):
        for wrap in (lambda f: f, rlx.jit):
            if wrap is rlx.jit and any(index is each for each in arrays):
                continue  # these mean in compiled code what traced ones mean
            with pytest.raises(BoundsError, match=r"index -?\d is outside axis \d with size"):
                wrap(lambda x, index=index: written(x, index, 1.0))(rlx.array(X))


def test_checks_find_traced_places_outside():
    write, read = (lambda x, i: written(x, i, 1.0)), (lambda x, i: x[:, i])
    for fn, axis, size in ((write, 0, 3), (read, 1, 4)):
        compiled = rlx.jit(fn)
        before = compiled(X, 5)
        with rlx.config.using(checks=True):
            same(compiled(X, size - 1), fn(rlx.array(X), size - 1))
            for i in (5, -6, np.array([[0], [7]])):
                match = f"is outside axis {axis} with size {size}"
                with pytest.raises(BoundsError, match=match):
                    compiled(X, i)
                with pytest.raises(BoundsError, match=match):
                    rlx.jit(rlx.grad(lambda x, i, fn=fn: fn(x, i).sum()))(X, i)
            batch = rlx.vmap(fn, (None, 0))
            same(
                batch(rlx.array(X), np.array([0, 1])),
                np.stack([fn(rlx.array(X), i) for i in (0, 1)]),
            )
            with pytest.raises(BoundsError):
                rlx.jit(batch)(X, np.array([0, 9]))
            same(rlx.jit(lambda x: x.at[rnp.argmax(x)].get(mode="clip"))(X), X[2])
        same(compiled(X, 5), before)


def test_grad_outside_of_jit_looks_at_known_places():
    with pytest.raises(BoundsError, match="index 4 is outside axis 0 with size 3"):
        rlx.grad(lambda x, i: x[i + 1].sum())(rlx.array(X), 3)
    same(rlx.grad(lambda x, i: x[i].sum())(rlx.array(X), 2), [[0] * 4, [0] * 4, [1] * 4])
    # not at what a Python function gives, or members of a batch differ in
    calls = []

    def seven(i: Any) -> Any:
        calls.append(i)
        return np.int32(7)

    spec = rlx.spec((), "int32")
    found = rlx.grad(lambda x, i: x[rlx.pure_callback(seven, spec, i)].sum())(rlx.array(X), 2)
    same(found, [[0] * 4, [0] * 4, [1] * 4])
    assert len(calls) == 1
    found = rlx.vmap(lambda row: rlx.array(X)[rlx.lax.axis_index("i")] + row, axis_name="i")(X)
    same(found, X + X)
