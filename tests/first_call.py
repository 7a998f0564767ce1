"""What a first call goes through, from `jit(f)(x)` to machine code: files, functions and calls.

    python tests/first_call.py

prints the files of rlx in the order in which a first call of `sum(tanh(x) * 2)` enters them, each
with its first function. The cache on disk is off, and ops without `jit` were not used before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = """
import sys
import numpy as np
import rlx

f = rlx.jit(lambda x: rlx.numpy.sum(rlx.numpy.tanh(x) * 2))
x = rlx.array(np.ones((16, 16), np.float32))  # larger ones open the device as they are made
folder = rlx.__path__[0] + "/"
entered = []  # the code object of each call


def note(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.startswith(folder):
        entered.append(frame.f_code)


sys.setprofile(note)
f(x)
sys.setprofile(None)
for code in entered:
    print(code.co_filename.removeprefix(folder), code.co_name, code.co_firstlineno)
"""


def entered() -> list[tuple[str, str, str]]:
    """The file, name and line of each function of rlx that a first call enters, in order."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RLX_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return [tuple(line.split(" ")) for line in done.stdout.splitlines()]  # type: ignore[misc]


def files_entered() -> dict[str, str]:
    """The files that a first call enters, each with its first function."""
    found: dict[str, str] = {}
    for file, name, _ in entered():
        found.setdefault(file, name)
    return found


def summary() -> str:
    """The counts on one line."""
    calls = entered()
    files = len({file for file, _, _ in calls})
    return f"a first call enters {files} files, {len(set(calls))} functions, in {len(calls)} calls"


if __name__ == "__main__":
    for path, function in files_entered().items():
        print(f"{path:<45}{function}")
    print(summary())
