"""`Array`: a concrete, immutable array on a device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Any, Protocol, SupportsIndex, TypeAlias, final

import numpy as np

from ..ir.dims import Dim
from ..ir.errors import AttributeValueError, BoundsError, DeviceUnavailable, DtypeError, ShapeError
from ..ir.memory import Memory, Shared, Sharing
from ..ir.types import Type
from .foreign import DEVICES, HOST_DEVICES, given, place_of
from .host import no_memory
from .index import aliasing
from .operators import QUICK, Operators


@final
class Array(Operators):
    """An array with a dtype, a shape and a device; made by `rlx.array`.

    `data` is a C-contiguous NumPy array, or the form that `device` gives arrays. Its memory never
    changes: an assignment, `x[i] = v`, gives the object new memory.
    """

    __slots__ = ()  # compiled code relies on them: it makes instances without `__init__`
    _data = Operators._first
    _device = Operators._second

    def __init__(self, data: Any, device: Memory | None = None) -> None:
        if device is None:
            try:
                data = np.asarray(data, order="C")
            except MemoryError as error:
                raise no_memory("array", error) from None
            if data.flags.writeable:
                data = data.view()
                data.flags.writeable = False
        self._data = data
        self._device = device
        if aliasing.open_traces:
            self._ties = aliasing.new_ties()

    @property
    def type(self) -> Type:
        """The dtype and shape."""
        return Type(self._data.dtype, self._data.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self._data.dtype

    @property
    def device(self) -> str:
        """The name of the device the array lives on; "cpu" for the host."""
        return "cpu" if self._device is None else self._device.name

    def host(self) -> np.ndarray:
        """The elements as a read-only NumPy array; on the host without a copy."""
        return _sealed(self._data) if self._device is None else self._device.to_host(self._data)

    def _on_host(self) -> np.ndarray:
        """The same for code that gives it to nobody."""
        return self._data if self._device is None else self._device.to_host(self._data)

    def to(self, device: Any) -> Array:
        """Return a copy on another device, given by its name; `None` means the host."""
        memory = device
        if device is not None and not isinstance(device, Memory):
            memory = find_memory(device)
        if memory is self._device:
            return self
        if memory is None:
            return Array(self._on_host())
        return Array(memory.from_host(self._on_host()), memory)

    def to_device(self, device: Any, /, *, stream: None = None) -> Array:
        """Like `to`, under the name of the array API standard.

        `stream` must be None, else it is an `AttributeValueError`.
        """
        if stream is not None:
            raise AttributeValueError(
                f"to_device: there is no stream {stream!r}",
                fix="leave stream out: copies are done when to_device returns",
            )
        return self.to(device)

    def block_until_ready(self) -> Array:
        """Wait until the elements are computed, and return the array."""
        if self._device is not None:
            self._device.wait(self._data)
        return self

    def item(self, *index: int) -> Any:
        """One element as a Python number.

        `index` is its place, a number for each axis or one that counts in row-major order; an array
        of one element needs none. Raises an `AttributeValueError` where several elements are left
        to choose from, a `BoundsError` outside of the array.
        """
        try:
            return self._on_host().item(*index)
        except (IndexError, OverflowError) as error:
            raise BoundsError(f"item: {error}", fix="use an index inside of the array") from None
        except (TypeError, ValueError) as error:
            raise AttributeValueError(
                f"item: {error}",
                fix="give integers for the place of one element; none for an array of one",
            ) from None

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._on_host().tolist()

    def copy(self) -> Array:
        """Return a copy of the array: assignments to one do not show in the other."""
        return Array(self._data, self._device)

    # -- conversions -----------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        data = self.host()
        if copy or (dtype is not None and dtype != data.dtype):
            return np.array(data, dtype=dtype, copy=copy)
        return data

    def __jax_array__(self) -> Any:
        # JAX alone calls this, so it is imported
        return sys.modules["jax"].numpy.asarray(self._data if self._is_shared else self.host())

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        options = {"stream": stream, "max_version": max_version, "dl_device": dl_device}
        if self._is_shared and (dl_device is None or dl_device[0] not in HOST_DEVICES):
            return self._data.__dlpack__(**options, copy=copy)
        data = self.host()
        # readers of the old protocol cannot be told that memory is read-only
        old = max_version is None or max_version[0] < 1
        if copy or (old and copy is None):
            data = data.copy()
        elif old:
            data = np.asarray(_SharedMemory(data)).view(data.dtype)
        return given(data, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__() if self._is_shared else (1, 0)  # the host

    @property
    def _is_shared(self) -> bool:
        """Whether other libraries can share its memory on its device."""
        return self._device is not None and isinstance(self._data, Shared)

    def __bool__(self) -> bool:
        return bool(self._only("bool", "say which elements count: x.any() or x.all()"))

    def __int__(self) -> int:
        return int(self._only_real("int", "pick an element: int(x[0])"))

    def __float__(self) -> float:
        return float(self._only_real("float", "pick an element: float(x[0])"))

    def __complex__(self) -> complex:
        return complex(self._only("complex", "pick an element: complex(x[0])"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise DtypeError(f"{self.type} cannot be an index", fix="convert it: int(x)")
        return int(self._only("index", "pick an element: x[0]"))

    def _only_real(self, name: str, fix: str) -> Any:
        if self.dtype.kind == "c":
            raise DtypeError(
                f"{name}() of a complex array would lose its imaginary part",
                notes=[f"x: {self.type}"],
                fix=f"take a part: {name}(x.real)",
            )
        return self._only(name, fix)

    def _only(self, name: str, fix: str) -> Any:
        if self.size != 1:
            raise ShapeError(
                f"{name}() of an array with {self.size} elements",
                notes=[f"x: {self.type}"],
                fix=fix,
            )
        return self._on_host().reshape(())[()]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            return super().__iter__()
        return self._rows()

    def _rows(self) -> Iterator[Array]:
        data, host = self._data, self._on_host()
        for i in range(len(self)):
            if self._data is not data:  # something was assigned between two rows
                data, host = self._data, self._on_host()
            yield aliasing.is_part(self, Array(host[i]).to(self._device))

    def __format__(self, spec: str) -> str:
        return format(self.item() if not self.shape else self._on_host(), spec)

    def __str__(self) -> str:
        return str(self._on_host())

    def __repr__(self) -> str:
        text = np.array2string(self._on_host(), separator=", ", prefix="Array(", threshold=1000)
        place = "" if self._device is None else f", device={self._device.name!r}"
        return f"Array({text}, dtype={self.dtype.name}{place})"

    def _repr_html_(self) -> str:
        from ..ir.notebook import array_html  # which notebooks need

        place = "the host" if self._device is None else self._device.name
        return array_html(f"{self.type} on {place}", self._on_host())

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (np.array(self._on_host()),)  # on the host: the reader may lack the device


def _sealed(data: np.ndarray) -> np.ndarray:
    """The same memory as an array that nothing can make writeable.

    NumPy makes an array writeable that owns its memory, or whose base is. The base here is a DLPack
    capsule, which is no array.
    """
    try:
        return np.from_dlpack(data)
    except BufferError:  # the dtype is not NumPy's own
        return np.from_dlpack(data.view(f"u{data.itemsize}")).view(data.dtype)


QUICK.add(Array)

# -- what functions take, for annotations; exported by `rlx.typing` --------------------------------


class Foreign(Protocol):
    """An array of another library, which shares its memory."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...


