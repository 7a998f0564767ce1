"""PyTorch in the words of the benchmarks, eager or compiled by inductor."""

from __future__ import annotations

import os
from typing import Any, ClassVar, final

import numpy as np
import torch
import torch.nn.functional as F

from ..trees import leaves, refilled, tree_map
from .library import Function, Lacks, Library, Places


@final
class Torch(Library):
    """Loops are Python's; a compiled one runs a compiled body in them."""

    packages = ("torch",)
    xp = torch
    places: ClassVar[Places] = {"weight": (1, 0)}

    def __init__(self, compiles: bool) -> None:
        self.name, self.compiles = "torch-compiled" if compiles else "torch", compiles
        torch.set_num_threads(os.cpu_count() or 1)
        torch.set_grad_enabled(False)

    def array(self, x: np.ndarray) -> Any:
        if x.dtype.name == "bfloat16":
            return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
        return torch.from_numpy(np.array(x))

    def numpy(self, x: Any) -> np.ndarray:
        x = x.float() if x.dtype == torch.bfloat16 else x
        return x.detach().numpy()

    def compile(self, f: Function, loops: bool = False) -> Function:
        if not self.compiles or loops or hasattr(f, "has_compiled_parts"):
            return f
        return torch.compile(f, dynamic=False)

    def eager(self, f: Function) -> Function:
        if self.compiles:
            raise Lacks("eager is PyTorch without torch.compile")
        return f

    def finished(self, call: str, result: Any) -> str:
        return call

    def forget(self) -> None:
        torch.compiler.reset()

    def gradient(self, f: Function, alone: bool = False) -> Function:
        compiled = self.compile(f)

        def value_and_grad(tree: Any, *args: Any) -> Any:
            with torch.enable_grad():
                tree = tree_map(lambda x: x.detach().requires_grad_(), tree)
                value = compiled(tree, *args)
                grads = torch.autograd.grad(value, leaves(tree))
            grads = refilled(tree, iter(grads))
            return grads if alone else (value.detach(), grads)

        value_and_grad.has_compiled_parts = True  # the backward pass is compiled with the forward
        return value_and_grad

    def stream(self, f: Function, state: Any) -> Function:
        compiled, kept = self.compile(f), [state]

        def step(*args: Any) -> Any:
            result, kept[0] = compiled(kept[0], *args)
            return result

        return step

    def trainer(self, loss: Function, parameters: Any, rate: float) -> Function:
        compiled = self.compile(loss)
        for x in leaves(parameters):
            x.requires_grad_()
        optimizer = torch.optim.Adam(leaves(parameters), rate, fused=True)

        def step(*batch: Any) -> Any:
            with torch.enable_grad():
                value = compiled(parameters, *batch)
                value.backward()
            optimizer.step()
            optimizer.zero_grad()
            return value.detach()

        return step

    def vmap(self, f: Function, axes: tuple[int | None, ...]) -> Function:
        return torch.vmap(f, axes)

    def scan(self, f: Function, first: Any, xs: Any) -> tuple[Any, Any]:
        body, carry, made = self.compile(f), first, []
        for x in xs:
            carry, y = body(carry, x)
            made.append(y)
        return carry, None if made[0] is None else torch.stack(made)

    def lstm(self, p: Any, xs: Any) -> Any:
        first = xs.new_zeros(1, xs.shape[1], p["hidden"].shape[1])
        weights = [p["input"], p["hidden"], p["bias"], torch.zeros_like(p["bias"])]
        return torch.lstm(xs, [first, first], weights, True, 1, 0.0, False, False, False)[0]

    def rnn(self, p: Any, xs: Any) -> Any:
        first = xs.new_zeros(1, xs.shape[1], p["hidden"].shape[1])
        weights = [p["input"], p["hidden"], p["bias"], torch.zeros_like(p["bias"])]
        return torch.rnn_tanh(xs, first, weights, True, 1, 0.0, False, False, False)[0]

    # -- sums, order, places ----------------------------------------------------------------------

    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return torch.sum(x, axis, keepdim=keepdims) if axis is not None else torch.sum(x)

    def variance(self, x: Any) -> Any:
        return torch.var(x, -1, correction=0)

    def max(self, x: Any, axis: int) -> Any:
        return torch.amax(x, axis)

    def sort(self, x: Any) -> Any:
        return torch.sort(x).values

    def smallest(self, x: Any, count: int) -> tuple[Any, Any]:
        found = torch.topk(x, count, largest=False)
        return found.values, found.indices

    def scatter_add(self, x: Any, places: Any, values: Any) -> Any:
        return x.index_add(0, places, values)

    def with_element(self, x: Any, place: int, value: Any) -> Any:
        made = x.clone()
        made[place] = value
        return made

    def segment_sum(self, x: Any, ids: Any, count: int) -> Any:
        return x.new_zeros(count, *x.shape[1:]).index_add(0, ids, x)

    def transposed(self, x: Any) -> Any:
        return x.T.contiguous()

    def astype(self, x: Any, like: Any) -> Any:
        return x.to(like.dtype)

    # -- products ---------------------------------------------------------------------------------

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return F.linear(x, weight, bias)

    def int8_product(self, x: Any, y: Any) -> Any:
        return torch.ops.aten._int_mm(x, y)

    def conv(self, x: Any, kernel: Any, stride: int = 1, groups: int = 1, pad: int = 1) -> Any:
        return F.conv2d(x, kernel, stride=stride, padding=pad, groups=groups)

    def conv_transpose(self, x: Any, kernel: Any) -> Any:
        return F.conv_transpose2d(x, kernel, stride=2, padding=1, output_padding=1)

    # -- layers -----------------------------------------------------------------------------------

    def softmax(self, x: Any) -> Any:
        return F.softmax(x, -1)

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        return F.layer_norm(x, scale.shape, scale, bias)

    def gelu(self, x: Any) -> Any:
        return F.gelu(x, approximate="tanh")

    def relu(self, x: Any) -> Any:
        return F.relu(x)

    def sigmoid(self, x: Any) -> Any:
        return torch.sigmoid(x)

    def erf(self, x: Any) -> Any:
        return torch.erf(x)

    def heads(self, x: Any, count: int) -> Any:
        return x.unflatten(2, (count, x.shape[2] // count)).transpose(1, 2)

    def merged(self, x: Any) -> Any:
        return x.transpose(1, 2).flatten(2)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False, mask: Any = None) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

    def written(self, cache: Any, new: Any, position: Any) -> Any:
        return cache.index_copy_(2, position + torch.arange(new.shape[2]), new)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten().long())

    def batch_norm(self, x: Any, p: Any, training: bool) -> Any:
        if training:
            return F.batch_norm(x, None, None, p["scale"], p["bias"], True)
        return F.batch_norm(x, p["mean"], p["var"], p["scale"], p["bias"])

    def max_pool(self, x: Any) -> Any:
        return F.max_pool2d(x, 3, 2, 1)

    def spatial_mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def tokens(self, x: Any) -> Any:
        return x.flatten(2).transpose(1, 2)
