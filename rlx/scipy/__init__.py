"""SciPy's functions on rlx arrays: `import rlx.scipy.linalg as linalg`.

Enters and leaves: arrays. Names and meaning are those of `jax.scipy`; SciPy itself is not used.
"""

from . import linalg
