"""The plan of a quantized function: how it is recorded, and what changes how."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

from ..ir.builder import build, rewrite
from ..ir.errors import StructureError
from ..ir.graph import Graph, Node, Value
from ..ir.op import live_nodes
from ..ir.record import replace
from ..ir.types import Type
from ..nn.filters import is_array
from ..nn.module import Module
from ..trace import pytree
from ..trace.apply import as_operand, operand_type
from ..trace.arguments import callable_of
from ..trace.make_graph import Traced, function_name, trace
from ..transforms.run_graph import plain, run_graph
from .codes import Calculation, DynamicInputs, FloatInputs, Range, Rounded, StaticInputs
from .products import Product, find, opened
from .ranges import Codes
from .recorder import Recorder, Wanted, carried, graph_results
from .scheme import Scheme


class Ranged(Module):
    """The scale and zero point of the int8 codes of a value, each `f32[]`.

    With smoothing there are `factors`, too, `f32[features]`, that multiply in place of 1 / scale.
    """

    scale: Any
    zero: Any
    factors: Any = None


class Recording(NamedTuple):
    """A function recorded for some arguments: graph, products and operands."""

    traced: Traced
    graph: Graph
    products: list[tuple[Node, Product]]
    operands: list[Any]  # of the graph; types for weights that are gone


@final
class Source:
    """A function with its weights: its leaves by path, and how to call it with others.

    Weights are the arrays of a module, of the object of a method, of the arguments that a
    `functools.partial` holds; and arrays that the function uses from outside.
    """

    def __init__(self, f: Any) -> None:
        callable_of("quantize: f", f)
        self.name, self.signature = function_name(f), _signature(f)
        self.call: Callable[..., Any]
        if isinstance(f, functools.partial):
            tree, self.call = (f.args, f.keywords), functools.partial(_call_partial, f.func)
        elif isinstance(f, types.MethodType):
            tree, self.call = f.__self__, f.__func__
        elif callable(f) and not pytree.structure(f).is_leaf():
            tree, self.call = f, _call_tree
        else:
            tree, self.call = (), functools.partial(_call_plain, f)
        leaves, self.structure = pytree.flatten(tree)
        paths = [path.removeprefix(".") for path in pytree.paths(self.structure)]
        if isinstance(f, functools.partial):
            paths = [_argument_path(path) for path in paths]
        self.others = [None if is_array(x) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if is_array(x)]
        self.paths = [paths[i] for i in self.places]
        self.leaves = dict(zip(self.paths, (leaves[i] for i in self.places), strict=True))
        self.types = {path: operand_type(as_operand(x)) for path, x in self.leaves.items()}

    def record(self, kept: Mapping[str, Any], args: Any, kwargs: Any) -> Recording:
        """Record the function, with types for weights that are not kept."""
        given = [kept.get(path, self.types[path]) for path in self.paths]

        def called(weights: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            leaves = list(self.others)
            for i, x in zip(self.places, weights, strict=True):
                leaves[i] = x
            return self.call(pytree.unflatten(self.structure, leaves), *args, **kwargs)

        called.__name__ = self.name
        if self.signature is not None:
            weights = inspect.Parameter("weights", inspect.Parameter.POSITIONAL_ONLY)
            named = [weights, *self.signature.parameters.values()]
            called.__signature__ = self.signature.replace(parameters=named)  # type: ignore[attr-defined]
        traced = trace(called, (given, *args), kwargs)
        graph = opened(traced.graph)
        params = graph.params
        names = dict(zip(params, self.paths, strict=False))
        first = traced.n_args
        names |= {p: f"captured[{i}]" for i, p in enumerate(params[first:])}
        operands = [*given, *pytree.leaves((tuple(args), kwargs)), *traced.captures]
        return Recording(traced, graph, find(graph, names), operands)


def _signature(f: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):  # of what is not written in Python
        return None


def _call_tree(tree: Any, *args: Any, **kwargs: Any) -> Any:
    return tree(*args, **kwargs)


def _call_partial(f: Callable[..., Any], tree: Any, *args: Any, **kwargs: Any) -> Any:
    return f(*tree[0], *args, **{**tree[1], **kwargs})


def _call_plain(f: Callable[..., Any], tree: Any, *args: Any, **kwargs: Any) -> Any:
    return f(*args, **kwargs)


def _argument_path(path: str) -> str:
    """`[0][1]["w"]` of the arguments of a partial as `[1]["w"]`, `[1]["x"]` as `x`."""
    if path.startswith("[0]"):
        return path[3:]
    first, _, rest = path[4:].partition('"]')
    return first + rest


@final
class Plan:
    """What a quantized function is made of beside its arrays; compared by identity."""

    def __init__(
        self, source: Source, scheme: Scheme, products: Sequence[Product], trains: bool
    ) -> None:
        self.source, self.scheme, self.trains = source, scheme, trains
        self.products = tuple(products)
        self.loops: tuple[str, ...] = ()
        self.report: Any = None
        self.example: tuple[Any, Any] = ((), {})  # types of arguments

    def __repr__(self) -> str:
        return f"<plan of {self.source.name}>"

    @property
    def quantized(self) -> list[Product]:
        """The products with weights in few bits."""
        return [p for p in self.products if p.is_quantized]

    @property
    def has_ranges(self) -> bool:
        """Whether inputs have ranges from calibration."""
        return self.scheme.activations == "static"

    @property
    def input_codes(self) -> Codes:
        """The codes of inputs."""
        return Codes.of(8, self.scheme.symmetric_activations)

    def matched(self, found: Sequence[tuple[Node, Product]]) -> dict[Node, Product]:
        """The quantized products among those of a new recording."""
        mine = [p for p in self.products if p.layout is not None]
        its = [(node, p) for node, p in found if p.layout is not None]
        pairs = list(zip(mine, its, strict=False))
        if len(mine) != len(its) or not all(one.is_like(p) for one, (_, p) in pairs):
            raise StructureError(
                f"{self.source.name} multiplies by {len(its)} weights for these arguments, other "
                f"ones than the {len(mine)} that it was quantized with",
                fix="quantize it with such arguments, or let shapes not decide what it computes",
            )
        return {node: replace(one, layout=p.layout) for one, (node, p) in pairs if one.is_quantized}

    def in_graph(self, ranges: Mapping[str, Ranged]) -> dict[str, Range]:
        """The ranges of inputs as values of a graph."""
        codes = self.input_codes
        return {k: Range(v.scale, v.zero, codes, v.factors) for k, v in ranges.items()}

    def calculation(self, weights: Mapping[str, Any], ranges: Mapping[str, Range]) -> Calculation:
        """How products are computed."""
        if self.trains:
            return Rounded(self.scheme, ranges)
        if self.scheme.activations == "static":
            return StaticInputs(weights, ranges)
        return (DynamicInputs if self.scheme.activations == "dynamic" else FloatInputs)(weights)

    def run(self, kept: Any, weights: Any, ranges: Any, args: Any, kwargs: Any) -> Any:
        """Call the function with these arrays."""
        recording = self.source.record(kept, args, kwargs)
        products = self.matched(recording.products)
        made, operands = self.rewritten(recording, products, weights, ranges)
        found = run_graph(made, operands)
        return recording.traced.unflatten([plain(r) for r in found])

    def live(self, recording: Recording, products: Mapping[Node, Product]) -> list[int]:
        """The parameters of a recording that are needed beside the codes."""
        wanted = Wanted(recording.graph, {} if self.trains else products, self.has_ranges).of
        return [i for i, p in enumerate(recording.graph.params) if self.trains or p in wanted]

    def rewritten(
        self, recording: Recording, products: Mapping[Node, Product], weights: Any, ranges: Any
    ) -> tuple[Graph, list[Any]]:
        """The graph on codes, and its operands: those that it still needs, and the codes."""
        graph = recording.graph
        smooth = {name for name, range in ranges.items() if range.factors is not None}
        given_products = {} if self.trains else products
        wanted = Wanted(graph, given_products, self.has_ranges, smooth)
        live = self.live(recording, products)
        given = [recording.operands[i] for i in live]
        arrays, structure = pytree.flatten((weights, ranges))
        types = [*(graph.params[i].type for i in live), *map(_type_of, arrays)]
        origins = [graph.params[i].origin for i in live]

        def run(*xs: Value) -> list[Value]:
            values: list[Value | None] = [None] * len(graph.params)
            for i, x in zip(live, xs, strict=False):
                values[i] = x
            few, known = pytree.unflatten(structure, xs[len(live) :])
            scales = self.in_graph(known)
            recorder = Recorder(wanted, products, self.calculation(few, scales), scales)
            return graph_results(graph, rewrite(graph, carried(values), recorder.visit))

        return build(run, types, graph.name, origins), [*given, *arrays]


def part_of(graph: Graph, results: Sequence[Value], operands: Sequence[Any]) -> Any:
    """What computes some values of a graph, and the operands that it takes."""
    nodes = live_nodes(graph, results, with_effects=False)
    needed = {*results, *(a for node in nodes for a in node.args)}
    live = [i for i, p in enumerate(graph.params) if p in needed]
    params = [graph.params[i] for i in live]
    part = Graph(graph.name, params, nodes, list(results), graph.lineage, graph.placed)
    return part, [operands[i] for i in live]


def _type_of(x: Any) -> Type:
    return operand_type(as_operand(x))
