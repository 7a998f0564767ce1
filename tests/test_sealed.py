"""What is immutable cannot be written through NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

X = np.array([1.0, 2.0, 3.0], np.float32)
compiled = rlx.jit(lambda x: (x + 1, x * 1, x[1:], rnp.sum(x), x.astype("bfloat16")))
MADE = {
    "array": lambda: rlx.array([1.0, 2.0]),
    "of numpy": lambda: rlx.asarray(X),
    "other dtypes": lambda: [rlx.array([1, 0], d) for d in ("bool", "bfloat16", "complex64", "i8")],
    "eager": lambda: rlx.array(X) + 1,
    "copy": lambda: rlx.array(X).copy(),
    "parts": lambda: [(x := rnp.ones((2, 3)))[1:], x.T, x.reshape(-1), x[0, 0], next(iter(x))],
    "made of nothing": lambda: [rnp.zeros(3), rnp.full((2, 2), 1.0), rnp.arange(4), rnp.eye(2)],
    "empty": lambda: rnp.zeros((0, 3)),
    "broadcast": lambda: rnp.broadcast_to(rlx.array(X), (2, 3)),
    "random": lambda: [rlx.random.key(0), rlx.random.normal(rlx.random.key(0), (3,))],
    "compiled": lambda: compiled(X),
    "gradient": lambda: rlx.grad(lambda x: (x * x).sum())(X),
    "reference": lambda: rlx.jit(lambda x: (x, x + 1), device="reference")(X),
    "module": lambda: rlx.nn.Linear(2, 2, key=rlx.random.key(0)),
    "assigned": lambda: assigned(rnp.zeros(3)),
    "foreign": lambda: rlx.asarray(np.frombuffer(bytearray(8), np.float32)),
}
SEEN = {
    "asarray": np.asarray,
    "array": lambda x: np.array(x, copy=None),
    "no copy": lambda x: np.asarray(x, copy=False),
    "dtype": lambda x: np.asarray(x, dtype=x.dtype),
    "view": lambda x: np.asarray(x)[...].view(),
    "reshaped": lambda x: np.asarray(x).reshape(-1),
    "buffer": lambda x: np.asarray(memoryview(octets(np.asarray(x)))),
    "host": lambda x: x.host(),
    "host again": lambda x: x.host()[...],
    "interface": lambda x: np.asarray(Described(x.host())),
    "struct": lambda x: np.asarray(Struct(np.asarray(x))),
    "frombuffer": lambda x: np.frombuffer(octets(x.host()), np.uint8) if x.size else x.host(),
    "dlpack": lambda x: np.from_dlpack(x) if x.dtype.isbuiltin == 1 else np.asarray(x),
}


class Described:
    """Memory as an array describes it."""

    def __init__(self, data):
        self.data, self.__array_interface__ = data, data.__array_interface__ | {"version": 3}


class Struct:
    """Memory as an array describes it to C code."""

    def __init__(self, data):
        self.data, self.__array_struct__ = data, data.__array_struct__


def octets(data):
    return data.reshape(-1).view(np.uint8)


def below(view):
    """What a view lies on, and what that does."""
    while view is not None:
        yield view
        view = view.obj if isinstance(view, memoryview) else getattr(view, "base", None)


def assigned(x):
    x[1] = 5.0
    return x


@pytest.mark.parametrize("made", MADE)
def test_no_view_can_be_made_writeable(made):
    for x in rlx.tree.leaves(MADE[made]()):
        before = x.tolist()
        for see in SEEN.values():
            view = see(x)
            assert not view.flags.writeable
            with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                view.flags.writeable = True
            for thing in below(view):
                if isinstance(thing, np.ndarray):
                    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                        thing.setflags(write=True)
                assert not isinstance(thing, memoryview) or thing.readonly
        assert x.tolist() == before
        np.testing.assert_array_equal(np.asarray(x), x.host())
        own = np.array(x)
        own[...] = 0  # a copy is the user's own
        assert x.tolist() == before


def test_what_a_compiled_function_uses_stays():
    p = rlx.array([1.0, 2.0, 3.0])
    f = rlx.jit(lambda x: x + p)
    assert f(np.zeros(3, np.float32)).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        np.asarray(p).flags.writeable = True
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(p)[:] = 100
    assert f(np.zeros(3, np.float32)).tolist() == [1, 2, 3]


def test_views_share_memory_and_keep_it():
    x = compiled(X)[0]
    first, second = np.asarray(x), np.asarray(x)
    assert np.shares_memory(first, second)
    del x
    assert first.tolist() == [2, 3, 4]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(rlx.array(X), dtype="int32", copy=False)
