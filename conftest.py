"""The tests, and the processes they start, compile everything: no cache on disk."""

import os

os.environ["RLX_CACHE"] = "0"  # before rlx reads it
