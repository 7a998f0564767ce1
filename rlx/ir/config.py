"""Settings: environment variables and the one object that holds them.

RLX_DEBUG   0..6   how much is printed: 1 compiles and cache hits, 2 timings and memory, 3 HIR,
                   4 the graph after each pass, 5 LIR, 6 generated source
RLX_DUMP    dir    write each stage of a compile there
RLX_CHECK   0, 1   verify the graph after every pass
RLX_DEVICE  name   the device used if none is named
RLX_KEY_REUSE 0, 1 make it an error to use a key of random numbers twice
RLX_DEBUG_NANS 0, 1   look for the operation that makes a NaN, in compiled code too
RLX_DEBUG_INFS 0, 1   the same for infinities
RLX_DISABLE_JIT 0, 1  run jitted functions line by line
RLX_CHECKS  0, 1   check that indices lie within their axes: nowhere, or in compiled code, too; if
                   it is not set, outside of compiled functions only
RLX_GUARDS  0, 1   run compiled code of the `cpu` device on copies of its arrays between pages that
                   must not be touched, with NaN in temporaries
RLX_TRACEBACK filtered, full   whether tracebacks leave out the frames of rlx
RLX_UNROLL_LIMIT n    how often a line is recorded by a Python loop without a notice; 0 is always
RLX_CACHE_BYTES  n    how much compiled code is kept by one cache
RLX_CACHE   dir, 0, 1   where compiled code is kept for other processes; 0, off or none is nowhere,
                   1 or on (as if it is not set) the user's directory for caches
RLX_CACHE_DISK_BYTES n   how much is kept there
RLX_PRECISION  name   the precision policy of what is compiled, if none is given there
RLX_TUNE    0, 1   whether `jit(tier="max")` measures ways to compute products
RLX_SWAP    0, 1   whether programs that have run long get better machine code while they run
RLX_PROFILE 0, 1   whether programs are compiled with timers, which `rlx.profile` reads

RLX_NUM_THREADS, the threads of the `cpu` device, and RLX_API_KEYS, the keys of `rlx serve`, belong
to the process and not to these.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import ArgumentError, ConfigError
from .policy import AS_WRITTEN, Policy, policy_of
from .record import fields, record, replace

if TYPE_CHECKING:
    from pathlib import Path

DEBUG_LEVELS = ("0", "1", "2", "3", "4", "5", "6")
SWITCH = ("0", "1")
NOWHERE, USUAL = ("0", "off", "none"), ("1", "on")  # what is no name of a directory for the cache
SWITCHES = (
    "check",
    "key_reuse",
    "debug_nans",
    "debug_infs",
    "guards",
    "disable_jit",
    "tune",
    "swap",
    "profile",
)
TRACEBACKS = ("filtered", "full")
THREADS = "RLX_NUM_THREADS"  # read once, by the backend that starts threads
KEYS = "RLX_API_KEYS"  # those of a server: `rlx serve` reads them
MOST_THREADS = 1024  # a slip of the keyboard would start as many as the system lets it
IMPORTED = time.time()  # about when the files of rlx were read


@record
class Settings:
    """One value for each setting."""

    debug: int = 0
    dump: Path | None = None
    check: bool = False
    device: str | None = None
    key_reuse: bool = False
    debug_nans: bool = False
    debug_infs: bool = False
    checks: bool | None = None
    guards: bool = False
    disable_jit: bool = False
    traceback: str = "filtered"
    unroll_limit: int = 256
    cache_bytes: int = 1 << 30
    cache: Path | bool = True
    cache_disk_bytes: int = 1 << 30
    tune: bool = True
    swap: bool = True
    profile: bool = False
    precision: Policy = AS_WRITTEN

    @property
    def compiled_in(self) -> tuple[object, ...]:
        """Settings that change compiled code, which is compiled again for others."""
        switches = self.debug_nans, self.debug_infs, self.checks is True, self.guards, self.tune
        return *switches, self.profile, self.precision

    @property
    def recorded_in(self) -> tuple[object, ...]:
        """Settings that change what is recorded or compiled."""
        return *self.compiled_in, self.checks, self.unroll_limit


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the `RLX_...` variables; an unknown one, or a wrong value, is an error."""
    known = {f"RLX_{name.upper()}": name for name in fields(Settings)}
    names = [*known, THREADS, KEYS]
    for name in environment:
        if name.startswith("RLX_") and name not in names:
            import difflib

            near = difflib.get_close_matches(name, names, 1)
            raise ConfigError(
                f"there is no setting {name}",
                fix=(f"did you mean {near[0]}? " if near else "")
                + f"The settings are {', '.join(names)}",
            )
    threads_asked(environment)
    given = {known[n]: text.strip() for n, text in environment.items() if n in known}
    return settings_of({name: text for name, text in given.items() if text})


