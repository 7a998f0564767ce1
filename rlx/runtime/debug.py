"""Debugging: prints of compiles, dumps, `rlx.show`, breakpoints.

    RLX_DEBUG  printed to stderr
    1          a line for each compile and each cache hit
    2          + the time of each phase, memory, what became of the ops
    3          + the graph as it was recorded (HIR)
    4          + the graph after each pass that changed it
    5          + the loops (LIR)
    6          + the generated source and assembly

RLX_DUMP=dir writes the same to files, a folder for each compile, whatever RLX_DEBUG is.
"""

from __future__ import annotations

import functools
import io
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..backends.backend import Executable
from ..ir.config import Config, config
from ..ir.errors import ConfigError
from ..ir.files import as_path
from ..ir.graph import Graph
from ..ir.tracebacks import boundary
from ..trace.callback import debug_callback, debug_print
from ..trace.make_graph import titled, trace

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM_STAGES = {"lir": 5, "llvm": 6, "assembly": 6, "hlo": 6}  # those not named here are graphs
SUFFIXES = {"llvm": "ll", "assembly": "s"}
SLOW = 2.0  # seconds of a compile after which a line says that it goes on


@final
class Debug:
    """Print what compiles do, in a block: `with rlx.debug(4): ...`.

    The `level` is one of RLX_DEBUG, 0 to 6. Other `settings` can change with it:
    `rlx.debug(1, dump="out")`. They hold for all threads. A call returns a context manager.
    `rlx.debug.print("x is {}", x)` prints numbers of a running program, `rlx.debug.callback(fn, x)`
    passes them to a function, `rlx.debug.breakpoint()` stops and asks what to look at.
    """

    def __repr__(self) -> str:
        return f"<rlx.debug at level {config.debug}>"

    print = staticmethod(debug_print)
    callback = staticmethod(debug_callback)

    def breakpoint(self, *, num_frames: int = 5) -> None:
        """Stop here when the program runs, and ask on the terminal what to look at.

        The variables of the frame are shown as NumPy arrays with the numbers of this run, from
        compiled code too, once for each member under vmap. Type `help` for the commands, `c` to go
        on, `q` to end the program by raising `bdb.BdbQuit`.
        """
        from ..trace.breakpoint import stop_here  # with the debugger of Python, which few need

        stop_here(num_frames)

    @contextmanager
    def __call__(self, level: int = 1, **settings: object) -> Iterator[Config]:
        with config.using(debug=level, **settings) as changed:
            yield changed

    @contextmanager
    def nan_check(self, *, infs: bool = False) -> Iterator[Config]:
        """Make it an error in a block if an operation gives a NaN, or an infinity.

        It does as the settings `debug_nans` and `debug_infs`: functions are compiled with checks,
        and the error names the operation and the user's line.

        >>> import rlx
        >>> with debug.nan_check():
        ...     rlx.jit(rlx.numpy.log)(rlx.array([-1.0]))
        Traceback (most recent call last):
        rlx...NanError: log gives nan at [0] of f32[1]...
        """
        with config.using(debug_nans=True, debug_infs=infs or config.debug_infs):
            yield config


debug = Debug()


def show(fn: Callable[..., Any], *, file: Any = None) -> Callable[..., None]:
    """Return a function that prints the graph of `fn` for its arguments.

    `file` is what it prints to, by default the standard output.

    >>> import numpy as np
    >>> show(lambda x: x + x)(np.ones(3, "float32"))
    graph "<lambda>"(%0: f32[3] "argument 0 of <lambda>, x") -> f32[3] {
      %1: f32[3] = add %0, %0  # ...
      return %1
    }
    """

    @boundary
    @functools.wraps(fn)
    def shown(*args: Any, **kwargs: Any) -> None:
        print(trace(fn, args, kwargs).graph, file=file)

    shown.__qualname__ = titled("show", fn)
    return shown


def tell_recorded(name: str, why: str) -> None:
    """Print why later processes will record a function again."""
    if config.debug >= 1:
        _print(f"rlx: {name} will be recorded in each process: {why}")


def tell_hit(name: str, graph: Graph, device: str) -> None:
    """Print that a compiled graph was found in the cache."""
    if config.debug >= 1:
        _print(f"{_title(name, graph)}: compiled before for {device}")


