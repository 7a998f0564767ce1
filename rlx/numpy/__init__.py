"""NumPy's functions on rlx arrays: `import rlx.numpy as rnp`.

Functions take arrays, traced tensors, NumPy arrays and Python numbers. They are composed from ops,
so all of them differentiate, batch and compile. Read `elementwise.py` first.

A function has NumPy's parameters, in NumPy's order, and these mean the same everywhere:

- `x`, `y`, `x1`, `x2`, `a`, `b`, `c`, `m`, `v`, `arr`, `ary`, `array`: the operands. Several are
  promoted to one dtype and broadcast to one shape, which is that of an elementwise result.
- `axis`, `axes`: the axis to go along, counted from the end if negative; a tuple of several, or
  None for all, where a docstring says nothing else. `axis1` and `axis2` are two.
- `dtype`, `shape`: those of the result; by default the dtype follows from the operands, and is
  float32 for functions that give no integers.
- `keepdims`: reduced axes stay, of size 1.
- `where`: bools, which elements count; `initial`: a number that the reduction begins with.
- `n`: how many elements; `k`, `offset`: a diagonal, 0 the main one, those above are positive.
- `arrays`, `arys`, `tup`: several arrays; `indices_or_sections`: how many equal parts, or the
  indices at which parts begin.
- `size`: how long a result is whose size depends on numbers, needed in traced code; `fill_value`:
  what a shorter one is padded with.
- `copy`: whether the result is a copy; `order`: taken for NumPy's sake, memory is row-major.
- `device`: the device of the result. `out`: None; arrays are immutable, and another is an
  `ImmutableError`. So is `inplace=True`, and `overwrite_input` has no effect.
- `precision`: taken for JAX's sake, products keep all digits; `preferred_element_type`: the dtype
  of their sums and result.

Operands that do not broadcast are a `ShapeError`, an axis outside of the array is an `AxisError`,
an operand or dtype of the wrong kind is a `DtypeError`, a value that is not known to an option is
an `AttributeValueError`, an argument of another type an `ArgumentError`.
"""

import sys
from typing import TYPE_CHECKING

from ..ir.errors import with_advice as _with_advice
from ..ir.lazy import door as _door
from ..trace.index.read import getitem as getitem
from ..trace.index.update import assign as _assign, at as at, in_place as in_place
from ..trace.operators import FUNCTIONS as _FUNCTIONS
from ..trace.promotion import result_type as result_type
from .arithmetic import (
    abs as abs,
    absolute as absolute,
    angle as angle,
    around as around,
    astype as astype,
    ceil as ceil,
    clip as clip,
    conj as conj,
    conjugate as conjugate,
    copysign as copysign,
    deg2rad as deg2rad,
    degrees as degrees,
    fabs as fabs,
    fix as fix,
    float_power as float_power,
    floor as floor,
    heaviside as heaviside,
    hypot as hypot,
    imag as imag,
    ldexp as ldexp,
    log2 as log2,
    log10 as log10,
    nan_to_num as nan_to_num,
    positive as positive,
    pow as pow,
    power as power,
    rad2deg as rad2deg,
    radians as radians,
    real as real,
    reciprocal as reciprocal,
    rint as rint,
    round as round,
    sign as sign,
    signbit as signbit,
    sinc as sinc,
    square as square,
    trunc as trunc,
)
from .constants import *  # noqa: F403 (what its `__all__` lists)
from .creation import (
    arange as arange,
    array as array,
    asarray as asarray,
    copy as copy,
    diag as diag,
    diagflat as diagflat,
    diagonal as diagonal,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    from_dlpack as from_dlpack,
    fromfunction as fromfunction,
    full as full,
    full_like as full_like,
    geomspace as geomspace,
    identity as identity,
    indices as indices,
    linspace as linspace,
    logspace as logspace,
    meshgrid as meshgrid,
    ones as ones,
    ones_like as ones_like,
    trace as trace,
    tri as tri,
    tril as tril,
    triu as triu,
    vander as vander,
    zeros as zeros,
    zeros_like as zeros_like,
)
from .elementwise import (
    acos as acos,
    acosh as acosh,
    arccos as arccos,
    arccosh as arccosh,
    arcsin as arcsin,
    arcsinh as arcsinh,
    arctan as arctan,
    arctan2 as arctan2,
    arctanh as arctanh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    bitwise_invert as bitwise_invert,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not,
    bitwise_right_shift as bitwise_right_shift,
    cbrt as cbrt,
    cos as cos,
    cosh as cosh,
    divide as divide,
    equal as equal,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    greater as greater,
    greater_equal as greater_equal,
    invert as invert,
    left_shift as left_shift,
    less as less,
    less_equal as less_equal,
    log as log,
    log1p as log1p,
    not_equal as not_equal,
    right_shift as right_shift,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    tan as tan,
    tanh as tanh,
    true_divide as true_divide,
)
from .logic import (
    allclose as allclose,
    array_equal as array_equal,
    array_equiv as array_equiv,
    isclose as isclose,
    iscomplex as iscomplex,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    isneginf as isneginf,
    isposinf as isposinf,
    isreal as isreal,
    logical_not as logical_not,
    select as select,
)
from .manipulation import (
    append as append,
    array_split as array_split,
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    broadcast_arrays as broadcast_arrays,
    broadcast_shapes as broadcast_shapes,
    broadcast_to as broadcast_to,
    column_stack as column_stack,
    concat as concat,
    concatenate as concatenate,
    dsplit as dsplit,
    dstack as dstack,
    expand_dims as expand_dims,
    flatten as flatten,
    flip as flip,
    fliplr as fliplr,
    flipud as flipud,
    hsplit as hsplit,
    hstack as hstack,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    permute_dims as permute_dims,
    ravel as ravel,
    repeat as repeat,
    reshape as reshape,
    roll as roll,
    rollaxis as rollaxis,
    rot90 as rot90,
    row_stack as row_stack,
    split as split,
    squeeze as squeeze,
    stack as stack,
    swapaxes as swapaxes,
    tile as tile,
    transpose as transpose,
    unstack as unstack,
    vsplit as vsplit,
    vstack as vstack,
)
from .reductions import (
    all as all,
    amax as amax,
    amin as amin,
    any as any,
    argmax as argmax,
    argmin as argmin,
    count_nonzero as count_nonzero,
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
    diff as diff,
    ediff1d as ediff1d,
    max as max,
    min as min,
    prod as prod,
    ptp as ptp,
    sum as sum,
    trapezoid as trapezoid,
)
from .ufuncs import (
    add as add,
    apply_along_axis as apply_along_axis,
    apply_over_axes as apply_over_axes,
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    frompyfunc as frompyfunc,
    logaddexp as logaddexp,
    logaddexp2 as logaddexp2,
    logical_and as logical_and,
    logical_or as logical_or,
    logical_xor as logical_xor,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    negative as negative,
    subtract as subtract,
    ufunc as ufunc,
    vectorize as vectorize,
)

