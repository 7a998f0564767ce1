"""Public callables say what they take, give and refuse: `help` and editors show nothing else.

A parameter is named in the docstring, between backticks; or in that of the class of a method; or,
if it means the same everywhere in a package (`axis`, `dtype`), in the docstring of the package. So
are the errors a function raises itself.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from types import ModuleType

import rlx
from tests.public_names import is_namespace, is_worded_elsewhere, module_of, public_values

SAME = re.compile(r"Same as `rlx\.numpy\.(\w+)\(")  # a method of arrays; its manual is that one
RESULT = re.compile(r"→|\b(returns?|gives?|yields?|results?)\b", re.IGNORECASE)
# First words of what is done; any other first line says what comes out: "The mean over axes."
VERBS = set(
    "add append apply assign batch bind broadcast call change check clip combine compile convert "
    "copy decompose declare derive describe divide evaluate export find flatten forget insert "
    "interpolate join keep limit load make measure merge minimize move name open pack pad permute "
    "print put quantize read reduce register remove repeat replace require reverse rotate round "
    "run save scale send set shift solve sort split stack store swap take transpose trim turn "
    "unpack vectorize wait wrap write".split()
)
KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def callables() -> dict[str, object]:
    """What users call, by its public name: functions, classes and their methods."""
    return {
        place: value
        for place, value in public_values()
        if callable(value)
        and not isinstance(value, ModuleType)
        and not is_namespace(value)
        and not is_worded_elsewhere(value)
    }


CALLABLES = callables()


@cache
def manual(place: str) -> str:
    """The docstring, after those of the packages, and of the class of a method."""
    texts = []
    parts = place.split(".")
    for i in range(2, len(parts)):
        around = CALLABLES.get(".".join(parts[:i])) or _package(".".join(parts[:i]))
        texts.append(inspect.getdoc(around) or "")
    return "\n".join([*texts, docstring(place)])


def _package(name: str) -> object:
    try:
        return module_of(name)
    except AttributeError:
        return None


def docstring(place: str) -> str:
    """The own docstring of a callable; an error has those of its parents, too."""
    value = CALLABLES[place]
    if not inspect.isclass(value):
        return inspect.getdoc(value) or ""
    own = [base for base in value.__mro__ if base.__module__.startswith("rlx")]
    call = inspect.getdoc(vars(value).get("__call__")) or ""
    return "\n".join([*(inspect.cleandoc(base.__doc__ or "") for base in own), call])


def parameters(place: str) -> list[inspect.Parameter]:
    value = CALLABLES[place]
    signature = inspect.signature(value)  # type: ignore[arg-type]
    found = list(signature.parameters.values())
    return [p for p in found if p.name not in ("self", "cls")]


@cache
def commented(place: str) -> set[str]:
    """The fields of a dataclass or named tuple with a comment, which the line before may hold."""
    value = CALLABLES[place]
    if not inspect.isclass(value) or not (is_dataclass(value) or hasattr(value, "_fields")):
        return set()
    lines = inspect.getsource(value).splitlines()
    pairs = itertools.pairwise(lines)
    fields = [
        re.match(r" +(\w+):", line) for a, line in pairs if "#" in line or a.lstrip()[:1] == "#"
    ]
    return {field[1] for field in fields if field}


def raised(place: str) -> set[str]:
    """The errors of rlx that the code of a callable itself raises."""
    value = CALLABLES[place]
    members = [value]
    if inspect.isclass(value):
        members = [vars(value).get(name) for name in ("__init__", "__new__", "__call__")]
    return {name for member in members if member for name in _raised(inspect.unwrap(member))}  # type: ignore[arg-type]


@cache
def _raised(function: object) -> frozenset[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return frozenset()  # not Python, or a lambda in the midst of a line
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    names = [c.func.id for c in calls if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)]
    return frozenset(name for name in names if hasattr(rlx.errors, name))


def faults(place: str) -> Iterator[str]:
    text, own = manual(place), docstring(place)
    if not own:
        yield "has no docstring"
        return
    first = own.splitlines()[0]
    if not re.match(r"[A-Z`\dx]|log", first) or not first.endswith((".", ":")):
        yield "the first line is not a sentence"
    same = SAME.match(own)
    if same:
        if not hasattr(rlx.numpy, same[1]):
            yield f"rlx.numpy has no {same[1]}"
        return
    found = parameters(place)
    quoted = " ".join(re.findall(r"`[^`]*`", text))
    rows = re.findall(r"^(\w+) {2,}\S", text, re.MULTILINE)  # of a table of fields
    named = {*re.findall(r"\w+", quoted), *rows, *commented(place)}
    unnamed = [p.name for p in found if p.name not in named and p.name[0] != "_"]
    if unnamed:
        yield f"does not name {', '.join(unnamed)}"
    if found and all(p.kind in KINDS for p in found) and len(found) > 1 and unnamed:
        yield "has no signature of its own"
    unsaid = sorted(name for name in raised(place) if name not in text)
    if unsaid:
        yield f"does not say that it raises {', '.join(unsaid)}"
    if is_layer(place) and "→" not in own:
        yield "does not give the shapes, as `f32[..., n] → f32[..., m]`"
    is_done = first.split()[0].strip(",").lower() in VERBS
    if is_done and not needs_no_word(place) and not RESULT.search(own):
        yield "does not say what it returns"


def is_layer(place: str) -> bool:
    value = CALLABLES[place]
    if not inspect.isclass(value) or not issubclass(value, rlx.nn.Module):
        return False
    # the shapes of a sequence are those of its layers
    return "__call__" in dir(value) and value is not rlx.nn.Sequential


def needs_no_word(place: str) -> bool:
    """Whether it returns nothing, or what is clear: an instance, an array."""
    value = CALLABLES[place]
    returned = inspect.signature(value).return_annotation  # type: ignore[arg-type]
    return inspect.isclass(value) or returned in ("None", None, "NoReturn", "Array")


def test_public_callables_have_signatures():
    for place in CALLABLES:
        parameters(place)


def test_docstrings_name_parameters_results_and_errors():
    found = [f"{place} {fault}" for place in sorted(CALLABLES) for fault in faults(place)]
    assert not found, "\n".join(found)
