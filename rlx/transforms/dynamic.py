"""Arguments whose sizes a jitted function leaves open."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..ir.dims import Dim, dim
from ..ir.errors import StaticArgumentError
from ..ir.graph import Graph
from ..ir.types import Type
from ..runtime.compiled import places_of
from ..runtime.sizes import Buckets
from ..trace import pytree
from ..trace.make_graph import argument_origins, function_name

Axes = Mapping[int, "str | Dim"] | Mapping[Any, "Axes"]  # of an array, or of parts of a tree


@dataclass
class Dynamic:
    """Which axes of which arguments of `fn` have symbolic sizes.

    `declared` maps the name of an argument, or of a part of one as `batch["tokens"]`, to its axes
    and their dims.
    """

    fn: Callable[..., Any]
    declared: dict[str, dict[int, Dim]]
    known: dict[pytree.Structure, dict[int, dict[int, Dim]]] = field(default_factory=dict)

    def types(
        self, args: Sequence[Any], tree: pytree.Structure, types: Sequence[Type]
    ) -> list[Type]:
        """The types of the leaves of arguments, with dims for the sizes left open."""
        if tree not in self.known:
            self.known[tree] = self._places(args, tree)
        opened = list(types)
        for place, axes in self.known[tree].items():
            opened[place] = self._opened(place, types[place], axes, args, tree)
        return opened

    def buckets_of(self, graph: Graph, buckets: Buckets) -> Buckets:
        """The buckets without those of arguments that were left out."""
        sizes = [size for axes in self.declared.values() for size in axes.values()]
        declared = {symbol.name for size in sizes for symbol in size.symbols}
        here = {symbol.name for type in graph.param_types for symbol in type.symbols}
        return tuple(row for row in buckets if row[0] in here or row[0] not in declared)

    def _places(self, args: Sequence[Any], tree: pytree.Structure) -> dict[int, dict[int, Dim]]:
        """The axes of each leaf that has some."""
        origins = argument_origins(self.fn, args, tree, function_name(self.fn))
        names = [origin.split(", ", 1)[1] for origin in origins]
        parameters = inspect.signature(self.fn).parameters
        found: dict[int, dict[int, Dim]] = {}
        for name, axes in self.declared.items():
            places, root = places_of(name, names), _root(name)
            if root in parameters and not places_of(root, names):
                continue  # an optional argument was left out, or is None
            if not places:
                raise _wrong(
                    f"{function_name(self.fn)} was called without the dynamic argument {name!r}",
                    f"its arguments are {', '.join(names)}",
                )
            for place in places:
                found[place] = {**found.get(place, {}), **axes}
        return found

    def _opened(
        self,
        place: int,
        type: Type,
        axes: Mapping[int, Dim],
        args: Sequence[Any],
        tree: pytree.Structure,
    ) -> Type:
        shape = list(type.shape)
        for axis, size in axes.items():
            if not -type.rank <= axis < type.rank:
                origin = argument_origins(self.fn, args, tree, function_name(self.fn))[place]
                raise _wrong(
                    f"{origin} is {type}, it has no axis {axis} to be {size}",
                    f"pass an array of rank {max(axis + 1, -axis)} or more, or change `dynamic`",
                )
            shape[axis] = size
        return type.with_shape(tuple(shape))


def declare(
    fn: Callable[..., Any], given: Mapping[str, Axes] | None, static: Sequence[str] = ()
) -> Dynamic | None:
    """Check what `jit(dynamic=...)` was given."""
    if not given:
        return None
    if not isinstance(given, Mapping):
        raise _wrong(
            f"`dynamic` is of type {type(given).__name__}",
            'write a dict as {"tokens": {0: "seq"}}: names of arguments, axes, dims',
        )
    parameters = inspect.signature(fn).parameters
    takes_any = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
    given = {key: part for name, axes in given.items() for key, part in _parts(name, axes)}
    for name, axes in given.items():
        root = _root(str(name))
        if root not in parameters and not takes_any:
            raise _wrong(
                f"{function_name(fn)} has no argument {root!r} to be dynamic",
                f"its arguments are {', '.join(parameters)}",
            )
        if root in static:
            raise _wrong(
                f"the argument {root!r} of {function_name(fn)} is static and dynamic",
                "make it static or dynamic: only arrays have sizes to leave open",
            )
        if not isinstance(axes, Mapping) or not all(map(_is_axis, axes.items())):
            raise _wrong(
                f"the dynamic axes of {name!r} are {axes!r}",
                'map numbers of axes to names or dims, as {0: "seq"} or {0: rlx.dim("seq")}',
            )
    return Dynamic(fn, {name: _dims(axes) for name, axes in given.items()})


def _parts(name: Any, axes: Any) -> Iterator[tuple[Any, Any]]:
    """The axes of each part of an argument, by names as `batch["tokens"]`."""
    is_tree = isinstance(axes, Mapping) and axes and all(map(_is_mapping, axes.values()))
    if not is_tree:
        yield name, axes
        return
    for key, part in axes.items():
        place = f'"{key}"' if isinstance(key, str) else repr(key)
        yield from _parts(f"{name}[{place}]", part)


def _is_mapping(given: Any) -> bool:
    return isinstance(given, Mapping)


def _root(name: str) -> str:
    """The argument of which a name names a part."""
    return name.split("[", 1)[0].split(".", 1)[0]


def _is_axis(item: tuple[Any, Any]) -> bool:
    axis, size = item
    is_number = isinstance(axis, int) and not isinstance(axis, bool)
    return is_number and (isinstance(size, Dim) or (isinstance(size, str) and size != ""))


def _dims(axes: Mapping[int, str | Dim]) -> dict[int, Dim]:
    return {axis: dim(size) if isinstance(size, str) else size for axis, size in axes.items()}


def _wrong(what: str, fix: str) -> StaticArgumentError:
    return StaticArgumentError(what, fix=fix)