setitem = _assign

if TYPE_CHECKING:
    from . import fft as fft, linalg as linalg
    from .bits import (
        bitwise_count as bitwise_count,
        fmax as fmax,
        fmin as fmin,
        frexp as frexp,
        nextafter as nextafter,
        packbits as packbits,
        piecewise as piecewise,
        spacing as spacing,
        unpackbits as unpackbits,
        unwrap as unwrap,
        view as view,
    )
    from .contraction import (
        convolve as convolve,
        correlate as correlate,
        cross as cross,
        dot as dot,
        inner as inner,
        kron as kron,
        matmul as matmul,
        matvec as matvec,
        outer as outer,
        tensordot as tensordot,
        vdot as vdot,
        vecdot as vecdot,
        vecmat as vecmat,
    )
    from .distribution import (
        bincount as bincount,
        histogram as histogram,
        histogram2d as histogram2d,
        histogram_bin_edges as histogram_bin_edges,
        histogramdd as histogramdd,
        median as median,
        nanmedian as nanmedian,
        nanpercentile as nanpercentile,
        nanquantile as nanquantile,
        percentile as percentile,
        quantile as quantile,
    )
    from .division import (
        divmod as divmod,
        floor_divide as floor_divide,
        fmod as fmod,
        gcd as gcd,
        lcm as lcm,
        mod as mod,
        modf as modf,
        remainder as remainder,
    )
    from .files import (
        frombuffer as frombuffer,
        fromfile as fromfile,
        fromiter as fromiter,
        fromstring as fromstring,
        load as load,
        save as save,
        savez as savez,
    )
    from .grids import (
        c_ as c_,
        diag_indices as diag_indices,
        diag_indices_from as diag_indices_from,
        gradient as gradient,
        index_exp as index_exp,
        ix_ as ix_,
        mask_indices as mask_indices,
        mgrid as mgrid,
        ogrid as ogrid,
        r_ as r_,
        s_ as s_,
        tril_indices as tril_indices,
        tril_indices_from as tril_indices_from,
        triu_indices as triu_indices,
        triu_indices_from as triu_indices_from,
    )
    from .indexing import (
        argwhere as argwhere,
        choose as choose,
        compress as compress,
        delete as delete,
        extract as extract,
        fill_diagonal as fill_diagonal,
        flatnonzero as flatnonzero,
        insert as insert,
        nonzero as nonzero,
        place as place,
        put as put,
        put_along_axis as put_along_axis,
        putmask as putmask,
        take as take,
        take_along_axis as take_along_axis,
        where as where,
    )
    from .inspection import (
        __array_api_version__ as __array_api_version__,
        __array_namespace__ as __array_namespace__,
        __array_namespace_info__ as __array_namespace_info__,
        array_repr as array_repr,
        array_str as array_str,
        can_cast as can_cast,
        finfo as finfo,
        get_printoptions as get_printoptions,
        iinfo as iinfo,
        iscomplexobj as iscomplexobj,
        isdtype as isdtype,
        isrealobj as isrealobj,
        isscalar as isscalar,
        issubdtype as issubdtype,
        iterable as iterable,
        ndim as ndim,
        printoptions as printoptions,
        promote_types as promote_types,
        set_printoptions as set_printoptions,
        shape as shape,
        size as size,
    )
    from .padding import block as block, pad as pad, resize as resize
    from .places import ravel_multi_index as ravel_multi_index, unravel_index as unravel_index
    from .polynomial import (
        bartlett as bartlett,
        blackman as blackman,
        hamming as hamming,
        hanning as hanning,
        i0 as i0,
        interp as interp,
        kaiser as kaiser,
        poly as poly,
        polyadd as polyadd,
        polyder as polyder,
        polydiv as polydiv,
        polyfit as polyfit,
        polyint as polyint,
        polymul as polymul,
        polysub as polysub,
        polyval as polyval,
        roots as roots,
    )
    from .protocols import (
        __array_function__ as __array_function__,
        __array_ufunc__ as __array_ufunc__,
    )
    from .sets import (
        intersect1d as intersect1d,
        isin as isin,
        setdiff1d as setdiff1d,
        setxor1d as setxor1d,
        trim_zeros as trim_zeros,
        union1d as union1d,
        unique as unique,
        unique_all as unique_all,
        unique_counts as unique_counts,
        unique_inverse as unique_inverse,
        unique_values as unique_values,
    )
    from .sorting import (
        argpartition as argpartition,
        argsort as argsort,
        digitize as digitize,
        lexsort as lexsort,
        partition as partition,
        searchsorted as searchsorted,
        sort as sort,
        sort_complex as sort_complex,
    )
    from .statistics import (
        average as average,
        corrcoef as corrcoef,
        cov as cov,
        mean as mean,
        nanargmax as nanargmax,
        nanargmin as nanargmin,
        nancumprod as nancumprod,
        nancumsum as nancumsum,
        nanmax as nanmax,
        nanmean as nanmean,
        nanmin as nanmin,
        nanprod as nanprod,
        nanstd as nanstd,
        nansum as nansum,
        nanvar as nanvar,
        std as std,
        var as var,
    )
    from .subscripts import einsum as einsum, einsum_path as einsum_path