def threads_asked(environment: Mapping[str, str]) -> int:
    """The checked value of RLX_NUM_THREADS; 0 if it is not set."""
    text = environment.get(THREADS, "").strip()
    if not text:
        return 0
    # int() of thousands of digits raises
    if not (text.isdecimal() and len(text) < 10 and 0 < int(text) <= MOST_THREADS):
        raise ConfigError(
            f"{THREADS} is {text!r}", fix=f"set it to a whole number from 1 to {MOST_THREADS}"
        )
    return int(text)


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
        case _ if name in SWITCHES:
            return _one_of(name, text, SWITCH) == "1"
        case "checks":
            return None if text is None else _one_of(name, text, SWITCH) == "1"
        case "traceback":
            return _one_of(name, text, TRACEBACKS)
        case "unroll_limit" | "cache_bytes" | "cache_disk_bytes":
            return _count(name, text)
        case "precision":
            return _policy(text)
        case "dump":
            return None if text is None else _path(str(text))
        case "cache":
            word = "0" if text is None else str(text).lower()
            if word in (*NOWHERE, *USUAL):
                return word in USUAL
            return _path(os.path.expanduser(str(text))).absolute()
        case "device":
            return None if text is None else str(text)
    valid = fields(Settings)
    raise ConfigError(f"there is no setting {name!r}", fix=f"use one of {', '.join(valid)}")


def _one_of(name: str, text: object, valid: tuple[str, ...]) -> str:
    if text not in valid:
        raise ConfigError(
            f"RLX_{name.upper()} is {text!r}", fix=f"set it to one of {', '.join(valid)}"
        )
    return str(text)


def _path(text: str) -> Path:
    from pathlib import Path  # with the parser of addresses

    return Path(text)


def _policy(given: Any) -> Policy:
    try:
        return policy_of(AS_WRITTEN if given is None else given)
    except ArgumentError as error:
        raise ConfigError(f"RLX_PRECISION: {error.what}", fix=error.fix) from None


def _count(name: str, text: object) -> int:
    if not (isinstance(text, str) and text.isdecimal()):
        raise ConfigError(f"RLX_{name.upper()} is {text!r}", fix="set it to a whole number")
    return int(text)


T = TypeVar("T")
Watcher = Callable[[Settings, Settings], None]


class Setting(Generic[T]):
    """One setting of `Config`: an attribute that is checked when it is set."""

    def __init__(self, meaning: str) -> None:
        self.__doc__ = meaning

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, config: Config, owner: type) -> T:
        return self if config is None else getattr(config.settings, self.name)

    def __set__(self, config: Config, value: T) -> None:
        config.update(**{self.name: value})


