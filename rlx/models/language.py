"""Language models: text that goes on where a prompt ends."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from typing_extensions import Unpack

from ..io.template import ChatTemplate
from ..io.tokenizer import Tokenizer
from ..ir.config import config
from ..ir.errors import ArgumentError, BoundsError
from ..ir.types import as_dtype
from ..runtime import no_collection
from ..runtime.devices import Device
from ..runtime.session import default_session
from ..trace.arguments import choice, count_of, instance_of, names_of, pair, wrong
from ..trace.array import Array
from .formats import Formats
from .generation import Completion, Request, StoppedText, run
from .llama import Llama
from .prompts import Prompts, check_tokens, tokens_of
from .sampling import MOST_LISTED, Sampling, checked
from .steps import PAGE, Steps

# tokens that end a text, by the names that model makers give them
ENDS = (
    "<|im_end|> <|eot_id|> <|eom_id|> <|end|> <|endoftext|> <|end_of_text|> <end_of_turn> </s>"
).split()


class Options(TypedDict, total=False):
    """The options of `generate` and `stream`, for editors."""

    max_tokens: int
    stop: str | Sequence[str]
    logprobs: int | None
    schema: Mapping[str, Any] | bool | None
    regex: str | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    seed: int


class LanguageModel:
    """A language model with weights and a tokenizer; `rlx.models.load` opens one.

    `config` has the sizes, `weights` is the tree of arrays that `rlx.models.llama` computes with,
    `tokenizer` and `template`, a `ChatTemplate`, may be None; `ends` are the tokens that end texts;
    `release` is called when weights were copied, so that a mapped file can leave memory, and
    `check` before they are read: it raises if the file was cut off. Processes with `shared` models
    of the same weights have one copy of what is computed with.
    """

    def __init__(
        self,
        config: Llama,
        weights: Mapping[str, Any],
        tokenizer: Tokenizer | None = None,
        template: ChatTemplate | None = None,
        ends: Iterable[int] = (),
        *,
        release: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
        shared: bool = False,
    ) -> None:
        self.config, self.weights, self.tokenizer = config, weights, tokenizer
        self.template, self._release, self._is_shared = template, release, shared
        self._check_file = check
        self._made: dict[Any, Steps] = {}
        named = [] if tokenizer is None else [tokenizer.eos, tokenizer.eot]
        special = {} if tokenizer is None else tokenizer.special
        named += [special.get(name) for name in ENDS]
        given = {*ends, *(x for x in named if x is not None)}
        self.ends = frozenset(x for x in given if 0 <= x < config.vocabulary)  # -1 is none
        written = None if tokenizer is None else tokenizer.to_json
        self.formats = Formats(written, config.vocabulary, self.ends)

    @property
    def page_dtype(self) -> str:
        """The dtype of keys and values: float16 where much more is rounded off."""
        return "float16" if self.config.compute == "int8" else "float32"

    def steps(
        self,
        page_size: int = PAGE,
        dtype: str | None = None,
        adapters: tuple[int, int] | None = None,
        device: str | None = None,
    ) -> Steps:
        """The compiled steps with the weights bound, made when they are first asked for.

        Their pages hold `page_size` tokens each, as numbers of `dtype`, by default `page_dtype`.
        `adapters` are how many they take and their greatest rank. `device` computes them, by
        default that of `rlx.device`.
        """
        name = as_dtype(self.page_dtype if dtype is None else dtype).name
        size, room = count_of("steps: page_size", page_size, 1), _room(adapters)
        chosen = default_session().device if device is None else str(Device(device))
        key = chosen, size, name, room
        if key not in self._made:
            given = self.config, self.weights, size, name, self._release, room
            with no_collection, config.using(device=chosen):
                self._made[key] = Steps(*given, self._is_shared, self._check_file)
        return self._made[key]

    def with_weights(self, weights: Mapping[str, Any]) -> LanguageModel:
        """The same model with other `weights`, of the same structure and types.

        What was compiled for this one is used again.
        """
        other = copy.copy(self)
        other.weights = weights
        other._made = {key: steps.with_weights(weights) for key, steps in self._made.items()}
        return other

    def without_tokenizer(self) -> LanguageModel:
        """The same model for those who give and take tokens alone.

        What texts of a given form need is made, and who gives a form has tried it.
        """
        other = copy.copy(self)
        other.tokenizer = other.template = None
        other.formats = self.formats.tried()
        return other

    def __repr__(self) -> str:
        c = self.config
        return (
            f"LanguageModel({c.layers} layers, {c.size} features, {c.heads} heads, "
            f"{c.vocabulary} tokens, context {c.context})"
        )

    def __call__(self, ids: Any) -> Array:
        """Logits after each token: `i32[rows, tokens] → f32[rows, tokens, vocabulary]`.

        Raises a `BoundsError` for ids that no token has and for more tokens than the context.
        """
        tokens = np.asarray(ids)
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu" or not tokens.size:
            raise wrong("the ids", ids, "numbers of tokens", "give i32[rows, tokens]")
        for row in tokens.tolist():
            self._check(row, 0)
        return self.steps().logits(tokens.astype("int32"))

    # -- generation --------------------------------------------------------------------------------

    def generate(self, prompts: Prompts, **options: Unpack[Options]) -> Any:
        """Continue `prompts`: one text or list of tokens, or several.

        Returns a `Completion` for one and a list for several. A prompt gets the same tokens alone
        and among others. It ends at a token that ends texts, at a text of `stop`, or after
        `max_tokens`, 128 if not given. With a `schema` of JSON, or a `regex`, a text that ends by
        itself is of that form. `logprobs` asks for logarithms of probabilities, and for so
        many of the likeliest tokens at each place. The other `options` are those of `Sampling`;
        without them the likeliest token is taken each time. Names of special tokens in a prompt
        are text as any other. Raises a `BoundsError` if a prompt and `max_tokens` are more than
        the context.
        """
        listed, is_one = self.prompts(prompts)
        requests = [self.text(prompt, **options) for prompt in listed]
        for _ in run(self.steps(), requests):
            pass
        found = [request.completion() for request in requests]
        return found[0] if is_one else found

    def stream(self, prompt: str | Sequence[int], **options: Unpack[Options]) -> Iterator[str]:
        """Yield the text after `prompt` as it is written, with `options` of `generate`."""
        request = self.text(prompt, **options)
        return (piece for _, piece in run(self.steps(), [request]) if piece)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        **options: Unpack[Options],
    ) -> Completion:
        """Answer `messages`, dicts with `role` and `content`; returns a `Completion`.

        They are written down by the model's template, which may describe `tools`; `options` are
        those of `generate`. Names of special tokens in contents stay text. Raises an
        `ArgumentError` for messages that the template does not take.
        """
        return self.generate(self.chat_ids(messages, tools=tools), **options)

    def chat_ids(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None = None
    ) -> list[int]:
        """The tokens of `messages` up to where an answer begins, for `generate`.

        `tools` are described to the model. Raises an `ArgumentError` for messages that the template
        does not take, and if the model has no template.
        """
        if self.tokenizer is None or self.template is None:
            what = "tokenizer" if self.tokenizer is None else "chat template"
            raise ArgumentError(
                f"chat: the model has no {what}",
                fix="use generate, or set model.template = rlx.io.ChatTemplate(source)",
            )
        return self.template.encode(self.tokenizer, messages, tools=tools)

    def text(self, prompt: str | Sequence[int], **options: Unpack[Options]) -> Request:
        """A `prompt` ready to be continued, with the `options` and errors of `generate`."""
        listed, is_one = self.prompts(prompt)
        if not is_one:
            raise wrong("the prompt", prompt, "one prompt", "use generate for several")
        return self._request(listed[0], **options)

    def prompts(self, given: Any) -> tuple[list[list[int]], bool]:
        """Prompts as tokens, and whether the one `given` stood by itself.

        Raises an `ArgumentError` for what is neither a text nor numbers of tokens.
        """
        return tokens_of("generate", given, self.tokenizer)

    def _request(
        self,
        prompt: list[int],
        max_tokens: int = 128,
        stop: str | Sequence[str] = (),
        logprobs: int | None = None,
        schema: Mapping[str, Any] | bool | None = None,
        regex: str | None = None,
        **sampling: Any,
    ) -> Request:
        limit = count_of("generate: max_tokens", max_tokens)
        for name in sampling:
            choice("generate: option", name, (*Options.__annotations__,))
        if logprobs is not None:
            logprobs = count_of("generate: logprobs", logprobs, 0, MOST_LISTED)
        stops = [x for x in names_of("generate: stop", stop) if x]
        self._check(prompt, limit)
        guide = self.formats.guide(schema, regex)
        text, how = StoppedText(self.tokenizer, stops), checked(Sampling(**sampling))
        check_tokens("generate", how.logit_bias, self.config.vocabulary)
        return Request(prompt, limit, how, self.ends, text, logprobs, guide)

    def _check(self, prompt: list[int], limit: int) -> None:
        if not prompt:
            raise ArgumentError("generate: a prompt has no tokens", fix="give one token at least")
        check_tokens("generate", prompt, self.config.vocabulary)
        if len(prompt) + limit > self.config.context:
            raise BoundsError(
                f"generate: a prompt of {len(prompt)} tokens and {limit} more are over the "
                f"model's context of {self.config.context}",
                fix="shorten the prompt, or ask for fewer with max_tokens=",
            )


def language_model(what: str, given: Any) -> LanguageModel:
    """Check that an argument is a language model."""
    return instance_of(
        what, given, LanguageModel, "a language model", "give what rlx.models.load gave"
    )


def _room(adapters: Any) -> tuple[int, int] | None:
    """How many adapters steps take, and their greatest rank."""
    if adapters is None:
        return None
    count, rank = pair("steps: adapters", adapters)
    return count_of("steps: adapters", count, 1, 4096), count_of("steps: the rank", rank, 1, 4096)
