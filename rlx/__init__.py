"""rlx: an ML compiler for Python.

A plain function is recorded as a graph; `grad`, `jvp` and `vmap` rewrite it; `jit` compiles it to
native code. Read `examples/how_rlx_works.py` first. What not every program uses is loaded when it
is first asked for.
"""

import gc as _gc
from typing import TYPE_CHECKING

_collects = _gc.isenabled()
_gc.disable()  # modules that load leave nothing to collect, and visiting them takes a fifth longer
try:
    from . import ir as ir, numpy as numpy
except Exception as _error:
    if type(_error).__module__ != __name__:
        raise
    from .cli.wrong_settings import end_command as _end_command

    _end_command(_error)
    raise _error.with_traceback(None) from None  # a wrong setting, whichever file was being loaded
finally:
    if _collects:
        if not _gc.get_freeze_count():
            _gc.freeze()  # nor are they visited at once afterwards: both calls together
            _gc.unfreeze()  # move everything to the oldest generation
        _gc.enable()
from .ir import errors as errors
from .ir.config import config as config
from .ir.dims import dim as dim
from .ir.errors import (
    AliasError as AliasError,
    ArgumentError as ArgumentError,
    AttributeValueError as AttributeValueError,
    AxisError as AxisError,
    BoundsError as BoundsError,
    CallbackError as CallbackError,
    CheckError as CheckError,
    ConcretizationError as ConcretizationError,
    ConfigError as ConfigError,
    DeviceFailure as DeviceFailure,
    DeviceLostError as DeviceLostError,
    DeviceMemoryError as DeviceMemoryError,
    DeviceMismatchError as DeviceMismatchError,
    DeviceUnavailable as DeviceUnavailable,
    DivergenceError as DivergenceError,
    DonatedError as DonatedError,
    DtypeError as DtypeError,
    FileAccessError as FileAccessError,
    FileFormatError as FileFormatError,
    FileMissingError as FileMissingError,
    FusionError as FusionError,
    GradientError as GradientError,
    ImmutableError as ImmutableError,
    InternalError as InternalError,
    InUseError as InUseError,
    KernelBuildError as KernelBuildError,
    KeyReuseError as KeyReuseError,
    LeakedTracerError as LeakedTracerError,
    NanError as NanError,
    ParseError as ParseError,
    QueueFullError as QueueFullError,
    RecompileError as RecompileError,
    RlxError as RlxError,
    ShapeError as ShapeError,
    StaticArgumentError as StaticArgumentError,
    StructureError as StructureError,
    SymbolicSizeError as SymbolicSizeError,
    TaskTimeoutError as TaskTimeoutError,
    UnknownDeviceError as UnknownDeviceError,
    UnknownNameError as UnknownNameError,
    UnknownPrimitive as UnknownPrimitive,
    UnrolledLoopWarning as UnrolledLoopWarning,
    UnsupportedDtype as UnsupportedDtype,
    UnsupportedOp as UnsupportedOp,
    VerifyError as VerifyError,
    WorkerLostError as WorkerLostError,
)
from .ir.lazy import door as _door
from .ir.policy import Policy as Policy
from .ir.sharding import (
    Mesh as Mesh,
    NamedSharding as NamedSharding,
    PartitionSpec as PartitionSpec,
)
from .numpy import array as array, asarray as asarray
from .runtime import (
    CompiledGraph as CompiledGraph,
    CompileOptions as CompileOptions,
    Device as Device,
    Session as Session,
    block_until_ready as block_until_ready,
    debug as debug,
    default_device as default_device,
    device as device,
    device_get as device_get,
    device_put as device_put,
    devices as devices,
    doctor as doctor,
    precision as precision,
    register_backend as register_backend,
    show as show,
    unregister_backend as unregister_backend,
)
from .trace import pytree as _pytree
from .trace.array import Array as Array
from .trace.make_graph import (
    eval_shape as eval_shape,
    make_graph as make_graph,
    make_jaxpr as make_jaxpr,
    spec as spec,
    typeof as typeof,
)
from .trace.named import named_call as named_call, named_scope as named_scope
from .trace.tensor import TracedTensor as TracedTensor

__version__ = "0.1.0"

# as names of JAX
P = PartitionSpec
ShapeDtypeStruct = spec
tree = _pytree

