"""`rlx doctor`: what is here to compute with."""

from __future__ import annotations

import argparse

from ..runtime.devices import doctor


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments: there are none."""


def run(asked: argparse.Namespace) -> None:
    """Print the devices."""
    doctor()
