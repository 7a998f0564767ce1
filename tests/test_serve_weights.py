"""Weights by name: counted, shared by content, exchanged while they are used."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rlx
from rlx.serve import WeightRegistry
from rlx.serve.weight_files import WeightFiles, read_weights

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)


def test_one_content_is_kept_once():
    weights = WeightRegistry()
    first = weights.add("a", A)
    assert weights.add("b", A.copy()) is first
    assert weights.alias("c", of="a") is first
    assert weights.nbytes == 24 and list(weights) == ["a", "b", "c"]
    assert weights.add("d", {"w": A}) is not first  # another tree
    assert weights.add("e", A.astype(np.int32)) is not first  # the same numbers of another dtype
    assert weights.add("f", A.reshape(3, 2)) is not first
    weights.remove("a"), weights.remove("b")
    assert first.names == {"c"} and weights["c"] is first


def test_an_array_that_stands_in_a_tree_twice_is_kept_once():
    weights = WeightRegistry()
    handle = weights.add("a", {"embedding": A, "head": A, "norm": B})
    assert handle.tree["embedding"] is handle.tree["head"]
    assert handle.nbytes == weights.nbytes == A.nbytes + B.nbytes
    assert weights.add("b", {"embedding": A, "head": A.copy(), "norm": B}) is handle


class Rows:
    """A matrix whose leaves are its rows, made when they are asked for."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix


rlx.tree.register_class(Rows, lambda x: (list(x.matrix), None), lambda _, x: Rows(np.stack(x)))


def test_leaves_that_a_class_makes_when_asked_keep_their_places():
    given = {"a": Rows(A), "b": Rows(A + 6)}
    tree = WeightRegistry().add("a", given).tree
    np.testing.assert_array_equal(tree["a"].matrix, A)
    np.testing.assert_array_equal(tree["b"].matrix, A + 6)


def test_what_was_given_can_change_and_weights_do_not():
    weights, given = WeightRegistry(), A.copy()
    handle = weights.add("a", given)
    given[:] = 0
    np.testing.assert_array_equal(handle.tree, A)


def test_a_swap_leaves_those_who_compute_and_compiles_nothing():
    weights = WeightRegistry()
    weights.add("a", A)
    weights.alias("tied", of="a")
    f = rlx.jit(lambda w: w * 2)
    old = weights["a"]
    with old as held:
        new = weights.swap("a", B)
        np.testing.assert_array_equal(f(held), A * 2)
        assert old.pins == 1 and weights["tied"] is old and weights["a"] is new
        with rlx.no_recompile(), new as other:
            np.testing.assert_array_equal(f(other), B * 2)
    assert weights.swap("a", A) is old  # known again by its content


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float32", "int8", "bool"])
def test_files_of_weights_hold_every_dtype(dtype):
    files, one = WeightFiles(), rlx.array([[0, 1, 3], [1, 0, 1]], dtype=dtype)
    weights = {"a": one, "b": [rlx.array(2.5), rlx.numpy.zeros((0, 2))]}
    read = read_weights(str(files.write(weights)), weights)
    files.close()
    assert read["a"].dtype == one.dtype and read["a"].tolist() == one.tolist()
    assert read["b"][0].item() == 2.5 and read["b"][1].shape == (0, 2)


def test_misuse_is_named():
    weights = WeightRegistry()
    handle = weights.add("a", A)
    with pytest.raises(rlx.AttributeValueError, match="stands for other weights already"):
        weights.add("a", B)
    with pytest.raises(rlx.StructureError, match=r"f32\[3\], the old ones .* f32\[2, 3\]"):
        weights.swap("a", B[0])
    with pytest.raises(rlx.UnknownNameError, match="no weights are named 'b'"):
        weights["b"]
    with handle:
        with pytest.raises(rlx.InUseError, match="'a' is used 1 times"):
            weights.remove("a")
        weights.alias("b", of="a")
        weights.remove("a")
    with pytest.raises(rlx.AttributeValueError, match="released more often"):
        handle.release()
    weights.remove("b")
    assert len(weights) == 0 and weights.nbytes == 0


def test_old_contents_count_while_they_are_used():
    weights = WeightRegistry()
    with weights.add("a", A):
        weights.swap("a", B)
        assert weights.nbytes == 48
        weights.alias("b", of="a")
    assert weights.nbytes == 24


def test_a_name_that_goes_during_a_swap_is_unknown(monkeypatch):
    weights = WeightRegistry()
    weights.add("a", A)
    hashed = WeightRegistry._handle
    monkeypatch.setattr(
        WeightRegistry, "_handle", lambda self, x: (self.remove("a"), hashed(self, x))[1]
    )
    with pytest.raises(rlx.UnknownNameError, match="no weights are named 'a'"):
        weights.swap("a", B)


def test_threads_count_together():
    weights = WeightRegistry()
    weights.add("a", A)

    def work():
        for i in range(200):
            with weights["a"]:
                weights.swap("a", A if i % 2 else B)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert weights["a"].pins == 0 and weights.nbytes == 24
