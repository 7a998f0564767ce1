"""Settings: five environment variables and the one object that holds them.

RLX_DEBUG   0..6   how much is printed: 1 compiles and cache hits, 2 timings and memory, 3 HIR,
                   4 the graph after each pass, 5 LIR, 6 generated source
RLX_DUMP    dir    write each stage of a compile there
RLX_CHECK   0, 1   verify the graph after every pass
RLX_DEVICE  name   the device used if none is named
RLX_KEY_REUSE 0, 1 make it an error to use a key of random numbers twice

RLX_NUM_THREADS, the threads of the `cpu` device, belongs to the process and not to these.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from .errors import ConfigError

DEBUG_LEVELS = ("0", "1", "2", "3", "4", "5", "6")
SWITCH = ("0", "1")
THREADS = "RLX_NUM_THREADS"  # read once, by the backend that starts threads


@dataclass(frozen=True)
class Settings:
    """One value for each setting."""

    debug: int = 0
    dump: Path | None = None
    check: bool = False
    device: str | None = None
    key_reuse: bool = False


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the `RLX_...` variables.

    One that does not exist, or a wrong value, is an error.
    """
    known = {f"RLX_{field.name.upper()}": field.name for field in fields(Settings)}
    for name in environment:
        if name.startswith("RLX_") and name not in known and name != THREADS:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(
                f"there is no setting {name}",
                fix=(f"did you mean {near[0]}? " if near else "")
                + f"The settings are {', '.join(known)}",
            )
    threads = environment.get(THREADS, "").strip()
    if threads and not (threads.isdecimal() and int(threads) > 0):
        raise ConfigError(f"{THREADS} is {threads!r}", fix="set it to a whole number, 1 or more")
    given = {known[n]: text.strip() for n, text in environment.items() if n in known}
    return settings_of({name: text for name, text in given.items() if text})


def settings_of(given: Mapping[str, object]) -> Settings:
    """Make settings from texts or values, each checked."""
    made = Settings()
    for name, wanted in given.items():
        made = replace(made, **{name: _read(name, wanted)})
    return made


def _read(name: str, wanted: object) -> object:
    text = str(int(wanted)) if isinstance(wanted, bool | int) else wanted
    match name:
        case "debug":
            return int(_one_of(name, text, DEBUG_LEVELS))
        case "check" | "key_reuse":
            return _one_of(name, text, SWITCH) == "1"
        case "dump":
            return None if text is None else Path(str(text))
        case "device":
            return None if text is None else str(text)
    valid = [field.name for field in fields(Settings)]
    raise ConfigError(f"there is no setting {name!r}", fix=f"use one of {', '.join(valid)}")


def _one_of(name: str, text: object, valid: tuple[str, ...]) -> str:
    if text not in valid:
        raise ConfigError(
            f"RLX_{name.upper()} is {text!r}", fix=f"set it to one of {', '.join(valid)}"
        )
    return str(text)


class Config:
    """The settings in use, as `config.debug`.

    They change with `config.update(debug=3)` or `with config.using(...):`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def settings(self) -> Settings:
        """All settings at once."""
        return self._settings

    @property
    def debug(self) -> int:
        """How much is printed, 0 to 6."""
        return self._settings.debug

    @property
    def dump(self) -> Path | None:
        """The directory that each stage of a compile is written to."""
        return self._settings.dump

    @property
    def check(self) -> bool:
        """Whether graphs are verified after every pass."""
        return self._settings.check

    @property
    def device(self) -> str | None:
        """The name of the device used if none is named."""
        return self._settings.device

    @property
    def key_reuse(self) -> bool:
        """Whether it is an error to use a key of random numbers twice."""
        return self._settings.key_reuse

    def update(self, **given: object) -> None:
        """Change settings from now on."""
        values = {field.name: getattr(self._settings, field.name) for field in fields(Settings)}
        self._settings = settings_of({**values, **given})

    @contextmanager
    def using(self, **given: object) -> Iterator[Config]:
        """Change settings for a block."""
        before = self._settings
        self.update(**given)
        try:
            yield self
        finally:
            self._settings = before

    def __repr__(self) -> str:
        return f"Config({self._settings})"


config = Config(from_environment(os.environ))
