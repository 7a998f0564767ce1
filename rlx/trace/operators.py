"""Operators and methods that `Array` and `TracedTensor` share.

The functions behind them live one floor up, in `rlx.numpy`, which enters itself in `FUNCTIONS`.
Each is looked up when it is first called: its file may not be loaded before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, cast

import numpy as np

from ..ir.dims import Dim
from ..ir.errors import ImmutableError, ShapeError, with_absent
from ..ir.types import Size, Type, Typed

if TYPE_CHECKING:
    from .array import Array, ArrayLike, DTypeLike, Index
    from .index.update import At

    Result = TypeVar("Result", covariant=True)

    class Operator(Protocol[Result]):
        """The method of an operator, of an array: it takes the other operand."""

        def __call__(self, other: ArrayLike, /) -> Result: ...


class _Functions(dict[str, Callable[..., Any]]):
    module: ModuleType  # `rlx.numpy`, which enters itself

    def __missing__(self, name: str) -> Callable[..., Any]:
        item = getattr(self.module, name)
        found = self[name] = READY[name] = getattr(item, "function", item)  # a ufunc's call
        return found


FUNCTIONS = _Functions()  # by name
READY: dict[str, Callable[..., Any]] = {}  # those asked for: a plain dict answers in half the time
Axis = int | Sequence[int] | None
Method = TypeVar("Method", bound=Callable[..., Any])


def _method(declared: Method, name: str = "") -> Method:
    """The method that calls a function of `rlx.numpy`: of a name, or the declared one."""
    name = name or declared.__name__

    @functools.wraps(declared, assigned=("__module__",))
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return FUNCTIONS[name](self, *args, **keywords)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Same as `rlx.numpy.{name}(self, ...)`."
    return cast("Method", method)


def _operators(function: str, name: str) -> tuple[Operator[Array], ...]:
    """The methods of an operator: x + y, y + x and x += y, by a function of `rlx.numpy`.

    What `_binary` does for the usual operands is written out here: a call of it takes a tenth of
    the time of a small sum.
    """

    def forward(self: Any, other: Any) -> Any:
        if type(self) in QUICK and type(other) in QUICK and function in READY:
            return READY[function](self, other)
        return _binary(function, self, other)

    def reflected(self: Any, other: Any) -> Any:
        if type(self) in QUICK and type(other) in QUICK and function in READY:
            return READY[function](other, self)
        return _binary(function, other, self)

    def in_place(self: Any, other: Any) -> Any:
        return _in_place(function, self, other)

    methods: Any = (forward, reflected, in_place)
    for prefix, method in zip(("", "r", "i"), methods, strict=True):
        method.__name__ = method.__qualname__ = f"__{prefix}{name}__"
    return methods


def _spread_arguments(args: tuple[Any, ...]) -> Any:
    """Accept `x.reshape(2, 3)` as well as `x.reshape((2, 3))`."""
    return args[0] if len(args) == 1 else args


class Operators(Typed):
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

    # -- what it is ------------------------------------------------------------------------------

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
    def T(self) -> Array:
        """All axes in reverse order."""
        return FUNCTIONS["transpose"](self)

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return FUNCTIONS["matrix_transpose"](self)

    @property
    def real(self) -> Array:
        """The real part."""
        return FUNCTIONS["real"](self)

    @property
    def imag(self) -> Array:
        """The imaginary part."""
        return FUNCTIONS["imag"](self)

    @property
    def at(self) -> At:
        """Updates at an index, as a new array: `x.at[0].set(1.0)`."""
        return FUNCTIONS["at"](self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return FUNCTIONS["__array_namespace__"](api_version)

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

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise ShapeError(
                "an array without axes cannot be iterated over",
                fix="use the array itself, or x.reshape(1)",
            )
        return (self[i] for i in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return bool(FUNCTIONS["any"](FUNCTIONS["equal"](self, item)))

    def __copy__(self) -> Array:
        return FUNCTIONS["copy"](self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return FUNCTIONS["copy"](self)

    def __getitem__(self, index: Index) -> Array:
        return FUNCTIONS["getitem"](self, index)

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        FUNCTIONS["setitem"](self, index, value)

    def __delitem__(self, index: Any) -> NoReturn:
        raise ImmutableError(
            "del x[i] would change the number of elements, which an array keeps",
            notes=[f"x: {self.type}"],
            fix="make another array without them, x = rlx.numpy.delete(x, i, axis=0)",
        )

    # -- operators -------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _operators("add", "add")
    __sub__, __rsub__, __isub__ = _operators("subtract", "sub")
    __mul__, __rmul__, __imul__ = _operators("multiply", "mul")
    __truediv__, __rtruediv__, __itruediv__ = _operators("true_divide", "truediv")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators("floor_divide", "floordiv")
    __mod__, __rmod__, __imod__ = _operators("remainder", "mod")
    __divmod__, __rdivmod__ = cast(
        "tuple[Operator[tuple[Array, Array]], ...]", _operators("divmod", "divmod")[:2]
    )
    __pow__, __rpow__, __ipow__ = _operators("power", "pow")
    __matmul__, __rmatmul__, __imatmul__ = _operators("matmul", "matmul")
    __and__, __rand__, __iand__ = _operators("bitwise_and", "and")
    __or__, __ror__, __ior__ = _operators("bitwise_or", "or")
    __xor__, __rxor__, __ixor__ = _operators("bitwise_xor", "xor")
    __lshift__, __rlshift__, __ilshift__ = _operators("left_shift", "lshift")
    __rshift__, __rrshift__, __irshift__ = _operators("right_shift", "rshift")
    __eq__: Operator[Array] = _operators("equal", "eq")[0]
    __ne__: Operator[Array] = _operators("not_equal", "ne")[0]
    __lt__, __le__ = _operators("less", "lt")[0], _operators("less_equal", "le")[0]
    __gt__, __ge__ = _operators("greater", "gt")[0], _operators("greater_equal", "ge")[0]

    def __neg__(self) -> Array:
        return FUNCTIONS["negative"](self)

    def __pos__(self) -> Array:
        return FUNCTIONS["positive"](self)

    def __abs__(self) -> Array:
        return FUNCTIONS["abs"](self)

    def __invert__(self) -> Array:
        return FUNCTIONS["invert"](self)

    def __round__(self, ndigits: int | None = None) -> Array:
        return FUNCTIONS["round"](self, ndigits or 0)

    # -- methods: they call the functions of the same names ----------------------------------------

    @_method
    def all(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        where: ArrayLike | None = None,
    ) -> Array: ...

    any = _method(all, "any")

    @_method
    def argmax(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array: ...

    argmin = _method(argmax, "argmin")

    @_method
    def argpartition(self, kth: int, axis: int = -1) -> Array: ...

    @_method
    def argsort(
        self,
        axis: int | None = -1,
        *,
        kind: str | None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
        dtype: DTypeLike | None = None,
    ) -> Array: ...

    @_method
    def astype(self, dtype: DTypeLike, *, copy: bool = True, device: Any = None) -> Array: ...

    @_method
    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array: ...

    @_method
    def conj(self) -> Array: ...

    @_method
    def cumprod(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
    ) -> Array: ...

    cumsum = _method(cumprod, "cumsum")

    @_method
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array: ...

    @_method
    def dot(
        self,
        b: ArrayLike,
        *,
        precision: Any = None,
        preferred_element_type: DTypeLike | None = None,
    ) -> Array: ...

    @_method
    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array: ...

    min = _method(max, "min")

    @_method
    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        where: ArrayLike | None = None,
    ) -> Array: ...

    @_method
    def nonzero(self, *, size: Size | None = None, fill_value: Any = None) -> tuple[Array, ...]: ...

    @_method
    def ptp(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array: ...

    @_method
    def ravel(self, order: str = "C") -> Array: ...

    flatten = _method(ravel, "flatten")

    @_method
    def repeat(
        self,
        repeats: int | Sequence[int],
        axis: int | None = None,
        *,
        total_repeat_length: Size | None = None,
    ) -> Array: ...

    @_method
    def round(self, decimals: int = 0, out: None = None) -> Array: ...

    @_method
    def searchsorted(
        self,
        v: ArrayLike,
        side: str = "left",
        sorter: ArrayLike | None = None,
        *,
        method: str = "scan",
    ) -> Array: ...

    @_method
    def sort(
        self,
        axis: int | None = -1,
        *,
        kind: str | None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array: ...

    @_method
    def squeeze(self, axis: Axis = None) -> Array: ...

    @_method
    def std(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        where: ArrayLike | None = None,
        *,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array: ...

    var = _method(std, "var")

    @_method
    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        promote_integers: bool = True,
    ) -> Array: ...

    prod = _method(sum, "prod")

    @_method
    def swapaxes(self, axis1: int, axis2: int) -> Array: ...

    @_method
    def take(
        self,
        indices: ArrayLike,
        axis: int | None = None,
        out: None = None,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: ArrayLike | None = None,
    ) -> Array: ...

    @_method
    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: DTypeLike | None = None,
        out: None = None,
    ) -> Array: ...

    @_method
    def view(self, dtype: DTypeLike | None = None) -> Array: ...

    conjugate = conj

    def compress(self, condition: ArrayLike, axis: int | None = None, **keywords: Any) -> Array:
        """Same as `rlx.numpy.compress(condition, self, axis)`."""
        return FUNCTIONS["compress"](condition, self, axis, **keywords)

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """Return the same elements under another shape.

        `shape` is given as integers or as one tuple, in which one size may be -1; `order` is "C" or
        "F", as for `rlx.numpy.reshape`.
        """
        return FUNCTIONS["reshape"](self, _spread_arguments(shape), order=order)

    def transpose(self, *axes: Any) -> Array:
        """Return the array with its axes in another order.

        `axes` are given as integers or as one tuple; without them the order is reversed.
        """
        return FUNCTIONS["transpose"](self, _spread_arguments(axes) if axes else None)


_OPERANDS = (Operators, np.ndarray, np.generic, bool, int, float, complex, Dim)

QUICK: set[type] = {int, float}  # operands at first sight, to which `Array` adds itself


def _binary(name: str, x: Any, y: Any) -> Any:
    if not (isinstance(x, _OPERANDS) and isinstance(y, _OPERANDS)):
        return NotImplemented
    return FUNCTIONS[name](x, y)


def _in_place(name: str, x: Any, y: Any) -> Any:
    """Make the method for `x += y`, with a result of the dtype and shape of x."""
    if not isinstance(y, _OPERANDS):
        return NotImplemented
    return FUNCTIONS["in_place"](name, x, y)


with_absent(
    Operators,
    {
        "numpy": "numpy.asarray(x) gives the elements as a NumPy array",
        "cuda": 'x.to("cuda") moves it to a device',
        "cpu": 'x.to("cpu") moves it to a device',
        "detach": "rlx.stop_gradient(x) ends derivatives",
        **dict.fromkeys(("backward", "grad"), "rlx.grad(loss)(params) gives gradients"),
        "requires_grad": "rlx.grad differentiates by the arguments that argnums names",
        "permute": "use x.transpose(axes)",
        "unsqueeze": "use x[None], or rlx.numpy.expand_dims(x, axis)",
        **dict.fromkeys(("float", "half", "long"), 'x.astype("float32") converts it'),
    },
)
