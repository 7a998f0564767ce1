"""Traced tensors: operators, indexing as in NumPy, concrete values, errors, leaks, control flow."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rlx.numpy as rnp
from rlx.ir.errors import (
    BoundsError,
    ConcretizationError,
    DtypeError,
    ImmutableError,
    LeakedTracerError,
    ShapeError,
    StructureError,
)
from rlx.ir.interpret import interpret
from rlx.trace.array import Array
from rlx.trace.control import cond, fori_loop, switch, while_loop
from rlx.trace.make_graph import make_graph, spec, trace
from rlx.trace.scan import associative_scan, map as map_rows, scan


def run(fn, *args):
    """Record a function, and evaluate the graph."""
    recorded = trace(fn, args)
    captures = [c.host() for c in recorded.captures]
    arrays = [np.asarray(x) for x in args]
    results = [Array(r) for r in interpret(recorded.graph, [*arrays, *captures])]
    return recorded.unflatten(results)


X = np.arange(6, dtype="float32").reshape(2, 3)


# -- indexing -------------------------------------------------------------------------------------


@st.composite
def indexed_arrays(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    items, axis, width = [], 0, draw(st.integers(1, 3))
    while axis < len(shape) and draw(st.booleans()) | (not items):
        size = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "array", "wide", "new", "mask", "full"]))
        if kind == "new":
            items.append(None)
            if len(items) > 4:
                break
            continue
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            bound = st.none() | st.integers(-size - 1, size + 1)
            step = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
            items.append(slice(draw(bound), draw(bound), step))
        elif kind == "full":
            items.append(slice(None))
        elif kind == "mask":
            mask = np.zeros(size, bool)
            mask[draw(st.lists(st.integers(0, size - 1), min_size=width, max_size=width))] = True
            items.append(mask if mask.sum() == width else slice(None))
        else:
            count = (2, width) if kind == "wide" else (width,)
            numbers = st.integers(-size, size - 1)
            total = int(np.prod(count))
            row = draw(st.lists(numbers, min_size=total, max_size=total))
            items.append(np.array(row, "int32").reshape(count))
        axis += 1
    if draw(st.booleans()) and axis < len(shape):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    return x, tuple(items)


def _try_numpy(fn):
    try:
        return fn()
    except IndexError:  # an ellipsis moved the items to axes where they do not fit
        return None


@given(indexed_arrays())
@settings(max_examples=150, deadline=None)
def test_indexing_is_numpys(case):
    x, index = case
    expected = _try_numpy(lambda: x[index])
    if expected is None:
        return
    np.testing.assert_array_equal(rnp.array(x)[index], expected)
    np.testing.assert_array_equal(run(lambda a: a[index], x), expected)
    arrays = [item for item in index if isinstance(item, np.ndarray) and item.dtype != bool]

    def traced_places(a, places):
        rest = iter(places)
        known = [next(rest) if isinstance(i, np.ndarray) and i.dtype != bool else i for i in index]
        return a[tuple(known)]

    recorded = trace(traced_places, (x, arrays))
    captures = [c.host() for c in recorded.captures]
    np.testing.assert_array_equal(interpret(recorded.graph, [x, *arrays, *captures])[0], expected)


@given(indexed_arrays(), st.sampled_from(["set", "add", "multiply", "min", "max"]))
@settings(max_examples=150, deadline=None)
def test_updates_are_numpys(case, method):
    x, index = case
    view = _try_numpy(lambda: x[index])
    if view is None:
        return
    values = np.float32(2) if method == "set" else np.arange(view.size, dtype="float32") % 5 + 2
    values = values if method == "set" else values.reshape(view.shape)
    expected = x.copy()
    if method == "set":
        expected[index] = values
    else:
        names = {"min": "minimum", "max": "maximum"}
        getattr(np, names.get(method, method)).at(expected, index, values)
    found = getattr(rnp.array(x).at[index], method)(values)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        run(lambda a, v: getattr(a.at[index], method)(v), x, values), expected
    )


def test_set_takes_a_different_value_for_each_place():
    x = np.zeros((3, 4), "float32")
    found = rnp.array(x).at[1:, ::-2].set(np.arange(4).reshape(2, 2).astype("float32"))
    x[1:, ::-2] = np.arange(4).reshape(2, 2)
    np.testing.assert_array_equal(found, x)


def test_traced_mask_chooses():
    found = run(lambda a: a.at[a > 2].set(-1.0), X)
    np.testing.assert_array_equal(found, np.where(X > 2, -1, X))
    found = run(lambda a: a.at[a[:, 0] > 2].multiply(rnp.array([1.0, 2.0, 3.0])), X)
    np.testing.assert_array_equal(found, X * [[1], [1]] * np.where(X[:, :1] > 2, [1, 2, 3], 1))


def test_traced_mask_as_an_index_is_an_error():
    with pytest.raises(ConcretizationError, match="boolean mask"):
        trace(lambda a: a[a > 2], (X,))


def test_traced_number_is_clamped():
    fn = lambda a, i: a[i]  # noqa: E731
    for i, row in [(1, 1), (-1, 1), (7, 1), (-9, 0)]:
        np.testing.assert_array_equal(run(fn, X, np.int32(i)), X[row])


def test_traced_places_outside_are_dropped_by_updates():
    found = run(lambda a, i: a.at[i].add(1.0), np.zeros(3, "float32"), np.array([0, 5, -7, -1]))
    np.testing.assert_array_equal(found, [1, 0, 1])


def test_get_fills():
    places = np.array([0, 9], "int32")
    x = np.array([5.0, 6.0], "float32")
    assert np.isnan(run(lambda a, i: a.at[i].get(mode="fill"), x, places)[1])
    found = run(lambda a, i: a.at[i].get(mode="fill", fill_value=-1.0), x, places)
    np.testing.assert_array_equal(found, [5, -1])


def test_known_index_outside_is_an_error():
    with pytest.raises(BoundsError, match="index 5 is outside axis 0 with size 2"):
        rnp.array(X)[5]
    with pytest.raises(BoundsError, match="index -4"):
        rnp.array(X)[:, [0, -4]]
    with pytest.raises(BoundsError, match="3 indices"):
        rnp.array(X)[0, 0, 0]


def test_a_mask_must_fit():
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(rnp.array(X)[:, mask], X[:, mask])
    np.testing.assert_array_equal(rnp.array(X)[X > 2], X[X > 2])
    with pytest.raises(BoundsError, match=r"a mask of the shape \(3,\) does not fit"):
        rnp.array(X)[mask]
    with pytest.raises(DtypeError, match="is no index"):
        rnp.array(X)[1.5]


def test_small_index_dtypes_do_not_overflow():
    x = np.arange(200, dtype="float32")
    places = np.array([-1, 100, -128], "int8")
    np.testing.assert_array_equal(rnp.array(x)[places], x[places])
    np.testing.assert_array_equal(run(lambda a, i: a[i], x, places), x[places])


def test_lossy_update_is_an_error():
    with pytest.raises(DtypeError, match="float32 values do not fit an array of int32"):
        rnp.array([1, 2]).at[0].set(1.5)


# -- values ---------------------------------------------------------------------------------------


def test_assignment_to_an_argument_is_an_error_with_the_way_to_do_it():
    with pytest.raises(ImmutableError, match=r"x = x.at\[i\].set\(v\)"):
        trace(lambda a: a.__setitem__(0, 1.0), (X,))


def branchy(x):
    total = x.sum()
    if total > 3:
        return x * 2
    return x


def test_bool_of_a_tensor_names_the_line_and_the_fix():
    with pytest.raises(ConcretizationError) as caught:
        trace(branchy, (X,))
    text = str(caught.value)
    assert "in branchy      if total > 3:" in text
    assert "rlx.cond" in text and "static_argnames" in text
    assert "made by gt" in text


def test_concrete_trace_lets_python_look():
    recorded = trace(branchy, (X,), concrete=True)
    assert [node.op.name for node in recorded.graph.nodes][-1] == "mul"
    steps = []

    def loop(x):
        while x.sum() < 100:
            x = x * 2
            steps.append(float(x[0, 1]))
        return x, int(x.argmax()), [1, 2, 3, 4, 5, 6][x.argmax()]

    trace(loop, (X,), concrete=True)
    assert steps == [2.0, 4.0, 8.0]


def test_concrete_reaches_nested_traces_of_captures_only():
    def outer(x):
        def inner(y):
            assert float(x.sum()) == 15.0  # captured: known
            return y * x if x[0, 1] == 1 else y

        assert trace(inner, (x,)).n_args == 1
        with pytest.raises(ConcretizationError):
            trace(lambda y: bool(y.sum() > 0), (x,))
        return x

    trace(outer, (X,), concrete=True)


saved = []


@pytest.fixture
def thawed():
    """Modules are among what the garbage collector knows, as they are outside of tests."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("thawed")
