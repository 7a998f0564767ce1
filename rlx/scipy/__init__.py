"""SciPy's functions on rlx arrays: `import rlx.scipy.special as special`.

Enters and leaves: arrays. Names and meaning are those of `jax.scipy`; SciPy itself is not used.
A package is imported when it is first named.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import (
        cluster,
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        spatial,
        special,
        stats,
    )

PACKAGES = (
    *("cluster", "fft", "integrate", "interpolate", "linalg", "ndimage"),
    *("optimize", "signal", "sparse", "spatial", "special", "stats"),
)


def __getattr__(name: str) -> ModuleType:
    if name in PACKAGES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *PACKAGES]
