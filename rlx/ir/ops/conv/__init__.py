"""Ops of convolutions, and of the windows they are made of.

Read `conv.py` first.
"""

from . import conv, windows

__all__ = ["conv", "windows"]
