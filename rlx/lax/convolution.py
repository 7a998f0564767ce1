"""Convolutions: axes in any order, padding by name, and the op they all come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..ir.errors import AttributeValueError, ShapeError
from ..ir.types import as_dtype
from ..trace.apply import apply, as_tensor
from ..trace.arguments import check_precision, choice, count_of, flag, members, wrong
from ..trace.array import Array
from ..trace.axes import integer
from ..transforms.eager import eager
from .contraction import dot_general
from .operands import Tensor, integers, sequence, steps_of, strict_dtype
from .reductions import Padding, dilated_size, pads_of
from .shapes import pad, rev, transpose

Spec = tuple[int, ...]
# (batch, features, spatial...) in the order of JAX, which is that of TensorFlow
TRANSPOSED_SPECS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


class ConvDimensionNumbers(NamedTuple):
    """The positions of the batch, feature and spatial axes of a convolution.

    `lhs_spec` and `out_spec` list batch, feature, then spatial axes; `rhs_spec` output and input
    features first.
    """

    lhs_spec: Spec
    rhs_spec: Spec
    out_spec: Spec


def conv_dimension_numbers(
    lhs_shape: Sequence[Any], rhs_shape: Sequence[Any], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Convert three strings such as ("NHWC", "HWIO", "NHWC") to axis positions.

    They are `dimension_numbers`, for the array, the kernel and the result. None means batch,
    features, spatial axes, and for the kernel outputs, inputs, spatial axes. Returns a
    `ConvDimensionNumbers`.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(sequence("conv_dimension_numbers: the shape of lhs", lhs_shape))
    if rank != len(sequence("conv_dimension_numbers: the shape of rhs", rhs_shape)) or rank < 2:
        raise ShapeError(
            f"a convolution of an array with {rank} axes and a kernel with {len(rhs_shape)}",
            fix="give both the same number of axes: batch and features, and the spatial ones",
        )
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(rank))] * 3)
    given = sequence("the dimension_numbers of a convolution", dimension_numbers)
    if len(given) != 3 or any(not isinstance(s, str) or len(set(s)) != rank for s in given):
        raise _bad_specs(dimension_numbers, f"three strings of {rank} different letters")
    lhs, rhs, out = given
    spatial = set(rhs) - set("OI")
    if {*lhs} != spatial | {*"NC"} or {*out} != {*lhs} or {*rhs} != spatial | {*"OI"}:
        raise _bad_specs(dimension_numbers, "N, C (O, I for the kernel) and one letter per axis")
    order = [c for c in rhs if c in spatial]
    return ConvDimensionNumbers(
        *(
            tuple(spec.index(c) for c in (*first, *order))
            for spec, first in ((lhs, "NC"), (rhs, "OI"), (out, "NC"))
        )
    )


def _bad_specs(given: Any, wanted: str) -> AttributeValueError:
    return AttributeValueError(
        f"the dimension_numbers {given!r} do not name the axes of a convolution",
        fix=f"use {wanted}, as in ('NHWC', 'HWIO', 'NHWC')",
    )


@eager
def conv_general_dilated(
    lhs: Tensor,
    rhs: Tensor,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The general convolution of an array and a kernel, which is not flipped.

    `padding` is "SAME", "VALID", "SAME_LOWER" or (before, after) for each spatial axis.
    `lhs_dilation` puts zeros between the elements of `lhs`, `rhs_dilation` between those of the
    kernel. `dimension_numbers` are those of `conv_dimension_numbers`. Each of `feature_group_count`
    groups of features has a part of the kernel; so has each of `batch_group_count` groups of the
    batch. `precision` has no effect: products are always exact.
    """
    check_precision("conv_general_dilated", precision)
    x, kernel = as_tensor(lhs), as_tensor(rhs)
    strict_dtype("conv_general_dilated", [x, kernel])
    specs = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    count = x.ndim - 2
    strides = integers("conv_general_dilated: window_strides", window_strides, count)
    spread = steps_of("lhs_dilation", lhs_dilation, count)
    dilation = steps_of("rhs_dilation", rhs_dilation, count)
    if isinstance(padding, str) and any(n != 1 for n in spread):
        raise AttributeValueError(
            f"conv_general_dilated: what {padding!r} pads is not clear with an lhs_dilation",
            fix="give the padding as numbers, or use lax.conv_transpose",
        )
    x, kernel = _in_order(x, specs.lhs_spec), _in_order(kernel, specs.rhs_spec)
    seen = [dilated_size(n, d) for n, d in zip(kernel.shape[2:], dilation, strict=True)]
    made = apply(
        "conv_general_dilated",
        x,
        kernel,
        window_strides=strides,
        padding=pads_of("conv_general_dilated", x.shape[2:], seen, strides, padding),
        lhs_dilation=spread,
        rhs_dilation=dilation,
        feature_group_count=integer(
            "conv_general_dilated: feature_group_count", feature_group_count
        ),
        batch_group_count=integer("conv_general_dilated: batch_group_count", batch_group_count),
        dtype=None if preferred_element_type is None else as_dtype(preferred_element_type),
    )
    return _in_order(made, _inverse(specs.out_spec))


