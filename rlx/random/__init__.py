"""Random numbers from keys, bit for bit those of `jax.random`.

`rlx.random.normal(key, (3,))` gives three, which depend on nothing but the key, a uint32[2] array
made by `key`, and the shape. The same key gives the same numbers: split it, never use it twice;
the setting `key_reuse` makes that an error. `with rlx.random.stream(0):` gives
keys to functions that get None for one. Read `keys.py` first.
"""

from ..ir.lazy import listed as _listed
from .continuous import (
    cauchy,
    double_sided_maxwell,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    multivariate_normal,
    normal,
    orthogonal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    uniform,
    wald,
    weibull_min,
)
from .discrete import (
    bernoulli,
    binomial,
    categorical,
    choice,
    geometric,
    multinomial,
    permutation,
    poisson,
    rademacher,
    randint,
)
from .gamma import ball, beta, chisquare, dirichlet, f, gamma, generalized_normal, loggamma, t
from .keys import (
    PRNGKey,
    bits,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    stream,
    wrap_key_data,
)

__dir__ = _listed(__name__)
