"""Functions that print as the calls that made them: `cosine(1.0, 100)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast, final

MOST = 40  # letters of an argument
Parameters = ParamSpec("Parameters")
Made = TypeVar("Made", bound=Callable[..., Any])


@final
class _Described:
    """A function, and the call that made it."""

    __slots__ = ("_args", "_function", "_keywords", "_name")

    def __init__(
        self, function: Callable[..., Any], name: str, args: Any, keywords: dict[str, Any]
    ) -> None:
        self._function, self._name, self._args, self._keywords = function, name, args, keywords

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._function(*args, **keywords)

    def __repr__(self) -> str:
        named = (f"{name}={_shown(x)}" for name, x in self._keywords.items())
        return f"{self._name}({', '.join([*map(_shown, self._args), *named])})"


def described(make: Callable[Parameters, Made]) -> Callable[Parameters, Made]:
    """Have the functions that `make` gives print as the calls of it.

    >>> described(lambda n: lambda x: x * n)(3)
    <lambda>(3)
    """

    @functools.wraps(make)
    def called(*args: Parameters.args, **keywords: Parameters.kwargs) -> Made:
        made = make(*args, **keywords)
        # which takes and gives what the function does
        return cast("Made", _Described(made, make.__name__, args, keywords))

    return called


def _shown(x: Any) -> str:
    name = getattr(x, "__name__", None)
    text = " ".join(repr(x).split()) if name is None or isinstance(x, _Described) else name
    return text if len(text) <= MOST else f"{text[: MOST - 3]}..."
