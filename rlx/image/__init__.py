"""Images, or arrays of any rank, in other sizes.

Enters and leaves: arrays. Uses `trace`, `numpy`; read `resize.py`.
"""

from .resize import ResizeMethod, resize, scale_and_translate

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
