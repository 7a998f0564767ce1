"""Pytrees: containers in, leaves out, and back; errors that name the place."""

from collections import defaultdict, namedtuple

import jax
import pytest

import rlx
from rlx.ir.errors import StructureError
from rlx.trace import pytree

Point = namedtuple("Point", "x y")


class Layer:
    def __init__(self, weight, bias, name):
        self.weight, self.bias, self.name = weight, bias, name


pytree.register_class(
    Layer,
    lambda layer: ((layer.weight, layer.bias), layer.name, ("weight", "bias")),
    lambda name, children: Layer(*children, name),
)


def test_round_trip():
    tree = {"b": [1, None, (2, 3)], "a": Point(4, Layer(5, 6, "head"))}
    leaves, structure = pytree.flatten(tree)
    assert leaves == [4, 5, 6, 1, 2, 3]
    again = pytree.unflatten(structure, leaves)
    assert again["b"] == tree["b"] and again["a"].y.name == "head" and again["a"].y.bias == 6
    assert pytree.leaves(None) == [] and pytree.structure(tree) == structure


def test_maps():
    assert pytree.map(lambda x, y: x + y, {"a": (1, 2)}, {"a": (10, 20)}) == {"a": (11, 22)}
    assert pytree.reduce(lambda x, y: x + y, [1, (2, 3)]) == 6
    assert pytree.reduce(lambda x, y: x + y, [], 5) == 5
    assert pytree.all({"a": 1, "b": True}) and not pytree.all([1, 0])
    # a leaf of the first tree may stand against a container in the others
    assert pytree.map(lambda x, y: y, {"a": 1}, {"a": [1, 2]}) == {"a": [1, 2]}


def test_paths():
    tree = {"w": [Layer(1, 2, "x")]}
    structure = pytree.structure(tree)
    assert pytree.paths(structure, "params") == ['params["w"][0].weight', 'params["w"][0].bias']
    assert pytree.map_with_path(lambda path, x: pytree.keystr(path), Point(1, (2,))) == Point(
        ".x", (".y[0]",)
    )


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ({"a": [1, 2]}, {"a": [1]}, '["a"] has 2 items in the first tree, 1 in another'),
        (
            {"a": 1, "b": 2},
            {"a": 1},
            "the whole tree has 'a', 'b' in the first tree, 'a' in another",
        ),
        ([{"k": (1,)}], [{"k": [1]}], '[0]["k"] is a tuple in the first tree, a list in another'),
        ([1, (2,)], [1, 2], "[1] is a tuple in the first tree, a leaf in another"),
        ([(1, None)], [(1, 2)], "[0][1] is None in the first tree, a leaf in another"),
        (
            [Layer(1, 2, "x")],
            [Layer(1, 2, "y")],
            "[0] has the same children but other fixed data",
        ),
    ],
)
def test_difference_names_the_place(first, second, text):
    with pytest.raises(StructureError) as caught:
        pytree.map(lambda x, y: x, first, second)
    assert text in str(caught.value)


def test_unflatten_counts():
    with pytest.raises(StructureError, match="2 leaves was given 1"):
        pytree.unflatten(pytree.structure((1, 2)), [1])


def test_static_values_are_structure():
    one, same, other = (pytree.structure((1, pytree.Static(s))) for s in ("a", "a", "b"))
    assert one == same and one != other and one.num_leaves == 1


def test_the_order_of_keys_is_that_of_leaves_in_compiled_functions():
    def numbered(d):
        return sum(i * x for i, x in enumerate(d.values(), start=1))

    for fn in (rlx.jit(numbered), rlx.grad(lambda d: numbered(d) ** 2), jax.jit(numbered)):
        first, second = fn({"b": 2.0, "a": 1.0}), fn({"a": 1.0, "b": 2.0})
        assert rlx.tree.leaves(first) == rlx.tree.leaves(second)
    assert float(rlx.jit(numbered)({"b": 2.0, "a": 1.0})) == 5
    assert float(rlx.jit(numbered)(defaultdict(list, {"b": 2.0, "a": 1.0}))) == 5
    assert float(jax.jit(numbered)({"b": 2.0, "a": 1.0})) == 5
