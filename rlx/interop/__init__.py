"""Interoperation: functions from and to JAX, StableHLO, exported files.

JAX is imported when a function is converted. May use everything below. Read `from_jax.py`, then
`replay.py`.
"""

from ..ir.lazy import listed as _listed
from .containers import Keys as Keys
from .export import Exported as Exported, export as export, load_exported as load_exported
from .from_jax import from_jax as from_jax
from .graph_builder import Graph as Graph
from .to_jax import to_jax as to_jax, to_stablehlo as to_stablehlo

__dir__ = _listed(__name__)
