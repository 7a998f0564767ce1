"""Tokenizers of model files: text as numbers of tokens, and back.

The library `tokenizers` does the work (`rlx[models]`); here it is told what a GGUF file says: the
vocabulary, the merges, and by the name in `tokenizer.ggml.pre` how text is parted before it is
merged. The names and patterns are those of llama.cpp (`llama-vocab.cpp`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, BoundsError
from ..ir.files import as_path, reaching
from ..ir.lazy import lazy
from ..trace.arguments import flag, members, wrong
from ..trace.axes import integer
from .contents import refuse, shown
from .partition import Partition, overlap
from .pieces import BYTE, SPACE, Pieces, merges_of

PLAIN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
NEWER = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|"
    r"DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LOOSE = (r"[\p{P}\$\+<=>\^~\|]+", PLAIN, r"\p{N}+", "[0-9][0-9][0-9]")
PATTERNS: dict[str, tuple[str, ...]] = {
    name: patterns
    for names, patterns in (
        ("default", LOOSE),
        ("gpt-2 phi-2 mpt olmo jais gigachat a.x-4.0 mellum exaone4 trillion", (PLAIN,)),
        (
            "smollm starcoder refact command-r codeshell exaone minerva-7b",
            (r"\p{N}", PLAIN),
        ),
        (
            "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 "
            "dbrx smaug-bpe glm4 chatglm-bpe",
            (NEWER.replace("DIGITS", r"\p{N}{1,3}"),),
        ),
        (
            "qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan kormo f2llmv2 solar-open grok-2",
            (NEWER.replace("DIGITS", r"\p{N}"),),
        ),
    )
    for name in names.split()
}
UNKNOWN_TOKEN, CONTROL, USER_DEFINED = 2, 3, 4  # kinds of tokens
NO_TEXT = (UNKNOWN_TOKEN, CONTROL)
# tokens that are no text, even where a file calls them text, as many do by mistake
CONTROLS = frozenset(
    """
    <|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> </s>
    <|endoftext|> <|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos>
    <|fim_prefix|> <fim-prefix> <fim_prefix> <PRE> ▁<PRE> <\uff5cfim▁begin\uff5c>
    <|fim_suffix|> <fim-suffix> <fim_suffix> <SUF> ▁<SUF> <\uff5cfim▁hole\uff5c>
    <|fim_middle|> <fim-middle> <fim_middle> <MID> ▁<MID> <\uff5cfim▁end\uff5c>
    <|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] <|fim_repo|> <|repo_name|> <fim-repo> <REPO>
    <|code_prefix|> <|code_suffix|> <|code_middle|> <|prefix|> <|suffix|> <|middle|>
    <reponame> <|file_sep|> <\uff5cend▁of▁sentence\uff5c>
