"""Calibration: the weights of products, and the ranges of inputs in examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError
from ..ir.types import Type
from ..trace import pytree
from ..trace.array import new_array
from ..transforms.run_graph import run_graph
from .plan import Plan, Ranged, part_of
from .products import Product, features
from .ranges import Seen, SeenFeatures

Example = tuple[Any, ...]


def has_numbers(example: Example) -> bool:
    """Whether an example has no specs."""
    return not any(isinstance(x, Type) for x in pytree.leaves(example))


def weights_of(plan: Plan, leaves: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The weights of the quantized products, as these see them."""
    recording = plan.source.record(plan.source.types, *plan.example)
    operands = [*(leaves[path] for path in plan.source.paths), *recording.operands[len(leaves) :]]
    found = {}
    for node, product in plan.matched(recording.products).items():
        (w,) = run_graph(*part_of(recording.graph, [node.args[product.side]], operands))
        found[product.name] = np.asarray(w)
        if not np.isfinite(found[product.name].astype(np.float32)).all():
            raise ArgumentError(
                f"quantize: the weight {product.name} has numbers that are not finite",
                fix=f"mend them, or skip={[product.name]!r}",
            )
    return found


def calibrated(plan: Plan, examples: Sequence[Example]) -> dict[str, Ranged]:
    """The ranges of the inputs of products, from what the examples make of them."""

    weights = weights_of(plan, plan.source.leaves)
    smooth = _smoothing(plan, examples, weights)
    seen: dict[str, Seen] = {}
    for number, example in enumerate(examples):
        for name, (x, axis) in _inputs(plan, number, example).items():
            if name in smooth:
                x = np.moveaxis(np.moveaxis(x, axis, -1) / smooth[name], -1, axis)
            seen.setdefault(name, Seen()).add(x)
    codes, ranges = plan.input_codes, {}
    for name, one in seen.items():
        scale, zero = codes.scales(*one.range(plan.scheme, codes))
        factors = 1 / (scale * smooth[name]) if name in smooth else None
        arrays = (None if n is None else _array(n) for n in (scale, zero, factors))
        ranges[name] = Ranged(*arrays)
    return ranges


def _array(x: Any) -> Any:
    return new_array(np.array(x, np.float32))


def _inputs(plan: Plan, number: int, example: Example) -> dict[str, Any]:
    """The inputs of all products for an example, with the axes of their features.

    There is no such axis where several are summed over, or where not all products agree.
    """
    if not has_numbers(example):
        raise ArgumentError(
            f"quantize: example {number} of the calibration has specs, no numbers",
            fix='give arrays, or a scheme without ranges of inputs: "w8", "w8a8_dynamic"',
        )
    recording = plan.source.record(plan.source.leaves, example, {})
    values, axes = {}, {}
    for node, product in plan.matched(recording.products).items():
        name, axis = product.inputs, features(node, product)
        values[name] = node.args[1 - product.side]
        axes[name] = axis if axes.get(name, axis) == axis else None
    results = run_graph(*part_of(recording.graph, [*values.values()], recording.operands))
    found = {}
    for name, result in zip(values, results, strict=True):
        x = np.asarray(result).astype(np.float32)
        if not x.size:
            raise ArgumentError(
                f"quantize: example {number} of the calibration is empty: there are no inputs of "
                f"{name}",
                fix="leave the example out",
            )
        if not np.isfinite(x).all():
            raise ArgumentError(
                f"quantize: example {number} of the calibration makes numbers that are not "
                f"finite: the inputs of {name}",
                fix="leave the example out, or skip the layer",
            )
        found[name] = x, axes[name]
    return found


# -- smoothing -------------------------------------------------------------------------------------


def _smoothing(
    plan: Plan, examples: Sequence[Example], weights: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What the features of inputs are divided by, and those of weights multiplied by."""
    part = plan.scheme.smoothing
    if part is None or plan.trains:
        return {}
    seen: dict[str, SeenFeatures] = {}
    for number, example in enumerate(examples):
        for name, (x, axis) in _inputs(plan, number, example).items():
            if axis is not None:
                seen.setdefault(name, SeenFeatures(x.shape[axis])).add(x, axis)
    sizes: dict[str, np.ndarray] = {}
    for product in plan.quantized:
        if product.inputs in seen:
            assert product.layout is not None, "it is quantized"
            lines = np.abs(product.layout.lines(weights[product.name])).max(0, initial=0)
            sizes[product.inputs] = np.maximum(sizes.get(product.inputs, 0), lines)
    return {name: one.smoothing(sizes[name], part) for name, one in seen.items()}


def with_factors(w: np.ndarray, product: Product, range: Ranged | None) -> np.ndarray:
    """A weight that takes inputs whose features were multiplied by factors."""
    if range is None or range.factors is None:
        return w
    assert product.layout is not None, "it is quantized"
    smooth = 1 / (np.asarray(range.factors) * np.asarray(range.scale))
    (axis,) = product.layout.summed
    with np.errstate(over="ignore"):  # which its scale tells
        return np.moveaxis(np.moveaxis(w, axis, -1) * smooth, -1, axis)
