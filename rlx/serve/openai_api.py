"""Requests and answers of OpenAI's HTTP interface: checked, and written down.

The fields are those of https://platform.openai.com/docs/api-reference, and `top_k`, `min_p` and
`repetition_penalty` besides. A field that means nothing, or that this server has not, is an error
that names it.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any, final

from ..ir.record import record
from ..models.generation import Completion
from .bad_request import BadRequest as BadRequest
from .messages import messages_of
from .tools import Called, Tools, tools_of

MOST_SAMPLES = 16
# tokens of an answer where a request does not say: of a chat, and of others, as at OpenAI's
CHAT_TOKENS, PLAIN_TOKENS = 256, 16
NEVER = -9999.0  # the logarithm of no probability, in OpenAI's answers
# field -> kind, least, greatest
NUMBERS: dict[str, tuple[type, float, float]] = {
    "max_tokens": (int, 0, 2**31 - 1),
    "max_completion_tokens": (int, 1, 2**31 - 1),
    "n": (int, 1, MOST_SAMPLES),
    "best_of": (int, 1, MOST_SAMPLES),
    "seed": (int, -(2**63), 2**63 - 1),
    "temperature": (float, 0, 100),
    "top_p": (float, 0, 1),
    "top_k": (int, 0, 2**31 - 1),
    "min_p": (float, 0, 1),
    "presence_penalty": (float, -2, 2),
    "frequency_penalty": (float, -2, 2),
    "repetition_penalty": (float, 0.01, 100),
    "top_logprobs": (int, 0, 20),
}
SAMPLING = (
    "temperature top_p top_k min_p presence_penalty frequency_penalty repetition_penalty"
).split()
CHAT = {"messages", "max_completion_tokens", "top_logprobs", "tools", "tool_choice"}
CHAT |= {"parallel_tool_calls"}
PLAIN = {"prompt", "best_of", "echo"}  # of completions alone
# names by which callers tell apart what they ask for; nothing depends on them
LABELS = ("user", "safety_identifier", "prompt_cache_key")
COMMON = (
    {
        *("model", "stream", "stream_options", "stop", "logprobs", "logit_bias", *LABELS),
        *("response_format", "structured_outputs"),
        *NUMBERS,
    }
    - CHAT
    - PLAIN
)
MOST_BIASES, MOST_BIAS = 1024, 100
# what this server has not -> the values that ask for nothing
ABSENT: dict[str, tuple[Any, ...]] = {
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "reasoning_effort": (None,),
    "verbosity": (None, "medium"),
    "web_search_options": (None,),
    "moderation": (None,),
    "suffix": (None, ""),
    "store": (None, False),
    "metadata": (None, {}),  # of answers that are stored
    "service_tier": (None, "auto", "default"),
    "prompt_cache_options": (None,),
    "prompt_cache_retention": (None, "in_memory", "in-memory"),
}


@record
class Asked:
    """A request, checked."""

    model: str | None
    prompts: tuple[Any, ...]  # texts or lists of tokens; for a chat its messages alone
    is_chat: bool
    samples: int  # of each prompt
    best_of: int  # samples that are written for these
    echo: bool  # whether a text begins with its prompt
    tools: Tools | None
    hides_logprobs: bool  # they are only needed to tell which samples are best
    is_stream: bool
    has_usage: bool  # whether a stream ends with what it cost
    options: Mapping[str, Any]  # of `LanguageModel.generate`; `max_tokens` may be None

    def options_for(self, prompt: Sequence[int], room: int) -> dict[str, Any]:
        """The options for a `prompt`, if there is `room` for so many tokens with it.

        Who asks for no number of tokens gets the usual one, or what there is room for.
        """
        if self.options["max_tokens"] is not None:
            return {**self.options}
        usual = CHAT_TOKENS if self.is_chat else PLAIN_TOKENS
        return {**self.options, "max_tokens": max(min(usual, room - len(prompt)), 1)}


def asked(body: Any, is_chat: bool) -> Asked:
    """Check the body of a request for a chat, or else for completions.

    Returns what is asked for. A field that is wrong raises a `BadRequest` that names it.
    """
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    _check_fields(body, COMMON | (CHAT if is_chat else PLAIN))
    prompts = (messages_of(body),) if is_chat else _prompts(body)
    stream, tools = _flag(body, "stream"), tools_of(body)
    has_usage = _usage_option(body, stream)
    echo, best_of = _flag(body, "echo"), _best_of(body, stream)
    options: dict[str, Any] = {"temperature": 1.0, "max_tokens": _limit(body, is_chat)}
    options |= {name: body[name] for name in SAMPLING if body.get(name) is not None}
    if body.get("top_p") == 0:
        options |= {"top_p": 1.0, "temperature": 0.0}
    if body.get("seed") is not None:
        options["seed"] = body["seed"]
    options |= {"stop": _stops(body), "logprobs": _logprobs(body, is_chat)}
    options |= {"logit_bias": _biases(body), **_form(body)}
    if tools is not None and tools.is_forced:
        if options.keys() & {"schema", "regex"}:
            what = "an answer cannot be a call and of another form: leave response_format out"
            raise BadRequest(what, "tool_choice")
        options["schema"] = tools.schema()
    if echo and options["logprobs"] is not None:
        raise BadRequest("this server has no logprobs of prompts: ask for echo alone", "echo")
    samples = body.get("n") or 1
    hides_logprobs = best_of > samples and options["logprobs"] is None
    if hides_logprobs:
        options["logprobs"] = 0
    given = body.get("model"), prompts, is_chat, samples, best_of, echo, tools, hides_logprobs
    return Asked(*given, stream, has_usage, options)


def _limit(body: Mapping[str, Any], is_chat: bool) -> int | None:
    """How many tokens an answer has at most, if the request says that."""
    given = [body.get(name) for name in ("max_completion_tokens", "max_tokens")]
    limit = next((x for x in given if x is not None), None)
    if is_chat and limit == 0:
        raise BadRequest("max_tokens must be 1 or more", "max_tokens")
    return limit


def _usage_option(body: Mapping[str, Any], stream: bool) -> bool:
    """Whether a stream is to end with what it cost."""
    how = body.get("stream_options")
    if how is None:
        return False
    known = {"include_usage", "include_obfuscation"}
    if not isinstance(how, dict) or set(how) - known:
        raise BadRequest("stream_options must be an object with include_usage", "stream_options")
    if not stream:
        raise BadRequest("stream_options needs stream to be true", "stream_options")
    if _flag(how, "include_obfuscation", "stream_options.include_obfuscation"):
        what = "include_obfuscation is not supported by this server"
        raise BadRequest(what, "stream_options.include_obfuscation")
    return _flag(how, "include_usage", "stream_options.include_usage")


def _best_of(body: Mapping[str, Any], stream: bool) -> int:
    """How many samples are written, of which the best are given."""
    samples = body.get("n") or 1
    best_of = body.get("best_of") or samples
    if best_of < samples:
        raise BadRequest(f"best_of must be n or more, {samples}", "best_of")
    if best_of > samples and stream:
        raise BadRequest("a stream cannot have best_of: all are written first", "best_of")
    return best_of


def _check_fields(body: Mapping[str, Any], known: set[str]) -> None:
    for name, value in body.items():
        if name in ABSENT:
            if value not in ABSENT[name]:
                raise BadRequest(f"{name} is not supported by this server", name)
        elif name not in known:
            raise BadRequest(f"unrecognized request argument: {name[:100]}", name[:100])
    for name, (kind, least, most) in NUMBERS.items():
        value = body.get(name)
        if value is None:
            continue
        is_right = isinstance(value, int if kind is int else int | float)
        if isinstance(value, bool) or not is_right:
            text = "a whole number" if kind is int else "a number"
            raise BadRequest(f"{name} must be {text}", name)
        if not least <= value <= most:  # nor is infinity
            raise BadRequest(f"{name} must be from {least} to {most}", name)
    for name in ("model", *LABELS):
        if not isinstance(body.get(name), str | None):
            raise BadRequest(f"{name} must be a text", name)


def _flag(body: Mapping[str, Any], name: str, param: str | None = None) -> bool:
    value = body.get(name)
    if not isinstance(value, bool | None):
        raise BadRequest(f"{param or name} must be true or false", param or name)
    return bool(value)


def _stops(body: Mapping[str, Any]) -> list[str]:
    stop = body.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or len(stops) > 4 or not all(isinstance(x, str) for x in stops):
        raise BadRequest("stop must be a text or a list of up to 4 texts", "stop")
    return stops


def _form(body: Mapping[str, Any]) -> dict[str, Any]:
    """The form of the text: OpenAI's `response_format`, or `structured_outputs` of vLLM."""
    given, other = body.get("response_format"), body.get("structured_outputs")
    if given is not None and other is not None:
        raise BadRequest("give response_format or structured_outputs", "structured_outputs")
    if other is not None:
        return _structured(other)
    if given is None:
        return {}
    kind = given.get("type") if isinstance(given, dict) else None
    if kind == "json_object":
        return {"schema": {"type": "object"}}
    if kind == "text":
        return {}
    if kind != "json_schema":
        what = "response_format.type must be text, json_object or json_schema"
        raise BadRequest(what, "response_format")
    about = given.get("json_schema")
    schema = about.get("schema") if isinstance(about, dict) else None
    if not isinstance(schema, dict | bool):
        what = "response_format.json_schema.schema must be a JSON schema"
        raise BadRequest(what, "response_format")
    return {"schema": schema}


