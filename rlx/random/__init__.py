"""Random numbers from keys, bit for bit those of `jax.random`.

`rlx.random.normal(key, (3,))` gives three, which depend on nothing but the key, a uint32[2] array
made by `key`, and the shape. The same key gives the same numbers: split it, never use it twice;
the setting `key_reuse` makes that an error. `with rlx.random.stream(0):` gives
keys to functions that get None for one. Read `keys.py` first.

Distributions take a `key`, and return an array of the `shape` and `dtype`. Without a shape it is
that of the parameters, broadcast; the dtype is float32, or int32, if not given. A dtype of another
kind is a `DtypeError`, a shape that parameters do not broadcast to a `ShapeError`.
"""

from ..ir.lazy import listed as _listed
from .continuous import (
    cauchy as cauchy,
    double_sided_maxwell as double_sided_maxwell,
    exponential as exponential,
    gumbel as gumbel,
    laplace as laplace,
    logistic as logistic,
    lognormal as lognormal,
    maxwell as maxwell,
    multivariate_normal as multivariate_normal,
    normal as normal,
    orthogonal as orthogonal,
    pareto as pareto,
    rayleigh as rayleigh,
    triangular as triangular,
    truncated_normal as truncated_normal,
    uniform as uniform,
    wald as wald,
    weibull_min as weibull_min,
)
from .discrete import (
    bernoulli as bernoulli,
    binomial as binomial,
    categorical as categorical,
    choice as choice,
    geometric as geometric,
    multinomial as multinomial,
    permutation as permutation,
    poisson as poisson,
    rademacher as rademacher,
    randint as randint,
)
from .gamma import (
    ball as ball,
    beta as beta,
    chisquare as chisquare,
    dirichlet as dirichlet,
    f as f,
    gamma as gamma,
    generalized_normal as generalized_normal,
    loggamma as loggamma,
    t as t,
)
from .keys import (
    PRNGKey as PRNGKey,
    bits as bits,
    clone as clone,
    fold_in as fold_in,
    key as key,
    key_data as key_data,
    key_dtype as key_dtype,
    key_impl as key_impl,
    split as split,
    stream as stream,
    wrap_key_data as wrap_key_data,
)

__dir__ = _listed(__name__)
