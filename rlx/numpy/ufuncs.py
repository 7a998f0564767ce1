"""Functions with methods along axes, `add.reduce(x)`, and functions mapped."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..ir.errors import ArgumentError, ShapeError
from ..ir.lazy import late
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.arguments import callable_of, count_of
from ..trace.array import Array
from ..trace.axes import broadcast_shapes, one_axis
from ..trace.make_graph import check_function, function_name
from ..trace.promotion import broadcast_to
from . import arithmetic, elementwise, logic
from .elementwise import Tensor, refuse_out
from .logic import where
from .manipulation import append, moveaxis, ravel, reshape, squeeze
from .reductions import Axis, all, any, cummax, cummin, cumprod, cumsum, max, min, prod, sum

if TYPE_CHECKING:
    from ..trace import scan as loops
    from . import indexing
else:  # for methods that few programs use
    loops, indexing = late("rlx.trace.scan"), late("rlx.numpy.indexing")

# -- functions of small arrays applied to large ones: vectorize, apply_along_axis ------------------


Core = tuple[str, ...]  # the names of an argument's own axes
_ARGUMENT = r"\(\s*(?:\w+(?:\s*,\s*\w+)*)?\s*\)"
_LIST = rf"{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*"


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """Vectorize a function over all axes that its arguments do not own.

    Returns a function like `pyfunc`. The `signature` names the core axes of each argument and
    result, as in "(m,n),(n)->(m)"; without one all are scalars. The other axes broadcast as in
    NumPy. Arguments in `excluded`, by position or name, are passed as they are. An unreadable
    signature raises `ArgumentError`, core axes of different sizes `ShapeError`.

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


def _mapped(fn: Callable[..., Any], given: list[Any], owned: Sequence[Core]) -> Array:
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
    from ..transforms.vmap import vmap  # with all of jit, which sums and products do not need

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
        if builtins.any(axis == 0 for axis in axes):
            fn = vmap(fn, in_axes=tuple(axes))
    return fn(*given)


# -- along axes ---------------------------------------------------------------------------------


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Tensor, *args: Any, **kwargs: Any
) -> Array:
    """Apply a function of vectors to all 1-d slices along an axis.

    It is called as `func1d(slice, *args, **kwargs)`. The axes of its result replace `axis`.
    """
    from ..transforms.vmap import vmap  # with all of jit, which sums and products do not need

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


def apply_over_axes(func: Callable[..., Any], a: Tensor, axes: int | Sequence[int]) -> Array:
    """Apply a reduction `func(x, axis)` over several axes in turn; axes keep size 1."""
    check_function(func, "apply_over_axes: the function")
    a = as_tensor(a)
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        place = one_axis("apply_over_axes", axis, a.ndim)
        found = as_tensor(func(a, axis=place))
        if found.ndim == a.ndim - 1:
            found = reshape(found, (*a.shape[:place], 1, *a.shape[place + 1 :]))
        a = found
    return a


