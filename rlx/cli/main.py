"""The verbs of the command line, and what becomes of their errors."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..ir.errors import RlxError
from ..ir.lazy import HOUSE
from .wrong_settings import WRONG

VERBS = {  # module: what it does
    "doctor": "list the devices, what runs each, and what to install for those that are absent",
    "explore": "write a page that shows a function from its lines to machine code",
    "profile": "run a script, and print what its compiled kernels and lines took",
    "cache": "list or clear the machine code that is kept on disk",
    "info": "say what is in a file: a model, tensors, an export; and what running it takes",
    "run": "give a language model a prompt, and print what it writes",
    "chat": "talk with a language model",
    "serve": "let programs talk with a language model over HTTP, as with OpenAI's",
    "quantize": "write a GGUF file anew, with its matrices in blocks of few bits",
    "bench": "measure how fast a language model reads and writes",
}
RUNNERS = ("<frozen runpy>", "runpy.py")  # of `python -m rlx`
EXAMPLES = """examples:
  rlx explore model.py:loss 32,784 784,10
  rlx profile --trace trace.json train.py
  rlx info model.gguf
  rlx run model.gguf "What is the capital of France?"
  rlx chat model.gguf
  rlx serve model.gguf --port 8000
  rlx bench model.gguf --against llama.cpp
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; returns the exit status, 0, or 2 after an error."""
    _open_streams()
    parser = argparse.ArgumentParser(
        prog="rlx",
        description="The command line of rlx, an ML compiler for Python.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"rlx {sys.modules[HOUSE].__version__}"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="verb")
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name, about in VERBS.items():
        verb = verbs.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".")
        if name in given:  # others need not be loaded
            module = importlib.import_module(f"{__package__}.{name}")
            module.add(verb)
            verb.set_defaults(run=module.run)
    try:
        asked = _parsed(parser, given)
        asked.run(asked)
        sys.stdout.flush()
    except RlxError as error:
        print(error_text(error), file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who reads has gone, as `head` does
        _close_output()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _close_output()
        print(f"rlx: cannot write the output: {error.strerror}", file=sys.stderr)
        return WRONG
    return 0


def _parsed(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    """What was asked for; what argparse prints it would lose on a full disk without a word."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told):
            return parser.parse_args(given)
    finally:
        print(told.getvalue(), end="", flush=True)


def _open_streams() -> None:
    """Have streams where there are none, and letters that the terminal has not as "?"."""
    sys.stdin = sys.stdin or open(os.devnull)
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _close_output() -> None:
    """Let what is left to print go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def error_text(error: RlxError) -> str:
    """An error for someone at a terminal: what, where in a script, and how to fix it."""
    lines = [f"rlx: {error.what}"]
    # without a script the line that runs is that of the command itself
    if error.where and error.where.partition(":")[0] not in (Path(sys.argv[0]).name, *RUNNERS):
        lines.append(f"     {error.where}")
    lines += [f"     {note}" for note in error.notes]
    if error.fix:
        first, *others = error.fix.splitlines()
        lines += [f"fix: {first}", *(f"     {line}" for line in others)]
    return "\n".join(lines)
