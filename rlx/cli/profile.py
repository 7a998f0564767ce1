"""`rlx profile`: a script, and what its kernels took."""

from __future__ import annotations

import argparse
import runpy
import sys

from ..viz.profile import profile
from .script import script_path


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    about = "write a trace, for ui.perfetto.dev or chrome://tracing"
    parser.add_argument("--trace", metavar="FILE", help=about)
    parser.add_argument("script", help="a file of Python")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run(asked: argparse.Namespace) -> None:
    """Run the script, and tell what its kernels took, also if it fails or exits."""
    place = script_path(asked.script)
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(place), *asked.arguments], str(place.resolve().parent)
    try:
        with profile() as found:
            runpy.run_path(str(place), run_name="__main__")
    finally:
        sys.argv, sys.path[0] = before
        found.show()
        if asked.trace is not None:
            found.save(asked.trace)