def tell_compile(
    name: str, graph: Graph, device: str, executable: Executable, seconds: float
) -> None:
    """Print what a compile did, as much as the level asks for."""
    level = config.debug
    if level < 1:
        return
    how = "read from disk" if "read" in executable.seconds else "compiled"
    _print(f"{_title(name, graph)}: {how} for {device} in {seconds * 1e3:.1f} ms")
    if level >= 2:
        phases = [f"{phase} {s * 1e3:.1f} ms" for phase, s in executable.seconds.items()]
        sizes = [f"arena {executable.arena_bytes} bytes", f"code {executable.code_bytes}"]
        _print("  " + ", ".join([*phases, *sizes]) + " bytes")
        _print("\n".join("  " + line for line in executable.report.splitlines()))
    if level >= 3:
        for stage, text in executable.stages.items():
            least = 3 if stage == "hir" else PROGRAM_STAGES.get(stage, 4)
            if level >= least:
                _print(f"-- {stage}\n{text}")


@contextmanager
def tell_slow(name: str, graph: Graph, device: str, tier: str = "auto") -> Iterator[None]:
    """Print that a compile is going on if it takes long, and when it is done.

    Somebody must be there to read it: a terminal, or who set RLX_DEBUG.
    """
    if not (config.debug >= 1 or _is_terminal()):
        yield
        return
    began, told = time.perf_counter(), threading.Event()

    def tell() -> None:
        told.set()
        how = ", and perhaps measuring" if tier == "max" else ""
        _print(f"{_title(name, graph)}: compiling for {device}{how} ...")

    timer = threading.Timer(SLOW, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if told.is_set() and config.debug < 1:
            _print(f"rlx: {name}: done after {time.perf_counter() - began:.1f} s")


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def tell_tier_up(name: str, ran: float, seconds: float, problem: str) -> None:
    """Print that a program got better machine code, or why it did not."""
    if config.debug >= 1:
        what = f"no better code: {problem}" if problem else "better code"
        _print(f"{name}: {what}, after running {ran:.3g} s, compiled in {seconds:.3g} s")


def tell_reason(name: str, reason: str) -> None:
    """Print why a function is compiled again."""
    if config.debug >= 1:
        _print(f"{name}: compiled again, {reason}")


def dump(
    name: str,
    graph: Graph,
    device: str,
    key: str,
    executable: Executable | None,
    place: str | PathLike[str] | None = None,
) -> None:
    """Write all stages to a folder of RLX_DUMP, or of another place.

    Without an executable it is the graph alone.
    """
    asked = "RLX_DUMP" if place is None else "dump_ir"
    place = config.dump if place is None else place
    if place is None:
        return
    from ..ir.text import constants  # with the parser, which few programs need

    folder = as_path(place) / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}_{device}_{key[:8]}"
    stages = executable.stages if executable else {"hir": str(graph)}
    files = {
        f"{i:02}_{stage.replace(' ', '_')}.{SUFFIXES.get(stage, 'txt')}": text.encode()
        for i, (stage, text) in enumerate(stages.items())
    }
    arrays = constants(graph)
    if arrays:  # what `rlx.ir.parse` needs besides the text of 00_hir
        files["constants.npz"] = _packed(arrays)
    if executable:
        files["report.txt"] = executable.report.encode()
    for i, object_code in enumerate(executable.objects if executable else ()):
        files[f"{len(stages):02}_object_{i}.o"] = object_code
    _write(folder, files, f"{asked} is {str(place)!r}")


def _packed(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _write(folder: Path, files: dict[str, bytes], asked: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ConfigError(
            f"{asked}, where nothing can be written: {error.strerror}",
            fix="set it to a directory that you may write to",
        ) from None


def _title(name: str, graph: Graph) -> str:
    types = ", ".join(str(p.type) for p in graph.params[:6])
    more = ", ..." if len(graph.params) > 6 else ""
    count = sum(1 for _ in graph.walk())
    # a graph that an earlier process recorded is not at hand
    ops = f"{count} ops" if count or set(graph.results) <= set(graph.params) else "not recorded"
    return f"rlx: {name}({types}{more}), {ops}"


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
