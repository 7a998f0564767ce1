"""Functions with derivatives given by the user.

The ops are custom_jvp_call, custom_vjp_call, stop_gradient. The user's rules are `Rule`s: functions
of values, called when a derivative is taken, so a rule may call the very function it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..body import Call, Pointwise
from ..builder import build, inline
from ..errors import GradientError
from ..graph import Graph, Value
from ..op import ALIGNED, define, each_part, is_linear
from ..rules import align, batch_size
from ..types import Type, as_dtype
from .control import check_operands, cut_groups, filled, interpreted, weave, zeros_like


class Rule:
    """A user's derivative as an attribute: a function of values, compared by identity.

    `key` makes equal two rules that mean the same.
    """

    __slots__ = ("__weakref__", "fn", "key")

    def __init__(self, fn: Callable[..., Any], key: Any = None) -> None:
        self.fn = fn
        self.key = fn if key is None else key

    def __call__(self, *args: Any, **known: Any) -> Any:
        return self.fn(*args, **known)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<python {getattr(self.fn, '__name__', 'rule')}>"


def batched_rule(batch_graph: Any, rule: Rule, size: Any) -> Rule:
    """The batched rule: arguments, except None, and results have the batch as axis 0."""

    def mapped(*groups: Sequence[Value | None], **known: Any) -> list[list[Value]]:
        counts = [len(group) for group in groups]
        flat = [x for group in groups for x in group]
        given = [x for x in flat if x is not None]
        sizes: list[int] = []

        def run(*xs: Value) -> list[Value]:
            full = weave([x is not None for x in flat], xs, [None] * len(flat))
            results = rule(*cut_groups(full, *counts)[:-1], **known)
            sizes[:] = [len(group) for group in results]
            return [x for group in results for x in group]

        with batch_graph.naming():
            graph = build(run, [x.type.with_shape(x.shape[1:]) for x in given], "rule")
        many, _ = batch_graph(graph, [True] * len(given), size, [True] * len(graph.results))
        return cut_groups(inline(many, given), *sizes)[:-1]

    return Rule(mapped, ("batched", rule, size))


@define
def custom_jvp_call(
    *operands: Type,
    graph: Graph,
    rule: Rule,
    transpose: Rule | None = None,
    linear: tuple[int, int] = (0, 0),
    symbolic_zeros: bool = False,
) -> Any:
    """Run a nested graph whose derivative is a user's rule.

    `rule(primals, tangents)` gives (results, tangents), all lists of values; with `symbolic_zeros`
    a tangent that is zero is None. If the graph is
    linear in the operands of the range `linear`, `transpose(other operands, cotangents)` may give
    (their cotangents,).
    """
    check_operands(operands, graph, "the function")
    return graph.result_types


custom_jvp_call.reference(interpreted)
custom_jvp_call.body(Call())
custom_jvp_call.rules.multiple = True


@custom_jvp_call.jvp
def custom_jvp_call_jvp(jvp_graph, primals, tangents, *, rule, symbolic_zeros, **attrs):
    return rule(list(primals), list(tangents) if symbolic_zeros else filled(tangents, primals))


@custom_jvp_call.transpose
def custom_jvp_call_transpose(transpose_graph, ct, *args, graph, transpose, linear, **attrs):
    """A rule may apply its own function to tangents, where that is linear."""
    is_moving = [is_linear(a) for a in args]
    start, stop = linear
    if transpose is not None and not any(is_moving[:start] + is_moving[stop:]):
        (found,) = transpose([*args[:start], *args[stop:]], filled(ct, graph.results))
        pulled = [*[None] * start, *found, *[None] * (len(args) - stop)]
        return [c if moves else None for c, moves in zip(pulled, is_moving, strict=True)]
    pulled = transpose_graph(graph, is_moving, [c is not None for c in ct])
    known = [a for a in args if not is_linear(a)]
    results = inline(pulled, [*known, *(c for c in ct if c is not None)])
    return weave(is_moving, results, [None] * len(args))


@custom_jvp_call.batch
def custom_jvp_call_batch(batch_graph, args, batched, *, graph, rule, transpose, **attrs):
    size = batch_size(args, batched)
    everything = [True] * len(args)
    many, _ = batch_graph(graph, everything, size, [True] * len(graph.results))
    rules = {"rule": batched_rule(batch_graph, rule, size), "transpose": None}
    if transpose is not None:
        rules["transpose"] = batched_rule(batch_graph, transpose, size)
    return custom_jvp_call(*align(args, batched), graph=many, **rules, **attrs)


@define
def custom_vjp_call(
    *operands: Type,
    graph: Graph,
    forward: Rule,
    backward: Rule,
    symbolic_zeros: bool = False,
    transposable: bool = False,
) -> Any:
    """Run a nested graph whose reverse-mode derivative is a user's pair of rules.

    `forward(operands)` gives (results, residuals); `backward(residuals, cotangents)` gives
    (cotangents of the operands,). With `symbolic_zeros` the first is also told which operands
    are `perturbed`, and a cotangent that is zero is None. `transposable` says that it is linear in
    operands that are tangents, so that `backward` is its transpose.
    """
    check_operands(operands, graph, "the function")
    return graph.result_types


custom_vjp_call.reference(interpreted)
custom_vjp_call.body(Call())
custom_vjp_call.rules.multiple = True


@custom_vjp_call.jvp
def custom_vjp_call_jvp(
    jvp_graph, primals, tangents, *, graph, forward, backward, symbolic_zeros, transposable
):
    known = {"perturbed": tuple(t is not None for t in tangents)} if symbolic_zeros else {}
    results, residuals = forward(list(primals), **known)
    signature = build(lambda: map(zeros_like, results), [])
    pushed = custom_pullback(
        *residuals,
        *filled(tangents, primals),
        n_residuals=len(residuals),
        results=signature,
        backward=backward,
        symbolic_zeros=symbolic_zeros,
    )
    return results, pushed


@custom_vjp_call.transpose
def custom_vjp_call_transpose(
    transpose_graph, ct, *args, graph, forward, backward, symbolic_zeros, transposable
):
    """What is linear has the same pullback everywhere, at zeros too."""
    if not transposable:
        raise GradientError(
            "a function with a custom_vjp rule is applied to tangents, and is not known as linear",
            fix="give the function a custom_jvp rule, and deftranspose if it is linear",
        )
    is_moving = tuple(is_linear(a) for a in args)
    known = {"perturbed": is_moving} if symbolic_zeros else {}
    _, residuals = forward([zeros_like(a) if is_linear(a) else a for a in args], **known)
    cts = list(ct) if symbolic_zeros else filled(ct, graph.results)
    (pulled,) = backward(residuals, cts)
    return [c if moves else None for c, moves in zip(pulled, is_moving, strict=True)]


@custom_vjp_call.batch
def custom_vjp_call_batch(batch_graph, args, batched, *, graph, forward, backward, **attrs):
    size = batch_size(args, batched)
    many, _ = batch_graph(graph, [True] * len(args), size, [True] * len(graph.results))
    return custom_vjp_call(
        *align(args, batched),
        graph=many,
        forward=batched_rule(batch_graph, forward, size),
        backward=batched_rule(batch_graph, backward, size),
        **attrs,
    )


@define
def custom_pullback(
    *operands: Type,
    n_residuals: int,
    results: Graph,
    backward: Rule,
    symbolic_zeros: bool = False,
) -> Any:
    """The tangent map of a `custom_vjp_call`: known only through its transpose.

    Operands: residuals, then tangents. `results` is a graph that has the results' types.
    """
    return results.result_types


custom_pullback.rules.multiple = True


@custom_pullback.expand
@custom_pullback.reference
def custom_pullback_forward(*operands, **attrs):
    raise GradientError(
        "a function with a custom_vjp rule has no forward-mode derivative",
        fix="use reverse mode (rlx.grad, rlx.vjp), or give the function a custom_jvp rule",
    )


@custom_pullback.transpose
def custom_pullback_transpose(
    transpose_graph, ct, *args, n_residuals, results, backward, symbolic_zeros
):
    assert not any(is_linear(a) for a in args[:n_residuals]), "residuals are known"
    cts = list(ct) if symbolic_zeros else filled(ct, results.results)
    (pulled,) = backward(list(args[:n_residuals]), cts)
    return [None] * n_residuals + list(pulled)


@custom_pullback.batch
def custom_pullback_batch(batch_graph, args, batched, *, results, backward, **attrs):
    size = batch_size(args, batched)
    many, _ = batch_graph(results, [], size, [True] * len(results.results))
    return custom_pullback(
        *align(args, batched),
        results=many,
        backward=batched_rule(batch_graph, backward, size),
        **attrs,
    )


@define
def stop_gradient(x: Type) -> Type:
    """The operand itself, with a zero derivative."""
    return x


stop_gradient.reference(lambda x: x)
stop_gradient.body(Pointwise("convert"))
stop_gradient.parts(each_part(stop_gradient))
stop_gradient.nondifferentiable("that is its purpose")
stop_gradient.batch(ALIGNED)
stop_gradient.samples([1.0, -2.0], expect=[1.0, -2.0])


def _push(primals: list[Value], tangents: list[Value]) -> list[list[Value]]:
    return [[x + x for x in primals], [t + t for t in tangents]]


_DOUBLE = build(lambda x: [x + x], [Type(as_dtype("float64"), (3,))], "double")
custom_jvp_call.samples((3,), graph=_DOUBLE, rule=Rule(_push))
custom_vjp_call.samples(
    np.ones(3),
    graph=_DOUBLE,
    forward=Rule(lambda primals: [[x + x for x in primals], []]),
    backward=Rule(lambda residuals, cts: [[ct + ct for ct in cts]]),
    expect=[[2.0, 2.0, 2.0]],
)
