"""Random numbers from keys, bit for bit those of `jax.random`.

`rlx.random.normal(key, (3,))` gives three. Enters: a key, a uint32[2] array made by `key`, and a
shape. Leaves: an array that depends on nothing else. The same key gives the same numbers: split it,
never use it twice. Read `keys.py` first.
"""

from .continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    normal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    uniform,
    weibull_min,
)
from .discrete import bernoulli, categorical, geometric, rademacher, randint
from .keys import PRNGKey, bits, fold_in, key, key_data, split, wrap_key_data
from .selection import choice, permutation