else:
    __getattr__, __dir__ = _door(
        __name__,
        ("fft", "linalg"),
        {
            "bits": """bitwise_count fmax fmin frexp nextafter packbits piecewise spacing unpackbits
                unwrap view""",
            "contraction": """convolve correlate cross dot inner kron matmul matvec outer tensordot
                vdot vecdot vecmat""",
            "division": "divmod floor_divide fmod gcd lcm mod modf remainder",
            "indexing": """argwhere choose compress delete extract fill_diagonal flatnonzero insert
                nonzero place put put_along_axis putmask take take_along_axis where""",
            "distribution": """bincount histogram histogram2d histogram_bin_edges histogramdd median
                nanmedian nanpercentile nanquantile percentile quantile""",
            "files": "frombuffer fromfile fromiter fromstring load save savez",
            "grids": """c_ diag_indices diag_indices_from gradient index_exp ix_ mask_indices mgrid
                ogrid r_ s_ tril_indices tril_indices_from triu_indices triu_indices_from""",
            "inspection": """__array_api_version__ __array_namespace__ __array_namespace_info__
                array_repr array_str can_cast finfo get_printoptions iinfo iscomplexobj isdtype
                isrealobj isscalar issubdtype iterable ndim printoptions promote_types
                set_printoptions shape size""",
            "padding": "block pad resize",
            "protocols": "__array_function__ __array_ufunc__",
            "places": "ravel_multi_index unravel_index",
            "polynomial": """bartlett blackman hamming hanning i0 interp kaiser poly polyadd polyder
                polydiv polyfit polyint polymul polysub polyval roots""",
            "sets": """intersect1d isin setdiff1d setxor1d trim_zeros union1d unique unique_all
                unique_counts unique_inverse unique_values""",
            "sorting": """argpartition argsort digitize lexsort partition searchsorted sort
                sort_complex""",
            "subscripts": "einsum einsum_path",
            "statistics": """average corrcoef cov mean nanargmax nanargmin nancumprod nancumsum
                nanmax nanmean nanmin nanprod nanstd nansum nanvar std var""",
        },
        _with_advice(__name__, {}),
    )

_FUNCTIONS.module = sys.modules[__name__]
