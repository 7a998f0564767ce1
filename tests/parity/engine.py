"""The laws, and what a case of a table is."""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import rlx
import rlx.numpy as rnp

from .arguments import ARRAYS, batch, direction
from .compare import difference, leaves_of

LAWS = ("value", "weak", "jit", "jvp", "vjp", "second", "vmap")
WIDE = {
    "float32": "float64",
    "float16": "float64",
    "bfloat16": "float64",
    "complex64": "complex128",
}


class Check(NamedTuple):
    """One comparison: of what, under which law, and what differs (empty: nothing)."""

    case: str
    law: str
    said: str


@dataclass(frozen=True)
class Library:
    """JAX or rlx: where its functions are, and how it takes arrays."""

    root: Any
    asarray: Callable[[Any], Any]

    def namespace(self, module: str) -> dict[str, Any]:
        """The names an expression of a table may use."""
        found = self.root
        for name in filter(None, module.split(".")):
            found = getattr(found, name)
        known = {"xp": self.root.numpy, "lax": self.root.lax, "nn": self.root.nn, "np": np}
        names = {}
        if isinstance(found, ModuleType):  # `dir` and not `vars`: names may load when asked for
            names = {name: getattr(found, name) for name in dir(found)}
        return {**known, "tree": self.root.tree, "top": self.root, **names}


JAX = Library(jax, jnp.asarray)
RLX = Library(rlx, rnp.asarray)


