"""Language models at length: models, prompts, texts and templates drawn at random.

    python tests/many_models.py --models 100 --texts 10000 --hostile 100000

checks so many random models, and 20 prompts of the real one, against float64; the rounding errors
of int8 against llama.cpp's; the real model with all units and heads moved; tokens of texts, of the
real vocabulary and of random ones, against llama.cpp's; and hostile templates and vocabularies,
which are refused or taken, in bounded time and memory. `make models` runs it; the suite does less
of each.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from llama_reference import Reference
from llama_writer import vocabulary, write_llama
from real_models import smollm, smollm_path

import rlx
from rlx.io import ChatTemplate, Tokenizer
from rlx.ir.errors import RlxError
from rlx.ir.ops.blocks import FORMATS

ROOM, SLOW = 64 << 20, 5.0  # bytes and seconds of a hostile input
PROMPTS = [
    "The capital of France is Paris, and that of Italy is",
    "def fib(n):\n    if n < 2:",
    "Once upon a time there was a small dog, and it",
    "What is the capital of France?",
    "The quick brown fox jumps over the lazy dog.",
    "1, 2, 3, 4, 5, 6,",
    "SELECT name FROM users",
    "Dear Sir or Madam,\n\nI write to you because",
    "In 1969 the first people landed on the",
    "Water boils at a temperature of",
    "import numpy as np\n\nx = np.",
    "To be, or not to be, that",
    "Les enfants jouent dans le jardin et",
    "The three primary colors are",
    "E = mc^2 means that",
    "Name three animals that live in the sea.",
    "How many days has a week?",
    "A recipe for pancakes: take two eggs,",
    "<html>\n<body>\n<h1>",
    "Roses are red, violets are",
]
PIECES = [
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "the",
    "The",
    "'s",
    "'ll",
    "n't",
    "123",
    "3.14",
    "don't",
    "é",
    "ß",
    "日本語",
    "한국어",
    "مرحبا",
    "Привет",
    "ñandú",
    "🙂",
    "👩‍👩‍👧",
    "a\u0301",
    "\u200b",
    "\u00a0",
    "…",
    "—",
    "def f(x):",
    "    return",
    "{}",
    "!!!",
    "?",
    "#",
    "<|im_end|>",
    "<|endoftext|>",
    "<|im",
    "|>",
    "http://a.b/c",
    "CamelCase",
    "snake_case",
    "x" * 20,
    "0" * 9,
    "\\n",
    '"',
    "``",
    "½",
    "Ⅷ",
    "٣",
    "\x00",
    "\x7f",
]


def some_text(rng: random.Random) -> str:
    """A text of words, signs and scripts that tokenizers part in ways of their own."""
    pieces = rng.choices(PIECES, k=rng.randint(0, 12))
    pieces += [chr(rng.choice((rng.randrange(1, 0x250), rng.randrange(0x370, 0xD7FF))))]
    pieces += [f"{rng.choice(')] ,')}{chr(rng.randrange(1, 0x20))}{rng.choice(',!;:}')}"]
    rng.shuffle(pieces)
    return "".join(pieces)


def check_tokens(count: int, seed: int = 0) -> int:
    """Compare the tokens of texts with llama.cpp's; how many were."""
    from llama_cpp_logits import LlamaCpp

    other, tokenizer = LlamaCpp(smollm_path(), has_weights=False), smollm().tokenizer
    rng = random.Random(seed)
    for _ in range(count):
        text, parse = some_text(rng), rng.random() < 0.5
        found = tokenizer.encode(text, parse_special=parse)
        assert found == other.encode(text, parse), (text, parse)
        # bytes that no token has, some of control characters, are left out
        kept = "".join(x for x in text if ord(x) >= 0x20)
        decoded = "".join(x for x in tokenizer.decode(found, special=True) if ord(x) >= 0x20)
        assert decoded == kept, text
    return count


# -- hostile inputs --------------------------------------------------------------------------------

TEMPLATES = [
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] }}{% endfor %}",
    "{% set x = namespace(a=0) %}{% for i in range(9) %}{% set x.a = x.a + i %}{% endfor %}",
    "{% macro f(a) %}{{ a | upper | trim }}{% endmacro %}{{ f(messages[0].content) }}",
    "{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{{ raise_exception('no') }}",
]
SNIPPETS = [
    "{{ 'x' * 10**8 }}",
    "{{ [0] * 10**9 }}",
    "{{ ().__class__.__mro__ }}",
    "{{ self }}",
    "{%",
    "%}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ lipsum() }}",
    "{{ 10**10**6 }}",
    "{{ 'a' | center(10**9) }}",
    "{% for x in range(99999) %}",
    "{% endfor %}",
    "{{ namespace }}",
    "{{",
    "}}",
    "{{ messages.pop() }}",
    "{% include 'x' %}",
    "{{ '%s' % messages }}",
    "{{ strftime_now('%Y' * 999) }}",
    "\ud800",
    "\x00",
    "{{ messages | map(attribute='__class__') | list }}",
    "{{ ''.format.__self__ }}",
    "{% break %}",
]


