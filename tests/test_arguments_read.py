"""Arguments that make no sense, and those that NumPy takes: the readers of `trace/arguments.py`."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import (
    ArgumentError,
    AttributeValueError,
    DeviceMemoryError,
    RlxError,
    ShapeError,
    SymbolicSizeError,
)

# what NumPy takes for a vector: numbers too
POLYNOMIALS = [
    ("convolve", (np.ones(3), 2.0)),
    ("convolve", (2.0, 3.0)),
    ("correlate", (np.ones(3), [2.0])),
    ("polyadd", (1, [1, 2])),
    ("polysub", ([1.0, 2.0], 3)),
    ("polymul", (2, [1, 2])),
    ("polymul", (2, 3)),
    ("polyder", ([1.0, 2.0, 3.0], 0)),
    ("polyder", ([1.0, 2.0, 3.0], 7)),
    ("polyint", ([1.0, 2.0, 3.0], 2)),
    ("bartlett", (0,)),
    ("kaiser", (5, 2.0)),
]


@pytest.mark.parametrize(("name", "args"), POLYNOMIALS, ids=str)
def test_vectors_may_be_numbers_as_in_numpy(name, args):
    wanted = np.atleast_1d(getattr(np, name)(*args))
    np.testing.assert_allclose(getattr(rnp, name)(*args), wanted, rtol=1e-6)


CALLS = r"""
rnp.convolve([], [1])
rnp.convolve([1], [[1]])
rnp.polyval(3.0, [1.0])
rnp.vander(3.0)
rnp.polyder([1.0], -1)
rnp.diag_indices_from(0)
rnp.array_split(rnp.ones(3), 2**70)
rnp.zeros((1,) * 65)
rnp.zeros(1).reshape((1,) * 65)
rlx.lax.linalg.householder_product(rnp.ones((3, 3)), 1.0)
rlx.scipy.signal.csd(np.ones((2, 9)), None, window=-1)
rlx.scipy.linalg.invhilbert(2**63)
rlx.scipy.linalg.invpascal(2**63)
rlx.ops.segment_sum(rnp.ones(3), [0, 1, 2], num_segments=float("inf"))
rlx.tree.leaves([1], is_leaf=lambda x: np.ones(3))
rlx.tree.broadcast(1, [1], is_leaf=lambda x: None)
rlx.tree.reduce(rnp.add, [1], is_leaf=lambda x: 1)
rlx.tree.reduce(rnp.add, [])
rlx.tree.transpose(1, 2, 3)
rlx.tree_util.treedef_children(3)
rlx.tree_util.treedef_is_leaf("x")
rlx.tree_util.treedef_tuple([1])
rlx.NamedSharding(1, 2)
rlx.Mesh("x", 3)
rlx.debug.print(np.ones(3))
rlx.check(True, 3)
rlx.optim.apply_updates({"w": "x"}, {"w": 1})
rlx.optim.apply_updates(None, object())
""".strip().splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_a_senseless_argument_is_explained(call):
    import rlx.scipy.linalg
    import rlx.scipy.signal

    with pytest.raises(RlxError) as caught:
        eval(call, {"rlx": rlx, "rnp": rnp, "np": np})
    assert caught.value.fix
    assert "<string>" in str(caught.value.where)


def test_memory_that_is_not_there():
    with pytest.raises(DeviceMemoryError, match=r"full: .*128"):
        rnp.full(2**45, 1.0)


# -- axes longer than int32 counts: recorded only ------------------------------------------------

LONG = rlx.spec((2**31 + 1000,), "int8")
READS = {
    "x[i]": lambda x, i: x[i],
    "x.at[i].set": lambda x, i: x.at[i].set(1),
    "x.at[i].get": lambda x, i: x.at[i].get(mode="fill", wrap_negative_indices=False),
    "take": lambda x, i: rnp.take(x, i),
    "take wrap": lambda x, i: rnp.take(x, i, mode="wrap"),
    "take clip": lambda x, i: rnp.take(x, i, mode="clip"),
    "take_along_axis": lambda x, i: rnp.take_along_axis(x, i, 0),
    "dynamic_slice": lambda x, i: rlx.lax.dynamic_slice(x, (i[0],), (3,)),
    "dynamic_update_slice": lambda x, i: rlx.lax.dynamic_update_slice(x, x[:3], (i[0],)),
    "dynamic_index_in_dim": lambda x, i: rlx.lax.dynamic_index_in_dim(x, i[0]),
    "unravel_index": lambda x, i: rnp.unravel_index(i, x.shape),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
@pytest.mark.parametrize("read", READS)
def test_narrow_indices_on_long_axes(read, dtype):
    graph = rlx.make_graph(READS[read])(LONG, rlx.spec((2,), dtype))
    assert graph.results[0].type.dtype in ("int8", "int32", "int64", "uint32")


@pytest.mark.parametrize(
    "find",
    [
        lambda x: rnp.nonzero(x, size=3)[0],
        lambda x: rnp.searchsorted(x, np.int8(3)),
        lambda x: rnp.unravel_index(3, x.shape)[0],
    ],
)
def test_places_on_long_axes_are_wide(find):
    assert rlx.make_graph(find)(LONG).results[0].type.dtype == "int64"


def test_negative_narrow_indices_count_from_the_end():
    x = np.arange(300)
    for dtype in ("int8", "int16", "int32", "int64"):
        i = np.array([-1, -100, 5], dtype)
        np.testing.assert_array_equal(rlx.jit(lambda x, i: x[i])(x, i), x[i])


# -- the user's line -----------------------------------------------------------------------------


def test_where_is_never_a_line_of_numpy():
    with pytest.raises(RlxError) as caught:
        rlx.jit(lambda x: np.vander(x))(np.ones((3, 3)))
    assert str(caught.value.where).startswith("test_arguments_read.py")


def test_where_is_the_users_line_in_threads_too():
    found = []

    def work() -> None:
        try:
            rnp.zeros((2, 3)).reshape(7)
        except ShapeError as error:
            found.append(error.where)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0].startswith("test_arguments_read.py")


def test_an_empty_axis_shows_how_to_allow_it():
    with pytest.raises(SymbolicSizeError, match=r"rlx\.dim\('n', min=0\)"):
        rlx.jit(lambda x: x, dynamic={"x": {0: "n"}})(np.ones(0))
    found = rlx.jit(lambda x: x + 1, dynamic={"x": {0: rlx.dim("n", min=0)}})(np.ones(0))
    assert found.shape == (0,)


def test_kinds_of_errors():
    with pytest.raises(ArgumentError, match="is_leaf gave a ndarray for a list"):
        rlx.tree.leaves([1], is_leaf=lambda x: np.ones(3))
    with pytest.raises(AttributeValueError, match="convolve: there is no mode 'x'"):
        rnp.convolve([1.0], [1.0], "x")


OPTIONS_OF_CHECK_GRADS = [
    *({"order": junk} for junk in ("x", 0, -1, 6, 1.5, None, np.ones(2))),
    *({"modes": junk} for junk in (3, None, "x", [], [3], [[1]], np.ones(2))),
    *({name: junk} for name in ("atol", "rtol", "eps") for junk in ("x", -1, [1], np.nan, True)),
    {"eps": 0},
    {"fn": 3},
    *({"args": junk} for junk in (3, np.float64(3), (), (3,), "x", None)),
]


@pytest.mark.parametrize("given", OPTIONS_OF_CHECK_GRADS, ids=str)
def test_check_grads_reads_its_options(given):
    options = {"fn": rnp.sin, "args": (np.float64(0.3),), **given}
    with pytest.raises(RlxError, match="check_grads: "):
        rlx.testing.check_grads(**options)
