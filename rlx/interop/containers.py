"""Containers that are registered with JAX, such as modules of Flax and Equinox.

They are registered with rlx when a tree that has one is first flattened.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, final

from ..ir.errors import DeviceUnavailable
from ..trace import pytree

# -- typed keys of random numbers, as JAX has them, around arrays of rlx ---------------------------


@final
class Keys:
    """Keys of one of JAX's generators: `data` has their words in its last axis.

    `rlx.from_jax` gives them where JAX gives typed keys, and takes them for such; `dtype` is JAX's.
    To rlx they are a container of `data`.
    """

    __slots__ = ("data", "dtype")

    def __init__(self, data: Any, dtype: Any) -> None:
        self.data = data
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape without the axis of words."""
        return tuple(self.data.shape[:-1])

    def __repr__(self) -> str:
        return f"Keys({self.data!r}, {self.dtype})"


def is_keys(x: Any) -> bool:
    """Whether it is such a container."""
    return isinstance(x, Keys)


def plain_key(x: Any) -> Any:
    """The words of keys, which `rlx.random` takes for keys; all else as it is."""
    return x.data if is_keys(x) else x


def _unflatten_keys(dtype: Any, children: Any) -> Keys:
    (data,) = children
    return Keys(data, dtype)


pytree.register_class(Keys, lambda x: ((x.data,), x.dtype, ("data",)), _unflatten_keys)


def know_keys(cls: type) -> None:
    """Let rlx take JAX's own class of keys for such a container."""
    pytree.register_class(cls, _flatten_of_jax, _unflatten_keys)


def _flatten_of_jax(x: Any) -> tuple[Any, Any, tuple[str, ...]]:
    import jax

    return (jax.random.key_data(x),), x.dtype, ("data",)


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
