"""Tokenizers of model files: bytes and pieces, special names, forged vocabularies."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings, strategies as st
from many_models import check_tokens, check_vocabularies, some_text
from many_tokenizers import check_controls, check_patterns, check_pieces, check_words
from real_models import minilm_path

import rlx
from rlx.io import Tokenizer
from rlx.io.partition import Partition, overlap

LETTERS = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
SPECIAL = ["<|start|>", "<|end|>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r"]
WHERE = "tokenizer.ggml."


def bytes_metadata(**changes):
    """A vocabulary of bytes and a few words, as GPT-2's."""
    tokens = [*SPECIAL, *LETTERS, *(m.replace(" ", "") for m in MERGES)]
    kinds = np.ones(len(tokens), np.int32)
    kinds[: len(SPECIAL)] = 3
    found = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": tokens,
        "merges": MERGES,
        "token_type": kinds,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    return {WHERE + name: value for name, value in (found | changes).items() if value is not None}


def pieces_metadata(**changes):
    """A vocabulary of scored pieces, as SentencePiece's; other letters are bytes."""
    words = ["▁", "h", "e", "l", "o", "he", "ll", "hell", "hello", "▁hello", "▁h", "w", "▁w"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *words]
    scores = np.r_[np.zeros(259), -np.arange(len(words)) - 1.0].astype("f4")
    kinds = np.r_[2, 3, 3, np.full(256, 6), np.ones(len(words))].astype("i4")
    found = {
        "model": "llama",
        "tokens": tokens,
        "scores": scores,
        "token_type": kinds,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_space_prefix": True,
    }
    return {WHERE + name: value for name, value in (found | changes).items() if value is not None}


BYTES, PIECES = Tokenizer.from_gguf(bytes_metadata()), Tokenizer.from_gguf(pieces_metadata())


def names(tokenizer, metadata, text, **options):
    return [metadata[WHERE + "tokens"][i] for i in tokenizer.encode(text, **options)]


def test_merges_and_patterns_part_a_text():
    assert names(BYTES, bytes_metadata(), "hello wor") == ["hello", "Ġw", "or"]
    newer = bytes_metadata(pre="llama-bpe")
    assert names(Tokenizer.from_gguf(newer), newer, "a\n\n") == ["a", "Ċ", "Ċ"]


def test_pieces_are_merged_by_score():
    metadata = pieces_metadata()
    assert names(PIECES, metadata, "hello") == ["▁hello"]
    assert names(PIECES, metadata, "hello é") == ["▁hello", "▁", "<0xC3>", "<0xA9>"]


def odd_metadata(*words, kinds=(), **changes):
    """A vocabulary of these words alone, all of one score, and of bytes."""
    tokens = ["<unk>", *(f"<0x{i:02X}>" for i in range(256)), *words]
    kinds = np.r_[2, np.full(256, 6), kinds or np.ones(len(words))].astype("i4")
    scores = np.zeros(len(tokens), "f4")
    return pieces_metadata(
        tokens=tokens, token_type=kinds, scores=scores, add_space_prefix=False, **changes
    )


def test_letters_that_are_no_tokens_are_merged_too():
    metadata = odd_metadata("ab", "abc", "xyz")
    tokenizer = Tokenizer.from_gguf(metadata)
    assert names(tokenizer, metadata, "abcaba") == ["abc", "ab", "<0x61>"]
    assert names(tokenizer, metadata, "xyz") == ["<0x78>", "<0x79>", "<0x7A>"]
    assert len(tokenizer) == tokenizer.end == len(metadata[WHERE + "tokens"])
    for text in ("", "abcabaxyz", "né🙂ab"):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == "".join(tokenizer.stream(ids)) == text
    with pytest.raises(rlx.ArgumentError, match="not Unicode"):
        tokenizer.encode("a\ud800")


