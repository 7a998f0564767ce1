"""LLVM: compiles IR text to machine code of this process.

The text is already explicit vector code, and no pass makes it faster (measured on 20 programs, from
sums to gathers and matrix products); nor does a higher level of code generation. Milliseconds to
compile a sum, a chain of 10 operations and a matrix product of 512 (x86 with AVX-512):

    level 0  no pass                        2.2    6.5   11.5
    level 1  gvn, instcombine               2.5    7.6   13.0
    level 2  LLVM's O2 without vectorizers  3.4   11.0   32.0
    level 3  LLVM's O3                      4.2   11.4   43.0

Nearly all of it is code generation, which hoists constants and unrolled addresses by itself.
"""

from __future__ import annotations

import collections
import ctypes
import itertools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import llvmlite
import llvmlite.binding as llvm

from rlx.backends.locks import Held, PutBack, hold_in_forks
from rlx.ir.errors import InternalError

from ....ir.record import record
from .host import host

LINKED_TOGETHER = 64  # libraries; a linker keeps some kilobytes of each until it goes itself

_serial = itertools.count()
_idle: dict[str, list[llvm.TargetMachine]] = collections.defaultdict(list)  # by tier, of threads
# of each tier the level of code generation, and that of the passes in the table above
_LEVELS = {"fast": (0, 0), "auto": (1, 0), "better": (1, 2), "max": (3, 3)}
PLAIN = "; needs no optimization\n"  # before a text of which speed does not depend
_opening = hold_in_forks(3, threading.Lock())
hold_in_forks(9, llvm.ffi.lib._lock)  # last: what Python collects anywhere may ask for it


@record
class _Engine:
    """The process-wide compiler."""

    target: llvm.TargetMachine
    triple: str
    layout: str


class _Linkers:
    """Linkers, each for some libraries: it frees its memory when all of these are freed."""

    def __init__(self) -> None:
        self._lock = hold_in_forks(4, threading.Lock())
        self._used = 0
        self._current: llvm.LLJIT | None = None

    def next(self) -> llvm.LLJIT:
        """The linker for one more library."""
        with self._lock:
            if self._current is None or self._used == LINKED_TOGETHER:
                # the linker takes the machine as its own
                self._current = llvm.create_lljit_compiler(_new_machine(), use_jit_link=True)
                self._used = 0
            self._used += 1
            return self._current


_linkers = _Linkers()


class Library:
    """Machine code of modules, in memory for the lifetime of this object.

    Symbols that the modules only declare are taken from `symbols` (name to address), else looked up
    in the process: libc, libm, pthread.
    """

    def __init__(
        self,
        objects: Sequence[bytes],
        names: Sequence[str],
        symbols: Mapping[str, int] | None = None,
    ) -> None:
        self.objects = tuple(objects)
        self.names = tuple(names)
        builder = llvm.JITLibraryBuilder().add_current_process()
        for object_code in self.objects:
            builder.add_object_img(object_code)
        for name in self.names:
            builder.export_symbol(name)
        for name, address in (symbols or {}).items():
            builder.import_symbol(name, address)
        try:
            self._linker = _linkers.next()
            self._code = builder.link(self._linker, f"rlx{next(_serial)}")
        except RuntimeError as error:
            raise _bug("the linker rejects a module", str(error), "") from None

    def address(self, name: str) -> int:
        """The address of the function or global `name`."""
        return self._code[name]


def compile_beside(text: str, tier: str = "auto") -> tuple[bytes, tuple[str, ...]]:
    """Compile a module's IR text to object code, and give the names it exports, too.

    llvmlite lets one thread at a time into LLVM, for it cannot know which contexts are shared. A
    thread that generates code with a context and a machine of its own needs no lock.
    """
    tier = "fast" if text.startswith(PLAIN) else tier
    emit = llvm.ffi.lib.LLVMPY_TargetMachineEmitToMemory._cfn
    try:
        target = _idle[tier].pop()
    except IndexError:
        target = _new_machine(_LEVELS[tier][0])
    with _module(text, _LEVELS[tier][1]) as module, llvm.ffi.OutputString() as error:
        names = tuple(_exports(module))
        code = emit(target, module, 1, error)
        if not code:
            raise RuntimeError(str(error))
    _idle[tier].append(target)
    start, size = llvm.ffi.lib.LLVMPY_GetBufferStart(code), llvm.ffi.lib.LLVMPY_GetBufferSize(code)
    try:
        return ctypes.string_at(start, size), names
    finally:
        llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(code)


