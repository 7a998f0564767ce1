"""Classes of rlx whose objects are containers of some attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import pytree


def register_attributes(cls: type, names: tuple[str, ...], static: tuple[str, ...] = ()) -> None:
    """Register a class as a container of some attributes.

    Those of `static` belong to the structure. Unflattening does not call `__init__`: leaves may be
    placeholders.
    """

    def flatten(x: Any) -> tuple[tuple, tuple, tuple]:
        fixed = tuple(getattr(x, name) for name in static)
        return tuple(getattr(x, name) for name in names), fixed, names

    def unflatten(fixed: Any, children: Sequence[Any]) -> Any:
        made = object.__new__(cls)
        vars(made).update(zip((*names, *static), (*children, *fixed), strict=True))
        return made

    pytree.register_class(cls, flatten, unflatten)