if TYPE_CHECKING:
    from . import (
        flatten_util as flatten_util,
        image as image,
        interop as interop,
        io as io,
        lax as lax,
        models as models,
        nn as nn,
        ops as ops,
        optim as optim,
        quantization as quantization,
        random as random,
        scipy as scipy,
        serve as serve,
        train as train,
        tree_util as tree_util,
        workers as workers,
    )
    from .interop.coreml import export_coreml as export_coreml
    from .interop.export import (
        Exported as Exported,
        export as export,
        load_exported as load_exported,
    )
    from .interop.from_jax import from_jax as from_jax
    from .interop.graph_builder import Graph as Graph
    from .interop.to_jax import to_jax as to_jax, to_stablehlo as to_stablehlo
    from .io import load as load, save as save
    from .quantization.quantize import quantize as quantize
    from .rewriting.autograph import autograph as autograph
    from .runtime import distributed as distributed
    from .runtime.streams import Event as Event, Stream as Stream
    from .runtime.supports import supports as supports
    from .tools.costs import explain_device as explain_device
    from .tools.measure import CacheBuster as CacheBuster, Tick as Tick, time_ns as time_ns
    from .tools.nan_check import nan_check as nan_check
    from .tools.verify import verify as verify
    from .trace.callback import (
        check as check,
        io_callback as io_callback,
        pure_callback as pure_callback,
    )
    from .trace.control import cond as cond, switch as switch
    from .trace.scan import associative_scan as associative_scan, map as map
    from .transforms import (
        ad_checkpoint as ad_checkpoint,
        checkpoint_policies as checkpoint_policies,
        testing as testing,
    )
    from .transforms.ad_checkpoint import (
        checkpoint as checkpoint,
        checkpoint_name as checkpoint_name,
        remat as remat,
    )
    from .transforms.closures import closure_convert as closure_convert
    from .transforms.custom import (
        custom_jvp as custom_jvp,
        custom_vjp as custom_vjp,
        stop_gradient as stop_gradient,
    )
    from .transforms.custom_op import CustomOp as CustomOp, custom_op as custom_op
    from .transforms.forward import (
        hessian as hessian,
        hvp as hvp,
        jacfwd as jacfwd,
        jacobian as jacobian,
        jacrev as jacrev,
        jvp as jvp,
        linearize as linearize,
    )
    from .transforms.grad import (
        grad as grad,
        linear_transpose as linear_transpose,
        value_and_grad as value_and_grad,
        vjp as vjp,
    )
    from .transforms.jit.disable import disable_jit as disable_jit
    from .transforms.jit.jit import jit as jit, with_policy as with_policy
    from .transforms.jit.sequence import CallSequence as CallSequence, sequence as sequence
    from .transforms.jit.signature import no_recompile as no_recompile
    from .transforms.loops import fori_loop as fori_loop, scan as scan, while_loop as while_loop
    from .transforms.repeated import clear_caches as clear_caches
    from .transforms.reverse import custom_gradient as custom_gradient, fwd_and_bwd as fwd_and_bwd
    from .transforms.solve import (
        custom_linear_solve as custom_linear_solve,
        custom_root as custom_root,
    )
    from .transforms.vmap import vmap as vmap
    from .transforms.zeros import (
        CustomVJPPrimal as CustomVJPPrimal,
        Float0 as Float0,
        SymbolicZero as SymbolicZero,
        float0 as float0,
    )
    from .viz.explore import explore as explore
    from .viz.memory import memory_plan as memory_plan
    from .viz.profile import profile as profile
    from .workers import WorkerPool as WorkerPool
else:
    __getattr__, __dir__ = _door(
        __name__,
        (
            "flatten_util image interop io ir lax models nn numpy ops optim quantization random "
            "scipy serve train tree_util workers runtime.distributed transforms.ad_checkpoint "
            "transforms.checkpoint_policies transforms.testing"
        ).split(),
        {
            "interop": "Exported Graph export from_jax load_exported to_jax to_stablehlo",
            "interop.coreml": "export_coreml",
            "io": "load save",
            "quantization": "quantize",
            "rewriting.autograph": "autograph",
            "runtime.streams": "Event Stream",
            "runtime.supports": "supports",
            "tools.costs": "explain_device",
            "tools.measure": "CacheBuster Tick time_ns",
            "tools.nan_check": "nan_check",
            "tools.verify": "verify",
            "transforms.ad_checkpoint": "checkpoint checkpoint_name remat",
            "transforms.closures": "closure_convert",
            "transforms.custom": "custom_jvp custom_vjp stop_gradient",
            "transforms.custom_op": "CustomOp custom_op",
            "transforms.forward": "hessian hvp jacfwd jacobian jacrev jvp linearize",
            "transforms.grad": "grad linear_transpose value_and_grad vjp",
            "transforms.jit.disable": "disable_jit",
            "transforms.jit.jit": "jit with_policy",
            "transforms.jit.sequence": "CallSequence sequence",
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
            "viz.explore": "explore",
            "viz.memory": "memory_plan",
            "viz.profile": "profile",
            "workers": "WorkerPool",
        },
        errors.with_advice(
            "rlx",
            {
                "tensor": "use rlx.array",
                "Tensor": "use rlx.Array",
                "from_numpy": "use rlx.asarray",
                "manual_seed": "random numbers take a key: rlx.random.key(0)",
                **dict.fromkeys(
                    ("zeros", "ones", "arange", "exp", "sum", "mean", "stack"),
                    "it is in rlx.numpy",
                ),
                "no_grad": "only what rlx.grad wraps is differentiated; rlx.stop_gradient ends it",
                **{
                    name: f"use rlx.numpy.{name}"
                    for name in "where float32 float16 bfloat16 int32 concatenate einsum".split()
                },
                "cuda": 'rlx.devices() lists devices, x.to("cuda") moves an array',
                "tree_map": "use rlx.tree.map",
            },
        ),
    )

    _all_names = __dir__

    def __dir__() -> list[str]:
        return sorted({*_all_names()} - {*dir(errors)})  # which dir(rlx.errors) lists
