"""Custom ops: a NumPy function becomes an op that all transforms know.

The rules that ops of rlx have in their files are methods here: see `CustomOp`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..ir.body import Library
from ..ir.builder import build
from ..ir.errors import ArgumentError, GradientError, StructureError
from ..ir.graph import OPS, Value
from ..ir.op import Op, canonical
from ..ir.ops.callback import one_by_one
from ..ir.ops.control import filled, zeros_like
from ..ir.ops.custom import Rule, custom_pullback
from ..ir.ops.families import check_kind, check_same
from ..ir.rules import align, batch_size, spread
from ..ir.types import Type
from ..runtime import Device
from ..trace import pytree
from ..trace.apply import apply, as_operand, as_tensor
from ..trace.make_graph import check_function, from_values, to_values
from ..trace.promotion import fit_operands, result_dtype
from .custom import named_rule, record_rule, values_of
from .jit.jitted import all_jitted

Types = Sequence[Type]


@final
class CustomOp:
    """An op `name` made of a NumPy function by `custom_op`; it may be `elementwise`.

    Its methods attach rules, each as a decorator:

    - `deftype(fn)`: `fn(*specs, **attrs)` gives the `rlx.spec` of the result, or a tuple of them.
      Needed unless the op is elementwise and of floats.
    - `defformula(fn)`: the same in functions of `rlx.numpy`. Compiled code then uses it instead of
      calling Python, and fuses it; derivatives and batches follow from it, unless they are given.
    - `defkernel(device)(fn)`: another NumPy function for compiled code of one device.
    - `defjvp(rule)`: `rule(primals, tangents, **attrs)` gives (result, tangent).
    - `defjvps(*rules)`: for each argument `rule(tangent, result, *args, **attrs)`, or None if the
      result does not depend on it. Reverse mode transposes these.
    - `defvjp(rule)`: `rule(cotangent, result, *args, **attrs)` gives a tuple with a cotangent, or
      None for zero, for each argument; for an op without forward mode.
    - `nondifferentiable(reason)`: its tangents are zero.
    - `defvmap(rule)`: `rule(axis_size, is_batched, *args, **attrs)` gives (result, whether it is
      batched); the batch is axis 0. Else an elementwise op takes whole batches, another one is
      called for each member.

    Arguments of the NumPy function after a `*` are attributes: hashable values that every call of
    a graph shares. `op` is what graphs hold.
    """

    def __init__(self, fn: Callable[..., Any], name: str, elementwise: bool) -> None:
        functools.update_wrapper(self, fn)
        self._elementwise = elementwise

        def type_rule(*types: Type, **attrs: Any) -> Any:
            return self._result_types(types, attrs)

        vars(type_rule)["__signature__"] = inspect.signature(fn)
        type_rule.__module__ = fn.__module__
        self._type: Callable[..., Any] | None = None
        self._is_used = False
        self.is_reverse_only = False
        self.op = Op(name, type_rule, fn.__doc__)
        rules = self.op.rules
        rules.of_user, rules.body = True, Library()
        rules.reference, rules.batch = _on_copies(fn), self._batch
        rules.jvp = self._no_derivative

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        self._is_used = True
        self._check_attributes(attrs)
        if self._elementwise:
            is_float = self._type is None
            dtype = result_dtype(*map(as_operand, args), inexact=is_float)
            return apply(self.op, *fit_operands(self.op.name, dtype, *args), **attrs)
        return apply(self.op, *map(as_tensor, args), **attrs)

    def __repr__(self) -> str:
        return f"<custom_op {self.op.name}>"

    def _check_attributes(self, attrs: dict[str, Any]) -> None:
        for name, value in attrs.items():
            try:
                hash(canonical(name, value))
            except TypeError:
                raise ArgumentError(
                    f"{self.op.name}: the attribute {name!r} is a {type(value).__name__}, which "
                    "cannot be hashed",
                    fix="give a number, a text or a tuple of them; an array is an argument before "
                    "the * of the function",
                ) from None

    def _changed(self) -> None:
        """Invalidate what was compiled with the old rules."""
        self.op.revision += 1
        if self._is_used:
            for jitted in all_jitted():
                jitted.cache_clear()

    # -- meaning --------------------------------------------------------------------------------

    def deftype(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the type rule: specs of the arguments to specs of the results."""
        self._type = fn
        self._changed()
        return fn

    def _result_types(self, types: Types, attrs: dict[str, Any]) -> Any:
        if self._type is not None:
            found = self._type(*types, **attrs)
            given = found if isinstance(found, tuple) else (found,)
            if all(isinstance(t, Type) for t in given):
                return found
            raise ArgumentError(
                f"the type rule gave {found!r}", fix="return rlx.spec(shape, dtype), or a tuple"
            )
        if self._elementwise:
            check_kind(types[0], ("float", "complex"))
            return check_same(*types)
        name = self.op.name
        raise ArgumentError(
            "nothing is known of the shape of the result",
            fix=f"write @{name}.deftype, a function of specs that gives a spec, or make the op "
            "with custom_op(elementwise=True)",
        )

    def defformula(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Set the op's definition in functions of `rlx.numpy`, for compiled code.

        Returns `fn`, so that it can be used as a decorator.
        """

        def formula(*args: Value, **attrs: Any) -> Any:
            types = self.op.infer([a.type for a in args], attrs)
            found = self._recorded("formula", fn, tuple(from_values(args)), attrs)
            values = self._values("formula", found, types)
            return values if self.op.is_multiple(values) else values[0]

        rules = self.op.rules
        rules.expand = formula
        rules.body = None
        if rules.jvp == self._no_derivative:
            rules.jvp = None
        if rules.batch == self._batch and not self._elementwise:
            rules.batch = None
        self._changed()
        return fn

    def defkernel(self, device: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Set the NumPy function that compiled code of one `device` calls.

        Returns a decorator, which gives the function back.
        """
        name = str(Device(device))

        def attach(fn: Callable[..., Any]) -> Callable[..., Any]:
            kernels = self.op.rules.kernels
            self.op.rules.kernels = {**kernels, name: _on_copies(fn)}
            self._changed()
            return fn

        return attach

    def samples(self, *args: Any, **keywords: Any) -> None:
        """Add an example for the tests of ops: arrays `args` and attributes `keywords`."""
        self.op.samples(*args, **keywords)

    # -- derivatives ----------------------------------------------------------------------------

    def _no_derivative(self, primals: Any, tangents: Any, **attrs: Any) -> Any:
        name = self.op.name
        raise GradientError(
            f"{name} has no derivative yet",
            fix=f"write @{name}.defjvp, {name}.defjvps(...) or @{name}.defvjp, or wrap the call in "
            "rlx.stop_gradient",
        )

    def _derive(self, rule: str, given: Any) -> None:
        self.op.rules.jvp = self.op.rules.nondifferentiable = None
        setattr(self.op.rules, rule, given)
        self.is_reverse_only = False
        self._changed()

    def nondifferentiable(self, reason: str) -> None:
        """Declare that the op has no derivative: its tangents are zero."""
        self._derive("nondifferentiable", reason)

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the JVP rule: `rule(primals, tangents, **attrs)` gives (result, tangent)."""
        check_function(rule, "defjvp: the rule")

        def pushed(primals: Any, tangents: Any, **attrs: Any) -> Any:
            given = tuple(from_values(primals)), tuple(from_values(filled(tangents, primals)))
            found = self._recorded("jvp rule", rule, given, attrs)
            if not isinstance(found, tuple | list) or len(found) != 2:
                raise self._wrong_count("jvp rule", "a pair: the result and its tangent")
            types = self.op.infer([p.type for p in primals], attrs)
            value, slope = found
            return (
                self._values("jvp rule's result", value, types),
                self._values("jvp rule's tangent", slope, types, is_slope=True),
            )

        self._derive("jvp", pushed)
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set a JVP rule for each argument: `rule(tangent, result, *args, **attrs)`."""
        if len(rules) != len(self.op.operand_names) and not self.op.is_variadic:
            raise self._wrong_count("defjvps", f"{len(self.op.operand_names)} rules")
        for rule in rules:
            if rule is not None:
                check_function(rule, "defjvps: a rule")

        def of(rule: Callable[..., Any]) -> Callable[..., Value]:
            def pushed(*values: Value, **attrs: Any) -> Value:
                found = self._recorded("jvp rule", rule, tuple(from_values(values)), attrs)
                return self._values("jvp rule", found, [values[1].type], is_slope=True)[0]

            return pushed

        self._derive("jvp", [None if rule is None else of(rule) for rule in rules])

    def defvjp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the VJP rule, which gives a cotangent for each argument."""
        check_function(rule, "defvjp: the rule")

        def pushed(primals: Sequence[Value], tangents: Any, **attrs: Any) -> Any:
            results = self.op.apply(primals, attrs)
            n = len(primals)

            def backward(residuals: Sequence[Value], cts: Sequence[Value]) -> list[list[Value]]:
                outs, ct = (self._as_result(from_values(xs)) for xs in (residuals[n:], cts))
                given = (ct, outs, *from_values(residuals[:n]))
                found = self._recorded("vjp rule", rule, given, attrs)
                if not isinstance(found, tuple | list) or len(found) != n:
                    raise self._wrong_count("vjp rule", f"a tuple of {n} cotangents")
                types = [p.type for p in residuals[:n]]
                return [self._values("vjp rule", tuple(found), types, is_slope=True)]

            signature = build(lambda: [zeros_like(r.type) for r in results], [])
            slopes = custom_pullback(
                *[*primals, *results, *filled(tangents, primals)],
                n_residuals=n + len(results),
                results=signature,
                backward=Rule(backward, (rule, tuple(attrs.items()))),
            )
            return results, slopes

        self._derive("jvp", pushed)
        self.is_reverse_only = True
        return rule

    # -- batches --------------------------------------------------------------------------------

    def defvmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the batching `rule`: `rule(axis_size, is_batched, *args)`, see the class.

        Returns the rule, so that this can be used as a decorator.
        """

        def batch(args: Sequence[Value], batched: Sequence[bool], **attrs: Any) -> Any:
            size = batch_size(args, batched)
            flags: list[bool] = []

            def of_arrays(*xs: Any, **attrs: Any) -> Any:
                found = rule(size, list(batched), *xs, **attrs)
                if not isinstance(found, tuple | list) or len(found) != 2:
                    raise self._wrong_count("vmap rule", "a pair: result, is it batched")
                value, is_there = found
                flags[:] = pytree.leaves(is_there)
                return value

            given = tuple(from_values(args))
            values, _ = to_values(self._recorded("vmap rule", of_arrays, given, attrs))
            if len(flags) == 1:
                flags[:] = flags * len(values)
            pairs = zip(values, flags, strict=True)
            return [x if is_there else spread(x, size) for x, is_there in pairs]

        self.op.rules.batch = batch
        self._changed()
        return rule

    def _batch(self, args: Sequence[Value], batched: Sequence[bool], **attrs: Any) -> Any:
        if self._elementwise:
            return self.op.apply(align(args, batched), attrs)
        return one_by_one(self.op, args, batched, attrs)

    # -- rules on arrays ------------------------------------------------------------------------

    def _recorded(self, what: str, rule: Callable[..., Any], args: Any, attrs: Any) -> Any:
        named = named_rule(functools.partial(rule, **attrs), f"{self.op.name}: {what}")
        return record_rule(named, args, (), ())

    def _as_result(self, results: Sequence[Any]) -> Any:
        return results[0] if len(results) == 1 else tuple(results)

    def _values(
        self, what: str, found: Any, types: Types, *, is_slope: bool = False
    ) -> list[Value]:
        given = list(found) if isinstance(found, tuple | list) else [found]
        if len(given) != len(types):
            raise self._wrong_count(what, f"{len(types)} arrays, not {len(given)}")
        paths = [f" {i}" if len(types) > 1 else "" for i in range(len(types))]
        return values_of(f"{self.op.name}: the {what}", given, types, paths, is_slope)

    def _wrong_count(self, what: str, needed: str) -> StructureError:
        return StructureError(
            f"{self.op.name}: {what} must give {needed}",
            fix="see the docstring of rlx.CustomOp",
        )


def custom_op(
    fn: Callable[..., Any] | None = None, *, name: str | None = None, elementwise: bool = False
) -> Any:
    """Make an op of a NumPy function, as a decorator; returns a `CustomOp`.

    `fn` is the function; `name` is by default its name. An `elementwise` op takes arguments as
    `rlx.numpy` does, and gives floats of their common shape and dtype. Another one needs a type
    rule. The methods of `CustomOp` give derivatives, batches and a formula that fuses. A name that
    is no identifier, or that of an op of rlx, is an `ArgumentError`.

    >>> import numpy as np, rlx
    >>> @custom_op(elementwise=True)
    ... def softsign(x):
    ...     return x / (1 + np.abs(x))
    >>> softsign.defjvps(lambda t, out, x: t / (1 + abs(x)) ** 2)
    >>> float(rlx.jit(rlx.grad(softsign))(1.0))
    0.25
    """
    if fn is None:
        return functools.partial(custom_op, name=name, elementwise=elementwise)
    check_function(fn, "custom_op: what becomes an op")
    name = fn.__name__ if name is None else name
    if not isinstance(name, str) or not name.isidentifier():
        raise ArgumentError(
            f"custom_op: {name!r} is no name",
            fix='give one of letters and digits: custom_op(name="f")',
        )
    if name in OPS and not OPS[name].rules.of_user:
        raise ArgumentError(
            f"custom_op: there is an op {name} in rlx",
            fix=f'give it another name: custom_op(name="my_{name}")',
        )
    number = 1  # functions compiled with an earlier definition keep it
    unique = name
    while unique in OPS:
        number += 1
        unique = f"{name}_{number}"
    return CustomOp(fn, unique, elementwise)


def _on_copies(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function on copies, which it may write to and keep."""

    def called(*arrays: np.ndarray, **attrs: Any) -> Any:
        return fn(*map(np.array, arrays), **attrs)

    return called
