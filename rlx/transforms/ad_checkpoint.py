"""Rematerialization: what reverse mode stores, and what it recomputes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.body import Call
from ..ir.builder import build, inline, rewrite
from ..ir.errors import ArgumentError
from ..ir.graph import Graph, Node, Value
from ..ir.ops.custom import Rule
from ..ir.tracebacks import boundary
from ..ir.types import Type, is_inexact
from ..trace import pytree
from ..trace.apply import apply, as_operand
from ..trace.arguments import names_of
from ..trace.make_graph import check_function, titled, trace
from .custom import apply_nested
from .grad import chosen_arguments, linearized

__all__ = [
    "checkpoint",
    "checkpoint_name",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]


def __dir__() -> list[str]:
    return __all__


def checkpoint(
    fun: Callable[..., Any],
    *,
    policy: Callable[..., Any] | None = None,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[..., Any]:
    """Make a function recompute its intermediate values in reverse mode.

    Returns a function that computes the same as `fun`. `policy` says which values are stored
    nevertheless; `rlx.checkpoint_policies` has some. Without `prevent_cse` common subexpression
    elimination may find and keep a value. Arguments of `static_argnums`, and those passed by a name
    of `static_argnames`, reach the function as they are.

    >>> import rlx
    >>> cube = rlx.checkpoint(lambda x: x**3, policy=rlx.checkpoint_policies.dots_saveable)
    >>> float(rlx.grad(cube)(2.0))
    12.0
    """
    check_function(fun, "checkpoint: the function")
    if policy is not None:
        check_function(policy, "checkpoint: the policy")
    rule = None if policy is None else Rule(policy)
    names = names_of("checkpoint: static_argnames", static_argnames)

    @boundary
    @functools.wraps(fun, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fixed = chosen_arguments(fun, static_argnums, len(args), "static_argnums")
        given = tuple(pytree.Static(a) if i in fixed else a for i, a in enumerate(args))
        named = {k: pytree.Static(a) if k in names else a for k, a in kwargs.items()}
        traced = trace(fun, given, named)
        attrs = {"policy": rule, "prevent_cse": prevent_cse}
        return apply_nested("checkpoint", traced, (given, named), **attrs)

    wrapped.__qualname__ = titled("checkpoint", fun)
    return wrapped


remat = checkpoint


def checkpoint_name(tree: Any, name: str) -> Any:
    """Name arrays, so that the policy of a checkpoint can say whether to store them.

    Returns the arrays of `tree` as they are. A `name` that is not a text is an `ArgumentError`.

    >>> import rlx
    >>> policy = rlx.checkpoint_policies.save_only_these_names("sine")
    >>> f = lambda x: rlx.numpy.exp(checkpoint_name(rlx.numpy.sin(x), "sine"))
    >>> rlx.ad_checkpoint.print_saved_residuals(rlx.checkpoint(f, policy=policy), 1.0)
    f32[] from argument 0 of <lambda>, x
    f32[] named 'sine' from ...
    """
    if not isinstance(name, str):
        raise ArgumentError(
            f"checkpoint_name: the name is {name!r}",
            fix="give a text, which a policy can ask for",
        )
    return pytree.map(lambda x: apply("checkpoint_name", as_operand(x), name=name), tree)


def saved_residuals(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Type, str]]:
    """List the residuals of a function: the type and the origin of each.

    >>> import rlx
    >>> len(saved_residuals(lambda x: rlx.numpy.sin(x), 1.0))
    1
    """
    traced = trace(fn, args, kwargs)
    active = [is_inexact(p.dtype) for p in traced.graph.params[: traced.n_args]]
    active += [False] * len(traced.captures)
    known = linearized(traced.graph, active)[0].known
    opened = _opened(known)
    for inner, outer in zip(opened.params, traced.graph.params, strict=False):
        inner.origin = outer.origin
    kept = dict.fromkeys(opened.results[len(traced.graph.results) :])
    return [(x.type, _made_by(x)) for x in kept]


def print_saved_residuals(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the residuals of a function, a line for each array."""
    for type, text in saved_residuals(fn, *args, **kwargs):
        print(type, text)


def _opened(graph: Graph) -> Graph:
    """Inline nested graphs that run once."""

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if isinstance(node.op.rules.body, Call):
            return inline(_opened(node.attrs["graph"]), operands)
        return node.op.apply(operands, node.attrs)

    return build(lambda *xs: rewrite(graph, xs, visit), graph.param_types, graph.name)


def _made_by(x: Value) -> str:
    if x.node is None:
        return f"from {x.origin or 'outside'}"
    name = x.node.attrs.get("name") if x.node.op.name == "checkpoint_name" else None
    what = f"named {name!r}" if name else f"output of {x.node.op.name}"
    return f"{what} from {x.node.source}"
