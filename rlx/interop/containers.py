"""Containers that JAX knows, as modules of Flax and Equinox, made known to rlx.

That happens when one is first met where a tree is taken apart.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from ..ir.errors import DeviceUnavailable
from ..trace import pytree
from .keys import know_keys


def check_jax() -> None:
    """Raise if JAX is not installed."""
    if find_spec("jax") is None:
        raise DeviceUnavailable("JAX is not installed", fix='pip install "rlx[xla]"')


def know_containers_of_jax() -> None:
    """Let rlx take classes for containers that are registered with JAX."""
    check_jax()
    pytree.set_adopter(_adopt)


def _adopt(leaf: Any) -> bool:
    """Register the class of a leaf that is a container to JAX; whether it is."""
    import jax
    from jax.core import Tracer

    if isinstance(leaf, Tracer):  # its class has arrays of all dtypes
        return False
    if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        know_keys(type(leaf))
        return True
    if isinstance(leaf, jax.tree_util.PyTreeDef):  # a part of a structure, as it is
        pytree.register_class(type(leaf), lambda x: ((), x), lambda fixed, _: fixed)
        return True
    if jax.tree_util.all_leaves([leaf]):
        return False
    pytree.register_class(type(leaf), _flatten, _unflatten)
    return True


def _flatten(x: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    import jax

    placed, structure = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda y: y is not x)
    steps = tuple(path[0] for path, _ in placed)
    return [child for _, child in placed], structure, steps


def _unflatten(structure: Any, children: Any) -> Any:
    import jax

    return jax.tree_util.tree_unflatten(structure, children)
