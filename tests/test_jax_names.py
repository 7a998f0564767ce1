"""jax.tree_util, jax.flatten_util, jax.ops, jax.image and the like, under the same names."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import jax
import jax.flatten_util
import jax.image
import jax.numpy as jnp
import jax.ops
import jax.tree_util
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import RlxError

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.uniform(size=(5, 7, 2)).astype("float32")
ROWS = RANDOM.normal(size=(6, 2)).astype("float32")
IDS = np.array([0, 2, -1, 2, 5, 0], "int32")
Point = collections.namedtuple("Point", ["x", "y"])
TREE = {"a": [1.0, (2.0, None)], "p": Point(3.0, {"z": 4.0})}


def same(found: Any, wanted: Any) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_segments(name: str) -> None:
    ours, theirs = (getattr(m.ops, f"segment_{name}") for m in (rlx, jax))
    same(ours(ROWS, IDS, 4), theirs(ROWS, IDS, 4))
    same(ours((ROWS * 9).astype("int32"), IDS, 7), theirs((ROWS * 9).astype("int32"), IDS, 7))
    if name != "prod":  # JAX has no derivative of it
        slopes = rlx.grad(lambda x: rnp.sum(ours(x, IDS, 7)[:1] ** 2))(ROWS)
        same(slopes, jax.grad(lambda x: jnp.sum(theirs(x, IDS, 7)[:1] ** 2))(ROWS))
    assert ours(rnp.asarray(ROWS), rnp.asarray(np.abs(IDS))).shape == (6, 2)


def test_segments_need_their_number_where_it_is_not_known() -> None:
    with pytest.raises(RlxError, match="pass num_segments"):
        rlx.jit(rlx.ops.segment_sum)(ROWS, IDS)
    with pytest.raises(RlxError, match="one number for each row"):
        rlx.ops.segment_sum(ROWS, IDS[:3], 2)


@pytest.mark.parametrize("method", ["nearest", "linear", "cubic", "lanczos3", "lanczos5"])
@pytest.mark.parametrize("antialias", [True, False])
def test_resize(method: str, antialias: bool) -> None:
    for shape in ((10, 7, 2), (3, 9, 2)):
        args = (shape, method, antialias)
        same(rlx.image.resize(IMAGE, *args), jax.image.resize(IMAGE, *args))


def test_scale_and_translate() -> None:
    args = (6, 6, 2), (0, 1), np.float32([1.3, 0.7]), np.float32([0.5, -1.0]), "cubic"
    found = rlx.image.scale_and_translate(IMAGE, *args)
    same(found, jax.image.scale_and_translate(IMAGE, *args))
    with pytest.raises(RlxError, match="there is no resize method 'fast'"):
        rlx.image.resize(IMAGE, (2, 2, 2), "fast")
    with pytest.raises(RlxError, match="has not the rank"):
        rlx.image.resize(IMAGE, (2, 2), "linear")


def test_ravel_pytree() -> None:
    tree = {"w": np.ones((2, 2), "float32"), "n": np.arange(3, dtype="int32")}
    (ours, back), (theirs, _) = (m.flatten_util.ravel_pytree(tree) for m in (rlx, jax))
    same(ours, theirs)
    again = back(ours * 2)
    assert again["n"].tolist() == [0, 2, 4]
    assert again["n"].dtype == np.int32
    with pytest.raises(RlxError, match="not of 7 numbers"):
        back(rnp.ones(3))


@pytest.mark.parametrize(
    "name", ["tree_leaves", "tree_flatten", "tree_leaves_with_path", "tree_flatten_with_path"]
)
def test_trees_are_those_of_jax(name: str) -> None:
    ours, theirs = (getattr(m.tree_util, name)(TREE) for m in (rlx, jax))
    ours, theirs = (x[0] if isinstance(x, tuple) else x for x in (ours, theirs))
    assert str(ours) == str(theirs)


def test_paths_as_text() -> None:
    for simple, separator in ((False, ""), (True, "/")):
        texts = [
            [
                m.tree_util.keystr(path, simple=simple, separator=separator)
                for path, _ in m.tree_util.tree_leaves_with_path(TREE)
            ]
            for m in (rlx, jax)
        ]
        assert texts[0] == texts[1]


def registered(module: Any) -> list[Any]:
    """Classes registered in each way; gives what their trees say."""

    class Pair:
        def __init__(self, x: Any, y: Any) -> None:
            self.x, self.y = x, y

        def tree_flatten(self) -> Any:
            return (self.x, self.y), "fixed"

        @classmethod
        def tree_unflatten(cls, fixed: Any, children: Any) -> Any:
            assert fixed == "fixed" and isinstance(children, tuple)
            return cls(*children)

    class Keyed(Pair):
        def tree_flatten_with_keys(self) -> Any:
            return (("x", self.x), (module.tree_util.GetAttrKey("y"), self.y)), "fixed"

    @dataclasses.dataclass
    class State:
        x: Any
        name: str = dataclasses.field(metadata={"static": True})

    util = module.tree_util
    util.register_pytree_node_class(Pair)
    util.register_pytree_with_keys(
        Keyed, lambda k: Keyed.tree_flatten_with_keys(k), lambda _, c: Keyed(*c)
    )
    util.register_dataclass(State, data_fields=["x"], meta_fields=["name"])
    trees = [Pair(1, [2, 3]), Keyed(4, 5), State(6, "s"), util.Partial(max, 7, default=8)]
    doubled = [util.tree_map(lambda x: x * 2, tree) for tree in trees]
    found = [util.tree_leaves(tree) for tree in doubled]
    is_leaf = [util.treedef_is_leaf(util.tree_structure(t)) for t in (1, [1])]
    pair = util.treedef_tuple([util.tree_structure(1), util.tree_structure([1, 2])])
    return [*found, *is_leaf, pair.num_leaves, util.all_leaves([1, 2]), util.all_leaves([1, [2]])]


def test_registered_classes() -> None:
    assert registered(rlx) == registered(jax)
    with pytest.raises(RlxError, match="has no method tree_flatten"):
        rlx.tree_util.register_pytree_node_class(int)


def test_shapes_without_numbers() -> None:
    def layer(w: Any, x: Any) -> Any:
        return {"y": x @ w, "n": rnp.argmax(x)}

    found = rlx.eval_shape(layer, rlx.ShapeDtypeStruct((3, 4), "float32"), rnp.ones((2, 3)))
    assert found["y"].shape == (2, 4)
    assert found["n"].dtype == np.int32


def test_arrays_move() -> None:
    tree = rlx.device_put({"x": [1.0, 2.0]})
    assert rlx.block_until_ready(tree) is tree
    assert isinstance(rlx.device_get(tree)["x"][0], np.ndarray)
    assert rlx.jacobian is rlx.jacrev


def test_types_and_graphs_under_the_names_of_jax() -> None:
    for x in (IMAGE, rnp.asarray(IDS), True, 2, 1.5, 1j):
        ours, theirs = rlx.typeof(x), jax.typeof(jnp.asarray(x))
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    seen: list[Any] = []
    rlx.jit(lambda x: seen.append(rlx.typeof(x)) or x)(IMAGE)
    assert str(seen[0]) == "f32[5, 7, 2]"

    def power(x: Any, n: int, *, scale: Any = 1.0) -> Any:
        return {"power": x**n * scale}

    graph, shape = rlx.make_jaxpr(power, static_argnums=-1, return_shape=True)(IMAGE, 3)
    assert graph.result_types == (shape["power"],) and "integer_pow" in str(graph)
    assert str(rlx.make_jaxpr(power, 1)(IMAGE, 3, scale=IMAGE)).count("mul") == 1


def test_scopes_stand_beside_the_lines() -> None:
    @rlx.named_scope("head")
    def head(x: Any) -> Any:
        return rlx.named_call(rnp.sin)(x) @ x

    with rlx.named_scope("net"):
        graph = rlx.make_graph(rlx.grad(lambda x: head(x) + 1.0))(IDS.astype("float32"))
    scopes = [node.source.scope for node in graph.walk() if node.source]
    assert set(scopes) == {"net", "net/head", "net/head/sin"}
    again = rlx.ir.text.parse(str(graph))
    assert [node.source.scope for node in again.walk() if node.source] == scopes
    with pytest.raises(RlxError, match=r"in test_scopes_\w+ \[net\]"), rlx.named_scope("net"):
        rnp.ones(2) + rnp.ones(3)
    wrong: tuple[Any, ...] = ("", "two\nlines", 3)
    for name in wrong:
        with pytest.raises(RlxError, match=r"the name of a scope is .*\n.*test_jax_names"):
            rlx.named_scope(name)


def test_jitted_functions_run_line_by_line() -> None:
    seen: list[Any] = []

    @rlx.jit(static_argnames="times")
    def grow(x: Any, times: int) -> Any:
        seen.append(x)
        x[0] = times
        return {"x": x if x.sum() > 1e9 else x * times, "number": 2.5}

    assert grow.cache_size() == 0
    compiled, given = rlx.jit(lambda x: seen.append(x) or x + 1), rlx.array([1.0, 2.0])
    compiled(given)
    with rlx.disable_jit():
        for x in (given, np.ones(2, "float32")):
            found = grow(x, times=3)
            assert found["x"].tolist() == [9, 3 * x[1]] and found["number"].dtype == "float32"
            assert x[0] == 1
        assert compiled(given).tolist() == [2, 3] and isinstance(seen[-1], rlx.Array)
        with rlx.disable_jit(False):
            assert compiled(given).tolist() == [2, 3]
    assert len(seen) == 4 and grow.cache_size() == 0 and compiled.cache_info().compiles == 1
