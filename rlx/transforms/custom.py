"""Custom derivatives: custom_jvp, custom_vjp and stop_gradient.

A user's rule runs while a derivative graph is recorded. Values that it captures are operands of
the call, or become constants.
"""

from __future__ import annotations

import functools
import inspect
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.builder import current, inline
from ..ir.errors import ArgumentError, GradientError, LeakedTracerError, StructureError
from ..ir.graph import OPS, Value
from ..ir.ops.control import pick, weave, zeros_like
from ..ir.ops.custom import Rule
from ..ir.tracebacks import boundary
from ..ir.types import Type, is_inexact
from ..trace import pytree
from ..trace.apply import apply, as_operand, to_value
from ..trace.arguments import members
from ..trace.axes import integer
from ..trace.closures import lift_leaves, with_weak
from ..trace.make_graph import Traced, check_function, from_values, function_name, to_values, trace
from ..trace.operators import Operators
from .run_graph import like_primals
from .zeros import CustomVJPPrimal, SymbolicZero, with_zeros_named


def apply_nested(op: str, traced: Traced, args: Any, **attrs: Any) -> Any:
    """Apply an op with a nested graph to the leaves of arguments and the captures."""
    operands = [*lift_leaves(args, traced), *from_values(traced.captures)]
    results: Any = apply(op, *operands, graph=traced.graph, **attrs)
    return pytree.unflatten(traced.out_tree, with_weak(results, traced.out_weak))


