"""The tensors of a model, taken by name from one file or several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..io.contents import refuse, shown
from ..io.files import ArrayFile
from ..ir.types import as_dtype, is_float
from ..nn.blocks import BlockArray

FIX = "get the file again from where it came, or convert the model anew"
MOST_SHOWN = 5
FLOAT64 = as_dtype("float64")


class Tensors:
    """Arrays by name that know what was taken of them.

    A tensor that no one takes means that the model computes something else than what is here, so
    `check_all_taken` refuses it.
    """

    def __init__(self, files: Iterable[ArrayFile]) -> None:
        self._files, self._homes = list(files), dict[str, ArrayFile]()
        self._shapes: dict[str, tuple[Any, ...]] = {}
        for file in self._files:
            for name, type in file.types.items():
                if name in self._homes:
                    refuse(f"{shown(name)} is in two files")
                self._homes[name], self._shapes[name] = file, tuple(type.shape)
        self._left = set(self._homes)

    def __contains__(self, name: str) -> bool:
        return name in self._homes

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor; an absent one is refused."""
        if name not in self._shapes:
            refuse(f"the model has no tensor {shown(name)}", FIX)
        return self._shapes[name]

    def rows(self, name: str) -> int:
        """How many rows a matrix has."""
        shape = self.shape(name)
        if not shape:
            refuse(f"the tensor {shown(name)} is a single number, no matrix", FIX)
        return shape[0]

    def take(self, name: str, shape: tuple[int, ...]) -> Any:
        """A tensor, which must have this shape; it is read where it is used."""
        found = self.shape(name)
        if found != shape:
            refuse(f"the tensor {shown(name)} has the shape {found}, the settings say {shape}", FIX)
        self._left.discard(name)
        array = self._homes[name][name]
        if isinstance(array, BlockArray):  # vectors are added or multiplied number by number
            return array if len(shape) > 1 else array.dequantize()
        if not is_float(array.dtype):
            refuse(f"the tensor {shown(name)} holds {array.dtype}, no floats", FIX)
        # longer floats would make all that is computed with them longer
        return array.astype("float32") if array.dtype == FLOAT64 else array

    def ignore(self, names: Iterable[str]) -> None:
        """Count tensors as taken."""
        self._left -= set(names)

    def check_all_taken(self) -> None:
        """Refuse a model with tensors that none of its parts uses."""
        if self._left:
            some = ", ".join(map(shown, sorted(self._left)[:MOST_SHOWN]))
            refuse(
                f"the model has {len(self._left)} tensors that its architecture has no use for: "
                f"{some}",
                "such a model computes more than what rlx has; use another one of the same family",
            )

    def check_whole(self) -> None:
        """Refuse files that were cut off since they were opened: to read on would kill us."""
        for file in self._files:
            file.check_whole()

    def release(self) -> None:
        """Let the system take back the memory of the files; what is used is read again."""
        for file in self._files:
            file.release()
