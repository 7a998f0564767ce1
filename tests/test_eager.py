"""Ops on known arrays: the short ways give what the long way gives, and nothing is confused."""

from __future__ import annotations

import itertools
import threading
import warnings

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import AliasError, RlxError, ShapeError
from rlx.numpy import elementwise
from rlx.runtime import MISS, eager
from rlx.trace import by_numpy, short_ways

DTYPES = ("bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "complex64")
OF_TWO = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "less", "greater"),
    *("bitwise_and", "bitwise_xor", "arctan2", "power"),
)
OF_ONE = ("negative", "abs", "floor", "square", "sin", "exp", "tanh", "log", "sqrt")
NUMBERS = (0, 1, -1, 3, 200, 2**24 + 1, 2**40, True, 0.5, -0.0, 1e300, float("nan"), 1j)


@pytest.fixture
def soon(monkeypatch):
    """Compile what is called for the second time."""
    monkeypatch.setattr(short_ways, "ENOUGH", 30_000)
    yield
    short_ways.forget()


def some(dtype: str, shape: tuple[int, ...] = (2, 3)) -> rlx.Array:
    numbers = np.array([0, 1, 2, 3, 100, 127]).reshape(2, 3)[: shape[0], : shape[-1]]
    return rlx.array(numbers.reshape(shape).astype(rnp.zeros(1, dtype).dtype))


def tried(function, *args):
    """The bits of a result, or the text of an error, by the short way and by the long one."""
    outcomes = []
    for is_open in (True, False):
        before, short_ways.is_open = short_ways.is_open, is_open
        try:
            made = function(*args)
            outcomes.append((type(made), made.dtype, made.shape, np.asarray(made).tobytes()))
        except RlxError as error:
            outcomes.append((type(error), error.what, error.fix, error.notes))
        finally:
            short_ways.is_open = before
    return outcomes


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", OF_TWO)
def test_short_way_of_two_numbers_gives_the_same_bits(name):
    function = getattr(rnp, name)
    for x, y in itertools.product(DTYPES, repeat=2):
        short, long = tried(function, some(x), some(y))
        assert short == long, (name, x, y)
    for x, y in itertools.product(DTYPES, NUMBERS):
        for args in ((some(x), y), (y, some(x))):
            if name == "power" and type(args[1]) is int and args[1] > 200:
                continue  # a product of as many factors
            short, long = tried(function, *args)
            assert short == long, (name, args)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", OF_ONE)
def test_short_way_of_one_number_gives_the_same_bits(name):
    for x in DTYPES:
        short, long = tried(getattr(rnp, name), some(x))
        assert short == long, (name, x)


def test_short_way_broadcasts_and_refuses_shapes_like_the_long_one():
    row, column, number = some("float32", (1, 3)), some("float32", (2, 1)), rlx.array(2.0)
    for x, y in itertools.permutations((row, column, number), 2):
        short, long = tried(rnp.add, x, y)
        assert short == long
    short, long = tried(rnp.add, rlx.array([1.0, 2.0]), rlx.array([1.0, 2.0, 3.0]))
    assert short == long
    assert short[0] is ShapeError


INDICES = (
    *(0, -1, 3, -4, 2**70, True, None, ..., slice(None), slice(1, 3), slice(None, None, -1)),
    *(
        slice(5, 1),
        slice(2, None, 0),
        slice(True, 2),
        (0, 1),
        (-1, slice(0, 2)),
        (..., 0),
        (None, 1),
    ),
    *((0, 0, 0), (..., ...), (slice(None), slice(None)), [0, 2], (slice(None, None, 2), 1), 1.5),
)


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_elements_and_updates_are_the_same_by_all_ways(index):
    x = rlx.array(np.arange(12.0).reshape(3, 4).astype(np.float32))
    short, long = tried(lambda: x[index])
    assert short == long
    for values in (1, 2.5, 1e300, True, 1j, rlx.array([1.0, 2.0]), rlx.array(7), [1.0], np.ones(4)):
        short, long = tried(lambda values=values: x.at[index].set(values))
        assert short == long, values


