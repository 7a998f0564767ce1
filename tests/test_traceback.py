"""Tracebacks show the user's frames; what Python prints, word for word."""

from __future__ import annotations

import inspect
import os
import pdb
import re
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import CheckError, InternalError, ShapeError
from rlx.ir.source import PACKAGE

PROGRAM = """
import rlx
import rlx.numpy as rnp

def layer(w, x):
    return x @ w

def loss(w, x):
    return rnp.sum(layer(w, x))

def step(w, x):
    return rlx.grad(loss)(w, x)

{call}
"""
SHAPES = """
Traceback (most recent call last):
  File "model.py", line 14, in <module>
    rlx.jit(step)(rnp.ones((5, 2)), rnp.ones((3, 4)))
  File "model.py", line 12, in step
    return rlx.grad(loss)(w, x)
           ^^^^^^^^^^^^^^^^^^^^
  File "model.py", line 9, in loss
    return rnp.sum(layer(w, x))
                   ^^^^^^^^^^^
  File "model.py", line 6, in layer
    return x @ w
           ~~^~~
rlx.ShapeError: matmul: the inner sizes differ, 4 and 5
  where  model.py:6 in layer      return x @ w
         x: f32[3, 4]   argument 1 of step, x
         y: f32[5, 2]   argument 0 of loss, w
  fix    give x a last axis of 5, or y 4 rows
"""


def printed(tmp_path: Path, call: str, **environment: str) -> str:
    """What Python prints for a program that ends with an error."""
    (tmp_path / "model.py").write_text(PROGRAM.format(call=call))
    done = subprocess.run(
        [sys.executable, "model.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(PACKAGE).parent), **environment},
    )
    return re.sub(r'File ".*?model\.py"', 'File "model.py"', done.stderr)


def plain(text: str) -> str:
    """Without the marks under a line, which differ between versions of Python."""
    lines = inspect.cleandoc(text).splitlines()
    return "\n".join(line for line in lines if set(line.strip()) - set("^~"))


CALL = "rlx.jit(step)(rnp.ones((5, 2)), rnp.ones((3, 4)))"


def test_a_traceback_has_the_users_frames_only(tmp_path):
    assert plain(printed(tmp_path, CALL)) == plain(SHAPES)


def test_the_setting_shows_all_frames(tmp_path):
    text = printed(tmp_path, CALL, RLX_TRACEBACK="full")
    assert PACKAGE in text and "in trace" in text
    assert plain(text).splitlines()[-5:] == plain(SHAPES).splitlines()[-5:]
    assert "RLX_TRACEBACK is 'all'" in printed(tmp_path, CALL, RLX_TRACEBACK="all")


def test_functions_outside_of_transforms_and_threads_too(tmp_path):
    for call in (
        "rnp.ones((3, 4)) @ rnp.ones((5, 2))",
        "import threading; threading.Thread(target=lambda: rnp.ones(2).reshape(3)).start()",
    ):
        text = printed(tmp_path, call)
        assert PACKAGE not in text and "model.py" in text and "ShapeError" in text


def frames_of(error: BaseException) -> list[str]:
    return [f.name for f in traceback.extract_tb(error.__traceback__)]


def fails(x):
    raise LookupError("mine") from KeyError("cause")


@pytest.mark.parametrize(
    "transform",
    [
        rlx.jit,
        rlx.grad,
        rlx.vmap,
        rlx.checkpoint,
        rlx.make_graph,
        lambda fn: rlx.jit(rlx.vmap(rlx.grad(fn))),
        lambda fn: lambda x: rlx.jit(fn).lower(x),
        lambda fn: lambda x: rlx.jvp(fn, (x,), (x,)),
        lambda fn: lambda x: rlx.scan(lambda c, _: (fn(c), None), x, None, 2),
        lambda fn: lambda x: rlx.cond(x[0] > 0, fn, fn, x),
        lambda fn: lambda x: rlx.while_loop(lambda c: True, fn, x),
    ],
)
def test_errors_of_the_user_stay_what_they_are(transform):
    with pytest.raises(LookupError, match="mine") as caught:
        transform(fails)(rnp.ones(2))
    error = caught.value
    assert type(error) is LookupError and isinstance(error.__cause__, KeyError)
    names = frames_of(error)
    assert names[0] == "test_errors_of_the_user_stay_what_they_are" and names[-1] == "fails"
    assert set(names[1:-1]) <= {"<lambda>"}
    assert error.__traceback__ is not None


def positive(x):
    rlx.check(x > 0, "{} is not positive", x)
    return x * x


def in_scan(x):
    return rlx.scan(lambda total, y: (total + positive(y), None), 0.0, rnp.stack([x + 1, x]))[0]


def in_branch(x):
    return rlx.cond(x < 5, positive, lambda y: y, x)


@pytest.mark.parametrize(
    "fn",
    [
        positive,
        in_scan,
        in_branch,
        rlx.grad(positive),
        rlx.grad(in_scan),
        lambda x: rlx.vmap(positive)(rnp.stack([x + 3, x])),
        lambda x: rlx.vmap(rlx.grad(in_scan))(rnp.stack([x + 3, x])),
        lambda x: rlx.fori_loop(0, 2, lambda i, y: positive(y), x),
    ],
)
def test_a_check_in_compiled_code_is_an_ordinary_exception(fn):
    compiled = rlx.jit(fn)
    compiled(1.0)
    for _ in range(2):
        with pytest.raises(CheckError, match="is not positive") as caught:
            compiled(-1.0)
        assert frames_of(caught.value) == ["test_a_check_in_compiled_code_is_an_ordinary_exception"]
        line = 'in positive      rlx.check(x > 0, "{} is not positive", x)'
        assert caught.value.where is not None and caught.value.where.endswith(line)
    compiled(2.0)


def test_an_error_that_is_handled_inside_changes_nothing():
    def fn(x):
        try:
            rlx.vmap(fails)(x)
        except LookupError:
            return x + 1
        return x

    np.testing.assert_array_equal(rlx.jit(fn)(rnp.ones(2)), [2, 2])


def test_a_debugger_stops_in_the_users_frame():
    with pytest.raises(LookupError) as caught:
        rlx.jit(fails)(1.0)
    debugger = pdb.Pdb()
    debugger.reset()
    stack, place = debugger.get_stack(None, caught.value.__traceback__)
    assert stack[place][0].f_code.co_name == "fails" and "x" in stack[place][0].f_locals
    assert not any(frame.f_code.co_filename.startswith(PACKAGE) for frame, _ in stack)


def test_full_tracebacks_in_a_block():
    with rlx.config.using(traceback="full"), pytest.raises(ShapeError) as caught:
        rlx.jit(lambda x: x.reshape(7))(rnp.ones(2))
    files = [f.filename for f in traceback.extract_tb(caught.value.__traceback__)]
    assert any(file.startswith(PACKAGE) for file in files)


def test_bugs_of_rlx_show_everything(monkeypatch):
    def broken(*args, **kwargs):
        raise InternalError("rlx bug in pass fuse", fix="report it")

    session = rlx.Session("cpu")
    monkeypatch.setattr(session.backend, "compile", broken)
    with pytest.raises(InternalError) as caught:
        rlx.jit(lambda x: x * 3.25)(rnp.ones(2))
    assert "_slow" in frames_of(caught.value)
