"""WGSL, the language of WebGPU's kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np

from ...ir.types import NAMES, as_dtype
from ..c_like.dialect import Dialect, Limits, LocalArray, Parameter, Signature
from . import bits_text, double_text, shared_text, single_text
from .layout import Layout
from .scalar import REGISTERS, literal, template

PLACES = {"group": "group_id", "thread": "thread_id", "both": "place_id"}
LANES = {"subgroup_id": "subgroup_id", "subgroup_invocation_id": "lane_id"}  # built in: by name
STORED = {**REGISTERS, "bool": "u32", "float16": "u32", "bfloat16": "u32"}
"""The type of an array's elements: see `layout.py`."""
FLOAT16 = frozenset([as_dtype("float16")])


class Wgsl(Dialect):
    """Kernels as compute shaders: arrays are bound by number, one entry point a text."""

    has_wide_index = False
    owns_temporaries = True

    def __init__(
        self, limits: Limits | None = None, layout: Layout | None = None, name: str = "webgpu"
    ) -> None:
        super().__init__(limits)
        self.name = name
        has_halves = layout is not None and layout.has_halves
        self.stored_halves = FLOAT16 if has_halves else frozenset()

    def stored(self, dtype: np.dtype) -> str:
        """The type of an array's elements."""
        return "f16" if dtype in self.stored_halves else STORED[NAMES[dtype]]

    # -- words -----------------------------------------------------------------------------------

    def type(self, dtype: np.dtype) -> str:
        """The type of a variable."""
        return REGISTERS[NAMES[dtype]]

    def literal(self, dtype: np.dtype, number: object) -> str:
        """A number; infinite ones and NaN come from functions."""
        return literal(dtype, number)

    def constant(self, dtype: np.dtype, name: str, value: str) -> str:
        """The line that names a value."""
        return f"let {name}: {self.type(dtype)} = {value};"

    def variable(self, dtype: np.dtype, name: str, value: str | None = None) -> str:
        """The line that declares a variable."""
        start = "" if value is None else f" = {value}"
        return f"var {name}: {self.type(dtype)}{start};"

    def array(self, dtype: np.dtype, name: str, count: int) -> str:
        """The line that declares an array of a thread's own."""
        return f"var {name}: array<{self.type(dtype)}, {count}>;"

    def loop(self, dtype: np.dtype, name: str, start: str, end: str, step: str = "1") -> str:
        """The line that opens a loop."""
        kind = self.type(dtype)
        start, step = (literal(dtype, int(x)) if x.isdigit() else x for x in (start, step))
        return f"for (var {name}: {kind} = {start}; {name} < {end}; {name} += {step}) {{"

    # -- instructions ----------------------------------------------------------------------------

    def template(self, name: str, dtype: np.dtype, result: np.dtype) -> str | None:
        """An instruction as text with `{0}`, `{1}` for its operands."""
        return template(name, dtype, result)

    def zero_factor(self, dtype: np.dtype, zero: str) -> str:
        """A 0 that compilers do not see."""
        return "hidden_zero()" if dtype.itemsize == 4 else "f64(hidden_zero())"

    # -- memory and threads ----------------------------------------------------------------------

    def load(self, parameter: Parameter, place: str) -> str:
        """An element; bool is what is not 0."""
        text = f"{parameter.name}[{_moved(parameter, place)}]"
        if parameter.dtype in self.stored_halves:
            return f"f32({text})"
        return f"({text} != 0u)" if parameter.dtype.kind == "b" else text

    def store(self, parameter: Parameter, place: str, value: str) -> str:
        """The line that writes an element; bool as 0 or 1."""
        value = f"u32({value})" if parameter.dtype.kind == "b" else value
        # what is stored is rounded already: the conversion is exact
        value = f"f16({value})" if parameter.dtype in self.stored_halves else value
        return f"{parameter.name}[{_moved(parameter, place)}] = {value};"

    def place(self, what: str, axis: int) -> str:
        """Where a thread is along an axis."""
        if what in ("subgroup", "lane"):
            return f"i32({what}_id)"
        return f"i32({PLACES[what]}.{'xyz'[axis]})"

    def barrier(self) -> str:
        """The line where a group waits."""
        return "workgroupBarrier();"  # says nothing of arrays

    def barrier_of_arrays(self) -> str:
        """The line where a group waits for what is written to arrays."""
        return "storageBarrier();"

    def passed(self, dtype: np.dtype, number: str, distance: int) -> str | None:
        """A number of another lane, of 32 bits; a bool as 0 or 1."""
        if dtype.kind == "b":
            return f"(subgroupShuffleXor(u32({number}), {distance}u) != 0u)"
        return f"subgroupShuffleXor({number}, {distance}u)" if dtype.itemsize <= 4 else None

    # -- wholes ----------------------------------------------------------------------------------

    def function(
        self,
        result: np.dtype,
        name: str,
        parameters: Sequence[tuple[str, np.dtype]],
        lines: Sequence[str],
        value: str,
    ) -> str:
        """A function of numbers."""
        given = ", ".join(f"{name}: {self.type(dtype)}" for name, dtype in parameters)
        body = "".join(f"  {line}\n" for line in lines)
        return f"fn {name}({given}) -> {self.type(result)} {{\n{body}  return {value};\n}}"

    def kernel(self, name: str, signature: Signature, lines: Sequence[str]) -> str:
        """A compute shader; numbers come in one more array, behind the others."""
        bound = [
            f"@group(0) @binding({i}) var<storage, read_write> {p.name}: "
            f"array<{self.stored(p.dtype)}>;"
            for i, p in enumerate(signature.parameters)
        ]
        numbers = [p.offset_name for p in signature.parameters if p.has_offset]
        numbers += signature.numbers
        if numbers:
            count = len(signature.parameters)
            bound.append(
                f"@group(0) @binding({count}) var<storage, read_write> numbers: array<i32>;"
            )
        named = [f"let {number} = numbers[{i}];" for i, number in enumerate(numbers)]
        if any("hidden_zero()" in line for line in lines):
            named.append("zero_bits = place_id.y >> 31u;")
        shared = [self.shared(array) for array in signature.locals]
        x, y, z = signature.threads
        body = "".join(f"  {line}\n" for line in (*named, *lines))
        lanes = LANES.items() if "lane_id" in body else ()
        return "\n".join(
            [
                *bound,
                *shared,
                "",
                f"@compute @workgroup_size({x}, {y}, {z})",
                f"fn {name}(",
                "  @builtin(workgroup_id) group_id: vec3<u32>,",
                "  @builtin(local_invocation_id) thread_id: vec3<u32>,",
                "  @builtin(global_invocation_id) place_id: vec3<u32>,",
                *(f"  @builtin({builtin}) {name}: u32," for builtin, name in lanes),
                ") {",
                f"{body}}}",
            ]
        )

    def shared(self, array: LocalArray) -> str:
        """The line that declares an array of a group."""
        return f"var<workgroup> {array.name}: array<{self.type(array.dtype)}, {array.count}>;"

    def module(self, functions: Sequence[str], kernels: Sequence[str]) -> str:
        """The text of a shader: what the language lacks first."""
        text = super().module(functions, kernels)
        head = "enable f16;" if "array<f16>" in text else ""
        return "\n\n".join(filter(None, [head, called_by(text), text]))


