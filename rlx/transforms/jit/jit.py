"""`jit` and `with_policy`, with checks of their options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, overload

from ...ir.errors import StaticArgumentError
from ...ir.policy import Policy
from ...runtime.options import CompileOptions, as_buckets, both
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
        buckets: Mapping[str, Sequence[int] | str] | None
        deterministic: str | None
        tier: str
        precision: Policy | str | None
        in_shardings: Any
        out_shardings: Any
        debug_nans: bool
        options: CompileOptions | Mapping[str, Any] | None


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
    buckets: Mapping[str, Sequence[int] | str] | None = None,
    deterministic: str | None = None,
    tier: str = "auto",
    precision: Policy | str | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    debug_nans: bool = False,
    options: CompileOptions | Mapping[str, Any] | None = None,
) -> Any:
    """Compile a function just in time; a decorator, with and without keywords.

    Returns a function like `fn`, compiled once for each combination of structure, dtypes and
    shapes of its arguments. Results never depend on the number of threads.

    - `static_argnums`, `static_argnames`: arguments, by place or name, that are Python values known
      while tracing. It is compiled anew for each value.
    - `donate_argnums`, `donate_argnames`: arguments that give their memory to results where these
      fit (`compiled.report()` tells). Using one again is a `DonatedError`.
    - `device`: where it runs, and what calls it, too; arguments are copied there. By default it is
      where the arguments are, or the default device if they are on the host; two devices are a
      `DeviceMismatchError`. "auto" takes the fastest by a cost model (`rlx.explain_device`).
    - `dynamic`: axes whose sizes stay open, by names of arguments: one program serves all sizes. A
      size is a name or a `rlx.dim` with a range; equal names are equal sizes. `x[:5]` of fewer
      elements is an error of the call.
    - `specialize`: on a device that needs known sizes, compile for each size that comes; or give
      `buckets`, sizes for each dim to which arrays are padded, or "pow2" for the powers of two.
    - `deterministic="batch"`: results of a row do not depend on the number of rows, a bit slower.
    - `tier`: "auto" compiles better code once a program has run long, "max" does so at once.
    - `precision`: a policy or its name, as "mixed_bf16", also of calls without one.
    - `in_shardings`, `out_shardings`: how arrays are split across devices: `rlx.NamedSharding`s.
    - `debug_nans`: an operation that makes a NaN is an error, also in functions it calls.
    - `options`: further fields of `rlx.CompileOptions`, as {"fuse": False}.

    >>> import rlx
    >>> rlx.jit(lambda x: x * 2 + 1)(rlx.array([1.0, 2.0])).tolist()
    [3.0, 5.0]
    >>> total = rlx.jit(lambda x: x.sum(), dynamic={"x": {0: "n"}})
    >>> [total(rlx.numpy.ones(n)).item() for n in (3, 5, 8)]
    [3.0, 5.0, 8.0]
    """
    if fn is None:
        return functools.partial(jit, **{k: x for k, x in locals().items() if k != "fn"})
    static = _named(fn, "static", static_argnames, static_argnums)
    given = _named(fn, "donate", donate_argnames, donate_argnums)
    plain = (specialize, as_buckets(buckets), deterministic, tier, 0, precision)
    named = CompileOptions("", None, given, *plain, in_shardings, out_shardings, debug_nans)
    where = device_of(in_shardings, out_shardings) if device is None else device
    return Jitted(fn, static, both(options, named), where, declare(fn, dynamic, static))


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