def _structured(given: Any) -> dict[str, Any]:
    param = "structured_outputs"
    if not isinstance(given, dict) or len(given) != 1:
        raise BadRequest(f"{param} must be an object with json, regex or choice", param)
    ((kind, value),) = given.items()
    if kind == "json" and isinstance(value, dict | bool):
        return {"schema": value}
    if kind == "regex" and isinstance(value, str):
        return {"regex": value}
    is_list = isinstance(value, list) and bool(value)
    if kind == "choice" and is_list and all(isinstance(x, str) for x in value):
        return {"regex": "|".join(map(_literal, value))}
    raise BadRequest(f"{param} must be an object with json, regex or choice", param)


def _literal(text: str) -> str:
    """A regular expression that matches a text alone."""
    return "".join(x if x.isascii() and x.isalnum() else f"\\x{{{ord(x):x}}}" for x in text)


def _biases(body: Mapping[str, Any]) -> dict[int, float]:
    given = body.get("logit_bias") or {}
    if not isinstance(given, dict) or len(given) > MOST_BIASES:
        raise BadRequest(f"logit_bias must be an object of up to {MOST_BIASES}", "logit_bias")
    for token, value in given.items():
        if not (token.isascii() and token.isdecimal() and len(token) < 10):
            raise BadRequest("logit_bias must have numbers of tokens", "logit_bias")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not -MOST_BIAS <= value <= MOST_BIAS:
            what = f"logit_bias must have numbers from -{MOST_BIAS} to {MOST_BIAS}"
            raise BadRequest(what, "logit_bias")
    return {int(token): value for token, value in given.items()}


