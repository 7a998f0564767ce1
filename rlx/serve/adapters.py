"""Adapters of an engine: attached, chosen and dropped by name while steps go on.

They stand in stacks that are inputs of a step, so none of this compiles anything. A request keeps
the adapter it began with: its place in the stacks is given to another one only when no name stands
for it and the last of its requests has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import final

import numpy as np

from ..ir.errors import AttributeValueError, InUseError
from ..models.language import LanguageModel, language_model
from ..models.lora import Adapter, Stack, check_adapter, stacked
from ..models.lora_files import adapter_for
from ..trace import pytree
from ..trace.arguments import count_of, instance_of, name_of
from ..trace.host import to_numpy
from .weights import Handle, content_key


@final
class Adapters:
    """The adapters of an engine by name; an `Engine` makes it for its `model`.

    There is room for `count` of them, of a rank up to `rank`. Threads may use it at the same time.
    """

    def __init__(self, model: LanguageModel, count: int, rank: int) -> None:
        self.count = count_of("adapters", count)
        self.rank = count_of("adapter_rank", rank, 1)
        self._config = language_model("Adapters: model", model).config
        self._named: dict[str, Handle] = {}
        self._places: list[Handle | None] = [None] * self.count
        self._changes = threading.Lock()  # held by who attaches, one at a time
        self._lock = threading.Lock()  # of names and places, held for moments
        self.stacks: Sequence[Stack] = self._stacked() if count else ()

    @property
    def room(self) -> tuple[int, int] | None:
        """How many a step takes, and their rank; None for none."""
        return (self.count, self.rank) if self.count else None

    def attach(self, name: str, adapter: Adapter | str | PathLike[str]) -> Handle:
        """Let requests choose an `adapter`, or the one in a file, by `name`.

        Returns its handle. A name that is there stands for the new one from now on; requests that
        began with the old one go on with it. An adapter that does not fit the model, or has a
        greater rank than there is room for, raises the errors of `load_adapter`, a
        `StructureError`, `ShapeError` or `AttributeValueError`; one for which there is no place an
        `InUseError`.
        """
        name_of("attach: name", name)
        if isinstance(adapter, str | PathLike):
            adapter = adapter_for(self._config, adapter)
        instance_of("attach: adapter", adapter, Adapter, "an adapter", "give a path or an Adapter")
        check_adapter(self._config, adapter, self.rank)
        made = _handle(adapter)
        with self._changes:
            same = [x for x in self._places if x is not None and x.key == made.key]
            handle = same[0] if same else self._placed(made)
            with self._lock:
                self._named[name] = handle
        return handle

    def drop(self, name: str) -> None:
        """Let no further request choose the adapter of a `name`; those that have it go on.

        An unknown name is an `AttributeValueError`.
        """
        with self._lock:
            self._known(name)
            del self._named[name]

    def take(self, name: str) -> Handle:
        """The handle that a `name` stands for now, pinned.

        An unknown name is an `AttributeValueError`.
        """
        with self._lock:
            return self._known(name).pin()

    def place(self, handle: Handle | None) -> int:
        """The place of a pinned `handle` in the stacks; -1 for None."""
        return -1 if handle is None else self._places.index(handle)

    def has(self, handle: Handle) -> bool:
        """Whether a name stands for a `handle`."""
        with self._lock:
            return any(handle is x for x in self._named.values())

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._named))

    def __len__(self) -> int:
        return len(self._named)

    def __repr__(self) -> str:
        return f"Adapters({', '.join(self) or 'none'}; room for {self.count} of rank {self.rank})"

    def _known(self, name: str) -> Handle:
        if name_of("adapter", name) not in self._named:
            raise AttributeValueError(
                f"there is no adapter {name!r}",
                fix=f"attached are: {', '.join(self) or 'none'}; attach it first",
            )
        return self._named[name]

    def _placed(self, handle: Handle) -> Handle:
        """Put an adapter into the stacks."""
        with self._lock:
            named = list(self._named.values())
            free = [i for i, x in enumerate(self._places) if x is None or _is_left(x, named)]
        if not free:
            raise InUseError(
                f"all {self.count} places for adapters are taken",
                fix="drop one and wait for its requests, or make the engine with more adapters",
            )
        before, self._places[free[0]] = self._places[free[0]], handle
        try:
            self.stacks = self._stacked()
        except BaseException:
            self._places[free[0]] = before
            raise
        return handle

    def _stacked(self) -> list[Stack]:
        kept = [None if x is None else Adapter(x.tree) for x in self._places]
        return stacked(self._config, kept, self.rank)


def _is_left(handle: Handle, named: Sequence[Handle]) -> bool:
    """Whether no name stands for an adapter and no request has it."""
    return not handle.pins and not any(handle is x for x in named)


def _handle(adapter: Adapter) -> Handle:
    """An adapter with arrays that nobody else can write to, and its hash."""
    tree = pytree.map(lambda x: np.array(to_numpy(x), np.float32), list(adapter.layers))
    nbytes = sum(x.nbytes for x in pytree.leaves(tree))
    return Handle(tree, content_key(tree), nbytes)