def test_of_equal_scores_the_first_in_the_text_is_merged():
    metadata = odd_metadata("a", "b", "c", "bc", "ab")
    assert names(Tokenizer.from_gguf(metadata), metadata, "abc") == ["ab", "c"]
    metadata[WHERE + "scores"][-2] = 1.0
    assert names(Tokenizer.from_gguf(metadata), metadata, "abc") == ["a", "bc"]


def test_a_letter_of_which_a_byte_has_no_token_is_unknown():
    metadata = odd_metadata("ab", "bb")
    keep = [x != "<0xA9>" for x in metadata[WHERE + "tokens"]]
    metadata[WHERE + "tokens"] = [x for x in metadata[WHERE + "tokens"] if x != "<0xA9>"]
    for name in ("token_type", "scores"):
        metadata[WHERE + name] = metadata[WHERE + name][keep]
    tokenizer = Tokenizer.from_gguf(metadata)
    assert names(tokenizer, metadata, "abéê") == ["ab", "<unk>", "<0xC3>", "<0xAA>"]


def test_the_end_of_a_turn_is_no_text_even_if_the_file_says_so():
    tokens = [*bytes_metadata()[WHERE + "tokens"], "<|im_end|>"]
    tokenizer = Tokenizer.from_gguf(bytes_metadata(tokens=tokens, token_type=None))
    assert tokenizer.special == {"<|end|>": 1, "<|im_end|>": len(tokens) - 1}
    ids = tokenizer.encode("he<|im_end|>", parse_special=True)
    assert ids[-1] == len(tokens) - 1 and tokenizer.decode(ids) == "he"


def test_the_longest_names_are_found_first():
    """The library finds the first in the text."""
    metadata = odd_metadata("a", "d", "ab", "bcd", kinds=[1, 1, 4, 4])
    assert names(Tokenizer.from_gguf(metadata), metadata, "abcdabd") == ["a", "bcd", "ab", "d"]
    bytes_too = bytes_metadata()
    bytes_too[WHERE + "tokens"] = [*bytes_too[WHERE + "tokens"], "hel", "llo!", "he>"]
    bytes_too[WHERE + "token_type"] = np.r_[bytes_too[WHERE + "token_type"], 4, 4, 3]
    tokenizer = Tokenizer.from_gguf(bytes_too)
    assert names(tokenizer, bytes_too, "hello!he>") == ["he", "llo!", "he", ">"]
    asked = names(tokenizer, bytes_too, "hello!he>", parse_special=True)
    assert asked == ["he", "llo!", "he>"]


def test_of_many_names_each_is_looked_for_once_in_a_text():
    names, reads = {f"<{i}>": i for i in range(2000)}, Counter[str]()

    class Text(str):
        def find(self, name, *start):
            reads[name] += 1
            return super().find(name, *start)

    parts = Partition({**names, "none": 1}, {}).parts(Text("a".join(names)), False)
    assert parts == [x for i in range(2000) for x in (i, "a")][:-1]
    assert {*reads.values()} == {2} and len(reads) == 2000  # one place, and no other


def test_names_whose_beginnings_are_too_many_may_overlap():
    """To look at those of one of 100,000 letters took 5 GB."""
    assert overlap(["x" * 10**5], []) and not overlap(["<a>"] * 10, ["x" + "y" * 1000])


@pytest.mark.parametrize("tokenizer", [BYTES, PIECES], ids=["bytes", "pieces"])
@given(text=st.text())
@settings(deadline=None)
def test_every_text_comes_back(tokenizer, text):
    text = text.replace("▁", "")  # the piece for a space
    ids = tokenizer.encode(text)
    assert not set(ids) & set(tokenizer.special.values())
    assert tokenizer.decode(ids) == text
    assert "".join(tokenizer.stream(ids)) == text


