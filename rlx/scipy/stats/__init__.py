"""Distributions and statistics under the names of `jax.scipy.stats`.

Each distribution is a class of functions: `rlx.scipy.stats.norm.logpdf(x, loc, scale)`. Integers
become float32. All of it differentiates, batches and compiles. Read `distribution.py` first.
"""

import sys as _sys
from typing import Any as _Any

from .continuous import (
    beta,
    cauchy,
    chi2,
    expon,
    gamma,
    gennorm,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    norm,
    pareto,
    t,
    truncnorm,
    uniform,
    vonmises,
    wrapcauchy,
)
from .discrete import bernoulli, betabinom, binom, geom, nbinom, poisson
from .distribution import Distribution as _Distribution
from .samples import gaussian_kde, mode, rankdata, sem
from .vectors import dirichlet, multinomial, multivariate_normal

# `import rlx.scipy.stats.norm` finds what is a module in jax.scipy.stats
_modules: dict[str, _Any] = _sys.modules  # type: ignore[assignment]
_modules.update({f"{__name__}.{each.__name__}": each for each in _Distribution.__subclasses__()})
