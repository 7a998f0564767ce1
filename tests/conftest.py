"""Tests compile what they test: nothing comes from an earlier run, nor goes to the user's cache."""

import os

os.environ["RLX_CACHE"] = "0"
