"""What rlx adds to optree: names of children in paths, its first own container.

Loaded with optree, when the first tree is flattened.
"""

from __future__ import annotations

import optree

from .pytree import Static
from .registration import register_class


class Child(optree.PyTreeEntry):
    """A child of a registered class: an attribute where it has a name, else a number."""

    def codify(self, node: str = "") -> str:
        """The child of a node as Python text."""
        if isinstance(self.entry, str):
            return f"{node}.{self.entry}"
        return f"{node}[{self.entry}]" if isinstance(self.entry, int) else f"{node}{self.entry}"


register_class(Static, lambda static: ((), static), lambda static, _: static)
