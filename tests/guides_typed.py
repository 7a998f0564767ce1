"""Type checks of the examples and of the code in README.md and docs, as an editor makes them.

    python -m tests.guides_typed

writes each page's code to a file under out/typed and runs basedpyright on all of them, in its
standard mode, and mypy. `make lint` runs it.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = ROOT / "out" / "typed"
BLOCK = re.compile(r"^```pycon\n(.*?)^```", re.M | re.S)
CONFIG = {
    "include": ["."],
    "extraPaths": ["../.."],
    "pythonVersion": "3.11",
    "typeCheckingMode": "standard",
    "reportMissingImports": False,  # what examples use may not be installed
    "reportMissingModuleSource": False,
}


def pages() -> dict[str, str]:
    """The code of each example and of each page with any, by the name of a file."""
    found = {f"example_{p.stem}": p.read_text("utf-8") for p in (ROOT / "examples").glob("*.py")}
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        blocks = BLOCK.findall(path.read_text("utf-8"))
        if blocks:
            found[f"page_{path.stem}"] = "\n".join(map(doctest.script_from_examples, blocks))
    return found


def main() -> int:
    """Write the files and check them."""
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.py"):
        old.unlink()
    for name, code in pages().items():
        (OUT / f"{name}.py").write_text(code, "utf-8")
    (OUT / "pyrightconfig.json").write_text(json.dumps(CONFIG), "utf-8")
    pyright = [sys.executable, "-m", "basedpyright", "--level", "error", "-p", str(OUT)]
    failed = subprocess.run(pyright, cwd=OUT).returncode
    options = ["--ignore-missing-imports", "--follow-imports=silent", "--check-untyped-defs"]
    mypy = [sys.executable, "-m", "mypy", *options, "."]
    failed |= subprocess.run(mypy, cwd=OUT, env={**os.environ, "MYPYPATH": str(ROOT)}).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
