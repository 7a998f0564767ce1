"""Tokenizers of GGUF files drawn at random: their tokens of random texts are llama.cpp's.

`check_pieces` draws vocabularies of SentencePiece that lack letters, bytes and the unknown token,
with equal scores and names that overlap; `check_patterns` parts texts by the names of patterns;
`check_words` draws vocabularies of BERT. `many_models.py` runs many, the suite some.
"""

from __future__ import annotations

import json
import random
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

import tokenizers
from gguf_writer import gguf, row
from many_models import some_text

from rlx import io
from rlx.io.tokenizer import CONTROLS

WHERE = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
ALPHABET = ["a", "b", "c", "▁", "é", "日", "🙂", "\n", "<", "1"]
SEEN = [*ALPHABET[:3], " ", " ", *ALPHABET[4:]]
RARE = ["  ", "▁", "   ", "\x00", "\u0301", "\x7f", "ñ", "\u200d", "<s>", "</s>", "<unk>", "<0x41>"]


def opened(folder: Path, rows: list[bytes]) -> tuple[io.Tokenizer, Any]:
    """The tokenizer of a file, and llama.cpp's of the same file."""
    from llama_cpp_logits import LlamaCpp

    path = folder / "vocabulary.gguf"
    path.write_bytes(gguf([row("general.architecture", "text", "llama"), *rows]))
    return io.Tokenizer.from_gguf(io.open(path).metadata), LlamaCpp(path, has_weights=False)


# -- pieces ----------------------------------------------------------------------------------------


