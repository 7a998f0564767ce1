"""Space under the names of `jax.scipy.spatial`."""

from . import transform as transform
