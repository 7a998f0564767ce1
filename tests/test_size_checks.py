"""Ops are asked whether they take numbers for open sizes: each as seldom as can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.bind import SizeChecks
from rlx.ir.errors import RlxError
from rlx.ir.op import Op


def test_equal_layers_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.ones((4, 4), "float32")

    def layers(x: Any) -> Any:
        for _ in range(5):
            x = rnp.tanh(x @ w)
        return x[3]

    graph = rlx.make_graph(layers)(rlx.spec((rlx.dim("n"), 4), "float32"))
    asked: list[str] = []
    infer = Op.infer

    def counted(op: Op, *args: Any) -> Any:
        asked.append(op.name)
        return infer(op, *args)

    monkeypatch.setattr(Op, "infer", counted)
    check_sizes = SizeChecks(graph)
    check_sizes({"n": 9})
    assert sorted(asked) == ["dot_general", "slice"]
    check_sizes({"n": 9})  # known
    assert len(asked) == 2
    for _ in range(2):  # an error is not known as right
        with pytest.raises(RlxError, match="3:4 does not lie in an axis of size 3") as caught:
            check_sizes({"n": 3})
        assert "return x[3]" in str(caught.value)


def test_an_op_is_checked_again_only_for_sizes_it_depends_on(monkeypatch: pytest.MonkeyPatch):
    def both(x: Any, y: Any) -> Any:
        return x[3], rnp.concatenate([y, y])[1], x[2] + y[2]

    specs = [rlx.spec((rlx.dim(name), 4), "float32") for name in "nm"]
    check_sizes, asked = SizeChecks(rlx.make_graph(both)(*specs)), list[str]()
    infer = Op.infer
    monkeypatch.setattr(Op, "infer", lambda op, *args: asked.append(op.name) or infer(op, *args))
    check_sizes({"n": 9, "m": 9})
    assert "concat" in asked
    asked.clear()
    check_sizes({"n": 10, "m": 9})
    assert set(asked) == {"slice"}
    with pytest.raises(RlxError, match="2:3 does not lie in an axis of size 2"):
        check_sizes({"n": 10, "m": 2})
    check_sizes({"n": 10, "m": 9})
