"""Functions of small arrays applied to large ones: vectorize, apply_along_axis."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..ir.errors import ArgumentError, ShapeError
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.axes import broadcast_shapes, one_axis
from ..trace.make_graph import check_function, function_name
from ..transforms import vmap
from .elementwise import Tensor
from .manipulation import moveaxis, reshape, squeeze

Core = tuple[str, ...]  # the names of an argument's own axes
_ARGUMENT = r"\(\s*(?:\w+(?:\s*,\s*\w+)*)?\s*\)"
_LIST = rf"{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*"


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """Give a function that applies `pyfunc` over all axes its arguments do not own.

    The signature names the axes each argument and result owns: "(m,n),(n)->(m)"; without one all
    are scalars. The other axes broadcast as in NumPy. Arguments in `excluded`, by place or name,
    are passed as they are.

    >>> import rlx.numpy as rnp
    >>> product = vectorize(rnp.dot, signature="(n),(n)->()")
    >>> product(rnp.ones((2, 3)), rnp.arange(3))
    Array([3., 3.], dtype=float32)
    """
    check_function(pyfunc, "vectorize: the function")
    cores = None if signature is None else _parse(signature)

    @functools.wraps(pyfunc, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        free = [i for i in range(len(args)) if i not in excluded]
        given = [as_tensor(args[i]) for i in free]
        owned: Sequence[Core] = [()] * len(given) if cores is None else cores
        if len(owned) != len(given):
            raise ArgumentError(
                f"vectorize: {function_name(pyfunc)} got {len(given)} arrays, the signature "
                f"{signature!r} has {len(owned)}",
                fix="name the axes of each argument in the signature, or exclude it",
            )

        def own(*members: Any) -> Any:
            table = dict(zip(free, members, strict=True))
            return pyfunc(*(table.get(i, x) for i, x in enumerate(args)), **kwargs)

        return _mapped(own, given, owned)

    return wrapped


def _parse(signature: str) -> list[Core]:
    if not re.fullmatch(rf"\s*{_LIST}\s*->\s*{_LIST}\s*", signature):
        raise ArgumentError(
            f"vectorize: the signature {signature!r} cannot be read",
            fix='write it as "(m,n),(n)->(m)"',
        )
    left = signature.split("->")[0]
    return [tuple(re.findall(r"\w+", part)) for part in re.findall(_ARGUMENT, left)]


def _mapped(fn: Callable[..., Any], given: list[Any], owned: Sequence[Core]) -> Any:
    """Map a function over the axes in front of those the arguments own."""
    sizes: dict[str, Any] = {}
    fronts = []
    for x, core in zip(given, owned, strict=True):
        count = x.ndim - len(core)
        if count < 0:
            raise ShapeError(
                f"vectorize: an argument is {x.type}, but owns the axes ({', '.join(core)})",
                fix="give it all axes that the signature names",
            )
        for name, size in zip(core, x.shape[count:], strict=True):
            if sizes.setdefault(name, size) != size:
                raise ShapeError(
                    f"vectorize: the axis {name} has the sizes {sizes[name]} and {size}",
                    fix="make the sizes equal",
                )
        fronts.append(tuple(x.shape[:count]))
    whole = broadcast_shapes("vectorize", *fronts)
    # the last axis of the broadcast shape is mapped innermost
    for i in range(len(whole)):
        place = len(whole) - 1 - i
        axes, squeezed = [], []
        for x, front in zip(given, fronts, strict=True):
            mine = len(front) - 1 - i  # this axis of the argument, if it has one
            is_mapped = mine >= 0 and (front[mine] != 1 or whole[place] == 1)
            if mine >= 0 and not is_mapped:
                x = squeeze(x, mine)
            axes.append(0 if is_mapped else None)
            squeezed.append(x)
        given = squeezed
        if any(axis == 0 for axis in axes):
            fn = vmap(fn, in_axes=tuple(axes))
    return fn(*given)


# -- along axes ---------------------------------------------------------------------------------


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Apply a function of a vector to all vectors along an axis.

    The axes of its result stand where the axis was.
    """
    check_function(func1d, "apply_along_axis: the function")
    arr = as_tensor(arr)
    place = one_axis("apply_along_axis", axis, arr.ndim)

    def mapped(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    whole: Callable[..., Any] = mapped
    for _ in range(arr.ndim - 1):
        whole = vmap(whole)
    moved = moveaxis(arr, place, -1)
    rank = arr.ndim - 1

    def put_back(y: Any) -> Any:
        new = y.ndim - rank
        return moveaxis(y, range(rank, rank + new), range(place, place + new))

    return pytree.map(put_back, whole(moved))


def apply_over_axes(func: Callable[..., Any], a: Tensor, axes: int | Sequence[int]) -> Any:
    """Apply a reduction `func(x, axis)` along axes in turn; they keep size 1."""
    check_function(func, "apply_over_axes: the function")
    a = as_tensor(a)
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        place = one_axis("apply_over_axes", axis, a.ndim)
        found = func(a, axis=place)
        if found.ndim == a.ndim - 1:
            found = reshape(found, (*a.shape[:place], 1, *a.shape[place + 1 :]))
        a = found
    return a
