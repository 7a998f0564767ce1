"""A device of another package, for tests: its memory are boxes, which NumPy cannot read.

It interprets graphs, so that what differs from the host is where arrays lie, and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.backends.backend import Availability, Backend, Executable
from rlx.backends.entries import device_executable
from rlx.ir.graph import Graph
from rlx.ir.interpret import interpret
from rlx.ir.text import show
from rlx.lower.target import Target


class Box:
    """An array that can be had by asking only."""

    def __init__(self, array: np.ndarray) -> None:
        self.inside, self.shape, self.dtype = array, array.shape, array.dtype


class BoxMemory:
    """Where boxes lie."""

    name = "boxed"

    def to_host(self, data: Box) -> np.ndarray:
        host = data.inside.copy()
        host.flags.writeable = False
        return host

    def from_host(self, array: np.ndarray) -> Box:
        return Box(np.array(array))

    def wait(self, data: Box) -> None:
        pass


class BoxedBackend(Backend):
    """Opens boxes, interprets, and closes them."""

    name = "boxed"
    target = Target("boxed", has_symbolic_sizes=False)
    memory = BoxMemory()

    def availability(self) -> Availability:
        return Availability(True)

    def description(self) -> str:
        return "boxes"

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        def run(boxes: list[Box]) -> list[Box]:
            return [Box(np.array(r)) for r in interpret(graph, [box.inside for box in boxes])]

        made: Any = device_executable(graph, array, self.memory, run)
        made.make_stages = lambda: {"hir": show(graph)}
        made.make_report = lambda: "every op: in boxes"
        return made