@pytest.mark.parametrize("is_json", [False, True], ids=["gguf", "json"])
def test_bytes_that_are_no_letters_spoil_no_text_before_them(tmp_path, is_json):
    """The library makes `k` unknown with the bytes after it; its stream fails."""
    (tmp_path / "x").write_text(PIECES.to_json())
    tokenizer = Tokenizer.from_json(tmp_path / "x") if is_json else PIECES
    ids = [3 + byte for byte in b" k\xcc\xe9\xc3\xa9n\xf0\x9f"] + PIECES.encode("he")
    assert tokenizer.decode(ids) == "k\ufffd\ufffdén\ufffd he"
    assert list(tokenizer.stream(ids))[:7] == ["", "k", "", "\ufffd", "\ufffd", "é", "n"]
    assert "".join(tokenizer.stream([*ids, 1])) == tokenizer.decode(ids)
    assert tokenizer.decode([1, *ids], special=True).startswith("<s> k")
    rng = random.Random(0)
    for _ in range(200):
        ids = [rng.randrange(len(PIECES)) for _ in range(20)]
        whole, parts = tokenizer.decode(ids), "".join(tokenizer.stream(ids))
        assert whole.removeprefix(parts).strip("\ufffd") == ""


def test_bytes_that_no_token_has_are_left_out_and_part_a_text():
    tokens = [x for x in bytes_metadata()[WHERE + "tokens"] if x != "Ė"]  # the letter of byte 0x16
    metadata = bytes_metadata(tokens=tokens, token_type=None)
    assert names(Tokenizer.from_gguf(metadata), metadata, "he\x16llo") == ["he", "ll", "o"]


def test_names_of_special_tokens_are_text_unless_asked():
    text = "<|end|>he"
    assert 1 not in BYTES.encode(text) and BYTES.decode(BYTES.encode(text)) == text
    assert BYTES.encode(text, parse_special=True) == [1, BYTES.encode("he")[0]]
    assert BYTES.decode([1], special=True) == "<|end|>" and BYTES.decode([1]) == ""
    assert BYTES.special == {"<|start|>": 0, "<|end|>": 1}


def test_the_unknown_token_is_special():
    assert PIECES.encode("<unk>", parse_special=True) == [0] and 0 not in PIECES.encode("<unk>")
    assert PIECES.decode([0]) == "" and PIECES.decode([0], special=True) == "<unk>"


def test_files_that_say_nothing_of_begin_and_end():
    """What llama.cpp takes for them then."""
    newer = Tokenizer.from_gguf(bytes_metadata(pre="llama-bpe"))
    assert newer.encode("he", add_special=True) == [0, *newer.encode("he")]
    old = Tokenizer.from_gguf(pieces_metadata(bos_token_id=None, eos_token_id=None))
    assert (old.unknown, old.bos, old.eos) == (0, 1, 2)


def test_begin_and_end_are_added_where_the_model_wants_them():
    assert BYTES.encode("he", add_special=True) == BYTES.encode("he")
    both = Tokenizer.from_gguf(bytes_metadata(add_bos_token=True, add_eos_token=True))
    assert both.encode("he", add_special=True) == [0, *both.encode("he"), 1]
    assert PIECES.encode("hello", add_special=True)[0] == PIECES.bos == 1


