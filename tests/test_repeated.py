"""Transforms outside of jit keep what they compiled, where that cannot change what a call means."""

from __future__ import annotations

import math
import random
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.trace import short_ways
from rlx.transforms import repeated, run_graph

X = np.array([0.5, 1.0, 2.0], np.float32)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(repeated, "_families", {})
    yield


def hits() -> int:
    return sum(family.hits for family in repeated._families.values())


def numbers(tree: Any) -> list[Any]:
    return [np.asarray(x) for x in rlx.tree.leaves(tree)]


def cube(x: Any) -> Any:
    return (x**3).sum()


def half(x: Any) -> Any:
    return x / 2, x > 0


compiled = rlx.jit(half)
LAYER = rlx.nn.Linear(3, 2, key=rlx.random.key(0))


@rlx.custom_vjp
def tenfold(x: Any) -> Any:
    return x * 2


tenfold.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 10,))
CALLS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda x: rlx.grad(cube)(x),
    "a new function": lambda x: rlx.grad(lambda z: cube(z * x))(x),
    "another argument": lambda x: rlx.grad(lambda z, y: (z * y["a"][0]).sum())(x, {"a": (x,)}),
    "a name": lambda x: rlx.grad(lambda z, *, y, n: (z * y).sum() * n)(x, y=x, n=3),
    "value_and_grad": lambda x: rlx.value_and_grad(lambda z: (cube(z), {"s": z}), has_aux=True)(x),
    "vmap": lambda x: rlx.vmap(lambda a, b, n: a * b**n, (0, None, None))(x, x, 2),
    "jvp": lambda x: rlx.jvp(lambda z: z * z, (x,), (x,)),
    "vjp": lambda x: rlx.vjp(lambda z: z * z, x)[1](x),
    "linearize": lambda x: rlx.linearize(lambda z: z * z, x)[1](x),
    "linearize, aux": lambda x: (made := rlx.linearize(lambda z: (z * z, z + 1), x, has_aux=True))[
        1
    ](made[0] * made[2]),
    "jacfwd": lambda x: rlx.jacfwd(lambda z: z * z[0])(x),
    "jacrev": lambda x: rlx.jacrev(lambda z: z * z[0])(x),
    "hessian": lambda x: rlx.hessian(cube)(x),
    "jit": lambda x: rlx.grad(lambda z: compiled(z)[0].sum())(x),
    "custom rule": lambda x: rlx.grad(lambda z: tenfold(z).sum())(x),
    "module": lambda x: rlx.grad(lambda m, z: (m(z) ** 2).sum())(LAYER, x),
    "scan": lambda x: rlx.scan(lambda c, y: (c + y, c * 2), 0.0, x),
    "lax": lambda x: rlx.lax.while_loop(lambda c: c[0] < 9, lambda c: c * 2, x),
    "while_loop": lambda x: rlx.while_loop(lambda c: c[0] < 9, lambda c: c * 2, x, max_steps=9),
    "fori_loop": lambda x: rlx.fori_loop(0, 3, lambda i, c: c * i + 1, x),
    "grad of vmap of grad": lambda x: rlx.grad(
        lambda z: rlx.vmap(rlx.grad(lambda y: y**3))(z).sum()
    )(x),
    "vmap of a condition": lambda x: rlx.vmap(
        lambda z: rlx.cond(z > 1, lambda y: y * 2, lambda y: -y, z)
    )(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_come_again_are_kept(name: str):
    call, x = CALLS[name], rlx.array(X)
    found = [numbers(call(x)) for _ in range(4)]
    assert hits() >= 2, "the third and the fourth call ran compiled code"
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-6)
    for a, b in zip(numbers(call(x * 2)), numbers(rlx.jit(call)(x * 2)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_structure_of_results_and_of_arguments():
    slopes = rlx.grad(lambda p: (p["w"][0] * p["b"]).sum())
    for value in (1.0, 2.0, 3.0, 4.0):
        found = slopes({"w": (rlx.array(X),), "b": rlx.array(value)})
        assert found["w"][0].tolist() == [value] * 3
    assert hits() == 2
    assert slopes({"w": (rlx.array(X), 3.0), "b": rlx.array(1.0)})["w"][1].item() == 0.0
    assert slopes({"w": (rlx.array(X[:2]),), "b": rlx.array(1.0)})["w"][0].shape == (2,)


# -- what changes between calls -------------------------------------------------------------------


factor = 1.0
settings = types.ModuleType("settings")


def helper(x: Any) -> Any:
    return x * 1.0


class Scale:
    """Something with attributes, and a class that has some."""

    shared = 1.0

    def __init__(self) -> None:
        self.own = 1.0

    def twice(self, x: Any) -> Any:
        return x * 2 * self.own


class Sources:
    """A function that reads numbers from everywhere, and what changes each of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch, self.known = monkeypatch, dict.fromkeys(self.changes, 1.0)
        self.row, self.table, self.scale = [1.0], {"a": 1.0}, Scale()
        self.array, self.foreign = rlx.array([1.0]), np.ones(1, np.float32)
        read_of_modules = (settings, "factor"), (np, "euler_gamma"), (math, "tau")
        for thing, name in (*read_of_modules, (Scale, "shared")):
            monkeypatch.setattr(thing, name, 1.0, raising=False)
        cell = 1.0

        def read(x: Any, default: Any = 1.0, *, named: Any = 1.0) -> Any:
            x = helper(x * factor * settings.factor * cell * default * named)
            x = x * row[0] * table["a"] * scale.own * scale.shared * np.euler_gamma * math.tau
            return (x * array * foreign).sum()

        row, table, scale = self.row, self.table, self.scale
        array, foreign = self.array, self.foreign
        self.read = read
        self.cells = dict(zip(read.__code__.co_freevars, read.__closure__ or (), strict=True))

    def set_global(self, n: float) -> None:
        self.patch.setitem(globals(), "factor", n)

    def set_module(self, n: float) -> None:
        self.patch.setattr(settings, "factor", n)

    def set_of_numpy(self, n: float) -> None:
        self.patch.setattr(np, "euler_gamma", n)

    def set_of_math(self, n: float) -> None:
        self.patch.setattr(math, "tau", n)

    def set_cell(self, n: float) -> None:
        self.cells["cell"].cell_contents = n

    def set_default(self, n: float) -> None:
        self.read.__defaults__ = (n,)

    def set_named(self, n: float) -> None:
        self.read.__kwdefaults__["named"] = n  # type: ignore[index]

    def set_helper(self, n: float) -> None:
        self.patch.setitem(globals(), "helper", lambda x: x * n)

    def set_row(self, n: float) -> None:
        self.row[0] = n

    def set_table(self, n: float) -> None:
        self.table["a"] = n

    def set_own(self, n: float) -> None:
        self.scale.own = n

    def set_shared(self, n: float) -> None:
        self.patch.setattr(Scale, "shared", n)

    def set_array(self, n: float) -> None:
        self.array[0] = n

    def set_other_array(self, n: float) -> None:
        self.cells["array"].cell_contents = self.array = rlx.array([n])
        self.known["set_array"] = 1.0

    def set_foreign(self, n: float) -> None:
        self.foreign[0] = n

    @property
    def changes(self) -> list[str]:
        return [name for name in dir(type(self)) if name.startswith("set_")]

    def change(self, name: str, n: float) -> None:
        getattr(self, name)(n)
        self.known[name] = n
        if name == "set_array":
            self.known["set_other_array"] = 1.0

    @property
    def expected(self) -> float:
        return float(np.prod(list(self.known.values())))


def test_whatever_changes_is_seen(monkeypatch: pytest.MonkeyPatch):
    for name in Sources(monkeypatch).changes:
        sources = Sources(monkeypatch)
        for _ in range(4):
            assert rlx.grad(sources.read)(rlx.array(X)).tolist() == [1.0] * 3
        before = hits()
        assert before > 0, name
        sources.change(name, 3.0)
        for _ in range(3):
            assert rlx.grad(sources.read)(rlx.array(X)).tolist() == [3.0] * 3, name
        monkeypatch.undo()
        repeated._families.clear()


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_and_calls(monkeypatch: pytest.MonkeyPatch, seed: int):
    chosen, sources = random.Random(seed), Sources(monkeypatch)
    for _ in range(40):
        if chosen.random() < 0.3:
            sources.change(chosen.choice(sources.changes), chosen.choice([1.0, 2.0, 4.0]))
        slopes = rlx.grad(sources.read)(rlx.array(X))
        assert slopes.tolist() == [sources.expected] * 3


# -- what is never kept ---------------------------------------------------------------------------

notes: list[Any] = []
drawn = np.random.default_rng(0)


def asks(x: Any) -> Any:
    return (x**2).sum() if x.sum() > 0 else (x**3).sum()


def catches(x: Any) -> Any:
    try:
        return x.sum() * int(x[0])
    except TypeError:
        return x.sum() * 100


def leaves_a_mark(x: Any) -> Any:
    asks.mark = len(notes)  # type: ignore[attr-defined]
    return x.sum()


NEVER: dict[str, Callable[[Any], Any]] = {
    "bool": asks,
    "int": catches,
    "numpy": lambda x: (x * np.asarray(x)[0]).sum(),
    "format": lambda x: (x * float(f"{x[0]:.1f}")).sum(),
    "mask": lambda x: x[x > 0.7].sum(),
    "print": lambda x: print("seen") or x.sum(),
    "append": lambda x: notes.append(1) or x.sum(),
    "attribute": leaves_a_mark,
    "random": lambda x: (x * drawn.normal()).sum(),
    "clock": lambda x: (x * time.time()).sum(),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_may_differ_is_recorded_at_each_call(name: str, capsys: pytest.CaptureFixture[str]):
    f = NEVER[name]
    notes.clear()
    for _ in range(5):
        rlx.grad(f)(rlx.array(X))
    assert hits() == 0
    assert len(notes) == (5 if name == "append" else 0)
    assert capsys.readouterr().out == ("seen\n" * 5 if name == "print" else "")


def test_what_is_recorded_each_time_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_graph, "_often", short_ways.Kinds())
    monkeypatch.setattr(short_ways, "ENOUGH", 1)
    made: list[int] = []
    for sign in (1, 1, 1, -1, 1, -1, -1, 1):
        power = 2 if sign > 0 else 3
        found = rlx.grad(asks)(rlx.array(X * sign))
        np.testing.assert_allclose(found, power * (X * sign) ** (power - 1), rtol=1e-6)
        kinds = [each.by_print.values() for each in run_graph._often]
        made.append(sum(compiled is not None for kind in kinds for compiled in kind))
    assert made == [0, 1, 1, 1, 1, 2, 2, 2]
    drawn_before = sum(often.hits for often in run_graph._often)
    for _ in range(40):  # another constant each time: nothing is compiled
        rlx.grad(lambda x: (x * drawn.normal()).sum())(rlx.array(X))
    assert sum(often.hits for often in run_graph._often) == drawn_before


def test_values_are_looked_at_in_each_call():
    for sign in (1, 1, 1, -1, 1, -1):
        power = 2 if sign > 0 else 3
        found = rlx.grad(asks)(rlx.array(X * sign))
        np.testing.assert_allclose(found, power * (X * sign) ** (power - 1), rtol=1e-6)
    assert rlx.grad(catches)(rlx.array([3.0])).tolist() == [3.0]


def test_places_are_checked_in_each_call():
    pick = rlx.grad(lambda x, i: x[i].sum())
    for _ in range(4):
        pick(rlx.array(X), rlx.array([0, 1]))
    with pytest.raises(rlx.errors.BoundsError):
        pick(rlx.array(X), rlx.array([0, 9]))


def test_arrays_of_numpy_reach_the_function_as_they_are():
    scaled = rlx.grad(lambda x, y: (x * (y / 255)).sum())
    whole = np.array([255, 0, 51], np.uint8)
    for _ in range(4):
        scaled(rlx.array(X), rlx.array(whole.astype(np.float32)))
    assert hits() == 2
    kinds: list[type] = []
    found = rlx.grad(lambda x, y: kinds.append(type(y)) or (x * (y / 255)).sum())
    for _ in range(3):
        assert scaled(rlx.array(X), whole).tolist() == pytest.approx([1.0, 0.0, 0.2])
        found(rlx.array(X), whole)
    assert kinds == [np.ndarray] * 3


def test_containers_of_the_caller_change_as_they_did():
    def takes(x: Any, batch: Any) -> Any:
        return (x * batch.pop("y")).sum()

    def doubles(x: Any, batch: Any) -> Any:
        batch["y"] = batch["y"] * 2
        return (x * batch["y"]).sum()

    for _ in range(4):
        batch = {"y": rlx.array(X)}
        rlx.grad(takes)(rlx.array(X), batch)
        assert batch == {}
    batch = {"y": rlx.array([1.0])}
    for i in range(4):
        assert rlx.grad(doubles)(rlx.array(X), batch).tolist() == [2.0 ** (i + 1)] * 3


def test_numbers_that_reach_the_function_belong_to_the_kind():
    power = rlx.grad(lambda x, n: sum((x**k).sum() for k in range(n)))
    for n in (1, 2, 1, 2, 1, 2, 3, 2):
        wanted = sum(k * X ** (k - 1) for k in range(1, n)) if n > 1 else 0 * X
        np.testing.assert_allclose(power(rlx.array(X), n), wanted, rtol=1e-6)
    assert hits() > 0


def test_errors_are_those_of_the_first_call():
    def bad(x: Any, y: Any) -> Any:
        return (x @ y).sum()

    texts = set()
    for _ in range(4):
        with pytest.raises(rlx.errors.ShapeError) as caught:
            rlx.grad(bad)(rlx.array(X), rlx.array([1.0]))
        texts.add(str(caught.value))
    assert len(texts) == 1

    def picky(x: Any) -> Any:
        if x[0] < 0:
            raise KeyError("negative")
        return x.sum()

    for _ in range(4):
        rlx.grad(picky)(rlx.array(X))
    with pytest.raises(KeyError, match="negative"):
        rlx.grad(picky)(rlx.array(-X))


def test_faults_of_compiles_are_told(monkeypatch: pytest.MonkeyPatch):
    """Only what the function or its objects raise leads back to the call as it is written."""

    class Proxy:
        def __getattr__(self, name: str) -> Any:
            if name != "own":
                raise RuntimeError("no context")
            return 2.0

    proxy = Proxy()
    for _ in range(4):
        assert rlx.grad(lambda x: (x * proxy.own).sum())(rlx.array(X)).tolist() == [2.0] * 3

    def fails(_: Any) -> None:
        raise RuntimeError("a fault of rlx")

    monkeypatch.setattr(repeated.Lowered, "compile", fails)
    with pytest.raises(RuntimeError, match="a fault of rlx"):
        for _ in range(4):
            rlx.grad(cube)(rlx.array(X))


def test_objects_that_have_all_attributes():
    class Anything:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") and name not in ("__func__", "__code__"):
                raise AttributeError(name)
            return self

        def __call__(self, x: Any) -> Any:
            return (x * 2).sum()

    doubles = Anything()
    for _ in range(4):
        assert rlx.grad(doubles)(rlx.array(X)).tolist() == [2.0] * 3
        assert rlx.vmap(Scale().twice)(rlx.array(X)).tolist() == (X * 2).tolist()


def test_donated_arrays_are_told():
    use = rlx.jit(lambda x: x + 1, donate_argnums=0)
    x = rlx.array(X)
    for _ in range(4):
        rlx.grad(cube)(x)
    use(x)
    with pytest.raises(rlx.errors.DonatedError):
        rlx.grad(cube)(x)


def test_what_looks_closely_at_calls_is_obeyed():
    def root(x: Any) -> Any:
        return rnp.sqrt(x).sum()

    for _ in range(4):
        rlx.grad(root)(rlx.array(X))
    assert hits() == 2
    with rlx.config.using(debug_nans=True), pytest.raises(rlx.errors.RlxError):
        rlx.grad(root)(rlx.array(-X))
    assert hits() == 2


def test_rules_of_custom_ops_may_come_later():
    @rlx.custom_op(elementwise=True)
    def twice(x: Any) -> Any:
        return x * 2

    for slope in (2.0, 5.0):
        twice.defvjp(lambda ct, out, x, slope=slope: (ct * slope,))
        for _ in range(3):
            assert rlx.grad(lambda x: twice(x).sum())(rlx.array(X)).tolist() == [slope] * 3


def test_streams_of_random_numbers_give_each_once():
    def noisy(x: Any) -> Any:
        return (x * rlx.random.normal(None, (3,))).sum()

    with rlx.random.stream(0):
        found = [rlx.grad(noisy)(rlx.array(X)).tolist() for _ in range(4)]
    with rlx.random.stream(0):
        assert found == [rlx.random.normal(None, (3,)).tolist() for _ in range(4)]


def test_functions_that_change_each_time_are_not_compiled_each_time():
    for i in range(30):
        rate = i / 7
        found = rlx.grad(lambda x: (x * rate).sum())(rlx.array(X))  # noqa: B023
        np.testing.assert_allclose(found, [rate] * 3, rtol=1e-6)
    (family,) = repeated._families.values()
    assert family.tried <= repeated.FEW


def test_threads_share_what_is_kept():
    wrong = []

    def work(number: int) -> None:
        x = rlx.array(X * number)
        for _ in range(20):
            found = rlx.grad(lambda z: (z**2 * number).sum())(x)
            if not np.allclose(found, 2 * number * X * number):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_arrays_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(repeated, "MOST_BYTES", 20)
    for count in (3, 4):
        y = rnp.ones(count)
        for _ in range(3):
            rlx.grad(lambda x: (x * y).sum())(y)  # noqa: B023
    kept = [e.nbytes for f in repeated._families.values() for e in f.entries]
    assert sum(kept) <= 20
