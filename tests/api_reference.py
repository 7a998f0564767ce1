"""The API reference of the documentation site: a page for each public module, of its docstrings.

Each name has its signature, its manual, its parameters as a list, the errors it raises and where
its source is. What a parameter means is in the manual of the function, of its class, or of the
package if it means the same everywhere there (`tests/test_docstrings.py` sees to that).
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import rlx
from rlx import errors
from tests.public_names import ROOTS, is_namespace, is_worded_elsewhere, module_of, public_values
from tests.test_docstrings import raised

ROOT = Path(__file__).parent.parent
WIDE = 88  # columns of a signature on one line
BULLET = re.compile(r"^- ((?:`[^`]+`(?:, | and )?)+):? ?(.*(?:\n  .*)*)", re.MULTILINE)
SESSION = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
QUOTED = re.compile(r"(``.*?``|`[^`]*`|^```.*?^```|^    .*$)", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"(?<=[.:])\s+(?=[A-Z`])")


@functools.cache
def homes() -> dict[str, list[tuple[str, Any]]]:
    """The names of each public module, with what they name."""
    found: dict[str, list[tuple[str, Any]]] = {}
    modules = {*ROOTS}
    for place, value in public_values():
        if isinstance(value, ModuleType):
            modules.add(place)
    for place, value in public_values():
        home = max((m for m in modules if place.startswith(f"{m}.")), key=len)
        if not isinstance(value, ModuleType):
            found.setdefault(home, []).append((place, value))
    return found


def pages() -> dict[str, str]:
    """The Markdown of each module's page by its name, and of an index."""
    made = {name: _page(name, entries) for name, entries in sorted(homes().items())}
    rows = [
        f"| [`{name}`]({name}.md) | {_first_line(module_of(name))} | {len(entries)} |"
        for name, entries in sorted(homes().items())
    ]
    head = (
        "# API reference\n\nAll public names, made from the docstrings: `help(name)` says the same."
    )
    index = "\n".join([head, "", "| module | what it has | names |", "| --- | --- | --: |", *rows])
    return {"index": index + "\n", **made}


def _first_line(value: Any) -> str:
    lines = (inspect.getdoc(value) or "").splitlines()
    return lines[0] if lines else ""


def _page(name: str, entries: list[tuple[str, Any]]) -> str:
    parts = [f"# {name}", prose(inspect.getdoc(module_of(name)) or "")]
    members = {place for place, value in entries if place.count(".") > name.count(".") + 1}
    for place, value in entries:
        if place in members and not _is_own(place):
            continue
        parts.append(entry(place, value, 3 if place in members else 2))
    return "\n\n".join(part for part in parts if part) + "\n"


def _is_own(place: str) -> bool:
    """Whether a class defines the member itself: others stand with its parent."""
    owner, _, key = place.rpartition(".")
    return key in vars(_value(owner))


@functools.cache
def _places() -> dict[str, Any]:
    return dict(public_values())


def _value(place: str) -> Any:
    return _places()[place]


@functools.cache
def _first_places() -> dict[int, str]:
    """The first place of each function and class; it has its manual there."""
    found: dict[int, str] = {}
    for place, value in sorted(_places().items(), key=lambda item: (item[0].count("."), item[0])):
        if callable(value):
            found.setdefault(id(value), place)
    return found


def entry(place: str, value: Any, level: int) -> str:
    """A heading with what stands below it."""
    short = ".".join(place.split(".")[-(level - 1) :])
    heading = f"{'#' * level} `{short}` {{ #{place} }}"
    first = _first_places().get(id(value), place)
    if first != place and level == 2:
        return f"{heading}\n\n`{place}` is [`{first}`]({_home(first)}.md#{first})."
    parts = [heading, _signature(place, value), prose(_manual(value)), _parameters(place, value)]
    parts += [_errors(place, value), _source(value)]
    return "\n\n".join(part for part in parts if part)


def _home(place: str) -> str:
    return next(home for home, entries in homes().items() if any(p == place for p, _ in entries))


# -- the parts of an entry ------------------------------------------------------------------------


def _manual(value: Any) -> str:
    if not callable(value) and not isinstance(value, property):
        value = type(value)
        return "" if value.__module__ == "builtins" else inspect.getdoc(value) or ""
    return inspect.getdoc(value) or ""


def prose(text: str) -> str:
    """A docstring as Markdown: sessions are blocks of code, signs of Markdown mean themselves."""
    text = SESSION.sub(lambda found: f"\n```pycon\n{found[0]}\n```", text)
    parts = QUOTED.split(text)
    parts[::2] = [re.sub(r"(?<=\w)([*_]+)(?=\w)|(<)", r"\\\1\2", part) for part in parts[::2]]
    return "".join(parts)


