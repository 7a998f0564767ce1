"""Transforms: jit, derivatives of both modes, batching, custom rules, checkpoint.

Each takes a Python function and gives one. The engines (`jvp.py`, `linearize.py`, `transpose.py`,
`vmap.py`) go from graph to graph and name no op. May use ir, trace and runtime. Read `jvp.py`
first.
"""

from typing import TYPE_CHECKING

from ..ir.errors import with_advice as _with_advice
from ..ir.lazy import door as _door
from . import ad_checkpoint, checkpoint_policies
from .ad_checkpoint import checkpoint, checkpoint_name, remat
from .closures import closure_convert
from .custom import custom_jvp, custom_vjp, stop_gradient
from .custom_op import CustomOp, custom_op
from .forward import hessian, hvp, jacfwd, jacrev, jvp
from .grad import grad, linear_transpose, linearize, value_and_grad, vjp
from .jit.disable import disable_jit
from .jit.jit import jit, with_policy
from .jit.signature import no_recompile
from .loops import fori_loop, scan, while_loop
from .repeated import clear_caches
from .reverse import custom_gradient, fwd_and_bwd
from .solve import custom_linear_solve, custom_root
from .vmap import vmap
from .zeros import CustomVJPPrimal, Float0, SymbolicZero, float0

__all__ = [
    "CustomOp",
    "CustomVJPPrimal",
    "Float0",
    "SymbolicZero",
    "ad_checkpoint",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_linear_solve",
    "custom_op",
    "custom_root",
    "custom_vjp",
    "disable_jit",
    "float0",
    "fori_loop",
    "fwd_and_bwd",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "no_recompile",
    "remat",
    "scan",
    "stop_gradient",
    "testing",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
    "with_policy",
]

if TYPE_CHECKING:
    from . import testing
else:
    __getattr__, __dir__ = _door(__name__, ["testing"], {}, _with_advice(__name__, {}))