def _logprobs(body: Mapping[str, Any], is_chat: bool) -> int | None:
    """How many of the likeliest tokens are asked for; None if no logarithms are."""
    if is_chat:
        wants = _flag(body, "logprobs")
        if not wants and body.get("top_logprobs"):
            raise BadRequest("top_logprobs needs logprobs to be true", "top_logprobs")
        return body.get("top_logprobs") or 0 if wants else None
    count = body.get("logprobs")
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 20:
        raise BadRequest("logprobs must be a whole number from 0 to 20", "logprobs")
    return count


def _prompts(body: Mapping[str, Any]) -> tuple[Any, ...]:
    given = body.get("prompt")
    if isinstance(given, str) or are_tokens(given):
        return (given,)
    if not isinstance(given, list) or not given or len(given) > MOST_SAMPLES:
        raise BadRequest(f"prompt must be a text, or a list of up to {MOST_SAMPLES}", "prompt")
    if not all(isinstance(x, str) or are_tokens(x) for x in given):
        raise BadRequest("prompt must be texts or lists of tokens", "prompt")
    return tuple(given)


def are_tokens(x: Any) -> bool:
    """Whether `x` is a list of numbers, one at least."""
    return isinstance(x, list) and {*map(type, x)} == {int}


# -- answers ---------------------------------------------------------------------------------------


