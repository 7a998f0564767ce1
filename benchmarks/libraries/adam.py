"""Adam for libraries that bring none for plain trees."""

from __future__ import annotations

from typing import Any

from ..trees import tree_map


def adam_step(xp: Any, state: Any, grads: Any, rate: float) -> Any:
    """The parameters, moments and count after one step."""
    parameters, mean, square, count = state
    count = count + 1
    mean = tree_map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = tree_map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)
    mean_scale, square_scale = 1 / (1 - 0.9**count), 1 / (1 - 0.999**count)

    def moved(p: Any, m: Any, s: Any) -> Any:
        return p - rate * (m * mean_scale) / (xp.sqrt(s * square_scale) + 1e-8)

    return tree_map(moved, parameters, mean, square), mean, square, count