@pytest.mark.parametrize("dtype", ["int8", "uint32", "float16", "bool", "complex64"])
@pytest.mark.parametrize("value", NUMBERS)
def test_updates_take_the_same_numbers_by_all_ways(dtype, value):
    x = rnp.zeros(3, dtype)
    short, long = tried(lambda: x.at[1].set(value))
    assert short == long


def test_shapes_are_the_same_by_all_ways():
    x = rlx.array(np.arange(12, dtype=np.int32))
    for shape in ((3, 4), (2, -1), 12, -1, (5, 2), (-1, -1), (), (2.0, 6), (True, 12), (12, 1)):
        short, long = tried(lambda shape=shape: x.reshape(shape))
        assert short == long
    assert x.reshape(12) is x
    assert x[...] is x


def test_axes_are_the_same_by_all_ways():
    x = rlx.array(np.arange(24, dtype=np.int32).reshape(2, 3, 4))
    for axes in (None, (2, 0, 1), (-1, 0, 1), (0, 1, 2), (0, 1), (0, 0, 1), (0, 1, 3), [1, 0, 2]):
        short, long = tried(rnp.transpose, x, axes)
        assert short == long, axes
    assert x.transpose(0, 1, 2) is x
    part, x[0, 0, 0] = x.T, 7
    with pytest.raises(AliasError):
        part.sum()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_the_same_by_all_ways(dtype):
    for given, shape in itertools.product(DTYPES, ((2, 3), ())):
        x = some(given, shape) if shape else some(given)[1, 2]
        short, long = tried(lambda x=x: x.astype(dtype))
        assert short == long, given
    with np.errstate(all="raise"):
        short, long = tried(lambda: rlx.array([np.nan, 1e30, -1e30]).astype(dtype))
    assert short == long


@pytest.mark.parametrize("join", [rnp.concatenate, rnp.stack])
def test_joined_arrays_are_the_same_by_all_ways(join):
    x, y, z = some("int32"), some("float32"), some("float32", (1, 3))
    for arrays in ([x, x], (y, y), [x, y], [y], [], [y, z], [y, np.ones((2, 3))], [y[0, 0], 1.0]):
        for axis in (0, 1, -1, 2, 3, -4, True, None):
            if not (join is rnp.stack and axis is None):
                short, long = tried(join, arrays, axis)
                assert short == long, (arrays, axis)
    made = join([y, y])
    part, made[0] = y[0], 5.0  # what is joined is no part
    assert part.tolist() == [0, 1, 2]


def test_parts_that_arrive_from_threads_are_all_known():
    x = rlx.array(np.zeros(8, np.float32))

    def take(found: list) -> None:
        found.extend(x[i % 8 : i % 8 + 1] for i in range(500))

    takers = [[] for _ in range(4)]
    threads = [threading.Thread(target=take, args=(found,)) for found in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    x[3] = 1.0
    for found in takers:
        for i, part in enumerate(found):
            if i % 8 != 3:
                assert part.tolist() == [0.0]
                continue
            with pytest.raises(AliasError):
                part.tolist()


def test_threads_compute_at_once_without_a_word():
    x = rlx.array(np.full(4096, -1.0, np.float32))
    made: list = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        work = lambda: made.append([rnp.log(x) for _ in range(300)])  # noqa: E731
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(made) == 4
    assert all(np.isnan(y).all() for found in made for y in found)


def test_user_s_errstate_changes_nothing():
    x = rlx.array([0.0, 1.0])
    with np.errstate(all="raise"):
        assert (x / x).tolist()[1] == 1.0
        assert np.geterr()["divide"] == "raise"


@pytest.fixture
def at_once(monkeypatch):
    """Compile what has a short way for the kind of each second call."""
    monkeypatch.setattr(by_numpy, "OFTEN", 2)


OPS_OF = dict(add="add", subtract="sub", multiply="mul", divide="div", less="lt", equal="eq")
SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3e38, 1e-40])


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", OPS_OF)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32"])
def test_machine_code_of_hot_calls_gives_the_same_bits(name, dtype):
    with np.errstate(all="ignore"):
        x, y = np.meshgrid(SPECIAL.astype(dtype), SPECIAL.astype(dtype))
    function = getattr(elementwise, name)
    fresh = by_numpy.of_two(function.__wrapped__, by_numpy.op_named(OPS_OF[name]))
    for args in ((rlx.array(x), rlx.array(y)), (rlx.array(x), 2), (rlx.array(x), -0.0)):
        bits = {tried(lambda args=args: fresh(*args))[0] for _ in range(5)}
        bits |= {tried(lambda args=args: function.__wrapped__(*args))[1]}
        assert len(bits) == 1


