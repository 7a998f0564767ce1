"""Convolutions, of any number of axes.

Features come last, any axes of batches in front. Sizes, strides and dilations are given for each
axis between; a single integer is one for 1 axis where a kernel or a window is meant (and an error
for arrays of more axes than a batch, a length and features), and one for all axes elsewhere.
Padding is "SAME", "VALID", "SAME_LOWER", an integer, or one integer or (before, after) for each
axis.
"""

from __future__ import annotations

from typing import Any, final

from .. import lax, numpy as rnp
from ..ir.errors import ArgumentError
from ..ir.types import promote
from ..lax.convolution import transposed_pads
from ..trace.apply import as_tensor
from ..trace.arguments import choice
from ..trace.array import Array
from ..trace.promotion import convert, promote_operands, wide_dtype
from . import initializers
from .arguments import (
    Numbers,
    Pads,
    as_given,
    bias_of,
    check_features,
    check_one_axis,
    drawn,
    numbers,
    pads_of,
    with_one_batch_axis,
)
from .initializers import Initializer
from .module import Module, field

LETTERS = "DHWXYZ"
# by their names in PyTorch, those of `rnp.pad`
PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _specs(count: int) -> tuple[str, str, str]:
    axes = LETTERS[:count]
    return f"N{axes}C", f"{axes}IO", f"N{axes}C"


