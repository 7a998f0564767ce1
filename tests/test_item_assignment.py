"""`x[i] = v`, `x += v`: NumPy's meaning, recorded in traced functions, errors for aliases."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import AliasError, LeakedTracerError
from rlx.trace.array import Array
from rlx.trace.tensor import TracedTensor

X = np.arange(12, dtype="float32").reshape(3, 4)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def written(x: Any, index: Any, values: Any) -> Any:
    """A copy of x with values assigned at an index."""
    x = x.copy()
    x[index] = values
    return x


# -- NumPy's meaning ------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, rlx.jit], ids=["at once", "jit"])
def test_a_program_of_assignments(wrap):
    def program(xp: Any, x: Any) -> Any:
        out = xp.zeros((3, 4), "float32")
        for i in range(3):
            out[i, : i + 1] = x[i, : i + 1]
            out[i, -1] += 10
        out[out > 9] = -1
        out[1:] *= x[:-1]
        out **= 2
        return out

    same(wrap(lambda x: program(rnp, x))(rlx.array(X)), program(np, X))


def test_an_array_without_axes_and_an_empty_one():
    x = rlx.array(1.0)
    x[...] = 5
    x[()] += 1
    assert x.item() == 6.0
    empty = rlx.array(np.zeros((0, 3), "float32"))
    empty[...] = 1.0
    empty[:, 1] = 2.0
    assert empty.shape == (0, 3)


DTYPES = ("bool", "int8", "uint8", "int64", "uint64", "float16", "bfloat16", "float64", "complex64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_stays(dtype):
    x = rlx.array(np.zeros(3), dtype)
    x[0], x[1:] = True, rnp.ones(2, dtype)
    x[rlx.array([True, False, False])] = False
    assert x.dtype.name == dtype
    same(x, np.array([0, 1, 1], x.dtype))


@pytest.mark.parametrize(
    ("dtype", "number"), [("int64", -(2**40)), ("uint64", 2**63 + 1), ("uint8", 255)]
)
def test_python_numbers_take_the_dtype_of_the_array(dtype, number):
    x = rlx.array(np.zeros((2, 2)), dtype)
    x[0, 1] = number
    x[1] = number
    x[rlx.array([[True, False], [False, False]])] = number
    assert x.tolist() == [[number] * 2] * 2


# -- what others see ------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, rlx.jit], ids=["at once", "jit"])
def test_names_of_the_object_see_an_assignment_and_copies_do_not(wrap):
    def program(x: Any) -> Any:
        x = x * 1
        name, copied, twice, shallow = x, x.copy(), rnp.array(x), copy.copy(x)
        made, cast = x + 0, x.astype(x.dtype)
        x[0] = 9.0
        return x, name, copied, twice, shallow, made, cast

    new, old = [9.0, 2.0], [1.0, 2.0]
    found = wrap(program)(rlx.array([1.0, 2.0]))
    assert [each.tolist() for each in found] == [new, new, *[old] * 5]


def test_an_operator_in_place_gives_the_name_another_object():
    x = rlx.array([1.0, 2.0])
    name, place = x, id(x)
    x += 1
    assert name.tolist() == [1, 2] and id(x) != place

    @rlx.jit
    def add(x: Any) -> Any:
        x += 1
        return x

    same(add(name), [2, 3])
    same(name, [1, 2])


def test_identity_hash_and_exported_memory_stay():
    x = rlx.array([1.0, 2.0])
    table, seen = {x: "x"}, np.asarray(x)
    from_dlpack = np.from_dlpack(x)
    x[0] = 5.0
    assert table[x] == "x" and x.tolist() == [5, 2]
    assert seen.tolist() == [1, 2] and from_dlpack.tolist() == [1, 2]
    source = np.ones(2, "float32")
    y = rlx.array(source)
    y[0] = 3
    assert source.tolist() == [1, 1]


def test_what_was_recorded_before_keeps_the_old_elements():
    @rlx.jit
    def f(x: Any) -> Any:
        table = rnp.array([1.0, 2.0, 3.0])
        zeros = rnp.zeros(3)
        before = x * table + zeros
        table[0], zeros[1] = 10.0, 5.0
        middle = x * table + zeros
        table[2] = x[0]
        return before, middle, table * 1, zeros * x

    found = f(rlx.array([1.0, 1.0, 1.0]))
    assert [each.tolist() for each in found] == [[1, 2, 3], [10, 7, 3], [10, 2, 1], [0, 5, 0]]


def test_an_array_that_meets_traced_values_turns():
    def f(x: Any) -> Any:
        out = rnp.zeros(2)
        assert type(out) is Array
        out[0] = 1.0
        assert type(out) is Array
        out[1] = x
        assert type(out) is TracedTensor
        kept.append(out)
        return out * 2

    kept: list[Any] = []
    assert rlx.jit(f)(3.0).tolist() == [2, 6]
    with pytest.raises(LeakedTracerError):
        kept[0] + 1
    with pytest.raises(LeakedTracerError):
        kept[0][0] = 1.0


# -- aliases that would be affected ---------------------------------------------------------------


def test_parts_cannot_be_assigned_to_while_the_whole_lives():
    x = rlx.array(X)
    for part in (x[0], x[1:], x.T, x.reshape(-1), x[:, None], x.ravel(), x[1:][1:], next(iter(x))):
        with pytest.raises(AliasError, match="NumPy the whole with it"):
            part[0] = 1.0
    same(x, X)
    row = rlx.array(X)[0]  # its whole is gone
    row[0] = 7.0
    assert row.tolist() == [7, 1, 2, 3]
    number = x[0, 0]  # NumPy gives a number here
    number[...] = 5.0
    chosen = x[[0, 1]]  # and a copy here
    chosen[0] = 5.0
    same(x, X)

    @rlx.jit
    def f(x: Any, i: Any) -> Any:
        x = x * 1
        x[i][0] = 2.0
        return x

    with pytest.raises(AliasError, match="NumPy the whole with it"):
        f(X, 1)


COPIES = {
    "abs": lambda x: rnp.abs(x > 1), "round": lambda x: rnp.round(x.astype("int32")),
    "floor": lambda x: rnp.floor(x.astype("int32")), "block": rnp.block, "clip": rnp.clip,
    "concatenate": lambda x: rnp.concatenate([x]), "conj": rnp.conj, "positive": lambda x: +x,
    "roll": lambda x: rnp.roll(x, 0, 0), "tile": lambda x: rnp.tile(x, 1), "copy": rnp.copy,
    "repeat": lambda x: rnp.repeat(x, 1, 0), "meshgrid": lambda x: rnp.meshgrid(x[0] * 1)[0],
    "nan_to_num": lambda x: rnp.nan_to_num(x > 1), "flatten": lambda x: x[0].flatten(),
    "astype": lambda x: x.astype("float32"), "array": rnp.array, "float32": rnp.float32,
    "asarray": lambda x: rnp.asarray(x, copy=True),
    "reshape": lambda x: rnp.reshape(x, -1, copy=True),
}  # fmt: skip
PARTS = {
    "reshape": lambda x: rnp.reshape(x, -1), "transpose": rnp.transpose, "flip": rnp.flip,
    "ravel": rnp.ravel, "expand_dims": lambda x: rnp.expand_dims(x, 0), "rot90": rnp.rot90,
    "squeeze": lambda x: rnp.squeeze(x[None]), "split": lambda x: rnp.split(x, 3)[0],
    "moveaxis": lambda x: rnp.moveaxis(x, 0, 1), "view": lambda x: x.view("int32"),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_what_numpy_copies_can_be_assigned_to_and_leaves_the_whole(name):
    x = rlx.array(X)
    made = COPIES[name](x)
    before = x.tolist()
    made[...] = False
    x[...] = True
    assert before == X.tolist() and not made.any() and x.all()


@pytest.mark.parametrize("name", PARTS)
def test_what_numpy_makes_a_view_of_is_a_part(name):
    x = rlx.array(X)
    made = PARTS[name](x)
    with pytest.raises(AliasError, match="NumPy the whole with it"):
        made[...] = 0
    x[...] = 1
    with pytest.raises(AliasError, match="after the whole had been assigned to"):
        made + 1


def test_parts_are_not_used_after_the_whole_was_assigned_to():
    x = rlx.array(X)
    first, last, odd, turned = x[0], x[2], x[:, 1::2], x.T
    x[0, 0] = 5.0
    assert last.tolist() == X[2].tolist() and odd.tolist() == X[:, 1::2].tolist()
    uses = (lambda: first + 1, lambda: turned.sum(), lambda: first.tolist(), lambda: len(first))
    for use in uses:
        with pytest.raises(AliasError, match="after the whole had been assigned to"):
            use()
    assert x[0].tolist() == [5, 1, 2, 3]

    def swap(x: Any) -> Any:
        x = x * 1
        x[0], x[1] = x[1], x[0]  # in NumPy both become x[1]
        return x

    for wrap in (lambda f: f, rlx.jit):
        with pytest.raises(AliasError, match="part = x"):
            wrap(swap)(rlx.array(X))
    x[1:] = x[:-1]
    x[[0, 1]] = x[[1, 0]]


def test_many_parts_are_outdated_as_one_is():
    random = np.random.default_rng(0)

    def index() -> tuple[slice, ...]:
        starts, sizes = random.integers(-1, 8, 2), random.integers(0, 5, 2)
        steps = random.choice([1, 1, 2, -1], 2)
        return tuple(
            slice(*each) for each in zip(starts, starts + sizes * steps, steps, strict=True)
        )

    def is_outdated(part: Any) -> bool:
        try:
            return part.tolist() is None
        except AliasError:
            return True

    numbers = np.zeros((9, 9), "float32")
    whole, indices, forgotten = rlx.array(numbers), [index() for _ in range(70)], 0
    parts = [whole[i] for i in indices]
    for target in [index() for _ in range(8)]:
        kept = [k for k, part in enumerate(parts) if not is_outdated(part)]
        whole[target] = 1.0
        for k in kept:
            alone = rlx.array(numbers)
            part = alone[indices[k]]
            alone[target] = 1.0
            assert is_outdated(parts[k]) == is_outdated(part)
            shared = np.shares_memory(numbers[indices[k]], numbers[target])
            assert is_outdated(part) or not shared
            forgotten += is_outdated(part)
        for k in random.integers(0, len(parts), 5):
            indices[k] = index()
            parts[k] = whole[indices[k]]
    assert 0 < forgotten < len(parts)


def test_arguments_and_arrays_from_outside_are_not_assigned_to():
    outside = rlx.array([1.0, 2.0])

    def argument(x: Any) -> Any:
        x[0] = 1.0
        return x

    def closure(x: Any) -> Any:
        outside[0] = x[0]
        return x

    def constant(x: Any) -> Any:
        outside[0] = 3.0
        return x

    x = rlx.array([1.0, 2.0])
    ways = {
        "jit": rlx.jit,
        "vmap": rlx.vmap,
        "grad": lambda fn: rlx.grad(lambda x: fn(x).sum()),
        "jvp": lambda fn: lambda x: rlx.jvp(fn, (x,), (x,)),
        "cond": lambda fn: rlx.jit(lambda x: rlx.cond(x.sum() > 0, fn, lambda x: x, x)),
    }
    for fn in (argument, closure, constant):
        for wrap in ways.values():
            with pytest.raises(AliasError, match="somebody else has"):
                wrap(fn)(rlx.array(X))
    assert outside.tolist() == [1, 2] and x.tolist() == [1, 2]


def test_values_of_an_enclosing_function_are_not_assigned_to():
    @rlx.jit
    def f(x: Any) -> Any:
        total, made = x * 1, rnp.zeros(2)

        def step(carry: Any, i: Any) -> Any:
            target[0] = carry
            return carry, i

        results = []
        for target in (total, made):
            with pytest.raises(AliasError, match="somebody else has"):
                rlx.scan(step, 1.0, rnp.arange(3))
            results.append(target * 1)
        return results

    assert [r.tolist() for r in f(rlx.array([1.0, 2.0]))] == [[1, 2], [0, 0]]


def test_arrays_inside_of_a_compiled_function_are_not_assigned_to():
    scale, place = rlx.array(2.0), rlx.array([1, 0])
    first = rlx.jit(lambda x: rlx.cond(x[0] > 0, lambda y: y * scale, lambda y: y[place], x))
    same(first(rlx.array([1.0, 1.0])), [2, 2])
    for each in (scale, place):
        with pytest.raises(AliasError, match="has taken it up"):
            each[...] = 0
    weight = rlx.array([1.0, 2.0])
    f = rlx.jit(lambda x: x * weight)
    weight[0] = 3.0
    same(f(rlx.array([1.0, 1.0])), [3, 2])
    with pytest.raises(AliasError, match="the compiled function <lambda> has taken it up"):
        weight[0] = 4.0
    rlx.grad(lambda x: (x * weight).sum())(rlx.array([1.0, 1.0]))
    other = weight.copy()
    other[0] = 4.0
    f.cache_clear()
    weight[0] = 4.0
    same(f(rlx.array([1.0, 1.0])), [4, 2])


def test_results_of_compiled_functions_are_the_callers_own():
    double, pair = rlx.jit(lambda x: x * 2), rlx.jit(lambda x: {"a": x, "b": x})
    compiled = double.lower(rlx.array([1.0, 2.0])).compile()
    graph = rlx.Session("cpu").compile(lambda x: x * 2, rlx.spec((2,)))

    def f(x: Any) -> Any:
        total = x * 0
        for fn in (double, double, compiled, graph, lambda y: pair(y)["a"], lambda y: pair(y)["a"]):
            z = fn(rlx.array([1.0, 2.0]))
            z[0] = 5.0
            total += z
        w = double(x)
        w[1] = x[0]
        return total + w

    same(rlx.jit(f)(rlx.array([1.0, 2.0])), f(rlx.array([1.0, 2.0])))


# -- errors, word for word ------------------------------------------------------------------------


def _text(fn: Any, *args: Any) -> list[str]:
    with pytest.raises(rlx.ir.errors.RlxError) as caught:
        fn(*args)
    lines = str(caught.value).splitlines()
    return [line.split("test_item_assignment.py:")[0] for line in lines]


def test_the_text_of_errors():
    def argument(weights: Any) -> Any:
        weights["w"][0] = 1.0

    assert _text(rlx.jit(argument), {"w": X}) == [
        "x[i] = v would change an array that somebody else has",
        "  where  ",
        "         x: f32[3, 4]",
        '         the caller has it too: it is argument 0 of argument, weights["w"]',
        "  fix    assign to a copy, x = x.copy(), or write x = x.at[i].set(v)",
    ]
    x = rlx.array(X)
    assert _text(lambda: x[0].__setitem__(1, 2.0)) == [
        "x[i] = v would change a part of an array, and NumPy the whole with it",
        "  where  ",
        "         the part: f32[4]",
        "         the whole: f32[3, 4]",
        "  fix    assign through the whole, x[0, 1] = v instead of x[0][1] = v, or take a copy of "
        "the part:",
        "         part = x[0].copy()",
    ]
    row = x[0]
    x[0] = 1.0
    assert _text(lambda: row + 1) == [
        "a part of an array was used after the whole had been assigned to",
        "  where  ",
        "         the whole: f32[3, 4]",
        "         assigned to at ",
        "  fix    NumPy would change the part, too: take it again after the assignment, or keep",
        "         the elements as they were, part = x[i].copy()",
    ]
    assert _text(rlx.jit(lambda y: x.__setitem__(0, y)), 1.0) == [
        "x[i] = v would change an array that somebody else has",
        "  where  ",
        "         x: f32[3, 4]",
        "         it was made outside of <lambda>, which is traced here",
        "  fix    assign to a copy, x = x.copy(), or write x = x.at[i].set(v)",
    ]
    assert _text(lambda: x.__setitem__(0, 1j)) == [
        "x[i] = v: complex64 values do not fit an array of float32",
        "  where  ",
        "  fix    convert the array, x.astype('complex64'), or the values, v.astype('float32')",
    ]
    assert _text(lambda: x.__setitem__(0, rnp.ones(3))) == [
        "values of the shape (3,) do not fit the (4,) elements of an index",
        "  where  ",
        "         x: f32[3, 4]",
        "  fix    give values that broadcast to the shape of x[index]",
    ]