def test_leak_names_line_and_holder():
    def leaky(x):
        saved.append(x * 2)
        return x

    trace(leaky, (X,))
    with pytest.raises(LeakedTracerError) as caught:
        saved[0] + 1
    text = str(caught.value)
    assert "saved.append(x * 2)" in text
    assert 'a list, the global variable "saved" of module test_tensor' in text
    saved.clear()


def test_leak_names_the_attribute():
    class Model:
        pass

    model = Model()

    def leaky(x):
        model.cache = x
        return x

    trace(leaky, (X,))
    with pytest.raises(LeakedTracerError, match=r"the attribute \.cache of a Model"):
        bool(model.cache)


def test_hash_is_identity_and_equality_elementwise():
    def fn(x):
        assert hash(x) != hash(x * 1) and {x: 1}[x] == 1
        return x == x

    assert run(fn, X).all()


# -- recording ------------------------------------------------------------------------------------


def test_constants_stay_concrete_and_arrays_become_captures():
    weights = rnp.array([1.0, 2.0, 3.0])

    def fn(x):
        assert isinstance(weights * 2, Array)
        return x @ weights + rnp.array(1.0)

    recorded = trace(fn, (X,))
    assert recorded.captures == (weights,) or recorded.captures[0] is weights
    assert len(recorded.graph.params) == 2
    np.testing.assert_array_equal(run(fn, X), np.add(X @ [1, 2, 3], 1))


