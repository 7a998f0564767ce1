"""Methods of arrays say which arguments they take: those of the functions they call."""

import inspect

import pytest

import rlx.numpy as rnp
from rlx import Array
from rlx.trace.operators import Operators

OWN = {"compress", "reshape", "transpose"}  # which take their arguments in an own way
METHODS = [
    name
    for name, member in vars(Operators).items()
    if inspect.isfunction(member) and not name.startswith("_") and name not in OWN
]


def parameters(function):
    return [
        (p.name, p.kind, p.default) for p in [*inspect.signature(function).parameters.values()][1:]
    ]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_the_arguments_of_its_function(name):
    function = getattr(rnp, name)
    assert parameters(getattr(Array, name)) == parameters(getattr(function, "function", function))


def test_a_method_has_a_name_and_a_manual():
    assert len(METHODS) > 30
    for name in METHODS:  # `conjugate` is `conj`
        method = getattr(Array, name)
        assert name.startswith(method.__name__) and method.__name__ in method.__doc__
