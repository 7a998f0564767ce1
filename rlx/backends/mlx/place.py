"""Where MLX computes, and what it raises as errors of the house."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import mlx.core as mx

from ...ir.body import Fill, Move, View
from ...ir.errors import DeviceFailure, DeviceMemoryError, RlxError
from ...ir.graph import Graph, Node, Value
from ..locks import check_process

FIX = "use smaller arrays, or delete those you no longer need"
_MAIN = threading.main_thread()
_PROCESS = os.getpid()  # of MLX's threads, which a forked child has not
OUT_OF_MEMORY = ("Unable to allocate", "[malloc", "out of memory", "maximum allowed buffer size")


class _Leaving:
    """Clears what MLX keeps for a thread when Python ends the thread.

    Else MLX does so itself when Python may be gone already, and its compiled functions end the
    process.
    """

    def __del__(self) -> None:
        mx.clear_streams()


_thread = threading.local()


@contextmanager
def computing(device: mx.Device, name: str) -> Iterator[None]:
    """Compute on a device in the block; what fails there is an error of the house."""
    check_process(name, _PROCESS)
    if not hasattr(_thread, "leaving") and threading.current_thread() is not _MAIN:
        _thread.leaving = _Leaving()
    try:
        with mx.stream(device):
            yield
    except RlxError:
        raise
    except (RuntimeError, MemoryError) as error:
        raise _translated(name, error) from error


def largest(graph: Graph) -> Value | None:
    """The value that takes most memory of those that are no other form of another one."""
    made = [r for node in graph.walk() if not _is_view(node) for r in node.results]
    return max(made, key=lambda value: value.type.nbytes, default=None)


def _is_view(node: Node) -> bool:
    """Whether MLX needs no memory for the results."""
    return isinstance(node.op.rules.body, Move | View | Fill)


def check_size(value: Value | None, name: str) -> None:
    """Raise if a value is larger than the machine's memory: MLX would crash."""
    if value is None or value.type.nbytes <= memory_size():
        return
    node = value.node
    assert node is not None
    raise DeviceMemoryError(
        f"{node.op.name}: {value.type} takes {value.type.nbytes:.1e} bytes, "
        f"{name} has {memory_size():.1e}",
        where=str(node.source),
        fix=FIX,
    )


@cache
def memory_size() -> int:
    """The bytes of memory of the machine, which GPUs of Apple share."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _translated(name: str, error: Exception) -> RlxError:
    text = str(error).partition("\n")[0]
    if isinstance(error, MemoryError) or any(word in text for word in OUT_OF_MEMORY):
        return DeviceMemoryError(
            f"the device {name!r} has too little memory: {text}",
            fix=FIX,
        )
    return DeviceFailure(
        f"MLX failed on the device {name!r}: {text}",
        fix='run the function on the cpu, rlx.jit(f, device="cpu"), and report what MLX says',
    )
