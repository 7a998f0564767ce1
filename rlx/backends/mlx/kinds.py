"""Names of the dtypes that rows of MLX take."""

BOOL = frozenset({"bool"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = SIGNED | UNSIGNED
HALVES = frozenset({"float16", "bfloat16"})
SINGLE = frozenset({"float32"})
DOUBLE = frozenset({"float64"})
FLOATS = HALVES | SINGLE | DOUBLE
REAL = BOOL | INTEGERS | FLOATS
COMPLEX = frozenset({"complex64"})
# with what lies in memory in another form: rows that only move whole numbers take REAL and COMPLEX
STORED = REAL | COMPLEX
