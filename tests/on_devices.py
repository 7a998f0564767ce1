"""Everything on every device: ops, gradients, random programs, parity with JAX, a training.

    python tests/on_devices.py                          all devices this machine has
    python tests/on_devices.py mlx opencl               these
    python tests/on_devices.py --page docs/devices.md   and write the page of what runs where

Each device is examined in a process of its own, so that one that crashes is reported and the
others go on; `--jobs` says how many at once (default: as many as processors). What is wrong ends
the command with an error; gaps are counted, with their reasons.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a script, from anywhere
    sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]

import numpy as np

import rlx
from rlx.ir.errors import UnsupportedDtype, UnsupportedOp
from rlx.ir.interpret import interpret
from rlx.runtime.session import CompileOptions, Session
from rlx.runtime.supports import graph_of, tolerance_of
from rlx.tools.conformance import cases, check_backend

ROOT = Path(__file__).parent.parent
PROGRAMS = 60
TOGETHER = 32  # gradients that are compiled before they run, as devices may build them at once
QUICK = CompileOptions(tier="fast")
WITH_DOUBLE = ["float64", "float64", "int32", "uint8", "bool", "complex128"]
WITHOUT_DOUBLE = ["float32", "float32", "int32", "bool"]
TOLERANCE = 64.0  # of gradients in units of a sample's own: they chain several ops
Found = Iterator[tuple[str, str, str]]  # what was run, the reason for a gap, the fault


def attempted(run: Callable[[], str]) -> tuple[str, str]:
    """The reason for a gap and the fault of one run; both empty if it agrees."""
    try:
        return "", run()
    except (UnsupportedOp, UnsupportedDtype) as error:
        return error.what, ""
    except Exception as error:  # whatever it is, it is to be reported
        return "", f"{type(error).__name__}: {error}".splitlines()[0]


def differs(found: Any, wanted: Any, tolerance: float) -> str:
    """In what arrays differ, empty if they agree."""
    for x, y in zip(found, wanted, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if y.dtype.kind not in "biufc":
            x, y = x.astype(np.float32), y.astype(np.float32)
        if x.shape != y.shape or not np.allclose(x, y, tolerance, tolerance, equal_nan=True):
            return f"{x.reshape(-1)[:4]} instead of {y.reshape(-1)[:4]}"
    return ""


def gradients(device: str) -> Found:
    """The cotangents of each smooth sample in float32, against the reference's."""
    session = Session(device)

    def compiled(graph: Any) -> Any:
        try:
            return session.compile(graph, options=QUICK)
        except Exception as error:  # to be reported by `attempted`
            return error

    def run(graph: Any, given: Any, made: Any) -> str:
        if isinstance(made, Exception):
            raise made
        results = made(*given)
        results = results if isinstance(results, tuple) else (results,)
        with np.errstate(all="ignore"):
            wanted = interpret(graph, given)
        return differs(results, wanted, TOLERANCE * tolerance_of(*graph.result_types))

    left = smooth_samples()
    while some := list(itertools.islice(left, TOGETHER)):
        each = [compiled(graph) for _, graph, _ in some]
        for (name, graph, given), made in zip(some, each, strict=True):
            yield name, *attempted(partial(run, graph, given, made))


def smooth_samples() -> Iterator[tuple[str, Any, list[Any]]]:
    """The name, the graph of cotangents and the arrays of each smooth sample."""
    from audit import Case, like
    from laws_of_change import FORWARD_ONLY, pulled

    for case, number in cases():
        smooth = Case(case.op, case.sample)
        arrays = case.in_dtype("float32")
        if not smooth.is_smooth or case.op.name in FORWARD_ONLY or arrays is None:
            continue
        graph = pulled(graph_of(case.op, arrays, case.attrs), smooth.active)
        cts = [np.zeros(p.type.shape, p.dtype) for p in graph.params[len(arrays) :]]
        yield f"{case.op.name}-{number}", graph, [*arrays, *like(cts, 1)]


def random_programs(device: str) -> Found:
    """Random programs of all families against the reference."""
    from libraries import OURS
    from opinions import flat
    from program_families import FAMILIES
    from program_lines import MIXED_RULES
    from programs import close, made, tolerance_of as third

    has_double = "float64" in Session(device).backend.target.stored
    for seed in range(PROGRAMS):
        dtypes = WITH_DOUBLE if has_double else WITHOUT_DOUBLE
        program = made(seed, MIXED_RULES + FAMILIES, dtypes)
        fn = flat(program, OURS, rlx)

        def run(program: Any = program, fn: Any = fn) -> str:
            found = rlx.jit(fn, device=device)(*program.inputs)
            wanted = rlx.jit(fn, device="reference")(*program.inputs)
            for x, y, limit in zip(found, wanted, program.tolerances, strict=True):
                assert x.dtype == y.dtype, f"{x.dtype}, not {y.dtype}"
                close(np.asarray(x), np.asarray(y), limit if third(y.dtype) else 0)
            return ""

        yield f"program {seed}", *attempted(run)


