"""SciPy's functions on rlx arrays: `import rlx.scipy.special as special`.

Names and meaning are those of `jax.scipy`; SciPy itself is not used. A package is imported when
it is first named.

A function has the parameters of `jax.scipy`, in their order, and these mean the same everywhere:

- `x`, `y`, `z`, `a`, `b`: arrays, which are promoted and broadcast as those of `rlx.numpy`.
- `axis`: the axis to go along, counted from the end if negative; `keepdims`: it stays, of size 1.
- `dtype`, `shape`: those of the result.
- `check_finite`, `overwrite_a`, `overwrite_b`: taken for SciPy's sake, without effect.
- `precision`: taken for JAX's sake; products keep all digits.

Shapes that do not fit are a `ShapeError`, operands of the wrong kind are a `DtypeError`, a value
that is not known to an option is an `AttributeValueError`, an argument of another type an
`ArgumentError`.
"""

from typing import TYPE_CHECKING

from ..ir.errors import with_advice as _with_advice
from ..ir.lazy import door as _door

if TYPE_CHECKING:
    from . import (
        cluster as cluster,
        fft as fft,
        integrate as integrate,
        interpolate as interpolate,
        linalg as linalg,
        ndimage as ndimage,
        optimize as optimize,
        signal as signal,
        sparse as sparse,
        spatial as spatial,
        special as special,
        stats as stats,
    )
else:
    __getattr__, __dir__ = _door(
        __name__,
        (
            *("cluster", "fft", "integrate", "interpolate", "linalg", "ndimage"),
            *("optimize", "signal", "sparse", "spatial", "special", "stats"),
        ),
        {},
        _with_advice(__name__, {}),
    )
