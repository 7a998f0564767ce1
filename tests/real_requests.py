"""Requests of the real model: each gets the logits that it gets alone, to the last bit.

    python tests/real_requests.py --requests 200

draws prompts, some of which begin alike, and runs them one by one, then together: in steps of few
and of many tokens, by one thread and by two, in a cache that is too small for all. The hashes of
all logits of a request are the same each time. `make models` runs it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
from typing import Any

import numpy as np
from many_models import PROMPTS, some_text
from real_models import smollm

from rlx.serve import Engine

SETTINGS: list[dict[str, Any]] = [
    {"threads": 1, "cache": "64M", "step_tokens": 256, "is_alone": True},
    {"threads": 1, "cache": "64M", "step_tokens": 256},
    {"threads": 2, "cache": "64M", "step_tokens": 33, "max_sequences": 9},
    {"threads": 2, "cache": "24M", "step_tokens": 100, "page_size": 8},
]


def requests(count: int, seed: int) -> list[tuple[str, dict[str, Any]]]:
    """Prompts with the options of their requests."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        words = [rng.choice(PROMPTS) for _ in range(rng.choice((1, 1, 2, 8)))]
        text = " ".join([*words, some_text(rng)])
        options = {"max_tokens": rng.randint(1, 5), "priority": rng.randint(0, 2)}
        if rng.random() < 0.3:
            options |= {"temperature": 0.8, "seed": rng.randrange(1000)}
        made.append((text, options))
    return made


def hashes(asked: argparse.Namespace) -> list[str]:
    """For each request the hash of its logits, in this process."""
    how = json.loads(asked.how)
    is_alone, _ = how.pop("is_alone", False), how.pop("threads")
    engine = Engine(smollm(asked.compute), poison=True, **how)
    seen: dict[Any, Any] = {}
    draw = engine._draw

    def watched(rows: Any, logits: Any) -> Any:
        for (text, _), row in zip(rows, np.asarray(logits), strict=True):
            seen.setdefault(id(text), hashlib.sha256()).update(row.tobytes())
        return draw(rows, logits)

    engine._draw = watched  # type: ignore[assignment]
    tickets, rng = [], random.Random(asked.seed)
    for text, options in requests(asked.requests, asked.seed):
        tickets.append(engine.submit(text, **options))
        while is_alone and engine.step():
            pass
        for _ in range(rng.randint(0, 2)):  # some come while others are computed
            engine.step()
    while engine.step():
        pass
    print(f"{how}: {engine.steps} steps, {engine.scheduler.preemptions} preempted", file=sys.stderr)
    return [seen[id(ticket.text)].hexdigest() for ticket in tickets]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compute", default="int8")
    parser.add_argument("--how", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.how:
        print(json.dumps(hashes(asked)))
        return
    found = []
    for how in SETTINGS:
        command = [sys.executable, *sys.argv, "--how", json.dumps(how)]
        threads = {"RLX_NUM_THREADS": str(how["threads"])}
        out = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, env={**os.environ, **threads}
        )
        found.append(json.loads(out.stdout))
    for how, others in zip(SETTINGS[1:], found[1:], strict=True):
        differ = [i for i, (x, y) in enumerate(zip(found[0], others, strict=True)) if x != y]
        assert not differ, f"requests {differ[:9]} differ from alone with {how}"
    print(f"{asked.requests} requests have the same logits alone and together")


if __name__ == "__main__":
    main()
