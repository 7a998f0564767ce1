"""Distributions and statistics under the names of `jax.scipy.stats`.

Each distribution is a class of functions: `rlx.scipy.stats.norm.logpdf(x, loc, scale)`. Integers
become float32. All of it differentiates, batches and compiles. Read `distribution.py` first.

Functions of distributions take values `x`, or counts `k`; a probability `q`, or `p`, of which `ppf`
and `isf` give the value; then parameters: `loc` and `scale`, or those of the shape by SciPy's names
(`a`, `b`, `c`, `n`, `p`, `mu`, `alpha`, `beta`, `kappa`, `mean`, `cov`). All are broadcast. Where
parameters are invalid the result is NaN. `nan_policy` is "propagate"; `sem` takes "omit", too.
"""

import sys as _sys
from typing import Any as _Any

from .continuous import (
    beta as beta,
    cauchy as cauchy,
    chi2 as chi2,
    expon as expon,
    gamma as gamma,
    gennorm as gennorm,
    gumbel_l as gumbel_l,
    gumbel_r as gumbel_r,
    laplace as laplace,
    logistic as logistic,
    norm as norm,
    pareto as pareto,
    t as t,
    truncnorm as truncnorm,
    uniform as uniform,
    vonmises as vonmises,
    wrapcauchy as wrapcauchy,
)
from .discrete import (
    bernoulli as bernoulli,
    betabinom as betabinom,
    binom as binom,
    geom as geom,
    nbinom as nbinom,
    poisson as poisson,
)
from .distribution import Distribution as _Distribution
from .samples import gaussian_kde as gaussian_kde, mode as mode, rankdata as rankdata, sem as sem
from .vectors import (
    dirichlet as dirichlet,
    multinomial as multinomial,
    multivariate_normal as multivariate_normal,
)

# `import rlx.scipy.stats.norm` finds what is a module in jax.scipy.stats
_modules: dict[str, _Any] = _sys.modules  # type: ignore[assignment]
_modules.update({f"{__name__}.{each.__name__}": each for each in _Distribution.__subclasses__()})
