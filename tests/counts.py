"""The size of the house in numbers: lines and files by wing, small doors, a first call, an import.

    python tests/counts.py

prints them; `tests/test_house.py` holds ceilings for those that do not depend on the machine.
"""

from __future__ import annotations

import ast
import functools
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Container
from pathlib import Path

from first_call import summary

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "rlx"
# packages that grow by features; all others are the core, a compiler that should not
FEATURES = frozenset(
    {
        "cli",
        "interop",
        "io",
        "models",
        "nn",
        "optim",
        "quantization",
        "serve",
        "train",
        "rewriting",
        "viz",
        "workers",
    }
)
NEWER = FEATURES - {"interop", "nn", "optim"}  # than the figure of 140 in tests/test_house.py
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # statements within statements
ROUNDS = 15  # fresh processes of each kind
LOADED = "import sys, rlx; print(sum(m.split('.')[0] == 'rlx' for m in sys.modules))"
TIMED = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def wings() -> dict[str, tuple[int, int]]:
    """Files and lines of each package of rlx; devices are wings of their own."""
    found: dict[str, list[int]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        is_deep = parts[0] == "backends" and len(parts) > 2
        wing = "/".join(parts[:2]) if is_deep else parts[0] if len(parts) > 1 else "rlx"
        found[wing].append(len(path.read_text(encoding="utf-8").splitlines()))
    return {wing: (len(sizes), sum(sizes)) for wing, sizes in sorted(found.items())}


def importers(without: Container[str] = ()) -> dict[str, set[str]]:
    """For each module of rlx those that import it, as if some packages were not there."""
    named = {name: row for name, row in _imported().items() if _wing(name) not in without}
    found: dict[str, set[str]] = {name: set() for name in named}
    for name, targets in named.items():
        for target in targets & found.keys() - {name}:
            found[target].add(name)
    return found


@functools.cache
def _imported() -> dict[str, set[str]]:
    """For each module of rlx what it imports: modules, and things in modules."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        name = _name(path)
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        found[name] = {target for node in statements(path) for target in _targets(node, package)}
    return found


@functools.cache
def statements(path: Path) -> list[ast.stmt]:
    """The imports and functions of a file, those in others too; no walk enters expressions."""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef
    found, left = [], [tree_of(path)]
    while left:
        node = left.pop()
        if isinstance(node, kinds):
            found.append(node)
        for name in BLOCKS:
            left += getattr(node, name, ())
    return found


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """A file as syntax."""
    return ast.parse(path.read_text(encoding="utf-8"))


def single_importers(without: Container[str] = ()) -> list[str]:
    """Modules that exactly one other imports; packages do not count."""
    packages = {_name(path) for path in SOURCE.rglob("__init__.py")}
    users = importers(without)
    return sorted(name for name in users if len(users[name]) == 1 and name not in packages)


def _wing(name: str) -> str:
    """The package under rlx of a module."""
    return name.partition(".")[2].partition(".")[0]


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(node: ast.AST, package: list[str]) -> list[str]:
    """The modules, and things in modules, that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    start = package[: len(package) - node.level + 1] if node.level else []
    module = ".".join([*start, *([node.module] if node.module else [])])
    return [module, *(f"{module}.{alias.name}" for alias in node.names)]


def modules_loaded() -> int:
    """How many modules of rlx a fresh `import rlx` loads."""
    return int(_python(LOADED))


def import_ratio(rounds: int = ROUNDS) -> tuple[float, float]:
    """Milliseconds of `import rlx`, and their ratio to those of `import numpy`.

    Medians of fresh processes, in turns.
    """
    times: dict[str, list[float]] = {"numpy": [], "rlx": []}
    for _ in range(rounds + 1):
        for module, seconds in times.items():
            seconds.append(float(_python(TIMED.format(module))))
    numpy, ours = (statistics.median(seconds[1:]) for seconds in times.values())
    return ours * 1e3, ours / numpy


def _python(code: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed rlx has its bytecode
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def main() -> None:
    rows = wings()
    print(f"{'wing':<22}{'files':>7}{'lines':>9}")
    for wing, (files, lines) in rows.items():
        print(f"{wing:<22}{files:>7}{lines:>9,}")
    files, lines = (sum(row[i] for row in rows.values()) for i in range(2))
    print(f"{'all':<22}{files:>7}{lines:>9,}")
    lines = sum(row[1] for wing, row in rows.items() if wing not in FEATURES)
    print(f"{'core':<22}{'':>7}{lines:>9,}")
    print(f"{len(single_importers())} files have exactly one importer, ", end="")
    print(f"{len(single_importers(FEATURES))} of the core")
    print(summary())
    milliseconds, ratio = import_ratio()
    print(f"import rlx loads {modules_loaded()} of its modules, in {milliseconds:.0f} ms,")
    print(f"{ratio:.2f} times as long as import numpy (medians of {ROUNDS} fresh processes)")


if __name__ == "__main__":
    main()