@record
class Names:
    """What all parts of an answer have in common."""

    id: str
    created: int  # seconds since 1970
    model: str
    is_chat: bool
    has_usage: bool  # whether the last part of a stream says what it cost, and all others null

    def head(self, is_part: bool) -> dict[str, Any]:
        """The first fields of an answer, or of a part of a stream."""
        kind = ("chat.completion" + ".chunk" * is_part) if self.is_chat else "text_completion"
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def model_entry(name: str, parent: str | None = None) -> dict[str, Any]:
    """What a list of models says of the one called `name`, an adapter of `parent`."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "rlx", "parent": parent}


def no_model(name: object) -> BadRequest:
    """What to say to who asks for a model of another `name`."""
    what = f"there is no model {str(name)[:100]!r}"
    return BadRequest(what, "model", status=404, code="model_not_found")


def usage(completions: Sequence[Completion], prompt_tokens: int) -> dict[str, int]:
    """What `completions` of prompts with so many `prompt_tokens` cost."""
    written = sum(len(x.tokens) for x in completions)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": written,
        "total_tokens": prompt_tokens + written,
    }


def choice(
    names: Names, index: int, text: str, calls: Sequence[Called], reason: str, logprobs: Any
) -> dict[str, Any]:
    """The choice number `index` of a whole answer.

    `names` are those of the answer, `text` is what was written, with its `logprobs`, beside
    `calls` of tools; `reason` is that for its end.
    """
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if calls:
        message |= {"content": text or None, "tool_calls": [x.body() for x in calls]}
    said: dict[str, Any] = {"message": message} if names.is_chat else {"text": text}
    return {"index": index, **said, "logprobs": logprobs, "finish_reason": end_of(reason)}


def part(
    names: Names,
    index: int,
    text: str | None,
    reason: str = "",
    logprobs: Any = None,
    calls: Sequence[Called] = (),
) -> dict[str, Any]:
    """A part of a stream of `names` for choice `index`.

    It has some `text` and its `logprobs`, or `calls` of tools, or the `reason` for the end; with
    none of them it begins.
    """
    if names.is_chat:
        begins = {"role": "assistant", "content": ""}
        delta = {} if reason else begins if text is None else {"content": text}
        if calls:
            delta = {"tool_calls": [{"index": i, **x.body()} for i, x in enumerate(calls)]}
        said: dict[str, Any] = {"delta": delta}
    else:
        said = {"text": text or ""}
    end = end_of(reason) if reason else None
    one = {"index": index, **said, "logprobs": logprobs, "finish_reason": end}
    usage = {"usage": None} if names.has_usage else {}
    return {**names.head(True), "choices": [one], **usage}


@final
class Offsets:
    """Where tokens begin in a text, in letters; they are told one after the other."""

    def __init__(self) -> None:
        self._letters = codecs.getincrementaldecoder("utf-8")("ignore")
        self._count = 0

    def of(self, word: bytes) -> int:
        """Where the next token begins, whose bytes are a `word`."""
        before = self._count
        self._count += len(self._letters.decode(word))
        return before


def logprobs_of(
    names: Names, tokenizer: Any, found: Completion, first: int, offsets: Offsets
) -> Any:
    """The logarithms of an answer `found`, from its token `first` on.

    `tokenizer` writes the tokens, `names` say in which form, `offsets` know those before. None if
    logarithms were not asked for.
    """
    if not found.logprobs:
        return None

    def letters(token: int) -> bytes:
        return b"" if tokenizer is None else tokenizer.bytes_of(token)

    lists = found.tokens[first:], found.logprobs[first:], found.likeliest[first:]
    rows = list(zip(*lists, strict=True))
    if not names.is_chat:
        parts = [letters(t) for t, *_ in rows]
        return {
            "text_offset": [offsets.of(x) for x in parts],
            "tokens": [_shown(x, "bytes:") for x in parts],
            "token_logprobs": [_logprob(p) for _, p, _ in rows],
            "top_logprobs": [
                {_shown(letters(t), "bytes:"): _logprob(p) for t, p in most.items()}
                for *_, most in rows
            ],
        }

    def entry(token: int, logprob: float) -> dict[str, Any]:
        word = letters(token)
        return {"token": _shown(word), "logprob": _logprob(logprob), "bytes": list(word)}

    return {
        "content": [
            {**entry(t, p), "top_logprobs": [entry(*x) for x in most.items()]}
            for t, p, most in rows
        ]
    }


def _shown(word: bytes, kind: str = "") -> str:
    """The bytes of a token as text; those that are none, as a part of a letter, by numbers."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        return kind + "".join(f"\\x{x:02x}" for x in word)


def _logprob(given: float) -> float:
    """A logarithm as a number that JSON has; NaN of a broken model is none."""
    return max(NEVER, given)  # in this order: no comparison with NaN holds


def end_of(reason: str) -> str:
    """A reason for the end, in the words of the interface."""
    return "length" if reason == "deadline" else reason
