"""Traced functions on disk, which later processes need not trace again.

An entry is found by the function's identity, the kinds of its arguments and all of rlx's files. It
says where the machine code is, and what the record holds besides: types, names, the structure of
the results, and constant arrays if they are small.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.backend import Lasting
from ..backends.disk import EVERYTHING, disk_cache, hashed, sources
from ..ir.config import config
from ..ir.graph import Graph, Value
from ..ir.record import record, replace
from ..ir.types import Type, as_dtype
from ..trace import pytree
from ..trace.array import Array
from ..trace.make_graph import Traced
from .compiled import CompiledCode, CompiledGraph
from .options import as_asked
from .session import CompileOptions, Session

MOST_BYTES = 1 << 20  # of constant arrays in an entry
Known = tuple[str, tuple[int, ...]]  # a type as plain data
Content = tuple[Known, bytes]  # an array as plain data


@record
class Recalled:
    """A recorded function without its graph."""

    code: str  # the key of its machine code
    name: str
    params: tuple[tuple[Known, str], ...]  # types and origins
    results: tuple[Known, ...]
    tree: Any  # the structure of the results, with numbers for leaves
    weak: tuple[bool, ...]  # which results are weakly typed
    deterministic: str | None
    # arrays that are parameters, too: by number those that the function depends on, else the array
    captures: tuple[int | Content, ...]
    baked: tuple[int, ...]  # numbers of arrays whose elements are part of the code
    constants: dict[bytes, Content]

    def signature(self) -> Graph:
        """The graph without nodes."""
        graph = Graph(self.name)
        for known, origin in self.params:
            graph.add_param(_type(known), origin)
        graph.results = [Value(_type(known), graph) for known in self.results]
        return graph

    def arrays(self) -> dict[bytes, np.ndarray]:
        """The constant arrays by their content."""
        return {digest: _array(*each) for digest, each in self.constants.items()}

    def captured(self, known: Sequence[Array]) -> tuple[Array, ...]:
        """The captures; `known` are the arrays that the function depends on."""
        return tuple(
            known[each] if isinstance(each, int) else Array(_array(*each)) for each in self.captures
        )


class TraceStore:
    """The place of one function, for one kind of arguments, in the cache on disk."""

    def __init__(self, session: Session, options: CompileOptions, identity: str) -> None:
        self._session, self._options = session, options
        self._disk, self._key = disk_cache(), ""
        self._files = sources(self._disk, EVERYTHING) if self._disk else ""
        if self._files and not config.profile:  # timers tell of lines, which may have moved
            compiled_for = session.backend.compiled_for()
            facts = session.device, compiled_for, options, config.settings.recorded_in
            self._key = hashed("recording", identity, self._files, facts)

    def read(self) -> Recalled | None:
        """What is kept of the function."""
        data = self._disk.get(self._key) if self._disk and self._key else None
        if data is None:
            return None
        try:
            return pickle.loads(data)
        except Exception:  # a class that is gone or damage: unpickling raises anything
            if self._disk and self._key:
                self._disk.remove(self._key)
            return None

    def compiled(self, known: Recalled, record: Callable[[], Graph]) -> CompiledGraph | None:
        """The compiled function, if its code is still there.

        `record` gives the whole graph.
        """
        lasting = Lasting(known.code, known.arrays)
        options = replace(self._options, deterministic=known.deterministic)
        return self._session.recall(lasting, known.signature(), record, options)

    def write(
        self,
        code: CompiledCode,
        traced: Traced,
        known: Sequence[Array],
    ) -> str:
        """Keep what a later process needs; gives why not, if that cannot be.

        `known` are the arrays that the function depends on.
        """
        lasting, graph, captures = code.executable.lasting, traced.graph, traced.captures
        if lasting is None or not self._disk or not self._key:
            return "its code is not in the cache on disk"
        arrays = lasting.arrays()
        places = {id(array): i for i, array in enumerate(known)}
        others = [np.asarray(x) for x in captures if id(x) not in places]
        if sum(array.nbytes for array in (*arrays.values(), *others)) > MOST_BYTES:
            return f"its constant arrays are larger than {MOST_BYTES} bytes"
        try:
            tree = pytree.unflatten(traced.out_tree, range(traced.out_tree.num_leaves))
            data = pickle.dumps(
                Recalled(
                    lasting.key,
                    graph.name,
                    tuple((_known(p), p.origin) for p in graph.params),
                    tuple(_known(r) for r in graph.results),
                    tree,
                    traced.out_weak,
                    as_asked(graph, self._options).deterministic,
                    tuple(places[id(x)] if id(x) in places else _content(x) for x in captures),
                    tuple(places[id(x)] for x in traced.baked if id(x) in places),
                    {digest: _content(array) for digest, array in arrays.items()},
                )
            )
            if pytree.structure(pickle.loads(data).tree) != traced.out_tree:
                return "the containers of its results are not read as they were written"
        except Exception as error:  # a container of the user may raise anything
            return f"the containers of its results cannot be written: {error}"
        if sources(self._disk, EVERYTHING) == self._files:
            self._disk.put(self._key, data)
        return ""


def _known(value: Any) -> Known:
    return as_dtype(value.dtype).name, tuple(value.shape)


def _content(array: Any) -> Content:
    return _known(array), np.asarray(array).tobytes()


def _type(known: Known) -> Type:
    return Type(as_dtype(known[0]), known[1])


def _array(known: Known, data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), as_dtype(known[0])).reshape(known[1])
