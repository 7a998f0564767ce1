"""Quantization after training: functions and modules with weights in few bits.

Takes a function and examples of its arguments; gives a function that is called alike. May use
everything below `nn`, and it. Read `quantize.py`, then `recorder.py` and `codes.py`.
"""

from ..ir.lazy import listed as _listed
from .quantize import Quantized as Quantized, quantize as quantize
from .report import Errors as Errors, Layer as Layer, Report as Report
from .scheme import Scheme as Scheme
from .weights import CodeArray as CodeArray

__dir__ = _listed(__name__)
