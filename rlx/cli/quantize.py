"""`rlx quantize`: a GGUF file in other blocks."""

from __future__ import annotations

import argparse

from ..io.gguf_writing import write_quantized
from ..ir.errors import ArgumentError
from ..ir.files import as_path
from ..ir.ops.blocks import FORMATS
from .info import is_gguf, size_text


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("target", help="the file to write, NAME.gguf")
    parser.add_argument(
        "--format", choices=[*FORMATS], default="q4_0", help="of matrices (q4_0); others stay"
    )


def run(asked: argparse.Namespace) -> None:
    """Write the file, and print what became of its tensors."""
    source, target = as_path(asked.model), as_path(asked.target)
    if not is_gguf(source):
        raise ArgumentError(
            f"quantize: {asked.model!r} is no GGUF file, which it reads",
            fix="rlx.quantize(f, examples) takes any function or module of rlx",
        )
    if target.suffix.lower() != ".gguf":  # by which others know it
        raise ArgumentError(
            f"quantize: the name of the file to write is {asked.target!r}, which does not end with "
            ".gguf",
            fix=f"name it {asked.target}.gguf",
        )
    if source.exists() and target.exists() and source.samefile(target):
        raise ArgumentError("quantize: it would write over what it reads", fix="name another file")
    done = list(write_quantized(source, target, asked.format))
    kinds: dict[tuple[str, str], list[float]] = {}
    for tensor in done:
        kinds.setdefault((tensor.before, tensor.after), []).append(tensor.error)
    for (before, after), errors in kinds.items():
        what = f"{len(errors):4} tensors  {before:8} -> {after:8}"
        changed = f"off by {sum(errors) / len(errors):.2%} of their size" if before != after else ""
        print(f"{what} {changed}".rstrip())
    print(f"{size_text(source.stat().st_size)} -> {size_text(target.stat().st_size)}")