class HasDtype(Protocol):
    """A dtype of rlx such as `rlx.numpy.float32`, an array, ... ."""

    @property
    def dtype(self) -> np.dtype:
        """What it is."""
        ...


Number: TypeAlias = bool | int | float | complex | np.generic
ArrayLike: TypeAlias = Array | np.ndarray | Number | Dim | list[Any] | tuple[Any, ...] | Foreign
DTypeLike: TypeAlias = str | type[Any] | np.dtype | HasDtype
Index: TypeAlias = ArrayLike | slice | EllipsisType | None
ShapeLike: TypeAlias = SupportsIndex | Dim | Sequence[SupportsIndex | Dim] | np.ndarray


class _SharedMemory:
    """Memory of an array for readers who asked for no copy and promise not to write."""

    def __init__(self, data: np.ndarray) -> None:
        self._data = data  # keeps it alive
        known = {"data": (data.ctypes.data, False), "typestr": f"|V{data.itemsize}"}
        self.__array_interface__ = (
            data.__array_interface__ | known | {"descr": [("", known["typestr"])]}
        )


def _host_alone(name: str) -> Any:
    if name == "cpu":
        return None
    raise DeviceUnavailable(
        f"no device {name!r} is open", fix="import rlx, which brings the devices with it"
    )


_find_memory: Callable[[str], Memory | None] = _host_alone
_default_memory: Callable[[], Memory | None] | None = None


def default_memory() -> Memory | None:
    """The memory for arrays that name no device; None is the host."""
    return _default_memory() if _default_memory else None


def find_memory(device: str) -> Memory | None:
    """The memory of a device by its name; None is the host's."""
    return _find_memory(device)


def new_array(array: np.ndarray) -> Array:
    """An array of numbers that have no aliases, in the default memory."""
    if array.base is None:
        array.flags.writeable = False  # so that no view of them can be made writeable
    memory = default_memory()
    return Array(array) if memory is None else Array(memory.from_host(array), memory)


def from_device(x: Any, copy: bool) -> Array | None:
    """Share an array of another library on a device of rlx, or give None."""
    kind, number = place_of(x)
    if kind not in DEVICES:
        return None
    memory = find_memory(f"{DEVICES[kind]}:{number}" if number else DEVICES[kind])
    assert isinstance(memory, Sharing), "its devices share memory"
    return Array(memory.from_dlpack(x, copy), memory)


def set_memories(
    find: Callable[[str], Memory | None], default: Callable[[], Memory | None]
) -> None:
    """Set the functions that find memories by name, and the default one."""
    global _find_memory, _default_memory
    _find_memory, _default_memory = find, default
