"""`rlx.testing`: checks of derivatives, ops and devices."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.errors import ArgumentError, AttributeValueError
from ..ir.types import is_complex, is_inexact
from ..tools.conformance import check_backend
from ..trace import pytree
from ..trace.apply import as_operand, operand_type
from ..trace.arguments import callable_of, choice, count_of, members, wrong
from ..trace.axes import number
from .custom_op import CustomOp
from .forward import jvp
from .grad import vjp
from .jit.jit import jit
from .vmap import vmap

__all__ = ["check_backend", "check_grads", "check_op"]


def __dir__() -> list[str]:
    return __all__


MODES = ("fwd", "rev")
# each order doubles the sequences of forward and reverse derivatives to try
HIGHEST_ORDER = 5


def check_grads(
    fn: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    modes: str | Sequence[str] = MODES,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Check derivatives of `fn` at `args`, up to an order, against finite differences.

    Raises an AssertionError where they differ. The function must be smooth at the arguments, which
    are best of 64 bits. `order` is 1 to 5; `modes` are "fwd", "rev" or both. `eps` is the step,
    `atol` and `rtol` are the tolerances; the defaults follow from the dtype.
    An `ArgumentError` tells what cannot be checked: options of another kind, or arguments without
    inexact numbers.

    >>> import numpy as np, rlx
    >>> check_grads(rlx.numpy.sin, (np.float64(0.3),), order=3)
    """
    fn, args = callable_of("check_grads: fn", fn), members("check_grads: args", args)
    order = count_of("check_grads: order", order, 1, HIGHEST_ORDER)
    modes = [modes] if isinstance(modes, str) else members("check_grads: modes", modes)
    modes = [choice("check_grads: mode", mode, MODES) for mode in modes]
    roundoff = min((_roundoff(x) for x in _inexact(args)), default=0.0)
    if not (modes and roundoff):
        raise ArgumentError(
            f"check_grads: there is no {'argument with derivatives' if modes else 'mode'}",
            fix='pass real or complex arguments, and modes of ("fwd", "rev")',
        )
    step = _positive("eps", eps, roundoff ** (1 / 3))
    # what differences of second order leave: the square of the step, and roundoff over the step
    error = 64 * max(step**2, roundoff / step)
    limits = {"atol": _positive("atol", atol, error), "rtol": _positive("rtol", rtol, error)}
    _check(fn, args, order, modes, step, limits)


def _positive(name: str, given: Any, default: float) -> float:
    """An option that is a number above zero; limits may be zero."""
    if given is None:
        return default
    found = float(number(f"check_grads: {name}", given))
    most = 2.0**60 if name == "eps" else math.inf  # its square fits float32
    if 0 < found < most or (found == 0 and name != "eps"):
        return found
    raise AttributeValueError(
        f"check_grads: {name} is {found}",
        fix="use a positive number, or leave it out: it follows from the dtype",
    )


def _check(
    fn: Callable[..., Any], args: Any, order: int, modes: Any, step: float, limits: Any
) -> None:
    directions = _random_like(args, 1)
    measured = _slopes(fn, args, directions, step)
    weights = _random_like(fn(*args), 2)
    if "fwd" in modes:
        found = jvp(fn, args, directions)[1]
        pairs = zip(_inexact(found), measured, strict=True)
        for tangent, slope in pairs:
            np.testing.assert_allclose(tangent, slope, **limits, err_msg="jvp")
    if "rev" in modes:
        _, pull_back = vjp(fn, *args)
        left = _inner(weights, measured)
        right = _inner(pull_back(weights), directions)
        np.testing.assert_allclose(right, left, **limits, err_msg="vjp")
    if order > 1:
        rest = (args, order - 1, modes, step, limits)
        if "fwd" in modes:
            _check(lambda *xs: jvp(fn, xs, directions)[1], *rest)
        if "rev" in modes:
            _check(lambda *xs: vjp(fn, *xs)[1](weights), *rest)


def _roundoff(x: Any) -> float:
    return float(ml_dtypes.finfo(operand_type(as_operand(x)).dtype).eps)


def _inexact(tree: Any) -> list[Any]:
    """The leaves that have derivatives."""
    leaves = pytree.leaves(tree)
    return [x for x in leaves if is_inexact(operand_type(as_operand(x)).dtype)]


