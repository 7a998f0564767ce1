"""`Array`: a concrete, immutable array on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, final

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import AttributeValueError, DeviceUnavailable, DtypeError, ShapeError
from ..ir.types import Type
from . import ownership
from .operators import Operators


class Device(Protocol):
    """What an array needs to know of the place where it lives."""

    @property
    def name(self) -> str:
        """The name of the device, as `opencl`."""
        ...

    def to_host(self, data: Any) -> np.ndarray:
        """Copy the device's form of an array into a NumPy array."""
        ...

    def from_host(self, array: np.ndarray) -> Any:
        """Copy a NumPy array into the device's form, which has `shape` and `dtype`."""
        ...


@final
class Array(Operators):
    """An array with a dtype, a shape and a device; made by `rlx.array`.

    Its memory never changes: an assignment, `x[i] = v`, gives the object new memory. `_data` is a
    read-only C-contiguous NumPy array, or the device's own form of one if `_device` is not None.
    Compiled code makes instances without calling `__init__`, so the slots are a contract.
    """

    __slots__ = ()
    _data = Operators._first
    _device = Operators._second

    def __init__(self, data: Any, device: Device | None = None) -> None:
        if device is None:
            data = np.asarray(data, order="C")
            data = data.view() if data.flags.writeable else data
            data.flags.writeable = False
        self._data = data
        self._device = device
        if ownership.open_traces:
            self._ties = ownership.new_ties()

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
    def device(self) -> Any:
        """The device the array lives on; the text "cpu" for the host."""
        return "cpu" if self._device is None else self._device

    def host(self) -> np.ndarray:
        """The elements as a read-only NumPy array; on the host without a copy."""
        return self._data if self._device is None else self._device.to_host(self._data)

    def to(self, device: Any) -> Array:
        """The same elements on another device; `None` and "cpu" mean the host."""
        if device is self._device or (device in (None, "cpu") and self._device is None):
            return self
        if device in (None, "cpu"):
            return Array(self.host())
        if isinstance(device, str):
            return self.to(_find_device(device))
        return Array(device.from_host(self.host()), device)

    def to_device(self, device: Any, /, *, stream: None = None) -> Array:
        """The same as `to`; there are no streams to choose from."""
        if stream is not None:
            raise AttributeValueError(
                f"to_device: there is no stream {stream!r}",
                where=str(user_source()),
                fix="leave stream out: copies are done when to_device returns",
            )
        return self.to(device)

    def block_until_ready(self) -> Array:
        """Wait until the elements are computed; gives the array itself."""
        if self._device is not None:
            self._device.to_host(self._data)
        return self

    def item(self, *index: int) -> Any:
        """One element as a Python number; without an index the only one."""
        return self.host().item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.host().tolist()

    def copy(self) -> Array:
        """The same elements in an object of its own: what is assigned to one stays there."""
        return Array(self._data, self._device)

    # -- conversions -----------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.host(), dtype=dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        data = self.host()
        # readers of the old protocol cannot be told that memory is read-only
        old = max_version is None or max_version[0] < 1
        if copy or (old and copy is None):
            data = data.copy()
        elif old:
            data = np.asarray(_SharedMemory(data))
        return data.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.host().__dlpack_device__()

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
            raise DtypeError(
                f"{self.type} cannot be an index",
                where=str(user_source()),
                fix="convert it: int(x)",
            )
        return int(self._only("index", "pick an element: x[0]"))

    def _only_real(self, name: str, fix: str) -> Any:
        if self.dtype.kind == "c":
            raise DtypeError(
                f"{name}() of a complex array would lose its imaginary part",
                where=str(user_source()),
                notes=[f"x: {self.type}"],
                fix=f"take a part: {name}(x.real)",
            )
        return self._only(name, fix)

    def _only(self, name: str, fix: str) -> Any:
        if self.size != 1:
            raise ShapeError(
                f"{name}() of an array with {self.size} elements",
                where=str(user_source()),
                notes=[f"x: {self.type}"],
                fix=fix,
            )
        return self.host().reshape(())[()]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            return super().__iter__()
        return (self._row(i) for i in range(len(self)))

    def _row(self, i: int) -> Array:
        row = Array(self.host()[i])
        return ownership.is_part(self, row.to(self._device))

    def __format__(self, spec: str) -> str:
        return format(self.item() if not self.shape else self.host(), spec)

    def __str__(self) -> str:
        return str(self.host())

    def __repr__(self) -> str:
        text = np.array2string(self.host(), separator=", ", prefix="Array(", threshold=1000)
        place = "" if self._device is None else f", device={self._device.name!r}"
        return f"Array({text}, dtype={self.dtype.name}{place})"

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (np.array(self.host()),)


class _SharedMemory:
    """Memory of an array for readers who asked for no copy and promise not to write."""

    def __init__(self, data: np.ndarray) -> None:
        self._data = data  # keeps it alive
        self.__array_interface__ = data.__array_interface__ | {"data": (data.ctypes.data, False)}


def _no_devices(name: str) -> Any:
    raise DeviceUnavailable(
        f"no device {name!r} is open", fix="import rlx, which brings the devices with it"
    )


_find_device: Callable[[str], Any] = _no_devices


def set_device_search(search: Callable[[str], Any]) -> Callable[[str], Any]:
    """Replace what finds a device by its name; gives the one before.

    A search gives None for the host.
    """
    global _find_device
    before, _find_device = _find_device, search
    return before
