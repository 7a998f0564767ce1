"""The functions of `jax.lax` on rlx arrays: `from rlx import lax`.

They are close to the ops: nothing is promoted, and only scalars are broadcast; `rlx.numpy` does
both. Read `elementwise.py` first, `convolution.py` for convolutions.

A function has the parameters of `jax.lax`, in their order, and these mean the same everywhere:

- `x`, `y`, `a`, `b`, `operand`, `operands`, `array`, `lhs`, `rhs`: arrays of one dtype, and of one
  shape where the function is elementwise, which is then that of the result.
- `axis`, `dimension`: an axis, counted from the end if negative; `axes`, `dimensions`: several.
- `dtype`, `shape`: those of the result.
- `reverse`: go along the axis from the end.
- `precision`: taken for JAX's sake, products keep all digits; `preferred_element_type`: the dtype
  of their sums and result.
- `window_strides`, `strides`: the step of a window along each axis; `padding`: "VALID", "SAME",
  "SAME_LOWER" or (before, after) for each; `lhs_dilation`, `rhs_dilation`: the distance of elements
  of the array, and of the kernel; `lhs_shape`, `rhs_shape`: their shapes.
- `dimension_numbers`: which axes of the operands are which: of convolutions see
  `conv_dimension_numbers`, of products `dot_general`, else `GatherDimensionNumbers`.
- `index`, `start_index`, `start_indices`: where a slice begins, clamped so that it fits; negative
  ones count from the end, unless `allow_negative_indices` is False. `update` is what comes there.
- `scatter_indices`, `updates`: index vectors, on the last axis, and what comes to their windows;
  `mode`: what becomes of windows out of bounds.
- `axis_name`: a batch axis that `vmap` or a mesh names, or several in a tuple; `axis_index_groups`:
  None; groups of members are an `ArgumentError`.
- `unique_indices`, `indices_are_sorted`, `accuracy`: promises and hints, which have no effect.

Operands that do not fit are a `ShapeError`, those of different or wrong dtypes a `DtypeError`, an
axis outside of the array is an `AxisError`, a value that is not known to an option an
`AttributeValueError`, an argument of another type an `ArgumentError`.
"""