class Config:
    """The settings in use, as `config.debug`.

    They change with `config.debug = 3`, `config.update(debug=3)` or `with config.using(...):`.
    """

    debug = Setting[int]("How much is printed, 0 to 6.")
    dump = Setting["Path | None"]("The directory that each stage of a compile is written to.")
    check = Setting[bool]("Whether graphs are verified after every pass.")
    device = Setting["str | None"]("The name of the device used if none is named.")
    key_reuse = Setting[bool]("Whether it is an error to use a key of random numbers twice.")
    debug_nans = Setting[bool]("Whether an operation that makes a NaN is an error.")
    debug_infs = Setting[bool]("Whether an operation that makes an infinity is an error.")
    checks = Setting["bool | None"](
        "Whether indices must lie within their axes; None: outside of compiled functions only."
    )
    guards = Setting[bool]("Whether compiled code runs on copies between forbidden pages.")
    disable_jit = Setting[bool]("Whether jitted functions run line by line.")
    traceback = Setting[str]("`filtered` hides the frames of rlx in tracebacks, `full` does not.")
    unroll_limit = Setting[int]("How often a loop may record a line without a notice; 0: always.")
    cache_bytes = Setting[int]("How many bytes of compiled programs one cache keeps.")
    cache = Setting["Path | bool"]("Where compiled code is kept for other processes.")
    cache_disk_bytes = Setting[int]("How many bytes are kept there.")
    tune = Setting[bool]('Whether `tier="max"` measures ways to compute products.')
    swap = Setting[bool]("Whether programs that have run long get better machine code.")
    profile = Setting[bool]("Whether programs are compiled with timers, for `rlx.profile`.")
    precision = Setting[Policy]("The precision policy of what is compiled.")

    def __init__(self, settings: Settings, environment: Mapping[str, str] | None = None) -> None:
        self._settings = self._first = settings
        self._environment = {n: t for n, t in (environment or {}).items() if t.strip()}
        self._watchers: list[Watcher] = []
        self._tellers: list[Callable[[], Mapping[str, str]]] = []

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not isinstance(vars(Config).get(name), Setting):
            _read(name, value)  # which lists the names there are
        object.__setattr__(self, name, value)

    @property
    def settings(self) -> Settings:
        """All settings at once."""
        return self._settings

    @property
    def identity_parts(self) -> tuple[str, ...]:
        """What tracing a function that names this object depends on."""
        return (str(self._settings),)

    def update(self, **given: object) -> None:
        """Change settings from now on."""
        values = {name: getattr(self._settings, name) for name in fields(Settings)}
        self._change(settings_of({**values, **given}))

    @contextmanager
    def using(self, **given: object) -> Iterator[Config]:
        """Change settings for a block."""
        before = self._settings
        self.update(**given)
        try:
            yield self
        finally:
            self._change(before)

    def show(self) -> None:
        """Print all settings with their origins, and the compiler, processor and BLAS.

        A setting is its `default`, or comes from the `environment` or the `program`. Below stand
        the compiler, the processor, the threads, and the BLAS and LAPACK that NumPy and SciPy call.

        >>> config.show()
        debug             0 ...
        """
        print("\n".join(self._lines()))

    def _lines(self) -> Iterator[str]:
        rows = [(name, getattr(self._settings, name)) for name in fields(Settings)]
        texts = [str(getattr(value, "text", value)) for _, value in rows]
        wide = max(map(len, texts))
        for (name, value), text in zip(rows, texts, strict=True):
            yield f"{name:17} {text:{wide}}  {self._origin(name, value)}"
        for teller in self._tellers:
            yield ""
            yield from (f"{name:17} {text}" for name, text in teller().items())

    def _origin(self, name: str, value: object) -> str:
        """Where a setting comes from."""
        if value != getattr(self._first, name):
            return "program"
        variable = f"RLX_{name.upper()}"
        return f"environment, {variable}" if variable in self._environment else "default"

    def tell(self, teller: Callable[[], Mapping[str, str]]) -> None:
        """Let `show` print the texts by name that `teller()` gives."""
        self._tellers.append(teller)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher(before, after)` whenever settings have changed."""
        self._watchers.append(watcher)

    def _change(self, settings: Settings) -> None:
        before, self._settings = self._settings, settings
        for watcher in self._watchers:
            watcher(before, settings)

    def __repr__(self) -> str:
        return f"Config({self._settings})"


config = Config(from_environment(os.environ), dict(os.environ))