@final
class ufunc:
    """A function of single numbers with NumPy's methods that apply it along axes.

    `func` takes `nin` numbers and returns `nout`; `identity` is what reductions begin with. `total`
    and `running` compute `reduce` and `accumulate` at once; without them the function is called for
    one element after another.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        nin: int,
        nout: int,
        *,
        identity: Any = None,
        total: Callable[..., Any] | None = None,
        running: Callable[..., Any] | None = None,
    ) -> None:
        callable_of("ufunc: func", func)
        self.__name__ = self.__qualname__ = getattr(func, "__name__", type(func).__name__)
        nin, nout = count_of("ufunc: nin", nin), count_of("ufunc: nout", nout)
        functools.update_wrapper(self, func)
        vars(self).pop("__wrapped__")
        self.__module__ = "rlx.numpy"  # where it takes the place of the function
        first = [p for p in inspect.signature(func).parameters.values() if p.default is p.empty]
        self.__signature__ = inspect.Signature([*first[:nin], *OPTIONS])
        self.function = func
        self.nin, self.nout, self.nargs = nin, nout, nin
        self.identity = identity
        self._total, self._running = total, running

    def __call__(self, *args: Tensor, out: None = None, where: None = None) -> Array:
        refuse_out(self.__name__, out)
        if where is not None:
            raise self._wrong(
                "`where` would leave elements without a value",
                f"choose afterwards: rlx.numpy.where(mask, {self.__name__}(x), other)",
            )
        if len(args) != self.nin:
            raise self._wrong(
                f"it takes {self.nin} arguments, not {len(args)}", f"call it with {self.nin}"
            )
        return self.function(*args)

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def reduce(
        self,
        a: Tensor,
        axis: Axis = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Tensor | None = None,
        where: Tensor | None = None,
    ) -> Array:
        """Reduce an array along an axis by the function; None reduces all elements."""
        a = self._operand("reduce", a, dtype, out)
        start = self.identity if initial is None else initial
        if where is not None and start is None:
            raise self._wrong("nothing stands for the elements left out", "give an initial value")
        if self._total is not None and (initial is None or self._total not in (all, any)):
            mask = {} if where is None else {"where": where}
            begin = {} if initial is None else {"initial": initial}
            return self._total(a, axis, keepdims=keepdims, **mask, **begin)
        place, shape = (0, (1,) * a.ndim) if axis is None else self._place("reduce", a, axis)
        mask = None if where is None else broadcast_to(as_tensor(where), a.shape)
        if axis is None:
            a, mask = ravel(a), None if mask is None else ravel(mask)
        result = self._fold(a, mask, place, start)
        return reshape(result, shape) if keepdims else result

    def accumulate(self, a: Tensor, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """The results of applying the function cumulatively along an axis."""
        a = self._operand("accumulate", a, dtype, out)
        place, _ = self._place("accumulate", a, axis)
        if self._running is not None:
            return self._running(a, place)
        rows = moveaxis(a, place, 0)

        def step(carry: Any, row: Any) -> tuple[Any, Any]:
            made = self.function(carry, row)
            return made, made

        first = rows[0].astype(self._dtype_of(a))
        _, rest = loops.scan(step, first, rows[1:])
        return moveaxis(append(first[None], rest, 0), 0, place)

    def at(
        self, a: Tensor, indices: Any, b: Tensor | None = None, /, *, inplace: bool = False
    ) -> Array:
        """A copy with the function applied at `indices`, repeated indices one by one."""
        indexing.check_copied(f"{self.__name__}.at", inplace)
        more = () if b is None else (as_tensor(b),)
        if self.nin != 1 + len(more):
            fix = "pass b, the second operands" if b is None else "leave b out"
            raise self._wrong(f"`at` takes {self.nin} operands, not {1 + len(more)}", fix)
        a = as_tensor(a)
        places = [as_tensor(i) for i in (indices if isinstance(indices, tuple) else (indices,))]
        shape = broadcast_shapes(f"{self.__name__}.at", *(i.shape for i in places))
        inner = a.shape[len(places) :]
        flat = tuple(reshape(broadcast_to(i, shape), (-1,)) for i in places)
        count = (math.prod(shape), *inner)
        values = tuple(reshape(broadcast_to(x, (*shape, *inner)), count) for x in more)

        def step(carry: Any, row: Any) -> tuple[Any, None]:
            where_to, given = row
            made = self.function(carry[where_to], *given)
            return carry.at[where_to].set(made), None

        start = a.astype(self._dtype_of(a, *more))
        return loops.scan(step, start, (flat, values))[0]

    def reduceat(
        self, a: Tensor, indices: Tensor, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Array:
        """Reduce the slices from each of `indices` up to the next one.

        Where the next index is not greater, the result is the element at the index.
        """
        a = self._operand("reduceat", a, dtype, out)
        place, _ = self._place("reduceat", a, axis)
        rows, starts = moveaxis(a, place, 0), as_tensor(indices)
        thin = (-1,) + (1,) * (a.ndim - 1)
        first = reshape(starts, thin)
        last = reshape(append(starts[1:], rows.shape[0]), thin)

        def step(carry: Any, item: Any) -> tuple[Any, None]:
            number, row = item
            is_between = logic.logical_and(number > first, number < last)
            return where(is_between, self.function(carry, row), carry), None

        numbers = np.arange(rows.shape[0], dtype="int32")
        result = loops.scan(step, indexing.take(rows, starts, 0), (numbers, rows))[0]
        return moveaxis(result, 0, place)

    def outer(self, A: Tensor, B: Tensor, /) -> Array:
        """The function applied to all pairs of elements of `A` and `B`."""
        A, B = self._operand("outer", A), as_tensor(B)
        return self.function(reshape(A, (*A.shape, *(1,) * B.ndim)), B)

    def _fold(self, a: Any, mask: Any, axis: int, start: Any) -> Any:
        rows = moveaxis(a, axis, 0)
        dtype = self._dtype_of(a)
        if start is None and rows.shape[0] == 0:
            raise ShapeError(
                f"{self.__name__}.reduce: there is nothing to combine along an axis of size 0",
                fix="give an initial value",
            )
        if start is None:
            first, rows = rows[0].astype(dtype), rows[1:]
        else:
            first = broadcast_to(as_tensor(start).astype(dtype), rows.shape[1:])
        if mask is None:
            return loops.scan(lambda carry, row: (self.function(carry, row), None), first, rows)[0]

        def step(carry: Any, item: Any) -> tuple[Any, None]:
            row, is_taken = item
            return where(is_taken, self.function(carry, row), carry), None

        return loops.scan(step, first, (rows, moveaxis(mask, axis, 0)))[0]

    def _dtype_of(self, *operands: Any) -> np.dtype:
        """The dtype of a result for operands of these dtypes."""
        ones = [as_tensor(np.ones((), x.dtype)) for x in operands]
        return self.function(*ones, *ones[: self.nin - len(ones)]).dtype

    def _place(self, name: str, a: Any, axis: Any) -> tuple[int, tuple[Any, ...]]:
        """An axis counted from 0, and the shape with size 1 there."""
        place = one_axis(f"{self.__name__}.{name}", axis, a.ndim)
        return place, tuple(1 if i == place else n for i, n in enumerate(a.shape))

    def _operand(self, name: str, a: Any, dtype: Any = None, out: Any = None) -> Array:
        """The operand of a method that is for functions of two numbers."""
        refuse_out(f"{self.__name__}.{name}", out)
        if (self.nin, self.nout) != (2, 1):
            raise self._wrong(
                f"{name} needs a function of two numbers that gives one",
                "use the function itself",
            )
        return as_tensor(a) if dtype is None else as_tensor(a).astype(dtype)

    def _wrong(self, what: str, fix: str) -> ArgumentError:
        return ArgumentError(f"{self.__name__}: {what}", fix=fix)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """Make a ufunc of a function of single numbers, which is traced.

    `func` takes `nin` numbers and returns `nout`; `identity` is what reductions begin with. Returns
    a `ufunc`.

    >>> frompyfunc(lambda x, y: 2 * x + y, nin=2, nout=1).reduce([0, 1, 2, 3])
    Array(11, dtype=int32)
    """
    whole = vectorize(func, excluded=())
    whole.__name__ = whole.__qualname__ = getattr(func, "__name__", "function")
    return ufunc(whole, nin, nout, identity=identity)


OPTIONS = list(inspect.signature(ufunc.__call__).parameters.values())[2:]


def _ufunc(function: Callable[..., Any], nin: int = 2, **options: Any) -> ufunc:
    return ufunc(function, nin, 1, **options)


add = _ufunc(elementwise.add, identity=0, total=sum, running=cumsum)
multiply = _ufunc(elementwise.multiply, identity=1, total=prod, running=cumprod)
subtract = _ufunc(elementwise.subtract)
negative = _ufunc(arithmetic.negative, 1)
maximum = _ufunc(elementwise.maximum, total=max, running=cummax)
minimum = _ufunc(elementwise.minimum, total=min, running=cummin)
logical_and = _ufunc(logic.logical_and, identity=True, total=all)
logical_or = _ufunc(logic.logical_or, identity=False, total=any)
logical_xor = _ufunc(logic.logical_xor, identity=False)
bitwise_and = _ufunc(elementwise.bitwise_and, identity=-1)
bitwise_or = _ufunc(elementwise.bitwise_or, identity=0)
bitwise_xor = _ufunc(elementwise.bitwise_xor, identity=0)
logaddexp = _ufunc(arithmetic.logaddexp, identity=-math.inf)
logaddexp2 = _ufunc(arithmetic.logaddexp2, identity=-math.inf)
