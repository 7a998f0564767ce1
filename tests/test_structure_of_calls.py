"""Functions that are nested more deeply than Python goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "jit": rlx.jit,
    "cond": lambda f: lambda x: rlx.cond(x > 0, f, lambda x: x, x),
    "scan": lambda f: lambda x: rlx.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
}


def _nested(wrap: Callable[[Any], Any], depth: int) -> Any:
    f: Any = lambda x: x + 1  # noqa: E731
    for _ in range(depth):
        f = wrap(f)
    return rlx.jit(f)


@pytest.mark.parametrize("name", WRAPPERS)
def test_deep_nesting_is_an_error_with_a_fix(name: str) -> None:
    with pytest.raises(rlx.StructureError, match="more deeply than Python's limit") as caught:
        _nested(WRAPPERS[name], 400)(np.float32(1))
    assert "sys.setrecursionlimit" in caught.value.fix
    assert _nested(WRAPPERS[name], 5)(np.float32(1)) == 2