def _signature(place: str, value: Any) -> str:
    if not callable(value) or is_namespace(value):
        return ""
    if is_worded_elsewhere(value):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    given = _with_marks(signature)
    result = _annotation(signature.return_annotation)
    end = f") -> {result}" if result and not inspect.isclass(value) else ")"
    line = f"{place}({', '.join(given)}{end}"
    if len(line) > WIDE:
        line = f"{place}(\n" + "".join(f"    {each},\n" for each in given) + end
    return f"```python\n{line}\n```"


def _with_marks(signature: inspect.Signature) -> list[str]:
    """The parameters as they are written, with `/` and `*`."""
    bare = [
        p.replace(
            annotation=p.empty, default=p.empty if p.default is p.empty else _Shown(p.default)
        )
        for p in signature.parameters.values()
    ]
    text = [str(p) for p in bare]
    kinds = [p.kind for p in bare]
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        text.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    keywords = [i for i, kind in enumerate(kinds) if kind is inspect.Parameter.KEYWORD_ONLY]
    if keywords and inspect.Parameter.VAR_POSITIONAL not in kinds:
        text.insert(keywords[0] + (len(text) - len(bare)), "*")
    return text


class _Shown:
    """A default as it is written."""

    def __init__(self, value: Any) -> None:
        plain = value is None or isinstance(value, bool | int | float | str | tuple)
        self.text = repr(value) if plain else getattr(value, "__name__", type(value).__name__)

    def __repr__(self) -> str:
        return self.text


def _annotation(given: Any) -> str:
    if given is inspect.Signature.empty:
        return ""
    return given if isinstance(given, str) else inspect.formatannotation(given)


def _parameters(place: str, value: Any) -> str:
    if not callable(value) or is_namespace(value) or is_worded_elsewhere(value):
        return ""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    rows = [_parameter(place, value, p) for p in found if p.name not in ("self", "cls")]
    return "\n".join(["**Parameters**", "", *rows]) if rows else ""


def _parameter(place: str, value: Any, p: inspect.Parameter) -> str:
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    kind = _annotation(p.annotation)
    about = [f"`{kind}`"] if kind and kind != "Any" else []
    if p.default is not p.empty:
        about.append(f"default `{_Shown(p.default)!r}`")
    words = meaning(place, value, p.name)
    head = f"- `{stars}{p.name}`" + (f" ({', '.join(about)})" if about else "")
    return f"{head}: {words}" if words else head


def meaning(place: str, value: Any, name: str) -> str:
    """What is said of a parameter: in a list, a comment of its field, or in sentences."""
    for text in _texts(place, value):
        for names, words in BULLET.findall(text):
            if f"`{name}" in names or f" {name}`" in names:
                return prose(" ".join(words.split()))
        if name in (fields := _comments(value)):
            return prose(fields[name])
        body = SESSION.sub("", text).replace("\n", " ")
        said = [s for s in SENTENCE.split(body) if re.search(rf"`[^`]*\b{name}\b[^`]*`", s)]
        if said:
            return prose(" ".join(" ".join(said).split()))
    return ""


def _texts(place: str, value: Any) -> Iterator[str]:
    """The manuals that may speak of a parameter, the nearest first."""
    yield inspect.getdoc(value) or ""
    parts = place.split(".")
    for i in range(len(parts) - 1, 1, -1):
        around = ".".join(parts[:i])
        yield inspect.getdoc(_places().get(around) or module_of(around)) or ""


@functools.cache
def _comments(value: Any) -> dict[str, str]:
    """What comments say of the fields of a class."""
    if not inspect.isclass(value):
        return {}
    try:
        lines = inspect.getsource(value).splitlines()
    except (OSError, TypeError):
        return {}
    found = [re.match(r"    (\w+): [^#]*?  # (.*)", line) for line in lines]
    return {field[1]: field[2] for field in found if field}


def _errors(place: str, value: Any) -> str:
    if not callable(value) or is_worded_elsewhere(value) or is_namespace(value):
        return ""
    if inspect.isclass(value) and issubclass(value, BaseException):
        return ""
    names = {name for name in re.findall(r"`(\w+)`", _manual(value)) if _is_error(name)}
    names |= raised(place)
    links = [f"[`{name}`]({_home(f'rlx.{name}')}.md#rlx.{name})" for name in sorted(names)]
    return f"**Raises** {', '.join(links)}" if links else ""


def _is_error(name: str) -> bool:
    found = getattr(errors, name, None)
    return inspect.isclass(found) and hasattr(rlx, name)


def _source(value: Any) -> str:
    try:
        found = inspect.unwrap(value) if callable(value) else value.fget
        path = Path(inspect.getsourcefile(found) or "").relative_to(ROOT)
        code = getattr(found, "__code__", None)  # a function's line need not be searched
        line = code.co_firstlineno if code else inspect.getsourcelines(found)[1]
    except (AttributeError, OSError, TypeError, ValueError):
        return ""
    return f"<small>Source: `{path}`, line {line}</small>"
