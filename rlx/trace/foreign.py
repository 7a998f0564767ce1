"""DLPack: arrays shared with other libraries without copies.

An object's `__dlpack__` gives a capsule that tells where its memory is and keeps it alive.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, DtypeError, RlxError
from ..ir.types import DTYPES

DEVICES = {2: "cuda", 10: "rocm"}  # DLPack's numbers of kinds of memory
HOST_DEVICES = (1, 3, 11)  # plain memory, and what CUDA and ROCm pin or manage
UNKNOWN_TO_NUMPY = {
    (4, 16): "bfloat16",
    (10, 8): "float8_e4m3fn",
    (12, 8): "float8_e5m2",
}


class _Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


CODES = {name: code for (code, _), name in UNKNOWN_TO_NUMPY.items()}
BEFORE_TENSOR = {b"dltensor": 0, b"dltensor_versioned": 32}  # bytes, by the name of a capsule
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Memory:
    """Memory of a capsule, as NumPy reads it; keeps the capsule and so the memory alive."""

    def __init__(self, capsule: Any, tensor: _Tensor) -> None:
        self._capsule = capsule
        size, axes = tensor.bits // 8, range(tensor.rank)
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"<u{size}",
            "shape": tuple(tensor.shape[i] for i in axes),
            "strides": tuple(tensor.strides[i] * size for i in axes) if tensor.strides else None,
            "data": ((tensor.data or 0) + tensor.offset, True),
        }


def given(data: np.ndarray, **options: Any) -> Any:
    """The capsule of a NumPy array, also of a dtype that NumPy itself does not give."""
    code = CODES.get(data.dtype.name)
    if code is None:
        return data.__dlpack__(**options)
    capsule = data.view(f"u{data.itemsize}").__dlpack__(**options)
    name = _name(capsule)
    _Tensor.from_address(_pointer(capsule, name) + BEFORE_TENSOR[name]).code = code
    return capsule


def shared(x: Any, copy: bool | None = None) -> np.ndarray:
    """A NumPy array over the memory of an object that supports DLPack."""
    _check_speaks(x)
    _check_place(x)
    try:
        return np.from_dlpack(x) if copy is None else np.from_dlpack(x, copy=copy)
    except (BufferError, RuntimeError) as error:
        return _read(x, error)


def place_of(x: Any) -> tuple[int, int]:
    """The kind of memory that an object lies in, as DLPack counts, and which of them."""
    try:
        kind, number = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else (1, 0)
    except RlxError:  # a traced tensor tells what is wrong
        raise
    except Exception as refusal:
        raise _gives_nothing(x, refusal) from None
    return int(kind), int(number)


def _check_speaks(x: Any) -> None:
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(
            f"{type(x).__name__} is no array of another library: it has no `__dlpack__`",
            fix="make an array of it by rlx.numpy.asarray(x)",
        )
    # what PyTorch gives of such a view are the numbers without their sign
    if getattr(x, "is_neg", bool)():
        raise _gives_nothing(x, "it is a view that negates what lies there")


def _check_place(x: Any) -> None:
    device, _ = place_of(x)
    if device not in HOST_DEVICES:
        raise ArgumentError(
            f"a {type(x).__name__} lies in the memory of another device (DLPack calls it {device})",
            fix="rlx.numpy.from_dlpack(x) takes it over, where it lies"
            if device in DEVICES
            else "copy it to the host first",
        )


def _read(x: Any, error: Exception) -> np.ndarray:
    """The array of a dtype that NumPy itself does not read."""
    try:
        capsule = x.__dlpack__()
    except Exception as refusal:
        raise _gives_nothing(x, refusal) from None
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    name = UNKNOWN_TO_NUMPY.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes != 1:
        raise DtypeError(
            f"a {type(x).__name__} is of a dtype that rlx cannot read: {error}",
            fix="convert it first, as to float32",
        )
    return np.asarray(_Memory(capsule, tensor)).view(DTYPES[name])


def _gives_nothing(x: Any, refusal: Exception | str) -> ArgumentError:
    return ArgumentError(
        f"a {type(x).__name__} does not give its memory: {refusal}",
        fix="pass an array that does: x.detach() of one with a gradient, x.resolve_conj() or "
        "x.resolve_neg()\nof a conjugate, x.to_dense() of a sparse one",
    )
