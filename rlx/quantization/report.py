"""Reports: the errors of quantized layers, what stayed float, and bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.builder import build, rewrite
from ..ir.graph import Node, Value
from ..ir.ops.arithmetic import abs, mul, sub
from ..ir.ops.convert import narrowed
from ..ir.ops.reduce import reduce_max, reduce_sum
from ..ir.record import record
from ..ir.types import is_float
from ..trace import pytree
from ..trace.make_graph import typeof
from ..transforms.run_graph import run_graph
from .codes import FLOAT32, rounded
from .plan import Plan, Recording
from .products import Product, features
from .recorder import Carried
from .weights import nbytes

if TYPE_CHECKING:
    from .quantize import Quantized

MOST_EXAMPLES = 8  # of calibration, of which errors are measured
MOST_LINES = 12  # about what stayed float
LARGE = 100  # parts of all weights: one of so many is worth a line


@record
class Errors:
    """How far numbers are from what they should be."""

    signal: float = 0.0  # the sum of squares of the right ones
    noise: float = 0.0  # that of the differences
    greatest: float = 0.0  # difference
    product: float = 0.0  # of both
    power: float = 0.0  # the sum of squares of the others

    def __add__(self, other: Errors) -> Errors:
        greatest = self.greatest if self.greatest > other.greatest else other.greatest
        return Errors(
            self.signal + other.signal,
            self.noise + other.noise,
            greatest,
            self.product + other.product,
            self.power + other.power,
        )

    @property
    def decibels(self) -> float:
        """The ratio of signal to noise in decibels, infinite without noise."""
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal > 0 else -math.inf

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both."""
        size = math.sqrt(self.signal * self.power)
        return self.product / size if size else float(self.signal == self.power)


@record
class Layer:
    """A quantized product: its errors for inputs of the float function, its bytes."""

    name: str  # the path of its weight
    op: str
    errors: Errors | None  # None without calibration
    before: int  # bytes of the weight
    after: int