def mutated(text: str, rng: random.Random, snippets: list[str]) -> str:
    """A text with some letters lost, doubled or replaced, and snippets put in."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randint(0, 5))
        middle = rng.choice(
            ["", text[start:end] * 2, rng.choice(snippets), rng.choice(text or " ")]
        )
        text = text[:start] + middle + text[end:]
    return text


def check_templates(count: int, seed: int = 0) -> Counter[str]:
    """Render mutated templates: each gives a text or an error of rlx; how many did which."""
    rng, found = random.Random(seed), Counter[str]()
    messages = [{"role": "user", "content": "Hi <|im_end|>"}]
    for _ in range(count):
        source = mutated(rng.choice(TEMPLATES), rng, SNIPPETS)
        start = time.process_time()
        try:
            ChatTemplate(source).render(messages)
            found["rendered"] += 1
        except RlxError as error:
            found[type(error).__name__] += 1
        assert time.process_time() - start < SLOW, source
    return found


def small_vocabulary() -> dict[str, Any]:
    """The metadata of a small tokenizer."""
    where, tokens = "tokenizer.ggml.", vocabulary()
    return {
        f"{where}model": "gpt2", f"{where}pre": "smollm", f"{where}tokens": tokens,
        f"{where}merges": ["a b", "ab c", "d e"], f"{where}eos_token_id": 256,
        f"{where}token_type": np.ones(len(tokens), np.int32), f"{where}bos_token_id": 257,
    }  # fmt: skip


def check_vocabularies(count: int, seed: int = 0) -> Counter[str]:
    """Make tokenizers of mutated metadata, and use those that can be made."""
    rng, found = random.Random(seed), Counter[str]()
    values: list[Any] = [
        None,
        -1,
        2**63,
        "",
        "x" * 999,
        [],
        ["a"],
        ["a", "a"],
        [1],
        {},
        np.zeros(3),
    ]
    values += [
        "llama",
        "bert",
        "gpt-2",
        np.full(261, 9),
        ["a b"] * 3,
        ["nope"],
        True,
        1.5,
        ["\ud800"],
    ]
    for _ in range(count):
        metadata = small_vocabulary()
        for _ in range(rng.randint(1, 3)):
            metadata[rng.choice(list(metadata))] = rng.choice(values)
        start = time.process_time()
        try:
            tokenizer = Tokenizer.from_gguf(metadata)
            tokenizer.decode(tokenizer.encode(some_text(rng), parse_special=True), special=True)
            found["made"] += 1
        except RlxError as error:
            found[type(error).__name__] += 1
        assert time.process_time() - start < SLOW, metadata
    return found


# -- models ----------------------------------------------------------------------------------------


def check_models(count: int) -> None:
    """Compare the logits of random models with float64."""
    from test_models import check

    rng = np.random.default_rng(0)
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            path, formats = Path(folder) / "model.gguf", [*FORMATS, "f16", "bf16", "f32"]
            write_llama(path, rng, rng.permutation(formats).tolist())
            ids = rng.integers(0, len(vocabulary()), (1, 40))
            check(rlx.models.load(path)(ids).host()[0], Reference.of(path).logits(ids[0].tolist()))


def check_real() -> None:
    """Compare the real model with float64, and the errors of int8 with llama.cpp's: a table."""
    from llama_cpp_logits import LlamaCpp
    from test_models import check, real_reference

    exact, fast, other = smollm(), smollm("int8"), LlamaCpp(smollm_path())
    reference, same, tokens = real_reference(), 0, 0
    print("| prompt | rms of int8 | of llama.cpp | farthest of exact |\n| --- | --: | --: | --: |")
    for prompt in PROMPTS:
        ids = exact.tokenizer.encode(prompt)
        wanted, found = reference.logits(ids), exact([ids]).host()[0]
        check(found, wanted)
        rounded = fast([ids]).host()[0]
        mine, theirs = (np.sqrt(((x - wanted) ** 2).mean()) for x in (rounded, other.logits(ids)))
        farthest = np.abs(found - wanted).max()
        print(f"| {prompt[:24]!r} | {mine:.3f} | {theirs:.3f} | {farthest:.1e} |", flush=True)
        same += int((rounded.argmax(-1) == wanted.argmax(-1)).sum())
        tokens += len(ids)
    print(f"the likeliest token of int8 is the exact one at {same} of {tokens} places")


def check_random_vocabularies(count: int) -> None:
    """Compare tokens of texts, as many for each pattern, with llama.cpp's."""
    from many_tokenizers import check_patterns, check_pieces, check_words

    patterns = ["", "gpt-2", "smollm", "llama-bpe", "glm4", "qwen2"]
    found = check_pieces(count // 10, 50), check_patterns(patterns, count), check_words(100, 100)
    print("{} texts of pieces, {} of bytes and {} of words have llama.cpp's tokens".format(*found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--hostile", type=int, default=100_000)
    asked = parser.parse_args()
    print(f"{check_tokens(asked.texts)} texts have llama.cpp's tokens", flush=True)
    check_random_vocabularies(asked.texts)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("templates:", dict(check_templates(asked.hostile)), flush=True)
    print("vocabularies:", dict(check_vocabularies(asked.hostile)), flush=True)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < ROOM, f"memory grew by {grown >> 20} MB"
    check_models(asked.models)
    print(f"{asked.models} random models have the logits of float64", flush=True)
    check_real()
    os.environ["MOVED_LAYERS"] = "30"
    from test_models import test_moved_units_and_heads_of_the_real_model_move_no_logit

    test_moved_units_and_heads_of_the_real_model_move_no_logit()
    print("all units and heads of the real model moved: no logit did")


if __name__ == "__main__":
    main()
