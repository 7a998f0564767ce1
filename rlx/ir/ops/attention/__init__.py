"""Ops of attention and its derivative.

Read `attention.py` first; `blocks.py` is the online form for long sequences, `paged.py` attention
to keys in pages.
"""

from . import attention, paged

__all__ = ["attention", "paged"]
