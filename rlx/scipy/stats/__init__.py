"""Distributions and statistics under the names of `jax.scipy.stats`.

Each distribution is a module: `rlx.scipy.stats.norm.logpdf(x, loc, scale)`. Enters and leaves:
arrays; integers become float32. All of it differentiates, batches and compiles.
"""

from . import (
    bernoulli,
    beta,
    betabinom,
    binom,
    cauchy,
    chi2,
    dirichlet,
    expon,
    gamma,
    gennorm,
    geom,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    multinomial,
    multivariate_normal,
    nbinom,
    norm,
    pareto,
    poisson,
    t,
    truncnorm,
    uniform,
    vonmises,
    wrapcauchy,
)
from .kde import gaussian_kde
from .samples import mode, rankdata, sem
