"""`python -m rlx`: what is here to compute with."""

from __future__ import annotations

import argparse

from . import doctor


def main(arguments: list[str] | None = None) -> None:
    """Run a command of the command line."""
    parser = argparse.ArgumentParser(prog="python -m rlx", description="A small ML compiler.")
    commands = parser.add_subparsers(dest="command", required=True)
    about = "list the devices, what runs each, and what to install for those that are absent"
    commands.add_parser("doctor", help=about, description=about)
    parser.parse_args(arguments)
    doctor()


if __name__ == "__main__":
    main()
