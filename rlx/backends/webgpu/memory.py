"""Arrays in a device's memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .blocks import LEAST, Block
from .device import Device, Region


class Form(NamedTuple):
    """What an array is, and the bytes that it takes up on a device."""

    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: np.dtype, device: Device) -> Form:
        """Raises if kernels of the device cannot reach all of it."""
        nbytes = math.prod(shape) * device.layout.word(dtype).itemsize
        device.check_binding(nbytes, "an array")
        return cls(shape, dtype, nbytes)


class Data:
    """The elements of an array, dense in a block of their own."""

    __slots__ = ("block", "dtype", "generation", "region", "shape")

    def __init__(self, block: Block, form: Form, generation: int) -> None:
        self.block, self.generation = block, generation
        self.shape, self.dtype = form.shape, form.dtype
        self.region = Region(block.buffer, 0, form.nbytes)


class WebgpuMemory:
    """The memory of a device; it is opened when it is first used."""

    def __init__(self, name: str, opened: Callable[[], Device]) -> None:
        self.name = name
        self._opened = opened

    def from_host(self, array: np.ndarray) -> Data:
        """Copy a NumPy array to the device."""
        device = self._opened()
        with device.lock:  # another thread must not open the device anew in between
            data = self.empty(tuple(array.shape), array.dtype)
            device.write(data.region, device.layout.words(array), "copying an array there")
        return data

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Data:
        """An array of which nobody knows what it holds."""
        device = self._opened()
        with device.lock:
            return new_data(device, Form.of(shape, dtype, device))

    def to_host(self, data: Data) -> np.ndarray:
        """Copy an array to the host, when the work that makes it is done."""
        device = self._opened()
        raw = _read(device, data, data.region, "reading an array")
        return device.layout.numbers(raw, data.dtype).reshape(data.shape)

    def wait(self, data: Data) -> None:
        """Return when the work that makes an array is done."""
        # the library's own call for this fails; what is read comes when all before is done
        few = Region(data.block.buffer, 0, LEAST)
        _read(self._opened(), data, few, "waiting for an array")


def _read(device: Device, data: Data, region: Region, what: str) -> np.ndarray:
    """The bytes of a region of an array, if the device was not lost since it was made."""
    with device.lock:  # or another thread could open the device anew in between
        if data.generation != device.generation:
            raise device.lost_error(what)
        return device.read(region, what)


def new_data(device: Device, form: Form) -> Data:
    """An array of which nobody knows what it holds."""
    return Data(device.take(form.nbytes, "an array"), form, device.generation)
