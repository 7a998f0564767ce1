"""rlx: a small ML compiler for Python.

A plain function is recorded as a graph; `grad`, `jvp` and `vmap` rewrite it; `jit` compiles it to
native code. Read `examples/how_rlx_works.py` first. What not every program uses is loaded when it
is first asked for.
"""

import gc as _gc
from typing import TYPE_CHECKING

_collects = _gc.isenabled()
_gc.disable()  # modules that are loaded leave nothing to collect: a tenth of the time
try:
    from . import numpy
finally:
    if _collects:
        _gc.enable()
from .ir import errors
from .ir.config import config
from .ir.dims import dim
from .ir.errors import (
    AliasError,
    ArgumentError,
    AttributeValueError,
    AxisError,
    BoundsError,
    CallbackError,
    CheckError,
    ConcretizationError,
    ConfigError,
    DeviceFailure,
    DeviceLostError,
    DeviceMemoryError,
    DeviceMismatchError,
    DeviceUnavailable,
    DivergenceError,
    DonatedError,
    DtypeError,
    FileAccessError,
    FileFormatError,
    FileMissingError,
    GradientError,
    ImmutableError,
    InternalError,
    KernelBuildError,
    KeyReuseError,
    LeakedTracerError,
    NanError,
    ParseError,
    RecompileError,
    RlxError,
    ShapeError,
    StaticArgumentError,
    StructureError,
    SymbolicSizeError,
    UnknownDeviceError,
    UnknownPrimitive,
    UnrolledLoopWarning,
    UnsupportedDtype,
    UnsupportedOp,
    VerifyError,
)
from .ir.lazy import door as _door
from .ir.policy import Policy
from .ir.sharding import Mesh, NamedSharding, PartitionSpec
from .ir.sharding import PartitionSpec as P
from .numpy import array, asarray
from .runtime import (
    CompiledGraph,
    CompileOptions,
    Device,
    Session,
    block_until_ready,
    debug,
    default_device,
    device,
    device_get,
    device_put,
    devices,
    doctor,
    precision,
    register_backend,
    show,
    unregister_backend,
)
from .trace import pytree as tree
from .trace.array import Array
from .trace.make_graph import eval_shape, make_graph, make_jaxpr, spec, typeof
from .trace.make_graph import spec as ShapeDtypeStruct
from .trace.named import named_call, named_scope
from .trace.tensor import TracedTensor

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import flatten_util, image, interop, io, lax, nn, ops, optim, random, scipy, tree_util
    from .interop import Exported, Graph, export, from_jax, load_exported, to_jax, to_stablehlo
    from .interop.coreml import export_coreml
    from .io import load, save
    from .runtime import distributed
    from .runtime.supports import supports
    from .tools.costs import explain_device
    from .tools.measure import CacheBuster, Tick, time_ns
    from .tools.nan_check import nan_check
    from .tools.verify import verify
    from .trace.callback import check, io_callback, pure_callback
    from .trace.control import cond, switch
    from .trace.scan import associative_scan, map
    from .transforms import ad_checkpoint, checkpoint_policies, testing
    from .transforms.ad_checkpoint import checkpoint, checkpoint_name, remat
    from .transforms.closures import closure_convert
    from .transforms.custom import custom_jvp, custom_vjp, stop_gradient
    from .transforms.custom_op import CustomOp, custom_op
    from .transforms.forward import hessian, hvp, jacfwd, jacobian, jacrev, jvp
    from .transforms.grad import grad, linear_transpose, linearize, value_and_grad, vjp
    from .transforms.jit.disable import disable_jit
    from .transforms.jit.jit import jit, with_policy
    from .transforms.jit.signature import no_recompile
    from .transforms.loops import fori_loop, scan, while_loop
    from .transforms.repeated import clear_caches
    from .transforms.reverse import custom_gradient, fwd_and_bwd
    from .transforms.solve import custom_linear_solve, custom_root
    from .transforms.vmap import vmap
    from .transforms.zeros import CustomVJPPrimal, Float0, SymbolicZero, float0
else:
    __getattr__, __dir__ = _door(
        __name__,
        (
            "flatten_util image interop io lax nn ops optim random scipy tree_util "
            "runtime.distributed transforms.ad_checkpoint transforms.checkpoint_policies "
            "transforms.testing"
        ).split(),
        {
            "interop": "Exported Graph export from_jax load_exported to_jax to_stablehlo",
            "interop.coreml": "export_coreml",
            "io": "load save",
            "runtime.supports": "supports",
            "tools.costs": "explain_device",
            "tools.measure": "CacheBuster Tick time_ns",
            "tools.nan_check": "nan_check",
            "tools.verify": "verify",
            "transforms.ad_checkpoint": "checkpoint checkpoint_name remat",
            "transforms.closures": "closure_convert",
            "transforms.custom": "custom_jvp custom_vjp stop_gradient",
            "transforms.custom_op": "CustomOp custom_op",
            "transforms.forward": "hessian hvp jacfwd jacobian jacrev jvp",
            "transforms.grad": "grad linear_transpose linearize value_and_grad vjp",
            "transforms.jit.disable": "disable_jit",
            "transforms.jit.jit": "jit with_policy",
            "transforms.jit.signature": "no_recompile",
            "transforms.loops": "fori_loop scan while_loop",
            "trace.callback": "check io_callback pure_callback",
            "trace.control": "cond switch",
            "trace.scan": "associative_scan map",
            "transforms.repeated": "clear_caches",
            "transforms.reverse": "custom_gradient fwd_and_bwd",
            "transforms.solve": "custom_linear_solve custom_root",
            "transforms.vmap": "vmap",
            "transforms.zeros": "CustomVJPPrimal Float0 SymbolicZero float0",
        },
        errors.with_advice(
            "rlx",
            {
                "tensor": "use rlx.array",
                "no_grad": "only what rlx.grad wraps is differentiated; rlx.stop_gradient ends it",
                "where": "use rlx.numpy.where",
            },
        ),
    )
