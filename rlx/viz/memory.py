"""`rlx.memory_plan`: what a call will hold in memory, before it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..ir.tracebacks import boundary
from ..lower.memory_plan import MemoryPlan
from ..runtime import default_session
from ..trace.make_graph import titled
from ..transforms.jit.jit import jit
from ..transforms.jit.jitted import Jitted


def memory_plan(fn: Callable[..., Any]) -> Callable[..., MemoryPlan]:
    """Return a function that says what memory a call of `fn` will need.

    The call is recorded and lowered, not compiled, and nothing is allocated: arguments may be
    `rlx.spec`s. `fn` may be jitted; its device, options and donated arguments count. Gives a
    `MemoryPlan`: `peak_bytes`, `top` (the largest blocks, with the user's lines), a text when it is
    printed, a picture by `svg()`. On devices that place temporaries themselves (xla, mlx) it is an
    estimate, and says so. Errors are those of recording and lowering `fn`.

    >>> import rlx, rlx.numpy as rnp
    >>> plan = rlx.memory_plan(lambda x: rnp.tanh(x @ x).sum())(rlx.spec((64, 64)))
    >>> plan.peak_bytes >= 2 * 64 * 64 * 4, plan.top[0].type
    (True, 'f32[64, 64]')
    """

    @boundary
    @functools.wraps(fn)
    def planned(*args: Any, **kwargs: Any) -> MemoryPlan:
        jitted = fn if isinstance(fn, Jitted) else jit(fn)
        lowered = jitted.lower(*args, **kwargs)
        session = default_session(lowered.device)
        return session.memory_plan(lowered.graph, lowered.options)

    planned.__qualname__ = titled("memory_plan", fn)
    return planned
