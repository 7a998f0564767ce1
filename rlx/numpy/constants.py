"""Constants, dtypes and kinds of dtypes under NumPy's names."""

from __future__ import annotations

import math

import numpy as np

from ..ir.types import DTYPES, as_dtype
from ..trace.array import Array
from ..trace.promotion import ScalarType

__all__ = [
    "bfloat16",
    "bool",
    "bool_",
    "cdouble",
    "character",
    "complex64",
    "complex128",
    "complex_",
    "complexfloating",
    "csingle",
    "double",
    "dtype",
    "e",
    "euler_gamma",
    "flexible",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "float_",
    "floating",
    "generic",
    "half",
    "inexact",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "integer",
    "nan",
    "ndarray",
    "newaxis",
    "number",
    "object_",
    "pi",
    "signedinteger",
    "single",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsignedinteger",
]

pi = math.pi
e = math.e
euler_gamma = 0.57721566490153286060651209008240243
inf = math.inf
nan = math.nan
newaxis = None


bool_ = bool = ScalarType(DTYPES["bool"])
int8 = ScalarType(DTYPES["int8"])
int16 = ScalarType(DTYPES["int16"])
int32 = ScalarType(DTYPES["int32"])
int64 = ScalarType(DTYPES["int64"])
uint8 = ScalarType(DTYPES["uint8"])
uint16 = ScalarType(DTYPES["uint16"])
uint32 = ScalarType(DTYPES["uint32"])
uint64 = ScalarType(DTYPES["uint64"])
float16 = half = ScalarType(DTYPES["float16"])
bfloat16 = ScalarType(DTYPES["bfloat16"])
float32 = single = ScalarType(DTYPES["float32"])
float64 = double = ScalarType(DTYPES["float64"])
complex64 = csingle = ScalarType(DTYPES["complex64"])
complex128 = cdouble = ScalarType(DTYPES["complex128"])
float8_e4m3fn = ScalarType(DTYPES["float8_e4m3fn"])
float8_e5m2 = ScalarType(DTYPES["float8_e5m2"])
int_, uint, float_, complex_ = int32, uint32, float32, complex64
dtype = as_dtype

generic, number, inexact = np.generic, np.number, np.inexact
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
character, flexible, object_ = np.character, np.flexible, np.object_
ndarray = Array
