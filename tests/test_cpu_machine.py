"""LLVM text to machine code: addresses, symbols, errors, memory, threads."""

import ctypes
import gc
import os
import resource
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from machine_code import load

import rlx
from rlx.backends.cpu import backend
from rlx.backends.cpu.llvm import compiling, machine
from rlx.backends.cpu.llvm.compiling import Compiles, Units
from rlx.backends.cpu.llvm.host import host
from rlx.backends.cpu.llvm.machine import PLAIN, compile_beside
from rlx.backends.cpu.llvm.text import Module, Vector
from rlx.backends.locks import no_collection
from rlx.ir.errors import InternalError
from rlx.lower.pipeline import lower


def constant(number: int) -> str:
    return f"define i64 @number() {{\n  ret i64 {number}\n}}"


def call(library: machine.Library) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("number"))()


@pytest.mark.parametrize("tier", machine._LEVELS)
def test_functions_and_globals_have_addresses(tier):
    text = "@seven = global i64 7\ndefine internal void @hidden() {\n  ret void\n}\n" + constant(5)
    library = load(text, tier=tier)
    assert call(library) == 5
    assert ctypes.c_int64.from_address(library.address("seven")).value == 7
    assert set(library.names) == {"number", "seven"}
    with pytest.raises(KeyError):
        library.address("hidden")


def test_symbols_come_from_the_process_and_from_the_caller():
    text = (
        "declare double @cos(double)\n@given = external global i64\n"
        "define i64 @number() {\n"
        "  %one = call double @cos(double 0.0)\n  %whole = fptosi double %one to i64\n"
        "  %word = load i64, ptr @given\n  %sum = add i64 %whole, %word\n  ret i64 %sum\n}"
    )
    word = ctypes.c_int64(41)
    symbols = {"given": ctypes.addressof(word)}
    library = load(text, symbols=symbols)
    assert call(library) == 42
    again = machine.Library(library.objects, library.names, symbols)
    del library
    assert call(again) == 42


def test_assembly_shows_wide_vectors_kept_wide():
    module, vector = Module(), Vector("float32", 16)
    f = module.function("twice", [("ptr", "%x")])
    x = f.emit(f"load {vector.text}, ptr %x, align 4")
    f.do(f"store {vector.text} {f.emit(f'fadd {vector.text} {x}, {x}')}, ptr %x, align 4")
    f.do("ret void")
    assembly = machine.assembly(module.text)
    assert "twice:" in assembly
    assert ("zmm" in assembly) == (machine.host().vector_bytes == 64)


BAD = {
    "type": "define float @f(double %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}",
    "order": "define i64 @f() {\n  br label %a\na:\n  %x = add i64 1, %y\n  br label %b\nb:\n"
    "  %y = add i64 1, 1\n  ret i64 %x\n}",
}


@pytest.mark.parametrize(("name", "line"), [("type", "2: %y = fadd"), ("order", "4: %x = add")])
def test_bad_text_is_an_rlx_bug_and_shows_the_line(name, line):
    with pytest.raises(InternalError) as caught:
        load(BAD[name])
    assert "rlx bug" in str(caught.value)
    assert any(line in note for note in caught.value.notes)


def test_an_unknown_symbol_is_an_rlx_bug():
    with pytest.raises(InternalError, match="rlx bug"):
        load("declare void @no_such()\ndefine void @f() {\n  call void @no_such()\n  ret void\n}")


def test_always_inline_is_obeyed():
    text = (
        "define internal i64 @inner(i64 %x) alwaysinline {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"
        "define i64 @number() {\n  %y = call i64 @inner(i64 8)\n  ret i64 %y\n}"
    )
    assert call(load(text)) == 9
    assert "call" not in machine.assembly(text)


def test_threads_compile_at_once():
    wrong = []

    def work(seed: int) -> None:
        for i in range(20):
            if call(load(constant(100 * seed + i))) != 100 * seed + i:
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_dropped_code_is_freed():
    big = "@table = global [100000 x i64] zeroinitializer\n" + constant(1)  # 800 kB each
    objects, names = (library := load(big)).objects, library.names
    for _ in range(20):
        machine.Library(objects, names)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        assert call(machine.Library(objects, names)) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


def test_modules_compiled_beside_come_in_their_order(monkeypatch):
    monkeypatch.setattr(compiling, "host", lambda: replace(host(), cores=3))
    with Compiles() as compiles:
        for i in range(7):
            compiles.add(constant(i))
        objects = compiles.finish([constant(7), constant(8)])
    assert [call(machine.Library([code], ["number"])) for code in objects] == list(range(9))


@pytest.mark.parametrize("place", [1, 5])
def test_a_bad_module_beside_others_is_told(monkeypatch, place):
    monkeypatch.setattr(compiling, "host", lambda: replace(host(), cores=3))
    texts = [constant(i) for i in range(6)]
    texts[place] = BAD["type"]
    with Compiles() as compiles:
        for text in texts[:4]:
            compiles.add(text)
        with pytest.raises(InternalError, match="rlx bug"):
            compiles.finish(texts[4:])