def _moved(parameter: Parameter, place: str) -> str:
    return f"{place} + {parameter.offset_name}" if parameter.has_offset else place


# -- functions that WGSL lacks: those that a text calls are put before it -------------------------

SHARED = bits_text.OF_FLOATS + shared_text.TEXT
PARTS = (
    bits_text.TEXT,
    shared_text.text_for(SHARED, "f32"),
    single_text.TEXT,
    shared_text.text_for(SHARED, "f64"),
    double_text.TEXT,
)
_DECLARED = re.compile(r"^(?:fn|struct|var<private>) (\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_POLYNOMIAL = re.compile(r"polynomial\(([^()]*)\)")


@cache
def declarations() -> dict[str, str]:
    """Each declaration's text by its name."""
    found: dict[str, str] = {}
    for part in PARTS:
        for block in re.split(r"\n(?=fn |struct |var<)", part):
            named = _DECLARED.match(block.strip())
            if named:
                text = re.sub(r"//[^\n]*\n", "", block).strip()
                found[named[1]] = _POLYNOMIAL.sub(_horner, text)
    return found


def _horner(polynomial: re.Match[str]) -> str:
    """A polynomial of a number, by the rule of Horner: the first factor is of the highest power."""
    x, text, *factors = (part.strip() for part in polynomial[1].split(","))
    for factor in factors:
        text = f"({text} * {x} + {factor})"
    return text


def called_by(text: str) -> str:
    """The declarations that a text needs, and those that they need."""
    known = declarations()
    needed: set[str] = set()
    left = [text]
    while left:
        words = set(_WORD.findall(left.pop())) & known.keys() - needed
        needed |= words
        left += [known[word] for word in words]
    return "\n\n".join(text for name, text in known.items() if name in needed)
