"""`rlx cache`: the machine code that is kept on disk."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ..backends.disk import SUFFIX, disk_cache
from ..trace.arguments import count_of
from .info import size_text


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    about = "list: the newest entries; size: how much there is; clear: remove all"
    parser.add_argument("what", choices=("list", "size", "clear"), help=about)
    parser.add_argument("--most", type=int, default=20, metavar="N", help="list so many (20)")


def run(asked: argparse.Namespace) -> None:
    """Do it, and say what was done."""
    most = count_of("rlx cache: --most", asked.most)
    disk = disk_cache()
    if disk is None:
        print("nothing is kept on disk: RLX_CACHE is 0, or its directory cannot be used")
        return
    entries = sorted(disk.root.glob(f"*{SUFFIX}"), key=_used, reverse=True)
    whole = f"{len(entries)} entries, {size_text(sum(map(_size, entries)))}"
    if asked.what == "clear":
        for entry in entries:
            entry.unlink(missing_ok=True)
        print(f"removed {whole} from {disk.root}")
        return
    print(f"{disk.root}: {whole}, of at most {size_text(disk.limit)}")
    for entry in entries[:most] if asked.what == "list" else ():
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(_used(entry)))
        print(f"{used}  {size_text(_size(entry)):>8}  {entry.stem}")


def _used(entry: Path) -> float:
    """When it was used last; entries may go at any time."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _size(entry: Path) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0
