"""What the command line says of a wrong setting, before there is one."""

from __future__ import annotations

import os
import sys
from typing import Any

WRONG = 2  # the status after an error, that of argparse, too


def end_command(error: Any) -> None:
    """End the process with the text of an `error` of rlx, if it is the command line."""
    if is_command():
        print(f"rlx: {error.what}\nfix: {error.fix}", file=sys.stderr)
        raise SystemExit(WRONG)


def is_command() -> bool:
    """Whether rlx is imported to be the command line: as `rlx`, or by `python -m rlx`."""
    program, *others = sys.argv or [""]
    if program == "-m":  # what stands before its arguments is being looked for
        return sys.orig_argv[-len(others) - 1].removeprefix("-m") == "rlx"
    return os.path.basename(program).partition(".")[0] == "rlx"
