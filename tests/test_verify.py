"""The verifier accepts what the builder makes, and names what is wrong with anything else."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.dims import dim
from rlx.ir.errors import AttributeValueError, VerifyError
from rlx.ir.graph import OPS, Constant, Graph, Value
from rlx.ir.types import DTYPES, Type, as_dtype, type_of
from rlx.ir.verify import verify

VECTOR = Type(as_dtype("f32"), (3,))


def sine() -> Graph:
    return build(lambda x: ops.sin(x) * x, [VECTOR], "sine")


def as_type(arg) -> Type:
    if isinstance(arg, Type):
        return arg
    return Type(DTYPES["float64"], arg) if isinstance(arg, tuple) else type_of(np.asarray(arg))


@pytest.mark.parametrize("op", OPS.values(), ids=str)
def test_every_sample_is_valid(op):
    for sample in op.sample_list:
        types = [as_type(a) for a in sample.args]
        verify(build(lambda *xs, s=sample: op(*xs, **s.attrs), types))


def test_wrong_result_type_names_the_line():
    graph = sine()
    graph.nodes[0].results[0].type = VECTOR.with_shape((4,))
    with pytest.raises(VerifyError, match=r"sin: its results should have the types f32\[3\]") as e:
        verify(graph)
    assert "test_verify.py" in str(e.value)


def test_order_matters():
    graph = sine()
    graph.nodes.reverse()
    with pytest.raises(VerifyError, match="used before it is made"):
        verify(graph)


def test_graphs_are_closed():
    graph, other = sine(), sine()
    graph.nodes[0].args = (other.params[0],)
    with pytest.raises(VerifyError, match="belongs to the graph `sine`"):
        verify(graph)
    graph = sine()
    graph.results = [other.results[0]]
    with pytest.raises(VerifyError, match="result 0 is not made"):
        verify(graph)


def test_a_node_may_not_stand_twice():
    graph = sine()
    graph.nodes.append(graph.nodes[0])
    with pytest.raises(VerifyError, match="made twice"):
        verify(graph)


def test_nested_graphs_are_entered():
    inner = sine()
    (inner.nodes[0].results[0]).type = VECTOR.with_dtype("f64")
    graph = build(lambda x: list(ops.call(x, graph=inner)), [VECTOR])
    with pytest.raises(VerifyError, match="sin: its results"):
        verify(graph)


def test_nested_signatures_are_compared():
    inner = build(lambda x: ops.sin(x), [VECTOR], "inner")
    graph = build(lambda x: list(ops.call(x, graph=inner)), [VECTOR])
    longer = build(lambda x: ops.sin(x), [VECTOR.with_shape((4,))], "inner")
    graph.nodes[0].attrs["graph"] = longer
    with pytest.raises(VerifyError, match="call: "):
        verify(graph)


@pytest.mark.parametrize(
    "attrs",
    [{}, {"axes": (0,), "more": 1}, {"axes": [0]}, {"axes": (np.int64(0),)}, {"axes": (7,)}],
)
def test_attributes_must_be_the_ops_own(attrs):
    graph = build(lambda x: ops.reduce_sum(x, axes=(0,)), [VECTOR])
    graph.nodes[0].attrs = attrs
    with pytest.raises(VerifyError, match="reduce_sum: "):
        verify(graph)


def test_foreign_parameters_and_dtypes():
    graph = sine()
    graph.params.append(sine().params[0])
    with pytest.raises(VerifyError, match="parameter 1"):
        verify(graph)
    graph = sine()
    graph.params[0].type = Type(np.dtype("S4"), (3,))
    with pytest.raises(VerifyError, match="no dtype of rlx"):
        verify(graph)


def test_result_must_know_its_node():
    graph = sine()
    graph.nodes[0].results = (Value(VECTOR, graph, graph.nodes[1]),)
    with pytest.raises(VerifyError, match="does not know its node"):
        verify(graph)


def test_levels_have_their_forms():
    composite = build(lambda x: ops.square(x), [VECTOR])
    verify(composite)
    with pytest.raises(VerifyError, match="composite is not expanded"):
        verify(composite, "mir")
    verify(composite, "mir", wants=frozenset({"square"}))
    with pytest.raises(VerifyError, match="composite is not expanded"):
        verify(composite, "lir", wants=frozenset({"square"}))
    called = build(lambda x: list(ops.call(x, graph=sine())), [VECTOR])
    with pytest.raises(VerifyError, match="not inlined"):
        verify(called, "mir")
    symbolic = build(lambda x: ops.sin(x), [VECTOR.with_shape((dim("n"),))])
    verify(symbolic, "mir")
    with pytest.raises(VerifyError, match="symbolic"):
        verify(symbolic, "lir")
    with pytest.raises(AttributeValueError, match="no level"):
        verify(symbolic, "low")


def test_constants_are_compared_by_content():
    one, other = Constant(np.ones(3, np.float32)), Constant(np.ones(3, np.float32))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Constant(np.ones(3, np.float64))
    assert one != Constant(np.ones((3, 1), np.float32))
