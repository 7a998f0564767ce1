"""Kept recordings of transforms: objects, changes by other names, settings stay what they are."""

from __future__ import annotations

import heapq
import importlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.ir.errors import RlxError
from rlx.transforms import repeated

X = np.array([0.5, 1.0, 2.0], np.float32)
notes: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(repeated, "_families", {})
    yield


def hits() -> int:
    return sum(family.hits for family in repeated._families.values())


def by_pattern(x: Any, y: Any) -> Any:
    match y:
        case rlx.Array():
            return x.sum() * 2
    return x.sum()


Y = rlx.array(X)
same_object = operator.is_
TELLS: dict[str, Callable[[Any, Any], Any]] = {
    "is": lambda x, y: x.sum() * (2 if y is Y else 1),
    "is not": lambda x, y: x.sum() * (1 if y is not Y else 2),
    "among others": lambda x, y: x.sum() * (1 + any(y is each for each in [Y])),
    "operator": lambda x, y: x.sum() * (1 + same_object(y, Y)),
    "pattern": by_pattern,
}


@pytest.mark.parametrize("name", TELLS)
def test_arguments_stay_the_objects_that_they_are(name: str):
    for _ in range(4):
        assert rlx.grad(TELLS[name])(rlx.array(X), Y).tolist() == [2.0] * 3


def test_is_none_does_not_keep_a_call_from_being_kept():
    f = rlx.grad(lambda x, y, z=None: (x * y).sum() if z is None else x.sum())
    for _ in range(4):
        f(rlx.array(X), Y)
    assert hits() > 0


push, add_to, put, sets = notes.append, list.append, operator.setitem, setattr
OTHER_NAMES: dict[str, Callable[[Any], Any]] = {
    "bound": lambda x: push(1) or x.sum(),
    "of the class": lambda x: add_to(notes, 1) or x.sum(),
    "operator": lambda x: put(notes, slice(0, 0), [1]) or x.sum(),
    "heap": lambda x: heapq.heappush(notes, 1) or x.sum(),
    "in place": lambda x: x.sum() * (1 + 0 * len(notes.__iadd__([1]))),
    "setattr": lambda x: sets(by_pattern, "mark", push(1)) or x.sum(),
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_changes_by_other_names_are_made_once_a_call(name: str):
    notes.clear()
    for count in range(1, 5):
        rlx.grad(OTHER_NAMES[name])(rlx.array(X))
        assert len(notes) == count


def test_settings_of_numpy_are_read_in_each_call():
    f = rlx.grad(lambda x: x.sum() * (2 if np.geterr()["divide"] == "ignore" else 1))
    for _ in range(3):
        with np.errstate(divide="warn"):
            assert f(rlx.array(X)).tolist() == [1.0] * 3
    with np.errstate(divide="ignore"):
        assert f(rlx.array(X)).tolist() == [2.0] * 3


def test_a_pullback_is_recorded_once(monkeypatch):
    grad = importlib.import_module("rlx.transforms.grad")  # not the function of that name
    built, build = [], grad.build
    monkeypatch.setattr(grad, "build", lambda *args: built.append(args) or build(*args))
    for _ in range(3):
        x = rlx.array(X)
        value, back = rlx.vjp(lambda z: z * z * 3, x)
        for ct in (value, value * 2):
            np.testing.assert_allclose(back(ct)[0], 6 * X * np.asarray(ct), rtol=1e-6)
    assert len(built) == 2, "of the first call, and of the second, which is kept"


def test_options_that_are_equal_are_not_the_same():
    x = rlx.array(X)
    calls = [
        (lambda n: rlx.scan(lambda c, y: (c + y, c), 0.0, x, length=n), len(X), float(len(X))),
        (lambda n: rlx.while_loop(lambda c: c < 9.0, lambda c: c * 2, 1.0, max_steps=n), 5, 5.0),
        (lambda n: rlx.grad(lambda a, b: (a * b).sum(), argnums=n)(x, x), 1, True),
        (lambda n: rlx.vmap(lambda a: a * 2, in_axes=n)(x), 0, 0.0),
    ]
    for call, right, wrong in calls:
        for _ in range(3):
            call(right)
        with pytest.raises(RlxError):
            call(wrong)