def drawn_pieces(rng: random.Random) -> dict[str, tuple[float, int]]:
    """A vocabulary of SentencePiece: tokens with their scores and kinds."""
    letters = ALPHABET[: rng.randint(2, len(ALPHABET))]
    scores = rng.choice([None] * 6 + [[0.0], [0.0, -0.0, -1.0], [-1.0, -2.0, -3.0, -4.0]])

    def score() -> float:
        return rng.uniform(-9, 9) if scores is None else rng.choice(scores)

    found: dict[str, tuple[float, int]] = {}
    for name, kind in ("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL):
        if rng.random() < 0.8:
            found[name] = (0.0, kind)
    lost = rng.random() ** 2 if rng.random() < 0.3 else 0.0
    for byte in range(256):
        if rng.random() >= lost:
            found[f"<0x{byte:02X}>"] = (0.0, BYTE)
    missing = rng.choice((0.0, 0.0, 0.3, 1.0))
    for letter in letters:
        if rng.random() >= missing:
            found[letter] = (score(), NORMAL)
    for _ in range(rng.randint(0, 40)):
        found["".join(rng.choices(letters, k=rng.randint(2, 6)))] = (score(), NORMAL)
    for _ in range(rng.choice((0, 0, 2, 6))):
        kind = rng.choice((USER, USER, CONTROL, UNUSED))
        found["".join(rng.choices([*SEEN, " "], k=rng.randint(1, 4)))] = (score(), kind)
    order = [*found.items()]
    rng.shuffle(order)
    return dict(order)


def rows_of(found: dict[str, tuple[float, int]], rng: random.Random) -> list[bytes]:
    """The metadata of a vocabulary, with or without spaces and tokens at the begin and end."""
    rows = [
        row(WHERE + "model", "text", "llama"),
        row(WHERE + "tokens", "text*", [*found]),
        row(WHERE + "scores", "f32*", [score for score, _ in found.values()]),
        row(WHERE + "token_type", "i32*", [kind for _, kind in found.values()]),
    ]
    for name in ("bos", "eos", "unknown"):
        rows.append(row(f"{WHERE}{name}_token_id", "u32", rng.randrange(len(found))))
    for name in ("add_space_prefix", "add_bos_token", "add_eos_token"):
        if rng.random() < 0.7:
            rows.append(row(WHERE + name, "bool", rng.random() < 0.5))
    return rows


def drawn_text(found: dict[str, tuple[float, int]], rng: random.Random) -> str:
    """A text of letters, tokens, and what is rare; sometimes none."""
    source = SEEN, RARE, [*found]
    drawn = [rng.choice(rng.choices(source, (8, 1, 3))[0]) for _ in range(rng.randint(0, 30))]
    return "".join(drawn)


def lacks_bytes(found: dict[str, tuple[float, int]], text: str) -> bool:
    """Whether a letter has no token, and bytes of it none: llama.cpp ends the process then."""
    letters = {x for x in "▁" + text.replace(" ", "▁") if x not in found}
    return not all(f"<0x{byte:02X}>" in found for x in letters for byte in x.encode())


def check_pieces(vocabularies: int, texts: int, seed: int = 0) -> int:
    """Compare tokens of `texts` of each of so many vocabularies; how many were."""
    rng, compared = random.Random(seed), 0
    for number in range(vocabularies):
        found = drawn_pieces(rng)
        with tempfile.TemporaryDirectory() as folder:
            tokenizer, other = opened(Path(folder), rows_of(found, rng))
        for _ in range(texts):
            text, whole, parse = drawn_text(found, rng), rng.random() < 0.5, rng.random() < 0.5
            ids = tokenizer.encode(text, add_special=whole, parse_special=parse)
            assert not ids or max(ids) < len(found) == len(tokenizer)
            if not lacks_bytes(found, text):
                wanted = other.encode(text, parse, whole)
                assert ids == wanted, (number, text, whole, parse, ids, wanted, found)
                compared += 1
        other.close()
    return compared


def check_controls(seed: int = 0) -> int:
    """Compare tokens of names that are no text, whatever a file says; how many names were."""
    rng = random.Random(seed)
    for name in sorted(CONTROLS):
        for kind in (NORMAL, CONTROL, USER):
            found = {"<unk>": (0.0, UNKNOWN), "a": (0.0, NORMAL), name: (-1.0, kind)}
            found |= {f"<0x{byte:02X}>": (0.0, BYTE) for byte in range(256)}
            with tempfile.TemporaryDirectory() as folder:
                tokenizer, other = opened(Path(folder), rows_of(found, rng))
            for parse in (False, True):
                text = f"a{name}b"
                assert tokenizer.encode(text, parse_special=parse) == other.encode(text, parse)
            other.close()
    return len(CONTROLS)


# -- bytes and words -------------------------------------------------------------------------------


def byte_rows(pattern: str, texts: list[str]) -> list[bytes]:
    """The metadata of a vocabulary of bytes whose merges go over the parts of any pattern."""
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = byte_level(False, use_regex=False)
    inner.train_from_iterator(
        texts,
        tokenizers.trainers.BpeTrainer(
            vocab_size=4000, initial_alphabet=byte_level.alphabet(), show_progress=False
        ),
    )
    model = json.loads(inner.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    rows = [
        row(WHERE + "model", "text", "gpt2"),
        row(WHERE + "tokens", "text*", tokens),
        row(WHERE + "token_type", "i32*", [NORMAL] * len(tokens)),
        row(WHERE + "merges", "text*", [" ".join(x) for x in model["merges"]]),
        row(WHERE + "bos_token_id", "u32", 0),
        row(WHERE + "eos_token_id", "u32", 1),
    ]
    return [*rows, *([row(WHERE + "pre", "text", pattern)] if pattern else [])]


def check_patterns(names: list[str], texts: int, seed: int = 0) -> int:
    """Compare tokens of so many `texts` by each of the patterns; how many were."""
    rng = random.Random(seed)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            rows = byte_rows(name, [some_text(rng) for _ in range(1000)])
            tokenizer, other = opened(Path(folder), rows)
        for _ in range(texts):
            text = some_text(rng)
            ids, wanted = tokenizer.encode(text), other.encode(text)
            assert ids == wanted, (name, text, ids, wanted)
        other.close()
    return texts * len(names)


def drawn_words(rng: random.Random) -> list[str]:
    """A vocabulary of BERT as GGUF files write it: what begins a word has a mark."""
    letters = [*"abcdefghilnorstu0123.,!?'-{}()", *"日本語한국é", "ß", "п"]
    found = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    found += [f"{mark}{x}" for x in letters for mark in ("▁", "") if rng.random() < 0.9]
    for _ in range(rng.randint(0, 300)):
        found.append(rng.choice("▁ ").strip() + "".join(rng.choices(letters, k=rng.randint(2, 5))))
    return [*dict.fromkeys(found)]


def are_same_words(letter: str) -> bool:
    """Whether BERT and llama.cpp take a letter for the same.

    llama.cpp parts words at three control characters that BERT leaves out; it leaves out marks that
    are letters of their own, and all but the first letter of a Korean syllable; and what is
    punctuation each knows by a version of Unicode of its own.
    """
    old, category = unicodedata.ucd_3_2_0.category(letter), unicodedata.category(letter)
    parts = [x for x in unicodedata.normalize("NFD", letter) if unicodedata.category(x) != "Mn"]
    return (
        old == category not in ("Cn", "Mc", "Me") and len(parts) <= 1 and letter not in "\v\f\x85▁"
    )


def check_words(vocabularies: int, texts: int, seed: int = 0) -> int:
    """Compare tokens of `texts` of each of so many vocabularies of BERT; how many were."""
    rng = random.Random(seed)
    for _ in range(vocabularies):
        tokens = drawn_words(rng)
        rows = [
            row(WHERE + "model", "text", "bert"),
            row(WHERE + "tokens", "text*", tokens),
            row(WHERE + "token_type", "i32*", [CONTROL] * 4 + [NORMAL] * (len(tokens) - 4)),
        ]
        for i, name in enumerate(("padding", "unknown", "bos", "seperator")):
            rows.append(row(f"{WHERE}{name}_token_id", "u32", i))
        with tempfile.TemporaryDirectory() as folder:
            tokenizer, other = opened(Path(folder), rows)
        for _ in range(texts):
            text = "".join(filter(are_same_words, some_text(rng)))
            whole = rng.random() < 0.5
            ids, wanted = (
                tokenizer.encode(text, add_special=whole),
                other.encode(text, False, whole),
            )
            assert ids == wanted, (text, whole, ids, wanted, tokens)
        other.close()
    return vocabularies * texts
