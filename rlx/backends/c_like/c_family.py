"""What OpenCL C and CUDA C have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from .dialect import Dialect, LocalArray, Parameter, Signature

SAME_NAME = (
    "sqrt rsqrt floor ceil trunc exp exp2 expm1 log log1p sin cos tan asin acos atan sinh cosh tanh"
    " asinh acosh atanh erf erfc cbrt"
)
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
BITS = {"and": "&", "or": "|", "xor": "^"}
WHOLE = {
    "not": "(~{0})",
    "plain_div": "({0} / {1})",
    "plain_rem": "({0} % {1})",
    "plain_shl": "({0} << {1})",
    "plain_shr": "({0} >> {1})",
}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
COMPARISONS = {name: f"({{0}} {sign} {{1}})" for name, sign in COMPARE.items()}
FLOATS = {
    **COMPARISONS,
    **{name: f"({{0}} {sign} {{1}})" for name, sign in ARITHMETIC.items()},
    **{name: f"{name}({{0}})" for name in SAME_NAME.split()},
    "div": "({0} / {1})",
    "neg": "(-{0})",
    "abs": "fabs({0})",
    "rem": "fmod({0}, {1})",
    "round": "rint({0})",
    "pow": "pow({0}, {1})",
    "atan2": "atan2({0}, {1})",
    "fma": "fma({0}, {1}, {2})",
}
BOOLS = {
    "add": "({0} || {1})",
    "mul": "({0} && {1})",
    "and": "({0} && {1})",
    "or": "({0} || {1})",
    "xor": "({0} != {1})",
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "not": "(!{0})",
}


class CFamily(Dialect):
    """Kernels in a language of C's family: pointers, casts, C's operators."""

    types: Mapping[str, str]  # of registers, by the names of dtypes
    long_suffix = "L"  # of integers of 64 bits

    # -- words -----------------------------------------------------------------------------------

    def type(self, dtype: np.dtype) -> str:
        """The type of a variable."""
        return self.types[dtype.name]

    def stored(self, dtype: np.dtype) -> str:
        """The type of an array's elements: halves are their bits, bool is a byte."""
        name = {"float16": "uint16", "bfloat16": "uint16", "bool": "uint8"}.get(dtype.name)
        return self.types[name or dtype.name]

    def literal(self, dtype: np.dtype, number: object) -> str:
        """A number of a register's dtype."""
        if dtype.kind == "b":
            return "true" if number else "false"
        if dtype.kind in "iu":
            return self._whole(dtype, int(number))  # type: ignore[call-overload]
        # through the dtype for its shortest digits, which its compiler reads as the same number
        value = np.asarray(number).astype(dtype)[()]
        if not np.isfinite(value):
            return self.special(dtype, "nan" if value != value else str(float(value)))
        text = repr(value.item()) if dtype.itemsize == 8 else str(value)
        text = text if "." in text or "e" in text else f"{text}.0"
        text = text if dtype.itemsize == 8 else f"{text}f"
        return f"({text})" if text.startswith("-") else text

    def _whole(self, dtype: np.dtype, number: int) -> str:
        bits = 8 * dtype.itemsize
        suffix = ("u" if dtype.kind == "u" else "") + (self.long_suffix if bits == 64 else "")
        if bits < 32:
            return f"({self.type(dtype)})({number})"
        if dtype.kind == "i" and number == -(2 ** (bits - 1)):
            return f"(-{-(number + 1)}{suffix} - 1)"  # its opposite is no literal
        text = f"{abs(number)}{suffix}"
        return f"(-{text})" if number < 0 else text

    @abstractmethod
    def special(self, dtype: np.dtype, name: str) -> str:
        """The float `inf`, `-inf` or `nan`."""

    def constant(self, dtype: np.dtype, name: str, value: str) -> str:
        """The line that names a value."""
        return f"const {self.type(dtype)} {name} = {value};"

    def variable(self, dtype: np.dtype, name: str, value: str | None = None) -> str:
        """The line that declares a variable."""
        return f"{self.type(dtype)} {name}{'' if value is None else f' = {value}'};"

    def array(self, dtype: np.dtype, name: str, count: int) -> str:
        """The line that declares an array of a thread's own."""
        return f"{self.type(dtype)} {name}[{count}];"

    def loop(self, dtype: np.dtype, name: str, start: str, end: str, step: str = "1") -> str:
        """The line that opens a loop."""
        return f"for ({self.type(dtype)} {name} = {start}; {name} < {end}; {name} += {step}) {{"

    # -- instructions ----------------------------------------------------------------------------

    def template(self, name: str, dtype: np.dtype, result: np.dtype) -> str | None:
        """An instruction as an operator or a function of the language."""
        if name == "select":
            is_short = dtype.kind in "iu" and dtype.itemsize < 4  # C makes an int of them
            cast = f"({self.type(dtype)})" if is_short else ""
            return f"{cast}({{0}} ? {{1}} : {{2}})"
        if name == "cast":
            return f"({self.type(result)})({{0}})"
        if name == "bitcast":
            return self.same_bits(dtype, result)
        if dtype.kind == "f":
            return FLOATS.get(name)
        return BOOLS.get(name) if dtype.kind == "b" else self._of_integers(name, dtype)

    def _of_integers(self, name: str, dtype: np.dtype) -> str | None:
        """Of integers; signed ones wrap around only as unsigned ones."""
        kind, is_short = self.type(dtype), dtype.itemsize < 4
        wide = self.types["uint64" if dtype.itemsize == 8 else "uint32"]
        if name in ARITHMETIC:
            if dtype.kind == "u" and not is_short:
                return f"({{0}} {ARITHMETIC[name]} {{1}})"
            return f"({kind})(({wide}){{0}} {ARITHMETIC[name]} ({wide}){{1}})"
        if name in BITS:
            text = f"({{0}} {BITS[name]} {{1}})"
        elif name in COMPARISONS:
            return COMPARISONS[name]
        elif name == "neg":
            return f"({kind})(0 - ({wide}){{0}})"
        elif name in WHOLE:
            text = WHOLE[name]
        else:
            return self.counted(name, dtype)
        return f"({kind}){text}" if is_short else text

    @abstractmethod
    def counted(self, name: str, dtype: np.dtype) -> str | None:
        """`popcount` and `clz` of integers."""

    @abstractmethod
    def same_bits(self, dtype: np.dtype, result: np.dtype) -> str:
        """The bits of a number as another dtype of the same size."""

    # -- memory and wholes -----------------------------------------------------------------------

    def load(self, parameter: Parameter, place: str) -> str:
        """An element of an array."""
        text = f"{parameter.name}[{place}]"
        return f"({text} != 0)" if parameter.dtype.kind == "b" else text

    def store(self, parameter: Parameter, place: str, value: str) -> str:
        """The line that stores an element; a bool is 0 or 1."""
        return f"{parameter.name}[{place}] = {value};"

    def function(
        self,
        result: np.dtype,
        name: str,
        parameters: Sequence[tuple[str, np.dtype]],
        lines: Sequence[str],
        value: str,
    ) -> str:
        """A function of numbers."""
        given = ", ".join(f"{self.type(dtype)} {x}" for x, dtype in parameters)
        body = "".join(f"    {line}\n" for line in lines)
        head = f"{self.inline} {self.type(result)} {name}({given})"
        return f"{head} {{\n{body}    return {value};\n}}"

    inline: str  # what stands before a function

    def kernel(self, name: str, signature: Signature, lines: Sequence[str]) -> str:
        """A kernel: arrays, numbers of elements before them, its own numbers."""
        moved = [p for p in signature.parameters if p.has_offset]
        given = [self.pointer(p) for p in signature.parameters]
        given += [f"const {self.types['int64']} {p.offset_name}" for p in moved]
        given += [f"const {self.types['int32']} {number}" for number in signature.numbers]
        body = [f"{p.name} += {p.offset_name};" for p in moved]
        body = [*map(self.shared, signature.locals), *body, *lines]
        text = "".join(f"    {line}\n" for line in body)
        return f"{self.head(name, signature)}({', '.join(given)}) {{\n{text}}}"

    @abstractmethod
    def head(self, name: str, signature: Signature) -> str:
        """What stands before a kernel's parameters."""

    @abstractmethod
    def pointer(self, parameter: Parameter) -> str:
        """The parameter of an array."""

    @abstractmethod
    def shared(self, array: LocalArray) -> str:
        """The line that declares an array of a group."""