def test_threads_end_and_turns_are_as_before_when_writing_fails(monkeypatch):
    monkeypatch.setattr(compiling, "host", lambda: replace(host(), cores=3))
    count, turn = threading.active_count(), sys.getswitchinterval()
    with pytest.raises(ValueError, match="writing"), Compiles() as compiles:
        compiles.add(constant(1))
        raise ValueError("writing")
    assert (threading.active_count(), sys.getswitchinterval()) == (count, turn)


def test_turns_are_as_before_after_compiles_that_overlap():
    turn = sys.getswitchinterval()
    first, second = Compiles(), Compiles()
    first.__enter__()
    second.__enter__()
    assert sys.getswitchinterval() < turn
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < turn
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == turn


@pytest.mark.parametrize("was_enabled", [True, False])
def test_no_garbage_is_looked_for_while_anybody_lowers(monkeypatch, was_enabled):
    looks = []

    def watched(*args):
        looks.append(gc.isenabled())
        return lower(*args)

    monkeypatch.setattr(backend, "lower", watched)
    if not was_enabled:
        gc.disable()
    try:
        with no_collection:
            with no_collection:
                pass
            assert not gc.isenabled()
        rlx.jit(lambda x: x + 3.25).lower(np.ones(3 + was_enabled)).compile()
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()
    assert looks == [False]


def test_modules_are_compiled_where_no_thread_can_be_started(monkeypatch):
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(compiling, "host", lambda: replace(host(), cores=3))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Compiles() as compiles:
        compiles.add(constant(1))
        objects = compiles.finish([constant(2)])
    assert [call(machine.Library([code], ["number"])) for code in objects] == [1, 2]
    compiling.compile_ahead([lambda: constant(77)])
    assert call(compiling.load_cached(constant(77))) == 77


def test_code_compiled_ahead_is_used_once(monkeypatch):
    monkeypatch.setattr(compiling, "host", lambda: replace(host(), cores=2))
    monkeypatch.setattr(compiling, "disk_cache", lambda: None)
    compiling.compile_ahead([lambda: constant(78), lambda: BAD["type"]])
    for ahead in compiling._ahead.values():
        ahead.join()
    monkeypatch.setattr(compiling.machine, "compile_beside", None)  # nothing is left to do
    assert call(compiling.load_cached(constant(78))) == 78
    monkeypatch.undo()
    with pytest.raises(InternalError, match="rlx bug"):
        compiling.load_cached(BAD["type"])


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX may be there, and does not like it
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_compiles_what_its_parent_began(monkeypatch):
    monkeypatch.setattr(compiling, "host", lambda: replace(host(), cores=2))
    monkeypatch.setattr(compiling, "disk_cache", lambda: None)
    text = "\n".join(constant(i).replace("@number", f"@n{i}") for i in range(200))
    compiling.compile_ahead([lambda: constant(79), lambda: f"{text}\n{constant(80)}"])
    child = os.fork()
    if not child:
        good = call(compiling.load_cached(f"{text}\n{constant(80)}")) == 80
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert call(compiling.load_cached(constant(79))) == 79


def loop(module: Module, name: str, attributes: str) -> None:
    """Add a function that fills eight numbers."""
    f = module.function(name, [("ptr", "%x")], attributes=attributes)
    with f.loop("0", "8") as rows:
        f.do(f"store i64 {rows.index}, ptr {f.offset('%x', 'i64', rows.index)}, align 8")
    f.do("ret void")


def test_functions_without_optimization_are_made_by_the_quickest_mode():
    module = Module()
    loop(module, "fast", "nounwind")
    loop(module, "slow", "optnone noinline nounwind")
    others, plain = Units(module, 2, lambda text: None).rest()
    assert plain.startswith(PLAIN) and "@slow" in plain and "@fast" not in plain
    assert "@fast" in others and "@slow" not in others
    (code, names), (slower, _) = compile_beside(plain), compile_beside(plain[len(PLAIN) :])
    assert names == ("slow",) and code != slower
    assert code == compile_beside(plain[len(PLAIN) :], "fast")[0]


def test_of_equal_functions_one_is_kept():
    module = Module()
    for name, attributes in (("first", "nounwind"), ("second", "nounwind"), ("third", "optnone")):
        loop(module, name, attributes)
    kept = [module.once(name) for name in ("first", "second", "third", "absent")]
    assert kept == ["first", "first", "third", "absent"]
    assert list(module.functions) == ["first", "third"]


@pytest.mark.parametrize("count, tier, held", [(1, "auto", 0), (2, "auto", 1), (2, "max", 0)])
def test_long_programs_are_compiled_without_a_search_for_addresses(monkeypatch, count, tier, held):
    asked = []
    monkeypatch.setattr(machine.llvm, "set_option", lambda name, option: asked.append(option))
    texts = [constant(i) + "\n;" + "-" * (compiling.LONG_TEXT - 100) for i in range(count)]
    with Compiles(tier) as compiles:
        for text in texts[:-1]:
            compiles.add(text)
        compiles.finish(texts[-1:])
    assert asked == ["-disable-lsr", "-disable-lsr=false"][: 2 * held]
