"""Sharding: meshes of devices, and how arrays are split across them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .errors import ArgumentError, ShapeError
from .record import record
from .types import Size


@record
class Mesh:
    """A grid of devices with named axes: `Mesh((2, 4), ("data", "model"))`.

    `shape` has a size for each of `axis_names`, else it is an `ArgumentError`. The mesh takes the
    first devices of the kind `device`, of all processes together.
    """

    shape: tuple[int, ...]
    axis_names: tuple[str, ...]
    device: str

    def __init__(
        self,
        shape: Sequence[int] | int,
        axis_names: Sequence[str] | str,
        *,
        device: str = "xla",
    ) -> None:
        shape = [shape] if isinstance(shape, int) else shape
        shape = _several("shape", shape, int)
        names = (axis_names,) if isinstance(axis_names, str) else axis_names
        names = _several("axis_names", names, str)
        if len(shape) != len(names) or len(set(names)) < len(names) or any(n < 1 for n in shape):
            raise ArgumentError(
                f"a mesh of the shape {shape} cannot have axes {names}",
                fix='give each axis a size and a name of its own: Mesh((2, 4), ("data", "model"))',
            )
        for name, value in (("shape", shape), ("axis_names", names), ("device", str(device))):
            object.__setattr__(self, name, value)
        if _check is not None:
            _check(self)

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.shape)

    def size_of(self, name: str) -> int:
        """The number of devices along the axis `name`.

        Without such an axis it is an `ArgumentError`.
        """
        if not isinstance(name, str) or name not in self.axis_names:
            raise ArgumentError(
                f"Mesh: {name!r} is none of its axes",
                fix=f"its axes are {', '.join(self.axis_names) or 'none'}",
            )
        return self.shape[self.axis_names.index(name)]


def _several(what: str, given: Any, kind: type) -> tuple[Any, ...]:
    """The items of an argument, all of one kind."""
    items = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else None
    if items is not None and all(isinstance(x, kind) and not isinstance(x, bool) for x in items):
        return items
    raise ArgumentError(
        f"Mesh: {what} is {given!r}",
        fix='give sizes and names: Mesh((2, 4), ("data", "model"))',
    )


_check: Callable[[Mesh], None] | None = None  # that there are so many devices


def set_mesh_check(check: Callable[[Mesh], None]) -> None:
    """Set the check of new meshes."""
    global _check
    _check = check


class PartitionSpec(tuple):
    """The mesh axis along which each axis of an array is split, or None.

    A tuple of names in `axes` splits one axis along several; axes that are left out stay whole.

    >>> PartitionSpec("data", None)
    PartitionSpec('data', None)
    """

    __slots__ = ()

    def __new__(cls, *axes: Any) -> PartitionSpec:
        """Make one of the names themselves, not of a list of them."""
        return super().__new__(cls, axes)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionSpec, tuple(self)


@record
class NamedSharding:
    """How an array is split across the devices of a mesh.

    `spec` is a `rlx.P`: for each axis of the array the axis of `mesh` that splits it; an axis that
    the mesh has not, or that is named twice, is an `ArgumentError`.
    """

    mesh: Mesh
    spec: PartitionSpec

    def __post_init__(self) -> None:
        for what, given, kind in (("mesh", self.mesh, Mesh), ("spec", self.spec, PartitionSpec)):
            if not isinstance(given, kind):
                raise ArgumentError(
                    f"NamedSharding: {what} is of type {type(given).__name__}, not a "
                    f"{kind.__name__}",
                    fix='write rlx.NamedSharding(rlx.Mesh((2,), ("data",)), rlx.P("data"))',
                )
        named = [name for axis in self.spec for name in _names(axis)]
        strange = [name for name in named if name not in self.mesh.axis_names]
        if strange or len(set(named)) < len(named):
            twice = [name for name in named if named.count(name) > 1]
            what = (
                f"there is no axis {strange[0]!r} of the mesh"
                if strange
                else f"the axis {twice[0]!r} of the mesh is named twice"
            )
            raise ArgumentError(
                f"{self.spec}: {what}",
                fix=f"use each of {', '.join(map(repr, self.mesh.axis_names))} at most once",
            )

    def check(self, shape: Sequence[Size], what: str) -> None:
        """Raise a `ShapeError` unless an array of this `shape` can be split so.

        `what` is what the error calls the array.
        """
        if len(self.spec) > len(shape):
            raise ShapeError(
                f"{what} has {len(shape)} axes, {self.spec} tells of {len(self.spec)}",
                fix="leave out names at the end",
            )
        for i, axis in enumerate(self.spec):
            count = math.prod(self.mesh.size_of(name) for name in _names(axis))
            size = shape[i]
            if isinstance(size, int) and size % count:
                raise ShapeError(
                    f"axis {i} of {what} has {size} places, which do not part among {count} "
                    f"devices along {axis!r}",
                    fix=f"pad it to a multiple of {count}, or leave this axis whole: None",
                )


@record
class Shardings:
    """The shardings of the parameters and results of a graph; None where not given."""

    inputs: tuple[NamedSharding | None, ...]
    outputs: tuple[NamedSharding | None, ...]


def _names(axis: Any) -> tuple[str, ...]:
    if axis is None:
        return ()
    return axis if isinstance(axis, tuple) else (axis,)
