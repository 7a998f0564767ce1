"""rlx in the words of the benchmarks."""

from __future__ import annotations

from typing import Any, final

import numpy as np

import rlx
from rlx import optim

from .jax_names import JaxNames
from .library import Function


@final
class Rlx(JaxNames):
    """Functions compiled by `rlx.jit`; results are there when a call returns."""

    name, packages = "rlx", ("rlx", "numpy", "llvmlite")
    xp, lax, nn, ops = rlx.numpy, rlx.lax, rlx.nn.functional, rlx.ops
    jit, value_and_grad = staticmethod(rlx.jit), staticmethod(rlx.value_and_grad)
    batched = staticmethod(rlx.vmap)

    def __init__(self) -> None:
        rlx.config.unroll_limit = 0  # a call with 500 arrays records a line 500 times

        rlx.Session()  # others open their device when they place the first array

    def array(self, x: np.ndarray) -> Any:
        return rlx.array(x)

    def model(self, f: Function) -> Function:
        name, kept = f.__code__.co_varnames[0], []

        def call(weights: Any, *args: Any) -> Any:
            if not kept:
                kept.append(rlx.jit(f).lower(weights, *args).compile())
                kept[0].bind(**{name: weights})
            return kept[0](*args)

        return call

    def finished(self, call: str, result: Any) -> str:
        return call

    def trainer(self, loss: Function, parameters: Any, rate: float) -> Function:
        optimizer, gradient = optim.adam(rate), rlx.value_and_grad(loss)

        def step(state: Any, *batch: Any) -> Any:
            parameters, moments = state
            value, grads = gradient(parameters, *batch)
            updates, moments = optimizer.update(grads, moments, parameters)
            return value, (optim.apply_updates(parameters, updates), moments)

        return self.stream(step, (parameters, optimizer.init(parameters)))

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        return rlx.nn.functional.layer_norm(x, scale, bias)

    def batch_norm(self, x: Any, p: Any, training: bool) -> Any:
        if not training:
            return super().batch_norm(x, p, training)
        norm = rlx.nn.BatchNorm(x.shape[-1]).replace(scale=p["scale"], bias=p["bias"])
        return rlx.nn.with_state(norm)(x)[0]

    def max_pool(self, x: Any) -> Any:
        return rlx.nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
