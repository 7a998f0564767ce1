"""SciPy's functions on rlx arrays: `import rlx.scipy.special as special`.

Names and meaning are those of `jax.scipy`; SciPy itself is not used. A package is imported when
it is first named.
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
