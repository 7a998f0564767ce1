"""What errors advise exists: the names in their fixes, and the code."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
import rlx.scipy.linalg
import rlx.scipy.special
from rlx import nn, optim

HOUSE = Path(rlx.__file__).parent
SPACES = {"rlx": rlx, "nn": nn, "optim": optim, "rnp": rnp, "np": np, "lax": rlx.lax}
# methods in fixes of objects of other libraries
METHODS = {
    "detach": "torch",
    "filled": "numpy.ma",
    "mkdir": "pathlib.Path",
    "replay": "a field of DivergenceError",
    "resolve_conj": "torch",
    "resolve_neg": "torch",
    "save_pretrained": "transformers",
    "to_dense": "torch",
}


@functools.cache
def texts() -> list[tuple[str, str, bool]]:
    """The strings of rlx: where each stands, what it says, whether it is in a fix."""
    found = []
    for path in sorted(HOUSE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        manuals = {id(manual) for node in nodes for manual in manuals_of(node)}
        fixes = [node for node in nodes if isinstance(node, ast.keyword) and node.arg == "fix"]
        in_fixes = {id(part) for fix in fixes for part in ast.walk(fix)}
        found += [
            (f"{path.relative_to(HOUSE)}:{node.lineno}", node.value, id(node) in in_fixes)
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if " " in node.value and id(node) not in manuals
        ]
    return found


def manuals_of(node: ast.AST) -> Iterator[ast.AST]:
    """The docstring of a node, whose code the doctests run."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            yield first.value


def is_there(dotted: str) -> bool:
    """Whether a name such as `rlx.numpy.where` leads to something."""
    first, *rest = dotted.split(".")
    found: Any = SPACES[first]
    for i, name in enumerate(rest):
        if not hasattr(found, name):
            return (HOUSE.parent / Path(*dotted.split(".")[: i + 2])).exists()
        found = getattr(found, name)
    return True


def test_every_name_in_a_text_exists():
    pattern = re.compile(r"(?<![\w./\"'])(?:rlx|nn|optim|rnp)\.[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
    named = [
        (place, name.removesuffix("."))
        for place, text, _ in texts()
        for name in pattern.findall(text)
    ]
    assert len(named) > 80
    missing = [(place, name) for place, name in named if not is_there(name) and "/" not in name]
    assert not [pair for pair in missing if not (HOUSE.parent / pair[1]).exists()]


def methods_of_rlx() -> set[str]:
    """The names of all methods that classes of rlx have."""
    pattern = re.compile(r"^    (?:def|async def) ([a-z]\w*)\(", re.M)
    return {name for path in HOUSE.rglob("*.py") for name in pattern.findall(path.read_text())}


OTHERS = re.compile(r"\b(rlx|nn|optim|rnp|np|lax|jax|math|masks|multiprocessing|sys)\.[\w.]+\(")


def test_every_method_in_a_fix_exists():
    pattern = re.compile(r"(?:\b[a-z]\w*)?\.([a-z_]\w*)\(")
    named = [
        (place, name)
        for place, text, is_fix in texts()
        if is_fix
        for name in pattern.findall(OTHERS.sub("", text))
    ]
    assert len(named) > 25
    known = {*METHODS, *dir(rlx.Array), *dir(rnp), *methods_of_rlx()}
    assert not [pair for pair in named if pair[1] not in known]


def test_every_keyword_in_a_fix_is_one_of_a_function():
    known = {"xla_force_host_platform_device_count", "parents", "path", "cpu"}
    scipy = (rlx.scipy.special, rlx.scipy.linalg, rlx.scipy.interpolate)
    homes = (rlx, rnp, rnp.linalg, rlx.lax, nn, nn.losses, optim, rlx.random, rlx.tree, rlx.train)
    later = (nn.masks, rlx.models, rlx.quantization, rlx.serve)
    known |= {*rlx.models.language.Options.__annotations__, *parameters(rlx.models.Encoder.encode)}
    for home in (*homes, *scipy, *later):
        for fn in (getattr(home, name) for name in dir(home)):
            if callable(fn):
                known |= parameters(fn) | parameters(getattr(fn, "__call__", None))  # noqa: B004 (what it takes)
    named = [
        (place, name)
        for place, text, is_fix in texts()
        if is_fix
        for name in re.findall(r"\b([a-z_]{3,})=(?!=)", text)
    ]
    assert len(named) > 30
    assert not [pair for pair in named if pair[1] not in known]


def parameters(fn: Any) -> set[str]:
    """The names of a function's parameters, or those of what makes a class."""
    try:
        return set(inspect.signature(fn).parameters)
    except (ValueError, TypeError):
        return set()


X = rnp.ones((2, 3))
# what goes wrong, and what the fix then says, as code
ADVICE = r"""
jit(lambda x: x if x.sum() > 0 else -x)(X)
    rlx.numpy.where(
    rlx.numpy.where(X > 0, X, -X)
jit(lambda x: rlx.cond(x > 0, sin, sin, x))(X)
    rlx.numpy.where
    rlx.numpy.where(X > 0, X, 0)
X @ X
    x @ y.T
    X @ X.T
rlx.grad(lambda x: x * 2)(X)
    y.sum()
    rlx.grad(lambda x: (x * 2).sum())(X)
rlx.grad(rnp.sum)(rnp.arange(3))
    astype('float32')
    rlx.grad(rnp.sum)(rnp.arange(3).astype('float32'))
jit(lambda x: x[x > 0])(X)
    nonzero(mask, size=n)
    jit(lambda x: x[rlx.numpy.nonzero(x > 0, size=2)])(X)
jit(lambda x: x + 1, dynamic={'x': {0: 'n'}})(rnp.ones(0))
    rlx.dim('n', min=0)
    jit(lambda x: x + 1, dynamic={'x': {0: rlx.dim('n', min=0)}})(rnp.ones(0))
jit(lambda x: x + 1, dynamic={'x': {0: rlx.dim('n', max=3)}})(rnp.ones(4))
    rlx.dim('n', max=4)
    jit(lambda x: x + 1, dynamic={'x': {0: rlx.dim('n', max=4)}})(rnp.ones(4))
rlx.random.normal((3,))
    rlx.random.key(0)
    rlx.random.normal(rlx.random.key(0), (3,))
rlx.tree.leaves([1], is_leaf=lambda x: 1)
    isinstance(x, tuple)
    rlx.tree.leaves([1], is_leaf=lambda x: isinstance(x, tuple))
rlx.tree.transpose(1, None, 3)
    rlx.tree.structure(tree)
    rlx.tree.transpose(rlx.tree.structure([0, 0]), None, [(1, 2), (3, 4)])
"""
ROWS = [ADVICE.strip().splitlines()[i : i + 3] for i in range(0, ADVICE.strip().count("\n"), 3)]


@pytest.mark.parametrize(("wrong", "advice", "right"), ROWS, ids=[row[0] for row in ROWS])
def test_the_fix_works(wrong, advice, right):
    scope = {"rlx": rlx, "rnp": rnp, "X": X, "sin": rnp.sin, "jit": rlx.jit, "nn": nn}
    with pytest.raises(rlx.RlxError) as caught:
        eval(wrong, scope)
    assert advice.strip() in " ".join(caught.value.fix.split())
    eval(right.strip(), scope)
