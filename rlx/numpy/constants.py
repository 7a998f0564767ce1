"""Constants, dtypes and kinds of dtypes under NumPy's names."""

from __future__ import annotations

import math

import numpy as np

from ..ir.types import DTYPES, as_dtype

pi = math.pi
e = math.e
euler_gamma = 0.57721566490153286060651209008240243
inf = math.inf
nan = math.nan
newaxis = None

bool_ = bool = DTYPES["bool"]
int8 = DTYPES["int8"]
int16 = DTYPES["int16"]
int32 = DTYPES["int32"]
int64 = DTYPES["int64"]
uint8 = DTYPES["uint8"]
uint16 = DTYPES["uint16"]
uint32 = DTYPES["uint32"]
uint64 = DTYPES["uint64"]
float16 = half = DTYPES["float16"]
bfloat16 = DTYPES["bfloat16"]
float32 = single = DTYPES["float32"]
float64 = double = DTYPES["float64"]
complex64 = csingle = DTYPES["complex64"]
complex128 = cdouble = DTYPES["complex128"]
float8_e4m3fn = DTYPES["float8_e4m3fn"]
float8_e5m2 = DTYPES["float8_e5m2"]
dtype = as_dtype

generic, number, inexact = np.generic, np.number, np.inexact
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
