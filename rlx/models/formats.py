"""Texts of a given form: JSON of a schema, or what a regular expression matches.

At each place only tokens are allowed that the form can go on with. The library `llguidance`
(`rlx[formats]`) finds them; it does so in a thread while the model computes the step that they are
for.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, final

import numpy as np

from ..ir.errors import ArgumentError, AttributeValueError
from ..ir.lazy import lazy
from ..trace.arguments import wrong

MOST_KEPT = 64  # forms of a model that are kept ready
SPACE = " ?"  # between parts of JSON: more would let a text go on for ever
WORD = 32  # bits of a mask's numbers
MOST_FUEL = 200_000  # of the library, for a regular expression: more holds each step up for 20 ms
SECONDS, WALL = 1.0, 20.0  # of the processor, and of a busy machine, to read a schema
TRY = """
import signal, sys, llguidance
if hasattr(signal, "setitimer"):
    signal.setitimer(signal.ITIMER_PROF, {})
llguidance.LLMatcher.validate_grammar(sys.stdin.read())
"""


@final
class Guide:
    """The tokens that one text may go on with; `Formats.guide` makes it.

    A `matcher` of the library knows the form, `first` are the tokens that a text may begin with,
    `ends` those that end texts, of a `vocabulary` of so many.
    """

    def __init__(
        self, matcher: Any, first: np.ndarray, ends: Collection[int], vocabulary: int
    ) -> None:
        self._matcher, self._ends, self._count = matcher, sorted(ends), vocabulary
        self._next: Future[np.ndarray] = Future()
        self._next.set_result(first)

    def mask(self) -> np.ndarray:
        """The tokens that are allowed next, as bits of u32 numbers."""
        return self._next.result()

    def take(self, token: int) -> None:
        """Go on with a `token`; what may follow is found in a thread."""
        self._next = _threads().submit(self._after, token)

    @property
    def has_failed(self) -> bool:
        """Whether the form became too complex, so that nothing but an end is allowed."""
        self.mask()
        return self._matcher.is_error()

    def _after(self, token: int) -> np.ndarray:
        self._matcher.consume_token(token)
        return _allowed(self._matcher, self._ends, self._count)


@final
class Formats:
    """The forms of texts of a model.

    It has a tokenizer, which `written` gives as JSON, a `vocabulary` of so many tokens, and those
    that are `ends` of texts. Schemas that `are_tried` were read by another process before.
    """

    def __init__(
        self,
        written: Callable[[], str] | None,
        vocabulary: int,
        ends: Collection[int],
        are_tried: bool = False,
    ) -> None:
        self._written, self._vocabulary, self._ends = written, vocabulary, ends
        self._are_tried = are_tried
        self._matcher = functools.lru_cache(MOST_KEPT)(self._compiled)

    def prepare(self) -> None:
        """Make what all forms need before anybody waits: the library holds threads up.

        Where texts can have no form, nothing is made.
        """
        if importlib.util.find_spec("llguidance") is not None:
            with suppress(ArgumentError):
                _ = self._tokens

    def tried(self) -> Formats:
        """The same forms for who gives only those that another process has read before.

        What all forms need is made, and the tokenizer is not kept for them.
        """
        other = Formats(None, self._vocabulary, self._ends, are_tried=True)
        with suppress(ArgumentError):
            other._tokens = self._tokens
        return other

    def guide(
        self, schema: Mapping[str, Any] | bool | None = None, regex: str | None = None
    ) -> Guide | None:
        """The guide of a text that is JSON of a `schema`, or that a `regex` matches.

        None if neither is given. Raises an `AttributeValueError` for those that mean nothing or
        that the library has not, an `ArgumentError` without the library, and for a model without a
        tokenizer or a token that ends texts.
        """
        if schema is None and regex is None:
            return None
        if schema is not None and regex is not None:
            raise ArgumentError("generate: both schema and regex are given", fix="give one of them")
        given = ("schema", _written(schema)) if regex is None else _regex(regex)
        matcher, first = self._matcher(*given)
        return Guide(matcher.deep_copy(), first, self._ends, self._vocabulary)

    def _compiled(self, kind: str, text: str) -> tuple[Any, np.ndarray]:
        """What knows a form, and the tokens that texts may begin with."""
        library, tokens = _library(), self._tokens
        try:
            make = library.LLMatcher
            grammar = (
                make.grammar_from_regex(text)
                if kind == "regex"
                else make.grammar_from_json_schema(text, overrides={"whitespace_pattern": SPACE})
            )
        except ValueError as error:
            raise _refusal(kind, str(error)) from None
        if kind == "schema" and not self._are_tried and _is_endless(grammar):
            raise AttributeValueError(
                "generate: schema: it takes too long to find what texts it allows",
                fix="give a simpler one, with fewer patterns for the same text",
            )
        most = {"initial_lexer_fuel": MOST_FUEL} if kind == "regex" else {}
        matcher = make(tokens, grammar, log_level=0, limits=library.LLParserLimits(**most))
        first = _allowed(matcher, self._ends, self._vocabulary)
        if matcher.is_error():
            raise _refusal(kind, matcher.get_error())
        return matcher, first

    @lazy
    def _tokens(self) -> Any:
        if self._written is None or not self._ends:
            what = "tokenizer" if self._written is None else "token that ends texts"
            raise ArgumentError(
                f"generate: the model has no {what}", fix="leave out schema and regex"
            )
        try:
            return _library().LLTokenizer(
                self._written(), n_vocab=self._vocabulary, eos_token=sorted(self._ends)
            )
        except ValueError as error:  # a kind of tokenizer that it does not know
            raise ArgumentError(
                f"generate: texts of this tokenizer can have no form: {error}",
                fix="leave out schema and regex",
            ) from None


def _allowed(matcher: Any, ends: Collection[int], count: int) -> np.ndarray:
    """The tokens that a text may go on with, of so many, as bits of u32 numbers."""
    mask = np.zeros(-(-count // WORD), "uint32")
    may_end = True
    if not matcher.is_error():
        found = np.frombuffer(matcher.compute_bitmask(), "uint32")[: len(mask)]
        mask[: len(found)] = found
        may_end = matcher.is_accepting() or not mask.any()
    for end in ends:
        bit = np.uint32(1 << end % WORD)
        mask[end // WORD] = mask[end // WORD] | bit if may_end else mask[end // WORD] & ~bit
    return mask


def _refusal(kind: str, what: str) -> AttributeValueError:
    what = what.partition("<state>")[0]  # then come numbers of the library
    if "NoExtensionBias" in what:
        what = "no text has this form"
    return AttributeValueError(
        f"generate: {kind}: {' '.join(what.split())[:300]}",
        fix="give a simpler one; see docs/serving.md for what can be given",
    )


def _is_endless(grammar: str) -> bool:
    """Whether it takes the library too long to read a grammar.

    A process tries it: the time grows exponentially with the patterns that one text must match, and
    a thread cannot be ended.
    """
    command = [sys.executable, "-I", "-c", TRY.format(SECONDS)]
    how = {"input": grammar.encode(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.run(command, timeout=WALL, cwd=os.sep, **how).returncode < 0
    except subprocess.TimeoutExpired:
        return True


def _written(schema: Any) -> str:
    if not isinstance(schema, Mapping | bool):
        raise wrong("generate: schema", schema, "a JSON schema", "give a dict")
    try:
        return json.dumps({"allOf": [schema]} if isinstance(schema, bool) else schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise AttributeValueError(
            f"generate: schema is no JSON: {str(error)[:100]}", fix="give plain dicts, lists, texts"
        ) from None


def _regex(given: Any) -> tuple[str, str]:
    if not isinstance(given, str):
        raise wrong("generate: regex", given, "a text", "give a regular expression")
    return "regex", given


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "rlx.formats")


def _library() -> Any:
    try:
        import llguidance
    except ImportError:
        raise ArgumentError(
            "the library llguidance is not installed", fix='pip install "rlx[formats]"'
        ) from None
    return llguidance
