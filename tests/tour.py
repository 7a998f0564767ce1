"""The texts of docs/tour.md, which `make pages` writes: `python tests/tour.py --write`.

One function is followed from Python to machine code. Each text on the page stands after a line
`<!-- name -->` and is what the function of that name here gives. Loops and code are those for one
fixed processor, so that they are the same on every machine.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.backend import target_of
from rlx.backends.cpu.llvm.host import Host
from rlx.backends.cpu.program import ProgramWriter
from rlx.ir.graph import Graph
from rlx.ir.interpret import interpret
from rlx.ir.text import show
from rlx.lower.lir.evaluate import evaluate
from rlx.lower.pipeline import Lowered, lower

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tour.md"
BLOCK = re.compile(r"(<!-- (\w+) -->\n```\w*\n)(.*?)(```\n)", re.DOTALL)
TRIPLE = "x86_64-unknown-linux-gnu"
HASWELL = Host("haswell", "+avx,+avx2,+fma", 32, 16, 32 << 10, 256 << 10, 8 << 20, cores=2)
MADE_BY = (22,)  # the LLVM whose assembly is on the page; others may order instructions otherwise

W, X = np.full(1024, 0.5, np.float32), np.full(1024, 3.0, np.float32)


def loss(w, x):
    return rnp.sum((x * w - 1) ** 2)


def gradient() -> Graph:
    """The graph that is compiled: the loss and its gradient."""
    return rlx.make_graph(rlx.value_and_grad(loss))(W, X)


@cache
def lowered() -> Lowered:
    """All stages of it for the fixed processor."""
    return lower(gradient(), target_of(HASWELL))


def pushed(w, x, t):
    """The loss, and how fast it changes as w moves by t."""
    return rlx.jvp(lambda w: loss(w, x), (w,), (t,))


def stage(name: str) -> Callable[[], str]:
    """Give the function that shows the graph after one pass."""
    return lambda: show(lowered().graphs[name], sources=False)


@cache
def module() -> str:
    """The LLVM text of the program."""
    writer = ProgramWriter(HASWELL)
    writer.write(lowered().program)
    return writer.module.text


def assembly() -> str:
    """What LLVM makes of the text, without directives."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(
        cpu=HASWELL.cpu, features=HASWELL.features, opt=1, reloc="pic", codemodel="small", jit=True
    )
    made = llvm.parse_assembly(module())
    made.verify()
    made.triple, made.data_layout = TRIPLE, str(machine.target_data)
    lines = machine.emit_assembly(made).splitlines()
    return "\n".join(re.sub(r"\s*#.*", "", x).expandtabs(8) for x in lines if is_code(x))


def is_code(line: str) -> bool:
    """Whether a line of assembly is a label or an instruction."""
    return (
        bool(line.strip())
        and not line.strip().startswith((".file", ".section", ".text"))
        and (not re.match(r"\s+\.(?!long)", line) and not line.startswith(".Lfunc"))
    )


def meanings() -> str:
    """The loss as each level means it, and as the machine code of this processor gives it."""
    levels = {
        "Python": [loss(W, X)],
        "graph": interpret(gradient(), [W, X]),
        "lowered graph": interpret(lowered().mir, [W, X]),
        "loops": evaluate(lowered().program, [W, X]),
        "machine code": rlx.jit(rlx.value_and_grad(loss))(W, X),
    }
    return "\n".join(f"{name + ':':<14} {float(found[0])}" for name, found in levels.items())


TEXTS: dict[str, Callable[[], str]] = {
    "function": lambda: inspect.getsource(loss),
    "graph": lambda: str(rlx.make_graph(loss)(W, X)),
    "jvp": lambda: show(rlx.make_graph(pushed)(W, X, W), sources=False),
    "gradient": lambda: show(gradient(), sources=False),
    "vmap": lambda: show(
        rlx.make_graph(rlx.vmap(loss, in_axes=(None, 0)))(W, np.stack([X] * 8)), sources=False
    ),
    "deduped": stage("deduped"),
    "simplified": stage("simplified"),
    "expanded": stage("expanded"),
    "loops": lambda: str(lowered().program),
    "llvm": lambda: module()[module().index("define") :],
    "assembly": assembly,
    "meanings": meanings,
}


def made_here(name: str) -> bool:
    """Whether this LLVM writes the text that is on the page."""
    return name != "assembly" or llvm.llvm_version_info[:1] == MADE_BY


def page() -> str:
    """The page with its texts made anew."""

    def fresh(block: re.Match[str]) -> str:
        head, name, old, end = block.groups()
        return head + (TEXTS[name]().strip("\n") + "\n" if made_here(name) else old) + end

    return BLOCK.sub(fresh, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
