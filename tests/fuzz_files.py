"""Mutated files: each is refused with a `FileFormatError`, or read; memory stays bounded.

    python tests/fuzz_files.py --count 100000

makes that many mutations of a file of each format; the suite makes fewer. Half of those of archives
are made inside, under right checksums. Bytes, files that are read and files that are mapped take
turns. A mutated checkpoint gives the bits that were saved, or an error.
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gguf_writer import small_file
from torch_writer import archive, legacy_file, torch_file

import rlx
from rlx.io import from_bytes, to_bytes

ROOM = 64 << 20  # bytes beside the file's size
SLOW = 5.0  # seconds
TREE = {
    "layers": [{"weight": np.arange(6.0).reshape(2, 3), "bias": np.ones(3, ml_dtypes.bfloat16)}],
    "mask": np.array([True, False]),
    "none": np.zeros((0, 4), np.float32),
    "key": np.array([0, 7], np.uint32),
    "small": np.ones(4, ml_dtypes.float8_e5m2),
    "wave": np.array([1j]),
    "step": 12,
    "rate": 0.5,
}
TREE["tied"] = TREE["key"]
TABLE = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "half": np.ones(3, ml_dtypes.bfloat16),
    "mask": np.array([True, False]),
    "count": np.array(3),
    "step": 12,
    "rate": 0.5,
}
STATE = {key: x for key, x in TREE.items() if key != "tied"}


def checkpoint() -> bytes:
    """The file of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder, rlx.io.Checkpoints(folder) as checkpoints:
        checkpoints.save(1, STATE)
        checkpoints.wait()
        return checkpoints.path(1).read_bytes()


SEEDS: dict[str, Callable[[], bytes]] = {
    "safetensors": lambda: to_bytes(TREE, {"author": "me"}),
    "npz": lambda: to_bytes(TREE, {"author": "me"}, format="npz"),
    "pt": lambda: torch_file(TABLE),
    "legacy": lambda: legacy_file(TABLE),
    "gguf": small_file,
    "checkpoint": checkpoint,
}
TOKENS = [
    *(str(n).encode() for n in (0, 1, 2, 7, 8, 255, 4096, 2**31, 2**32, 2**60, 2**63, 10**30)),
    *(struct.pack(form, n) for form in ("<H", "<I", "<Q") for n in (0, 1, 2, 8, 0x7FFF, 0xFFFF)),
    *(struct.pack("<Q", n) for n in (2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)),
    *(b"-1", b"1e9", b"null", b"[]", b"{}", b'""', b",", b":", b'"', b"NaN", b"..", b"../../x"),
    *(b"F64", b"BF16", b"BOOL", b"C64", b"F8_E5M2", b"O8", b"<f8", b"|V2", b"True", b"\0", b"\xff"),
    *(b"(", b"t", b"u", b"e", b"s", b"a", b"R", b"b", b"q\0", b"h\0", b"Q", b".", b"2", b"0", b"]"),
    *(b"cos\nsystem\n", b"cbuiltins\neval\n", b"X\x04\0\0\0echo", b"\x85R", b"\x93", b"\x94"),
]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one to four changes."""
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        place = chance.randrange(len(found) + 1)
        length = chance.choice([1, 1, 2, 4, 8, chance.randrange(1, 80)])
        match chance.randrange(7):
            case 0:
                found[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                found[place : place + 1] = bytes(
                    [b ^ 1 << chance.randrange(8) for b in found[place : place + 1]]
                )
            case 2:
                del found[place : place + length]
            case 3:
                found[place:place] = found[place : place + length] * chance.choice([1, 1, 1000])
            case 4:
                token = chance.choice(TOKENS)
                found[place : place + len(token)] = token
            case 5:
                found[place:place] = chance.choice(TOKENS)
            case 6 if not chance.randrange(4):
                del found[place:]
    return bytes(found)


def mutated_inside(data: bytes, chance: random.Random) -> bytes:
    """An archive with one of its files changed, or called otherwise, and right checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        files = {name: whole.read(name) for name in whole.namelist()}
    name = chance.choice([*files, *(n for n in files if n.endswith((".pkl", "__.npy")))])
    if chance.randrange(8):
        files[name] = mutated(files[name], chance)
    else:
        files[chance.choice(["..", "/x", "a", "", name + ".npy", "../" + name])] = files.pop(name)
    return archive(files)


def read(kind: str, data: bytes, path: Path, way: int) -> None:
    """Read every array of a file in one of three ways."""
    if way or kind == "checkpoint":
        path.write_bytes(data)
    if kind == "checkpoint":
        found = rlx.io.Checkpoints(path.parent).restore(like=STATE, step=1)
        assert list(map(bits, rlx.tree.leaves(found))) == list(map(bits, rlx.tree.leaves(STATE)))
    elif way == 2:
        with rlx.io.open(path, mapped=True) as file:
            arrays = [file[name] for name in file]
        assert all(np.asarray(x) is not None for x in arrays)
    else:
        tree = rlx.load(path) if way else from_bytes(data, format=path.suffix[1:])
        assert all(np.asarray(x) is not None for x in rlx.tree.leaves(tree))


def bits(leaf: Any) -> tuple[Any, ...]:
    """What two leaves that are the same have in common."""
    array = np.asarray(leaf)
    return type(leaf) in (int, float), array.dtype, array.shape, array.tobytes()


def fuzz(kind: str, count: int, seed: int = 0) -> Counter[str]:
    """Load mutations of the seed of a format; count what came of it, fail at anything else."""
    data, chance, outcomes = SEEDS[kind](), random.Random(f"{kind} {seed}"), Counter[str]()
    is_archive = data[:2] == b"PK"
    suffix = {"legacy": "pt", "checkpoint": "safetensors"}.get(kind, kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"step_00000001.{suffix}")
        for number in range(count):
            is_inside = is_archive and number % 2 == 1
            changed = (mutated_inside if is_inside else mutated)(data, chance)
            start = time.perf_counter()
            try:
                read(kind, changed, path, number // 2 % 3)
                outcomes["read"] += 1
            except (rlx.FileFormatError, rlx.errors.StructureError) as error:
                is_misfit = isinstance(error, rlx.errors.StructureError)
                assert not is_misfit or kind == "checkpoint"
                assert error.fix and len(str(error)) < (4000 if is_misfit else 1000)
                outcomes["of other names" if is_misfit else "refused"] += 1
            except Exception as error:
                raise AssertionError(f"{kind} {seed}: mutation {number}: {changed!r}") from error
            assert time.perf_counter() - start < SLOW, f"{kind} {seed}: mutation {number} is slow"
    return outcomes


def main() -> None:
    """Fuzz every format, with no more memory than the house allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=SEEDS, help="one format")
    given = parser.parse_args()
    warnings.simplefilter("error")
    for kind in [given.only] if given.only else SEEDS:
        fuzz(kind, 50, -1)  # all that is loaded later is there
    if sys.platform == "linux":  # others do not say how much is in use
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    for kind in [given.only] if given.only else SEEDS:
        start = time.perf_counter()
        outcomes = fuzz(kind, given.count, given.seed)
        seconds = time.perf_counter() - start
        print(f"{kind}: {dict(outcomes)}, {seconds:.0f} s", flush=True)
    print("every file was refused or read")


if __name__ == "__main__":
    sys.exit(main())