def _in_order(x: Any, spec: Spec) -> Array:
    """The axes in another order, by a node only if it is another."""
    if len(spec) != x.ndim:
        raise ShapeError(
            f"the dimension_numbers name {len(spec)} axes of {x.type}",
            fix="name each axis of the array once",
        )
    return x if spec == tuple(range(x.ndim)) else transpose(x, spec)


def _inverse(spec: Spec) -> Spec:
    return tuple(sorted(range(len(spec)), key=spec.__getitem__))


def conv(
    lhs: Tensor,
    rhs: Tensor,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """A convolution of (batch, in, ...) with a kernel (out, in, ...)."""
    check_precision("conv", precision)
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Tensor,
    rhs: Tensor,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """A convolution of (batch, in, ...) with a kernel (out, in, ...), with dilations."""
    check_precision("conv_with_general_padding", precision)
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        preferred_element_type=preferred_element_type,
    )


def conv_transpose(
    lhs: Tensor,
    rhs: Tensor,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Transposed convolution (deconvolution), which upsamples by `strides`.

    It is the gradient of a convolution, for the padding "SAME" or "VALID" of that convolution;
    "SAME" gives `strides` times the size. Numbers pad the dilated input; with
    `use_consistent_padding` they are the padding of that convolution. `transpose_kernel` flips the
    kernel and swaps its features. Without `dimension_numbers` features come last, as in ("NHWC",
    "HWIO", "NHWC").
    """
    check_precision("conv_transpose", precision)
    x, kernel = as_tensor(lhs), as_tensor(rhs)
    if dimension_numbers is None:
        dimension_numbers = TRANSPOSED_SPECS.get(x.ndim)
    specs = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    count = x.ndim - 2
    steps = integers("conv_transpose: strides", strides, count)
    dilation = steps_of("conv_transpose: rhs_dilation", rhs_dilation, count)
    sizes = [kernel.shape[i] for i in specs.rhs_spec[2:]]
    seen = [dilated_size(n, d) for n, d in zip(sizes, dilation, strict=True)]
    is_named = isinstance(padding, str)
    if flag("conv_transpose: use_consistent_padding", use_consistent_padding) or is_named:
        each = (padding,) * count if is_named else members("conv_transpose: padding", padding)
        if len(each) != count:
            fix = "give a pair for each axis of the image"
            raise wrong("conv_transpose: padding", padding, f"for {count} axes", fix)
        lines = zip(seen, steps, each, strict=True)
        padding = [transposed_pads(*line) for line in lines]
    if flag("conv_transpose: transpose_kernel", transpose_kernel):
        out, inputs, *spatial = specs.rhs_spec
        order = list(range(kernel.ndim))
        order[out], order[inputs] = inputs, out
        kernel = transpose(rev(kernel, spatial), order)
    return conv_general_dilated(
        x,
        kernel,
        (1,) * count,
        padding,
        steps,
        dilation,
        specs,
        preferred_element_type=preferred_element_type,
    )


def transposed_pads(window: int, stride: int, padding: Any) -> tuple[int, int]:
    """The pads of the spread input, for those of the convolution that it transposes.

    That one has windows of so many places, and this stride.
    """
    if isinstance(padding, str):
        choice("the padding", padding, ("SAME", "VALID"))
    if isinstance(padding, str) and padding == "SAME":
        total = window + stride - 2
        before = window - 1 if stride > window - 1 else -(-total // 2)
        return before, total - before
    if isinstance(padding, str):
        return window - 1, stride - 1 + max(window - stride, 0)
    low, high = integers("conv_transpose: the padding of an axis", padding, 2)
    return window - 1 - low, window - 1 - high


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Spec, Spec, Spec]:
    """Convert three strings to the axis positions of the image, kernel and result.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    specs = members("conv_general_permutations: dimension_numbers", dimension_numbers)
    if not specs or not isinstance(specs[0], str):
        fix = 'give three texts, as ("NHWC", "HWIO", "NHWC")'
        raise wrong("conv_general_permutations: dimension_numbers", specs, "texts", fix)
    rank = (0,) * len(specs[0])
    image, kernel, result = conv_dimension_numbers(rank, rank, dimension_numbers)
    return image, kernel, result


def _shapes(name: str, image: Any, kernel: Any, rank: int | None = None) -> tuple[Any, Any]:
    """The shapes of an image and a kernel, of so many axes or as many as each other."""
    image, kernel = (
        integers(f"{name}: lhs_shape", image, rank),
        integers(f"{name}: rhs_shape", kernel, rank),
    )
    if len(image) != len(kernel) or len(image) < 2:
        raise wrong(f"{name}: rhs_shape", kernel, f"of as many axes as {image}", "give one each")
    return image, kernel


def _shapes_of_named(name: str, image: Any, kernel: Any, numbers: Any) -> tuple[Any, Any, Spec]:
    """The shapes with the batch, the features and the spatial axes in order; where results go."""
    lhs, rhs, out = conv_general_permutations(numbers)
    image, kernel = _shapes(name, image, kernel, len(lhs))
    return [image[i] for i in lhs], [kernel[i] for i in rhs], out


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Padding,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution of (batch, in, ...) with (out, in, ...).

    `pads` is (before, after) for each spatial axis, `batch_group_count` as for
    `conv_general_dilated`.

    >>> conv_shape_tuple((2, 3, 6, 7), (4, 3, 3, 2), (1, 1), "SAME")
    (2, 4, 6, 7)
    """
    lhs_shape, rhs_shape = _shapes("conv_shape_tuple", lhs_shape, rhs_shape)
    strides = integers("conv_shape_tuple: strides", strides, len(lhs_shape) - 2)
    for stride in strides:
        count_of("conv_shape_tuple: a stride", stride, 1)
    batch_group_count = count_of("conv_shape_tuple: batch_group_count", batch_group_count, 1)
    each = pads_of("conv_shape_tuple", lhs_shape[2:], rhs_shape[2:], strides, pads)
    padded = [n + low + high for n, (low, high) in zip(lhs_shape[2:], each, strict=True)]
    lines = zip(padded, rhs_shape[2:], strides, strict=True)
    spatial = [max((n - window) // stride + 1, 0) for n, window, stride in lines]
    return lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a convolution with named axes."""
    name = "conv_general_shape_tuple"
    image, kernel, out = _shapes_of_named(name, lhs_shape, rhs_shape, dimension_numbers)
    made = conv_shape_tuple(image, kernel, window_strides, padding)
    return tuple(made[i] for i in _inverse(out))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a transposed convolution with named axes."""
    name = "conv_transpose_shape_tuple"
    image, kernel, out = _shapes_of_named(name, lhs_shape, rhs_shape, dimension_numbers)
    count = len(image) - 2
    steps = integers(f"{name}: window_strides", window_strides, count)
    each = (padding,) * count if isinstance(padding, str) else sequence(f"{name}: padding", padding)
    if len(each) != count:
        raise wrong(f"{name}: padding", padding, f"for {count} axes", "give a pair for each axis")
    spatial = []
    for n, window, stride, pads in zip(image[2:], kernel[2:], steps, each, strict=True):
        if isinstance(pads, str):
            low, high = transposed_pads(window, stride, pads)
        else:
            low, high = integers(f"{name}: the padding of an axis", pads, 2)
        spatial.append((n - 1) * stride - window + 2 + low + high)
    made = (image[0], kernel[0], *spatial)
    return tuple(made[i] for i in _inverse(out))


def conv_general_dilated_patches(
    lhs: Tensor,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The patches that a convolution's kernel sees, as features of the result.

    They have the shape `filter_shape`, and are ordered by the feature of `lhs`, then by the
    position in the window.
    """
    check_precision("conv_general_dilated_patches", precision)
    x = as_tensor(lhs)
    count = x.ndim - 2
    sizes = integers("conv_general_dilated_patches: filter_shape", filter_shape, count)
    specs = conv_dimension_numbers(x.shape, (1,) * x.ndim, dimension_numbers)
    strides = integers("conv_general_dilated_patches: window_strides", window_strides, count)
    spread, dilation = (
        steps_of("lhs_dilation", lhs_dilation, count),
        steps_of("rhs_dilation", rhs_dilation, count),
    )
    x = _in_order(x, specs.lhs_spec)
    seen = [dilated_size(n, d) for n, d in zip(sizes, dilation, strict=True)]
    pads = pads_of("conv_general_dilated_patches", x.shape[2:], seen, strides, padding)
    config = [(low, high, n - 1) for (low, high), n in zip(pads, spread, strict=True)]
    x = pad(x, 0, [(0, 0, 0), (0, 0, 0), *config])
    for i in range(count):
        x = apply("windows", x, axis=i + 2, size=sizes[i], stride=strides[i], dilation=dilation[i])
    places = range(2, count + 2)
    x = transpose(x, (0, 1, *range(count + 2, x.ndim), *places))
    x = x.reshape((x.shape[0], -1, *x.shape[2 + count :]))
    x = x if preferred_element_type is None else x.astype(preferred_element_type)
    return _in_order(x, _inverse(specs.out_spec))


def conv_general_dilated_local(
    lhs: Tensor,
    rhs: Tensor,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """A locally connected layer: a convolution with its own kernel at each position.

    The spatial axes of `rhs` are the positions of the result; its input features are those of
    `conv_general_dilated_patches`, with windows of the shape `filter_shape`.
    """
    check_precision("conv_general_dilated_local", precision)
    x, kernels = as_tensor(lhs), as_tensor(rhs)
    strict_dtype("conv_general_dilated_local", [x, kernels])
    specs = conv_dimension_numbers(x.shape, kernels.shape, dimension_numbers)
    first = tuple(range(x.ndim))
    seen = conv_general_dilated_patches(
        _in_order(x, specs.lhs_spec),
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        ConvDimensionNumbers(first, first, first),
    )
    kernels = _in_order(kernels, specs.rhs_spec)
    places = first[2:]
    made = dot_general(kernels, seen, (((1,), (1,)), (places, places)))
    count = len(places)
    made = _in_order(made, (count + 1, count, *range(count)))  # (places, out, batch) before
    return _in_order(made, _inverse(specs.out_spec))
