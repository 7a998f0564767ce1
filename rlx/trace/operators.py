"""Operators and methods that `Array` and `TracedTensor` share.

The functions behind them live one floor up, in `rlx.numpy`, which enters itself in `FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..ir.dims import Dim
from ..ir.errors import ImmutableError, ShapeError
from ..ir.types import Size, Type

if TYPE_CHECKING:
    from .index.update import At

FUNCTIONS: dict[str, Callable[..., Any]] = {}  # by name; `rlx.numpy` and `indexing` fill it
Shape = tuple[Size, ...]
Axis = int | tuple[int, ...] | None


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return FUNCTIONS[name](self, *args, **keywords)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Same as `rlx.numpy.{name}(self, ...)`."
    return method


def _compress(self: Any, condition: Any, axis: int | None = None, **keywords: Any) -> Any:
    """Same as `rlx.numpy.compress(condition, self, axis)`."""
    return FUNCTIONS["compress"](condition, self, axis, **keywords)


def _spread_arguments(args: tuple[Any, ...]) -> Any:
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` mean the same."""
    return args[0] if len(args) == 1 else args


def _reshape(self: Any, *shape: Any, order: str = "C") -> Any:
    """The same elements under another shape; one size may be -1."""
    return FUNCTIONS["reshape"](self, _spread_arguments(shape), order=order)


def _transpose(self: Any, *axes: Any) -> Any:
    """The axes in another order; without arguments in reverse order."""
    return FUNCTIONS["transpose"](self, _spread_arguments(axes) if axes else None)


class Absent:
    """A method that arrays of other libraries have; the error says what to use."""

    def __init__(self, name: str, advice: str) -> None:
        self.name, self.advice = name, advice

    def __get__(self, instance: Any, owner: Any = None) -> NoReturn:
        kind = getattr(owner, "__name__", "Array")
        raise AttributeError(f"{kind!r} object has no attribute {self.name!r}: {self.advice}")


