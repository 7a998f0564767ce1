"""Random programs of all families, for as long as one likes: `cpu`, `reference` and JAX compared.

    python tests/nightly.py --count 5000          the programs 0 to 4999, then a summary
    python tests/nightly.py --seconds 3600        as many as fit, from where the last run ended

What was done is kept in out/programs.json, so a run that is stopped goes on. A program that fails
is made smaller and written to out/failures/ as a script that shows what each library computes.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
FORGET = 100  # programs after which compiled code is dropped
LONGEST = 600  # seconds for one program


def work(out: Path, worker: int, workers: int, start: int, stop: int) -> None:
    """Check the programs of one worker that are not done yet, a line of JSON for each."""
    import jax
    from libraries import OURS
    from opinions import shrunk, verdict
    from programs import any_program

    import rlx

    done = passed(out)
    for seed in range(start + (worker - start) % workers, stop, workers):
        if str(seed) in done:
            continue
        say(seed=seed, begun=True)
        try:
            program = any_program(seed)
        except Exception as error:
            notes = "\n".join(getattr(error, "__notes__", []))
            say(seed=seed, ops=0, wrong=f"{type(error).__name__}: {error}", script=notes)
            continue
        wrong, script, ops = verdict(program), "", 0
        if wrong:
            small = shrunk(program)
            wrong, script = verdict(small) or wrong, repr(small)
        else:
            graph = rlx.make_graph(program.on(OURS))(*program.inputs)
            ops = sum(1 for _ in graph.walk())
        say(seed=seed, ops=ops, wrong=wrong, script=script)
        if seed % (FORGET * workers) < workers:
            jax.clear_caches()


def passed(out: Path) -> dict[str, int]:
    """How many ops each program had that had nothing wrong, in the runs so far."""
    state = out / "programs.json"
    if not state.exists():
        return {}
    kept = json.loads(state.read_text())
    return {seed: ops for seed, ops in kept["done"].items() if seed not in kept["failed"]}


def say(**record: Any) -> None:
    """Print a record for the parent."""
    print(json.dumps(record), flush=True)


class Run:
    """Workers, what they have done, and where it is kept."""

    def __init__(self, out: Path, start: int, stop: int, workers: int) -> None:
        self.out, self.stop, self.workers = out, stop, workers
        self.state = out / "programs.json"
        self.done = passed(out)
        self.failed: dict[str, str] = {}
        self.start = start
        self.processes: dict[int, subprocess.Popen] = {}
        self.begun: dict[int, tuple[int, float]] = {}  # the program each worker is at, since when
        self.start_after: dict[int, int] = {}  # what comes after one that ended its process
        self.waiting = selectors.DefaultSelector()
        self.began, self.before = time.monotonic(), len(self.done)
        (out / "failures").mkdir(parents=True, exist_ok=True)

    def launch(self, worker: int) -> None:
        """Start a process that checks what is left for a worker."""
        self.save()
        numbers = [worker, self.workers, self.start_after.get(worker, self.start), self.stop]
        options = ["--out", str(self.out), "--work", *map(str, numbers)]
        command = [sys.executable, __file__, *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.processes[worker] = process
        self.waiting.register(process.stdout, selectors.EVENT_READ, worker)

    def take(self, record: dict[str, Any]) -> None:
        """Keep what a worker says of a program."""
        seed = record["seed"]
        self.done[str(seed)] = record["ops"]
        if record["wrong"]:
            self.failed[str(seed)] = record["wrong"][:2000]
            comment = "\n".join(f"# {line}" for line in record["wrong"].splitlines())
            path = self.out / "failures" / f"program_{seed}.py"
            path.write_text(f"{comment}\n{record['script']}\n")
            first = record["wrong"].splitlines()[0] if record["wrong"].strip() else "?"
            print(f"program {seed} fails: {first[:150]}  -> {path}", flush=True)
        if len(self.done) % 50 == 0:
            self.save()

    def save(self) -> None:
        """Write down what was done, and say how far it is."""
        self.state.write_text(json.dumps({"done": self.done, "failed": self.failed}))
        rate = (len(self.done) - self.before) / (time.monotonic() - self.began)
        print(f"{len(self.done)} done, {len(self.failed)} failed, {rate:.2f} a second", flush=True)

    def follow(self, seconds: float) -> None:
        """Run the workers to the end, or until the time is over; one that dies is started again."""
        try:
            for worker in range(self.workers):
                self.launch(worker)
            while self.waiting.get_map() and time.monotonic() - self.began < seconds:
                for key, _ in self.waiting.select(timeout=1):
                    self.hear(key.data, key.fileobj)
                for worker, (_, since) in self.begun.items():
                    if time.monotonic() - since > LONGEST:
                        self.processes[worker].kill()
        finally:
            for process in self.processes.values():
                process.kill()
            self.save()

    def hear(self, worker: int, stream: Any) -> None:
        """Take one line of a worker, or its end."""
        line = stream.readline()
        record = json.loads(line) if line.startswith("{") else {}
        if record.get("begun"):
            self.begun[worker] = record["seed"], time.monotonic()
        elif record:
            self.begun.pop(worker, None)
            self.take(record)
        if line:
            return
        self.waiting.unregister(stream)
        if worker in self.begun:  # it died at its work
            seed, _ = self.begun.pop(worker)
            self.take({"seed": seed, "ops": 0, "wrong": "it ends its process", "script": ""})
            self.start_after[worker] = seed + 1
            self.launch(worker)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=ROOT / "out")
    parser.add_argument("--work", type=int, nargs=4)
    options = parser.parse_args()
    if options.work:
        return work(options.out, *options.work)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    run = Run(options.out, options.start, options.start + options.count, options.workers)
    run.follow(options.seconds)
    return sys.exit(1 if run.failed else 0)


if __name__ == "__main__":
    main()
