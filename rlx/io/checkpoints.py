"""Checkpoints of a training run: whole files, written while training goes on."""

from __future__ import annotations

import re
import shutil
import threading
import warnings
import weakref
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from ..ir.errors import AttributeValueError, FileFormatError, FileMissingError
from ..ir.files import as_path, naming, reaching
from ..trace.arguments import count_of, flag
from .contents import Contents, refuse
from .files import Table, checksum, collected, write
from .filling import filled, misfit
from .safetensors_files import read_safetensors
from .sources import FileBytes

NAME = re.compile(r"step_([0-9]{8,})\.safetensors")
GREATEST_STEP = 10**18


class Checkpoints:
    """Checkpoints of a training run in a `directory`; one process writes at a time.

    - `keep`: how many of the last steps stay; None keeps all. Of older ones those stay whose step
      is a multiple of `keep_every`.
    - `asynchronous`: `save` returns when it has the arrays, and a thread writes them. An error of
      that thread is raised by the next call; `wait` waits for it, as does the end of a `with`. If
      no call follows, it is a `RuntimeWarning` when the program ends.

    A file is written beside its place, is on the disk before it moves there, and has a checksum, so
    a process that is killed at any moment leaves the last checkpoint as it was.

    >>> import tempfile, rlx
    >>> state = {"w": rlx.numpy.ones(2), "key": rlx.random.key(0), "step": 0}
    >>> with Checkpoints(tempfile.mkdtemp(), keep=2) as checkpoints:
    ...     for step in (10, 20, 30):
    ...         checkpoints.save(step, {**state, "step": step})
    >>> checkpoints.steps(), checkpoints.latest()
    ([20, 30], 30)
    >>> checkpoints.restore(like=state)["step"]
    30
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        keep: int | None = 3,
        *,
        keep_every: int | None = None,
        asynchronous: bool = True,
    ) -> None:
        self._directory = as_path(directory)
        self._keep = None if keep is None else count_of("Checkpoints: keep", keep, 1)
        every = None if keep_every is None else count_of("Checkpoints: keep_every", keep_every, 1)
        self._keep_every = every
        self._is_asynchronous = flag("Checkpoints: asynchronous", asynchronous)
        self._is_first = True  # nothing was saved yet
        self._thread: threading.Thread | None = None
        self._failed: list[tuple[Path, BaseException]] = []  # in the thread, and not raised yet
        weakref.finalize(self, _warn_of, self._failed)

    def save(self, step: int, state: Any) -> None:
        """Save the `state` of training at a `step`.

        The state is a tree: model, optimizer state and keys. Waits for the checkpoint before this
        one to be written, so at most one is in memory. A step before the newest one is an error,
        unless that is damaged: `restore` would not find it.
        """
        self.wait()
        step = count_of("Checkpoints.save: step", step, 0, GREATEST_STEP)
        arrays, notes = collected(state)
        self._prepare(step)
        if not self._is_asynchronous:
            self._write(step, arrays, notes)
            return
        # what others may write to while the thread reads
        arrays = {n: x.copy() if x.flags.writeable else x for n, x in arrays.items()}
        work = threading.Thread(target=self._write_aside, args=(step, arrays, notes))
        self._thread = work
        work.start()

    def wait(self) -> None:
        """Wait until the last checkpoint is on the disk; raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failed:
            raise self._failed.pop()[1]

    def steps(self) -> list[int]:
        """The steps that are there, in order; damaged files are among them."""
        self.wait()
        return self._steps()

    def latest(self) -> int | None:
        """The last step whose size and header are right; None if there is none."""
        for step in reversed(self.steps()):
            try:
                read_safetensors(FileBytes(self.path(step)))
                return step
            except FileFormatError:
                continue
        return None

    def path(self, step: int) -> Path:
        """The file of a `step`."""
        return self._directory / f"step_{step:08d}.safetensors"

    def restore(self, like: Any, step: int | None = None) -> Any:
        """Return the state of `step`, the last by default, as a tree like `like`.

        A damaged file is passed over for the one before it, with a warning; if the step was named
        it is a `FileFormatError`. Without any checkpoint it is a `FileMissingError`.
        """
        steps = self.steps()
        if step is not None:
            step = count_of("Checkpoints.restore: step", step, 0, GREATEST_STEP)
        if not steps or (step is not None and step not in steps):
            wanted = "no checkpoint" if step is None else f"no checkpoint of step {step}"
            there = f"the steps are {', '.join(map(str, steps[-10:]))}" if steps else "save one"
            raise FileMissingError(
                f"there is {wanted} in {str(self._directory)!r}",
                fix=f"{there}; latest() is None where there is none",
            )
        if step is not None:
            return self._restored(step, like)
        for newest in reversed(steps):
            try:
                return self._restored(newest, like)
            except FileFormatError as error:
                text = f"the checkpoint of step {newest} is passed over: {error.what}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        raise FileFormatError(
            f"all {len(steps)} checkpoints in {str(self._directory)!r} are damaged",
            fix="begin anew in another directory, or copy them again",
        )

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def __repr__(self) -> str:
        return f"Checkpoints({str(self._directory)!r}, keep={self._keep})"

    # -- inside ----------------------------------------------------------------------------------

    def _steps(self) -> list[int]:
        if not self._directory.is_dir():
            return []
        found = [(place, NAME.fullmatch(place.name)) for place in self._directory.iterdir()]
        steps = [(place, int(name[1])) for place, name in found if name and place.is_file()]
        return sorted(step for place, step in steps if place.name == self.path(step).name)

    def _contents(self, step: int) -> Contents:
        """What the file of a step holds, every bit as it was written; its arrays are read."""
        contents = read_safetensors(FileBytes(self.path(step)))
        arrays = {n: e.read() for n, e in contents.entries.items() if n not in contents.tied}
        if contents.checksum != checksum(arrays):
            refuse("its checksum differs: the file was altered", "copy the file again")
        entries = {
            name: contents.entries[name]._replace(read=partial(arrays.__getitem__, name))
            for name in arrays
        }
        entries |= {name: entries[first] for name, first in contents.tied.items()}
        return contents._replace(entries=entries)

    def _restored(self, step: int, like: Any) -> Any:
        with naming(self.path(step)):
            tree, report = filled(self._contents(step), like, None, None)
        if not report.is_complete:
            raise misfit(
                report,
                "restore",
                f"give `like` the structure it was saved with, or load what fits:\n"
                f"rlx.load({str(self.path(step))!r}, like=..., strict=False)",
            )
        return tree

    def _prepare(self, step: int) -> None:
        """Make the directory; remove what a killed process left, and damaged files of later."""
        with reaching(self._directory, "write"):
            self._directory.mkdir(parents=True, exist_ok=True)
        if self._is_first:
            for place in self._directory.glob(".step_*.partial"):
                shutil.rmtree(place, ignore_errors=True)
            self._is_first = False
        for later in [other for other in self._steps() if other > step]:
            try:
                self._contents(later)
            except FileFormatError:
                self.path(later).unlink(missing_ok=True)
                continue
            raise AttributeValueError(
                f"Checkpoints.save: step {step} is before step {later}, which is there",
                fix="save to another directory, or remove the later files: "
                f"checkpoints.path({later}).unlink()",
            )

    def _write_aside(self, step: int, arrays: Table, notes: dict[str, Any]) -> None:
        try:
            self._write(step, arrays, notes)
        except BaseException as error:  # raised by the next `wait`, in the thread of the user
            self._failed.append((self.path(step), error))

    def _write(self, step: int, arrays: Table, notes: dict[str, Any]) -> None:
        write(self.path(step), arrays, {**notes, "checksum": checksum(arrays)}, None)
        steps = self._steps()
        old = [] if self._keep is None else steps[: -self._keep]
        for each in old:
            if self._keep_every is None or each % self._keep_every:
                self.path(each).unlink(missing_ok=True)


def _warn_of(failed: list[tuple[Path, BaseException]]) -> None:
    """Tell of errors that no call has raised."""
    for path, error in failed:
        text = f"the checkpoint {str(path)!r} was not written: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