@dataclass(frozen=True)
class Case:
    """An expression over named arrays: `clip(a, -1, b)` of module `numpy`."""

    module: str
    text: str

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The arrays it takes."""
        tree = ast.parse(self.text, mode="eval")
        bound = {x.arg for x in ast.walk(tree) if isinstance(x, ast.arg)}
        called = {
            x.func.id
            for x in ast.walk(tree)
            if isinstance(x, ast.Call) and isinstance(x.func, ast.Name)
        }
        used = [x.id for x in ast.walk(tree) if isinstance(x, ast.Name)]
        return tuple(dict.fromkeys(x for x in used if x in ARRAYS and x not in bound | called))

    @functools.cached_property
    def function(self) -> str:
        """The function it is about, as `numpy.clip`."""
        node: Any = ast.parse(self.text, mode="eval").body
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        if isinstance(node, ast.Call):
            while isinstance(node.func, ast.Call):
                node = node.func
            return f"{self.module}.{ast.unparse(node.func)}".lstrip(".")
        operator = getattr(node, "op", None) or (getattr(node, "ops", None) or [node])[0]
        return f"{self.module}.{type(operator).__name__}"

    def of(self, library: Library) -> Callable[..., Any]:
        """The expression as a function of its arrays."""
        code = compile(self.text, f"<{self.module}: {self.text}>", "eval")
        space = library.namespace(self.module)

        def function(*args: Any) -> Any:
            return eval(code, {**space, **dict(zip(self.names, args, strict=True))})

        return function


def inputs(case: Case) -> list[np.ndarray]:
    """The arrays it takes."""
    return [ARRAYS[name] for name in case.names]


def check(case: Case, laws: tuple[str, ...] = LAWS) -> Iterator[Check]:
    """Compare the two libraries under each law that JAX can state."""
    for law in laws:
        for name, run, moved in LAW[law](case, inputs(case)):
            wanted = attempt(run, JAX, moved)
            if isinstance(wanted, Exception) and law == "value":
                yield Check(case.text, law, f"JAX: {type(wanted).__name__}: {wanted}")
                return
            if not isinstance(wanted, (Exception, Impossible)):
                yield Check(case.text, name, said(run, moved, wanted))


def check_recorded(
    case: Case, laws: tuple[str, ...], answers: dict[str, list[Any] | None]
) -> Iterator[Check]:
    """Compare rlx with what JAX once said."""
    for law in laws:
        for name, run, moved in LAW[law](case, inputs(case)):
            wanted = answers.get(f"{case.module}: {case.text} [{name}]")
            if wanted is not None:
                yield Check(
                    case.text, name, said(lambda *a, f=run: leaves_of(f(*a)), moved, wanted)
                )


def said(run: Callable[..., Any], moved: list[np.ndarray], wanted: Any) -> str:
    """What differs from the wanted result; empty if nothing does."""
    found = attempt(run, RLX, moved)
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {found}"[:600]
    return difference(found, wanted, functools.cache(lambda: leaves_of(_in_double(run, moved))))


class Impossible:
    """What a law gives that says nothing about a case."""


def attempt(run: Callable[..., Any], library: Library, arrays: list[np.ndarray]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run(library, *arrays)
        except Exception as error:  # JAX's says that the law does not apply, rlx's is reported
            return error


def _in_double(run: Callable[..., Any], arrays: list[np.ndarray]) -> Any:
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(JAX, *[x.astype(WIDE.get(x.dtype.name, x.dtype)) for x in arrays])


# -- the laws: each gives (name, function of a library and arrays, the arrays) --------------------

Law = Iterator[tuple[str, Callable[..., Any], list[np.ndarray]]]


def _value(case: Case, arrays: list[np.ndarray]) -> Law:
    yield "value", lambda lib, *xs: case.of(lib)(*map(lib.asarray, xs)), arrays


def _weak(case: Case, arrays: list[np.ndarray]) -> Law:
    """The dtypes after each result has met a small array: weak ones give in."""

    def run(library: Library, *xs: np.ndarray) -> Any:
        found = leaves_of(case.of(library)(*map(library.asarray, xs)))
        return [met for x in found if (met := _met(x, library)) is not None]

    yield "weak", run, arrays


def _met(x: Any, library: Library) -> Any:
    small = {"f": np.float16, "i": np.int8, "u": np.uint8}
    kind = x.dtype.kind if isinstance(x, (jax.Array, rlx.Array)) else ""
    return (
        np.dtype((x + library.asarray(np.ones((), small[kind]))).dtype) if kind in small else None
    )


def _jit(case: Case, arrays: list[np.ndarray]) -> Law:
    def run(library: Library, *xs: np.ndarray) -> Any:
        if not all(hasattr(x, "dtype") for x in leaves_of(case.of(library)(*xs))):
            return Impossible()
        if library is JAX:
            jax.eval_shape(case.of(JAX), *map(jnp.asarray, xs))  # raises if it cannot be traced
            return case.of(JAX)(*map(jnp.asarray, xs))
        return rlx.jit(case.of(RLX))(*map(rnp.asarray, xs))

    if case.names:
        yield "jit", run, arrays


def _split(case: Case, library: Library, xs: tuple[np.ndarray, ...]) -> Any:
    """The expression as a function of its inexact arrays, and these."""
    moving = [i for i, x in enumerate(xs) if x.dtype.kind in "fcV"]
    given = [library.asarray(x) for x in xs]

    def function(*inexact: Any) -> Any:
        full = list(given)
        for i, x in zip(moving, inexact, strict=True):
            full[i] = x
        leaves = leaves_of(case.of(library)(*full))
        return [x for x in leaves if rnp.dtype(x.dtype).kind in "fcV"]

    return function, [given[i] for i in moving], [xs[i] for i in moving]


def _is_smooth(arrays: list[np.ndarray]) -> bool:
    return any(x.dtype.kind in "fcV" for x in arrays)


def _jvp(case: Case, arrays: list[np.ndarray]) -> Law:
    def run(library: Library, *xs: np.ndarray) -> Any:
        function, given, raw = _split(case, library, xs)
        tangents = [library.asarray(direction(f"{i}", x)) for i, x in enumerate(raw)]
        _, out = library.root.jvp(function, tuple(given), tuple(tangents))
        return out or Impossible()

    if _is_smooth(arrays):
        yield "jvp", run, arrays


def _pulled(case: Case, library: Library, xs: tuple[np.ndarray, ...]) -> Any:
    """The gradient of the result against fixed cotangents, as a function; the arrays."""
    function, given, raw = _split(case, library, xs)

    def gradient(*inexact: Any) -> Any:
        out, pull = library.root.vjp(function, *inexact)
        cts = [
            library.asarray(direction(f"ct{i}", np.empty(y.shape, y.dtype)))
            for i, y in enumerate(out)
        ]
        return list(pull(cts))

    is_empty = not leaves_of(function(*given))
    return gradient, given, raw, is_empty


def _vjp(case: Case, arrays: list[np.ndarray]) -> Law:
    def run(library: Library, *xs: np.ndarray) -> Any:
        gradient, given, _, is_empty = _pulled(case, library, xs)
        return Impossible() if is_empty else gradient(*given)

    if _is_smooth(arrays):
        yield "vjp", run, arrays


def _second(case: Case, arrays: list[np.ndarray]) -> Law:
    def run(library: Library, *xs: np.ndarray) -> Any:
        gradient, given, raw, is_empty = _pulled(case, library, xs)
        tangents = [library.asarray(direction(f"{i}", x)) for i, x in enumerate(raw)]
        if is_empty:
            return Impossible()
        return library.root.jvp(gradient, tuple(given), tuple(tangents))[1]

    if _is_smooth(arrays):
        yield "second", run, arrays


def _vmap(case: Case, arrays: list[np.ndarray]) -> Law:
    for at, name in enumerate(case.names):
        moved = list(arrays)
        moved[at] = batch(arrays[at], name)
        axes = tuple(0 if i == at else None for i in range(len(arrays)))

        def run(library: Library, *xs: np.ndarray, axes: Any = axes) -> Any:
            def function(*args: Any) -> Any:
                return leaves_of(case.of(library)(*args))

            return library.root.vmap(function, in_axes=axes)(*map(library.asarray, xs))

        yield f"vmap {name}", run, moved


LAW: dict[str, Callable[[Case, list[np.ndarray]], Law]] = {
    "value": _value,
    "weak": _weak,
    "jit": _jit,
    "jvp": _jvp,
    "vjp": _vjp,
    "second": _second,
    "vmap": _vmap,
}
