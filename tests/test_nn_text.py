"""Modules as text: reprs on several lines, the table of layers."""

from __future__ import annotations

import inspect

import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.errors import ArgumentError, ShapeError

KEYS = rlx.random.split(rlx.random.key(0), 3)


class Parts(nn.Module):
    """A module of containers, some of them empty, with a static tuple."""

    layers: dict
    pair: tuple
    nothing: list
    sizes: tuple = nn.field(static=True)

    def __call__(self, x, *, key=None):
        return self.layers["norm"](self.layers["first"](x)), x


def parts() -> Parts:
    first = nn.WeightNorm(nn.Linear(3, 4, key=KEYS[0]))
    layers = {"first": first, "norm": nn.GroupNorm(4, 2), "extra": nn.Dropout()}
    return Parts(layers, (rnp.ones(2),), [], (1, 2))


def test_long_modules_print_on_several_lines():
    assert repr(nn.Sequential([nn.relu])) == "Sequential(layers=(Lambda(function=relu),))"
    assert repr(parts()) == inspect.cleandoc(
        """
        Parts(
          layers={
            'first': WeightNorm(
              layer=Linear(weight=f32[3, 4], bias=f32[4]),
              scale=f32[1, 4],
              name='weight',
              axis=1,
            ),
            'norm': GroupNorm(scale=f32[4], bias=f32[4], size=4, groups=2, eps=1e-05),
            'extra': Dropout(rate=0.5, inference=False, broadcast_dims=()),
          },
          pair=(f32[2],),
          nothing=[],
          sizes=(1, 2),
        )
        """
    )


def test_the_table_of_a_model():
    model = nn.Sequential(
        [
            nn.Linear(30, 40, key=KEYS[0]),
            nn.BatchNorm(40),
            nn.LoRA(nn.Linear(40, 2, key=KEYS[1]), 1, key=KEYS[2]),
        ]
    )
    found = [line.rstrip() for line in nn.summary(model).splitlines()]
    assert (
        found
        == inspect.cleandoc(
            """
        path                   class       arrays                                                  parameters  state  bytes
        model                  Sequential                                                               1,362    162  6,096
        model.layers[0]        Linear      weight=f32[30, 40], bias=f32[40]                             1,240      0  4,960
        model.layers[1]        BatchNorm   scale=f32[40], bias=f32[40], mean=f32[40], var=f32[40]          80     80    640
        model.layers[2]        LoRA        down=f32[40, 1], up=f32[1, 2]                                   42     82    496
        model.layers[2].layer  Linear      weight=f32[40, 2], bias=f32[2]                                  82      0    328
        """  # noqa: E501
        ).splitlines()
    )


def test_the_table_tells_results_and_leaves_the_model_as_it_is():
    model = nn.Sequential([nn.BatchNorm(3), nn.Dropout(0.5), parts()])
    found = nn.summary(model, rlx.spec((8, 3))).splitlines()
    results = {line.split("  ")[0]: line for line in found}
    assert "BatchNorm   f32[8, 3] " in results["model.layers[0]"]
    assert "Dropout     f32[8, 3] " in results["model.layers[1]"]
    assert "Parts       f32[8, 4], f32[8, 3] " in results["model.layers[2]"]
    assert "Linear      f32[8, 4] " in results['model.layers[2].layers["first"].layer']
    assert "Dropout                " in results['model.layers[2].layers["extra"]']
    with pytest.raises(ArgumentError, match="training mode"):
        model(rnp.ones((8, 3)))


def test_the_table_of_any_tree():
    found = nn.summary([nn.Linear(1, 2, key=KEYS[0]), rnp.ones(3), None])
    assert found.splitlines()[1].split() == [
        *("model[0]", "Linear", "weight=f32[1,", "2],", "bias=f32[2]", "4", "0", "16")
    ]
    with pytest.raises(ArgumentError, match=r"summary: the model is .* not a function"):
        nn.summary([nn.Linear(1, 2, key=KEYS[0])], rnp.ones(3))
    with pytest.raises(ShapeError, match="matmul"):
        nn.summary(nn.Linear(1, 2, key=KEYS[0]), rnp.ones(3))
