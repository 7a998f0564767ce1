"""`rlx.debug.breakpoint`: stop where a program comes by, and look at its numbers."""

from __future__ import annotations

import bdb
import cmd
import pprint
import sys
from types import FrameType
from typing import Any, final

import numpy as np

from ..ir.graph import Source
from ..ir.record import record
from ..ir.source import PACKAGE
from . import pytree
from .callback import debug_callback
from .operators import Operators


@record
class _Frame:
    """A frame of the user's code: its line, its variables, and what else its code can see."""

    source: Source
    variables: dict[str, Any]
    outside: dict[str, Any]


def stop_here(count: int) -> None:
    """Stop the program at the user's line when it runs, with `count` frames to see."""
    frames = _frames(sys._getframe(1), count)
    leaves, tree = pytree.flatten([f.variables for f in frames])
    is_array = [isinstance(x, Operators | np.ndarray | np.generic) for x in leaves]

    def stop(*arrays: np.ndarray) -> None:
        given = iter(arrays)
        full = [next(given) if a else x for x, a in zip(leaves, is_array, strict=True)]
        variables = pytree.unflatten(tree, full)
        pairs = zip(frames, variables, strict=True)
        _Prompt([_Frame(f.source, v, f.outside) for f, v in pairs]).cmdloop()

    debug_callback(stop, *(x for x, a in zip(leaves, is_array, strict=True) if a))


def _frames(frame: FrameType | None, count: int) -> list[_Frame]:
    """The frames of the user's code, the innermost first."""
    found: list[_Frame] = []
    while frame is not None and len(found) < count:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            source = Source(code.co_filename, frame.f_lineno, code.co_name)
            is_module = frame.f_locals is frame.f_globals
            variables = {} if is_module else dict(frame.f_locals)
            found.append(_Frame(source, variables, frame.f_globals))
        frame = frame.f_back
    return found


@final
class _Prompt(cmd.Cmd):
    """The commands, those of pdb that make sense where nothing can be changed."""

    prompt = "(rlx) "

    def __init__(self, frames: list[_Frame]) -> None:
        super().__init__(stdin=sys.stdin, stdout=sys.stdout)
        self.use_rawinput = sys.stdin is sys.__stdin__
        self._frames, self._depth = frames, 0
        self.intro = f"breakpoint at {frames[0].source}" if frames else "breakpoint"

    def _evaluate(self, text: str) -> Any:
        frame = self._frames[self._depth]
        return eval(text, {**frame.outside, **frame.variables})

    def _show(self, text: str, show: Any) -> None:
        try:
            self.stdout.write(f"{show(self._evaluate(text))}\n")
        except Exception as error:  # the user mistyped: say so and ask again
            self.stdout.write(f"{type(error).__name__}: {error}\n")

    def default(self, line: str) -> None:
        """Evaluate an expression."""
        if line == "EOF":
            raise bdb.BdbQuit
        self._show(line, repr)

    def emptyline(self) -> bool:
        """Ask again."""
        return False

    def do_p(self, line: str) -> None:
        """Print an expression: p x.shape."""
        self._show(line, repr)

    def do_pp(self, line: str) -> None:
        """Print an expression over several lines."""
        self._show(line, pprint.pformat)

    def do_locals(self, line: str) -> None:
        """Print the names of the variables."""
        self.stdout.write(" ".join(self._frames[self._depth].variables) + "\n")

    def do_where(self, line: str) -> None:
        """Print the frames, the innermost last."""
        for i, frame in reversed(list(enumerate(self._frames))):
            self.stdout.write(f"{'>' if i == self._depth else ' '} {frame.source}\n")

    def do_up(self, line: str) -> None:
        """Go to the frame that called this one."""
        self._go(1)

    def do_down(self, line: str) -> None:
        """Go to the frame that this one called."""
        self._go(-1)

    def _go(self, by: int) -> None:
        if 0 <= self._depth + by < len(self._frames):
            self._depth += by
        self.stdout.write(f"> {self._frames[self._depth].source}\n")

    def do_continue(self, line: str) -> bool:
        """Go on."""
        return True

    def do_quit(self, line: str) -> None:
        """End the program."""
        raise bdb.BdbQuit

    do_bt = do_w = do_where
    do_u, do_d, do_c, do_cont, do_q, do_exit = (
        do_up,
        do_down,
        do_continue,
        do_continue,
        do_quit,
        do_quit,
    )
