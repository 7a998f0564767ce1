"""Symbolic sizes and shardings of a jitted function's arguments.

Both are given for trees of arguments, and become those of the leaves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...ir.dims import Dim, dim
from ...ir.errors import ArgumentError, RlxError, StaticArgumentError, StructureError
from ...ir.graph import Graph
from ...ir.record import field, record, replace
from ...ir.sharding import Mesh, NamedSharding, PartitionSpec
from ...ir.types import Type
from ...runtime.compiled import places_of
from ...runtime.devices import Device
from ...runtime.session import CompileOptions
from ...runtime.sizes import Buckets
from ...trace import pytree
from ...trace.make_graph import Traced, function_name
from .paths import Call

Axes = Mapping[int, "str | Dim"] | Mapping[Any, "Axes"]  # of an array, or of parts of a tree


@record(frozen=False)
class Dynamic:
    """Which axes of which arguments of a function have symbolic sizes."""

    fn: Callable[..., Any]
    declared: dict[str, dict[int, Dim]]  # name of an argument or a part, as `batch["tokens"]`
    # the same by the number of a leaf, for each structure of arguments
    known: dict[pytree.Structure, dict[int, dict[int, Dim]]] = field(default_factory=dict)

    def types(self, call: Call, types: Sequence[Type]) -> list[Type]:
        """The types of the leaves of a call, with dims for symbolic sizes."""
        if call.tree not in self.known:
            self.known[call.tree] = self._places(call)
        opened = list(types)
        for place, axes in self.known[call.tree].items():
            opened[place] = self._opened(place, types[place], axes, call)
        return opened

    def buckets_of(self, graph: Graph, buckets: Buckets) -> Buckets:
        """The buckets except those of arguments that were left out."""
        sizes = [size for axes in self.declared.values() for size in axes.values()]
        declared = {symbol.name for size in sizes for symbol in size.symbols}
        here = {symbol.name for type in graph.param_types for symbol in type.symbols}
        return tuple(row for row in buckets if row[0] in here or row[0] not in declared)

    def _places(self, call: Call) -> dict[int, dict[int, Dim]]:
        """The symbolic axes of each leaf that has some."""
        names = [origin.split(", ", 1)[1] for origin in call.origins(self.fn)]
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

    def _opened(self, place: int, type: Type, axes: Mapping[int, Dim], call: Call) -> Type:
        shape = list(type.shape)
        for axis, size in axes.items():
            if not -type.rank <= axis < type.rank:
                raise _wrong(
                    f"{call.origins(self.fn)[place]} is {type}, it has no axis {axis} to be {size}",
                    f"pass an array of rank {max(axis + 1, -axis)} or more, or change `dynamic`",
                )
            shape[axis] = size
        return type.with_shape(tuple(shape))


def declare(
    fn: Callable[..., Any], given: Mapping[str, Axes] | None, static: Sequence[str] = ()
) -> Dynamic | None:
    """Check the option `jit(dynamic=...)`."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise _wrong(
            f"`dynamic` is of type {type(given).__name__}",
            'write a dict as {"tokens": {0: "seq"}}: names of arguments, axes, dims',
        )
    if not given:
        return None
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
    """The symbolic axes of each part of an argument, by names as `batch["tokens"]`."""
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


Leaves = tuple[NamedSharding | None, ...]


def with_leaves(options: CompileOptions, traced: Traced) -> CompileOptions:
    """Options with a sharding, or None, for each parameter and result of a graph.

    Users give one for all arguments, or a tuple of one for each argument that is not static; each
    stands for all leaves below it.
    """
    given, wanted = options.in_shardings, options.out_shardings
    results = [0] * traced.out_tree.num_leaves
    outputs = _leaves("out_shardings", wanted, pytree.unflatten(traced.out_tree, results))
    args, _ = pytree.unflatten(traced.in_tree, [0] * traced.in_tree.num_leaves)
    open_args = [x for x in args if not isinstance(x, pytree.Static)]
    if isinstance(given, list | tuple) and len(given) != len(open_args):
        raise ArgumentError(
            f"in_shardings has {len(given)} items for {len(open_args)} arguments",
            fix="give one for each argument that is not static, or one for all of them",
        )
    given = tuple(given) if isinstance(given, list) else given
    inputs = _leaves("in_shardings", given, tuple(open_args))
    rest = len(traced.graph.params) - len(inputs)  # named arguments and arrays from outside
    every = given if isinstance(given, NamedSharding) else None
    named_leaves = traced.in_tree.num_leaves - len(inputs)
    more = [every] * named_leaves + [None] * (rest - named_leaves)
    _check_meshes(s.mesh for s in (*inputs, *more, *outputs) if s is not None)
    return replace(options, in_shardings=(*inputs, *more), out_shardings=outputs)


def _check_meshes(meshes: Iterable[Mesh]) -> None:
    sizes = sorted({mesh.size for mesh in meshes})
    if len(sizes) > 1:
        raise ArgumentError(
            f"the meshes have {' and '.join(map(str, sizes))} devices",
            fix="use meshes of the same devices for all arguments and results of a function",
        )


def _leaves(name: str, prefix: Any, tree: Any) -> Leaves:
    """A sharding, or None, for each leaf of a tree of zeros."""
    try:
        found = pytree.broadcast(prefix, tree, _is_leaf)
    except RlxError as error:
        raise StructureError(
            f"{name} does not fit: {error.what}",
            fix="give one sharding for all, or one for each part in the same containers",
        ) from None
    return tuple(_checked(name, x) for x in pytree.leaves(found, _is_leaf))


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, NamedSharding | PartitionSpec)


def _checked(name: str, x: Any) -> NamedSharding | None:
    if x is None or isinstance(x, NamedSharding):
        return x
    raise ArgumentError(
        f"{name} has {x!r}, which names no mesh",
        fix=f"write rlx.NamedSharding(mesh, {x!r})",
    )


def device_of(*shardings: Any) -> str | None:
    """The device of the meshes in trees of shardings; None if there are none."""
    found: Sequence[Any] = [s for tree in shardings for s in pytree.leaves(tree, _is_leaf)]
    names = {str(Device(s.mesh.device)) for s in found if isinstance(s, NamedSharding)}
    if len(names) > 1:
        raise ArgumentError(
            f"the meshes are of several devices: {', '.join(sorted(names))}",
            fix="use one mesh",
        )
    return names.pop() if names else None