class Operators:
    """Python's operators and NumPy's methods, elementwise.

    A subclass has `type`, the dtype and shape. The slots are those of all subclasses, so that an
    array which meets traced values in an assignment can become a tensor; `_ties` may be unset.
    """

    __slots__ = ("__weakref__", "_first", "_second", "_ties")
    __hash__ = object.__hash__  # by identity, although == is elementwise

    if TYPE_CHECKING:
        _first: Any
        _second: Any
        _ties: Any

        @property
        def type(self) -> Type:
            """The dtype and shape."""
            ...

    numpy = Absent("numpy", "numpy.asarray(x) gives the elements as a NumPy array")
    cuda = Absent("cuda", 'x.to("cuda") moves it to a device')
    cpu = Absent("cpu", 'x.to("cpu") moves it to a device')
    detach = Absent("detach", "rlx.stop_gradient(x) ends derivatives")
    backward = Absent("backward", "rlx.grad(loss)(params) gives gradients of functions")

    # -- what it is ------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.type.nbytes

    @property
    def T(self) -> Any:
        """All axes in reverse order."""
        return FUNCTIONS["transpose"](self)

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return FUNCTIONS["matrix_transpose"](self)

    @property
    def real(self) -> Any:
        """The real part."""
        return FUNCTIONS["real"](self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return FUNCTIONS["imag"](self)

    @property
    def at(self) -> At:
        """Updates at an index, as a new array: `x.at[0].set(1.0)`."""
        return FUNCTIONS["at"](self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return FUNCTIONS["__namespace__"](api_version)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **keywords: Any) -> Any:
        return FUNCTIONS["__array_ufunc__"](ufunc, method, args, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return FUNCTIONS["__array_function__"](function, types, args, keywords)

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError(
                "len() of an array without axes",
                fix="use x.size, or x.reshape(1) to give it an axis",
            )
        # Python itself refuses a symbolic size here
        return self.shape[0]  # type: ignore[return-value]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise ShapeError(
                "an array without axes cannot be iterated over",
                fix="use the array itself, or x.reshape(1)",
            )
        return (self[i] for i in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return bool(FUNCTIONS["any"](FUNCTIONS["equal"](self, item)))

    def __getitem__(self, index: Any) -> Any:
        return FUNCTIONS["getitem"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        FUNCTIONS["setitem"](self, index, value)

    def __delitem__(self, index: Any) -> NoReturn:
        raise ImmutableError(
            "del x[i] would change the number of elements, which an array keeps",
            notes=[f"x: {self.type}"],
            fix="make another array without them, x = rlx.numpy.delete(x, i, axis=0)",
        )

    # -- operators -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary("add", other, self)

    def __iadd__(self, other: Any) -> Any:
        return _in_place("add", self, other)

    def __sub__(self, other: Any) -> Any:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary("subtract", other, self)

    def __isub__(self, other: Any) -> Any:
        return _in_place("subtract", self, other)

    def __mul__(self, other: Any) -> Any:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary("multiply", other, self)

    def __imul__(self, other: Any) -> Any:
        return _in_place("multiply", self, other)

    def __truediv__(self, other: Any) -> Any:
        return _binary("true_divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary("true_divide", other, self)

    def __itruediv__(self, other: Any) -> Any:
        return _in_place("true_divide", self, other)

    def __floordiv__(self, other: Any) -> Any:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary("floor_divide", other, self)

    def __ifloordiv__(self, other: Any) -> Any:
        return _in_place("floor_divide", self, other)

    def __mod__(self, other: Any) -> Any:
        return _binary("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary("remainder", other, self)

    def __imod__(self, other: Any) -> Any:
        return _in_place("remainder", self, other)

    def __divmod__(self, other: Any) -> Any:
        return _binary("divmod", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return _binary("divmod", other, self)

    def __pow__(self, other: Any) -> Any:
        return _binary("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _binary("power", other, self)

    def __ipow__(self, other: Any) -> Any:
        return _in_place("power", self, other)

    def __matmul__(self, other: Any) -> Any:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _binary("matmul", other, self)

    def __imatmul__(self, other: Any) -> Any:
        return _in_place("matmul", self, other)

    def __and__(self, other: Any) -> Any:
        return _binary("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Any:
        return _binary("bitwise_and", other, self)

    def __iand__(self, other: Any) -> Any:
        return _in_place("bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return _binary("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Any:
        return _binary("bitwise_or", other, self)

    def __ior__(self, other: Any) -> Any:
        return _in_place("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return _binary("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return _binary("bitwise_xor", other, self)

    def __ixor__(self, other: Any) -> Any:
        return _in_place("bitwise_xor", self, other)

    def __lshift__(self, other: Any) -> Any:
        return _binary("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _binary("left_shift", other, self)

    def __ilshift__(self, other: Any) -> Any:
        return _in_place("left_shift", self, other)

    def __rshift__(self, other: Any) -> Any:
        return _binary("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _binary("right_shift", other, self)

    def __irshift__(self, other: Any) -> Any:
        return _in_place("right_shift", self, other)

    def __eq__(self, other: object) -> Any:
        return _binary("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return _binary("not_equal", self, other)

    def __lt__(self, other: Any) -> Any:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Any:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary("greater_equal", self, other)

    def __neg__(self) -> Any:
        return FUNCTIONS["negative"](self)

    def __pos__(self) -> Any:
        return FUNCTIONS["positive"](self)

    def __abs__(self) -> Any:
        return FUNCTIONS["abs"](self)

    def __invert__(self) -> Any:
        return FUNCTIONS["invert"](self)

    def __round__(self, ndigits: int | None = None) -> Any:
        return FUNCTIONS["round"](self, ndigits or 0)

    # -- methods: the arguments after the array are those of the function of the same name --------

    all = _method("all")
    any = _method("any")
    argmax = _method("argmax")
    argmin = _method("argmin")
    argpartition = _method("argpartition")
    compress = _compress
    argsort = _method("argsort")
    astype = _method("astype")
    clip = _method("clip")
    conj = _method("conj")
    cumprod = _method("cumprod")
    cumsum = _method("cumsum")
    diagonal = _method("diagonal")
    dot = _method("dot")
    flatten = _method("flatten")
    max = _method("max")
    mean = _method("mean")
    min = _method("min")
    nonzero = _method("nonzero")
    prod = _method("prod")
    ptp = _method("ptp")
    ravel = _method("ravel")
    repeat = _method("repeat")
    round = _method("round")
    searchsorted = _method("searchsorted")
    sort = _method("sort")
    squeeze = _method("squeeze")
    std = _method("std")
    sum = _method("sum")
    swapaxes = _method("swapaxes")
    take = _method("take")
    trace = _method("trace")
    var = _method("var")
    view = _method("view")
    conjugate = conj
    reshape = _reshape
    transpose = _transpose


_OPERANDS = (Operators, np.ndarray, np.generic, bool, int, float, complex, Dim)


QUICK: set[type] = {int, float}  # operands at first sight, to which `Array` adds itself


def _binary(name: str, x: Any, y: Any) -> Any:
    if type(x) in QUICK and type(y) in QUICK:
        return FUNCTIONS[name](x, y)
    if not (isinstance(x, _OPERANDS) and isinstance(y, _OPERANDS)):
        return NotImplemented
    return FUNCTIONS[name](x, y)


def _in_place(name: str, x: Any, y: Any) -> Any:
    """`x += y`: what the name x stands for from now on, of the dtype and shape of x."""
    if not isinstance(y, _OPERANDS):
        return NotImplemented
    return FUNCTIONS["in_place"](name, x, y)
