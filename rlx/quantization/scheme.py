"""Schemes: what is brought to how many bits, and how ranges are chosen."""

from __future__ import annotations

from typing import Any

from ..ir.errors import ArgumentError
from ..ir.record import record
from ..trace.arguments import choice, flag
from ..trace.array_arguments import known_real

WEIGHT_BITS, GROUPS = (8, 4), (32, 64, 128)
ACTIVATIONS = ("float", "static", "dynamic")
GRANULARITIES = ("tensor", "channel", *GROUPS)
RANGES = ("minmax", "percentile", "mse")
ROUNDINGS = ("nearest", "gptq")


@record
class Scheme:
    """How a model is quantized, for `rlx.quantize`.

    `weights` is the number of bits of a weight, 8 or 4. `activations` says what weights are
    multiplied by: "float", which makes products of floats; "static", int8 numbers whose ranges come
    from calibration; or "dynamic", int8 numbers whose ranges each call finds, one for each line
    that is summed over. `granularity` says what shares a scale: the whole weight ("tensor"), what
    makes one output ("channel"), or 32, 64 or 128 inputs of one output. `symmetric_weights` and
    `symmetric_activations` put the code 0 at the number 0; else ranges reach from the least number
    to the greatest. `weight_ranges` and `activation_ranges` are "minmax", the whole range;
    "percentile", all but the outermost of `percentile` percent; or "mse", that of the least squared
    error. `smoothing` moves a part of the differences between the features of static inputs into
    the weights of matrix products, as in "SmoothQuant", Xiao et al., 2022: from 0, those of weights
    alone are leveled, to 1, those of inputs alone; None for nothing.

    Products of int8 numbers need weights of 8 bits that are symmetric, per tensor or channel;
    weights of 4 bits and "gptq" need groups; groups of 8 bits are symmetric: else it is an
    `ArgumentError`.
    Where the inputs of a weight do not part in groups, 8 bits have a scale for each channel, and
    what should have 4 bits stays float.

    >>> from rlx.quantization import Scheme
    >>> Scheme(weights=4, granularity=64).activations
    'float'
    """

    weights: int = 8
    activations: str = "float"
    granularity: Any = "channel"
    symmetric_weights: bool = True
    symmetric_activations: bool = False
    weight_ranges: str = "minmax"
    activation_ranges: str = "minmax"
    percentile: float = 99.99
    smoothing: float | None = 0.7
    weight_rounding: str = "nearest"

    def __post_init__(self) -> None:
        choice("Scheme: weights", self.weights, WEIGHT_BITS)
        choice("Scheme: activations", self.activations, ACTIVATIONS)
        choice("Scheme: granularity", self.granularity, GRANULARITIES)
        choice("Scheme: weight_ranges", self.weight_ranges, RANGES)
        choice("Scheme: activation_ranges", self.activation_ranges, RANGES)
        choice("Scheme: weight_rounding", self.weight_rounding, ROUNDINGS)
        flag("Scheme: symmetric_weights", self.symmetric_weights)
        flag("Scheme: symmetric_activations", self.symmetric_activations)
        if not 50 < known_real("Scheme: percentile", self.percentile) <= 100:
            raise ArgumentError(
                f"Scheme: the percentile is {self.percentile}", fix="use one above 50, up to 100"
            )
        if (
            self.smoothing is not None
            and not 0 <= known_real("Scheme: smoothing", self.smoothing) <= 1
        ):
            raise ArgumentError(
                f"Scheme: the smoothing is {self.smoothing}", fix="use 0 to 1, or None"
            )
        is_int8 = self.weights == 8 and self.symmetric_weights and not self.has_groups
        if self.activations != "float" and not is_int8:
            raise ArgumentError(
                f"Scheme: {self.activations} activations multiply weights of 8 bits that are\n"
                'symmetric, per "tensor" or "channel"',
                fix='give such weights, or activations="float"',
            )
        if self.weights == 4 and not self.has_groups:
            raise ArgumentError(
                "Scheme: weights of 4 bits have scales of groups",
                fix="give a granularity of 32, 64 or 128",
            )
        if self.weight_rounding == "gptq" and not self.has_groups:
            raise ArgumentError(
                "Scheme: codes that make up for errors have scales of groups",
                fix='give a granularity of 32, 64 or 128, or weight_rounding="nearest"',
            )
        if self.weights == 8 and self.has_groups and not self.symmetric_weights:
            raise ArgumentError(
                "Scheme: groups of 8-bit weights are symmetric",
                fix='give symmetric_weights=True, or granularity="channel"',
            )

    @property
    def has_groups(self) -> bool:
        """Whether scales are those of groups of inputs."""
        return isinstance(self.granularity, int)

    @property
    def text(self) -> str:
        """The name of the scheme, if it has one."""
        known = [name for name, scheme in SCHEMES.items() if scheme == self]
        if known:
            return known[0]
        inputs = "" if self.activations == "float" else f", {self.activations} int8 activations"
        of = f"in groups of {self.granularity}" if self.has_groups else f"per {self.granularity}"
        how = " by GPTQ" if self.weight_rounding == "gptq" else ""
        return f"int{self.weights} weights {of}{how}{inputs}"


SCHEMES = {
    "w8": Scheme(granularity=32),
    "w4": Scheme(weights=4, granularity=32, symmetric_weights=False, weight_ranges="mse"),
    "w4_gptq": Scheme(4, granularity=32, symmetric_weights=False, weight_rounding="gptq"),
    "w8a8": Scheme(activations="static"),
    "w8a8_dynamic": Scheme(activations="dynamic", symmetric_activations=True),
}


def scheme_of(given: Any) -> Scheme:
    """The scheme that a name stands for, or the scheme itself."""
    if isinstance(given, Scheme):
        return given
    return SCHEMES[choice("quantize: scheme", given, SCHEMES)]