""".split()
)
NAMES = ("bos", "eos", "eot", "unknown", "padding")
WHERE = "tokenizer.ggml."
MOST_LETTERS = 1024  # of a token that others are merged to
PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
# GPT-2 writes bytes as letters: those that are printed as themselves, the others from 256 on
LETTERS = {chr(x): x for x in PRINTED}
LETTERS |= {chr(256 + i): x for i, x in enumerate(sorted({*range(256)} - {*PRINTED}))}
Encode = Callable[[str], list[int]]  # of a text without names of tokens


class Tokenizer:
    """Converts text to token ids and back; `from_gguf` and `from_json` make one.

    `inner` is a `tokenizers.Tokenizer`. `special` has the numbers of tokens that are no text, as
    the end of a turn, by their names. `ids` has by name `bos`, `eos`, `eot`, `unknown` and
    `padding`, numbers or None, which are attributes, and `add_bos` and `add_eos`.
    """

    bos: int | None
    eos: int | None
    eot: int | None
    unknown: int | None
    padding: int | None
    _partition: Partition | None = None  # where the library would find other names
    _encode: Encode  # what stands between them

    def __init__(
        self, inner: Any, special: Mapping[str, int], ids: Mapping[str, int | None]
    ) -> None:
        self._inner, self.special = inner, dict(special)
        inner.encode_special_tokens = True  # as text
        for name in NAMES:
            setattr(self, name, ids.get(name))
        self._adds_bos, self._adds_eos = bool(ids.get("add_bos")), bool(ids.get("add_eos"))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """The tokenizer that the `metadata` of a GGUF file describe.

        Raises a `FileFormatError` for metadata that describe none, and for kinds of tokenizers and
        names of patterns that rlx does not know.
        """
        tokens = metadata.get(WHERE + "tokens")
        if not isinstance(tokens, list) or not all(isinstance(x, str) for x in tokens):
            refuse("the metadata has no list of different tokens")
        if len(set(tokens)) < len(tokens):
            refuse("the metadata has no list of different tokens")
        kind = metadata.get(WHERE + "model")
        if not isinstance(kind, str) or kind not in BUILDERS:
            refuse(
                f"the tokenizer is of the kind {shown(str(kind))}, which rlx has not",
                f"the kinds are {', '.join(BUILDERS)}",
            )
        kinds = metadata.get(WHERE + "token_type")
        kinds = np.zeros(len(tokens), int) if kinds is None else np.asarray(kinds)
        if kinds.shape != (len(tokens),):
            refuse(f"the file has {len(tokens)} tokens, but kinds of another number")
        if kinds.dtype.kind not in "iuf":
            refuse("the kinds of tokens are no numbers")
        are_controls = np.array([x in CONTROLS for x in tokens], bool)
        kinds = np.where(are_controls, CONTROL, kinds)
        inner, encode = BUILDERS[kind](metadata, tokens, kinds)
        special = {tokens[i]: int(i) for i in np.flatnonzero(np.isin(kinds, NO_TEXT))}
        # those of users, such as runs of spaces, are found in every text, and are text
        users = {tokens[i]: int(i) for i in np.flatnonzero(kinds == USER_DEFINED)}
        for named, add in (special, inner.add_special_tokens), (users, inner.add_tokens):
            add([_library().AddedToken(x, normalized=False) for x in named])
        ids: dict[str, int | None] = {}
        for name in NAMES:
            ids[name] = metadata.get(f"{WHERE}{name}_token_id", USUAL.get(kind, {}).get(name))
            is_number = type(ids[name]) is int and ids[name] in range(len(tokens))
            if ids[name] is not None and not is_number:
                refuse(f"the {name} token is {shown(str(ids[name]))}, of {len(tokens)}")
        begins = kind == "llama" or metadata.get(WHERE + "pre") in LOOKED_UP
        for name, usual in ("add_bos", begins), ("add_eos", False):
            ids[name] = metadata.get(f"{WHERE}{name}_token", usual)
            if not isinstance(ids[name], bool):
                refuse(f"{WHERE}{name}_token is {shown(str(ids[name]))}, neither true nor false")
        made = cls(inner, special, ids)
        if encode is not None or (kind != "bert" and overlap(users, special)):
            made._partition = Partition(users, special)
            made._encode = encode or (lambda text: _encoded(inner, text))
        return made

    @classmethod
    def from_json(cls, path: str | PathLike[str]) -> Tokenizer:
        """The tokenizer in the file at `path`, a `tokenizer.json` of Hugging Face.

        Raises a `FileFormatError` for a file that is none.
        """
        place, library = as_path(path), _library()
        with reaching(place, "read"):
            text = place.read_bytes()
        try:
            inner = library.Tokenizer.from_str(text.decode())
        except Exception as error:  # the library has one class for all
            refuse(f"{place.name} is no tokenizer: {str(error)[:100]}")
        inner.no_padding()
        inner.no_truncation()
        added = inner.get_added_tokens_decoder()
        return cls(inner, {x.content: i for i, x in added.items() if x.special}, {})

    def __len__(self) -> int:
        return self._inner.get_vocab_size()

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens, {len(self.special)} special)"

    def to_json(self) -> str:
        """It as the text of a `tokenizer.json` of Hugging Face.

        Of a vocabulary of SentencePiece that merges what is no token, or has equal scores, the
        tokens and texts are in it, but not the merges: no such file can say them.
        """
        return self._inner.to_str()

    def encode(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        """The numbers of the tokens of `text`, a list.

        `add_special` adds those that the model wants at the begin and end. With `parse_special`
        the names of special tokens in the text stand for these; without, they are text as any
        other. Give it for templates, never for what a stranger wrote.
        """
        if not isinstance(text, str):
            raise wrong("encode: text", text, "a text", "give a str")
        is_parsed = flag("encode: parse_special", parse_special)
        is_whole = flag("encode: add_special", add_special)
        try:
            if self._partition is None:
                inner = self._parser if is_parsed else self._inner
                ids = _encoded(inner, text, is_whole)
            else:
                ids = []
                for part in self._partition.parts(text, is_parsed):
                    ids += [part] if isinstance(part, int) else self._encode(part)
        except (TypeError, UnicodeEncodeError):  # half of a surrogate pair
            fix = 'replace what is no letter: text.encode("utf-8", "replace").decode()'
            raise wrong("encode: text", text, "Unicode", fix) from None
        if not is_whole:
            return ids
        first = [self.bos] if self._adds_bos and self.bos is not None else []
        last = [self.eos] if self._adds_eos and self.eos is not None else []
        return [*first, *ids, *last]

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """The text of the tokens `ids`; names of special ones only with `special`.

        Raises a `BoundsError` for a number that no token has.
        """
        numbers, is_shown = self._checked(ids), flag("decode: special", special)
        if not self._has_bytes:
            return self._inner.decode(numbers, skip_special_tokens=not is_shown)
        hidden = frozenset() if is_shown else self._hidden
        shown = b"".join(self.bytes_of(i) for i in numbers if i not in hidden)
        return _Letters("Strip" in self._decoder).add(shown, True)

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a `token` adds to a text, which may be a part of a letter.

        Those of a special token are its name, and there are none of a number that no token has.
        """
        number = integer("bytes_of: token", token)
        name = self._inner.id_to_token(number) if 0 <= number < 2**32 else None
        if name is None:
            return b""
        if name in self.special or number in self._added:
            return name.encode()
        if self._has_bytes and (found := BYTE.fullmatch(name)):
            return bytes([int(found[1], 16)])
        if "ByteLevel" in self._decoder and all(x in LETTERS for x in name):
            return bytes(LETTERS[x] for x in name)
        return name.replace(SPACE, " ").encode() if SPACE in self._decoder else name.encode()

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of each of `ids` as it comes; half a letter waits for the rest."""
        count, hidden, letters = self.end, self._hidden, _Letters("Strip" in self._decoder)
        stream = _library().decoders.DecodeStream(skip_special_tokens=True)
        for number in ids:
            if type(number) is not int or not 0 <= number < count:
                number = self._checked([number])[0]
            if self._has_bytes:
                yield "" if number in hidden else letters.add(self.bytes_of(number))
            else:
                yield stream.step(self._inner, number) or ""

    @lazy
    def end(self) -> int:
        """One more than the greatest number of a token; some numbers may be no token's."""
        return max(len(self), 1 + max(self._added, default=-1))

    @lazy
    def _hidden(self) -> frozenset[int]:
        return frozenset(self.special.values())

    @property
    def _has_bytes(self) -> bool:
        """Whether some tokens are single bytes.

        If such bytes in a row are no letters, the library makes all of them unknown, even what was
        text before the last one came; and its stream fails then.
        """
        return "ByteFallback" in self._decoder

    @lazy
    def _parser(self) -> Any:
        """A copy of the library's tokenizer that finds the names of special tokens."""
        return type(self._inner).from_str(self._inner.to_str())

    @lazy
    def _decoder(self) -> str:
        """What the library makes text by, as JSON."""
        found = self._inner.decoder
        return "" if found is None else found.__getstate__().decode()

    @lazy
    def _added(self) -> Collection[int]:
        """The tokens that are no bytes in another writing: their names are their texts."""
        return self._inner.get_added_tokens_decoder().keys()

    def _checked(self, ids: Iterable[int]) -> list[int]:
        numbers = [integer("decode: a token", i) for i in members("decode: the tokens", ids)]
        for i in numbers:
            if not 0 <= i < self.end:
                raise BoundsError(
                    f"decode: there is no token {i}", fix=f"give numbers from 0 to {self.end - 1}"
                )
        return numbers


