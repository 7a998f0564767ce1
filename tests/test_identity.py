"""What recording depends on, as a hash: what looks the same and is not is told apart."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import types
from functools import partial

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.trace.operators import Operators
from rlx.trace.tensor import TracedTensor
from rlx.transforms.jit.identity import identity


def found(fn) -> str | None:
    try:
        return identity(fn)[0]
    except LookupError:
        return None


class Parts(np.ndarray):
    pass


def of_array(make):
    """A function that reads an array."""
    array = make()
    return lambda x: x * array.ravel("K")[1]


def of_class(make):
    """A function that reads a class."""
    cls = make()
    return lambda x: x * cls.k


def of_module(change, name="settings", kind=types.ModuleType):
    """A function that reads two modules of one name."""
    one, other = kind(name), types.ModuleType(name)
    one.__file__ = other.__file__ = "settings.py"
    vars(one).update(change)
    other.k = 5
    return lambda x: x * one.k + other.k


def of_namespace(k):
    module = types.ModuleType("settings")
    module.k = k
    return lambda x: x * module.__dict__["k"]


def of_slot(k):
    class Slot:
        __slots__ = ("__k",)

        def __init__(self):
            self.__k = k

        def get(self):
            return self.__k

    slot = Slot()
    return lambda x: x * slot.get()


def of_set(*numbers):
    """A function to which the order of a set matters."""
    numbers = set(numbers)

    def fn(x):
        for number in numbers:
            x = x * 2 + number
        return x

    return fn


def of_member(weight):
    class Color(enum.Enum):
        RED = 1

    Color.RED.weight = weight
    return lambda x: x * Color.RED.weight


def of_interface(is_registered):
    class Interface(abc.ABC):
        @abc.abstractmethod
        def do(self): ...

    class Thing:
        pass

    if is_registered:
        Interface.register(Thing)
    thing = Thing()
    return lambda x: x if isinstance(thing, Interface) else x * 2


def of_kept(k):
    @functools.cache
    def kept():
        return numbers[0]

    numbers = [k]
    kept()
    numbers[0] = 5
    return lambda x: x * kept()


def of_attribute(kind, k):
    fn = kind(lambda x: x)
    fn.k = k
    return lambda x: x * fn.k


def of_named(name, k):
    fn = lambda x: x  # noqa: E731
    setattr(fn, name, k)
    return lambda x: x * len(getattr(fn, name))


def of_annotation(k):
    class Noted:
        pass

    Noted.__annotations__ = {"k": k}
    return lambda x: x * Noted.__annotations__["k"]


PAIR = [("a", "f4"), ("b", "f4")]
COLUMNS = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("make", "one", "other"),
    [
        (of_array, lambda: np.array([1.0, 2.0], "<f4"), lambda: np.array([1, 2], ">f4").byteswap()),
        (of_array, lambda: COLUMNS, lambda: np.asfortranarray(COLUMNS)),
        (of_array, lambda: np.ma.array([1, 2], mask=[0, 1]), lambda: np.ma.array([1, 2])),
        (of_array, lambda: np.zeros(2, PAIR), lambda: np.zeros(2, PAIR[::-1])),
        (of_array, lambda: np.ones(2).view(Parts), lambda: np.ones(2).view(Parts)),
        (
            of_class,
            lambda: dataclasses.make_dataclass("Made", [("k", int, 1)]),
            lambda: dataclasses.make_dataclass("Made", [("k", int, 2)]),
        ),
        (
            of_class,
            lambda: type("Made", (), {"k": 1, "__module__": "math"}),
            lambda: type("Made", (), {"k": 2, "__module__": "math"}),
        ),
        (of_module, {"k": 1}, {"k": 2}),
        (partial(of_module, name="math"), {"k": 1}, {"k": 2}),
        (of_module, {"__getattr__": lambda name: 1}, {"__getattr__": lambda name: 2}),
        (
            lambda k: of_module({}, kind=type("Module", (types.ModuleType,), {"k": k})),
            1,
            2,
        ),
        (of_namespace, 1, 2),
        (of_slot, 1, 2),
        (lambda numbers: of_set(*numbers), (0, 8), (8, 0)),
        (of_member, 1, 2),
        (of_interface, False, True),
        (of_kept, 1, 2),
        (partial(of_attribute, rlx.jit), 1, 2),
        (partial(of_attribute, functools.partial), 1, 2),
        (partial(of_named, "__name__"), "one", "three"),
        (partial(of_named, "__doc__"), "one", "three"),
        (of_annotation, 1, 2),
    ],
)
def test_what_differs_is_told_apart(make, one, other):
    first, second = found(make(one)), found(make(other))
    assert first is None or first != second


def of_vocabulary(vocabulary):
    return lambda: vocabulary.load("weights.npy")


@pytest.mark.parametrize(
    "fn",
    [
        lambda: rnp.load("weights.npy"),
        lambda: rlx.numpy.load("weights.npy"),
        lambda: rlx.numpy.fromfile("weights"),
        of_vocabulary(rnp),
        lambda name="load": getattr(rnp, name)("weights.npy"),
        partial(rnp.load, "weights.npy"),
        lambda: rlx.load_exported("model.rlx"),
        lambda x: rnp.save("seen.npy", x),
        lambda: rlx.default_device(),
        lambda: np.fromregex("lines", "([0-9]+)", [("a", "i4")]),
        lambda: np.rec.fromfile("rows", [("a", "f4")]),
        lambda: np.lib.npyio.DataSource().open("lines").read(),
        lambda: np.get_printoptions()["precision"],
        lambda: len(abc.ABC.__subclasses__()),
    ],
)
def test_what_reads_files_and_settings_has_no_identity(fn):
    assert found(fn) is None


def test_what_stands_in_the_place_of_ours_counts(monkeypatch):
    net = nn.Linear(2, 2, key=rlx.random.key(0))

    def fn(x):
        return rnp.sin(net(x))

    seen = {found(fn)}
    monkeypatch.setattr(rnp, "sin", lambda x: x)
    seen.add(found(fn))
    monkeypatch.setattr(nn.Linear, "__call__", lambda self, x: x)
    seen.add(found(fn))
    assert len(seen) == 3 and None not in seen


def test_what_stands_in_the_place_of_ours_counts_where_it_is_read_by_a_long_name(monkeypatch):
    def fn(x):
        return rlx.numpy.linalg.norm(x) * np.floor(1.5) * np.linalg.norm([2.0])

    seen = {found(fn)}
    monkeypatch.setattr(rlx.numpy.linalg, "norm", lambda x: x)
    seen.add(found(fn))
    monkeypatch.setattr(np, "floor", lambda x: x)
    seen.add(found(fn))
    monkeypatch.setattr(np.linalg, "norm", lambda x: x)
    seen.add(found(fn))
    assert len(seen) == 4 and None not in seen


GIVEN = {
    "a function": lambda k: lambda self: self * k,
    "a property": lambda k: property(lambda self: self * k),
    "a number": lambda k: k,
    "a static method": lambda k: staticmethod(lambda: k),
    "a class": lambda k: type("Given", (), {"k": k, "__module__": __name__}),
}


METHODS = ("a function", "a property", "a static method")
OWNERS = [
    *((cls, kind) for cls in (rlx.Array, TracedTensor, Operators, np) for kind in GIVEN),
    *((nn.Linear, kind) for kind in METHODS),
]


@pytest.mark.parametrize(("owner", "kind"), OWNERS)
def test_what_classes_and_numpy_were_given_counts(owner, kind, monkeypatch):
    linear = nn.Linear(2, 2, key=rlx.random.key(0))

    def of_arrays(x):
        return linear(x.given)

    def of_numpy(x):
        return x * np.given

    fn = of_numpy if owner is np else of_arrays
    seen = [found(fn)]
    for k in (2, 2, 3):
        monkeypatch.setattr(owner, "given", GIVEN[kind](k), raising=False)
        seen.append(found(fn))
    assert seen[1] == seen[2] and len(set(seen)) == 3


@pytest.mark.parametrize(
    "settings",
    [
        lambda: np.errstate(divide="ignore"),
        lambda: np.printoptions(precision=2),
        lambda: np.printoptions(formatter={"float": lambda x: "x"}),
    ],
)
def test_settings_of_numpy_count(settings):
    def fn(x):
        return x * len(str(np.ones(2) / 3)) * len(np.geterr())

    outside = found(fn)
    with settings():
        assert found(fn) not in (None, outside)
    assert found(fn) == outside


def test_what_numpy_ships_has_a_name():
    fn = lambda x: x[np.s_[1:]] * np.pi + np.linalg.det(np.r_[1:3, 4, 5].reshape(2, 2))  # noqa: E731
    assert found(fn) is not None
