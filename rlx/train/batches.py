"""Batches of data in memory or in mapped files, prepared in a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, final

import numpy as np

from .. import numpy as rnp, random
from ..ir.errors import ArgumentError, AttributeValueError, ConcretizationError, ShapeError
from ..trace import pytree
from ..trace.arguments import callable_of, count_of, flag, shown
from ..trace.array import Array
from ..trace.tensor import TracedTensor

MOST = 2**62  # batches, where there is no other limit


def batches(
    data: Any,
    size: int,
    *,
    key: Any = None,
    epochs: int | None = 1,
    steps: int | None = None,
    drop_last: bool = False,
    start: int = 0,
    prefetch: int = 2,
    map: Callable[[Any], Any] | None = None,
) -> Batches:
    """Batches of the rows of a tree of arrays: trees like `data`, `size` rows in each.

    Rows are places of the first axes.

    - `key`: shuffles the rows, in each of the `epochs` anew; the same key gives the same batches.
      Without one they come in order. None for `epochs` goes on and on.
    - `steps`: how many batches in all, whatever `epochs` is; a training of so many steps.
    - `drop_last`: leaves out the last batch of an epoch if it is smaller than the others.
    - `start`: the number of the first batch, counted over all epochs, to go on where a training
      stopped; batches before it are not read.
    - `prefetch`: a thread prepares so many batches ahead, none for 0. Its errors are raised where
      the batch would come. It ends with the loop, also after `break`.
    - `map`: a function of a batch, called in that thread: to decode, convert, augment.

    Arrays are of NumPy or rlx, in files too (`np.load(path, mmap_mode="r")`): what a batch does not
    need is not read. Arrays of other libraries become those of rlx. A batch is new memory. An array
    without rows, or with another number of them, is a `ShapeError` that names it.

    >>> import numpy as np
    >>> from rlx.train import batches
    >>> data = {"x": np.arange(10).reshape(5, 2), "y": np.arange(5)}
    >>> for batch in batches(data, 2):
    ...     print(batch["x"].shape, batch["y"])
    (2, 2) [0 1]
    (2, 2) [2 3]
    (1, 2) [4]
    >>> shuffled = batches(data, 2, key=random.key(0), epochs=2, drop_last=True, start=1)
    >>> [batch["y"].tolist() for batch in shuffled]
    [[4, 1], [0, 3], [1, 4]]
    """
    return Batches(data, size, key, epochs, steps, drop_last, start, prefetch, map)


@final
class Batches:
    """What `batches` gives: a loop over it begins at `start`, `len` counts them."""

    def __init__(
        self,
        data: Any,
        size: int,
        key: Any,
        epochs: int | None,
        steps: int | None,
        drop_last: bool,
        start: int,
        prefetch: int,
        map: Callable[[Any], Any] | None,
    ) -> None:
        self._arrays, self._structure, self._rows = _arrays_of(data)
        self._size = count_of("batches: size", size, 1)
        self._key = None if key is None else _known_key(key)
        drops = flag("batches: drop_last", drop_last)
        whole, rest = divmod(self._rows, self._size)
        self._per_epoch = whole + (rest > 0 and not drops)
        if not self._per_epoch:
            raise AttributeValueError(
                f"batches: {self._rows} rows are less than a batch of {self._size}",
                fix="use a smaller size, or drop_last=False",
            )
        rounds = None if epochs is None else count_of("batches: epochs", epochs)
        self._end = None if rounds is None else rounds * self._per_epoch
        if steps is not None:
            self._end = count_of("batches: steps", steps)
        most = MOST if self._end is None else self._end
        self._numbers = range(count_of("batches: start", start, 0, most), most)
        self._prefetch = count_of("batches: prefetch", prefetch)
        self._map = None if map is None else callable_of("batches: map", map)

    def __len__(self) -> int:
        if self._end is None:
            raise TypeError("batches of epochs=None have no length")
        return len(self._numbers)

    def __iter__(self) -> Iterator[Any]:
        """Prepare each batch ahead, in a thread that ends when nobody asks any more."""
        make = self._maker()
        if not self._prefetch:
            for number in self._numbers:
                yield make(number)
            return
        ahead: deque[Any] = deque()
        context = copy_context()  # of the loop: `np.errstate` and its like hold in the thread, too
        with ThreadPoolExecutor(1, "rlx.train.batches") as thread:
            try:
                for number in self._numbers:
                    ahead.append(thread.submit(context.run, make, number))
                    if len(ahead) > self._prefetch:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                for batch in ahead:
                    batch.cancel()

    def _maker(self) -> Callable[[int], Any]:
        """What gives the batch of a number; it keeps the order of the rows of an epoch."""
        epoch, order = -1, np.zeros(0, int)

        def make(number: int) -> Any:
            nonlocal epoch, order
            first = number % self._per_epoch * self._size
            last = min(first + self._size, self._rows)
            rows: Any = slice(first, last)
            if self._key is not None:
                if epoch != number // self._per_epoch:
                    epoch = number // self._per_epoch
                    folded = random.fold_in(self._key, epoch)
                    order = np.asarray(random.permutation(folded, self._rows))
                rows = order[first:last]
            batch = pytree.unflatten(self._structure, [_taken(x, rows) for x in self._arrays])
            return batch if self._map is None else self._map(batch)

        return make


def _taken(x: Any, rows: Any) -> Any:
    if isinstance(x, Array) and x.device == "cpu":  # NumPy takes rows in a tenth of the time
        found = _taken(x.host(), rows)
        found.flags.writeable = False
        return Array(found)
    found = x[rows]
    if isinstance(found, Array) or (type(found) is np.ndarray and found.base is None):
        return found
    return np.array(found)  # of a view, or of a mapped file


def _arrays_of(data: Any) -> tuple[list[Any], pytree.Structure, int]:
    """The arrays of a tree, its structure, and the number of rows that all have."""
    found, structure = pytree.flatten_with_path(data)
    if not found:
        raise ArgumentError(
            f"batches: the data are {shown(data)}, without an array",
            fix='give arrays: {"images": images, "labels": labels}',
        )
    arrays = [_array("data" + pytree.keystr(path), x) for path, x in found]
    counts = [x.shape[0] for x in arrays]
    for (path, _), x in zip(found, arrays, strict=True):
        if x.shape[0] != counts[0]:
            raise ShapeError(
                f"batches: data{pytree.keystr(path)} has {x.shape[0]} rows, "
                f"data{pytree.keystr(found[0][0])} {counts[0]}",
                fix="give arrays with equal first axes, one row for each example",
            )
    if not counts[0]:
        raise ShapeError("batches: the data have no rows", fix="give one row or more")
    return arrays, structure, counts[0]


def _array(name: str, x: Any) -> Any:
    if isinstance(x, TracedTensor):
        raise ConcretizationError(
            f"batches: {name} is {shown(x)}, which has no numbers while it is recorded",
            fix="make batches outside of jit, and pass them to the compiled function",
        )
    if not isinstance(x, np.ndarray | Array) and getattr(x, "ndim", 0):
        x = rnp.asarray(x)  # of another library
    if not isinstance(x, np.ndarray | Array) or not x.ndim:
        raise ShapeError(
            f"batches: {name} is {shown(x)}, without rows",
            fix="give arrays; np.asarray(...) makes one of a list",
        )
    return x


def _known_key(key: Any) -> Any:
    """Check a key before a thread uses it, so that the error names the caller's line."""
    if isinstance(key, TracedTensor):
        raise ConcretizationError(
            f"batches: key is {shown(key)}, which has no numbers while it is recorded",
            fix="make batches outside of jit, and pass them to the compiled function",
        )
    random.fold_in(key, 0)
    return key
