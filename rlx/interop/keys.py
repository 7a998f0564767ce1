"""Typed keys of random numbers, as JAX has them, around arrays of rlx."""

from __future__ import annotations

from typing import Any, final

from ..trace import pytree


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


def _unflatten(dtype: Any, children: Any) -> Keys:
    (data,) = children
    return Keys(data, dtype)


pytree.register_class(Keys, lambda x: ((x.data,), x.dtype, ("data",)), _unflatten)


def know_keys(cls: type) -> None:
    """Let rlx take JAX's own class of keys for such a container."""
    pytree.register_class(cls, _flatten_of_jax, _unflatten)


def _flatten_of_jax(x: Any) -> tuple[Any, Any, tuple[str, ...]]:
    import jax

    return (jax.random.key_data(x),), x.dtype, ("data",)