def test_origins_name_arguments():
    def loss(params, x, *, scale):
        return (params["w"] * x * scale).sum()

    recorded = trace(loss, ({"w": X, "b": [X]}, X), {"scale": 2.0})
    origins = [p.origin for p in recorded.graph.params]
    assert origins == [
        'argument 0 of loss, params["b"][0]',
        'argument 0 of loss, params["w"]',
        "argument 1 of loss, x",
        "argument of loss, scale",
    ]
    assert recorded.in_weak == (False, False, False, True)


def test_arrays_made_from_nothing_while_tracing_are_nodes():
    def fn(x):
        assert float(rnp.zeros(3).sum() + x.ndim) == 2.0
        return rnp.tril(x) + rnp.ones((3,)) * rnp.arange(3)

    recorded = trace(fn, (X,))
    assert [str(c.type) for c in recorded.captures] == ["f32[3]"]
    assert trace(lambda x: x + rnp.ones(3) + rnp.arange(3), (X,)).captures == ()


def test_weak_numbers_yield():
    half = spec((2,), "float16")
    types = make_graph(lambda x, s: [x * 2.5, x * s, x + 1, s * 2])(half, 3.0).result_types
    assert [t.dtype.name for t in types] == ["float16", "float16", "float16", "float32"]


def test_symbolic_sizes():
    def fn(x):
        y = x.reshape(-1, 4)[:, 1:] @ rnp.ones((3, 5))
        return (y - y.mean(axis=0)).sum(1), rnp.concatenate([x, x]), x[1:]

    graph = make_graph(fn)(spec(("n", 2, 2)))
    assert [str(t) for t in graph.result_types] == ["f32[n]", "f32[2*n, 2, 2]", "f32[n - 1, 2, 2]"]


def test_results_that_are_no_arrays_are_errors():
    with pytest.raises(TypeError, match="returned a str"):
        trace(lambda x: {"a": "text"}, (X,))
    with pytest.raises(DtypeError, match="static_argnames"):
        trace(lambda x: x, ("text",))


# -- control flow ---------------------------------------------------------------------------------


