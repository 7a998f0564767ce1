"""Modules are immutable deep down: nobody assigns to an array in one, however it was made."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.errors import ImmutableError


class Inner(nn.Module):
    weight: rlx.Array
    table: rlx.Array = nn.field(default_factory=lambda: rnp.zeros(2))


class Net(nn.Module):
    inner: Inner
    bias: rlx.Array
    parts: dict[str, list[rlx.Array]]
    name: str = nn.field(static=True, default="net")


class Deep(Net):
    scale: rlx.Array = nn.field(default_factory=lambda: rnp.ones(2))

    def twice(self):
        return self.scale * 2


def net() -> Any:
    return Deep(Inner(rnp.ones((2, 2))), rnp.ones(2), {"a": [rnp.ones(2)]})


def doubled(m: Any) -> Any:
    return rlx.tree.map(lambda x: x * 2, m)


def loss(m: Any) -> Any:
    return sum(x.sum() for x in rlx.tree.leaves(m))


MADE = {
    "as it is": net,
    "replaced": lambda: net().replace(bias=rnp.zeros(2), parts={"a": [rnp.zeros(2)]}),
    "mapped": lambda: doubled(net()),
    "flat": lambda: rlx.tree.unflatten(rlx.tree.structure(net()), rlx.tree.leaves(net())),
    "compiled": lambda: rlx.jit(doubled)(net()),
    "compiled twice": lambda: [(f := rlx.jit(doubled))(net()), f(net())][1],
    "gradient": lambda: rlx.grad(loss)(net()),
    "batched": lambda: rlx.vmap(doubled)(net()),
    "copied": lambda: copy.deepcopy(net()),
    "pickled": lambda: pickle.loads(pickle.dumps(net())),
}
REACHED = {
    "Inner.weight": lambda m: m.inner.weight,
    "Inner.table": lambda m: m.inner.table,
    "Deep.bias": lambda m: m.bias,
    "Deep.scale": lambda m: m.scale,
    "Deep.parts": lambda m: m.parts["a"][0],
}


@pytest.mark.parametrize("made", MADE)
def test_arrays_in_modules_are_not_assigned_to(made):
    module = MADE[made]()
    before = [np.asarray(x).tolist() for x in rlx.tree.leaves(module)]
    for place, reach in REACHED.items():
        for index in (0, slice(None), rnp.array([True, False]), np.array([1, 0])):
            with pytest.raises(ImmutableError, match=f"would change {place}"):
                reach(module)[index] = 5.0
    for leaf in rlx.tree.leaves(module):
        with pytest.raises(ImmutableError, match="modules are immutable"):
            leaf[0] = 5.0
    assert [np.asarray(x).tolist() for x in rlx.tree.leaves(module)] == before


def test_the_error_names_the_field_and_what_to_write():
    m = net()
    with pytest.raises(ImmutableError) as caught:
        m.inner.weight[0, 0] = 77.0
    assert str(caught.value).splitlines()[0] == (
        "modules are immutable: x[i] = v would change Inner.weight"
    )
    assert "m = m.replace(weight=m.weight.at[i].set(v))" in str(caught.value)
    m = m.replace(inner=m.inner.replace(weight=m.inner.weight.at[0, 0].set(77.0)))
    assert m.inner.weight.tolist() == [[77, 1], [1, 1]]
    own = m.bias.copy()
    own[0] = 3.0
    assert own.tolist() == [3, 1] and m.bias.tolist() == [1, 1]


@pytest.mark.parametrize("wrap", [lambda f: f, rlx.jit], ids=["at once", "jit"])
def test_arrays_of_the_user_stay_the_users(wrap):
    def program(x: Any) -> Any:
        w, parts, b = x * 1, [x * 1], x * 1
        module = Net(Inner(w), rnp.ones(2), {"a": parts}).replace(bias=b)
        w[0], parts[0][1], b[0] = 5.0, 6.0, 7.0
        parts.append(w)
        return module, w, parts[0], b

    module, w, part, b = wrap(program)(rnp.ones(2))
    assert (w.tolist(), part.tolist(), b.tolist()) == ([5, 1], [1, 6], [7, 1])
    assert all(x.tolist() == [1, 1] for x in (module.inner.weight, module.bias))
    assert [x.tolist() for x in module.parts["a"]] == [[1, 1]]


def test_numpy_arrays_are_the_modules_own():
    given = np.ones(2, np.float32)
    module = Inner(given)
    given[0] = 5.0
    assert module.weight.tolist() == [1, 1]
    with pytest.raises(ValueError, match="read-only"):
        module.weight[0] = 5.0
    given.flags.writeable = False
    assert Inner(given).weight is given, "what nobody writes to is not copied"


def test_a_module_may_write_to_its_arrays_while_it_is_made():
    class Ramp(nn.Module):
        table: rlx.Array

        def __init__(self, n):
            self.table = rnp.zeros(n)
            for i in range(n):
                self.table[i] = i * i

    module = Ramp(3)
    assert module.table.tolist() == [0, 1, 4]
    with pytest.raises(ImmutableError, match=r"Ramp\.table"):
        module.table[0] = 5.0


def test_traced_modules_are_immutable_too():
    @rlx.jit
    def f(m, x):
        m.inner.weight[0] = x
        return m

    with pytest.raises(ImmutableError, match=r"would change Inner\.weight"):
        f(net(), 1.0)


def test_one_array_in_two_fields_can_be_donated_and_trained():
    w = rnp.ones(3)
    module = Inner(w, w)
    step = rlx.jit(lambda m: rlx.tree.map(lambda x: x + 1, m), donate_argnames="m")
    for _ in range(3):
        module = step(module)
    assert module.weight.tolist() == module.table.tolist() == [4, 4, 4]
    assert w.tolist() == [1, 1, 1]


def test_fields_without_a_value_are_missing():
    class Lazy(nn.Module):
        weight: rlx.Array
        known: bool = nn.field(static=True, default=False)

        def __init__(self):
            self.known = hasattr(self, "weight")
            self.weight = rnp.ones(2)

    assert not Lazy().known and not hasattr(Lazy, "weight")
    with pytest.raises(TypeError, match="weight"):
        Inner()