def test_a_file_of_hugging_face_is_read(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(BYTES._inner.to_str())
    again = Tokenizer.from_json(path)
    assert again.encode("hello wor") == BYTES.encode("hello wor")
    assert again.special == BYTES.special and len(again) == len(BYTES)
    path.write_text("{}")
    with pytest.raises(rlx.FileFormatError, match="no tokenizer"):
        Tokenizer.from_json(path)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"tokens": None}, "no list of different tokens"),
        ({"tokens": ["a", "a"]}, "no list of different tokens"),
        ({"tokens": 3}, "no list of different tokens"),
        ({"model": "t5"}, "kind 't5'"),
        ({"model": ["gpt2"]}, "which rlx has not"),
        ({"pre": "unheard-of"}, "pattern 'unheard-of'"),
        ({"pre": ["smollm"]}, "which rlx has not"),
        ({"merges": ["x y"]}, "the merge 'x y'"),
        ({"merges": ["he"]}, "the merge 'he'"),
        ({"merges": 7}, "no list of merges"),
        ({"token_type": np.ones(3)}, "kinds of another number"),
        ({"token_type": np.full(264, "x")}, "kinds of tokens are no numbers"),
        ({"bos_token_id": 10**6}, "bos token is .1000000"),
        ({"eos_token_id": "x"}, "eos token is .x"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_forged_vocabularies_are_refused(changes, match):
    with pytest.raises(rlx.FileFormatError, match=match):
        Tokenizer.from_gguf(bytes_metadata(**changes))


@pytest.mark.parametrize("scores", [np.ones(2), ["x"], None], ids=["few", "texts", "none"])
def test_pieces_need_a_score_each(scores):
    with pytest.raises(rlx.FileFormatError, match="scores"):
        Tokenizer.from_gguf(pieces_metadata(scores=scores))


def test_other_arguments_are_errors():
    with pytest.raises(rlx.ArgumentError, match="fix"):
        BYTES.encode(b"he")
    with pytest.raises(rlx.BoundsError, match="no token -1"):
        BYTES.decode([-1])
    with pytest.raises(rlx.BoundsError, match="fix"):
        list(BYTES.stream([len(BYTES)]))


def test_tokens_of_users_are_found_in_every_text_and_are_text():
    metadata = bytes_metadata()
    metadata[WHERE + "tokens"] = [*metadata[WHERE + "tokens"], "   ", "<think>"]
    metadata[WHERE + "token_type"] = np.r_[metadata[WHERE + "token_type"], 4, 4]
    tokenizer = Tokenizer.from_gguf(metadata)
    text = "he   <think><|end|>"
    assert names(tokenizer, metadata, text)[:3] == ["he", "   ", "<think>"]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.special.keys() == {*SPECIAL}


def test_what_is_no_text_or_token_is_named():
    with pytest.raises(rlx.errors.ArgumentError, match="not Unicode"):
        BYTES.encode("a\ud800")
    for wrong in (["a"], [1.5], None, 3):
        with pytest.raises(rlx.errors.ArgumentError, match="decode: "):
            BYTES.decode(wrong)


def test_texts_have_the_tokens_of_llama_cpp():
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    assert check_tokens(300, seed=1) == 300


def test_random_vocabularies_have_the_tokens_of_llama_cpp():
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    assert check_pieces(100, 20) > 1000
    assert check_patterns(["", "gpt-2", "smollm", "llama-bpe", "glm4", "qwen2"], 100) == 600
    assert check_words(10, 50) == 500
    assert check_controls() > 40


def test_mutated_vocabularies_make_tokenizers_or_are_refused():
    found = check_vocabularies(500)
    assert found["made"] and found["FileFormatError"]
    assert sum(found.values()) == 500


def test_the_vocabulary_of_an_encoder_is_the_same_in_a_gguf_file():
    folder = minilm_path()
    plain = Tokenizer.from_json(folder / "tokenizer.json")
    words = (folder / "vocab.txt").read_text("utf-8").splitlines()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [x if x in special else x[2:] if x.startswith("##") else f"\u2581{x}" for x in words]
    where = "tokenizer.ggml."
    metadata = {f"{where}model": "bert", f"{where}tokens": tokens}
    metadata[f"{where}token_type"] = np.array([3 if x in special else 1 for x in words])
    for name, token in (("bos", "[CLS]"), ("seperator", "[SEP]"), ("unknown", "[UNK]")):
        metadata[f"{where}{name}_token_id"] = words.index(token)
    found, rng = Tokenizer.from_gguf(metadata), random.Random(0)
    for text in [some_text(rng) for _ in range(300)]:
        assert found.encode(text) == plain.encode(text)
        assert found.encode(text, add_special=True) == plain.encode(text, add_special=True)
