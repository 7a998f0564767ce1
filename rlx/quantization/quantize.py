"""`quantize`: a function with its weights, and perhaps its products, in few bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

from ..ir.builder import current
from ..ir.errors import ArgumentError
from ..ir.record import replace
from ..ir.tracebacks import boundary
from ..ir.types import Type
from ..nn.filters import is_array
from ..nn.module import Module, field
from ..trace import pytree
from ..trace.apply import as_operand, operand_type
from ..trace.arguments import flag, shown
from ..trace.array import Array, new_array
from ..trace.host import to_numpy
from ..trace.tensor import TracedTensor
from ..transforms.jit.jit import jit
from .calibration import calibrated, has_numbers, weights_of, with_factors
from .gptq import packed_weights
from .plan import Plan, Ranged, Source
from .products import Product, choose, loops_with_products
from .report import Report, measured
from .scheme import Scheme, scheme_of
from .weights import pack

Example = tuple[Any, ...]


@final
class Quantized(Module):
    """A function with weights in few bits, as `rlx.quantize` makes it.

    It is called as the function is, and is a pytree: compile it, batch it, export it, save it.
    `kept` has the weights that stay as they are, by path, `weights` those in few bits, `ranges` the
    scale and zero point of the inputs of products, by the names of these.
    """

    kept: dict[str, Array]
    weights: dict[str, Any] = field(state=True)
    ranges: dict[str, Ranged] = field(state=True)
    plan: Plan = field(static=True)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = pytree.leaves((self, args, kwargs))
        if current() is not None or any(isinstance(x, TracedTensor) for x in leaves):
            return _run(self, args, kwargs)
        return _compiled(self, args, kwargs)

    def report(self) -> Report:
        """The errors of all layers, what stayed float and why, and bytes before and after.

        Returns a `Report`, whose text is a table. Errors are those of calibration; without numbers
        in it, there are none.
        """
        return self.plan.report

    @boundary
    def convert(self, calibration: Any = None) -> Quantized:
        """The function with weights in few bits, after training with `train=True`.

        `calibration`, as for `quantize`, is for the errors in the report alone: the ranges of
        inputs are those that it was trained with. Any other function is an `ArgumentError`.
        """
        if not self.plan.trains:
            raise ArgumentError(
                f"convert: {self.plan.source.name} is in few bits already",
                fix="convert what rlx.quantize(..., train=True) gave",
            )
        examples = [] if calibration is None else examples_of(calibration)
        # as it was trained
        scheme = replace(self.plan.scheme, weight_ranges="minmax", weight_rounding="nearest")
        plan = Plan(self.plan.source, scheme, self.plan.products, False)
        plan.example, plan.loops = self.plan.example, self.plan.loops
        return _made(plan, self.kept, self.ranges, examples)


def _run(q: Quantized, args: Any, kwargs: Any) -> Any:
    return q.plan.run(q.kept, q.weights, q.ranges, args, kwargs)


_compiled = jit(_run)


@boundary
def quantize(
    f: Any,
    calibration: Any = None,
    *,
    scheme: str | Scheme = "w8a8",
    skip: str | Sequence[str] = (),
    only: str | Sequence[str] | None = None,
    train: bool = False,
) -> Quantized:
    """Quantize a function or module: weights, and maybe products, in few bits.

    Weights are the arrays of a module `f`, of the object of a method, of the arguments that a
    `functools.partial` holds, and arrays that a function uses from outside. Products of a weight
    with something else (matrix products, convolutions) are quantized; everything else stays.

    `calibration` is a list of examples: arguments of `f`, a tuple for several. `scheme` is "w8a8",
    int8 products with ranges from calibration; "w8a8_dynamic", int8 products whose ranges each call
    finds; "w8" or "w4", weights of 8 or 4 bits in groups of 32, multiplied as floats; "w4_gptq",
    such of 4 bits whose codes make up for each other's errors for the inputs of the examples; or a
    `rlx.quantization.Scheme`. All but "w8a8" and "w4_gptq" need one example only, for its shapes:
    `rlx.spec`s do. Layers of `skip` stay float, and so do all but those of `only`, if it is given;
    both are paths of weights, such as "layers[0].weight", which stand for all below them, and in
    which * stands for anything.

    With `train` the result computes with floats, rounded as they would be; its gradient takes
    rounding for the identity. Train it, then `convert` it.

    Returns a `Quantized`. Raises an `ArgumentError` for a function without such products, for
    examples that are missing or make numbers that are not finite, and for paths that name nothing.

    >>> import rlx
    >>> import rlx.numpy as rnp
    >>> w = rlx.random.normal(rlx.random.key(0), (8, 4))
    >>> x = rlx.random.normal(rlx.random.key(1), (16, 8))
    >>> q = rlx.quantize(lambda x: rnp.tanh(x @ w), [x])
    >>> q.weights["captured[0]"].codes.dtype
    dtype('int8')
    >>> bool(abs(q(x) - rnp.tanh(x @ w)).max() < 0.05)
    True
    """
    if current() is not None:
        raise ArgumentError(
            "quantize: it looks at numbers, which there are none of while a function is traced",
            fix="call it outside of rlx.jit and other transforms, then call what it gives",
        )
    known, source = scheme_of(scheme), Source(f)
    examples = examples_of(calibration)
    trains = flag("quantize: train", train)
    recording = source.record(source.leaves, examples[0], {})
    products = choose([p for _, p in recording.products], known, skip, only)
    plan = Plan(source, known, products, trains)
    plan.loops = tuple(loops_with_products(recording.graph))
    plan.example = pytree.map(_type_of, (tuple(examples[0]), {}))
    _check_products(plan)
    ranges = calibrated(plan, examples) if plan.has_ranges else {}
    made = _made(plan, source.leaves, ranges, examples)
    source.leaves = {}  # whose memory is the user's to free
    return made


def _check_products(plan: Plan) -> None:
    if not plan.quantized:
        raise ArgumentError(
            f"quantize: {plan.source.name} has no product with a weight to quantize",
            notes=[f"{p.name}: {p.reason}" for p in plan.products[:6]],
            fix="hold the weights in a module or a functools.partial, or use another scheme",
        )


def examples_of(calibration: Any) -> list[Example]:
    """The examples as tuples of arguments."""
    if calibration is None:
        raise ArgumentError(
            "quantize: there is no calibration",
            fix="give a list of examples: arguments of the function, or tuples of them",
        )
    if is_array(calibration) or isinstance(calibration, Type | dict | str):
        calibration = [calibration]
    if not isinstance(calibration, Iterable):
        raise ArgumentError(
            f"quantize: the calibration is {shown(calibration)}, not a list of examples",
            fix="give a list of examples: arguments of the function, or tuples of them",
        )
    examples = [tuple(x) if isinstance(x, tuple) else (x,) for x in calibration]
    if not examples:
        raise ArgumentError("quantize: the calibration is empty", fix="give an example or more")
    return examples


def _type_of(x: Any) -> Type:
    return x if isinstance(x, Type) else operand_type(as_operand(x))


def _made(plan: Plan, leaves: Any, ranges: Any, examples: Sequence[Example]) -> Quantized:
    """The quantized function, with its report."""
    recording = plan.source.record(plan.source.types, *plan.example)
    products = plan.matched(recording.products)
    weights: dict[str, Any] = {}
    whole = {path: to_array(x) for path, x in leaves.items()}
    kept = whole
    if not plan.trains:
        weights = _in_few_bits(plan, [*products.values()], whole, ranges, examples)
        live = plan.live(recording, products)
        kept = {path: whole[path] for i, path in enumerate(plan.source.paths) if i in live}
    made = Quantized(kept=kept, weights=weights, ranges=ranges, plan=plan)
    plan.report = measured(made, whole, recording, [x for x in examples if has_numbers(x)])
    return made


def _in_few_bits(
    plan: Plan, products: Sequence[Product], leaves: Any, ranges: Any, examples: Sequence[Example]
) -> dict[str, Any]:
    """The weights of products by their names."""
    floats = weights_of(plan, leaves)
    if plan.scheme.weight_rounding == "gptq":
        return packed_weights(plan, products, leaves, floats, examples)
    needs_sums, weights = plan.has_ranges and not plan.input_codes.is_symmetric, {}
    for product in products:
        assert product.layout is not None, "it is quantized"
        w = with_factors(floats.pop(product.name), product, ranges.get(product.inputs))
        weights[product.name] = pack(w, product.layout, plan.scheme, needs_sums, product.turned)
    return weights


def to_array(x: Any) -> Array:
    """A weight as an array of rlx."""
    return x if isinstance(x, Array) else new_array(to_numpy(x, copy=True))
