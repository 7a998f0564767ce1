"""The gallery of examples: docs/examples.md, its pictures, and a page for each on the site.

    python -m tests.gallery --draw

runs the examples at full size, which takes minutes, and writes their pictures, made smaller, to
docs/pictures. `make gallery` does so.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
WIDTH, QUALITY = 960, 90  # pixels, and how much of the finest is kept
DRAWN = {"train_digits": "digits_predictions"}  # others draw out/NAME.png


def examples() -> list[Path]:
    """The examples, those of README.md's order first."""
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(\.\./examples/(\w+)\.py\)", page)
    return [ROOT / "examples" / f"{name}.py" for name in dict.fromkeys(named)]


def pages() -> dict[str, str]:
    """A page for each example: what it says of itself, its picture, its source."""
    return {path.stem: _page(path) for path in examples()}


def _page(path: Path) -> str:
    source = path.read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(source)) or ""
    title, _, rest = about.partition("\n")
    picture = PICTURES / f"{path.stem}.webp"
    shown = [f"![what {path.name} draws](../pictures/{picture.name})"] if picture.exists() else []
    run = f"    python examples/{path.name}"
    return "\n\n".join(
        [f"# {path.name}", title, rest.strip(), *shown, run, f"```python\n{source}```"]
    )


def draw(names: list[str]) -> None:
    """Run examples and keep their pictures, made smaller."""
    from PIL import Image

    PICTURES.mkdir(exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, ROOT / "examples" / f"{name}.py", "--out", folder]
            subprocess.run(command, check=True, cwd=ROOT)
            picture = Image.open(Path(folder) / f"{DRAWN.get(name, name)}.png").convert("RGB")
            picture.thumbnail((WIDTH, WIDTH))
            picture.save(PICTURES / f"{name}.webp", quality=QUALITY, method=6)


if __name__ == "__main__":
    if "--draw" in sys.argv:
        chosen = [x for x in sys.argv[1:] if x != "--draw"]
        draw(chosen or [p.stem for p in examples() if '"--out"' in p.read_text(encoding="utf-8")])
