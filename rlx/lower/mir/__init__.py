"""Passes from graph to graph for one target.

Enters: a graph of primitives and of composites the target wants. Leaves: one that it can run.
"""

from .legalize import legalize

__all__ = ["legalize"]
