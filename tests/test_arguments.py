"""Arguments of compiled graphs: what is taken, what is refused with which words, what leaks."""

import gc
import itertools
import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from test_session import X, by_library, failing, library_call

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import DtypeError, RlxError, ShapeError


@pytest.fixture
def session() -> rlx.Session:
    return rlx.Session("cpu")


# -- what does not fit ----------------------------------------------------------------------------


class Subarray(np.ndarray):
    """An array of a subclass."""


class Held:
    """Something that NumPy can make an array of."""

    def __init__(self, give) -> None:
        self._give = give

    def __array__(self, dtype=None, copy=None):
        return self._give()


V = np.arange(6, dtype=np.float32)
ODD = {
    "big endian": V.astype(">f4"),
    "strided": np.repeat(V, 2)[::2],
    "reversed": V[::-1].copy()[::-1],
    "unaligned": np.frombuffer(b"0" + V.tobytes(), np.uint8)[1:].view(np.float32),
    "subclass": V.view(Subarray),
    "memoryview": memoryview(V),
    "__array__": Held(lambda: V),
    "list": V.tolist(),
    "range": range(6),
    "rlx": rlx.array(V),
    "read-only": np.frombuffer(V.tobytes(), np.float32),
    "foreign dtype object": V.view(np.dtype(np.float32, align=True, copy=True)),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_arrays_are_taken_as_they_mean(session, name):
    compiled = session.compile(lambda x: x * 2.0, V)
    if name == "range":
        compiled = session.compile(lambda x: x * 2, np.arange(6, dtype=np.int32))
    for _ in range(2):
        np.testing.assert_array_equal(compiled(ODD[name]), V * 2)
    if name != "list":  # for jit a list is a tree of numbers
        np.testing.assert_array_equal(rlx.jit(lambda x: x * 2)(ODD[name]), V * 2)


def released() -> memoryview:
    view = memoryview(V)
    view.release()
    return view


WRONG = {
    "float64": (lambda: V.astype(np.float64), DtypeError, r"x is f64\[6\]"),
    "bfloat16": (lambda: V.astype(ml_dtypes.bfloat16), DtypeError, r"x is bf16\[6\]"),
    "int": (lambda: V.astype(np.int32), DtypeError, r"x is i32\[6\]"),
    "longdouble": (lambda: V.astype(np.longdouble), DtypeError, "rlx has no dtype"),
    "objects": (lambda: np.array([None] * 6), DtypeError, "are Python objects, not numbers"),
    "text": (lambda: np.array(["a"] * 6), DtypeError, "are text, not numbers"),
    "none": (lambda: None, DtypeError, "are Python objects, not numbers"),
    "ragged": (lambda: [[1], [1, 2]], DtypeError, "does not make an array"),
    "masked": (lambda: np.ma.masked_array(V, V > 2), DtypeError, "would lose its mask"),
    "released": (released, DtypeError, "not an array of numbers"),
    "lies": (lambda: Held(lambda: [1.0]), DtypeError, "does not make an array"),
    "raises": (lambda: Held(lambda: 1 / 0), ZeroDivisionError, "division by zero"),
    "short": (lambda: V[:5], ShapeError, r"x is f32\[5\], <lambda> was compiled for f32\[6\]"),
    "rank": (lambda: V[None], ShapeError, r"x is f32\[1, 6\]"),
    "scalar": (lambda: 1.0, ShapeError, r"x is f32\[\]"),
    "empty": (lambda: V[:0], ShapeError, r"x is f32\[0\]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_says_what_where_and_how_to_fix(session, name):
    make, kind, message = WRONG[name]
    compiled = session.compile(lambda x: x * 2.0, V)
    for _ in range(2):
        with pytest.raises(kind, match=message) as caught:
            compiled(make())
        if isinstance(caught.value, RlxError):
            text = str(caught.value)
            assert "test_arguments.py" in text and "compiled(make())" in text
            assert "argument 0 of <lambda>, x" in text and "fix    " in text


@pytest.mark.parametrize("name", ["longdouble", "objects", "text", "masked", "released", "lies"])
def test_jit_names_the_argument_that_is_no_array(name):
    make, kind, message = WRONG[name]
    add = rlx.jit(lambda x, options: x + options["shift"])
    with pytest.raises(kind, match=message) as caught:
        add(V, {"shift": make()})
    text = str(caught.value)
    assert 'argument 1 of <lambda>, options["shift"]' in text
    assert "test_arguments.py" in text


def test_jit_offers_static_argnames():
    with pytest.raises(DtypeError) as caught:
        rlx.jit(lambda x, mode: x)(V, "fast")
    assert "argument 1 of <lambda>, mode" in str(caught.value)
    assert "static_argnames" in caught.value.fix


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
def test_scalars_and_empty_arrays(session, shape):
    x = np.ones(shape, np.float32)
    compiled = session.compile(lambda x: (x + 1.0, rnp.sum(x)), x)
    more, total = compiled(x)
    np.testing.assert_array_equal(more, x + 1)
    assert float(total) == x.size
    if shape == ():
        assert float(compiled(1)[0]) == float(compiled(1.0)[0]) == 2


def test_nothing_is_kept_by_calls_that_work_or_fail(session, monkeypatch):
    """Thousands of calls of each kind leave the counts of references and the memory as they are."""
    compiled, broken = failing(session), session.compile(lambda x: by_library(x) + 2.0, X)
    run = type(library_call(compiled).op).run
    x, boxed, wrong = X.copy(), rlx.array(X), X[:2].copy()

    def use(times: int) -> None:
        for _ in range(times):
            compiled(x)
            compiled(boxed)
            for bad in (wrong, 1.0):
                try:
                    compiled(bad)
                except ShapeError:
                    pass
            try:
                broken(x)
            except ZeroDivisionError:
                pass

    calls = itertools.count()

    def sometimes(self, arrays, attrs, device="", **more):
        if next(calls) % 3 == 2:
            raise ZeroDivisionError
        return run(self, arrays, attrs, device, **more)

    monkeypatch.setattr(type(library_call(compiled).op), "run", sometimes)
    use(100)
    watched = [x, boxed, wrong, compiled, boxed.host(), None, ZeroDivisionError]

    def measured() -> tuple[int, int]:
        """The largest change of a count of references, and the bytes that stayed."""
        gc.collect()
        before = [sys.getrefcount(thing) for thing in watched]
        tracemalloc.start()
        use(10)
        start = tracemalloc.get_traced_memory()[0]
        use(400)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - start
        tracemalloc.stop()
        growth = [sys.getrefcount(thing) - n for thing, n in zip(watched, before, strict=True)]
        return max(map(abs, growth)), grown

    # what other tests left behind may go meanwhile, once; a leak shows in every round
    rounds = [measured() for _ in range(3)]
    assert min(count for count, _ in rounds) < 200, rounds
    assert min(grown for _, grown in rounds) < 20_000, rounds