def parity(device: str) -> Found:
    """One in ten of the functions that JAX has, too, against what JAX gave."""
    from parity.differences import unlisted
    from parity.engine import check_recorded
    from parity.record import recorded, sample

    answers = recorded()
    with rlx.device(device):
        for case, laws in sample():
            checks = list(check_recorded(case, laws, answers))
            refused = [c.said for c in checks if c.said.startswith("Unsupported")]
            left = [c for c in checks if c.said not in refused]
            gap = refused[0].splitlines()[0].partition(": ")[2] if refused else ""
            yield f"{case.module}: {case.text}", gap, "; ".join(unlisted(case, left))


def digits(device: str) -> Found:
    """The demo: it must learn on each device as it does on the cpu."""
    script = ROOT / "examples" / "train_digits.py"
    out = ROOT / "out" / "digits" / device.replace(":", "_")
    options = ["--epochs", "3", "--out", str(out), "--device", device]
    done = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, cwd=ROOT
    )
    lines = [text for text in done.stdout.splitlines() if "accuracy" in text]
    share = float(lines[0].rpartition(" ")[2].rstrip("%")) if lines else 0.0
    fault = "" if share > 90 else done.stderr.strip().splitlines()[-1:] or f"{share} % are right"
    yield f"{share:.1f} % of digits right", "", str(fault or "")


PARTS = {"gradients": gradients, "programs": random_programs, "parity": parity, "digits": digits}


def examine(device: str) -> dict[str, Any]:
    """Everything on one device."""
    found: dict[str, Any] = {"device": device, "description": rlx.Device(device).description}
    try:
        conformance = check_backend(device, tier="fast")  # each program runs once
    except rlx.DivergenceError as error:
        conformance = error.conformance
    print(conformance, flush=True)
    found["ops"] = [vars(outcome) for outcome in conformance.outcomes]
    for name, part in PARTS.items():
        began = time.perf_counter()
        rows = list(part(device))
        faults = [f"{what}: {fault}" for what, _, fault in rows if fault]
        gaps = [f"{what}: {gap}" for what, gap, _ in rows if gap]
        told = rows[0][0] if len(rows) == 1 else f"{len(rows)} run"
        seconds = time.perf_counter() - began
        print(
            f"{device}: {name}: {told}, {len(faults)} wrong, {len(gaps)} refused, {seconds:.0f} s"
        )
        print("".join(f"  wrong: {fault}\n" for fault in faults), end="", flush=True)
        found[name] = {"count": len(rows), "told": told, "faults": faults, "gaps": gaps}
    return found


def is_right(found: dict[str, Any]) -> bool:
    """Whether nothing is wrong on a device."""
    ops = any(row["fault"] for row in found.get("ops", [{"fault": "it crashed"}]))
    return not ops and not any(found[name]["faults"] for name in PARTS)


def apart(device: str, out: Path) -> dict[str, Any]:
    """What a process of its own found on a device; empty if it crashed."""
    print(f"{device}: begins", flush=True)
    began = time.perf_counter()
    command = [sys.executable, __file__, "--one", device, "--out", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    # one text, so that those of two devices are not mixed
    print(f"{device}: ends after {time.perf_counter() - began:.0f} s\n{done.stdout}\n", end="")
    sys.stdout.flush()
    path = out / f"{device.replace(':', '_')}.json"
    return json.loads(path.read_text()) if done.returncode == 0 else {}


def main() -> None:
    """Examine devices, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("devices", nargs="*", help="devices by name (default: all that run here)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out" / "devices", help="for the results"
    )
    parser.add_argument("--page", type=Path, help="the page of what runs where to write")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="devices at once")
    parser.add_argument("--one", action="store_true", help="examine one device in this process")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.one:
        found = examine(asked.devices[0])
        name = asked.devices[0].replace(":", "_")
        (asked.out / f"{name}.json").write_text(json.dumps(found))
        return
    wanted = [rlx.Device(name) for name in asked.devices] or rlx.devices()
    for device in wanted:
        if not device.is_available():
            print(f"{device}: skipped: {device.reason}; {device.install}")
    here = [str(device) for device in wanted if device.is_available()]
    with ThreadPoolExecutor(max(asked.jobs, 1)) as pool:
        found = list(pool.map(lambda device: apart(device, asked.out), here))
    results = [each for each in found if each]
    pairs = zip(here, found, strict=True)
    wrong = [device for device, each in pairs if not each or not is_right(each)]
    if asked.page:
        from device_page import written

        asked.page.write_text(written(results))
        print(f"wrote {asked.page}")
    if wrong:
        sys.exit(f"wrong on {', '.join(wrong)}")


if __name__ == "__main__":
    main()
