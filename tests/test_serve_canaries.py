"""No request's secret is ever seen by another one.

The model here shows all that it looks at: its one layer has the embeddings of tokens as values,
gives each the same weight, and its logits are the mean of them. So a logit is not 0 exactly if the
token stands in what the sequence saw, and a page of the cache says which tokens it holds. Each
request has a secret in its prompt, a token that no other request has.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import rlx.serve.engine
import rlx.serve.pages
from rlx.models import LanguageModel
from rlx.models.llama import Llama
from rlx.serve import Engine, Ticket
from rlx.serve.steps import PagedSteps

SCHEDULES = int(os.environ.get("SCHEDULES", "24"))
PUBLIC, VOCABULARY = 16, 96  # tokens that all may have; the others are secrets
BEGINNINGS = ([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 9], [])


def telling_model() -> LanguageModel:
    """A model whose logits are the mean of the tokens that it sees."""
    config = Llama(
        VOCABULARY, 1, VOCABULARY, 8, 1, 1, VOCABULARY, 1e-5, 256, (0.0,) * (VOCABULARY // 2)
    )
    one, none = np.eye(VOCABULARY, dtype="float32"), np.zeros((8, VOCABULARY), "float32")
    layer = {
        **dict.fromkeys(("attention_norm", "ffn_norm"), np.ones(VOCABULARY, "float32")),
        **{"q": 0 * one, "k": 0 * one, "v": one, "o": one, "gate": none, "up": none},
        "down": none.T.copy(),
    }
    weights = {"embedding": one, "norm": np.ones(VOCABULARY, "float32"), "layers": [layer]}
    return LanguageModel(config, weights)


class Telling:
    """An engine of that model, and the leaks that were seen."""

    def __init__(self, **options: object) -> None:
        page = 2 * 4 * VOCABULARY * 4
        how = {"page_size": 4, "step_tokens": 12, "max_sequences": 3, "poison": True, **options}
        self.engine = Engine(telling_model(), cache=14 * page, **how)  # type: ignore[arg-type]
        self.leaks: list[str] = []
        draw = self.engine._draw

        def watched(rows, logits):
            for (text, guesses), row in zip(rows, np.asarray(logits), strict=True):
                own = [*text.prompt, *text.tokens, *guesses]
                if set(np.flatnonzero(row != 0)) != set(own):  # NaN is not 0 either
                    self.leaks.append("logits")
            return draw(rows, logits)

        self.engine._draw = watched  # type: ignore[assignment]

    def step(self) -> bool:
        """A step, after which all pages are looked at."""
        is_busy = self.engine.step()
        self.leaks += self._in_pages()
        return is_busy

    def _in_pages(self) -> Iterator[str]:
        pool, values = self.engine.scheduler.pages, self._values()
        roots: dict[int, bytes] = {}
        for request in self.engine.scheduler.running:
            table = request.table
            assert table is not None
            for place, token in enumerate(table.tokens):
                if values[table.pages[place // pool.size]][place % pool.size] != {token}:
                    yield "a page of another one"
            for page in table.pages:
                if roots.setdefault(page, table.root) != table.root:
                    yield "a page of another tenant"
        for page, (_, text) in pool._content.items():
            if values[page] != [{x} for x in np.frombuffer(text, "<i8").tolist()]:
                yield "a known page that holds something else"
        for page in set(pool._empty) - set(pool._stale):
            if any(values[page]):
                yield "a page that was not poisoned"

    def _values(self) -> list[list[set[int]]]:
        """The tokens that each place of each page tells of; those of NaN are none."""
        found = np.asarray(self.engine._pages._pages[0].value)[:, :, 0]
        return [[set(np.flatnonzero(np.nan_to_num(x)).tolist()) for x in page] for page in found]

    def run(self, draw: random.Random) -> list[Ticket]:
        """Some requests that come, are cancelled and make room for each other at random."""
        engine, tickets = self.engine, []
        secrets = draw.sample(range(PUBLIC, VOCABULARY), 12)
        while secrets or not engine.scheduler.is_idle:
            if secrets and draw.random() < 0.5:
                tail = [draw.randrange(1, PUBLIC) for _ in range(draw.randint(0, 5))]
                prompt = [*draw.choice(BEGINNINGS), secrets.pop(), *tail]
                how = {"tenant": draw.choice("ab"), "priority": draw.choice([0, 0, 1])}
                tickets.append(engine.submit(prompt, max_tokens=draw.randint(1, 9), **how))
            if tickets and draw.random() < 0.1:
                engine.cancel(draw.choice(tickets))
            self.step()
        for ticket in tickets:
            if not set(ticket.completion().tokens) <= set(ticket.text.prompt):
                self.leaks.append("text")
        return tickets


@pytest.mark.parametrize("guesses", [0, 3])
def test_random_schedules_leak_no_secret(guesses):
    telling, written = Telling(guesses=guesses), 0
    for seed in range(SCHEDULES // 2):
        written += sum(x.reason == "length" for x in telling.run(random.Random(seed)))
        assert not telling.leaks
    assert written and telling.engine.scheduler.preemptions
    assert telling.engine.computed < telling.engine.steps * 12  # else nothing was shared


def wrong_table(patch: pytest.MonkeyPatch) -> None:
    """A step reads the first page of another sequence."""
    right = rlx.serve.engine.batch_of

    def wrong(chunks, rows):
        batch = right(chunks, rows)
        if len(batch.tables) > 1:
            batch.tables[0, 0] = batch.tables[1, 0]
        return batch

    patch.setattr(rlx.serve.engine, "batch_of", wrong)


def no_poison(patch: pytest.MonkeyPatch) -> None:
    """Pages that are given back keep what they held."""
    patch.setattr(PagedSteps, "poison", lambda self, pages: None)


def one_root(patch: pytest.MonkeyPatch) -> None:
    """Tenants find each other's pages."""
    patch.setattr(rlx.serve.pages, "_root_key", lambda root: b"")


@pytest.mark.parametrize("fault", [wrong_table, no_poison, one_root])
def test_seeded_faults_are_found(monkeypatch, fault: Callable[[pytest.MonkeyPatch], None]):
    fault(monkeypatch)
    telling = Telling()
    for seed in range(6):
        telling.run(random.Random(seed))
        if telling.leaks:
            break
    assert telling.leaks