class _Custom(ABC):
    """The shared part of functions with custom rules: names, and fixed arguments."""

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __init__(
        self,
        fn: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        check_function(fn, f"{type(self).__name__}: the function")
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._name = function_name(fn)
        numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else nondiff_argnums
        numbers = [integer("nondiff_argnums", n) for n in members("nondiff_argnums", numbers)]
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else nondiff_argnames
        names = members("nondiff_argnames", names)
        self._nondiff = (*numbers, *(self._place_of(name) for name in names))
        self._symbolic_zeros = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self._name})>"

    def _place_of(self, name: str) -> int:
        known = list(inspect.signature(self._fn).parameters)
        if isinstance(name, str) and name in known:
            return known.index(name)
        raise ArgumentError(
            f"nondiff_argnames: {self._name} has no argument {name!r}",
            fix=f"pick from {', '.join(known)}",
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Bind all arguments by position, with defaults: rules take no keywords."""
        bound = inspect.signature(self._fn).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise ArgumentError(
                f"{self._name} takes {', '.join(bound.kwargs)} by name only",
                fix="let a function with custom rules take all its arguments by position",
            )
        return list(bound.args)

    def _cut(self, args: list[Any]) -> tuple[list[Any], list[Any], Callable[..., Any]]:
        """Split off the fixed arguments, and give the function of the others."""
        places = {i % len(args) for i in self._nondiff}
        fixed = [args[i] for i in sorted(places)]
        free = [x for i, x in enumerate(args) if i not in places]

        @functools.wraps(self._fn, assigned=("__name__",), updated=())
        def of_free(*given: Any) -> Any:
            rest = iter(given)
            return self._fn(*(x if i in places else next(rest) for i, x in enumerate(args)))

        del of_free.__wrapped__  # its arguments have other places
        return fixed, free, of_free


class custom_jvp(_Custom):
    """Define a custom derivative (JVP) of a function.

    Arguments of `fn` in `nondiff_argnums`, or with names in `nondiff_argnames`, may be anything;
    the rule gets them first.

    >>> import rlx
    >>> @rlx.custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 10.0 * tangents[0]
    >>> float(rlx.grad(f)(3.0))
    10.0
    """

    _rule: Callable[..., Any] | None = None
    _transpose: Callable[..., Any] | None = None

    def deftranspose(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the transpose of a function that is linear in its last argument.

        `rule(*others, cotangent)` gives the cotangent of that argument.
        """
        self._transpose = rule
        return rule

    def defjvp(self, rule: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the JVP rule: `rule(primals, tangents)` gives (value, tangent).

        With `symbolic_zeros` a tangent that is zero is a `rlx.SymbolicZero`.
        """
        check_function(rule, "defjvp: the rule")
        self._rule, self._symbolic_zeros = rule, symbolic_zeros
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set a JVP rule for each argument.

        Each of `rules` is `rule(tangent, value, *primals)`, which gives a tangent. None stands for
        an argument on which the value does not depend. Raises an `ArgumentError` if the function
        has arguments that are not differentiated.
        """
        if self._nondiff:
            raise ArgumentError(
                f"defjvps: {self._name} has nondiff_argnums",
                fix="use defjvp, whose rule gets them first",
            )
        for one in rules:
            if one is not None:
                check_function(one, "defjvps: a rule")

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            value = self(*primals)
            pairs = zip(rules, tangents, strict=True)
            slopes = [r(t, value, *primals) for r, t in pairs if r is not None]
            if not slopes:
                return value, pytree.map(lambda _: None, value)
            return value, functools.reduce(lambda a, b: pytree.map(operator.add, a, b), slopes)

        self.defjvp(rule)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rule is None:
            raise _no_rule(self._fn, "defjvp")
        fixed, free, fn = self._cut(self._positional(args, kwargs))
        traced = trace(fn, free)
        n, tree, user_rule = traced.n_args, traced.in_tree, self._rule
        types = traced.graph.result_types

        def rule(primals: Sequence[Value], tangents: Sequence[Value]) -> list[list[Value]]:
            given, _ = pytree.unflatten(tree, from_values(primals[:n]))
            tangents = with_zeros_named(from_values(tangents[:n]), [p.type for p in primals[:n]])
            moving, _ = pytree.unflatten(tree, tangents)
            bound = named_rule(functools.partial(user_rule, *fixed), self._name)
            found = record_rule(bound, (given, moving), traced.captures, primals[n:])
            value, slope = _pair(found, f"the jvp rule of {self._name}", "(value, tangent)")
            name = f"{self._name}: the jvp rule's "
            return [
                _matching(name + "value", value, traced.out_tree, types, is_slope=False),
                _matching(name + "tangent", slope, traced.out_tree, types),
            ]

        key = (user_rule, tree, tuple(map(id, fixed)))
        rules = {"rule": Rule(rule, key), **self._transposed(traced)}
        rules["symbolic_zeros"] = self._symbolic_zeros
        return apply_nested("custom_jvp_call", traced, (tuple(free), {}), **rules)

    def _transposed(self, traced: Traced) -> dict[str, Any]:
        """Make the rules of a function that is linear in its last argument."""
        if self._transpose is None:
            return {}
        user_rule, args = self._transpose, traced.in_tree.children()[0].children()
        n_known = sum(spec.num_leaves for spec in args[:-1])
        types = traced.graph.param_types[n_known : traced.n_args]

        def transposed(known: Sequence[Value], cts: Sequence[Value]) -> list[list[Value]]:
            leaves = iter(from_values(known[:n_known]))
            given = [pytree.unflatten(s, [next(leaves) for _ in s.accessors()]) for s in args[:-1]]
            ct = pytree.unflatten(traced.out_tree, from_values(cts))
            bound = named_rule(user_rule, self._name)
            found = record_rule(bound, (*given, ct), traced.captures, known[n_known:])
            return [_matching(f"{self._name}: the transpose", found, args[-1], types)]

        rule = Rule(transposed, (user_rule, traced.in_tree))
        return {"transpose": rule, "linear": (n_known, traced.n_args)}


class custom_vjp(_Custom):
    """Define a custom reverse-mode derivative (VJP) of a function.

    Arguments of `fn` in `nondiff_argnums`, or with names in `nondiff_argnames`, may be anything;
    `forward` gets them in their places, `backward` gets them first.

    >>> import rlx
    >>> @rlx.custom_vjp
    ... def f(x):
    ...     return x * x
    >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (7.0 * ct,))
    >>> float(rlx.grad(f)(3.0))
    7.0
    """

    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    transposable = False  # whether it is linear in arguments that are tangents

    def defvjp(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        symbolic_zeros: bool = False,
    ) -> None:
        """Set the forward and the backward rule.

        `forward(*args)` gives (value, residuals); `backward(residuals, cotangent)` gives a tuple
        with a cotangent, or None for zero, for each argument. With `symbolic_zeros` the arrays
        that `forward` gets are `rlx.CustomVJPPrimal`s with a `value` and whether it is
        `perturbed`, and a cotangent that is zero is a `rlx.SymbolicZero`.
        """
        for rule in (forward, backward):
            check_function(rule, "defvjp: a rule")
        self._rules, self._symbolic_zeros = (forward, backward), symbolic_zeros

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rules is None:
            raise _no_rule(self._fn, "defvjp")
        everything = self._positional(args, kwargs)
        fixed, free, fn = self._cut(everything)
        traced = trace(fn, free)
        forward, backward = self._vjp_rules(traced, everything, fixed)
        return apply_nested(
            "custom_vjp_call",
            traced,
            (tuple(free), {}),
            forward=forward,
            backward=backward,
            symbolic_zeros=self._symbolic_zeros,
            transposable=self.transposable,
        )

    def _vjp_rules(
        self, traced: Traced, everything: list[Any], fixed: list[Any]
    ) -> tuple[Rule, Rule]:
        """The rules as functions of values, with captured values among the residuals."""
        assert self._rules is not None
        forward_rule, backward_rule = self._rules
        places = {i % len(everything) for i in self._nondiff}
        n, tree, types = traced.n_args, traced.in_tree, traced.graph.result_types
        residuals_of_call = _Residuals()

        def of_free(*given: Any) -> Any:
            rest = iter(given)
            found = forward_rule(
                *(x if i in places else next(rest) for i, x in enumerate(everything))
            )
            value, kept = _pair(found, f"the forward rule of {self._name}", "(value, residuals)")
            return value, residuals_of_call.arrays_of(kept)

        def forward(primals: Sequence[Value], perturbed: Any = None) -> list[list[Value]]:
            arrays = from_values(primals[:n])
            if perturbed is not None:
                arrays = list(map(CustomVJPPrimal, arrays, perturbed))
            given, _ = pytree.unflatten(tree, arrays)
            bound = named_rule(of_free, self._name)
            value, kept = record_rule(bound, given, traced.captures, primals[n:])
            what = f"{self._name}: the forward rule's value"
            return [
                _matching(what, value, traced.out_tree, types, is_slope=False),
                [*to_values(kept)[0], *primals[n:]],
            ]

        def backward(residuals: Sequence[Value], cts: Sequence[Value]) -> list[list[Value]]:
            count = sum(residuals_of_call.is_array)
            arrays = from_values(residuals[:count])
            ct = pytree.unflatten(traced.out_tree, with_zeros_named(from_values(cts), list(types)))
            bound = named_rule(
                lambda xs, ct: backward_rule(*fixed, residuals_of_call.with_arrays(xs), ct),
                self._name,
            )
            pulled = record_rule(bound, (arrays, ct), traced.captures, residuals[count:])
            extra = [zeros_like(p.type) for p in traced.graph.params[n:]]
            return [[*_cotangents(self._name, pulled, traced), *extra]]

        key = (self._rules, tree, tuple(map(id, fixed)))
        # the structure of the residuals is known to this pair only
        return Rule(forward, ("forward", key)), Rule(backward, residuals_of_call)


class _Residuals:
    """Residuals of a forward rule: arrays, and Python values as they are."""

    def __init__(self) -> None:
        self.is_array: list[bool] = []

    def arrays_of(self, kept: Any) -> list[Any]:
        """Give the arrays, and remember containers and Python values, such as shapes."""
        leaves, self._structure = pytree.flatten(kept)
        self.is_array = [isinstance(x, Operators | np.ndarray | np.generic) for x in leaves]
        self._plain = pick(leaves, self.is_array, False)
        return pick(leaves, self.is_array)

    def with_arrays(self, arrays: Sequence[Any]) -> Any:
        """Rebuild the containers with their Python values and the given arrays."""
        return pytree.unflatten(self._structure, weave(self.is_array, arrays, self._plain))


def named_rule(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Name a function after its rule, for errors."""

    def rule(*args: Any) -> Any:
        return fn(*args)

    rule.__name__ = f"rule of {name}"
    return rule


def record_rule(
    rule: Callable[..., Any], args: Sequence[Any], captures: Sequence[Any], held: Sequence[Value]
) -> Any:
    """Record a user's rule in the current graph, and return its results.

    `held` are the values that stand for `captures`, the arrays the function uses from outside.
    """
    try:
        traced = trace(rule, args)
    except LeakedTracerError as error:
        error.fix = f"give it as an argument: the {function_name(rule)} runs after the trace"
        raise
    table = {id(thing): value for thing, value in zip(captures, held, strict=True)}
    outside = [_from_outside(thing, table, rule) for thing in traced.captures]
    return traced.unflatten(inline(traced.graph, [*to_values(tuple(args))[0], *outside]))


def _from_outside(thing: Any, table: Mapping[int, Value], rule: Callable[..., Any]) -> Value:
    if id(thing) in table:
        return table[id(thing)]
    if not isinstance(thing, Value):
        return OPS["constant"].lift(thing.host())
    recorder = current()
    if recorder is not None and recorder.graph.owns(thing):
        return thing
    raise GradientError(
        f"the {function_name(rule)} uses a traced value, {thing.type}, that its function does not",
        fix="give it as an argument, or keep it among the residuals",
    )


def _pair(found: Any, what: str, needed: str) -> tuple[Any, Any]:
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise StructureError(
            f"{what} must return {needed}, it returned a {type(found).__name__}",
            fix="return a pair",
        )
    return found[0], found[1]


def _matching(
    what: str, tree: Any, spec: pytree.Structure, types: Sequence[Type], *, is_slope: bool = True
) -> list[Value]:
    """Values of a rule's results, checked against a structure and types.

    In a derivative None stands for zero, and so does anything for an integer.
    """
    given = pytree.flatten_like(spec, tree, what, ("what is wanted", "what it returned"))
    return values_of(what, given, types, pytree.paths(spec), is_slope)


def values_of(
    what: str, given: Sequence[Any], types: Sequence[Type], paths: Sequence[str], is_slope: bool
) -> list[Value]:
    """Values of arrays that a rule returned, checked against types."""
    found = []
    for x, type, path in zip(given, types, paths, strict=True):
        is_zero = x is None or isinstance(x, SymbolicZero)
        if is_slope and (is_zero or not is_inexact(type.dtype)):
            found.append(zeros_like(type))
            continue
        (checked,) = like_primals(what, [x], [type], [path])
        found.append(to_value(as_operand(checked), type))
    return found


def _cotangents(name: str, pulled: Any, traced: Traced) -> list[Value]:
    """The cotangents of the arguments' leaves."""
    what = f"{name}: the backward rule's cotangent"
    arguments = traced.in_tree.children()[0].children()
    if not isinstance(pulled, tuple | list) or len(pulled) != len(arguments):
        raise StructureError(
            f"the backward rule of {name} must return a tuple of {len(arguments)} cotangents",
            fix="return one for each argument, None for zero: `return (ct,)` for one argument",
        )
    types = iter(traced.graph.param_types)
    found: list[Value] = []
    for i, (spec, ct) in enumerate(zip(arguments, pulled, strict=True)):
        mine = [next(types) for _ in range(spec.num_leaves)]
        if ct is None:
            found += map(zeros_like, mine)
        else:
            found += _matching(f"{what} of argument {i}", ct, spec, mine)
    return found


def _no_rule(fn: Any, what: str) -> GradientError:
    name = function_name(fn)
    return GradientError(
        f"{name} has no derivative yet",
        fix=f"give it one with {name}.{what}(...)",
    )


def stop_gradient(x: Any) -> Any:
    """Return the arrays of `x` unchanged, with a zero derivative.

    >>> import rlx
    >>> float(rlx.grad(lambda x: x * rlx.stop_gradient(x))(3.0))
    3.0
    """
    return pytree.map(lambda leaf: apply("stop_gradient", as_operand(leaf)), x)
