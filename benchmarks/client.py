"""The parent's side of a worker: asks, waits, and knows when it has died."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import tempfile
import threading
from typing import Any

LIMIT_SECONDS = 900.0


class Failure(Exception):
    """A worker that could not do what was asked; `lacks`: its library has no such word."""

    def __init__(self, reason: str, lacks: bool = False) -> None:
        super().__init__(reason)
        self.lacks = lacks


class Client:
    """A worker process, started when it is first asked and again after it died."""

    def __init__(self, name: str, precise: bool = False, limit: float = LIMIT_SECONDS) -> None:
        self.name, self.limit = name, limit
        self.command = [sys.executable, "-m", "benchmarks.worker", name]
        self.command += ["precise"] if precise else []
        self.process: subprocess.Popen[bytes] | None = None
        self.errors = tempfile.TemporaryFile()

    def ask(self, method: str, *arguments: Any) -> Any:
        """The worker's answer; raise `Failure` for anything else."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors
            )
            self._reply()
        assert self.process.stdin is not None
        try:
            pickle.dump((method, arguments), self.process.stdin)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None
        return self._reply()

    def _reply(self) -> Any:
        assert self.process is not None
        assert self.process.stdout is not None
        too_long = threading.Event()

        def stop(process: subprocess.Popen[bytes]) -> None:
            too_long.set()
            process.kill()

        timer = threading.Timer(self.limit, stop, [self.process])
        timer.start()
        try:
            outcome, value = pickle.load(self.process.stdout)
        except (EOFError, pickle.UnpicklingError):
            death = self._death()
            raise Failure(f"took over {self.limit:.0f} s") if too_long.is_set() else death from None
        finally:
            timer.cancel()
        if outcome == "done":
            return value
        raise Failure(value, outcome == "lacks")

    def _death(self) -> Failure:
        """What is known about the end of the process, which a new one will follow."""
        assert self.process is not None
        code = self.process.wait()
        self._closed_pipes()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return Failure(f"died with code {code}: {lines[-1] if lines else 'nothing was said'}")

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._closed_pipes()
        self.errors.close()

    def _closed_pipes(self) -> None:
        """Forget the process."""
        for pipe in (self.process.stdin, self.process.stdout) if self.process else ():
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process = None