def _encoded(inner: Any, text: str, is_whole: bool = False) -> list[int]:
    """The tokens of a text by the library: a batch, since other threads go on meanwhile then."""
    (found,) = inner.encode_batch_fast([text], add_special_tokens=is_whole)
    return found.ids


class _Letters:
    """Makes letters of bytes as they come; the first may be a space that is no text."""

    def __init__(self, space: bool) -> None:
        self._decoder, self._space = codecs.getincrementaldecoder("utf-8")("replace"), space

    def add(self, more: bytes, is_last: bool = False) -> str:
        """The letters that are whole by now."""
        text = self._decoder.decode(more, is_last)
        if self._space and text:
            self._space, text = False, text.removeprefix(" ")
        return text


# -- kinds of tokenizers ---------------------------------------------------------------------------


Built = tuple[Any, Encode | None]  # the library's tokenizer, and what encodes as it cannot


def _bytes_merged(metadata: Mapping[str, Any], tokens: Sequence[str], kinds: np.ndarray) -> Built:
    """Byte-pair encoding as of GPT-2: bytes are letters, merged by rank."""
    library = _library()
    name = metadata.get(WHERE + "pre", "default")
    if not isinstance(name, str) or name not in PATTERNS:
        refuse(
            f"text is parted by the pattern {shown(str(name))}, which rlx has not",
            f"the patterns are {', '.join(PATTERNS)}",
        )
    parts, pre = [], library.pre_tokenizers
    for pattern in PATTERNS[name]:
        parts.append(pre.Split(library.Regex(pattern), "isolated"))
    vocabulary = {token: i for i, token in enumerate(tokens)}
    listed = metadata.get(WHERE + "merges", [])
    if not isinstance(listed, list):
        refuse("the metadata has no list of merges")
    merges = [(left, right) for left, _, right in (str(x).partition(" ") for x in listed)]
    known = vocabulary.__contains__
    for merge, (left, right) in zip(listed, merges, strict=True):
        if not (known(left) and known(right) and known(left + right)):
            refuse(f"the merge {shown(str(merge))} is of tokens that the file has not")
    model = library.models.BPE(vocabulary, merges, ignore_merges=name in LOOKED_UP)
    inner = library.Tokenizer(model)
    parts.append(pre.ByteLevel(False, use_regex=False))
    absent = "".join(x for x in sorted(pre.ByteLevel.alphabet()) if not known(x))
    if absent:  # bytes that no token has are left out, and what stands beside them is not merged
        parts.append(pre.Split(library.Regex(f"[{re.escape(absent)}]"), "removed"))
    inner.pre_tokenizer = pre.Sequence(parts)
    inner.decoder = library.decoders.ByteLevel()
    return inner, None


