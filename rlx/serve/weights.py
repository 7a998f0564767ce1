"""Weights under names: kept once, counted, and exchanged while they are used.

A name stands for a handle, a handle for a content: a pytree of arrays, known by a hash of its
bytes. Who computes with it pins it; exchanging the content of a name (`swap`) leaves those who have
pinned the old one with what they have, and costs no compile, since the types must be the same.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, final
from weakref import WeakSet

from .. import numpy as rnp
from ..ir.errors import AttributeValueError, InUseError, StructureError, UnknownNameError
from ..trace import pytree
from ..trace.arguments import name_of
from ..trace.host import to_numpy
from ..trace.make_graph import typeof

_LOCK = threading.RLock()  # for all counts: each is held for a moment


@final
class Handle:
    """One content: its arrays (`tree`), a hash (`key`) and their bytes (`nbytes`).

    A registry makes them. `with handle:` pins it: what is pinned cannot be removed.
    """

    def __init__(self, tree: Any, key: str, nbytes: int) -> None:
        self.tree, self.key, self.nbytes = tree, key, nbytes
        self.names: set[str] = set()
        self.pins = 0

    def pin(self) -> Handle:
        """Count one more user; the handle is given back."""
        with _LOCK:
            self.pins += 1
        return self

    def release(self) -> None:
        """Count one user less. More often than it was pinned is an `AttributeValueError`."""
        with _LOCK:
            if not self.pins:
                raise AttributeValueError(
                    f"{self!r} is released more often than it was pinned",
                    fix="release it once for each pin(), or write `with handle:`",
                )
            self.pins -= 1

    def __enter__(self) -> Any:
        return self.pin().tree

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.names)) or "no name"
        return f"Handle({names}: {self.nbytes} bytes, {self.pins} pins, {self.key[:12]})"


@final
class WeightRegistry:
    """Weights by name; threads may use it at the same time.

    >>> weights = WeightRegistry()
    >>> handle = weights.add("embedding", rnp.ones((4, 2)))
    >>> weights.alias("head", of="embedding") is handle, weights.nbytes
    (True, 32)
    >>> with weights["head"] as table:
    ...     print(table.shape)
    (4, 2)
    """

    def __init__(self) -> None:
        self._named: dict[str, Handle] = {}
        self._contents: dict[str, Handle] = {}
        self._left = WeakSet[Handle]()  # those without a name

    def add(self, name: str, tree: Any) -> Handle:
        """Give the arrays of `tree` a `name`; the handle of that content is given back.

        Adding it again changes nothing. A name that stands for another content is an
        `AttributeValueError`.
        """
        return self._given(name, self._handle(tree))

    def alias(self, name: str, of: str) -> Handle:
        """Let `name` stand for the weights of another name, as tied weights do.

        An unknown `of` is an `UnknownNameError`; a name that stands for others an
        `AttributeValueError`.
        """
        with _LOCK:
            return self._given(name, self[of])

    def swap(self, name: str, tree: Any) -> Handle:
        """Exchange the content of a `name`; the new handle is given back.

        Who has pinned the old one goes on with it. Names tied to it keep it. The arrays of `tree`
        have the structure, shapes and dtypes of the old ones, or it is a `StructureError`: what was
        compiled for them is used again. An unknown name is an
        `UnknownNameError`.
        """
        self[name]  # an unknown name is one before all is hashed
        found = self._handle(tree)
        after = signature(found.tree)
        with _LOCK:
            before = signature(self[name].tree)
            if before != after:
                raise StructureError(
                    f"the new weights of {name!r} are {after}, the old ones {before}",
                    fix="give arrays of the same structure, shapes and dtypes, or another name",
                )
            self._unname(name)
            return self._name(name, found)

    def remove(self, name: str) -> None:
        """Forget a `name`, and its content if it was the last one.

        An unknown name is an `UnknownNameError`. Weights that are pinned and have no other name
        are an `InUseError`.
        """
        with _LOCK:
            handle = self[name]
            if handle.pins and handle.names == {name}:
                raise InUseError(
                    f"{name!r} is used {handle.pins} times", fix="release its handles first"
                )
            self._unname(name)

    @property
    def nbytes(self) -> int:
        """The bytes of all contents, each counted once, and of old ones that are pinned."""
        with _LOCK:
            left = {x for x in self._left if x.pins and not x.names}
            return sum(handle.nbytes for handle in (*self._contents.values(), *left))

    def __getitem__(self, name: str) -> Handle:
        with _LOCK:
            if name_of("WeightRegistry: name", name) not in self._named:
                raise UnknownNameError(
                    f"no weights are named {name!r}",
                    fix=f"there are: {', '.join(self) or 'none'}; add them first",
                )
            return self._named[name]

    def __contains__(self, name: str) -> bool:
        return name in self._named

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._named))

    def __len__(self) -> int:
        return len(self._named)

    def __repr__(self) -> str:
        return f"WeightRegistry({len(self)} names, {self.nbytes} bytes)"

    def _handle(self, tree: Any) -> Handle:
        tree = _copied(tree)  # nobody else can write to it
        each = {id(x): x for x in pytree.leaves(tree)}.values()
        key, nbytes = content_key(tree), sum(typeof(x).nbytes for x in each)
        with _LOCK:
            known = self._contents.get(key)
            return known if known is not None else Handle(tree, key, nbytes)

    def _given(self, name: str, handle: Handle) -> Handle:
        """Give a content a name that no other one has."""
        with _LOCK:
            known = self._named.get(name_of("WeightRegistry: name", name))
            if known is not None and known is not handle:
                raise AttributeValueError(
                    f"{name!r} stands for other weights already",
                    fix=f"exchange them: swap({name!r}, tree)",
                )
            return self._name(name, handle)

    def _name(self, name: str, handle: Handle) -> Handle:
        known = self._contents.setdefault(handle.key, handle)  # two threads may have made one each
        known.names.add(name)
        self._named[name] = known
        return known

    def _unname(self, name: str) -> None:
        handle = self._named.pop(name)
        handle.names.discard(name)
        if not handle.names:
            del self._contents[handle.key]
            self._left.add(handle)


def _copied(tree: Any) -> Any:
    """A copy of a tree; an array that stands in it twice is copied once."""
    leaves, structure = pytree.flatten(tree)  # once: a class may make them when it is asked
    copies = {id(x): rnp.array(x) for x in leaves}
    return pytree.unflatten(structure, [copies[id(x)] for x in leaves])


def content_key(tree: Any) -> str:
    """A hash of the arrays of `tree`: their structure, shapes, dtypes and bytes."""
    text = hashlib.sha256(signature(tree).encode())
    for leaf in pytree.leaves(tree):
        text.update(to_numpy(leaf).tobytes())
    return text.hexdigest()


def signature(tree: Any) -> str:
    """The structure of a tree, and the types of its leaves."""
    leaves, structure = pytree.flatten(tree)
    return f"{structure} of {', '.join(str(typeof(x)) for x in leaves)}"
