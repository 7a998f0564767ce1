"""The op registry: an `Op` holds the definition and all rules of an operation."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import builder
from .body import Pointwise
from .errors import ArgumentError, CallbackError, GradientError, RlxError
from .graph import OPS, Constant, Graph, Node, Source, Value
from .lazy import lazy
from .record import record
from .rules import Rules, aligned
from .source import user_source
from .types import Type, Typed, as_dtype, check_size


@record
class Linear(Typed):
    """The place of a linear argument in a transpose rule: it has a type but no value."""

    type: Type


EXPANSION = "expansion"  # for `Op.jvp`
ALIGNED = "aligned"  # for `Op.batch`


class Parts(NamedTuple):
    """Complex numbers as two real values, as `parts` rules take and give them."""

    re: Value
    im: Value
    whole: Value | None = None  # the complex value, if it lies in memory


def is_linear(operand: object) -> bool:
    """Whether a transpose rule was given a placeholder for this argument."""
    return isinstance(operand, Linear)


@record
class Sample:
    """One example for the audit: arguments, attributes and results."""

    args: tuple[Any, ...]  # shapes, types or arrays
    attrs: dict[str, Any]
    expect: Any = None  # worked by hand
    low: float = -2.0  # bounds of random floating-point arguments
    high: float = 2.0


class Op:
    """One operation: its definition, its rules and its samples.

    Calling it records a node in the open graph and gives its value (or a tuple of values, when the
    type rule gives a tuple). Rules are attached with the decorators of the same names. `operands`
    are their names where the type rule has none.
    """

    def __init__(
        self,
        name: str,
        type_rule: Callable[..., Any],
        doc: str | None,
        operands: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.type_rule = type_rule
        self.__doc__ = doc
        self.__name__ = name
        self.module = type_rule.__module__
        self._operands = list(operands)
        self.rules = Rules()
        self.sample_list: list[Sample] = []
        self.is_constant = False  # made by `constant`: the array is the attribute `value`
        self.revision = 0  # how often rules of a user's op were given or changed
        OPS.define(self)

    # read when first asked for: of all ops it would take 2 ms of an import

    @lazy
    def signature(self) -> inspect.Signature:
        """Of the type rule: operands by position, attributes by keyword."""
        return inspect.signature(self.type_rule)

    @lazy
    def operand_names(self) -> list[str]:
        """The names of the operands in the type rule."""
        listed = [p.name for p in self._parameters() if p.kind is not p.KEYWORD_ONLY]
        return self._operands or listed

    @lazy
    def is_variadic(self) -> bool:
        """Whether it takes any number of operands."""
        several = any(p.kind is p.VAR_POSITIONAL for p in self._parameters())
        return several and not self._operands

    @lazy
    def attr_defaults(self) -> dict[str, Any]:
        """The attributes with their defaults, or `inspect.Parameter.empty`."""
        return {p.name: p.default for p in self._parameters() if p.kind is p.KEYWORD_ONLY}

    def _parameters(self) -> Iterable[inspect.Parameter]:
        return self.signature.parameters.values()

    # -- recording ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        results = self.apply(self.operands(args), self.complete(attrs))
        return results if self.is_multiple(results) else results[0]

    def is_multiple(self, results: Sequence[Value]) -> bool:
        """Whether the op gives a tuple of results rather than one."""
        return self.rules.multiple or len(results) != 1

    def operands(self, args: Sequence[Any]) -> list[Value]:
        """Turn arrays and Python scalars among the arguments into values."""
        like = next((a for a in args if isinstance(a, Value)), None)
        return [builder.as_value(a, like) for a in args]

    def complete(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Put attributes in the order of the signature, defaults filled in, in one form."""
        for name in attrs:
            if name not in self.attr_defaults:
                raise ArgumentError(
                    f"{self.name}: there is no keyword {name!r}",
                    fix=f"it takes {', '.join(self.attr_defaults) or 'no keywords'}",
                )
        full = {}
        for name, default in self.attr_defaults.items():
            if name not in attrs and default is inspect.Parameter.empty:
                raise ArgumentError(
                    f"{self.name}: the keyword {name!r} is missing",
                    fix=f"write {self.name}(..., {name}=...)",
                )
            full[name] = self._canonical(name, attrs.get(name, default))
        return full

    def _canonical(self, name: str, attr: Any) -> Any:
        try:
            return canonical(name, attr)
        except RecursionError:
            raise ArgumentError(
                f"{self.name}: {name} is a list that is nested too deeply",
                fix="give a number, a text, or a flat list of them",
            ) from None

    def apply(self, args: Sequence[Value], attrs: dict[str, Any]) -> tuple[Value, ...]:
        """Record a node on values with complete attributes, and give all its results."""
        recorder = builder.current()
        assert recorder is not None, f"{self.name} was called on values outside of any graph"
        args = tuple(recorder.own(a) for a in args)
        source = builder.node_source()
        try:
            types = self.infer([a.type for a in args], attrs)
        except RlxError as error:
            notes = (f"{a.type}" + (f"   {a.origin}" if a.origin else "") for a in args)
            error.at(self.name, self.named(notes), source)
            raise
        return recorder.graph.add_node(self, args, attrs, types, source).results

    def infer(self, types: Sequence[Type], attrs: dict[str, Any]) -> tuple[Type, ...]:
        """The result types, from the type rule."""
        if not self.is_variadic and len(types) != len(self.operand_names):
            raise ArgumentError(
                f"takes {len(self.operand_names)} operands, not {len(types)}",
                fix=f"call {self.name}({', '.join(self.operand_names)})",
            )
        if self.is_variadic and len(types) < len(self.operand_names) - 1:
            raise ArgumentError(
                f"takes {len(self.operand_names) - 1} operands or more, not {len(types)}",
                fix=f"call {self.name}({', '.join(self.operand_names)}...)",
            )
        result = self.type_rule(*types, **attrs)
        results = result if isinstance(result, tuple) else (result,)
        for type in results:
            check_size(type.shape)
        return results

    def named(self, operands: Iterable[Any]) -> list[str]:
        """Texts of operands, each after its name in the type rule."""
        names = itertools.count() if self.is_variadic else self.operand_names
        start = "#" if self.is_variadic else ""
        return [f"{start}{name}: {text}" for name, text in zip(names, operands, strict=False)]

    # -- rules ----------------------------------------------------------------------------------

    def _attach(self, rule: str, given: Any) -> Any:
        assert rule not in vars(self.rules), f"{self.name}.{rule} is given twice"
        setattr(self.rules, rule, given)
        return given

    def reference(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the NumPy meaning: `(*arrays, **attrs) -> array` or a tuple of arrays."""
        return self._attach("reference", fn)

    def ufuncs(self, **by_kind: np.ufunc) -> None:
        """Attach NumPy ufuncs that equal the reference for a kind of dtypes."""
        self._attach("ufuncs", by_kind)

    def body(self, body: Any) -> Any:
        """Attach the body for loop backends, one of the classes of `ir.body`."""
        if isinstance(body, Pointwise):
            OPS.instructions.setdefault(body.instruction, self)
        return self._attach("body", body)

    def expand(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the expansion into simpler ops: `(*values, **attrs) -> value(s)`."""
        return self._attach("expand", fn)

    def parts(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the expansion for complex operands into ops on real ones.

        It is `(*args, **attrs) -> result(s)`, with `Parts` for each complex operand and values for
        the others; all may be real where a result is complex. A complex result is given as `Parts`
        or as a value.
        """
        return self._attach("parts", fn)

    def invariant_parts(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach a batch-invariant `parts` rule, whose order of sums depends on no size.

        Batch-invariant programs take it where there is one.
        """
        return self._attach("invariant_parts", fn)

    def jvp(self, rule: Any) -> Any:
        """Attach the JVP rule.

        A list has for each argument `(tangent, result, *args, **attrs) -> tangent` or None. A
        function is `(primals, tangents, **attrs) -> (results, tangents)` with None for a zero
        tangent; for an op with nested graphs its first argument is the jvp engine. `EXPANSION` is
        the derivative of a composite's expansion, for one that has a transpose in some arguments.
        """
        return self._attach("jvp", rule)

    def transpose(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the transpose rule: `(ct, *args, **attrs) -> [cotangent or None, ...]`.

        The list has an item for each argument. Linear arguments are `Linear` placeholders. `ct` is
        a tuple (None for a zero) when the op gives several results. None instead of the list is for
        the transpose of a composite's expansion. An op with a transpose and no jvp is linear in all
        arguments.
        """
        return self._attach("transpose", fn)

    def batch(self, rule: Any, *axes: str) -> Any:
        """Attach the batching rule: `(args, batched, **attrs) -> result(s)`.

        `batched[i]` tells whether argument i has the batch as axis 0; the results must have it
        there. For an op with nested graphs the first argument is the batching engine. `ALIGNED` is
        the rule of an op that takes the batch as axis 0 of all arguments, as it is; `axes` are the
        attributes that number axes, which come one later.
        """
        return self._attach("batch", aligned(self, axes) if rule is ALIGNED else rule)

    def total(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the op that sums the results for all rows of the operands.

        The rule is `(*args, **attrs) -> Value`; its operands have one more axis, the first one.
        """
        return self._attach("total", fn)

    def join(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the rule for sums of two results of which one is zero at each place.

        The rule is `(x, y) -> Value or None`; None stands for results that may overlap.
        """
        return self._attach("join", fn)

    def fold(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the fold rule, an algebraic simplification.

        The rule is `(*args, **attrs) -> Value or None`, and records in the current graph.
        """
        return self._attach("fold", fn)

    def multiplied(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach `(x, *args, **attrs) -> Value or None`: x @ result.T, without making it."""
        return self._attach("multiplied", fn)

    def product(
        self, kept: Callable[..., Any], padded: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """Declare a product of two operands, whose sums have the attribute `dtype`.

        `kept(types, operand, **attrs) -> {axis: axis of the result}` has the axes of an operand
        that are not summed over. `padded(x, number, **attrs) -> (x, attrs)` puts a number where
        the op sees zeros around the first operand, and gives attributes without them.
        """
        self._attach("padded", padded)
        return self._attach("product", kept)

    def split(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attach the partial evaluation rule of an op with nested graphs.

        `(split_graph, args, known, **attrs) -> results`; `known[i]` tells whether argument i is.
        """
        return self._attach("split", fn)

    def work(self, kind: str, kept: Callable[..., Sequence[int]] = lambda **attrs: ()) -> None:
        """Declare the class of the op's work for precision policies.

        Without it that follows from the body or the expansion. `kept(**attrs)` are the operands, by
        their places, that stay in the dtype they were written in.
        """
        self._attach("work", kind)
        self._attach("work_kept", kept)

    def library_work(self, kind: str, count: Callable[..., float]) -> None:
        """Declare how much a library call computes, for cost models.

        `kind` is "direct" or "iterative", whose operations take differently long; `count(*types,
        **attrs)` gives the operations in single precision that take as long.
        """
        self._attach("library_work", (kind, count))

    def scheme(self, rule: Callable[..., Sequence[str | None]]) -> None:
        """Attach `(*types, **attrs) -> texts`: how operands, then results are quantized."""
        self._attach("scheme", rule)

    def nondifferentiable(self, reason: str) -> None:
        """Declare that the op has no derivative: its tangents are zero."""
        self._attach("nondifferentiable", reason)

    def samples(
        self, *args: Any, expect: Any = None, low: float = -2.0, high: float = 2.0, **attrs: Any
    ) -> None:
        """Attach one example; see `Sample`."""
        self.sample_list.append(Sample(args, attrs, expect, low, high))

    def missing(self) -> list[str]:
        """The required rules that are missing; composites may leave some to expansion."""
        rules = self.rules
        required = ("reference", "batch") if self.operand_names else ("reference",)
        lacking = [r for r in required if getattr(rules, r) is None]
        if rules.body is None and rules.expand is None:
            lacking.append("body or expand")
        if not rules.has_derivative and rules.nondifferentiable is None:
            lacking.append("jvp, transpose or nondifferentiable")
        if rules.expand is not None:
            lacking = [r for r in lacking if r == "reference"]
        if not self.sample_list:
            lacking.append("samples")
        return lacking

    def run_quietly(
        self,
        arrays: Sequence[np.ndarray],
        attrs: dict[str, Any],
        device: str = "",
        types: Sequence[Type] = (),
        source: Source | None = None,
    ) -> tuple[np.ndarray, ...]:
        """Evaluate the NumPy reference; results have the dtypes of the type rule.

        A user's op may have another one for a device. `types` are those of the results, if they are
        known already; `source` is the line that called the op, if it is known.
        """
        types = types or self.infer([Type(as_dtype(a.dtype), a.shape) for a in arrays], attrs)
        kernel = self.rules.kernels.get(device, self.rules.reference)
        assert kernel is not None, f"{self.name} has no reference"
        run = self._run_of_user if self.rules.of_user else _evaluated
        results = run(kernel, arrays, attrs, types, source)
        pairs = zip(results, types, strict=True)
        return tuple([np.asarray(r).astype(t.dtype, copy=False) for r, t in pairs])

    def run(self, *args: Any, **options: Any) -> tuple[np.ndarray, ...]:
        """The same where NumPy would tell of overflow: it tells of nothing."""
        with np.errstate(all="ignore"):
            return self.run_quietly(*args, **options)

    def _run_of_user(
        self,
        kernel: Callable[..., Any],
        arrays: Sequence[np.ndarray],
        attrs: dict[str, Any],
        types: Sequence[Type],
        source: Source | None,
    ) -> Sequence[Any]:
        """Run a user's function, and check its results against the type rule."""
        where = source or user_source()
        try:
            results = _several(kernel(*arrays, **attrs))
        except Exception as error:
            error.add_note(
                f"raised in the function of the custom op {self.name}, called at {where}"
            )
            raise
        shapes, promised = [np.shape(r) for r in results], [t.shape for t in types]
        if shapes != promised:
            raise self._other_results("shapes", shapes, promised, where)
        pairs = list(zip(results, (t.dtype for t in types), strict=True))
        # Python numbers have no dtype of their own
        dtypes = [r.dtype if isinstance(r, np.ndarray | np.generic) else d for r, d in pairs]
        if dtypes != [d for _, d in pairs]:
            raise self._other_results("dtypes", dtypes, [d for _, d in pairs], where)
        return results

    def _other_results(
        self, what: str, made: Sequence[Any], promised: Sequence[Any], where: Any
    ) -> CallbackError:
        found, wanted = (", ".join(map(str, each)) for each in (made, promised))
        return CallbackError(
            f"{self.name}: the function gave arrays of the {what} {found}, by its type rule they "
            f"are {wanted}",
            where=str(where),
            fix=f"change the function, or the rule that @{self.name}.deftype gives",
        )

    def lift(self, array: Any) -> Value:
        """Record an array as a constant; only the op `constant` can."""
        assert self.is_constant
        if isinstance(array, Linear):
            raise GradientError(
                "the function is not linear: it multiplies two values that both are",
                fix="transpose a linear function, such as one that rlx.linearize gives",
            )
        array = np.asarray(array)
        attr = Constant(array.astype(as_dtype(array.dtype), copy=False))
        return self.apply([], {"value": attr})[0]

    def __repr__(self) -> str:
        return f"Op({self.name})"


def _evaluated(
    kernel: Callable[..., Any], arrays: Sequence[np.ndarray], attrs: dict[str, Any], *_: Any
) -> Sequence[Any]:
    try:
        return _several(kernel(*arrays, **attrs))
    except ValueError as error:
        if "too big" in str(error):  # NumPy's word for more bytes than there are addresses
            raise MemoryError(str(error)) from None
        raise


def _several(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple | list) else (results,)


def canonical(name: str, attr: Any) -> Any:
    """Give an attribute in canonical form: plain ints, tuples, NumPy dtypes."""
    if name == "dtype" and attr is not None:
        return as_dtype(attr)
    if isinstance(attr, np.ndarray):
        return Constant(attr)
    if isinstance(attr, np.generic):
        return attr.item()
    if isinstance(attr, (list, tuple)):
        return tuple([a if type(a) is int else canonical("", a) for a in attr])
    return attr


def each_part(op: Op) -> Callable[..., Parts]:
    """The `parts` rule of an op that applies to each part separately."""

    def rule(*args: Any, **attrs: Any) -> Parts:
        real, imaginary = (
            op(*(x[number] if isinstance(x, Parts) else x for x in args), **attrs)
            for number in (0, 1)
        )
        return Parts(real, imaginary)

    return rule


def define(type_rule: Callable[..., Any]) -> Op:
    """Define an op by its type rule, which gives its name, signature and docstring."""
    return Op(type_rule.__name__, type_rule, type_rule.__doc__)


def has_effect(node: Node) -> bool:
    """Whether a node, or one nested in it, has a side effect."""
    if node.op.rules.effect:
        return True
    return bool(node.graphs) and any(has_effect(n) for graph in node.graphs for n in graph.nodes)


def live_nodes(
    graph: Graph,
    results: Iterable[Value] | None = None,
    given: Collection[Value] = (),
    with_effects: bool = True,
) -> list[Node]:
    """The nodes that make results (the graph's own) out of given values, in order."""
    needed = set(graph.results if results is None else results)
    live: list[Node] = []
    for node in reversed(graph.nodes):
        made = [r for r in node.results if r not in given] if given else node.results
        if not needed.isdisjoint(made) or (with_effects and has_effect(node)):
            live.append(node)
            needed.update(node.args)
    return live[::-1]