# whole words need no merges, and texts begin with a token of their own
LOOKED_UP = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2".split()


def _scores_merged(metadata: Mapping[str, Any], tokens: Sequence[str], kinds: np.ndarray) -> Built:
    """SentencePiece's: two pieces are merged that make the one of best score."""
    library = _library()
    scores = metadata.get(WHERE + "scores")
    if not isinstance(scores, np.ndarray) or scores.dtype.kind != "f" or np.isnan(scores).any():
        refuse(f"the file has no scores of its {len(tokens)} tokens")
    if scores.shape != (len(tokens),):
        refuse(f"the file has {len(scores)} scores of {len(tokens)} tokens")
    longest = max(map(len, tokens), default=0)
    if longest > MOST_LETTERS:  # which parts in as many ways
        refuse(f"a token has {longest} letters, more than {MOST_LETTERS}")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    unknown = next((tokens[int(i)] for i in np.flatnonzero(kinds == UNKNOWN_TOKEN)), None)
    merges = merges_of(vocabulary, scores.tolist(), unknown)
    inner = library.Tokenizer(
        library.models.BPE(
            vocabulary,
            merges.pairs,
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefix = metadata.get(WHERE + "add_space_prefix", True)
    if not isinstance(prefix, bool):
        refuse(f"{WHERE}add_space_prefix is {shown(str(prefix))}, neither true nor false")
    normal, out = library.normalizers, library.decoders
    first = [normal.Prepend(SPACE)] if prefix else []
    inner.normalizer = normal.Sequence([*first, normal.Replace(" ", SPACE)])
    strip = [out.Strip(" ", 1, 0)] if prefix else []
    inner.decoder = out.Sequence([out.Replace(SPACE, " "), out.ByteFallback(), out.Fuse(), *strip])
    if merges.are_ordered:
        return inner, None
    number = None if unknown is None else vocabulary[unknown]
    return inner, Pieces(merges.scores, vocabulary, number, " " if prefix else "").ids


def _words_parted(metadata: Mapping[str, Any], tokens: Sequence[str], kinds: np.ndarray) -> Built:
    """WordPiece, BERT's: words of small letters part in the longest pieces that there are.

    GGUF files mark pieces that begin a word, BERT's own vocabulary those that go on with one.
    """
    library = _library()
    named = {}
    for name in ("bos", "seperator", "unknown"):  # as the format spells it
        number = metadata.get(f"{WHERE}{name}_token_id")
        if type(number) is not int or number not in range(len(tokens)):
            refuse(f"the {name} token is {shown(str(number))}, of {len(tokens)}")
        named[name] = tokens[number]
    plain = set(named.values()) | {tokens[int(i)] for i in np.flatnonzero(kinds == CONTROL)}
    pieces = [x if x in plain else x[1:] if x.startswith(SPACE) else f"##{x}" for x in tokens]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    if len(vocabulary) < len(tokens):
        refuse("the metadata has no list of different tokens")
    unknown, first, last = (named[x] for x in ("unknown", "bos", "seperator"))
    inner = library.Tokenizer(library.models.WordPiece(vocabulary, unk_token=unknown))
    inner.normalizer = library.normalizers.BertNormalizer()
    inner.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    inner.decoder = library.decoders.WordPiece()
    ends = [(x, vocabulary[x]) for x in (first, last)]
    inner.post_processor = library.processors.BertProcessing(ends[1], ends[0])
    return inner, None


USUAL = {"llama": {"unknown": 0, "bos": 1, "eos": 2}}  # tokens by kind, if a file does not say
BUILDERS = {"gpt2": _bytes_merged, "llama": _scores_merged, "bert": _words_parted}


def _library() -> Any:
    try:
        import tokenizers
        from tokenizers import (  # noqa: F401 (loads them)
            decoders,
            models,
            normalizers,
            pre_tokenizers,
            processors,
        )
    except ImportError:
        raise ArgumentError(
            "the library tokenizers is not installed", fix='pip install "rlx[models]"'
        ) from None
    return tokenizers
