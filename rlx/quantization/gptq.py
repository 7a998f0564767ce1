"""GPTQ: codes chosen in turn, so that later weights make up for errors.

"GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", Frantar et al.,
2022. The squared error of a product is `d H d^T`, of the differences `d` of a line of the weight
and the moments `H` of inputs. When the weight of an input has its code, the weights of the inputs
after it are moved to where the rest of the error is least: by the rows of the Cholesky factor of
the inverse of `H`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..nn.blocks import BlockArray
from .calibration import Example
from .moments import Inputs, Moments
from .plan import Plan
from .products import Product
from .ranges import Codes, fitted_rows
from .weights import Layout, group_of, in_blocks, pack

DAMPING = 0.01  # of the mean of the squares, added to all of them


def packed_weights(
    plan: Plan,
    products: Sequence[Product],
    leaves: Mapping[str, Any],
    floats: dict[str, np.ndarray],
    examples: Sequence[Example],
) -> dict[str, Any]:
    """The weights in few bits by their names; takes the `floats` away.

    Products of the same inputs are rounded together, with the inputs that they get from those
    before, which have few bits already.
    """
    together: dict[str, list[Product]] = {}
    for product in products:
        together.setdefault(product.inputs, []).append(product)
    inputs, weights = Inputs(plan, leaves, examples), dict[str, Any]()
    for name, some in together.items():
        is_any = any(_is_grouped(plan, product) for product in some)
        seen = inputs.moments(name, weights) if is_any else None
        for product in some:
            layout, w = _layout(product), floats.pop(product.name)
            if seen is None or not _is_grouped(plan, product):
                packed = pack(w, layout, plan.scheme, False, product.turned)
            else:
                packed = _packed(plan, layout, w, seen)
            weights[product.name] = packed
    return weights


def _layout(product: Product) -> Layout:
    assert product.layout is not None, "it is quantized"
    return product.layout


def _is_grouped(plan: Plan, product: Product) -> bool:
    return group_of(plan.scheme, _layout(product)) > 0


def _packed(plan: Plan, layout: Layout, w: np.ndarray, seen: Moments) -> BlockArray:
    scheme, lines = plan.scheme, layout.lines(w)
    codes = Codes.of(scheme.weights, scheme.symmetric_weights)
    own, off = (x.reshape(-1, layout.depth, layout.depth) for x in (seen.own, seen.off))
    group = group_of(scheme, layout)
    every = lines.reshape(len(own), -1, layout.depth)
    found = [
        rounded_lines(fitted_lines(x, h, d), h, group, codes)
        for x, h, d in zip(every, own, off, strict=True)
    ]
    near, step, least = (np.concatenate(each) for each in zip(*found, strict=True))
    return in_blocks(near, step, least, group, layout, scheme)


def fitted_lines(lines: np.ndarray, moment: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Lines that give for the inputs what they gave for those of the float function.

    `f32[n, k], f64[k, k], f64[k, k] → f32[n, k]`, of lines, the moments of inputs, and the sums of
    differences and inputs: the least squares of what the layers before have been rounded by.
    """
    if not off.any():
        return lines
    moved = np.linalg.solve(_damped(moment), (lines.astype(np.float64) @ off).T).T
    return (lines + moved).astype(np.float32)


def rounded_lines(
    lines: np.ndarray, moment: np.ndarray, group: int, codes: Codes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is left of lines in codes, with steps and least numbers.

    `f32[n, k], f64[k, k] → f32[n, k]`, of lines and the moments of inputs. Steps and least numbers
    are `f32[n, k / group]`, those of the least error of each group, in which a number counts as it
    does once those after it have moved.
    """
    count, depth = lines.shape
    factor = _factor(moment)
    weights = (1 / np.diag(factor) ** 2).astype(np.float32)
    left, near = lines.astype(np.float32), np.empty((count, depth), np.float32)
    steps, starts = (np.empty((count, depth // group), np.float32) for _ in range(2))
    for i in range(0, depth, group):
        some = slice(i, i + group)
        part, rows = left[:, some].copy(), factor[some]
        errors = np.empty_like(part)
        step, start = fitted_rows(part, weights[some], codes)
        for j in range(group):
            x = part[:, j]
            near[:, i + j] = codes.nearest(x, step, start)
            errors[:, j] = (x - near[:, i + j]) / rows[j, i + j]
            part[:, j + 1 :] -= errors[:, j, None] * rows[j, i + j + 1 : i + group]
        left[:, i + group :] -= errors @ rows[:, i + group :]
        steps[:, i // group], starts[:, i // group] = step, start
    return near, steps, starts


def _damped(moment: np.ndarray) -> np.ndarray:
    moment = moment.copy()
    squares = np.einsum("ii->i", moment)  # a view
    mean = squares.mean()
    squares += DAMPING * mean if mean > 0 else 1
    return moment


def _factor(moment: np.ndarray) -> np.ndarray:
    """The upper triangle U of which U^T U is the inverse of the damped moments."""
    lower = np.linalg.cholesky(_damped(moment)[::-1, ::-1])
    return np.linalg.inv(lower[::-1, ::-1]).astype(np.float32)
