"""SciPy's functions on rlx arrays: `import rlx.scipy.special as special`.

Enters and leaves: arrays. Names and meaning are those of `jax.scipy`; SciPy itself is not used.
"""

from . import linalg, special
