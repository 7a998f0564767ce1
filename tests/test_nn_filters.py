"""Parts of trees: partition, combine, filter, tree_at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.errors import RlxError

KEY = rlx.random.key(0)
MODEL = nn.Sequential([nn.Linear(3, 4, key=KEY), nn.BatchNorm(4), nn.Linear(4, 2, key=KEY)])
X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


def count(tree: Any) -> int:
    return len(rlx.tree.leaves(tree))


def test_partition_parts_parameters_from_the_rest():
    tree = {"model": MODEL, "step": rnp.array(3), "rate": 0.1}
    trained, rest = nn.partition(tree)
    assert (count(trained), count(rest)) == (6, 4)
    norm = rest["model"].layers[1]
    assert (norm.scale, norm.mean) == (None, MODEL.layers[1].mean)
    assert rest["step"].item() == 3
    assert nn.filter(tree, inverse=True)["rate"] == 0.1
    back = nn.combine(trained, rest)
    assert rlx.tree.structure(back) == rlx.tree.structure(tree)
    assert all(x is y for x, y in zip(rlx.tree.leaves(back), rlx.tree.leaves(tree), strict=True))


def test_specs_are_functions_bools_or_trees_of_them():
    tree = {"a": {"w": rnp.ones(2), "n": rnp.arange(2)}, "b": rnp.ones(3)}
    assert count(nn.filter(tree, True)) == 3
    assert count(nn.filter(tree, nn.is_inexact_array)) == 2
    assert nn.filter(tree, {"a": False, "b": True})["a"] == {"w": None, "n": None}
    assert nn.filter(tree, {"a": lambda x: x.dtype == np.int32, "b": False})["a"]["w"] is None
    bools = rlx.tree.map(lambda x: x.ndim == 2, MODEL)  # a module, so it can be called
    assert count(nn.filter(MODEL, bools)) == 2
    frozen = nn.tree_at(lambda m: m.layers[0], bools, False)
    assert count(nn.filter(MODEL, frozen)) == 1


def test_training_a_part():
    trained, rest = nn.partition(MODEL, nn.tree_at(lambda m: m.layers[0], full(MODEL), False))

    def loss(trained, rest):
        y, model = nn.with_state(nn.combine(trained, rest))(X)
        return rnp.sum(rnp.square(y)), nn.partition(model, nn.is_parameter)[1]

    slope, state = rlx.jit(rlx.grad(loss, has_aux=True))(trained, rest)
    assert slope.layers[0].weight is None
    assert slope.layers[2].weight.shape == (4, 2)
    assert np.abs(state.layers[1].mean).max() > 0


def full(tree: Any) -> Any:
    return rlx.tree.map(lambda x: True, tree)


def test_tree_at_keeps_what_does_not_change():
    changed = nn.tree_at(lambda m: m.layers[0].bias, MODEL, rnp.ones(4))
    assert changed.layers[0].bias.tolist() == [1.0] * 4
    assert MODEL.layers[0].bias.tolist() == [0.0] * 4
    assert changed.layers[0].weight is MODEL.layers[0].weight
    assert changed.layers[1] is MODEL.layers[1]
    same = nn.tree_at(lambda m: m.layers[1], MODEL, replace_fn=lambda x: x)
    assert same is MODEL


def test_tree_at_several_places_and_containers():
    tree = {"a": [1, None, (2, 3)], "b": ()}
    put = nn.tree_at(lambda t: (t["a"][1], t["a"][2], t["b"]), tree, [5, 6, 7])
    assert put == {"a": [1, 5, 6], "b": 7}
    doubled = nn.tree_at(lambda t: (t["a"][0], t["a"][2][1]), tree, replace_fn=lambda x: x * 2)
    assert doubled == {"a": [2, None, (2, 6)], "b": ()}
    assert nn.tree_at(lambda t: t, tree, 3) == 3
    under_jit = rlx.jit(lambda m: nn.tree_at(lambda m: m.layers[0].bias, m, m.layers[0].bias + 1))
    assert under_jit(MODEL).layers[0].bias.tolist() == [1.0] * 4


def test_an_array_that_was_put_into_a_module_is_its_own():
    mine = rnp.ones(4)
    changed = nn.tree_at(lambda m: m.layers[0].bias, MODEL, mine)
    mine[0] = 5.0
    assert changed.layers[0].bias.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.partition(MODEL, 3), "the spec is 3, not a function or a tree of bools"),
        (lambda: nn.partition([1.0], lambda x: x), "the spec gave 1.0 for a leaf, not a bool"),
        (lambda: nn.partition({"a": 1}, {"b": True}), "the spec and the tree differ in structure"),
        (lambda: nn.combine(), "there are no trees"),
        (lambda: nn.combine([1, 2], [1]), "has 2 items in the first tree, 1 in tree 1"),
        (lambda: nn.tree_at(3, MODEL, 1), "tree_at: where is 3, not a function"),
        (lambda: nn.tree_at(lambda m: m, MODEL), "takes either replace or replace_fn"),
        (lambda: nn.tree_at(lambda m: m, MODEL, 1, len), "takes either replace or replace_fn"),
        (lambda: nn.tree_at(lambda m: m.layers[0].bias.T, MODEL, 1), r"asks for \.T of a leaf"),
        (lambda: nn.tree_at(lambda m: m.layers[1].eps, MODEL, 1), "no part(.|\n)*module.replace"),
        (lambda: nn.tree_at(lambda t: (t[0], t[1]), [1, 2], 3), "3, not a tuple of 2 items"),
        (lambda: nn.tree_at(lambda t: (t[0], t[0]), [1, 2], (3, 4)), "2 places, of which 1 are"),
        (lambda: nn.tree_at(lambda t: (t[0], t), [1, 2], (3, 4)), "2 places, of which 1 are"),
    ],
)
def test_errors(call: Any, text: str):
    with pytest.raises(RlxError, match=text):
        call()
