"""`rlx.autograph`: Python's statements on traced values give what Python gives on numbers."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

OFFSET = 2.0


def branches(x, k):
    if x > 1:
        y = x * 2
        z = 1.0
    elif x > 0:
        y = x
        z = 2.0
    else:
        y, z = -x, 3.0
    return y + z * k + OFFSET


def one_sided(x, k):
    y = x
    if x > 1 and k > 0:
        y = y * 3
    if not x > 1:
        y += k
    return y


def early(x, k):
    if x > 2:
        return x * 10
    y = x + k
    if y > 2:
        if x > 1:
            return y * 2
        y = y + 1
    return -y


def loops(x, k):
    total, steps = x * 0, 0
    while total < 10 and steps < 50:
        total = total + abs(x) + 0.5
        steps += 1
    return total * k + steps


def nested(x, k):
    total = x * 0.0
    for i in range(5):
        j = i
        while j > 0:
            total += x if i > k or x > 1 else 0.25
            j -= 1
    return total


def counted(x, k):
    total = x * 0.0
    for i in range(1, k + 3, 2):
        total = total + i * x
    for i in range(k, 0, -1):
        total = total - i
    return total


def chained(x, k):
    return 1.0 if 0 < x < k or x == -1 else 2.0


def inner(x, k):
    def clipped(y):
        if y > 1:
            return 1.0 + 0 * y
        return y

    square = lambda y: y * y if y > 0 else y  # noqa: E731
    return clipped(x) + square(x - 1) * k


def blocks(x, k):
    with np.errstate(all="ignore"):
        try:
            if x > 1:
                x = x - 1
            else:
                x = x + k
        finally:
            k = k + 1
    return x * k


FUNCTIONS = [branches, one_sided, early, loops, nested, counted, chained, inner, blocks]
POINTS = [(3.0, 1), (1.5, 2), (0.5, 3), (-1.0, 0), (-0.25, 4)]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_results_are_those_of_python(fn):
    traced = rlx.jit(rlx.autograph(fn))
    for x, k in POINTS:
        wanted = float(fn(x, k))
        assert float(traced(np.float32(x), np.int32(k))) == pytest.approx(wanted, rel=1e-6)
        assert rlx.autograph(fn)(x, k) == pytest.approx(wanted)
    assert traced.cache_info().compiles == 1


def test_rows_of_arrays():
    @rlx.jit
    @rlx.autograph
    def longest(xs):
        best = 0.0
        for x in xs:
            if x > best:
                best = x
        return best

    assert float(longest(np.array([1, 7, 3], np.float32))) == 7.0


def test_items_of_arrays():
    @rlx.jit
    @rlx.autograph
    def f(x, k):
        if x[0] > 0:
            x[1] = 5.0
        for i in range(k):
            x[i] = x[i] * 2
        return x

    assert f(np.array([1, 2, 3], np.float32), np.int32(2)).tolist() == [2.0, 10.0, 3.0]
    assert f(np.array([-1, 2, 3], np.float32), np.int32(1)).tolist() == [-2.0, 2.0, 3.0]


def test_transforms_go_through():
    @rlx.autograph
    def f(x):
        if x > 1:
            y = x * x
        else:
            y = 3 * x
        return y

    assert [float(rlx.jit(rlx.grad(f))(np.float32(x))) for x in (2.0, 0.5)] == [4.0, 3.0]
    xs = np.array([0.5, 2.0, 3.0], np.float32)
    assert rlx.vmap(f)(xs).tolist() == [1.5, 4.0, 9.0]

    @rlx.autograph
    def norm(xs):
        total = 0.0
        for x in xs:
            total = total + x * x
        return total

    assert rlx.jit(rlx.grad(norm))(xs).tolist() == [1.0, 4.0, 6.0]


def test_closures_defaults_and_methods():
    scale = 4.0

    class Model:
        def __init__(self, limit):
            self.limit = limit

        @rlx.autograph
        def __call__(self, x, *, more=1.0):
            if x > self.limit:
                x = x * scale + more
            return x

    model = Model(2.0)
    run = rlx.jit(lambda x: model(x))
    assert float(run(np.float32(3))) == 13.0 and float(run(np.float32(1))) == 1.0
    assert model(3.0, more=2.0) == 14.0
    scale = 5.0
    assert model(3.0) == 16.0
    assert inspect.signature(Model.__call__) == inspect.signature(Model.__call__.__wrapped__)


def test_what_is_not_traced_is_pythons():
    @rlx.jit
    @rlx.autograph
    def f(x, names):
        kind = None
        for name in names:
            if name == "last":
                break
            kind = name
        if kind is not None:
            x = x + len(kind)
        while len(names) > 5:
            return x
        return x

    g = rlx.autograph(lambda_free)
    assert g(3) == [0, 1, 2]
    assert float(rlx.jit(lambda x: f.__wrapped__(x, ["ab", "last", "c"]))(1.0)) == 3.0


def lambda_free(n):
    found = []
    for i in range(n):
        found.append(i)
    return found


def doubled(fn):
    @functools.wraps(fn)
    def wrapper(x):
        if x > 0:
            return 2 * fn(x)
        return fn(x)

    return wrapper


def test_a_decorator_below_is_kept():
    f = rlx.autograph(doubled(lambda x: x + 1))
    assert f(3.0) == 8.0 and float(rlx.jit(f)(np.float32(3))) == 8.0


class Base:
    __factor = 3.0

    def scaled(self, x):
        return x * self.__factor


class Model(Base):
    __shift = 1.0

    @rlx.autograph
    def scaled(self, x):
        if x > 0:
            x = super().scaled(x) + self.__shift
        return x


def test_methods_have_super_and_private_names():
    assert Model().scaled(2.0) == 7.0 and Model().scaled(-2.0) == -2.0
    assert float(rlx.jit(Model().scaled)(np.float32(2))) == 7.0


def names_of_all_kinds(x, kind):
    if kind:
        import math as m
        from math import pi

        match kind:
            case {"a": found, **rest}:
                pass
            case [found, *rest]:
                pass
        _ = [last := i for i in range(3)]
    text = """
    two
