"""OpenCL C, from version 1.2 on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .c_family import CFamily
from .dialect import LocalArray, Parameter, Signature

HEAD = "#pragma OPENCL FP_CONTRACT OFF"  # products are rounded before they are added
DOUBLES = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"
PLACES = {"group": "get_group_id", "thread": "get_local_id", "both": "get_global_id"}

TYPES = {
    "bool": "bool",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
    "float32": "float",
    "float64": "double",
}


class OpenClC(CFamily):
    """OpenCL C: vectors of halves are read and written by functions of the language."""

    name = "opencl"
    types = TYPES
    inline = "static inline"

    def special(self, dtype: np.dtype, name: str) -> str:
        """The float `inf`, `-inf` or `nan`."""
        cast = "(double)" if dtype.itemsize == 8 else ""
        return f"({cast}{ {'inf': 'INFINITY', '-inf': '-INFINITY', 'nan': 'NAN'}[name] })"

    def counted(self, name: str, dtype: np.dtype) -> str | None:
        """`popcount` and `clz` are there for all integers."""
        if name == "popcount":
            kind = self.types[f"uint{8 * dtype.itemsize}"]
            return f"({self.type(dtype)})popcount(({kind}){{0}})"
        return f"({self.type(dtype)})clz({{0}})" if name == "clz" else None

    def same_bits(self, dtype: np.dtype, result: np.dtype) -> str:
        """A function named after the type."""
        return f"as_{self.type(result)}({{0}})"

    def place(self, what: str, axis: int) -> str:
        """Where a thread is along an axis."""
        return f"(int){PLACES[what]}({axis})"

    def barrier(self) -> str:
        """The line where a group waits."""
        return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    has_vectors = True

    def vector(self, dtype: np.dtype, lanes: int) -> str:
        """The type of a vector of 2, 4, 8 or 16."""
        return f"{self.type(dtype)}{lanes}"

    def spread(self, dtype: np.dtype, lanes: int, number: str) -> str:
        """A number in all lanes of a vector."""
        return f"({self.vector(dtype, lanes)})({number})"

    def vector_load(self, array: str, place: str, lanes: int) -> str:
        """A vector from a shared array."""
        return f"vload{lanes}(0, &{array}[{place}])"

    def vector_store(self, array: str, place: str, lanes: int, value: str) -> str:
        """The line that puts a vector into a shared array."""
        return f"vstore{lanes}({value}, 0, &{array}[{place}]);"

    def vector_sum(self, dtype: np.dtype, x: str, y: str, total: str) -> str:
        """total + x * y in each lane.

        `fma` is slow where it is not one instruction, but of `mad` a compiler makes what it likes.
        """
        if dtype.kind != "f":
            return f"{x} * {y} + {total}"
        return f"{'fma' if self.limits.batch_invariant else 'mad'}({x}, {y}, {total})"

    def head(self, name: str, signature: Signature) -> str:
        """The kernel's words; its group has a fixed size."""
        x, y, z = signature.threads
        return f"__kernel __attribute__((reqd_work_group_size({x}, {y}, {z})))\nvoid {name}"

    def pointer(self, parameter: Parameter) -> str:
        """The parameter of an array."""
        const = "" if parameter.is_written else "const "
        return f"__global {const}{self.stored(parameter.dtype)} *{parameter.name}"

    def shared(self, array: LocalArray) -> str:
        """The line that declares an array of a group."""
        return f"__local {self.type(array.dtype)} {array.name}[{array.count}];"

    def module(self, functions: Sequence[str], kernels: Sequence[str]) -> str:
        """The text of a program."""
        text = super().module(functions, kernels)
        has_doubles = "double" in text
        return "\n".join([HEAD, *([DOUBLES] if has_doubles else []), "", text])
