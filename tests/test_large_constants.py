"""What is made of little while a function is recorded: recorded where it is large, and readable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.nn as nn
import rlx.numpy as rnp
from rlx.trace.apply import LARGE

LINE, SIDE = 5000, 80  # of float32: more than LARGE bytes
MAKERS: dict[str, Callable[[], Any]] = {
    "arange": lambda: rnp.arange(LINE),
    "ones": lambda: rnp.ones(LINE),
    "full": lambda: rnp.full((SIDE, SIDE), 2.5),
    "eye": lambda: rnp.eye(SIDE),
    "tril": lambda: rnp.tril(rnp.ones((SIDE, SIDE))),
    "outer": lambda: rnp.arange(LINE)[:, None] * rnp.arange(3)[None],
    "comparison": lambda: rnp.arange(LINE) % 7 == 0,
    "broadcast": lambda: rnp.broadcast_to(np.float32(3.0), (LINE,)),
    "tile": lambda: rnp.tile(np.arange(3.0, dtype="f4"), LINE),
}


def _hidden_bytes(f: Callable[..., Any], *specs: Any) -> int:
    graph = rlx.make_graph(f)(*specs)
    return sum(p.type.size * p.dtype.itemsize for p in graph.params[len(specs) :])


@pytest.mark.parametrize("name", MAKERS)
def test_they_are_recorded_and_right(name: str) -> None:
    make, x = MAKERS[name], np.float32(2)
    assert _hidden_bytes(lambda x: make() * x, rlx.spec(())) <= LARGE
    np.testing.assert_allclose(rlx.jit(lambda x: make() * x)(x), make() * x, rtol=1e-6)
    np.testing.assert_array_equal(rlx.jit(make)(), make())


@pytest.mark.parametrize("name", MAKERS)
def test_python_may_look_at_them(name: str) -> None:
    """As at what is small: there is no ConcretizationError for what depends on no argument."""
    make, wanted = MAKERS[name], np.asarray(MAKERS[name]())

    def looks(x: Any) -> Any:
        made = make()
        np.testing.assert_allclose(np.asarray(made), wanted, rtol=1e-6)
        assert made.tolist() == wanted.tolist()
        assert float(made.sum()) == pytest.approx(float(wanted.sum()), rel=1e-5)
        assert bool(made.ravel()[-1]) == bool(wanted.ravel()[-1])
        return x + int(rnp.argmax(made))

    assert rlx.jit(looks)(np.float32(0)) == wanted.argmax()


def test_shapes_may_depend_on_them() -> None:
    def f(x: Any) -> Any:
        big = rnp.arange(LINE)
        return x[big % 7 == 0], rnp.nonzero(big > LINE - 4)[0], rnp.unique(big // 1000), x[big[3:9]]

    x = np.arange(LINE, dtype="f4")
    picked, last, every, some = rlx.jit(f)(x)
    np.testing.assert_array_equal(picked, x[::7])
    assert last.tolist() == [LINE - 3, LINE - 2, LINE - 1]
    assert every.tolist() == [0, 1, 2, 3, 4]
    assert some.tolist() == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("around", ["scan", "cond", "while", "jit", "vmap", "grad", "checkpoint"])
def test_they_are_made_inside_of_others(around: str) -> None:
    def inner(c: Any) -> Any:
        return c * rnp.tril(rnp.ones((SIDE, SIDE))).sum() / SIDE**2

    ways: dict[str, Callable[[Any], Any]] = {
        "scan": lambda x: rlx.scan(lambda c, _: (inner(c), None), x, None, length=2)[0],
        "cond": lambda x: rlx.cond(x > 0, inner, lambda c: c, x),
        "while": lambda x: rlx.while_loop(lambda c: c > 1, inner, x),
        "jit": lambda x: rlx.jit(inner)(x) + rlx.jit(lambda: rnp.ones(LINE))().sum() * 0,
        "vmap": lambda x: rlx.vmap(inner)(x[None])[0],
        "grad": lambda x: rlx.grad(lambda x: inner(x) ** 2)(x),
        "checkpoint": lambda x: rlx.grad(rlx.checkpoint(lambda x: inner(x) ** 2))(x),
    }
    factor = (SIDE + 1) / 2 / SIDE
    wanted = {"scan": 3 * factor**2, "while": 3 * factor**2, "grad": 6 * factor**2}
    wanted["checkpoint"] = wanted["grad"]
    f, x = ways[around], np.float32(3)
    np.testing.assert_allclose(rlx.jit(f)(x), wanted.get(around, 3 * factor), rtol=1e-5)


def test_they_can_be_assigned_to() -> None:
    def f(x: Any) -> Any:
        made = rnp.zeros((SIDE, SIDE))
        kept = made.copy()
        made[3] = x
        made[4] = 1.0
        return made.sum() + kept.sum()

    assert rlx.jit(f)(np.ones(SIDE, "f4")) == 2 * SIDE


def test_int8_weights_stay_int8_in_exports() -> None:
    random = np.random.default_rng(0)
    q = random.integers(-127, 127, (256, 64)).astype("i1")
    scale, x = random.uniform(0.1, 1, 64).astype("f4"), np.ones((2, 256), "f4")
    exported = rlx.export(lambda x: x @ nn.dequantize(q, scale, axis=1), rlx.spec((2, 256)))
    assert len(bytes(exported.serialize())) < q.nbytes * 1.5
    np.testing.assert_allclose(exported(x), x @ (q * scale), rtol=1e-4)


def test_known_arrays_of_a_user_are_computed_with_now() -> None:
    """What does not grow is made once, and not in each call."""
    weights = np.ones((SIDE, SIDE), "f4")
    graph = rlx.make_graph(lambda x: x @ (rnp.asarray(weights) * 2.0))(rlx.spec((2, SIDE)))
    assert [n.op.name for n in graph.nodes] == ["dot_general"]


def test_too_many_places_are_told_of() -> None:
    with pytest.raises(rlx.DtypeError, match="cannot number 2147483653 places"):
        rlx.jit(lambda n: rnp.argmax(rlx.lax.iota("float32", 2**31 + 5) * n))(np.float32(0))


HUGE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: rnp.zeros((10**6, 10**6)),
    "ones": lambda: rnp.ones((1 << 42,)),
    "full": lambda: rnp.full(2**45, 1.0),
    "broadcast": lambda: rnp.broadcast_to(np.ones(1, "f4"), (2**42,)),
    "uniform": lambda: rlx.random.uniform(rlx.random.key(0), (2**42,)),
    "hanning": lambda: rnp.hanning(2**42),
    "arange": lambda: rnp.arange(float(2**42)),
    "eye": lambda: rnp.eye(2**21),
    "linspace": lambda: rnp.linspace(0, 1, 2**42),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_is_too_large_is_an_error_of_rlx(name: str) -> None:
    for run in (HUGE[name], lambda: rlx.jit(lambda x: HUGE[name]() * x)(np.float32(1))):
        with pytest.raises(rlx.RlxError) as caught:
            run()
        assert caught.value.fix
