"""All cases, by name, in the order of the table."""

from __future__ import annotations

from ..case import Case
from . import arrays, convolutions, eager, layers, loops, models, products, science, training

MODULES = (arrays, products, layers, convolutions, loops, models, training, science, eager)
CASES: dict[str, Case] = {case.name: case for module in MODULES for case in module.CASES}
GROUPS = list(dict.fromkeys(case.group for case in CASES.values()))
