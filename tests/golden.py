"""Whether a change of the compiler's source changes what it makes: its parent's tree is asked, too.

    python tests/golden.py                 # against HEAD, for what is not committed yet
    python tests/golden.py --parent HEAD~3

compiles 60 programs with the rlx of both trees and compares every stage of each: the graph after
each pass, the loops, the LLVM text. A move or a new name changes none of them. Where one differs,
its first lines that do are printed, and the texts of both stay in out/golden.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import rlx
import rlx.numpy as rnp

ROOT = Path(__file__).parent.parent
OUT = ROOT / "out" / "golden"
PROGRAMS = 40  # random ones
CASES = (
    "chain-4M,sum0,softmax,conv,conv-gradient,lstm-gradient,"
    "encoder,encoder-gradient,train-mlp,train-gpt,kalman,neighbors"
).split(",")
SHOWN = 12  # lines of a difference


def programs() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """A name, a function and its arguments, for each program."""
    from libraries import OURS
    from programs import any_program
    from thread_digests import MODELS

    for name, (function, *arguments) in MODELS.items():
        yield name, function, tuple(arguments)
    for seed in range(PROGRAMS):
        made = any_program(seed)
        run = made.on(OURS)
        if made.kind != "derivatives":
            yield f"program {seed}", run, tuple(made.inputs)
            continue

        def total(*xs: Any, run: Any = run) -> Any:
            return sum(rnp.sum(rnp.abs(y)) for y in rlx.tree.leaves(run(*xs)))

        places = tuple(range(len(made.inputs)))
        yield f"gradient {seed}", rlx.grad(total, places), tuple(made.inputs)


def cases() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Programs of the benchmark."""
    from benchmarks.case import placed
    from benchmarks.cases import CASES as ALL
    from benchmarks.libraries import opened

    ours = opened("rlx")
    for name in CASES:
        case = ALL[name]
        function = case.program(ours)
        yield (
            name,
            rlx.grad(function) if case.kind == "train" else function,
            tuple(placed(case, ours)),
        )


def write(folder: Path) -> None:
    """Write the stages of all programs, a file for each."""
    for name, function, arguments in (*programs(), *cases()):
        stages = rlx.jit(function).lower(*arguments).compile().stages
        text = "".join(
            f"== {stage}\n{content}\n"
            for stage, content in stages.items()
            if stage != "assembly"  # LLVM's own work
        )
        (folder / f"{name.replace(' ', '_')}.txt").write_text(text)


def stages_of(tree: Path, name: str) -> Path:
    """The folder where a process wrote the stages that the rlx of a tree makes."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = [str(tree), str(ROOT), str(ROOT / "tests")]  # the programs are those of this tree
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "RLX_CACHE": "0"}
    subprocess.run([sys.executable, __file__, "--write", folder], env=environment, check=True)
    return folder


def extracted(parent: str) -> Path:
    """The `rlx` of a commit, in a folder of its own."""
    made = subprocess.run(
        ["git", "archive", parent, "rlx"], cwd=ROOT, check=True, capture_output=True
    )
    tree = OUT / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    with tarfile.open(fileobj=BytesIO(made.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return tree


def differences(before: Path, after: Path) -> Iterator[str]:
    """For each program whose stages differ its name and the first lines that do."""
    for path in sorted(after.iterdir()):
        old, new = ((folder / path.name).read_text() for folder in (before, after))
        if old == new:
            continue
        lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm=""))
        yield "\n".join((f"{path.stem}: {len(lines)} lines", *lines[2 : 2 + SHOWN]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parent", default="HEAD", help="the commit to compare with")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write)
        return
    before = stages_of(extracted(options.parent), "before")
    after = stages_of(ROOT, "after")
    wrong = list(differences(before, after))
    print(f"{len(list(after.iterdir()))} programs, {len(wrong)} differ", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
