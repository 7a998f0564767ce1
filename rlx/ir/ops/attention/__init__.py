"""Ops of attention and its derivative.

Read `attention.py` first; `blocks.py` is the online form for long sequences.
"""

from . import attention

__all__ = ["attention"]
