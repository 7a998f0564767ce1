"""Linear maps without a matrix, under the names of `jax.scipy.sparse`."""

from . import linalg as linalg
