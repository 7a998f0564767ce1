"""Symbolic sizes on devices that need known ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from ..backends.backend import MISS, Executable
from ..backends.entries import Sizes, sized_entry
from ..ir.bind import SizeChecks, concrete_type, concretize
from ..ir.dims import Dim, Symbol, concrete
from ..ir.errors import SymbolicSizeError
from ..ir.graph import Graph
from ..ir.memory import Memory
from ..trace.array import Array
from .cache import compiling

TOLD = 16  # sizes that a report tells of, the last ones
Compile = Callable[[Graph], Executable]
POW2 = "pow2"  # buckets: the powers of two
Buckets = tuple[tuple[str, tuple[int, ...] | str], ...]


def specialized(graph: Graph, compile: Compile, memory: Memory | None) -> Executable:
    """An executable that compiles the graph for each combination of sizes it meets."""
    known: deque[str] = deque(maxlen=TOLD)
    check_sizes = SizeChecks(graph)

    def make(sizes: Sizes) -> Callable[..., Any]:
        with compiling:
            known.append(", ".join(f"{name} = {n}" for name, n in sorted(sizes.items())))
            check_sizes(sizes)
        return _hitting(compile(concretize(graph, sizes)))

    return Executable(
        sized_entry(graph.param_types, make),
        make_report=lambda: "specialized for " + ("; ".join(known) or "no size"),
        memory=memory,
    )


def bucketed(graph: Graph, compile: Compile, buckets: Buckets, memory: Memory | None) -> Executable:
    """An executable that pads arrays to the next larger of some sizes."""
    # with all of lowering, 20 ms to import
    from ..lower.hir.pad_sizes import pad_sizes
    from ..lower.hir.places import PaddingChecks

    tables = dict(buckets)
    symbols = {s.name: s for t in graph.param_types for s in t.symbols}
    _check_buckets(symbols.keys(), tables)
    made: dict[tuple[int, ...], tuple[Callable[..., Any], list[tuple[Dim, np.dtype]]]] = {}
    known: list[str] = []
    check_sizes, check_padding = SizeChecks(graph), PaddingChecks(graph)

    def make(sizes: Sizes) -> Callable[..., Any]:
        names = sorted(sizes)
        chosen = {name: _bucket(symbols[name], sizes[name], tables[name]) for name in names}
        check_sizes(sizes)
        check_padding(sizes, chosen)
        key = tuple(chosen.values())
        with compiling:
            if key not in made:
                padded, read = pad_sizes(graph, chosen)
                dtypes = [p.dtype for p in padded.params[len(graph.params) :]]
                made[key] = _hitting(compile(padded)), [*zip(read, dtypes, strict=True)]
                known.append(", ".join(map("{} = {}".format, names, key)))
        types = graph.param_types
        pairs = [(concrete_type(t, sizes).shape, concrete_type(t, chosen).shape) for t in types]
        results = [concrete_type(t, sizes).shape for t in graph.result_types]
        entry, read = made[key]
        numbers = [np.asarray(concrete(size, sizes), dtype) for size, dtype in read]
        return _padding(entry, pairs, numbers, results, memory)

    return Executable(
        sized_entry(graph.param_types, make),
        make_report=lambda: "padded to " + ("; ".join(known) or "no size"),
        memory=memory,
    )


def _check_buckets(dims: Set[str], tables: Mapping[str, Any]) -> None:
    odd = sorted(dims ^ tables.keys())
    if odd:
        raise SymbolicSizeError(
            f"the buckets are of {', '.join(tables) or 'no dim'}, the dims are "
            f"{', '.join(sorted(dims))}",
            fix=f'give sizes for each dim: buckets={{{odd[0]!r}: (64, 128, 256)}}, or "pow2"',
        )


def _bucket(dim: Symbol, size: int, table: Sequence[int] | str) -> int:
    """The smallest bucket that holds a size of a dim; none is over the dim's range."""
    if isinstance(table, str):
        power = 1 << max(size - 1, 0).bit_length()
        return power if dim.high is None else min(power, dim.high)
    fitting = [n for n in table if n >= size]
    if not fitting:
        raise SymbolicSizeError(
            f"{dim.name} is {size}, larger than its largest bucket, {max(table)}",
            fix=f"add a bucket of {size} or more for {dim.name!r}",
        )
    return min(fitting)


def _hitting(executable: Executable) -> Callable[..., Any]:
    """An entry whose misses are `MISS`."""
    entry, miss = executable.entry, executable.miss

    def run(*arrays: Any) -> Any:
        result = entry(*arrays)
        return MISS if result is miss else result

    return entry if miss is MISS else run


def _padding(
    entry: Callable[..., Any],
    shapes: Sequence[tuple[Any, Any]],
    numbers: Sequence[np.ndarray],
    results: Sequence[Sequence[Any]],
    memory: Memory | None,
) -> Callable[..., Any]:
    """An entry for arrays of certain sizes, which it pads; the true parts of results are cut out.

    `shapes` are those of the arguments, true and padded. Arrays of a device's `memory` are padded
    and cut on the host.
    """

    def run(*arrays: Any) -> Any:
        if len(arrays) != len(shapes):
            return MISS
        if any(isinstance(x, Array) and x._device not in (None, memory) for x in arrays):
            return MISS
        hosts = [x._on_host() if isinstance(x, Array) else x for x in arrays]
        if any(np.shape(x) != true for x, (true, _) in zip(hosts, shapes, strict=True)):
            return MISS
        padded = [_padded(x, wanted) for x, (_, wanted) in zip(hosts, shapes, strict=True)]
        found = entry(*padded, *numbers)
        if found is MISS:
            return MISS
        many = found if isinstance(found, tuple) else (found,)
        cut = tuple(_cut(x, shape).to(x._device) for x, shape in zip(many, results, strict=True))
        return cut if isinstance(found, tuple) else cut[0]

    return run


def _padded(array: Any, shape: Sequence[int]) -> Any:
    if not isinstance(array, np.ndarray) or array.shape == tuple(shape):
        return array
    larger = np.zeros(shape, array.dtype)
    larger[tuple(map(slice, array.shape))] = array
    return larger


def _cut(array: Array, shape: Sequence[int]) -> Array:
    host = array._on_host()
    if host.shape == tuple(shape):
        return array
    return Array(host[tuple(map(slice, shape))].copy())