def _random_like(tree: Any, seed: int) -> Any:
    random = np.random.default_rng(seed)

    def draw(x: Any) -> Any:
        type = operand_type(as_operand(x))
        if not is_inexact(type.dtype):
            return np.zeros(type.shape, type.dtype)
        numbers = random.uniform(-1, 1, type.shape)
        if is_complex(type.dtype):
            numbers = numbers + 1j * random.uniform(-1, 1, type.shape)
        return np.asarray(numbers).astype(type.dtype)

    return pytree.map(draw, tree)


def _slopes(fn: Callable[..., Any], args: Any, directions: Any, step: float) -> list[np.ndarray]:
    """Central differences of the results along directions."""

    def moved(by: float) -> list[np.ndarray]:
        def move(x: Any, t: Any) -> Any:
            with np.errstate(over="ignore"):  # of a step that is too large
                return x if not is_inexact(t.dtype) else (np.asarray(x) + by * t).astype(t.dtype)

        return [np.asarray(y) for y in _inexact(fn(*pytree.map(move, args, directions)))]

    return [(b - a) / (2 * step) for a, b in zip(moved(-step), moved(step), strict=True)]


def _inner(xs: Any, ys: Any) -> float:
    """The real part of the inner product, without conjugation."""
    pairs = zip(_inexact(xs), _inexact(ys), strict=True)
    return float(sum(np.sum(np.asarray(x) * np.asarray(y)).real for x, y in pairs))


def check_op(op: CustomOp, *args: Any, order: int = 2, **attrs: Any) -> None:
    """Check the rules of a custom op against its NumPy function, on an example.

    `op` is called with arrays `args` and attributes `attrs`. The type rule, compiled code, the
    derivatives up to an order and batches of every choice of arguments must agree with it; `order`
    is 1 to 5. Raises an AssertionError where they do not.
    """
    if not isinstance(op, CustomOp):
        raise wrong("check_op: op", op, "an op", "pass what rlx.custom_op gave")
    order = count_of("check_op: order", order, 1, HIGHEST_ORDER)
    try:
        arrays = [np.asarray(x) for x in args]
    except ValueError:  # lists of unequal length, or without end
        raise wrong("check_op: an example", args, "arrays", "pass arrays or numbers") from None
    call = functools.partial(op, **attrs)
    wanted = _arrays(call(*arrays))
    error = 64 * max([_roundoff(x) for x in [*_inexact(arrays), *_inexact(wanted)]], default=0.0)
    _all_close(_arrays(jit(call)(*arrays)), wanted, error, "compiled")
    for batched in itertools.product([None, 0], repeat=len(arrays)):
        if any(axis == 0 for axis in batched):
            _check_batch(call, arrays, batched, error)
    rules = op.op.rules
    if rules.nondifferentiable is not None or not _inexact(arrays):
        return
    check_grads(call, arrays, order, "rev" if op.is_reverse_only else MODES)


def _check_batch(call: Any, arrays: Any, batched: Any, error: float) -> None:
    members = [[_varied(x, i) for x in arrays] for i in range(3)]

    def pick(xs: Any) -> list[Any]:
        """Take `xs` for batched arguments, and the arrays of all members for others."""
        return [x if a == 0 else y for x, y, a in zip(xs, arrays, batched, strict=True)]

    stacks = [np.stack(column) for column in zip(*members, strict=True)]
    got = _arrays(vmap(call, in_axes=batched)(*pick(stacks)))
    for i, member in enumerate(members):
        _all_close([y[i] for y in got], _arrays(call(*pick(member))), error, f"batched {batched}")


def _varied(x: np.ndarray, member: int) -> np.ndarray:
    """An array of slightly larger numbers, which stay in the op's domain."""
    return x if not is_inexact(x.dtype) else (x * (1 + member / 64)).astype(x.dtype)


def _arrays(tree: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in pytree.leaves(tree)]


def _all_close(got: Any, wanted: Any, error: float, what: str) -> None:
    for x, y in zip(got, wanted, strict=True):
        assert x.dtype == y.dtype, f"{what}: {x.dtype}, not {y.dtype}"
        np.testing.assert_allclose(x, y, rtol=error, atol=error, err_msg=what)
