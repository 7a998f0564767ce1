"""What `import rlx` does not load is there all the same: by attribute, by `*`, in every thread."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOORS = ("rlx", "rlx.ir", "rlx.numpy", "rlx.scipy")


def run(code: str) -> str:
    """What a fresh Python prints that runs code."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def seen_by_checkers(name: str) -> set[str]:
    """What a door imports under TYPE_CHECKING: type checkers know of it."""
    tree = ast.parse(Path(importlib.import_module(name).__file__ or "").read_text("utf-8"))
    return {
        alias.asname or alias.name
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("name", DOORS)
def test_type_checkers_see_what_a_door_opens(name: str):
    code = f"import {name} as door; print(*set(dir(door)) - set(vars(door)))"
    assert seen_by_checkers(name) == set(run(code).split())


@pytest.mark.parametrize("name", DOORS)
def test_whatever_a_door_shows_is_there(name: str):
    door = importlib.import_module(name)
    for shown in dir(door):
        assert getattr(door, shown) is vars(door)[shown]
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = door.nothing


def test_a_star_brings_what_is_not_loaded():
    assert run("from rlx import *; print(nn.relu.__name__, export.__name__, jit.__name__)") == (
        "relu export jit"
    )


@pytest.mark.parametrize("name", ["rlx", "rlx.numpy"])
def test_threads_that_open_a_door_at_once_find_all_of_it(name: str):
    code = """
import sys, threading
sys.setswitchinterval(1e-6)
import rlx as door
names = [n for n in dir(door) if n not in vars(door)]
start, found, wrong = threading.Barrier(8), [set() for _ in names], []
def open_all(turn):
    start.wait()
    for i in range(len(names)):
        i = (i + turn) % len(names)
        try:
            thing = getattr(door, names[i])
            found[i].add((id(thing), len(dir(thing))))
        except BaseException as error:
            wrong.append((names[i], error))
threads = [threading.Thread(target=open_all, args=(turn,)) for turn in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(wrong, [n for n, f in zip(names, found) if len({i for i, _ in f}) != 1], len(names) > 10)
"""
    assert run(code.replace("rlx", name, 1)) == "[] [] True"


def test_lowering_and_the_tools_wait_for_their_first_use():
    code = "import sys, rlx; print(*sorted(m for m in sys.modules if m.startswith('rlx.')))"
    loaded = run(code).split()
    assert [m for m in loaded if m.startswith("rlx.lower.")] == ["rlx.lower.target"]
    late = "calibrate check_backend explain_device measure nan_check rates supports verify_function"
    assert not {f"rlx.runtime.{m}" for m in late.split()} & set(loaded)


def test_what_few_programs_use_is_loaded_neither_at_the_start_nor_at_the_end():
    few = '{"concurrent.futures", "logging", "queue", "importlib.util", "cmath", "dataclasses"}'
    last = f"lambda: print(sorted({few} & sys.modules.keys()))"  # the first to come goes last
    assert run(f"import atexit, sys; atexit.register({last}); import rlx") == "[]"


def test_rare_files_of_numpy_wait_for_their_functions():
    code = """
import sys, numpy as np, rlx
rare = "fft linalg polynomial sets grids padding statistics sorting protocols inspection".split()
print([m for m in rare if f"rlx.numpy.{m}" in sys.modules])
x = rlx.array([3.0, 1.0])
print(x.mean(), np.sort(x)[0], np.linalg.norm(x), x.__array_namespace__() is rlx.numpy)
print([m for m in rare if f"rlx.numpy.{m}" in sys.modules])
"""
    assert run(code).splitlines() == [
        "[]",
        "2.0 1.0 3.1622777 True",
        "['linalg', 'statistics', 'sorting', 'protocols', 'inspection']",
    ]


def test_a_pickle_opens_the_door_by_itself():
    made = "rlx.nn.Linear(2, 3, key=rlx.random.key(0))"
    text = run(f"import pickle, rlx; print(pickle.dumps({made}).hex())")
    code = f"import pickle, rlx; print(pickle.loads(bytes.fromhex('{text}')).weight.shape)"
    assert run(code) in ("(2, 3)", "(3, 2)")


@pytest.mark.parametrize("package", ["nn", "interop", "lower"])
def test_a_package_can_be_the_first_import(package: str):
    assert run(f"import rlx.{package}, rlx; print(rlx.{package}.__name__)") == f"rlx.{package}"


def test_rare_rooms_wait_for_their_ops():
    code = """
import sys, rlx
from pathlib import Path
from rlx.ir.graph import OPS
root = Path(rlx.__file__).parent
print([room for room in OPS.rare if room in sys.modules])
print(OPS["conv_general_dilated"].name, "rlx.ir.ops.conv" in sys.modules, OPS.get("nothing"))
from rlx.ir import ops
print(ops.sort is OPS["sort"], set(OPS) == {*OPS.keys()} == OPS.defined.keys(), len(OPS) > 180)
files = [p.relative_to(root).with_suffix("") for p in root.glob("ir/ops/**/[a-z]*.py")]
print({"rlx." + ".".join(file.parts) for file in files} - sys.modules.keys())
"""
    assert run(code).splitlines() == [
        "[]",
        "conv_general_dilated True None",
        "True True True",
        "set()",
    ]


def test_threads_that_ask_for_a_rare_op_at_once_find_its_rules():
    code = """
import sys, threading
sys.setswitchinterval(1e-6)
from rlx.ir.graph import OPS
import rlx
start, wrong = threading.Barrier(6), []
names = "qr erf digamma sort conv_general_dilated fft softmax eigh".split()
def ask(turn):
    start.wait()
    for i in range(len(names)):
        op = OPS[names[(i + turn) % len(names)]]
        wrong.extend([] if op.sample_list and not op.missing() else [op.name])
threads = [threading.Thread(target=ask, args=(turn,)) for turn in range(6)]
for each in threads: each.start()
for each in threads: each.join()
print(wrong)
"""
    assert run(code) == "[]"


def test_an_op_is_given_when_its_room_is_complete():
    code = """
import importlib, threading, time
from rlx.ir.graph import OPS
import rlx
define, half = OPS.define, threading.Event()
def slowly(op):
    define(op)
    if op.name == name:
        half.set()
        time.sleep(0.2)
OPS.define = slowly
for name, room in {"erf": "error_function", "attention_push": "attention"}.items():
    half.clear()
    loading = threading.Thread(target=importlib.import_module, args=[f"rlx.ir.ops.{room}"])
    loading.start()
    half.wait()
    op = OPS[name]
    print(name, op.missing())
    loading.join()
"""
    assert run(code).splitlines() == ["erf []", "attention_push []"]


@pytest.mark.parametrize("before", ["enable()", "disable()", "freeze()"])
def test_the_import_leaves_the_garbage_collector_as_it_was(before: str):
    state = "gc.isenabled(), gc.get_freeze_count() > 0"
    code = f"import gc; gc.{before}; before = {state}; import rlx; print(before == ({state}))"
    assert run(code).strip() == "True"