@pytest.mark.usefixtures("at_once")
def test_hot_code_is_entered_for_its_kind_only():
    add = by_numpy.of_two(elementwise.add.__wrapped__, by_numpy.op_named("add"))
    x, number, flag = rlx.array([1.0, 2.0]), rlx.array(3.0), rlx.array([True, False])
    for _ in range(3):
        for y in (x, number, 1, 1.5, 0.0, -0.0, True, flag, rlx.array([[1.0], [2.0]])):
            assert add(x, y).tolist() == np.add(np.asarray(x), np.asarray(y)).tolist()
            assert add(flag, y).dtype == rnp.result_type(flag, y)
        assert str(add(rlx.array(-0.0), -0.0)) == "-0.0"
        assert str(add(rlx.array(-0.0), 0.0)) == "0.0"


UFUNCS = {
    1: [np.sin, np.exp, np.log1p, np.negative, np.isnan, np.logical_not, np.invert, np.rint],
    2: [np.add, np.arctan2, np.maximum, np.less, np.bitwise_and, np.power, np.floor_divide],
}


@pytest.mark.parametrize("ufunc", [*UFUNCS[1], *UFUNCS[2]], ids=lambda ufunc: ufunc.__name__)
def test_loops_of_ufuncs_give_their_bits(ufunc):
    for dtype in map(np.dtype, ["float32", "float64", "int32", "uint8", "bool"]):
        code = short_ways.ufunc_code(ufunc, dtype, 4096)
        kinds = [kind.split("->")[0] for kind in ufunc.types]
        if dtype.char * ufunc.nin not in kinds or (ufunc is np.power and dtype.kind != "f"):
            assert code is None
            continue
        assert code is not None
        whole = np.resize(SPECIAL if dtype.kind == "f" else np.arange(9), (4, 9)).astype(dtype)
        for part in (whole, whole[0], whole[0, :5], whole[:, :0], whole[0, 3]):
            args = [np.array(part), np.flip(part).copy()][: ufunc.nin]
            with np.errstate(all="ignore"):
                wanted = np.asarray(ufunc(*args))
            made = code(*map(rlx.array, args))
            assert type(made) is rlx.Array
            assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
            assert np.asarray(made).tobytes() == wanted.tobytes()


def test_loops_of_ufuncs_take_what_fits():
    codes = (short_ways.ufunc_code(u, np.dtype("float32"), 6) for u in (np.sin, np.add))
    one, two = (code for code in codes if code is not None)
    x = rlx.array([1.0, 2.0])
    assert two(x, x).tolist() == [2.0, 4.0]
    for args in ((), (x, x), (1.0,), (rnp.zeros(7),), (rnp.zeros(2, "int32"),), (None,)):
        assert one(*args) is MISS
    for other in (rnp.zeros(3), rnp.zeros((1, 2)), rnp.zeros(2, "float64"), 1.0, np.zeros(2)):
        assert two(x, other) is MISS
        assert two(other, x) is MISS
    assert one(np.zeros((4, 2), "float32")[::2, 0]) is MISS
    assert one.__call__(x).shape == (2,)
    made = rlx.jit(lambda y: y if one(y) is MISS else y + 1)(x)
    assert made.tolist() == [1.0, 2.0]


@pytest.mark.usefixtures("soon")
def test_calls_with_arrays_alone_are_told_from_others():
    x, number = rlx.array([1.0, 2.0]), rlx.array(2.0)
    whole = rlx.array([3, 4])
    calls = [(number, x), (2.0, x), (2, x), (x, number), (x, 2.0), (whole, x), (True, x), (x, x)]
    for _ in range(3):
        for function in (rnp.logaddexp, rnp.copysign, rnp.hypot, rnp.heaviside):
            for args in calls:
                made = function(*args)
                wanted = getattr(np, function.__name__)(*(np.asarray(y, "float32") for y in args))
                assert made.dtype == np.float32
                np.testing.assert_allclose(made, wanted, rtol=1e-6)
        with pytest.raises(TypeError):
            rnp.hypot(*[x])