def assembly(text: str) -> str:
    """The machine code of a module as text."""
    with _module(text, 0) as module:
        return _engine().target.emit_assembly(module)


def compiler() -> tuple[object, ...]:
    """The processor and compiler versions, on which machine code depends."""
    return host(), llvmlite.__version__, llvm.llvm_version_info


def _search_no_addresses() -> PutBack:
    llvm.set_option("rlx", "-disable-lsr")
    return lambda: llvm.set_option("rlx", "-disable-lsr=false")


# LLVM searches for cheaper addresses in loops (loop strength reduction), which takes a fifth of the
# time. Models run as fast without (0.97 to 1.01); a transpose or a sum by a tenth slower. It is an
# option of the process: others who compile meanwhile, as numba may, get the same.
addresses_as_written = Held(_search_no_addresses)


@cache
def _engine() -> _Engine:
    with _opening:
        target = _new_machine()
        return _Engine(target, target.triple, str(target.target_data))


def _new_machine(level: int = 1) -> llvm.TargetMachine:
    device = host()
    # LLVM prefers 256 bits on some AVX-512 processors to keep the clock up; rlx's loops are long
    # enough to earn the wide registers.
    features = device.features + (",-prefer-256-bit" if device.vector_bytes == 64 else "")
    # One library is one small stretch of memory, so constants are reached from the program
    # counter; the linker adds stubs for what lies farther away.
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=device.cpu, features=features, opt=level, reloc="pic", codemodel="small", jit=True
    )


@contextmanager
def _module(text: str, level: int) -> Iterator[llvm.ModuleRef]:
    """The verified and optimized module of `text`, and its context.

    A context of its own keeps anything from accumulating. Both are closed in order: left to the
    garbage collector, the context may go first, and LLVM crashes.
    """
    engine = _engine()
    context = llvm.create_context()
    module = None
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
        module.triple = engine.triple
        module.data_layout = engine.layout
        _optimize(module, level, "alwaysinline" in text)
        yield module
    except RuntimeError as error:
        raise _bug("LLVM rejects a module", str(error), text) from None
    finally:
        if module is not None:
            module.close()
        context.close()


def _optimize(module: llvm.ModuleRef, level: int, inlines: bool) -> None:
    if not (level or inlines):
        return
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    if level < 3:
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_interleaving = False
        tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(_engine().target, tuning)
    if level:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
    passes.run(module, builder)


def _exports(module: llvm.ModuleRef) -> list[str]:
    things = itertools.chain(module.functions, module.global_variables)
    return [
        thing.name
        for thing in things
        if not thing.is_declaration and thing.linkage == llvm.Linkage.external
    ]


def _bug(what: str, message: str, text: str) -> InternalError:
    """The error for an invalid module, with the lines that LLVM names."""
    lines = text.splitlines()
    places = [int(number) for number in re.findall(r"<string>:(\d+):", message)]
    if not places:  # a verifier's message quotes the instruction instead of its line
        quoted = {line.strip() for line in message.splitlines()}
        places = [i for i, line in enumerate(lines, 1) if line.strip() in quoted and line.strip()]
    notes = [f"{i}: {lines[i - 1].strip()}" for i in places[:3] if 0 < i <= len(lines)]
    return InternalError(
        f"rlx bug in the cpu backend: {what}: {message.strip()}",
        notes=notes,
        fix="please report it with RLX_DUMP's output of this program",
    )
