"""Shardings that a user gives for trees of arguments, as those of the leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..ir.errors import ArgumentError, RlxError, StructureError
from ..ir.sharding import Mesh, NamedSharding, PartitionSpec
from ..runtime.devices import Device
from ..runtime.session import CompileOptions
from ..trace import pytree
from ..trace.make_graph import Traced

Leaves = tuple[NamedSharding | None, ...]


def with_leaves(options: CompileOptions, traced: Traced) -> CompileOptions:
    """The options with a sharding, or None, for each parameter and result of a graph.

    Users give one for all arguments, or a tuple of one for each argument that is not static; each
    stands for all leaves below it.
    """
    given, wanted = options.in_shardings, options.out_shardings
    if given is None and wanted is None:
        return options
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
