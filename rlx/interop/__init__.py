"""rlx and other libraries: functions from and to JAX, and files that need neither.

Enters: a function of JAX or rlx. Leaves: one of the other, StableHLO text, or a file. May use
everything below. JAX is imported when a function is converted. Read `from_jax.py`, then
`replay.py`.
"""

from rlx.interop.containers import Keys

from .export import Exported, export, load_exported
from .from_jax import from_jax
from .graph_builder import Graph
from .to_jax import to_jax, to_stablehlo
