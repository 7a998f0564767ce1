"""Settings of a model as a file has them, checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..io.contents import refuse, shown

FIX = "get the file again from where it came, or convert the model anew"
MOST = 1 << 31


class Settings:
    """Numbers and texts of a model.

    `table` is what the file `where` has, `names` says for each of our names under which it may
    stand there, the first found counts.
    """

    def __init__(
        self, table: Mapping[str, Any], names: Mapping[str, Sequence[str]], where: str
    ) -> None:
        self._table, self._names, self._where = table, names, where

    def has(self, name: str) -> bool:
        """Whether there is such a setting."""
        return any(self._table.get(key) is not None for key in self._names[name])

    def count(self, name: str, default: int | None = None) -> int:
        """A positive whole number."""
        found = self._found(name, default)
        if type(found) is not int or not 0 < found < MOST:
            self._refuse(name, found, "a positive whole number")
        return found

    def real(self, name: str, default: float | None = None) -> float:
        """A positive number, or 0."""
        found = self._found(name, default)
        if type(found) not in (int, float) or not (math.isfinite(found) and found >= 0):
            self._refuse(name, found, "a finite number from 0 on")
        return float(found)

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        found = self._found(name, default)
        if not isinstance(found, str):
            self._refuse(name, found, "a text")
        return found

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A bool."""
        found = self._found(name, default)
        if not isinstance(found, bool):
            self._refuse(name, found, "true or false")
        return found

    def only(self, name: str, *known: Any) -> None:
        """Refuse a setting that is none of those `known`, the first if it is absent."""
        found = self._found(name, known[0])
        if type(found) not in (bool, int, float, str) or found not in known:
            texts = ", ".join(map(str, known))
            refuse(
                f"{self._where}: {self._key(name)} is {shown(str(found))}, which rlx has not",
                f"models with {texts} can be run",
            )

    def _found(self, name: str, default: Any) -> Any:
        found = self._table.get(self._key(name), default)
        found = default if found is None else found
        if found is None:
            refuse(f"{self._where} has no {self._names[name][0]}", FIX)
        return found

    def _key(self, name: str) -> str:
        keys = self._names[name]
        return next((key for key in keys if self._table.get(key) is not None), keys[0])

    def _refuse(self, name: str, found: Any, wanted: str) -> NoReturn:
        what = f"{self._where}: {self._key(name)} is {shown(repr(found))}, not {wanted}"
        refuse(what, FIX)


def flattened(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The settings of a JSON object with objects in it, by dotted names."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict) and before.count(".") < 4:
            found |= flattened(value, f"{before}{name}.")
        else:
            found[before + name] = value
    return found
