"""The house rules a machine can check: floors, sizes, docstrings, what an import brings along."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from counts import FEATURES, NEWER, modules_loaded, single_importers, statements, tree_of
from first_call import files_entered

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "rlx"
MAX_LINES, MAX_FUNCTION, MAX_COLUMNS = 500, 60, 80
# files that exactly one other imports: of the core, of what was there in the 22nd plan, of all
MAX_SINGLE_CORE, MAX_SINGLE_THEN, MAX_SINGLE_ALL = 120, 142, 200
MAX_LOADED = 104  # modules that `import rlx` loads
MAX_ENTERED = 89  # files that a first call enters, from `jit(f)(x)` to machine code
TOUR_FILES, TOUR_LINES = 12, 3000
VOCABULARIES = ("numpy", "random", "linalg", "fft", "scipy")
MODELS = ("ir", "trace", "transforms", "numpy", "random", "lax", "scipy")
EVERYTHING = ("ir", "trace", "lower", "backends", "runtime", "transforms", "lax", *VOCABULARIES)
MAY_IMPORT = {  # floor -> the floors below it
    "ir": (),
    "trace": ("ir",),
    "lower": ("ir",),
    "backends": ("ir", "lower"),
    "runtime": ("ir", "trace", "lower", "backends"),
    "tools": ("ir", "trace", "lower", "backends", "runtime"),
    "transforms": ("ir", "trace", "runtime", "tools"),
    "numpy": ("ir", "trace", "transforms"),
    "random": ("ir", "trace", "numpy"),
    "linalg": ("ir", "trace", "numpy"),
    "fft": ("ir", "trace", "numpy"),
    "scipy": ("ir", "trace", "transforms", "numpy", "random", "lax"),
    "ops": ("ir", "trace", "numpy"),
    "image": ("ir", "trace", "numpy"),
    "flatten_util": ("ir", "trace", "numpy"),
    "tree_util": ("ir", "trace"),
    "lax": ("ir", "trace", "transforms", "numpy"),
    "nn": (*MODELS, "image", "ops"),
    "quantization": (*MODELS, "nn"),
    "optim": MODELS,
    "train": (*MODELS, "nn"),
    "interop": (*EVERYTHING, "nn", "optim"),
    "io": (*EVERYTHING, "nn", "optim"),
    "models": (*MODELS, "runtime", "nn", "io"),
    "workers": ("ir", "trace"),
    "serve": (*EVERYTHING, "nn", "optim", "io", "models", "workers"),
    "rewriting": ("ir", "trace", "transforms", "numpy"),
    "viz": (*EVERYTHING, "nn", "optim"),
    "cli": (*EVERYTHING, "nn", "optim", "io", "models", "interop", "serve", "viz"),
}
# Folder of rlx/backends/cpu -> the folders below it. The files beside the folders are on top.
CPU_MAY_IMPORT = {
    "llvm": (),
    "formulas": ("llvm",),
    "runtime": ("llvm",),
    "loops": ("llvm", "formulas"),
    "packed": ("llvm", "runtime", "loops"),
    "paged": ("llvm", "loops"),
    "products": ("llvm", "runtime", "loops", "packed"),
    "sorting": ("llvm", "runtime", "loops"),
}
FOREIGN = {"interop": {"jax"}}  # floors that bring functions of other libraries here
DEVICE_LIBRARIES = {"llvmlite", "jax", "jaxlib", "mlx", "cupy", "pyopencl", "wgpu", "coremltools"}
HEAVY = {*DEVICE_LIBRARIES, "scipy", "matplotlib", "sklearn", "rich"}
VAGUE = {"utils", "util", "common", "misc", "base", "helpers"}

ROOMS = sorted(SOURCE.rglob("*.py"))
ALL = [
    path
    for folder in ("rlx", "tests", "examples", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


@functools.cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Every module a file imports, with the line: in functions and under TYPE_CHECKING too."""
    package, found = path.relative_to(ROOT).parts[:-1], []
    for node in statements(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*start, *([node.module] if node.module else [])])
            if module == "rlx":
                found += [(node.lineno, f"rlx.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, module))
    return found


def floor_of(path: Path) -> str:
    """The package under rlx a file belongs to; empty for files of rlx itself."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


# -- floors ---------------------------------------------------------------------------------------


def test_imports_go_down():
    for path in ROOMS:
        floor = floor_of(path)
        if not floor:
            assert path.name in ("__init__.py", "__main__.py"), f"{path} must stand on a floor"
            continue
        assert floor in MAY_IMPORT, f"rlx/{floor} is no floor of the house"
        for line, module in imports(path):
            if module.split(".")[0] == "rlx":
                target = module.split(".")[1] if "." in module else "rlx itself"
                allowed = (floor, *MAY_IMPORT[floor])
                assert target in allowed, f"{path}:{line}: rlx.{floor} may not import {target}"


def test_imports_go_down_within_cpu():
    cpu = SOURCE / "backends" / "cpu"
    for path in sorted(cpu.glob("*/*.py")):
        folder = path.parent.name
        assert folder in CPU_MAY_IMPORT, f"rlx/backends/cpu/{folder} is no floor of the backend"
        for line, module in imports(path):
            if module.startswith("rlx.backends.cpu"):
                target = (*module.split("."), "the top")[3]
                allowed = (folder, *CPU_MAY_IMPORT[folder])
                assert target in allowed, f"{path}:{line}: cpu/{folder} may not import {target}"


def test_device_libraries_stay_in_their_backend():
    for path in ROOMS:
        parts = path.relative_to(SOURCE).parts
        in_backend = parts[0] == "backends" and len(parts) > 2
        for line, module in imports(path):
            library = module.split(".")[0]
            is_allowed = in_backend or library in FOREIGN.get(parts[0], ())
            assert library not in DEVICE_LIBRARIES or is_allowed, (
                f"{path}:{line}: {library} belongs under rlx/backends/<device>/"
            )


def test_the_door_only_re_exports():
    kinds = [type(node) for node in tree_of(SOURCE / "__init__.py").body]
    assert ast.FunctionDef not in kinds
    assert ast.ClassDef not in kinds


# -- sizes and names ------------------------------------------------------------------------------


def test_files_stay_small():
    for path in ALL:
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= MAX_LINES, f"{path} has {lines} lines, the limit is {MAX_LINES}; split it"


def test_functions_stay_small():
    for path in ALL:
        for node in statements(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= MAX_FUNCTION, f"{path}:{node.lineno}: {node.name} has {lines} lines"


def test_the_house_does_not_grow_unseen():
    """Raise a ceiling in a commit of its own that says why; lower it when there is room."""
    assert len(single_importers(FEATURES)) <= MAX_SINGLE_CORE
    assert len(single_importers(NEWER)) <= MAX_SINGLE_THEN
    assert len(single_importers()) <= MAX_SINGLE_ALL
    assert modules_loaded() <= MAX_LOADED
    assert len(files_entered()) <= MAX_ENTERED


def test_file_names_say_something():
    for path in ALL:
        assert path.stem not in VAGUE, f"{path}: name the file after what it does"


def test_nothing_is_left_for_later():
    words = r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"  # in two parts: this file is searched as well
    for path in ALL:
        found = re.search(words, path.read_text(encoding="utf-8"))
        assert found is None, f"{path} says {found and found.group()}"


def test_the_tour_names_few_short_files_and_every_folder():
    """Who moves a file says so in docs/tour.md."""
    page = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    files = re.findall(r"^\d+\. `(rlx/\S+\.py)`", page, re.MULTILINE)
    lines = sum((ROOT / name).read_text(encoding="utf-8").count("\n") for name in files)
    assert len(files) == TOUR_FILES
    assert lines <= TOUR_LINES, f"the files of the tour have {lines} lines: name shorter ones"
    rows = re.findall(r"^\| `(rlx[\w/]*)` \|(.*)\|$", page, re.MULTILINE)
    folders = {str(path.parent.relative_to(ROOT)) for path in ROOMS}
    assert sorted(folder for folder, _ in rows) == sorted(folders)
    for folder, row in rows:
        _, _, first = row.split(" | ")
        names = re.findall(r"`(\w+\.py)`", first)
        assert names, f"docs/tour.md: say what to read first in {folder}"
        for name in names:
            assert (ROOT / folder / name).is_file(), f"docs/tour.md: {folder} has no {name}"


def test_the_changelog_has_a_line_for_each_change():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    kinds = "Added|Changed|Deprecated|Removed|Fixed|Security"
    for line in text[text.index("\n## ") :].splitlines():
        form = rf"- .{{1,118}}|## \[.*|### ({kinds})|#### .*|"
        assert re.fullmatch(form, line), f"CHANGELOG.md: say it in one line of 120: {line}"


# -- docstrings -----------------------------------------------------------------------------------


def is_public(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return False
    return not node.name.startswith("_") and not is_rule(node)


def is_rule(node: ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is attached to something that has the manual: a room's rule, an overload."""
    for decorator in node.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name):
            return named.value.id not in ("functools", "dataclasses", "contextlib")
        if isinstance(named, ast.Name) and named.id in ("overload", "rule", "formula", "_method"):
            return True
    return False


def public_names(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """The module, its public classes and functions, their public methods."""
    module = tree_of(path)
    if path.stat().st_size:
        yield "the module", module
    for node in filter(is_public, module.body):
        yield node.name, node  # type: ignore[attr-defined]
        if isinstance(node, ast.ClassDef):
            for child in filter(is_public, node.body):
                yield f"{node.name}.{child.name}", child  # type: ignore[attr-defined]


def test_public_names_have_docstrings():
    for path in ROOMS:
        for name, node in public_names(path):
            text = ast.get_docstring(node)  # type: ignore[arg-type]
            line = getattr(node, "lineno", 1)
            assert text, f"{path}:{line}: {name} has no docstring"
            first = text.splitlines()[0]
            assert len(first) <= MAX_COLUMNS, f"{path}:{line}: {name}: the first line is too long"
            assert not first.startswith("This "), f"{path}:{line}: {name}: say what, not «this»"


# -- what an import brings along ------------------------------------------------------------------


def run(code: str, **environment: str) -> str:
    """What a fresh Python prints that runs code."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    return done.stdout


def test_import_is_light():
    code = (
        "import sys, json, rlx; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    )
    assert not set(json.loads(run(code))) & HEAVY
