"""`dir` of public modules lists what users type, and editors know every name that is listed."""

import ast
import importlib
import inspect
import os

import pytest

import rlx
from tests.public_names import ROOTS, public_names

NAMES = {line.partition("(")[0] for line in public_names()}
ERRORS = {"rlx." + name for name in dir(rlx.errors)}


def module_of(name: str):
    package, _, last = name.rpartition(".")
    return getattr(importlib.import_module(package), last) if package else rlx


@pytest.mark.parametrize("root", [root for root in ROOTS if root != "rlx.errors"])
def test_the_directory_lists_what_is_public(root):
    public = {name for name in NAMES if name.rpartition(".")[0] == root} - ERRORS
    listed = {f"{root}.{name}" for name in dir(module_of(root)) if not name.startswith("__")}
    aliases = {"rlx.lax.DotDimensionNumbers"}  # of types, which have no signature
    assert public <= listed <= public | set(ROOTS) | aliases


def test_errors_stand_in_a_module_of_their_own():

    assert "ShapeError" not in dir(rlx) and rlx.ShapeError is rlx.errors.ShapeError
    assert {"ShapeError", "RlxError", "UnrolledLoopWarning"} <= set(dir(rlx.errors))
    assert all(inspect.isclass(getattr(rlx.errors, name)) for name in dir(rlx.errors))


def exported(path: str) -> set[str]:
    """The names that type checkers take as exported: `import a as a`, definitions, assignments."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            found |= exported(os.path.join(os.path.dirname(path), f"{node.module}.py"))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.name for a in node.names if a.asname == a.name}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            names = (n for target in node.targets for n in ast.walk(target))
            targets = {n.id for n in names if isinstance(n, ast.Name)}
            found |= targets
            if "__all__" in targets:
                found |= {c.value for c in ast.walk(node.value) if isinstance(c, ast.Constant)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


@pytest.mark.parametrize("root", ROOTS)
def test_editors_know_every_name(root):
    path = module_of(root).__file__
    missing = {n for n in dir(module_of(root)) if n not in exported(path)}
    assert not missing, f"write `import name as name` in {path} for {sorted(missing)}"