@record
class Report:
    """What `rlx.quantize` did; its text is a table.

    `layers` are the quantized products, `whole` the errors of all results together, `floats` the
    lines about what stayed float, `before` and `after` the bytes of all weights.
    """

    name: str  # of the function
    scheme: str
    layers: tuple[Layer, ...]
    whole: Errors | None
    floats: tuple[str, ...]
    before: int
    after: int

    def __str__(self) -> str:
        rows = [("layer", "signal/noise", "max error", "cosine", "bytes")]
        rows += [(x.name, *_shown(x.errors), _change(x.before, x.after)) for x in self.layers]
        rows.append(("all", *_shown(self.whole), _change(self.before, self.after)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        count = len(self.layers)
        lines = [f"{self.name}: {self.scheme}, {count} product{'s' * (count != 1)}"]
        for name, *rest in rows:
            cells = [x.rjust(n) for x, n in zip(rest, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *cells]))
        if self.floats:
            lines += ["stayed float", *(f"  {line}" for line in self.floats)]
        return "\n".join(lines)

    __repr__ = __str__


def _shown(errors: Errors | None) -> tuple[str, str, str]:
    if errors is None:
        return "-", "-", "-"
    return f"{errors.decibels:.1f} dB", f"{errors.greatest:.2g}", f"{errors.cosine:.5f}"


def _change(before: int, after: int) -> str:
    return f"{_size(before)} -> {_size(after)}"


def _size(count: int) -> str:
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


# -- measuring -------------------------------------------------------------------------------------


def measured(
    q: Quantized, leaves: Mapping[str, Any], recording: Recording, examples: Sequence[Any]
) -> Report:
    """The report of a quantized function, with errors for the first examples."""
    plan = q.plan
    layers: dict[str, Errors] = {}
    whole = Errors() if examples else None
    for example in examples[:MOST_EXAMPLES]:
        found, total = _compared(plan, leaves, q, example)
        for name, numbers in found.items():
            layers[name] = layers.get(name, Errors()) + Errors(*numbers)
        for numbers in total:
            whole = (whole or Errors()) + Errors(*numbers)
    products = plan.matched(recording.products)
    rows = []
    for node, product in products.items():
        size = nbytes([node.args[product.side]])
        after = nbytes(pytree.leaves(q.weights[product.name])) if q.weights else size
        rows.append(Layer(product.name, product.op, layers.get(product.name), size, after))
    captured = [x for x in recording.traced.captures if hasattr(x, "dtype")]
    before = nbytes([*leaves.values(), *captured])
    few = nbytes(pytree.leaves((q.weights, q.ranges)))
    live = plan.live(recording, products)
    still = [x for i, x in enumerate(captured, recording.traced.n_args) if i in live]
    after = nbytes([*q.kept.values(), *still]) + few
    floats = tuple(_floats(q, recording, before))
    return Report(plan.source.name, plan.scheme.text, tuple(rows), whole, floats, before, after)


def _floats(q: Quantized, recording: Recording, before: int) -> list[str]:
    """What stayed float, and why."""
    lines: dict[str, int] = {}
    for product in q.plan.products:
        if not product.is_quantized:
            line = f"{product.name}: {product.reason}"
            lines[line] = lines.get(line, 0) + 1
    for loop in q.plan.loops:
        lines[f"{loop}: products in loops and branches stay as they are"] = 1
    texts = [line if n == 1 else f"{n} times {line}" for line, n in lines.items()]
    skipped = {p.name for p in q.plan.products}
    for path, x in q.kept.items():
        is_table = path not in skipped and x.ndim > 1 and is_float(x.dtype)
        if is_table and nbytes([x]) * LARGE > before:
            texts.append(f"{path}: used by no product, {_size(nbytes([x]))}")
    more = len(texts) - MOST_LINES
    return texts if more <= 0 else [*texts[:MOST_LINES], f"{more} more"]


def _compared(plan: Plan, leaves: Any, q: Quantized, args: Any) -> Any:
    """The numbers of `Errors` for each layer, and for each result."""
    recording = plan.source.record(leaves, args, {})
    products = plan.matched(recording.products)
    few = plan.rewritten(recording, products, q.weights, q.ranges)
    arrays, structure = pytree.flatten((q.weights, q.ranges))
    graph, names = recording.graph, [p.name for p in products.values()]
    types = [*graph.param_types, *(typeof(x) for x in arrays)]
    is_error = [is_float(r.dtype) for r in graph.results]

    def run(*xs: Value) -> list[Value]:
        count = len(graph.params)
        weights, known = pytree.unflatten(structure, xs[count : len(types)])
        ranges = plan.in_graph(known)
        calculation = plan.calculation(weights, ranges)
        numbers: dict[str, list[Value]] = {}

        def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
            results = node.op.apply(operands, node.attrs)
            product: Product | None = products.get(node)
            if product is not None:
                x = operands[1 - product.side]
                if calculation.takes_codes:
                    x = rounded(x, ranges[product.inputs], features(node, product))
                made = calculation.product(node, product, x, Carried(operands[product.side]))
                numbers[product.name] = _numbers(results[0], made)
            return results

        right = rewrite(graph, xs[:count], visit)
        pairs = zip(right, xs[len(types) :], is_error, strict=True)
        whole = [n for a, b, is_one in pairs if is_one for n in _numbers(a, b)]
        return [*(n for name in names for n in numbers[name]), *whole]

    given = run_graph(*few)
    made = build(run, [*types, *graph.result_types], graph.name)
    found = [float(x) for x in run_graph(made, [*recording.operands, *arrays, *given])]
    rows = [found[i : i + 5] for i in range(0, len(found), 5)]
    return dict(zip(names, rows, strict=False)), rows[len(names) :]


def _numbers(right: Value, given: Value) -> list[Value]:
    right, given = narrowed(right, FLOAT32), narrowed(given, FLOAT32)
    axes = tuple(range(right.rank))
    off = sub(right, given)
    squares = [mul(right, right), mul(off, off), mul(right, given), mul(given, given)]
    signal, noise, product, power = (reduce_sum(x, axes=axes) for x in squares)
    return [signal, noise, reduce_max(abs(off), axes=axes), product, power]
