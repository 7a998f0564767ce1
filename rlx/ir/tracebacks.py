"""Tracebacks without the frames of rlx.

`boundary` cuts them where an exception leaves a transform; what leaves other functions is cut when
Python prints it. The setting `traceback="full"` (RLX_TRACEBACK=full) shows everything, and so does
a bug of rlx.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from .config import config
from .errors import InternalError, RlxError
from .record import replace
from .source import PACKAGE, Source, is_between, source_of

Fn = TypeVar("Fn", bound=Callable[..., Any])
WRAPPERS = (contextlib.__file__, functools.__file__)  # hidden where rlx calls them


def boundary(fn: Fn) -> Fn:
    """Remove the frames of rlx from exceptions that leave `fn`."""

    @functools.wraps(fn)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    return cast("Fn", bounded)  # it takes and gives what `fn` does


def hide_frames(error: BaseException) -> None:
    """Remove the frames of rlx from the tracebacks of an exception and its causes."""
    if config.traceback == "full":
        return
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        if not _is_bug(each):
            each.__traceback__ = without_rlx(each.__traceback__)


def without_rlx(traceback: TracebackType | None) -> TracebackType | None:
    """A copy of a traceback without the frames of rlx."""
    kept: list[TracebackType] = []
    is_hidden = False
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        is_hidden = file.startswith(PACKAGE) or (is_hidden and file in WRAPPERS)
        if not is_hidden:
            kept.append(traceback)
        traceback = traceback.tb_next
    made = None
    for each in reversed(kept):
        made = TracebackType(made, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return made


def user_source_in(error: BaseException) -> Source | None:
    """The user's line that an exception came through last before it was caught."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        if not is_between(traceback.tb_frame):
            place = source_of(traceback.tb_frame)
            found = replace(place, line=traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def raised_in_python(error: BaseException) -> bool:
    """Whether the user's code raised an exception, rather than compiled code."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or is_between(last.tb_frame):
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _is_bug(error: BaseException) -> bool:
    """Whether rlx, and not the user, must look at the frames: a broken promise of its own."""
    if isinstance(error, RlxError):
        return isinstance(error, InternalError)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    is_ours = last is not None and last.tb_frame.f_code.co_filename.startswith(PACKAGE)
    return is_ours and isinstance(error, AssertionError)


# -- what Python prints ---------------------------------------------------------------------------


def _print_filtered(kind: type[BaseException], error: BaseException, tb: Any) -> None:
    if isinstance(error, BaseException):
        hide_frames(error)
        tb = error.__traceback__
    _print_before(kind, error, tb)


def _print_filtered_in_thread(args: threading.ExceptHookArgs, /) -> None:
    if args.exc_value is not None:
        hide_frames(args.exc_value)
        named = (args.exc_type, args.exc_value, args.exc_value.__traceback__, args.thread)
        args = threading.ExceptHookArgs(named)
    _print_in_thread_before(args)


_print_before, sys.excepthook = sys.excepthook, _print_filtered
_print_in_thread_before, threading.excepthook = threading.excepthook, _print_filtered_in_thread
