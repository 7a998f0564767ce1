"""Whether one thread at a time runs Python code."""

from __future__ import annotations

import sys
from typing import Final

# What was built, not `sys._is_gil_enabled()`: a build without the lock takes one for a moment
# wherever any thread imports a library in C.
HAS_GIL: Final = "free-threading build" not in sys.version
