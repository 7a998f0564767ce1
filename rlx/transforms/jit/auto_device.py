"""The choice of `device="auto"`: the device predicted to be fastest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from ...runtime.session import CompileOptions
from ...trace.array import Array
from ...trace.make_graph import Traced

AUTO = "auto"


@final
class DeviceChoice:
    """The chosen device for each kind of arguments and their devices."""

    def __init__(self) -> None:
        self._chosen: dict[Any, str] = {}

    def device(
        self,
        kind: Any,
        leaves: Sequence[Any],
        record: Callable[[], Traced],
        options: CompileOptions,
        name: str,
    ) -> str:
        """The device that the cost model predicts to be fastest.

        A function in the graph that was compiled for a device by name leaves no choice.
        """
        places = tuple(x.device if isinstance(x, Array) else "" for x in leaves)
        key = kind, places
        if key not in self._chosen:
            traced = record()
            self._chosen = {**self._chosen, key: _best(traced, leaves, options, name)}
        return self._chosen[key]


def _best(traced: Traced, leaves: Sequence[Any], options: CompileOptions, name: str) -> str:
    placed = traced.graph.placed
    if placed:
        return placed[0].device
    from ...tools.costs import explain

    return explain(traced, [*leaves, *traced.captures], options, name).best
