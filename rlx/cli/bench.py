"""`rlx bench`: how fast a language model reads and writes."""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.cpu.llvm.host import cores
from ..ir.errors import ArgumentError, BoundsError
from ..ir.files import as_path
from ..models import LanguageModel
from ..models.steps import CHUNK, PAGE, Batch, chunk
from ..trace.arguments import count_of
from .options import add_model, language_model

STEPS = 8  # of decoding in a measurement


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    add_model(parser)
    parser.add_argument("--prompt", type=int, default=256, metavar="N", help="tokens to read (256)")
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[1, 8, 16],
        metavar="N",
        help="texts to write at once",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="measurements of each (5)"
    )
    parser.add_argument(
        "--against", choices=["llama.cpp"], help="measure it, too, in turns (llama-cpp-python)"
    )


def run(asked: argparse.Namespace) -> None:
    """Print tokens per second, and seconds of the processor per token."""
    for name, given in (("prompt", asked.prompt), ("rounds", asked.rounds)):
        count_of(f"bench: --{name}", given, 1)
    for rows in asked.rows:
        count_of("bench: --rows", rows, 1)
    model = language_model(asked)
    if asked.prompt + STEPS > model.config.context:
        raise BoundsError(
            f"bench: --prompt {asked.prompt} and {STEPS} more tokens are over the model's context "
            f"of {model.config.context}",
            fix=f"read up to {model.config.context - STEPS}",
        )
    engines: list[tuple[str, Any]] = [("rlx", OfRlx(model))]
    if asked.against:
        path = str(as_path(asked.model))
        engines.append(("llama.cpp", OfLlamaCpp(path, max(asked.rows), asked.prompt)))
    print(f"{as_path(asked.model).name}, {asked.compute}; {cores()} threads; medians")
    width = max(len(name) for name, _ in engines)
    for label, tokens, work in _cases(asked, model.config.vocabulary):
        rounds = [[_timed(work(engine)) for _, engine in engines] for _ in range(asked.rounds + 1)]
        for (name, _), times in zip(engines, zip(*rounds[1:], strict=True), strict=True):
            wall, cpu = (statistics.median(x) for x in zip(*times, strict=True))
            print(
                f"{label:22} {name:{width}}  {tokens / wall:8.1f} tokens/s"
                f"  {tokens / cpu:8.1f} per second of a processor"
            )


def _cases(
    asked: argparse.Namespace, vocabulary: int
) -> list[tuple[str, int, Callable[[Any], Callable[[], None]]]]:
    """What is measured: a name, its tokens, and how an engine gets ready for it."""
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, vocabulary, asked.prompt).tolist()
    found = [(f"read {asked.prompt}", asked.prompt, lambda engine: engine.reading(prompt))]
    for rows in asked.rows:
        found.append(
            (
                f"write {rows} at {asked.prompt}",
                rows * STEPS,
                lambda engine, rows=rows: engine.writing(prompt, rows),
            )
        )
    return found


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


class OfRlx:
    """rlx: what `generate` computes, without the drawing of tokens."""

    def __init__(self, model: LanguageModel) -> None:
        self._steps = model.steps()

    def reading(self, prompt: Sequence[int]) -> Callable[[], None]:
        """What reads a prompt."""
        tables = _tables(1, len(prompt))
        pages = self._steps.pages(tables.size)

        def read() -> None:
            kept: Any = pages
            for first in range(0, len(prompt), CHUNK):
                batch = chunk(prompt[first : first + CHUNK], first, 0, tables)
                logits, kept = self._steps(batch, kept)
                logits.host()

        return read

    def writing(self, prompt: Sequence[int], rows: int) -> Callable[[], None]:
        """What writes some tokens of several texts."""
        tables = _tables(rows, len(prompt) + STEPS)
        pages, row = self._steps.pages(tables.size), np.arange(rows, dtype="int32")
        ids = np.full(rows, prompt[0], "int32")

        def write() -> None:
            kept: Any = pages
            for i in range(STEPS):
                places = np.full(rows, len(prompt) + i, "int32")
                logits, kept = self._steps(Batch(ids, places, row, tables, row), kept)
                logits.host()

        return write


def _tables(rows: int, tokens: int) -> np.ndarray:
    most = -(-tokens // PAGE)
    return np.arange(rows * most, dtype="int32").reshape(rows, most)


class OfLlamaCpp:
    """llama.cpp through llama-cpp-python, on the file at `path`.

    It has room for so many `rows` of `prompt` tokens and those it writes.
    """

    def __init__(self, path: str, rows: int, prompt: int) -> None:
        try:
            llama_cpp: Any = importlib.import_module("llama_cpp")
        except ImportError:
            raise ArgumentError(
                "llama-cpp-python is not installed", fix="pip install llama-cpp-python"
            ) from None
        self._library = llama_cpp
        llama_cpp.llama_log_set(_silent(llama_cpp), None)
        given = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), given)
        if not self._model:
            raise ArgumentError("llama.cpp does not open the model", fix="give a GGUF file")
        given = llama_cpp.llama_context_default_params()
        given.n_ctx = rows * -(-(prompt + STEPS) // 256) * 256
        given.n_batch = given.n_ubatch = max(prompt, rows)
        given.n_threads = given.n_threads_batch = cores()
        given.n_seq_max = rows
        self._context = llama_cpp.llama_init_from_model(self._model, given)

    def reading(self, prompt: Sequence[int]) -> Callable[[], None]:
        """What reads a prompt."""
        self._clear()
        return lambda: self._decode([(token, i, 0) for i, token in enumerate(prompt)], 1)

    def writing(self, prompt: Sequence[int], rows: int) -> Callable[[], None]:
        """What writes some tokens of several texts."""
        self._clear()
        self._decode([(token, i, 0) for i, token in enumerate(prompt)], 1)
        library = self._library
        for row in range(1, rows):  # which have read the same
            library.llama_memory_seq_cp(library.llama_get_memory(self._context), 0, row, -1, -1)

        def write() -> None:
            for i in range(STEPS):
                self._decode([(prompt[0], len(prompt) + i, row) for row in range(rows)], rows)

        return write

    def _clear(self) -> None:
        library = self._library
        library.llama_memory_clear(library.llama_get_memory(self._context), True)

    def _decode(self, tokens: Sequence[tuple[int, int, int]], wanted: int) -> None:
        """Compute tokens with their positions and texts; logits of the last so many."""
        library, count = self._library, len(tokens)
        batch = library.llama_batch_init(count, 0, 1)
        batch.n_tokens = count
        for i, (token, position, row) in enumerate(tokens):
            batch.token[i], batch.pos[i] = token, position
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
            batch.logits[i] = i >= count - wanted
        failed = library.llama_decode(self._context, batch)
        library.llama_batch_free(batch)
        if failed:
            raise ArgumentError(f"llama.cpp answers {failed}", fix="ask for fewer rows")
        library.llama_get_logits(self._context)[0]


def _silent(library: Any) -> Any:
    """What llama.cpp gives its messages to; kept, as it stays in use."""
    global _kept
    _kept = library.llama_log_callback(lambda *_: None)
    return _kept


_kept: Any = None