def test_cond_runs_one_branch_and_takes_closures():
    shift = rnp.array([1.0, 2.0, 3.0])

    def fn(p, x):
        return cond(p, lambda a: {"r": a + shift}, lambda a: {"r": a * x[0]}, x)

    np.testing.assert_array_equal(run(fn, np.True_, X)["r"], np.add(X, [1, 2, 3]))
    np.testing.assert_array_equal(run(fn, np.False_, X)["r"], X * X[0])
    found = cond(True, lambda: 3, lambda: 1 // 0)
    assert int(found) == 3


def test_cond_promotes_python_numbers():
    found = run(lambda p, x: cond(p, lambda a: a, lambda a: 0, x), np.False_, np.float32(2))
    assert found.dtype == "float32" and float(found) == 0


def test_cond_with_different_branches_names_the_place():
    with pytest.raises(StructureError, match=r"the result\[0\] is a list in false_fn"):
        trace(lambda p, x: cond(p, lambda: (x, x), lambda: ([x], x)), (np.True_, X))
    with pytest.raises(ShapeError, match=r'different types for result\["a"\]'):
        trace(lambda p, x: cond(p, lambda: {"a": x}, lambda: {"a": x[0]}), (np.True_, X))


def test_switch_clamps():
    branches = [lambda x: x, lambda x: x * 2, lambda x: x * 3]
    for i, factor in [(0, 1), (1, 2), (9, 3), (-4, 1)]:
        np.testing.assert_array_equal(
            run(lambda i, x: switch(i, branches, x), np.int32(i), X), X * factor
        )
        np.testing.assert_array_equal(switch(i, branches, rnp.array(X)), X * factor)


def test_while_loop():
    limit = rnp.array(50.0)

    def fn(x):
        return while_loop(lambda c: c[0] < limit, lambda c: (c[0] * 2, c[1] + 1), (x, 0))

    for found in (fn(rnp.array(3.0)), run(fn, np.float32(3))):
        assert [float(r) for r in found] == [96.0, 5.0]
    bounded = while_loop(lambda c: c < 50, lambda c: c * 2, 3.0, max_steps=10)
    assert float(bounded) == 96.0


def test_fori_loop_with_known_and_traced_bounds():
    fn = lambda n: fori_loop(0, n, lambda i, c: c + i, 0)  # noqa: E731
    assert int(fn(5)) == 10
    assert int(run(fn, np.int32(5))) == 10


def test_scan():
    xs = np.arange(1.0, 7.0, dtype="float32")
    step = lambda c, x: (c + x, (c * x, c))  # noqa: E731
    for options in ({}, {"reverse": True}, {"unroll": 2}, {"unroll": True, "reverse": True}):
        check_scan(step, xs, options)


def check_scan(step, xs, options):
    carry, stacked = 0.0, []
    for x in xs[::-1] if options.get("reverse") else xs:
        stacked.append((carry * x, carry))
        carry = carry + x
    stacked = stacked[::-1] if options.get("reverse") else stacked
    fn = lambda a: scan(step, 0.0, a, **options)  # noqa: E731
    for found in (fn(xs), run(fn, xs)):
        assert float(found[0]) == carry
        np.testing.assert_array_equal(found[1][0], [a for a, _ in stacked])
        np.testing.assert_array_equal(found[1][1], [b for _, b in stacked])


def test_scan_promotes_a_python_start_and_names_a_changed_carry():
    last, _ = scan(lambda c, x: (c + x, None), 0, np.ones(3, "float16"))
    assert last.dtype == "float16"
    with pytest.raises(DtypeError, match=r'carry\["a"\] is f32\[\] before the body and i32\[\]'):
        scan(lambda c, _: ({"a": c["a"].astype("int32")}, None), {"a": rnp.array(1.0)}, length=2)
    with pytest.raises(StructureError, match="changes the structure"):
        scan(lambda c, _: ((c, c), None), rnp.array(1.0), length=2)
    with pytest.raises(ShapeError, match="xs\\[0\\] has 2 steps, xs\\[1\\] has 3"):
        scan(lambda c, x: (c, None), 0, (np.ones(2), np.ones(3)))


def test_map_and_associative_scan():
    np.testing.assert_array_equal(map_rows(lambda row: row.sum(), X), X.sum(1))
    for n in range(1, 9):
        xs = np.arange(1.0, n + 1, dtype="float32")
        found = associative_scan(lambda a, b: a * b, rnp.array(xs))
        np.testing.assert_array_equal(found, np.cumprod(xs))
        found = associative_scan(rnp.maximum, rnp.array(xs), reverse=True)
        np.testing.assert_array_equal(found, np.maximum.accumulate(xs[::-1])[::-1])


def test_symbolic_sizes_are_numbers_too():
    def fn(x):
        return x.sum(0) / x.shape[0], rnp.arange(x.shape[0]) + 1

    graph = make_graph(fn)(spec(("n", 2)))
    assert [str(t) for t in graph.result_types] == ["f32[2]", "i32[n]"]


def test_control_flow_nests_with_values_from_every_level():
    weights = rnp.array([0.5, 1.0, 2.0])

    def fn(x, limit):
        def step(carry, row):
            scaled = row * weights + x[0]
            grown = while_loop(lambda c: c.sum() < limit, lambda c: c * 2 + carry, scaled + 1)
            return cond(carry.sum() > limit, lambda: carry, lambda: carry + grown), grown.sum()

        return scan(step, rnp.zeros(3), x)

    carry, sums = np.zeros(3, "float32"), []
    for row in X:
        grown = row * np.array([0.5, 1, 2], "float32") + X[0] + 1
        while grown.sum() < 40:
            grown = grown * 2 + carry
        sums.append(grown.sum())
        carry = carry if carry.sum() > 40 else carry + grown
    for found in (fn(rnp.array(X), 40.0), run(fn, X, np.float32(40))):
        np.testing.assert_allclose(found[0], carry, rtol=1e-6)
        np.testing.assert_allclose(found[1], sums, rtol=1e-6)


def test_membership():
    assert 3.0 in rnp.array(X) and 9.0 not in rnp.array(X)