def test_results_are_arrays_of_their_own():
    x = rlx.array([1.0, 2.0])
    y = x + 1
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(y)[0] = 5
    y[0] = 7.0
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0], [7.0, 3.0])


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", ["sum", "mean", "max", "cumsum"])
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex64"])
def test_kinds_of_calls_are_told_apart(name, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    function = getattr(rnp, name)
    for _ in range(3):
        for axis in (None, 0, 1, -1):
            wanted = getattr(np, name)(x, axis=axis)
            for given in (x, rlx.array(x), rlx.array(x.T.copy()).T):
                found = function(given, axis=axis)
                np.testing.assert_allclose(found, wanted, rtol=1e-6)
                short, long = tried(function, given, axis)
                assert short[:3] == long[:3]


@pytest.mark.usefixtures("soon")
def test_code_is_compiled_once_for_a_kind():
    x, large = rlx.array([[1.0, 2.0], [3.0, 5.0]]), rlx.array(np.ones((150, 150), np.float32))
    cache = rlx.runtime.default_session("cpu").cache
    before = cache.stats.misses
    for _ in range(5):
        assert rnp.var(x, 0).tolist() == [1.0, 2.25]
        assert rnp.exp(large)[0, 0].item() == pytest.approx(np.e)
    assert cache.stats.misses == before + 2


def test_small_convolutions_are_compiled_after_some_calls(monkeypatch):
    monkeypatch.setattr(short_ways, "ENOUGH", 3 * eager.COMPOSED)
    x, kernel = (rlx.array(np.ones(shape, np.float32)) for shape in ((1, 3, 8, 8), (4, 3, 3, 3)))
    cache = rlx.runtime.default_session("cpu").cache
    before, counts = cache.stats.misses, []
    for _ in range(4):
        assert rlx.lax.conv(x, kernel, (1, 1), "VALID").sum().item() == 4 * 36 * 27
        counts.append(cache.stats.misses - before)
    assert counts == [0, 0, 1, 1]
    short_ways.forget()


@pytest.mark.usefixtures("soon")
def test_values_of_other_arguments_are_told_apart():
    x, flags = rlx.array([1.0, -2.0]), rlx.array([True, False])
    for _ in range(3):
        assert [str(v) for v in rnp.where(flags, x, 0.0).tolist()] == ["1.0", "0.0"]
        assert [str(v) for v in rnp.where(flags, x, -0.0).tolist()] == ["1.0", "-0.0"]
        assert rnp.where(flags, 1, 0).dtype == "int32"
        assert rnp.where(flags, True, False).dtype == "bool"
        assert rnp.where(flags, 1.0, 0.0).dtype == "float32"
        assert rnp.where(flags, rlx.array([1, 2], dtype="int8"), 0).dtype == "int8"
        assert rnp.clip(x, 0).tolist() == [1.0, 0.0]
        assert rnp.clip(x, max=0).tolist() == [0.0, -2.0]
        assert rnp.sum(x, keepdims=True).shape == (1,)
        assert rnp.sum(x, dtype="float64").dtype == "float64"
        assert rnp.sum(x, dtype=rnp.float16).dtype == "float16"


@pytest.mark.usefixtures("soon")
def test_compiled_calls_name_their_errors_and_lines():
    x = rlx.array([[1.0, 2.0]])
    for _ in range(3):
        with pytest.raises(RlxError, match=r"test_eager\.py"):
            rnp.mean(x, axis=2)
        with pytest.raises(RlxError, match="inner sizes differ"):
            rnp.matmul(x, x)


@pytest.mark.usefixtures("soon")
def test_settings_lead_back_to_single_ops():
    x = rlx.array([-1.0, 4.0])
    for _ in range(3):
        rlx.nn.log_sigmoid(x), rnp.where(x > 0, x, 0.0)
    with rlx.config.using(debug_nans=True), pytest.raises(RlxError, match="sqrt gives nan"):
        rnp.sqrt(x)
    with rlx.config.using(debug_nans=True), pytest.raises(RlxError, match="log gives nan"):
        rnp.std(x) + rnp.log(x)
    for setting in ({"disable_jit": True}, {"device": "reference"}, {"guards": True}):
        with rlx.config.using(**setting):
            assert not short_ways.is_open
            assert rnp.where(x > 0, x, 0.0).tolist() == [0.0, 4.0]
    assert short_ways.is_open


@pytest.mark.usefixtures("soon")
def test_policies_are_not_for_single_calls():
    x = rlx.array(np.full((4, 4), 1 + 2**-12, np.float32))
    with rlx.precision("mixed_bf16"):
        found = [np.asarray(x @ x) for _ in range(4)]
    assert all((f == found[0]).all() for f in found)
    assert found[0][0, 0] != 4.0


@pytest.mark.usefixtures("soon")
def test_calls_in_traces_are_recorded():
    x = rlx.array([1.0, 2.0])
    for _ in range(3):
        rnp.mean(x)
    assert rlx.grad(lambda x: rnp.mean(x * x))(x).tolist() == [1.0, 2.0]
    assert rlx.jit(lambda y: rnp.mean(x) + y)(1.0).item() == 2.5
    graph = rlx.make_graph(lambda x: rnp.mean(x))(x)
    assert next(node.op.name for node in graph.nodes) == "reduce_sum"


def program(rng: np.random.Generator):
    """A chain of functions chosen at random, as a function of one array."""
    steps = [
        lambda x: x * 2 + 1,
        lambda x: rlx.nn.softmax(x, axis=0),
        lambda x: x - x.mean(1, keepdims=True),
        lambda x: x / (x.std() + 1),
        lambda x: rnp.where(x > 0, x, 0.5 * x),
        lambda x: rnp.tanh(x) + x.sum(0),
        lambda x: x @ rnp.ones((x.shape[1], 5), x.dtype),
        lambda x: rnp.clip(x, -1, 1),
        lambda x: rnp.cumsum(x, 1),
        lambda x: rlx.nn.silu(x)[::-1],
    ]
    chosen = [steps[i] for i in rng.integers(0, len(steps), 5)]

    def run(x):
        for step in chosen:
            x = step(x)
        return x

    return run


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("seed", range(6))
def test_eager_programs_equal_compiled_ones(seed):
    rng = np.random.default_rng(seed)
    run, x = program(rng), rlx.array(rng.normal(size=(4, 5)).astype("float32"))
    compiled, long = rlx.jit(run)(x), None
    with rlx.disable_jit():
        long = run(x)
    for _ in range(3):
        found = run(x)
        assert (found.dtype, found.shape) == (compiled.dtype, compiled.shape)
        np.testing.assert_allclose(found, compiled, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(found, long, rtol=2e-5, atol=2e-5)


@pytest.mark.usefixtures("soon")
def test_large_ops_run_compiled_and_stay_right():
    rng = np.random.default_rng(0)
    x, row = (rng.normal(size=s).astype("float32") for s in ((200, 100), (100,)))
    a, b = rlx.array(x), rlx.array(row)
    for _ in range(3):
        np.testing.assert_array_equal(a + b, x + row)
        np.testing.assert_array_equal(a * 3, x * np.float32(3))
        np.testing.assert_array_equal(a.T, x.T)
        np.testing.assert_allclose(rnp.tanh(a), np.tanh(x), rtol=2e-6)
        np.testing.assert_allclose(a.T @ a, x.T @ x, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(np.asarray(rnp.add(x, row)), x + row)
    x[:] = 0  # the arrays of the user are no one else's
    np.testing.assert_array_equal(rnp.add(x, row), x + row)


def test_table_of_kinds_is_bounded():
    kinds: short_ways.Kinds[int] = short_ways.Kinds()
    for i in range(3 * short_ways.MOST):
        kinds.keep(i, i)
    assert kinds.get(3 * short_ways.MOST - 1) == 3 * short_ways.MOST - 1
    assert len(kinds) <= short_ways.MOST