spaces"""
    return x * m.floor(pi) + found + len(rest) + last + len(text)


def test_every_way_to_set_a_variable():
    for kind in ({"a": 4.0, "b": 1.0}, [4.0, 1.0, 2.0]):
        assert rlx.autograph(names_of_all_kinds)(2.0, kind) == names_of_all_kinds(2.0, kind)


def test_a_variable_that_is_not_set_is_not_set():
    @rlx.autograph
    def f(x, is_set):
        if is_set:
            y = x
        if not is_set:
            return y == 1
        del y
        return "y" in locals()

    assert f(1.0, True) is False
    with pytest.raises(UnboundLocalError):
        f(1.0, False)


# -- errors ----------------------------------------------------------------------------------------


def number_of(fn, text: str) -> int:
    lines, first = inspect.getsourcelines(fn)
    return first + next(i for i, line in enumerate(lines) if text in line)


def unset(x):
    if x > 0:
        y = x
    return y * 2  # the line


def text_changes(x):
    kind = "a"
    if x > 0:  # the line
        kind = "b"
    return x, kind


def compares_unset(x):
    if x > 0:
        y = x
    return y == 1, x  # the line


def returns_unset(x):
    if x > 0:
        y = x
    return x, y  # the line


def appends(x):
    found = []
    if x > 0:  # the line
        found.append(x)
    return found


def appends_often(x):
    found = []
    for i in range(x):  # the line
        found.append(i)
    return found


def fills(x):
    found = {}
    while x > 0:  # the line
        found.update(a=1)
        x = x - 1
    return found


def leaves(x):
    while x > 0:  # the line
        x = x - 1
        break
    return x


def other_types(x):
    if x > 0:  # the line
        x = x.astype("int32")
    return x


def other_shapes(x):
    while x.sum() > 0:  # the line
        x = rnp.concatenate([x[None] * 1.0, x[None]])
    return x


def grows(x):
    for i in range(0, 9, x):  # the line
        x = x + i
    return x


@pytest.mark.parametrize(
    ("fn", "kind", "said"),
    [
        (unset, rlx.ArgumentError, "'y' is set in a part that depends on a traced value"),
        (text_changes, rlx.ArgumentError, "'kind' is a str"),
        (compares_unset, rlx.ArgumentError, "'y' is set in a part that depends on a traced value"),
        (returns_unset, rlx.ArgumentError, "'y' is set in a part that depends on a traced value"),
        (appends, rlx.ArgumentError, "'found' is a list, which an `if`"),
        (appends_often, rlx.ArgumentError, "'found' is a list, which a loop"),
        (fills, rlx.ArgumentError, "'found' is a dict, which a loop"),
        (leaves, rlx.ConcretizationError, "bool"),
        (other_types, rlx.DtypeError, "i32"),
        (other_shapes, rlx.RlxError, "f32[2]"),
        (grows, rlx.ConcretizationError, "the step is traced"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_errors_name_the_users_line(fn, kind, said):
    with pytest.raises(kind) as caught:
        rlx.jit(rlx.autograph(fn))(np.int32(1) if fn is appends_often else np.float32(1))
    text = str(caught.value)
    assert said in text
    assert f"test_autograph.py:{number_of(fn, '# the line')} in {fn.__name__}" in text
    assert "_rlx_" not in text


def test_mistakes_in_a_branch_name_their_line():
    def wrong(x):
        if x.sum() > 0:
            y = x @ rnp.ones((5, 2))
        else:
            y = x
        return y

    with pytest.raises(rlx.ShapeError) as caught:
        rlx.jit(rlx.autograph(wrong))(np.ones((2, 3), np.float32))
    assert f"test_autograph.py:{number_of(wrong, 'rnp.ones((5, 2))')} in wrong" in str(caught.value)


def test_what_cannot_be_rewritten_says_why():
    def generator(x):
        yield x

    def changes():
        global OFFSET
        OFFSET = 1.0

    for fn, said in (
        (generator, "a generator"),
        (changes, "`global OFFSET`"),
        (lambda x: x, "no plain function"),
        (eval("lambda x: x"), "its source cannot be read"),
    ):
        with pytest.raises(rlx.ArgumentError, match=said):
            rlx.autograph(fn)
    with pytest.raises(rlx.ArgumentError, match="not a Jitted"):
        rlx.autograph(rlx.jit(lambda x: x))
