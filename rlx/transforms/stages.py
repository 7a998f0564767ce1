"""What `jit` makes of a function for one kind of arguments, step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..ir.builder import user_source
from ..ir.errors import StructureError
from ..ir.graph import Graph
from ..ir.tracebacks import boundary
from ..runtime import MISS
from ..runtime.compiled import CompiledGraph, parameter_names, places_of
from ..runtime.session import CompileOptions, default_session
from ..trace import ownership, pytree
from ..trace.make_graph import Traced
from .recompile import difference

MarkStatic = Callable[[Any, Any], tuple[Any, Any]]


@dataclass
class Compiled:
    """A recorded and compiled function for one kind of arguments.

    A call takes arguments like those it was recorded for; static ones may be left out. If an
    earlier process recorded it, the graph in `traced` has no nodes, and `record` gives them.
    """

    traced: Traced
    compiled: CompiledGraph
    mark_static: MarkStatic
    record: Callable[[], Graph] | None = None

    @property
    def graph(self) -> Graph:
        """The recorded graph."""
        return self.record() if self.record else self.traced.graph

    @property
    def stages(self) -> dict[str, str]:
        """The text of every stage, from the recorded graph to the machine code."""
        return self.compiled.stages

    def report(self) -> str:
        """For each op how it runs."""
        return self.compiled.report()

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.flatten((args, kwargs))
        if tree == self._without_static:
            return self.run(leaves)
        leaves, tree = pytree.flatten(self.mark_static(args, kwargs))
        if tree == self.traced.in_tree:
            return self.run(leaves)
        place = difference(self.traced.in_tree, tree)
        raise StructureError(
            f"{self.traced.graph.name} was compiled for other arguments: {place}",
            where=str(user_source()),
            fix="pass arguments with the containers, keys and static values it was compiled for",
        )

    @functools.cached_property
    def _without_static(self) -> pytree.Structure:
        """The structure of the arguments that are arrays."""
        tree = self.traced.in_tree
        args, kwargs = pytree.unflatten(tree, [0] * tree.num_leaves)
        left = {k: x for k, x in kwargs.items() if not isinstance(x, pytree.Static)}
        return pytree.structure((tuple(x for x in args if not isinstance(x, pytree.Static)), left))

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run on the leaves of the arguments."""
        return self._unflatten(self.compiled(*leaves, *self.traced.captures))

    def try_run(self, leaves: Sequence[Any]) -> Any:
        """Run if the leaves are arrays that fit as they are; else give MISS."""
        if self.compiled.donated or self.compiled.executable.miss is not MISS:
            return MISS
        results = self.compiled.executable.entry(*leaves, *self.traced.captures)
        if results is MISS:
            return MISS
        return self._unflatten(ownership.make_here(results) if ownership.open_traces else results)

    def _unflatten(self, results: Any) -> Any:
        results = results if isinstance(results, tuple) else (results,)
        return pytree.unflatten(self.traced.out_tree, results)


@dataclass
class Lowered:
    """A recorded function that is not compiled yet."""

    traced: Traced
    device: str
    options: CompileOptions
    mark_static: MarkStatic

    @property
    def graph(self) -> Graph:
        """The recorded graph."""
        return self.traced.graph

    def compile(self) -> Compiled:
        """Compile it for its device."""
        names = parameter_names(self.graph)
        given = tuple(name for name in self.options.donate if places_of(name, names))
        options = replace(self.options, donate=given)
        compiled = default_session(self.device).compile(self.graph, options=options)
        return Compiled(self.traced, compiled, self.mark_static)
