"""The public names of rlx with their signatures, one a line.

    python -m tests.public_names --write

writes tests/public_names.txt anew; `tests/test_public_names.py` compares it with the code.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import numpy as np

from rlx.ir.errors import Absent

LIST = Path(__file__).with_suffix(".txt")
ROOTS = (
    "rlx",
    "rlx.numpy",
    "rlx.numpy.fft",
    "rlx.numpy.linalg",
    "rlx.lax",
    "rlx.lax.linalg",
    "rlx.random",
    "rlx.nn",
    "rlx.nn.functional",
    "rlx.nn.initializers",
    "rlx.nn.losses",
    "rlx.nn.masks",
    "rlx.optim",
    "rlx.optim.schedules",
    "rlx.tree",
    "rlx.errors",
    "rlx.checkpoint_policies",
    "rlx.distributed",
    "rlx.tree_util",
    "rlx.flatten_util",
    "rlx.image",
    "rlx.interop",
    "rlx.io",
    "rlx.models",
    "rlx.ops",
    "rlx.testing",
    "rlx.serve",
    "rlx.train",
    "rlx.scipy",
)
SCIPY = re.compile(
    r"rlx\.scipy\.(\w+|stats\.\w+|cluster\.vq|sparse\.linalg|spatial\.(transform|distance))"
)
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def public_names() -> list[str]:
    """Each public name as `module.name(signature)`, sorted."""
    return sorted({place + _signature(value) for place, value in public_values()})


def public_values() -> Iterator[tuple[str, object]]:
    """Each public name with what it names: modules, functions, classes, their members."""
    for root in ROOTS:
        yield from _of_module(root, module_of(root))


def module_of(name: str) -> object:
    """A module by its import, or what stands under that name in its package."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        package, _, last = name.rpartition(".")
        return getattr(importlib.import_module(package), last)


def _of_module(name: str, module: object) -> Iterator[tuple[str, object]]:
    """Names a user reaches; inside rlx.scipy those of its modules, too."""
    for key in sorted(set(getattr(module, "__all__", None) or dir(module))):
        if key.startswith("_"):
            continue
        value = getattr(module, key)
        place = f"{name}.{key}"
        if isinstance(value, ModuleType):
            is_public = value.__name__ == place and SCIPY.fullmatch(place) and _is_door(value)
            if is_public or key in getattr(module, "__all__", ()):
                yield place, value
            if is_public:
                yield from _of_module(place, value)
        elif hasattr(module, "__all__") or _is_of(module, value) or _is_numpy(name, key):
            yield from _of_value(place, value)


def _is_door(module: ModuleType) -> bool:
    """Of rlx.scipy.stats only the distributions: its other modules are inside."""
    inside = module.__name__.startswith("rlx.scipy.stats.")
    return not inside or hasattr(module, "logpdf") or hasattr(module, "logpmf")


def _is_numpy(name: str, key: str) -> bool:
    """Constants and types that rlx.numpy hands on, as pi and inexact."""
    return name == "rlx.numpy" and hasattr(np, key)


def _is_of(module: object, value: object) -> bool:
    """Without `__all__`: what rlx itself defines; a leaf module's own functions."""
    home = getattr(value, "__module__", None) or ""
    if hasattr(module, "__path__"):
        return home.startswith("rlx")
    return home == getattr(module, "__name__", "")


def _of_value(place: str, value: object) -> Iterator[tuple[str, object]]:
    yield place, value
    if inspect.isclass(value) and value.__module__.startswith("rlx"):
        for base in value.__mro__:
            if base.__module__.startswith("rlx"):
                for key, member in vars(base).items():
                    if not key.startswith("_") and not isinstance(member, Absent):
                        yield f"{place}.{key}", getattr(member, "__func__", member)


def _signature(value: object) -> str:
    """Parameter names, kinds and whether each has a default: alike in every Python."""
    if not callable(value) or is_namespace(value) or is_worded_elsewhere(value):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else _Default(p))
        for p in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters))


def is_worded_elsewhere(value: object) -> bool:
    """Whether arguments are Python's or NumPy's, whose versions word them differently."""
    if not inspect.isclass(value):
        return not str(getattr(value, "__module__", "")).startswith("rlx")
    maker = next(base for base in value.__mro__ if vars(base).keys() & {"__init__", "__new__"})
    return issubclass(value, Enum) or not maker.__module__.startswith("rlx")


def is_namespace(value: object) -> bool:
    """Whether it is a class of functions alone, which nobody calls: a distribution."""
    members = [m for k, m in vars(value).items() if k[0] != "_"] if inspect.isclass(value) else []
    return bool(members) and all(isinstance(member, staticmethod) for member in members)


class _Default:
    """A default as it is written: no address, functions and classes by their name."""

    def __init__(self, parameter: inspect.Parameter) -> None:
        value = parameter.default
        plain = value is None or isinstance(value, bool | int | float | str | tuple)
        shown = repr(value) if plain else getattr(value, "__name__", type(value).__name__)
        self.shown = ADDRESS.sub("", shown)

    def __repr__(self) -> str:
        return self.shown


if __name__ == "__main__":
    lines = public_names()
    if "--write" in sys.argv:
        LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} public names")
