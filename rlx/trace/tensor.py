"""`TracedTensor`: the stand-in for an array while a function is being recorded."""

from __future__ import annotations

from typing import Any, NoReturn, final

import numpy as np

from ..ir.builder import current, is_open, note_question
from ..ir.errors import ConcretizationError
from ..ir.graph import Value
from ..ir.types import Size, Type
from .concrete import known_array
from .leaks import leaked
from .operators import Operators
from .placement import bring_to


@final
class TracedTensor(Operators):
    """A value of the graph under construction, with the habits of an array.

    `weak` marks a value that came from Python numbers: it takes the dtype of what it meets.
    """

    __slots__ = ()
    value = Operators._first
    weak = Operators._second

    def __init__(self, value: Value, weak: bool = False) -> None:
        self.value = value
        self.weak = weak

    @property
    def type(self) -> Type:
        """The dtype and shape."""
        return self.value.type

    @property
    def shape(self) -> tuple[Size, ...]:
        """The size of each axis; symbolic sizes are `Dim`s."""
        return self.value.type.shape

    @property
    def device(self) -> None:
        """None, which means for new arrays: where the function under construction runs."""
        return None

    def to(self, device: Any) -> TracedTensor:
        """The tensor itself; all of the function under construction then runs there.

        `None` and devices in the host's memory let it run where it does.
        """
        bring_to(device)
        return self

    def to_device(self, device: Any, /, *, stream: None = None) -> TracedTensor:
        """The same as `to`."""
        return self.to(device)

    @property
    def concrete(self) -> np.ndarray | None:
        """The array it stands for, where the trace runs on known arrays; else None."""
        known = known_array(self.value)
        if known is None:
            note_question()
        return known

    def copy(self) -> TracedTensor:
        """The same elements in an object of its own: what is assigned to one stays there."""
        recorder = current()
        if recorder is None:
            raise leaked(self)
        # of the innermost trace, which may assign to it
        return TracedTensor(recorder.own(self.value), self.weak)

    def block_until_ready(self) -> TracedTensor:
        """The tensor itself: while tracing there is nothing to wait for."""
        return self

    def item(self, *index: int) -> Any:
        """One element as a Python number, where the array is known."""
        return self._known("item").item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists, where the array is known."""
        return self._known("tolist").tolist()

    def __bool__(self) -> bool:
        return bool(self._known("bool"))

    def __int__(self) -> int:
        return int(self._known("int"))

    def __float__(self) -> float:
        return float(self._known("float"))

    def __complex__(self) -> complex:
        return complex(self._known("complex"))

    def __index__(self) -> int:
        return self._known("index").__index__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._known("numpy.asarray"), dtype=dtype)

    def __dlpack__(self, **options: Any) -> NoReturn:
        # PyTorch asks for this first, and would read the tensor element by element without it
        raise self.no_value("from_dlpack")

    def __dlpack_device__(self) -> NoReturn:
        raise self.no_value("from_dlpack")

    def __jax_array__(self) -> NoReturn:
        raise self.no_value("jax.numpy")

    def __copy__(self) -> TracedTensor:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> TracedTensor:
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise self.no_value("pickle")

    def __len__(self) -> int:
        size = super().__len__()
        if not isinstance(size, int):
            raise ConcretizationError(
                f"len() of an array with the symbolic size {size}",
                notes=[self._describe()],
                fix="use x.shape[0], which computes with symbolic sizes",
            )
        return size

    def __format__(self, spec: str) -> str:
        known = self.concrete
        if known is None:
            return repr(self)
        return format(known.item() if not known.shape else known, spec)

    def __repr__(self) -> str:
        return f"TracedTensor({self._describe()})"

    def _known(self, action: str) -> np.ndarray:
        if not is_open(self.value.graph):
            raise leaked(self)
        known = self.concrete
        if known is None:
            raise self.no_value(action)
        return known

    def no_value(self, action: str, fix: str | None = None) -> ConcretizationError:
        """The error of an action that needs numbers."""
        name = self.value.graph.name
        return ConcretizationError(
            f"{action}() needs the numbers of a tensor, which it has not while `{name}` is traced",
            notes=[self._describe()],
            fix=fix or _FIXES.get(action, _FIXES[""]),
        )

    def _describe(self) -> str:
        value = self.value
        if value.node is None:
            return f"{value.type}   {value.origin or 'a parameter'}"
        return f"{value.type}   made by {value.node.op.name} at {value.node.source}"


_FIXES = {
    "bool": "use rlx.cond(test, yes, no, *operands) to run one of two functions, "
    "rlx.numpy.where(test, a, b) to\nchoose elementwise, or static_argnames to make the argument "
    "a Python value",
    "": "keep to rlx.numpy functions in traced code, or make the argument a Python value with "
    "static_argnames",
    "pickle": "return the tensor from the traced function and pickle the result",
    "numpy.asarray": "use rlx.numpy instead of numpy in traced code, or make the argument a "
    "Python value with static_argnames",
    "from_dlpack": "use rlx.numpy instead of the other library in traced code, or call it with the "
    "numbers by\nrlx.pure_callback",
    "jax.numpy": "use rlx.numpy instead of jax.numpy, or wrap the function of JAX: rlx.from_jax(f)",
    "index": "use the tensor itself as an index, rlx.fori_loop instead of range(), or make the "
    "argument a Python\nvalue with static_argnames",
}
