"""What a device must offer: a target to lower for, and a way to compile a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..ir.graph import Graph
from ..lower.target import Target


@dataclass(frozen=True)
class Availability:
    """Whether a device can run here; if not, why, and what to install."""

    is_available: bool
    reason: str = ""
    install: str = ""


@dataclass
class Executable:
    """A compiled graph.

    `entry(*arrays)` takes one ndarray (or one instance of the array class it was compiled for)
    for each parameter and gives an instance, or a tuple of instances where there is not exactly
    one result. What does not fit the parameter types gives `miss`, with nothing done.
    """

    entry: Callable[..., Any]
    miss: object = None
    stages: dict[str, str] = field(default_factory=dict)
    report: str = ""
    arena_bytes: int = 0


class Backend(ABC):
    """A kind of device."""

    name: str
    target: Target

    @abstractmethod
    def availability(self) -> Availability:
        """Whether it runs on this machine."""

    @abstractmethod
    def compile(self, graph: Graph, array: type) -> Executable:
        """Compile a graph; results are instances of `array`, made from an ndarray."""
