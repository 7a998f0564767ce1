"""Weights that came while workers serve: each version in a file that all map."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import numpy as np

from ..trace import pytree
from ..trace.array import Array
from ..trace.host import to_numpy
from ..trace.make_graph import typeof

ALIGNMENT = 64  # bytes at which each array begins


@final
class WeightFiles:
    """The versions of weights that requests may need; 0 is what workers begin with."""

    def __init__(self) -> None:
        self.current = 0  # that of requests which come
        self._folder: Any = None
        self._count, self._files = 0, dict[int, Path]()
        self.needed = {0}  # versions of requests that have not ended, and the current one

    def write(self, weights: Any) -> Path:
        """Write `weights` to a new file, for `use`."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rlx-weights-")
        path = Path(self._folder.name) / f"{self._count}.bin"
        self._count += 1
        with open(path, "wb") as file:
            for leaf in pytree.leaves(weights):
                file.write(bytes(-file.tell() % ALIGNMENT))
                file.write(np.ascontiguousarray(to_numpy(leaf)).reshape(-1).view(np.uint8).data)
        return path

    def use(self, path: Path) -> None:
        """Let requests that come from now on have the weights of a file."""
        self.current = max(self._files, default=0) + 1
        self._files[self.current] = path

    def path(self, version: int) -> str:
        """The file of a `version` above 0."""
        return str(self._files[version])

    def keep(self, versions: Collection[int]) -> None:
        """Delete files of other than these `versions` and the current one."""
        self.needed = {*versions, self.current}
        for number in self._files.keys() - self.needed:
            with suppress(OSError):
                self._files.pop(number).unlink()

    def close(self) -> None:
        """Delete all files."""
        if self._folder is not None:
            self._folder.cleanup()


def read_weights(path: str, like: Any) -> Any:
    """The weights of a file, mapped: a tree of arrays as those of `like`."""
    data, first, made = np.memmap(path, np.uint8, "r"), 0, []
    for leaf in pytree.leaves(like):
        kind = typeof(leaf)
        first += -first % ALIGNMENT
        part = data[first : first + kind.nbytes]
        made.append(Array(np.asarray(part).view(kind.dtype).reshape(kind.shape)))
        first += kind.nbytes
    return pytree.unflatten(pytree.structure(like), made)
