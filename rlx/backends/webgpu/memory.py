"""Arrays in a device's memory."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .blocks import LEAST, Block
from .device import Device, Region
from .layout import numbers_of, word_of, words_of


class Data:
    """The elements of an array, dense in a block of their own."""

    __slots__ = ("block", "dtype", "generation", "shape")

    def __init__(
        self, block: Block, shape: tuple[int, ...], dtype: np.dtype, generation: int
    ) -> None:
        self.block, self.shape, self.dtype, self.generation = block, shape, dtype, generation

    @property
    def region(self) -> Region:
        """Where the elements lie."""
        return Region(self.block, 0, math.prod(self.shape) * word_of(self.dtype).itemsize)


class WebgpuMemory:
    """The memory of a device; it is opened when it is first used."""

    def __init__(self, name: str, opened: Callable[[], Device]) -> None:
        self.name = name
        self._opened = opened

    def from_host(self, array: np.ndarray) -> Data:
        """Copy a NumPy array to the device."""
        device = self._opened()
        data = self.empty(tuple(array.shape), array.dtype)
        device.write(data.region, words_of(array), "copying an array there")
        return data

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Data:
        """An array of which nobody knows what it holds."""
        device = self._opened()
        nbytes = math.prod(shape) * word_of(dtype).itemsize
        device.check_binding(nbytes, "an array")
        return Data(device.take(nbytes, "an array"), shape, dtype, device.generation)

    def to_host(self, data: Data) -> np.ndarray:
        """Copy an array to the host, when the work that makes it is done."""
        raw = self._device_of(data).read(data.region, "reading an array")
        return numbers_of(raw, data.dtype).reshape(data.shape)

    def wait(self, data: Data) -> None:
        """Return when the work that makes an array is done."""
        # the library's own call for this fails; what is read comes when all before is done
        self._device_of(data).read(Region(data.block, 0, LEAST), "waiting for an array")

    def _device_of(self, data: Data) -> Device:
        """The device, which must not have been lost since the array was made."""
        device = self._opened()
        if data.generation != device.generation:
            raise device.lost_error("reading an array")
        return device
