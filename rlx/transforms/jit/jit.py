"""`jit` and `with_policy`, with checks of their options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, overload

from ...ir.errors import StaticArgumentError
from ...ir.policy import Policy
from ...runtime.options import CompileOptions, as_buckets
from ...trace.arguments import members
from ...trace.axes import integer
from ...trace.make_graph import check_function, function_name
from .jitted import Jitted
from .sizes import Axes, declare, device_of


def known_names(fn: Callable[..., Any], names: Sequence[str] | str, what: str) -> tuple[str, ...]:
    """Check names of arguments against the function's signature."""
    check_function(fn, "what jit compiles")
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, Sequence):
        raise StaticArgumentError(
            f"{what} is {names!r}, not a name",
            fix="give the names of arguments: a text or a list of them",
        )
    known = inspect.signature(fn).parameters if names else {}
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise StaticArgumentError(
                f"{function_name(fn)} has no argument {name!r} to be in {what}",
                fix=f"its arguments are {', '.join(known)}",
            )
    return tuple(names)


def names_of(fn: Callable[..., Any], numbers: Sequence[int] | int, what: str) -> tuple[str, ...]:
    """The names of arguments by their places."""
    check_function(fn, "what jit compiles")
    many = [numbers] if isinstance(numbers, int) else list(members(what, numbers))
    if not many:
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(fn).parameters.values()
    names = [p.name for p in parameters if p.kind in kinds]
    found = []
    for number in many:
        place = integer(what, number)
        if not -len(names) <= place < len(names):
            raise StaticArgumentError(
                f"{function_name(fn)} has no argument {place} to be in {what}",
                fix=f"its arguments by place are {', '.join(names) or 'none'}",
            )
        found.append(names[place])
    return tuple(found)


def _named(
    fn: Callable[..., Any],
    word: str,
    names: Sequence[str] | str,
    numbers: Sequence[int] | int,
) -> tuple[str, ...]:
    """Check that a parameter is not given both by name and by place."""
    found = known_names(fn, names, f"{word}_argnames")
    return found + names_of(fn, numbers, f"{word}_argnums")


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

if TYPE_CHECKING:
    from typing_extensions import Unpack

    class Options(TypedDict, total=False):
        """The options of `jit`, for editors."""

        static_argnums: Sequence[int] | int
        static_argnames: Sequence[str] | str
        donate_argnums: Sequence[int] | int
        donate_argnames: Sequence[str] | str
        device: str | None
        dynamic: Mapping[str, Axes] | None
        specialize: bool
        buckets: Mapping[str, Sequence[int]] | None
        deterministic: str | None
        tier: str
        precision: Policy | str | None
        in_shardings: Any
        out_shardings: Any
        debug_nans: bool


@overload
def jit(
    fn: Callable[Parameters, Result], **options: Unpack[Options]
) -> Jitted[Parameters, Result]: ...


@overload
def jit(
    fn: None = None, **options: Unpack[Options]
) -> Callable[[Callable[Parameters, Result]], Jitted[Parameters, Result]]: ...


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    static_argnums: Sequence[int] | int = (),
    static_argnames: Sequence[str] | str = (),
    donate_argnums: Sequence[int] | int = (),
    donate_argnames: Sequence[str] | str = (),
    device: str | None = None,
    dynamic: Mapping[str, Axes] | None = None,
    specialize: bool = False,
    buckets: Mapping[str, Sequence[int]] | None = None,
    deterministic: str | None = None,
    tier: str = "auto",
    precision: Policy | str | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    debug_nans: bool = False,
) -> Any:
    """Compile a function just in time.

    It is compiled once for each combination of structure, dtypes and shapes of its arguments.
    Static arguments are Python values known while tracing. Donated arguments give their memory to
    results where these fit (`compiled.report()` tells), and using one again is an error. Both are
    named by place (`argnums`) or by name. Works as a decorator, with and without keywords.

    `dynamic` maps names of arguments to axes whose sizes stay open: one program serves all of
    them. A size is a name or a `rlx.dim` with a range; equal names are equal sizes. Slices are as
    long as they say for all sizes: `x[:5]` of fewer elements is an error of the call. What is said
    of an optional argument does not apply where it is left out. A device that needs known sizes is
    told to `specialize`, to compile for each size it meets, or is given `buckets`, sizes for each
    dim to which arrays are padded; `report()` tells which were met.

    It runs on `device`, to which arguments are copied, and so does what calls it; without one where
    its arguments lie, and if all lie on the host on the default device. Two devices are an error.
    With "auto" a model of costs predicts the fastest for such arguments (`rlx.explain_device`).
    Results never depend on the number of threads. With `deterministic="batch"` those of one row do
    not depend on how many rows a batch has, nor do those of callers: sums go in one order, slower.
    Code of `tier="auto"` gets better if a program has run long; that of "max" takes long to make.
    `precision` is a policy or its name, as "mixed_bf16", also of functions it calls without one.
    `in_shardings` and `out_shardings` split arrays across devices: a `rlx.NamedSharding`, or trees.
    With `debug_nans` an operation that makes a NaN is an error, here and in functions it calls.

    >>> import rlx
    >>> @rlx.jit
    ... def f(x):
    ...     return x * 2 + 1
    >>> f(rlx.array([1.0, 2.0])).tolist()
    [3.0, 5.0]
    >>> total = rlx.jit(lambda x: x.sum(), dynamic={"x": {0: "n"}})
    >>> [total(rlx.numpy.ones(n)).item() for n in (3, 5, 8)], total.cache_info().compiles
    ([3.0, 5.0, 8.0], 1)
    """
    if fn is None:
        return functools.partial(jit, **{k: given for k, given in locals().items() if k != "fn"})
    static = _named(fn, "static", static_argnames, static_argnums)
    given = _named(fn, "donate", donate_argnames, donate_argnums)
    plain = (specialize, as_buckets(buckets), deterministic, tier, 0, precision)
    options = CompileOptions("", None, given, *plain, in_shardings, out_shardings, debug_nans)
    device = device_of(in_shardings, out_shardings) if device is None else device
    return Jitted(fn, static, options, device, declare(fn, dynamic, static))


def with_policy(policy: Policy | str) -> Callable[[Callable[..., Any]], Jitted]:
    """Compile a function under a precision policy: `jit(precision=policy)`.

    >>> import rlx
    >>> @with_policy("bf16")
    ... def third(x):
    ...     return x / 3
    >>> third(rlx.array([1.0])).item()
    0.333984375
    """
    return jit(precision=policy)