from ..ir.lazy import listed as _listed
from ..trace.scan import associative_scan as associative_scan
from ..transforms.custom import stop_gradient as stop_gradient
from ..transforms.loops import scan as scan
from ..transforms.solve import (
    custom_linear_solve as custom_linear_solve,
    custom_root as custom_root,
)
from . import linalg as linalg
from .contraction import (
    DotDimensionNumbers as DotDimensionNumbers,
    Precision as Precision,
    batch_matmul as batch_matmul,
    dot as dot,
    dot_general as dot_general,
    ragged_dot as ragged_dot,
    scaled_dot as scaled_dot,
)
from .control import (
    cond as cond,
    fori_loop as fori_loop,
    map as map,
    optimization_barrier as optimization_barrier,
    platform_dependent as platform_dependent,
    switch as switch,
    while_loop as while_loop,
)
from .convolution import (
    ConvDimensionNumbers as ConvDimensionNumbers,
    conv as conv,
    conv_dimension_numbers as conv_dimension_numbers,
    conv_general_dilated as conv_general_dilated,
    conv_general_dilated_local as conv_general_dilated_local,
    conv_general_dilated_patches as conv_general_dilated_patches,
    conv_general_permutations as conv_general_permutations,
    conv_general_shape_tuple as conv_general_shape_tuple,
    conv_shape_tuple as conv_shape_tuple,
    conv_transpose as conv_transpose,
    conv_transpose_shape_tuple as conv_transpose_shape_tuple,
    conv_with_general_padding as conv_with_general_padding,
)
from .elementwise import (
    FftType as FftType,
    RoundingMethod as RoundingMethod,
    abs as abs,
    acos as acos,
    acosh as acosh,
    add as add,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    bessel_i0e as bessel_i0e,
    bessel_i1e as bessel_i1e,
    betainc as betainc,
    bitcast_convert_type as bitcast_convert_type,
    bitwise_and as bitwise_and,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    cbrt as cbrt,
    ceil as ceil,
    clamp as clamp,
    clz as clz,
    complex as complex,
    conj as conj,
    convert_element_type as convert_element_type,
    cos as cos,
    cosh as cosh,
    digamma as digamma,
    div as div,
    eq as eq,
    erf as erf,
    erf_inv as erf_inv,
    erfc as erfc,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    fft as fft,
    floor as floor,
    ge as ge,
    gt as gt,
    igamma as igamma,
    igamma_grad_a as igamma_grad_a,
    igammac as igammac,
    imag as imag,
    integer_pow as integer_pow,
    is_finite as is_finite,
    le as le,
    lgamma as lgamma,
    log as log,
    log1p as log1p,
    logistic as logistic,
    lt as lt,
    max as max,
    min as min,
    mul as mul,
    mulhi as mulhi,
    ne as ne,
    neg as neg,
    nextafter as nextafter,
    polygamma as polygamma,
    population_count as population_count,
    pow as pow,
    random_gamma_grad as random_gamma_grad,
    real as real,
    reciprocal as reciprocal,
    reduce_precision as reduce_precision,
    rem as rem,
    round as round,
    rsqrt as rsqrt,
    select as select,
    select_n as select_n,
    shift_left as shift_left,
    shift_right_arithmetic as shift_right_arithmetic,
    shift_right_logical as shift_right_logical,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    sub as sub,
    tan as tan,
    tanh as tanh,
    zeta as zeta,
)
from .indexing import (
    GatherDimensionNumbers as GatherDimensionNumbers,
    GatherScatterMode as GatherScatterMode,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
    dynamic_index_in_dim as dynamic_index_in_dim,
    dynamic_slice as dynamic_slice,
    dynamic_slice_in_dim as dynamic_slice_in_dim,
    dynamic_update_index_in_dim as dynamic_update_index_in_dim,
    dynamic_update_slice as dynamic_update_slice,
    dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
    gather as gather,
    index_take as index_take,
    scatter as scatter,
    scatter_add as scatter_add,
    scatter_apply as scatter_apply,
    scatter_max as scatter_max,
    scatter_min as scatter_min,
    scatter_mul as scatter_mul,
    scatter_sub as scatter_sub,
)
from .parallel import (
    all_gather as all_gather,
    all_to_all as all_to_all,
    axis_index as axis_index,
    axis_size as axis_size,
    pmax as pmax,
    pmean as pmean,
    pmin as pmin,
    ppermute as ppermute,
    pshuffle as pshuffle,
    psum as psum,
    psum_scatter as psum_scatter,
    pswapaxes as pswapaxes,
)
from .reductions import (
    approx_max_k as approx_max_k,
    approx_min_k as approx_min_k,
    argmax as argmax,
    argmin as argmin,
    cumlogsumexp as cumlogsumexp,
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
    padtype_to_pads as padtype_to_pads,
    reduce as reduce,
    reduce_and as reduce_and,
    reduce_max as reduce_max,
    reduce_min as reduce_min,
    reduce_or as reduce_or,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
    reduce_window as reduce_window,
    reduce_window_shape_tuple as reduce_window_shape_tuple,
    reduce_xor as reduce_xor,
    sort as sort,
    sort_key_val as sort_key_val,
    top_k as top_k,
)
from .shapes import (
    broadcast as broadcast,
    broadcast_in_dim as broadcast_in_dim,
    broadcast_like as broadcast_like,
    broadcast_shapes as broadcast_shapes,
    broadcast_to_rank as broadcast_to_rank,
    broadcasted_iota as broadcasted_iota,
    collapse as collapse,
    concatenate as concatenate,
    empty as empty,
    expand_dims as expand_dims,
    full as full,
    full_like as full_like,
    index_in_dim as index_in_dim,
    iota as iota,
    pad as pad,
    reshape as reshape,
    rev as rev,
    shape_as_value as shape_as_value,
    slice as slice,
    slice_in_dim as slice_in_dim,
    split as split,
    squeeze as squeeze,
    stack as stack,
    tile as tile,
    transpose as transpose,
    unstack as unstack,
)

__dir__ = _listed(__name__, "linalg")
