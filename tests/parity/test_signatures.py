"""The signatures of rlx against JAX's: names, order and defaults of parameters; missing names.

A parameter or name that rlx has not, and a default that differs, stands in docs/differences.md.
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import types
from collections.abc import Iterator
from inspect import Parameter
from typing import Any

import jax
import pytest

import rlx

from .differences import rows

MODULES = [
    "numpy",
    "numpy.linalg",
    "numpy.fft",
    "lax",
    "lax.linalg",
    "nn",
    "nn.initializers",
    "random",
    "tree",
    "scipy.special",
    "scipy.linalg",
    "scipy.stats",
    "scipy.signal",
    "",
]
SIMPLE = (type(None), bool, int, float, str, tuple)


def _module(root: types.ModuleType, name: str) -> Any:
    if root is jax and name:
        importlib.import_module(f"jax.{name}")
    for part in filter(None, name.split(".")):
        root = getattr(root, part)
    return root


def _public(module: str) -> list[str]:
    found = _module(jax, module)
    return [
        name
        for name in dir(found)
        if not name.startswith("_") and not inspect.ismodule(getattr(found, name, None))
    ]


def _parameters(fn: Any) -> list[Parameter] | None:
    if isinstance(fn, type | types.GenericAlias) or not callable(fn):
        return None
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None


def _differences(theirs: list[Parameter], ours: list[Parameter]) -> Iterator[str]:
    """The names of parameters that are missing, stand elsewhere, or have another default."""
    known = {p.name: p for p in ours}
    takes_all = any(p.kind is Parameter.VAR_KEYWORD for p in ours)
    places = [p.name for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for i, p in enumerate(theirs):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            continue
        if p.name not in known:
            if not takes_all:
                yield p.name
            continue
        mine = known[p.name]
        moved = p.kind is p.POSITIONAL_OR_KEYWORD and places[i : i + 1] != [p.name]
        is_simple = isinstance(p.default, SIMPLE)
        if moved or mine.kind is p.POSITIONAL_ONLY or (is_simple and mine.default != p.default):
            yield p.name


def _listed(law: str) -> list[str]:
    return [span for row in rows() if law in row.laws for span in row.where]


def _matches(name: str, spans: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, span) for span in spans)


def _found(module: str) -> Iterator[tuple[str, str]]:
    """What differs in a module: (law, place)."""
    theirs, ours = _module(jax, module), _module(rlx, module)
    for name in _public(module):
        whole = f"{module}.{name}".lstrip(".")
        if not hasattr(ours, name):
            yield "name", whole
            continue
        wanted, given = _parameters(getattr(theirs, name)), _parameters(getattr(ours, name))
        if wanted is None:
            continue
        if given is None:
            yield "signature", f"{whole}()"
            continue
        for parameter in _differences(wanted, given):
            yield "signature", f"{whole}({parameter})"


@pytest.mark.parametrize("module", MODULES)
def test_names_and_signatures(module: str):
    said = [place for law, place in _found(module) if not _matches(place, _listed(law))]
    assert not said, "\n".join(said)


@pytest.mark.parametrize("law", ["signature", "name"])
def test_what_is_listed_is_so(law: str):
    found = [place for module in MODULES for kind, place in _found(module) if kind == law]
    left = [span for span in _listed(law) if not any(fnmatch.fnmatchcase(x, span) for x in found)]
    assert not left, left
