"""What beginners write, and what the error tells them to write instead."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn, optim
from rlx.ir.errors import ArgumentError, RlxError

KEY = rlx.random.key(0)
X = rnp.ones((2, 3))


class Point:
    """A class that rlx does not know."""


def turn(n, x):
    return rlx.fori_loop(0, n, lambda i, y: y * 2, x).sum()


MISTAKES = [
    (lambda: rnp.zeros(2, 3), "zeros((2, 3))"),
    (lambda: rnp.ones(2, 3), "ones((2, 3))"),
    (lambda: rnp.concatenate(X, X), "concatenate([a, b])"),
    (lambda: rnp.stack(X, X), "stack([a, b])"),
    (lambda: rlx.random.normal((3,)), "normal(rlx.random.key(0), shape)"),
    (
        lambda: nn.Conv(3, 8, (3, 3), key=KEY)(np.ones((2, 3, 8, 8), "f4")),
        "x.transpose(0, 2, 3, 1)",
    ),
    (lambda: nn.losses.cross_entropy(rnp.ones((4, 10)), rnp.eye(4, 10)), "labels.argmax(-1)"),
    (lambda: rlx.jit(rlx.grad(turn, 1))(3, X), "Python numbers or static arguments"),
    (lambda: rlx.jit(lambda p: 1.0)(Point()), "rlx.tree_util.register_dataclass"),
]


@pytest.mark.parametrize(("wrong", "advice"), MISTAKES, ids=[row[1] for row in MISTAKES])
def test_the_fix_says_what_to_write(wrong, advice):
    with pytest.raises(RlxError) as caught:
        wrong()
    assert advice in " ".join(caught.value.fix.split())
    assert str(caught.value.where).startswith("test_first_mistakes.py")


@pytest.mark.parametrize(
    ("home", "name", "advice"),
    [
        (rlx, "where", "rlx.numpy.where"),
        (rlx, "zeros", "rlx.numpy"),
        (rlx, "Tensor", "rlx.Array"),
        (nn, "Parameter", "declare a field"),
        (nn, "Tanh", "nn.tanh"),
        (optim, "Adagrad", "optim.adagrad"),
        (nn, "Conv2d", "nn.Conv, with channels last"),
        (nn, "BatchNorm2d", "nn.BatchNorm"),
        (optim, "Adam", "optim.adam"),
        (X, "numpy", "numpy.asarray(x)"),
        (X, "cuda", 'x.to("cuda")'),
        (X, "detach", "rlx.stop_gradient(x)"),
        (X, "permute", "x.transpose(axes)"),
        (nn.Linear(2, 2, key=rlx.random.key(0)), "parameters", "rlx.tree.leaves(model)"),
        (nn.Linear(2, 2, key=rlx.random.key(0)), "eval", "nn.inference(model)"),
        (nn, "Softmax", "nn.softmax, a function"),
        (optim, "cosine_decay_schedule", "optim.schedules.cosine"),
        (optim, "clip", "optim.clip_by_value"),
        (rlx, "float32", "rlx.numpy"),
        (nn, "Unheard", "has no attribute 'Unheard'"),
    ],
)
def test_names_of_other_libraries_say_what_to_use(home, name, advice):
    assert not hasattr(home, name)
    with pytest.raises(AttributeError) as caught:
        getattr(home, name)
    assert advice in str(caught.value)


def test_advice_names_what_there_is():
    for home in (optim, nn):
        for text in inspect.getclosurevars(home.__getattr__).nonlocals["advice"].values():
            for path in re.findall(r"(?:nn|optim)(?:\.\w+)+", text):
                assert eval(path, {"nn": nn, "optim": optim}) is not None


def test_fields_and_methods_may_have_names_of_other_libraries():
    class Model(nn.Module):
        train: rlx.Array
        parameters: int = nn.field(static=True)

        def eval(self):
            return self.train * self.parameters

    model = Model(X, 3)
    assert np.array_equal(model.eval(), X * 3) and rlx.tree.leaves(model)[0] is model.train
    assert {"train", "eval", "replace"} <= {*dir(model)} and "state_dict" not in dir(model)
    assert "permute" not in dir(X) and "transpose" in dir(X)


def test_losses_of_columns_and_rows_are_no_table():
    for loss in (nn.losses.mean_squared_error, nn.losses.binary_cross_entropy, nn.losses.hinge):
        with pytest.raises(rlx.errors.ShapeError, match=r"shape \(3, 1\), the targets \(3,\)"):
            loss(rnp.ones((3, 1)), rnp.ones(3))
        assert loss(rnp.ones((3, 2)), rnp.ones(2), reduction="none").shape == (3, 2)
    with pytest.raises(ArgumentError, match=r"view: 6 is a shape") as caught:
        rnp.ones((2, 3)).view(6)
    assert caught.value.fix.startswith("x.reshape(6)")


def test_keywords_that_a_layer_does_not_take():
    with pytest.raises(ArgumentError, match="Linear takes no argument 'bias'") as caught:
        nn.Linear(2, 2, bias=False, key=rlx.random.key(0))
    assert caught.value.fix.startswith("did you mean 'use_bias'?")
    with pytest.raises(ArgumentError, match="Linear is missing 'key'") as caught:
        nn.Linear(2, 2)
    assert caught.value.fix.startswith("add key=rlx.random.key(0):")
    with pytest.raises(ArgumentError, match="Linear takes in_size, out_size by position") as caught:
        nn.Linear(2, 2, KEY)  # type: ignore[misc]
    assert caught.value.fix.startswith("give these by name: key, use_bias")

    class Heir(nn.Module):
        size: int = nn.field(static=True)

        def __init__(self, size, *, key):
            self.size = size

    class Child(Heir):
        pass

    with pytest.raises(ArgumentError, match="Child is missing 'key'"):
        Child(3)


@pytest.mark.parametrize("option", ["reverse", "unroll"])
def test_options_of_scan_are_read(option):
    for junk in ("x", object(), np.ones(3)):
        with pytest.raises(ArgumentError, match=f"scan: {option}"):
            rlx.scan(lambda c, x: (c + x, x), 0.0, np.ones(3), **{option: junk})


OF_TWO = lambda x, y: (x * y).sum()  # noqa: E731
CALLS_OF_ONE = {
    "compile": lambda x: rlx.Session("cpu").compile(OF_TWO, x),
    "jit": lambda x: rlx.jit(OF_TWO)(x),
    "grad": lambda x: rlx.grad(OF_TWO)(x),
    "vmap": lambda x: rlx.vmap(OF_TWO)(x),
    "eval_shape": lambda x: rlx.eval_shape(OF_TWO, x),
    "export": lambda x: rlx.export(OF_TWO, rlx.typeof(x)),
}


@pytest.mark.parametrize("name", CALLS_OF_ONE)
def test_arguments_that_are_missing_are_named(name):
    with pytest.raises(ArgumentError, match="missing a required argument: 'y'") as caught:
        CALLS_OF_ONE[name](X)
    assert caught.value.fix == "its arguments are (x, y)"
    assert str(caught.value.where).startswith("test_first_mistakes.py")


def test_a_call_inside_of_a_function_says_what_python_says():
    with pytest.raises(TypeError, match="missing 1 required") as caught:
        rlx.jit(lambda x: OF_TWO(x))(X)
    assert type(caught.value) is TypeError
