"""What the Python array API standard asks a namespace about itself.

`rlx.numpy` follows its version 2024.12 with the extensions `fft` and `linalg`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ..ir.errors import AttributeValueError
from ..ir.types import DTYPES
from ..trace.array import default_memory, find_memory
from .inspection import isdtype

VERSION = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", VERSION)  # each adds to the one before
HOST = "cpu"
_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
_DEFAULTS = {
    "real floating": "float32",
    "complex floating": "complex64",
    "integral": "int32",
    "indexing": "int32",
}


class NamespaceInfo:
    """What the namespace can do; made by `rlx.numpy.__array_namespace_info__()`."""

    def capabilities(self) -> dict[str, bool | int]:
        """Whether sizes may depend on data, as they may outside of compiled functions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device of arrays that name none."""
        memory = default_memory()
        return HOST if memory is None else memory.name

    def devices(self) -> list[str]:
        """The devices that hold arrays; `rlx.devices()` lists those that could."""
        return list(dict.fromkeys([HOST, self.default_device()]))

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of Python numbers and of indices, by kind."""
        _check_device(device)
        return {kind: DTYPES[name] for kind, name in _DEFAULTS.items()}

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype]:
        """The standard's dtypes by name, all or those of a kind or of several.

        >>> list(NamespaceInfo().dtypes(kind=("bool", "real floating")))
        ['bool', 'float32', 'float64']
        """
        _check_device(device)
        named = {name: DTYPES[name] for name in _NAMES}
        return named if kind is None else {n: d for n, d in named.items() if isdtype(d, kind)}


def array_namespace_info() -> NamespaceInfo:
    """What the namespace can do, which dtypes and devices it has."""
    return NamespaceInfo()


def namespace_of(module: ModuleType, api_version: str | None) -> ModuleType:
    """The namespace, if it follows a version of the standard; `None` means any."""
    if api_version not in (None, *_VERSIONS):
        raise AttributeValueError(
            f"rlx.numpy does not follow version {api_version!r} of the array API standard",
            fix=f"ask for one of {', '.join(_VERSIONS)}",
        )
    return module


def _check_device(device: Any) -> None:
    if device is not None:
        find_memory(device)  # an error of its own, if there is none
