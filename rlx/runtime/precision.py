"""Precision policies of what is compiled: chosen for a block, applied, reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..backends.backend import Executable
from ..ir.builder import current
from ..ir.config import config
from ..ir.errors import ArgumentError
from ..ir.graph import Graph
from ..ir.policy import AS_WRITTEN, Policy, policy_of
from ..ir.record import replace

if TYPE_CHECKING:
    from ..lower.precision import Precise


@contextmanager
def precision(policy: Policy | str) -> Iterator[Policy]:
    """Compile under a precision `policy` in a block, where nothing else is said.

    It is a `rlx.Policy` or its name. The block may hold calls of compiled functions, not a part of
    one: an `ArgumentError` while a function is recorded. It holds for all threads, and for
    functions that are compiled: what runs op by op is computed as it is written. A
    `jit(precision=...)` or `Session(precision=...)` goes before it. Returns a context manager.

    >>> import rlx, rlx.numpy as rnp
    >>> third = rlx.jit(lambda x: x / 3)
    >>> with rlx.precision("always_bf16"):
    ...     rounded = third(rnp.ones(1))
    >>> rounded.tolist(), third(rnp.ones(1)).tolist()
    ([0.333984375], [0.3333333432674408])
    """
    chosen = policy_of(policy)
    builder = current()
    if builder is not None and not builder.runs_once:
        raise ArgumentError(
            f"rlx.precision({chosen.text!r}) is opened in a function that is being recorded",
            fix="put these lines in a function with @rlx.jit(precision=...), and call that",
        )
    with config.using(precision=chosen):
        yield chosen


def prepared(graph: Graph, policy: Policy = AS_WRITTEN, folds: bool = True) -> Precise:
    """A recorded graph with the casts of a policy, and of its functions' own ones.

    With `folds` constants are computed.
    """
    from ..lower.pipeline import prepare  # with all of lowering, 20 ms to import

    return prepare(graph, policy, folds)


def with_own_policies(graph: Graph) -> Graph:
    """The graph, with casts where nested functions have policies of their own."""
    has_some = any(node.attrs.get("precision") for node in graph.walk())
    return prepared(graph).graph if has_some else graph


def with_report(
    executable: Executable, recorded: Callable[[], Graph], policy: Policy
) -> Executable:
    """The executable, whose report and stages tell of the policies too.

    `recorded` gives the graph before the policies.
    """

    make_report, make_stages = executable.make_report, executable.make_stages

    def report() -> str:
        graph = recorded()
        made = prepared(graph, policy)
        return make_report() if made.graph is graph else f"{made.report}\n{make_report()}"

    def stages() -> dict[str, str]:
        first, rest = str(recorded()), make_stages()
        return rest if rest.get("hir") == first else {"recorded": first, **rest}

    return replace(executable, make_report=report, make_stages=stages)
