"""rlx: a small ML compiler for Python.

A plain function is recorded as a graph; `grad`, `jvp` and `vmap` rewrite it; `jit` compiles it to
native code. Read `examples/how_rlx_works.py` first. What not every program uses is loaded when it
is first asked for.
"""

from typing import TYPE_CHECKING

from . import numpy
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
    distributed,
    doctor,
    precision,
    register_backend,
    show,
    unregister_backend,
)
from .trace import pytree as tree
from .trace.array import Array
from .trace.callback import check, io_callback, pure_callback
from .trace.control import cond, switch
from .trace.make_graph import eval_shape, make_graph, make_jaxpr, spec, typeof
from .trace.make_graph import spec as ShapeDtypeStruct
from .trace.named import named_call, named_scope
from .trace.scan import associative_scan, map
from .trace.tensor import TracedTensor
from .transforms import (
    CustomOp,
    CustomVJPPrimal,
    Float0,
    SymbolicZero,
    ad_checkpoint,
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    clear_caches,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_linear_solve,
    custom_op,
    custom_root,
    custom_vjp,
    disable_jit,
    float0,
    fori_loop,
    fwd_and_bwd,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    jvp,
    linear_transpose,
    linearize,
    no_recompile,
    remat,
    scan,
    stop_gradient,
    value_and_grad,
    vjp,
    vmap,
    while_loop,
    with_policy,
)

jacobian = jacrev

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import flatten_util, image, interop, lax, nn, ops, optim, random, scipy, tree_util
    from .interop import Exported, Graph, export, from_jax, load_exported, to_jax, to_stablehlo
    from .interop.coreml import export_coreml
    from .runtime.supports import supports
    from .tools.costs import explain_device
    from .tools.measure import CacheBuster, Tick, time_ns
    from .tools.nan_check import nan_check
    from .tools.verify import verify
    from .transforms import testing
else:
    __getattr__, __dir__ = _door(
        __name__,
        "flatten_util image interop lax nn ops optim random scipy tree_util".split(),
        {
            "interop": "Exported Graph export from_jax load_exported to_jax to_stablehlo".split(),
            "interop.coreml": ["export_coreml"],
            "runtime.supports": ["supports"],
            "tools.costs": ["explain_device"],
            "tools.measure": ["CacheBuster", "Tick", "time_ns"],
            "tools.nan_check": ["nan_check"],
            "tools.verify": ["verify"],
            "transforms": ["testing"],
        },
        errors.with_advice(
            "rlx",
            {
                "save": "rlx.numpy.savez(path, **arrays) writes arrays, pickle whole models",
                "load": "rlx.numpy.load reads what savez wrote, pickle whole models",
                "tensor": "use rlx.array",
                "no_grad": "only what rlx.grad wraps is differentiated; rlx.stop_gradient ends it",
                "where": "use rlx.numpy.where",
            },
        ),
    )