def _sizes_of_layer(
    name: str, in_size: int, out_size: int, kernel_size: Numbers, groups: int
) -> tuple[int, ...]:
    """The shape of a kernel: its axes, the inputs of a group, all outputs."""
    kernel = numbers(f"{name}: the kernel size", kernel_size)
    (groups,) = numbers(f"{name}: the number of groups", groups, 1)
    sizes = [numbers(f"{name}: a number of features", n, 1)[0] for n in (in_size, out_size)]
    if not 1 <= len(kernel) <= len(LETTERS):
        raise ArgumentError(
            f"{name}: a kernel of {len(kernel)} axes",
            fix=f"give 1 to {len(LETTERS)} sizes, one for each axis",
        )
    if any(n % groups for n in sizes):
        raise ArgumentError(
            f"{name}: {sizes[0]} inputs and {sizes[1]} outputs do not part in {groups} groups",
            fix=f"make both a multiple of {groups}",
        )
    return (*kernel, sizes[0] // groups, sizes[1])


@final
class Conv(Module):
    """A convolution: `f32[..., length, in] → f32[..., length, out]`.

    There may be several axes; `kernel_size` has a number for each, (3, 3) for images, and so may
    `stride` and `dilation`. A single one is for 1 axis; called with images it is a `ShapeError`.
    `padding` is "SAME", "VALID", or a pair for each axis. With `groups`, each group of outputs sees
    its group of inputs alone; with as many as inputs that is a depthwise convolution.
    `padding_mode` says what stands in the padding, as in PyTorch: "zeros", "reflect",
    "replicate" (the last number) or "circular". `weight` has the shape (*kernel_size, in / groups,
    out).

    >>> from rlx import random
    >>> Conv(3, 16, (3, 3), key=random.key(0), use_bias=False).weight.shape
    (3, 3, 3, 16)
    """

    weight: Array
    bias: Array | None
    kernel_size: int | tuple[int, ...] = field(static=True)
    stride: tuple[int, ...] = field(static=True)
    padding: Any = field(static=True)
    dilation: tuple[int, ...] = field(static=True)
    groups: int = field(static=True)
    padding_mode: str = field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        kernel_size: Numbers,
        *,
        key: Any,
        stride: Numbers = 1,
        padding: Pads = "SAME",
        dilation: Numbers = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        use_bias: bool = True,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        shape = _sizes_of_layer("Conv", in_size, out_size, kernel_size, groups)
        count, self.kernel_size = len(shape) - 2, as_given(kernel_size)
        self.stride = numbers("Conv: the stride", stride, count)
        self.padding = pads_of("Conv", padding, count)
        self.dilation = numbers("Conv: the dilation", dilation, count)
        self.groups = int(groups)
        self.padding_mode = choice("Conv: padding_mode", padding_mode, PADDING_MODES)
        self.weight = drawn("Conv", initializer, initializers.lecun_normal(), key, shape, dtype)
        self.bias = bias_of("Conv", use_bias, shape[-1], dtype)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x, weight = map(as_tensor, promote_operands(x, self.weight))
        check_one_axis("Conv", "the kernel size", self.kernel_size, x)
        check_features("Conv", x, weight.shape[-2] * self.groups, len(self.stride))
        x, batch = with_one_batch_axis("Conv", x, len(self.stride))
        x, padding = self._padded(x)
        y = lax.conv_general_dilated(
            x,
            weight,
            self.stride,
            padding,
            rhs_dilation=self.dilation,
            dimension_numbers=_specs(len(self.stride)),
            feature_group_count=self.groups,
            preferred_element_type=None if self.bias is None else wide_dtype(weight.dtype),
        )
        return _with_bias(rnp.reshape(y, (*batch, *y.shape[1:])), self.bias, weight.dtype)

    def _padded(self, x: Any) -> tuple[Any, Any]:
        """The input with what its edges say beside it, and the padding with zeros that is left."""
        if self.padding_mode == "zeros":
            return x, self.padding
        pads = self.padding
        if isinstance(pads, str):
            kernel = self.weight.shape[:-2]
            seen = [(n - 1) * d + 1 for n, d in zip(kernel, self.dilation, strict=True)]
            pads = lax.padtype_to_pads(x.shape[1:-1], seen, self.stride, pads)
        mode: Any = PADDING_MODES[self.padding_mode]
        return rnp.pad(x, ((0, 0), *pads, (0, 0)), mode), "VALID"


@final
class ConvTranspose(Module):
    """Transposed convolution (deconvolution), which upsamples by `stride`.

    `f32[..., length, in] → f32[..., stride * length, out]` with the `padding` "SAME": what the
    gradient of a convolution does. Numbers pad the input once it is spread by the stride, as in
    `lax.conv_transpose`: `dilation * (kernel_size - 1) - p` is PyTorch's padding p, and what more
    is given after it its `output_padding`. `kernel_size`, `dilation` and `groups` are as for
    `Conv`; `weight` has the shape (*kernel_size, in / groups, out), and is not flipped: PyTorch's
    is, along the axes of the kernel.

    >>> from rlx import random
    >>> layer = ConvTranspose(3, 16, (4, 4), key=random.key(0), stride=2)
    >>> layer(rnp.ones((1, 5, 5, 3))).shape
    (1, 10, 10, 16)
    """

    weight: Array
    bias: Array | None
    kernel_size: int | tuple[int, ...] = field(static=True)
    stride: tuple[int, ...] = field(static=True)
    padding: Any = field(static=True)
    dilation: tuple[int, ...] = field(static=True)
    groups: int = field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        kernel_size: Numbers,
        *,
        key: Any,
        stride: Numbers = 1,
        padding: Pads = "SAME",
        dilation: Numbers = 1,
        groups: int = 1,
        use_bias: bool = True,
        initializer: Initializer | None = None,
        dtype: Any = "float32",
    ) -> None:
        name = "ConvTranspose"
        shape = _sizes_of_layer(name, in_size, out_size, kernel_size, groups)
        count, self.kernel_size = len(shape) - 2, as_given(kernel_size)
        self.stride = numbers(f"{name}: the stride", stride, count)
        self.padding = pads_of(name, padding, count)
        self.dilation = numbers(f"{name}: the dilation", dilation, count)
        self.groups = int(groups)
        self.weight = drawn(name, initializer, initializers.lecun_normal(), key, shape, dtype)
        self.bias = bias_of(name, use_bias, shape[-1], dtype)

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        x, weight = map(as_tensor, promote_operands(x, self.weight))
        count = len(self.stride)
        check_one_axis("ConvTranspose", "the kernel size", self.kernel_size, x)
        check_features("ConvTranspose", x, weight.shape[-2] * self.groups, count)
        x, batch = with_one_batch_axis("ConvTranspose", x, count)
        y = lax.conv_general_dilated(
            x,
            weight,
            (1,) * count,
            self._pads(),
            self.stride,
            self.dilation,
            _specs(count),
            self.groups,
            preferred_element_type=None if self.bias is None else wide_dtype(weight.dtype),
        )
        return _with_bias(rnp.reshape(y, (*batch, *y.shape[1:])), self.bias, weight.dtype)

    def _pads(self) -> Any:
        """The pads of the input once it is spread."""
        if not isinstance(self.padding, str):
            return self.padding
        axes = zip(self.weight.shape, self.dilation, self.stride, strict=False)
        return [transposed_pads((n - 1) * d + 1, step, self.padding) for n, d, step in axes]


def _with_bias(y: Any, bias: Any, dtype: Any) -> Any:
    """The sum in the dtype that operands and bias meet in, rounded once."""
    if bias is None:
        return y
    return convert(y + bias, promote(dtype, bias.dtype))
