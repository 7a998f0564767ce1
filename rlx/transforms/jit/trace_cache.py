"""The trace cache: functions that earlier processes traced are not traced again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.config import config
from ...ir.graph import Graph
from ...ir.types import Type
from ...runtime.constants import hold_constants
from ...runtime.debug import tell_recorded
from ...runtime.session import CompileOptions, default_session
from ...runtime.trace_store import TraceStore
from ...trace import pytree
from ...trace.apply import operand_type
from ...trace.array import Array
from ...trace.make_graph import Traced, trace
from .compiled import Compiled, MarkStatic
from .identity import identity
from .signature import Key


class TraceCache:
    """The entry of a function and one kind of arguments in the trace cache.

    Functions that depend on what cannot be hashed (files, clocks, prints) are not cached.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        tree: pytree.Structure,
        kinds: Sequence[Any],
        device: str,
        options: CompileOptions,
    ) -> None:
        self._tree, self._kinds, self._options = tree, kinds, options
        self._identity = functools.partial(_identity, fn, tree, kinds)
        self._hash, self._arrays, self._why = self._identity()
        self._memory = (
            TraceStore(default_session(device), options, self._hash) if self._hash else None
        )

    @staticmethod
    def of(
        fn: Callable[..., Any], key: Key, device: str, options: CompileOptions, dynamic: object
    ) -> TraceCache | None:
        """The entry for a function and arguments of a kind."""
        is_plain = dynamic is None and not options.specialize and not options.buckets
        is_plain = is_plain and options.in_shardings is None and options.out_shardings is None
        is_plain = is_plain and options.dce and options.dump_ir is None
        if not is_plain or config.dump or config.check or config.key_reuse:
            return None
        return TraceCache(fn, key.structure, key.kinds, device, options)

    def recall(
        self, fn: Callable[..., Any], leaves: Sequence[Any], mark_static: MarkStatic
    ) -> Compiled | None:
        """The compiled function, if an earlier process stored it."""
        known = self._memory.read() if self._memory else None
        if known is None or self._memory is None:
            return None

        # arrays are not to be kept for those who may look inside later
        specs = [operand_type(x) if isinstance(x, Array | np.ndarray) else x for x in leaves]

        tree = self._tree

        @functools.cache
        def whole() -> Graph:
            args, kwargs = pytree.unflatten(tree, specs)
            return trace(fn, args, kwargs).graph

        compiled = self._memory.compiled(known, whole)
        if compiled is None:
            return None
        graph, captures = compiled.graph, known.captured(self._arrays)
        compiled = hold_constants(compiled, () if compiled.donated else captures)
        out_tree = pytree.structure(known.tree)
        weak = tuple(isinstance(kind[0], Type) and kind[1] for kind in self._kinds)
        baked = tuple(self._arrays[i] for i in known.baked)
        traced = Traced(graph, captures, tree, out_tree, weak, known.weak, baked)
        return Compiled.of(traced, compiled, mark_static, self._options, whole)

    def keep(self, entry: Compiled) -> None:
        """Store the function for later processes.

        It is not stored if tracing changed what the function depends on.
        """
        traced = entry.traced
        why = self._why
        if self._memory and self._identity(is_recorded=True)[0] != self._hash:
            why = "recording it changes what lies outside"
        elif self._memory:
            why = self._memory.write(entry, traced, self._arrays)
        if why:
            tell_recorded(traced.graph.name, why)


def _identity(
    fn: Callable[..., Any],
    tree: pytree.Structure,
    kinds: Sequence[Any],
    is_recorded: bool = False,
) -> tuple[str, list[Array], str]:
    """The hash of what tracing depends on, with its arrays; or why there is none."""
    try:
        example = pytree.unflatten(tree, range(tree.num_leaves))
        return *identity(fn, example, repr(kinds), is_recorded=is_recorded), ""
    except Exception as error:  # a class of the user may raise anything when it is looked at
        return "", [], str(error)
