"""A record behaves as the dataclass with the same fields."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from rlx.ir import record as of_rlx
from rlx.ir.record import MISSING, Field, record


def made_by(decorate: Any, field: Any, **options: bool) -> tuple[Any, Any]:
    """A class and a subclass with another field, by `record` or by `dataclass`."""

    @decorate(**options)
    class Point:
        kind: ClassVar[str] = "point"
        x: Any
        y: Any = 2
        names: list[str] = field(default_factory=list)
        hidden: Any = field(default=None, repr=False)
        made: Any = field(default_factory=list, init=False)

        def __post_init__(self) -> None:
            assert self.x is not None

    @decorate(**options)
    class Named(Point):
        name: str = field(default="n", kw_only=True)

        @property
        def area(self) -> Any:
            return self.x * self.y

    return Point, Named


OPTIONS = [
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": False},
    {"frozen": False, "unsafe_hash": True},
    {"frozen": True, "eq": False},
    {"frozen": False, "eq": False},
]
CALLS: list[tuple[tuple, dict]] = [
    ((1,), {}),
    ((1, 3), {}),
    ((), {"x": 1, "y": 3}),
    ((1,), {"names": ("a",), "hidden": 5}),
    ((None,), {}),
    ((), {}),
    ((1, 2, 3, 4, 5), {}),
    ((1,), {"z": 3}),
    ((1,), {"x": 3}),
]


def told(act: Any, *args: Any, **named: Any) -> str:
    """The result of an act as a text, or its error."""
    try:
        return repr(act(*args, **named))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def facts(kind: Any, replace: Any) -> Iterator[Any]:
    """What objects of a class do, in words."""
    made = []
    for args, named in CALLS:
        yield told(kind, *args, **named)
        with contextlib.suppress(TypeError, AssertionError):
            made.append(kind(*args, **named))
    for one in made:
        yield [one == other for other in made], one == repr(one)
        yield told(lambda: len({one, *made}))  # noqa: B023
        if hasattr(one, "__dict__"):  # with slots a dataclass of Python 3.11 fails in its own way
            yield told(setattr, one, "other", 5)
    for act, args in ((setattr, ("x", 5)), (delattr, ("y",)), (getattr, ("y",))):
        yield told(act, made[0], *args)
    yield kind.__match_args__, inspect.signature(kind), kind.kind
    yield [(f.name, f.repr, f.kw_only) for f in dataclasses.fields(kind)]
    yield repr(dataclasses.replace(made[1], y=5)), repr(replace(made[1], y=5))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: " ".join(n for n in o if o[n]))
@pytest.mark.parametrize("which", [0, 1], ids=["base", "derived"])
def test_a_record_behaves_as_a_dataclass(options: dict[str, bool], which: int):
    ours = made_by(record, of_rlx.field, **options)[which]
    theirs = made_by(dataclasses.dataclass, dataclasses.field, **options)[which]
    pairs = zip(facts(ours, of_rlx.replace), facts(theirs, dataclasses.replace), strict=True)
    for fact, wanted in pairs:
        assert fact == wanted


@record(slots=True)
class Slim:
    x: int
    y: Any = None


@record
class Wide(Slim):
    z: int = 3


@pytest.mark.parametrize("thing", [Slim(1), Slim(1, (2,)), Wide(1, 2, 4)], ids=repr)
def test_records_are_copied_and_pickled(thing: Any):
    for twin in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
        assert twin == thing
        assert repr(twin) == repr(thing)
        assert twin is not thing
    assert hasattr(Slim(1), "__dict__") is False


def test_the_first_objects_may_be_made_by_many_threads():
    for _ in range(20):
        kind, start, made = made_by(record, of_rlx.field, frozen=True)[1], threading.Barrier(4), []

        def make(kind: Any = kind, start: Any = start, made: Any = made) -> None:
            start.wait()
            made.append(kind(1, name="a"))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [kind(1, name="a")] * 4


def test_the_fields_of_dataclasses_are_known():
    assert of_rlx.fields(made_by(dataclasses.dataclass, dataclasses.field)[0]) == (
        *("x", "y", "names", "hidden", "made"),
    )
    assert of_rlx.fields(int) == ()
    assert Field(1, MISSING, True, True, False).default == 1
