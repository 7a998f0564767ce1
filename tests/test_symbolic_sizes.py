"""Symbolic sizes: one program for all numbers of them, and what is said of wrong ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from audit import Case, all_close, tolerance_of

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.ir.builder import build
from rlx.ir.dims import Dim, concrete
from rlx.ir.errors import RlxError
from rlx.ir.graph import OPS, Graph
from rlx.ir.types import type_of
from rlx.lower.lir import evaluate
from rlx.trace.array import Array

N = {"x": {0: "n"}}
SIZES = (1, 2, 3, 7, 16, 33, 130)
WEIGHTS = np.random.default_rng(0).normal(size=(8, 8)).astype("float32")

# -- every op -------------------------------------------------------------------------------------


def opened(case: Case) -> list[Graph]:
    """Graphs of an op, each with a name for one of the numbers among its sizes."""
    types = [type_of(x) for x in case.arrays()]
    graphs = []
    for number in sorted({n for t in types for n in t.shape if n > 1}):
        size = rlx.dim("n", min=2)
        symbolic = [t.with_shape(tuple(size if n == number else n for n in t.shape)) for t in types]
        try:
            graphs.append(build(lambda *xs: case.op.apply(xs, case.attrs), symbolic, case.op.name))
        except RlxError:  # the op needs the number
            continue
    return graphs


ROOMS = [name for name, op in OPS.items() if op.sample_list and op.rules.body is not None]


@pytest.mark.parametrize("name", ROOMS)  # composites are made of these
def test_every_op_runs_with_open_sizes(name: str) -> None:
    case = Case(OPS[name], OPS[name].sample_list[0])
    if case.op.rules.calls_python:  # the functions of samples know their sizes
        return
    arrays = case.arrays()
    wanted = list(case.op.run(arrays, case.attrs))
    tolerance = tolerance_of(*map(type_of, arrays), *(type_of(np.asarray(w)) for w in wanted))
    for graph in opened(case):
        executable = registry.get("cpu").compile(graph, Array)
        found = executable.entry(*(np.array(a, order="C") for a in arrays))
        many = found if isinstance(found, tuple) else (found,)
        all_close([r.host() for r in many], wanted, tolerance, name)
        assert executable.program is not None
        all_close(evaluate(executable.program, arrays), wanted, tolerance, f"{name}, evaluated")


# -- programs -------------------------------------------------------------------------------------


def attention(x: Any) -> Any:
    q, k, v = x @ WEIGHTS, x @ WEIGHTS.T, x @ (WEIGHTS * 0.5)
    scores = q @ k.T / np.float32(8**0.5)
    count = x.shape[0]
    seen = rnp.arange(count)[:, None] >= rnp.arange(count)
    return rlx.nn.softmax(rnp.where(seen, scores, -1e9)) @ v


def layers(x: Any, w: Any = WEIGHTS) -> Any:
    hidden = rnp.maximum(x @ w + 1, 0)
    return hidden, hidden @ w.T + x


def recurrent(x: Any) -> Any:
    return rlx.scan(lambda h, row: (rnp.tanh(row + 0.5 * h), h), rnp.zeros(8), x)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "scale": lambda x: x * 2 + 1,
    "statistics": lambda x: (rnp.mean(x, 0), rnp.var(x), rnp.max(x, 1), rnp.argmin(x, 0)),
    "normalize": lambda x: (x - rnp.mean(x, 1, keepdims=True)) / rnp.std(x, 1, keepdims=True),
    "attention": attention,
    "gradient of attention": rlx.grad(lambda x: rnp.sum(attention(x) ** 2)),
    "layers": layers,
    "gradient of layers": lambda x: rlx.grad(lambda w: rnp.sum(layers(x, w)[1]))(WEIGHTS),
    "gradient of parts": rlx.grad(lambda x: rnp.sum(x[:-1] ** 3) * rnp.sum(x[-1:] ** 2)),
    "gradient of columns": rlx.grad(lambda x: rnp.sum(x[:, :3] ** 3) + rnp.sum(x[:, 3:] ** 2)),
    "batched": lambda x: rlx.vmap(lambda row: row.reshape(2, 4) @ WEIGHTS[:4] + 1)(x),
    "wide": lambda x: x.T @ x + (x.astype("float64") @ WEIGHTS.astype("float64")).sum(),
    "recurrent": recurrent,
    "gradient of recurrent": rlx.grad(lambda x: rnp.sum(recurrent(x)[0])),
    "hessian of weights": lambda x: rlx.hessian(lambda w: rnp.sum(rnp.tanh(x @ w)))(rnp.ones(8)),
    "movement": lambda x: (x.T + 1, x[::-1], x[::3], x[::-2], x[-1], rnp.roll(x, 2, 0)),
    "reshaped": lambda x: (x.reshape(-1), x.reshape(-1, 2, 4), x.reshape(8, -1)),
    "joined": lambda x: (rnp.concatenate([x, x[:1]]), rnp.repeat(x, 2, 0), rnp.tile(x, (2, 1))),
    "cumulative": lambda x: (rnp.cumsum(x, 0), rnp.cumsum(x[::-1], 1), rnp.sort(x, 0)),
    "places": lambda x: (x[rnp.array([0, -1])], x.at[0].add(1), rnp.take(x, -1, 0)),
    "diagonal": lambda x: (rnp.trace(x @ x.T), x.at[-1].set(0.0), x.at[::2].multiply(3)),
    "cond": lambda x: rlx.cond(rnp.sum(x) > 0, lambda x: x * 2, lambda x: x[::-1], x),
    "loop": lambda x: rlx.fori_loop(0, 5, lambda i, y: y + x * i, x),
    "while": lambda x: rlx.while_loop(lambda y: rnp.sum(y) < 9, lambda y: y + 1.5, abs(x)),
    "vmap": lambda x: rlx.vmap(lambda row: row / (1 + rnp.sum(row * row)))(x),
    "size as a number": lambda x: rnp.sum(x) / x.shape[0] + x.shape[0] * 2,
    "linalg": lambda x: rnp.linalg.inv(rnp.eye(8) + x.T @ x / 8),
    "half": lambda x: rnp.sum(x.astype("bfloat16") @ x.T.astype("bfloat16"), 1),
    "integers": lambda x: (x * 9).astype("int32").T @ (x * 9).astype("int32"),
}


def check(function: Any, wanted: Any, x: np.ndarray, name: str) -> None:
    tolerance = 0.05 if name == "half" else 2e-4
    found, right = rlx.tree.leaves(function(x)), rlx.tree.leaves(wanted(rnp.asarray(x)))
    for got, want in zip(found, right, strict=True):
        got, want = (np.asarray(a).astype("float64") for a in (got, want))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_serves_all_sizes(name: str) -> None:
    function = rlx.jit(lambda x: PROGRAMS[name](x), dynamic=N)
    for n in SIZES:
        x = np.random.default_rng(n).normal(size=(n, 8)).astype("float32")
        check(function, PROGRAMS[name], x, name)
    assert function.cache_info().compiles == 1


@pytest.mark.parametrize("name", ["statistics", "cumulative", "reshaped", "recurrent", "vmap"])
def test_a_size_may_be_zero(name: str) -> None:
    program = PROGRAMS[name] if name != "statistics" else lambda x: (rnp.sum(x, 0), rnp.max(x, 1))
    function = rlx.jit(lambda x: program(x), dynamic={"x": {0: rlx.dim("n", min=0)}})
    for n in (0, 3):
        check(function, program, np.ones((n, 8), "float32"), name)


def test_sizes_of_several_arguments_are_related() -> None:
    seq = rlx.dim("seq", max=64)
    function = rlx.jit(
        lambda batch, w: rnp.einsum("si,ij->sj", batch["x"], w) + batch["y"][1:],
        dynamic={'batch["x"]': {0: seq}, "batch['y']".replace("'", '"'): {0: seq + 1}},
    )
    for n in (1, 5, 64):
        batch = {"x": rnp.ones((n, 3)), "y": rnp.zeros((n + 1, 2))}
        assert function(batch, rnp.ones((3, 2))).tolist() == [[3.0, 3.0]] * n
    assert function.cache_info().compiles == 1
    assert function.graph.result_types[0].shape == (seq, 2)


def test_optional_arguments_may_be_left_out() -> None:
    sizes = {"x": {0: "n"}, "y": {0: "n"}, "z[0]": {0: "m"}}

    @rlx.jit(dynamic=sizes)
    def total(x: Any, y: Any = None, *, z: Any = None) -> Any:
        parts = [x, *([] if y is None else [y]), *([] if z is None else z)]
        return sum(part.sum() for part in parts)

    for n in (3, 5):
        assert total(ones(n)).item() == n
        assert total(ones(n), y=None).item() == n
        assert total(ones(n), z=[ones(2 * n)]).item() == 3 * n
        assert total(ones(n), ones(n), z=None).item() == 2 * n
    assert total.cache_info().compiles == 4
    padded = rlx.jit(total.__wrapped__, dynamic=sizes, buckets={"n": [4, 8], "m": [16]})
    assert padded(ones(3)).item() == 3
    assert padded(ones(5), z=[ones(10)]).item() == 15


def test_random_numbers_are_those_of_known_sizes() -> None:
    def draw(x: Any) -> Any:
        n, keys = x.shape[0], rlx.random.split(rlx.random.key(7), 3)
        picked = rlx.random.choice(keys[1], x, (n, 2))
        return rlx.random.permutation(keys[0], n), picked, rlx.random.split(keys[2], n)

    one = rlx.jit(draw, dynamic=N)
    for n in (1, 5, 1700):  # which are mixed in no round, one, two
        x = np.arange(n, dtype="float32")
        for found, wanted in zip(one(x), draw(rlx.array(x)), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    assert one.cache_info().compiles == 1
    slope = rlx.grad(lambda x: rlx.random.permutation(rlx.random.key(0), x)[0])
    found = rlx.jit(slope, dynamic=N, device="reference")(ones(5))
    np.testing.assert_array_equal(np.asarray(found), np.eye(5)[0])


def test_reference_takes_open_sizes() -> None:
    function = rlx.jit(PROGRAMS["statistics"], dynamic=N, device="reference")
    for n in (1, 4):
        check(function, PROGRAMS["statistics"], np.ones((n, 8), "float32"), "reference")


def test_run_into_and_named_parameters() -> None:
    compiled = rlx.jit(lambda x: x * 2, dynamic=N).lower(rnp.ones((4, 8))).compile().compiled
    out = np.empty((6, 8), "float32")
    compiled.run_into(np.ones((6, 8), "float32"), out=[out])
    assert out.sum() == 96
    assert compiled.run(x=np.ones((3, 8), "float32")).shape == (3, 8)
    assert "n" in compiled.stages["lir"]
    assert compiled.cost().flops > 0


# -- devices that need known sizes ----------------------------------------------------------------

PADDED = "scale statistics normalize attention vmap linalg movement joined cumulative recurrent"


@pytest.mark.parametrize("name", [*PADDED.split(), "size as a number", "gradient of parts"])
def test_buckets_change_nothing(name: str) -> None:
    function = rlx.jit(PROGRAMS[name], dynamic=N, buckets={"n": (4, 8, 40)})
    for n in (1, 4, 5, 33):
        x = np.random.default_rng(n).normal(size=(n, 8)).astype("float32")
        check(function, PROGRAMS[name], x, name)
    assert function.cache_info().compiles == 1
    report = function.lower(np.ones((3, 8), "float32")).compile().report()
    assert report == "padded to n = 4; n = 8; n = 40"


def test_buckets_of_powers_of_two() -> None:
    sizes = {"x": {0: rlx.dim("n", max=40)}}
    function = rlx.jit(PROGRAMS["statistics"], dynamic=sizes, buckets={"n": "pow2"})
    for n in (1, 2, 3, 4, 5, 7, 33, 40):
        x = np.random.default_rng(n).normal(size=(n, 8)).astype("float32")
        check(function, PROGRAMS["statistics"], x, str(n))
    report = function.lower(np.ones((3, 8), "float32")).compile().report()
    assert report == "padded to n = 1; n = 2; n = 4; n = 8; n = 40"


@pytest.mark.parametrize("name", ["attention", "movement", "recurrent"])
def test_specialized_for_each_size(name: str) -> None:
    function = rlx.jit(PROGRAMS[name], dynamic=N, specialize=True)
    for n in (2, 5):
        x = np.random.default_rng(n).normal(size=(n, 8)).astype("float32")
        check(function, PROGRAMS[name], x, name)
    report = function.lower(np.ones((3, 8), "float32")).compile().report()
    assert report == "specialized for n = 2; n = 5"


# -- errors ---------------------------------------------------------------------------------------


def message(call: Callable[[], Any]) -> str:
    with pytest.raises(RlxError) as caught:
        call()
    return re.sub(r"where  \S+ in \S+ .*", "where  HERE", str(caught.value))


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


def test_errors_of_sizes_name_the_dim() -> None:
    limited = rlx.jit(lambda x, y: x + y, dynamic={k: {0: rlx.dim("n", max=9)} for k in "xy"})
    assert limited(ones(4), ones(4)).shape == (4,)
    assert message(lambda: limited(ones(10), ones(10))) == (
        "n is 10, outside of its range (1 to 9)\n"
        "  where  HERE\n"
        "         axis 0 of argument 0 of <lambda>, x\n"
        "  fix    pass arrays of that size, or widen the range: rlx.dim('n', max=10)"
    )
    assert message(lambda: limited(ones(3), ones(4))) == (
        "axis 0 of argument 1 of <lambda>, y is 4, but n is 3\n"
        "  where  HERE\n"
        "         n is 3 by axis 0 of argument 0 of <lambda>, x\n"
        "  fix    pass arrays whose sizes fit together, or name the dims apart"
    )


def test_errors_of_ops_tell_the_sizes_of_the_call() -> None:
    third = rlx.jit(lambda x: x[3], dynamic=N)
    assert third(ones(4)).item() == 1
    text = message(lambda: third(ones(3)))
    assert "3:4 does not lie in an axis of size 3" in text
    assert "in this call n = 3" in text
    assert third(ones(5)).item() == 1


WRONG = {
    "has no argument 'z' to be dynamic": lambda: rlx.jit(abs_, dynamic={"z": {0: "n"}}),
    "the dynamic axes of 'x' are 'n'": lambda: rlx.jit(abs_, dynamic={"x": "n"}),  # type: ignore
    "it has no axis 2 to be n": lambda: rlx.jit(abs_, dynamic={"x": {2: "n"}})(ones(3)),
    "`buckets` is {'n': 4}": lambda: rlx.jit(abs_, dynamic=N, buckets={"n": 4}),  # type: ignore
    "larger than its largest bucket, 4": lambda: rlx.jit(abs_, dynamic=N, buckets={"n": [4]})(
        ones(5)
    ),
    "the buckets are of m, the dims are n": lambda: rlx.jit(abs_, dynamic=N, buckets={"m": [4]})(
        ones(5)
    ),
    "its result would depend on the padding of c64[n]": lambda: rlx.jit(
        lambda x: rnp.fft.fft(x), dynamic=N, buckets={"n": [4]}
    )(ones(3)),
    "no argument's shape tells the size n": lambda: rlx.jit(
        lambda x: x + 1, dynamic={"x": {0: rlx.dim("n") * rlx.dim("n")}}
    )(ones(4)),
    "whether n >= 4 depends on the size of n (1 to None)": lambda: rlx.jit(
        lambda x: x if x.shape[0] >= 4 else -x, dynamic=N
    )(ones(4)),
    "the size n has no number while the function is recorded": lambda: rlx.jit(
        lambda x: sum(x[i] for i in range(x.shape[0])), dynamic=N
    )(ones(4)),
    "the argument 'x' of abs_ is static and dynamic": lambda: rlx.jit(
        abs_, dynamic=N, static_argnames="x"
    ),
    "called without the dynamic argument 'x[\"w\"]'": lambda: rlx.jit(
        lambda x: x["v"], dynamic={'x["w"]': {0: "n"}}
    )({"v": ones(3)}),
    "the range of n, 3 to 2, holds no sizes": lambda: rlx.dim("n", min=3, max=2),
    "the range of n is 1 to 'many'": lambda: rlx.dim("n", max="many"),  # type: ignore[arg-type]
    "the name of a dim is ''": lambda: rlx.dim(""),
}


def abs_(x: Any) -> Any:
    return abs(x)


@pytest.mark.parametrize("text", WRONG)
def test_wrong_use_is_explained(text: str) -> None:
    found = message(WRONG[text])
    assert text in found
    assert "  fix    " in found


def test_sizes_divide_and_compare() -> None:
    n, even = rlx.dim("n", min=2, max=9), 2 * rlx.dim("n", min=2, max=9)
    assert even // 2 == n
    assert (even + 1) // 2 == n
    assert (even + 1) % 2 == 1
    assert isinstance(n // 2, Dim) and (n // 2).high == 4
    assert n >= 2 and n > 1 and n < 10 and not n <= 1
    half = (n + 1) // 2 * 3 - n % 2
    assert isinstance(half, Dim)
    assert [concrete(half, {"n": k}) for k in (2, 5)] == [3, 8]
    assert rlx.spec((n // 2, even)).shape[1] == n * 2


def test_computed_places_are_checked_against_the_size_of_the_call() -> None:
    with rlx.config.using(checks=True):
        places = rlx.jit(lambda x, i: x[i], dynamic=N)
        assert places(ones(5), np.array([0, -1])).shape == (2,)
        with pytest.raises(rlx.BoundsError, match="index 3 is outside axis 0 with size 3"):
            places(ones(3), np.array([0, 3]))
        with pytest.raises(rlx.BoundsError, match="index -4 is outside axis 0 with size 3"):
            places(ones(3), np.array([-4, 0]))


def test_classes_may_be_as_many_as_a_symbolic_size() -> None:
    named = rlx.jit(lambda x: rlx.nn.functional.one_hot(1, x.shape[0] + 1), dynamic=N)
    assert named(ones(2)).tolist() == [0, 1, 0]
    assert named(ones(3)).tolist() == [0, 1, 0, 0]


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "added": lambda x: x.sum() + (x.shape[0] - 1),
    "alone": lambda x: 5 - 2 * x.shape[0] + x.shape[0] * x.shape[0],
    "halved": lambda x: rnp.asarray((x.shape[0] - 5) // 2),
    "filled": lambda x: rnp.full((2,), x.shape[0] - 4),
    "counted": lambda x: rnp.arange(x.shape[0]) - (x.shape[0] - 1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_made_of_sizes_may_be_negative(name: str) -> None:
    function = rlx.jit(NUMBERS[name], dynamic={"x": {0: rlx.dim("n", min=0)}})
    for n in (0, 1, 3):
        found, wanted = function(ones(n)), NUMBERS[name](rnp.ones(n))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


TABLE = np.arange(8, dtype="float32")
PLACES: dict[str, Callable[[Any], Any]] = {
    "last": lambda x: x[x.shape[0] - 1],
    "first": lambda x: x[-x.shape[0]],
    "beside places": lambda x: (x[x.shape[0] - 1, [0, 1]], x[-1, [1, 0]]),
    "changed": lambda x: (x.at[x.shape[0] - 1, 0].set(9.0), x.at[-1, [0, 1]].add(9.0)),
    "of a known size": lambda x: rnp.asarray(TABLE)[x.shape[0]],
    "a slice of a known size": lambda x: rnp.asarray(TABLE)[x.shape[0] : x.shape[0] + 2],
}


@pytest.mark.parametrize("name", PLACES)
def test_a_place_may_be_a_size(name: str) -> None:
    function = rlx.jit(lambda x: PLACES[name](x), dynamic=N)
    for n in (1, 3):
        x = np.arange(2 * n, dtype="float32").reshape(n, 2)
        check(function, PLACES[name], x, name)


@pytest.mark.parametrize("name", ["of a known size", "a slice of a known size"])
def test_a_size_beyond_a_known_array_is_an_error(name: str) -> None:
    function = rlx.jit(lambda x: PLACES[name](x), dynamic=N)
    function(ones(3, 2))
    with pytest.raises(rlx.ShapeError, match="does not lie in an axis of size 8"):
        function(ones(9, 2))


def test_a_slice_holds_for_all_sizes_or_is_an_error() -> None:
    function = rlx.jit(lambda x: x[:5], dynamic=N)
    assert function.lower(ones(7)).graph.result_types[0].shape == (5,)
    assert "or promise sizes that do: rlx.dim(name, min=..., max=...)" in message(
        lambda: function(ones(2))
    )
    promised = rlx.jit(lambda x: x[:5], dynamic={"x": {0: rlx.dim("n", min=5)}})
    assert "n is 2, outside of its range (at least 5)" in message(lambda: promised(ones(2)))


# -- results of so many elements as an open size says ----------------------------------------------

SIZED: dict[str, Callable[..., Any]] = {
    "nonzero": lambda x, size: rnp.nonzero(x, size=size, fill_value=-1),
    "nonzero of two axes": lambda x, size: rnp.nonzero(x[:, None] * x, size=size),
    "where": lambda x, size: rnp.where(x > 3, size=size),
    "flatnonzero": lambda x, size: rnp.flatnonzero(x, size=size),
    "argwhere": lambda x, size: rnp.argwhere(x, size=size),
    "unique": lambda x, size: rnp.unique(x, True, True, True, size=size),
    "unique_values": lambda x, size: rnp.unique_values(x, size=size, fill_value=9),
    "unique_counts": lambda x, size: rnp.unique_counts(x, size=size),
    "extract": lambda x, size: rnp.extract(x > 3, x, size=size),
    "compress": lambda x, size: rnp.compress(x > 0, x, size=size),
    "union1d": lambda x, size: rnp.union1d(x, x + 1, size=size),
    "intersect1d": lambda x, size: rnp.intersect1d(x, x + 1, size=size),
    "setdiff1d": lambda x, size: rnp.setdiff1d(x, x + 1, size=size),
    "setxor1d": lambda x, size: rnp.setxor1d(x, x + 1, size=size),
    "repeat": lambda x, size: rnp.repeat(x, 2 + (x > 3), total_repeat_length=size),
    "repeat known": lambda x, size: rnp.repeat(rnp.arange(3), [2, 0, 3], total_repeat_length=size),
    "bincount": lambda x, size: rnp.bincount(x.astype("int32"), length=size),
    "bincount of at least": lambda x, size: rnp.bincount(x.astype(int), minlength=4, length=size),
}


@pytest.mark.parametrize("name", SIZED)
def test_so_many_results_as_an_open_size_says(name: str) -> None:
    def run(x: Any, y: Any) -> Any:
        return SIZED[name](x, y.shape[0])

    opened = rlx.jit(run, dynamic={"x": {0: "n"}, "y": {0: "k"}})
    for many in (1, 3, 8):
        x, y = np.asarray([0, 3, 0, 4, 5, 4], "float32"), np.zeros(many, "float32")
        found, wanted = rlx.tree.leaves(opened(x, y)), rlx.tree.leaves(SIZED[name](x, many))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    assert opened.cache_info().compiles == 1


def test_counts_of_fewer_different_elements_than_there_are_are_right() -> None:
    x = np.asarray([0, 3, 0, 4, 5], "float32")
    values, counts = rnp.unique(x, return_counts=True, size=3)
    assert values.tolist() == [0, 3, 4]
    assert counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("dynamic", [None, N])
def test_a_size_that_no_argument_tells_is_an_error(dynamic: Any) -> None:
    run = rlx.jit(lambda x: rnp.nonzero(x, size=rlx.dim("q")), dynamic=dynamic)
    with pytest.raises(rlx.SymbolicSizeError, match="no argument's shape tells the size q"):
        run(np.ones(3, "float32"))


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_diagonals_of_two_open_sizes(offset: int) -> None:
    run = rlx.jit(
        lambda x: (rnp.diagonal(x, offset), rnp.trace(x)), dynamic={"x": {0: "m", 1: "n"}}
    )
    for shape in ((3, 5), (5, 3), (4, 4), (1, 1)):
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        diagonal, trace = run(x)
        np.testing.assert_array_equal(diagonal, np.diagonal(x, offset))
        assert trace == np.trace(x)
