"""`rlx.Graph`: a graph that the user fills, op by op, and what it compiles to."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import parse
from rlx.ir.errors import ArgumentError, LeakedTracerError, VerifyError
from rlx.ir.ops import arithmetic

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
W = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def perceptron() -> rlx.Graph:
    g = rlx.Graph("perceptron")
    x, w = g.input("x", ("n", 3)), g.param("w", (3, 4))
    g.set_outputs([g.softmax(g.add(g.matmul(x, w), 1.0)), g.sum(x)])
    return g


def test_the_quickstart():
    g = rlx.Graph("hello")
    x = g.input("x", (1, 2))
    w = g.param("w", (2, 2), "float32")
    g.set_outputs([g.matmul(x, w)])
    compiled = rlx.Session("cpu").compile(g)
    compiled.set_param("w", [[1.0, 0.0], [0.0, 2.0]])
    assert compiled.run(x=[[4.0, 3.0]]).tolist() == [[4.0, 6.0]]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_it_compiles_to_what_the_function_does(device):
    def same(x, w):
        return rlx.nn.softmax(x @ w + 1.0), rnp.sum(x)

    session = rlx.Session(device)
    compiled = session.compile(perceptron())
    assert compiled.names == ("x", "w")
    expected = session.compile(same, X, W)(X, W)
    for found, wanted in zip(compiled(X, W), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert compiled(X[:1], W)[0].shape == (1, 4)
    with pytest.raises(ArgumentError, match="has no parameter 'v'"):
        compiled.set_param("v", W)
    with pytest.raises(rlx.ShapeError, match="argument 1 of perceptron, w"):
        compiled(X, W.T)


def test_operators_and_constants():
    g = rlx.Graph()
    x = g.input("x", 3)
    with g:
        y = -x * 2.0 + g.constant([1.0, 2.0, 3.0])
        g.set_outputs(y[1:] @ y[1:])
    z = np.ones(3, np.float32)
    assert rlx.Session("cpu").compile(g)(z).item() == 1.0
    h = rlx.Graph()
    h.set_outputs(h.where(h.input("x", 3, "bool"), z, h.input("y", 3)))
    made = rlx.Session("cpu").compile(h)
    assert made.names == ("x", "y") and made.run(x=z > 2, y=z * 3).tolist() == [3.0] * 3


def test_control_flow_and_the_line_of_the_user():
    g = rlx.Graph()
    x = g.input("x", 2)
    y = g.fori_loop(0, 3, lambda i, c: c * 2, x)
    g.set_outputs(y)
    assert "test_graph_builder.py" in str(g)
    assert rlx.Session("reference").compile(g)(X[0, :2]).tolist() == (X[0, :2] * 8).tolist()
    assert str(parse(str(g))) == str(g)


def test_what_a_graph_does_not_take():
    g = rlx.Graph("odd")
    x = g.input("x", (2, 3))
    with pytest.raises(rlx.ShapeError, match="matmul") as caught:
        g.matmul(x, x)
    assert "test_graph_builder.py" in str(caught.value)
    with pytest.raises(ArgumentError, match="the graph odd has 'x' already"):
        g.param("x", 2)
    with pytest.raises(AttributeError, match="no op 'matmull'"):
        g.matmull(x, x)
    for wrong in (3.0, X, rlx.Graph("other").input("x", 2)):
        with pytest.raises(ArgumentError, match="that odd did not make"):
            g.set_outputs([x, wrong])
    with g:
        y = x + X
    with pytest.raises(ArgumentError, match=r"odd uses arrays from outside: f32\[2, 3\]"):
        g.set_outputs(y)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: rnp.sin(x),
        lambda x: x @ x,
        lambda x: rlx.nn.softmax(x),
        lambda x: rlx.Graph("other").sin(x),
        lambda x: x.value + x.value,
        lambda x: arithmetic.add(x.value, x.value),
    ],
)
def test_its_tensors_are_of_no_use_outside(use):
    g = rlx.Graph("mine")
    x = g.input("x", (2, 2))
    with pytest.raises(LeakedTracerError, match="of the graph `mine` was used outside") as caught:
        use(x)
    assert "g.add(x, y)" in caught.value.fix


def test_ops_of_graphs_outside_of_one():
    for operands in ((1.0, 2.0), (X, X), (rlx.array(X), 1.0)):
        with pytest.raises(ArgumentError, match="no graph is being recorded"):
            arithmetic.add(*operands)


def test_a_graph_is_verified_itself():
    g = perceptron()
    assert rlx.verify(g) is g
    recorded = rlx.make_graph(lambda x: rnp.sum(x) * 2)(X)
    assert rlx.verify(recorded) is recorded
    recorded.results[0].type = rlx.spec((7,))
    with pytest.raises(VerifyError):
        rlx.verify(recorded)
