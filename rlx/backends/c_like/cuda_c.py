"""CUDA C, as NVRTC compiles it; HIP of ROCm reads the same words."""

from __future__ import annotations

import numpy as np

from .c_family import SAME_NAME, CFamily
from .dialect import Limits, LocalArray, Parameter, Signature

TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
}
AXES = "xyz"
# no header is needed for these, as it is for INFINITY and NAN
SPECIAL = {
    ("inf", 4): "__int_as_float(0x7f800000)",
    ("-inf", 4): "__int_as_float(0xff800000)",
    ("nan", 4): "__int_as_float(0x7fc00000)",
    ("inf", 8): "__longlong_as_double(0x7ff0000000000000LL)",
    ("-inf", 8): "__longlong_as_double(0xfff0000000000000LL)",
    ("nan", 8): "__longlong_as_double(0x7ff8000000000000LL)",
}
# the bits of floats: from, to
BITS = {
    ("f", "i", 4): "__float_as_int({0})",
    ("f", "u", 4): "__float_as_uint({0})",
    ("i", "f", 4): "__int_as_float({0})",
    ("u", "f", 4): "__uint_as_float({0})",
    ("f", "i", 8): "__double_as_longlong({0})",
    ("f", "u", 8): "(unsigned long long)__double_as_longlong({0})",
    ("i", "f", 8): "__longlong_as_double({0})",
    ("u", "f", 8): "__longlong_as_double((long long){0})",
}
# a number of another lane: NVIDIA's compiler is told which lanes come by, all of them
PASSED = {"cuda": "__shfl_xor_sync(0xffffffffu, {}, {})", "rocm": "__shfl_xor({}, {})"}
NARROW = {name: f"{name}f" for name in (*SAME_NAME.split(), "fabs", "fmod", "rint", "pow", "fma")}
NARROW["atan2"] = "atan2f"


class CudaC(CFamily):
    """CUDA C; functions of float32 are called by their own names, as `expf`."""

    name = "cuda"
    types = TYPES
    inline = "static __device__ __forceinline__"
    long_suffix = "LL"
    has_offsets = False

    def __init__(self, limits: Limits | None = None, kind: str = "cuda") -> None:
        super().__init__(limits)
        self.shuffle = PASSED[kind]

    def special(self, dtype: np.dtype, name: str) -> str:
        """The float `inf`, `-inf` or `nan`."""
        return SPECIAL[name, dtype.itemsize]

    def template(self, name: str, dtype: np.dtype, result: np.dtype) -> str | None:
        """An instruction; one without an f at its end is float64's."""
        text = super().template(name, dtype, result)
        if text is None or dtype.kind != "f" or dtype.itemsize == 8 or not text[0].isalpha():
            return text
        function, _, given = text.partition("(")
        return f"{NARROW[function]}({given}"

    def counted(self, name: str, dtype: np.dtype) -> str | None:
        """Of 32 and 64 bits; shorter ones are counted in 32."""
        if name not in ("popcount", "clz"):
            return None
        bits, kind = 8 * dtype.itemsize, self.type(dtype)
        function = {"popcount": "__popc", "clz": "__clz"}[name] + ("ll" if bits == 64 else "")
        # as unsigned first, for a sign would fill the bits above
        text = f"{function}(({self.types[f'uint{bits}']}){{0}})"
        unused = 32 - bits if name == "clz" and bits < 32 else 0
        return f"({kind})({text} - {unused})" if unused else f"({kind}){text}"

    def same_bits(self, dtype: np.dtype, result: np.dtype) -> str:
        """A function of the language for floats, a cast for integers."""
        if "f" not in (dtype.kind, result.kind):
            return f"({self.type(result)}){{0}}"
        return BITS[dtype.kind, result.kind, dtype.itemsize]

    def place(self, what: str, axis: int) -> str:
        """Where a thread is along an axis."""
        if what in ("lane", "subgroup"):
            return f"((int)threadIdx.x {'%' if what == 'lane' else '/'} {self.limits.subgroup})"
        letter = AXES[axis]
        thread, group = f"threadIdx.{letter}", f"blockIdx.{letter}"
        if what == "both":
            return f"(int)({group} * blockDim.{letter} + {thread})"
        return f"(int){thread if what == 'thread' else group}"

    def barrier(self) -> str:
        """The line where a group waits."""
        return "__syncthreads();"

    def passed(self, dtype: np.dtype, number: str, distance: int) -> str | None:
        """A number of another lane; small integers are passed as int."""
        return f"({self.type(dtype)}){self.shuffle.format(number, distance)}"

    def head(self, name: str, signature: Signature) -> str:
        """The kernel's words, with the most threads that a group has."""
        x, y, z = signature.threads
        return f'extern "C" __global__ void __launch_bounds__({x * y * z})\n{name}'

    def pointer(self, parameter: Parameter) -> str:
        """The parameter of an array; another one may lie at the same place."""
        const = "" if parameter.is_written else "const "
        return f"{const}{self.stored(parameter.dtype)} *{parameter.name}"

    def shared(self, array: LocalArray) -> str:
        """The line that declares an array of a group."""
        return f"__shared__ {self.type(array.dtype)} {array.name}[{array.count}];"
