"""Requests and answers of OpenAI's HTTP interface: checked, and written down.

The fields are those of https://platform.openai.com/docs/api-reference, and `top_k`, `min_p` and
`repetition_penalty` besides. A field that means nothing, or that this server has not, is an error
that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.record import record
from ..models.generation import Completion

MOST_SAMPLES = 16
DEFAULT_TOKENS = 256  # of an answer where a request does not say
# field -> kind, least, greatest
NUMBERS: dict[str, tuple[type, float, float]] = {
    "max_tokens": (int, 1, 2**31 - 1),
    "max_completion_tokens": (int, 1, 2**31 - 1),
    "n": (int, 1, MOST_SAMPLES),
    "seed": (int, 0, 2**32 - 1),
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
COMMON = {
    *("model", "stream", "stream_options", "stop", "logprobs", "logit_bias", "user"),
    *("response_format", "structured_outputs"),
    *NUMBERS,
}
MOST_BIASES, MOST_BIAS = 1024, 100
IGNORED = {
    *("metadata", "store", "service_tier", "parallel_tool_calls", "safety_identifier"),
    "prompt_cache_key",
}
# what this server has not -> the values that ask for nothing
ABSENT: dict[str, tuple[Any, ...]] = {
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "reasoning_effort": (None,),
    "web_search_options": (None,),
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
}
ROLES = ("system", "developer", "user", "assistant", "tool")


class BadRequest(Exception):
    """A request that is refused, with a `status`, a `message`, the wrong `param`."""

    def __init__(
        self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(message)
        # half a surrogate pair, which JSON can write and UTF-8 cannot, is a question mark
        self.message = message.encode("utf-8", "replace").decode()
        self.param = param and param.encode("utf-8", "replace").decode()
        self.status, self.code = status, code

    def body(self) -> dict[str, Any]:
        """The answer's body."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "server_error" if self.status >= 500 else "")
        return {
            "error": {
                "message": self.message,
                "type": kind or "invalid_request_error",
                "param": self.param,
                "code": self.code,
            }
        }


@record
class Asked:
    """A request, checked."""

    model: str | None
    prompts: tuple[Any, ...]  # texts or lists of tokens; for a chat its messages alone
    is_chat: bool
    samples: int  # of each prompt
    is_stream: bool
    has_usage: bool  # whether a stream ends with what it cost
    options: Mapping[str, Any]  # of `LanguageModel.generate`


def asked(body: Any, is_chat: bool) -> Asked:
    """Check the body of a request for a chat, or else for completions.

    Returns what is asked for. A field that is wrong raises a `BadRequest` that names it.
    """
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    _check_fields(body, COMMON | ({"messages"} if is_chat else {"prompt"}))
    prompts = (_messages(body),) if is_chat else _prompts(body)
    stream = _flag(body, "stream")
    how = body.get("stream_options")
    if how is not None and (not isinstance(how, dict) or set(how) - {"include_usage"}):
        raise BadRequest("stream_options must be an object with include_usage", "stream_options")
    has_usage = bool(how) and _flag(how, "include_usage", "stream_options.include_usage")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    options: dict[str, Any] = {"temperature": 1.0, "max_tokens": limit or DEFAULT_TOKENS}
    options |= {name: body[name] for name in SAMPLING if body.get(name) is not None}
    if body.get("top_p") == 0:
        options |= {"top_p": 1.0, "temperature": 0.0}
    if body.get("seed") is not None:
        options["seed"] = body["seed"]
    options |= {"stop": _stops(body), "logprobs": _logprobs(body, is_chat)}
    options |= {"logit_bias": _biases(body), **_form(body)}
    return Asked(
        body.get("model"), prompts, is_chat, body.get("n") or 1, stream, has_usage, options
    )


def _check_fields(body: Mapping[str, Any], known: set[str]) -> None:
    for name, value in body.items():
        if name in ABSENT:
            if value not in ABSENT[name]:
                raise BadRequest(f"{name} is not supported by this server", name)
        elif name not in known and name not in IGNORED:
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
    for name in ("model", "user"):
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


def _messages(body: Mapping[str, Any]) -> list[dict[str, str]]:
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise BadRequest("messages must be a list with one message at least", "messages")
    return [_message(x, f"messages[{i}]") for i, x in enumerate(given)]


def _message(given: Any, param: str) -> dict[str, str]:
    if not isinstance(given, dict):
        raise BadRequest(f"{param} must be an object", param)
    if given.get("role") not in ROLES:
        raise BadRequest(f"{param}.role must be one of {', '.join(ROLES)}", f"{param}.role")
    content = given.get("content")
    if isinstance(content, list):
        are_texts = [isinstance(x, dict) and x.get("type") == "text" for x in content]
        parts = [x.get("text") for x, is_text in zip(content, are_texts, strict=True) if is_text]
        if not content or not all(are_texts) or not all(isinstance(x, str) for x in parts):
            raise BadRequest(
                f"{param}.content may have parts of type text only", f"{param}.content"
            )
        content = "".join(str(x) for x in parts)
    if not isinstance(content, str):
        raise BadRequest(f"{param}.content must be a text", f"{param}.content")
    role = "system" if given["role"] == "developer" else given["role"]
    return {"role": role, "content": content}


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
    are_numbers = isinstance(x, list) and bool(x)
    return are_numbers and all(isinstance(n, int) and not isinstance(n, bool) for n in x)


# -- answers ---------------------------------------------------------------------------------------


@record
class Names:
    """What all parts of an answer have in common."""

    id: str
    created: int  # seconds since 1970
    model: str
    is_chat: bool

    def head(self, is_part: bool) -> dict[str, Any]:
        """The first fields of an answer, or of a part of a stream."""
        kind = ("chat.completion" + ".chunk" * is_part) if self.is_chat else "text_completion"
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def model_entry(name: str, parent: str | None = None) -> dict[str, Any]:
    """What a list of models says of the one called `name`, an adapter of `parent`."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "rlx", "parent": parent}


def usage(completions: Sequence[Completion], prompt_tokens: int) -> dict[str, int]:
    """What `completions` of prompts with so many `prompt_tokens` cost."""
    written = sum(len(x.tokens) for x in completions)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": written,
        "total_tokens": prompt_tokens + written,
    }


def choice(names: Names, index: int, found: Completion, logprobs: Any) -> dict[str, Any]:
    """The choice number `index` of a whole answer.

    `names` are those of the answer, `found` is what was written, with its `logprobs`.
    """
    said: dict[str, Any] = (
        {"message": {"role": "assistant", "content": found.text, "refusal": None}}
        if names.is_chat
        else {"text": found.text}
    )
    return {"index": index, **said, "logprobs": logprobs, "finish_reason": _reason(found.reason)}


def part(
    names: Names, index: int, text: str | None, reason: str = "", logprobs: Any = None
) -> dict[str, Any]:
    """A part of a stream of `names` for choice `index`.

    It has some `text` and its `logprobs`, or the `reason` for the end; with neither it begins.
    """
    if names.is_chat:
        begins = {"role": "assistant", "content": ""}
        delta = {} if reason else begins if text is None else {"content": text}
        said: dict[str, Any] = {"delta": delta}
    else:
        said = {"text": text or ""}
    end = _reason(reason) if reason else None
    one = {"index": index, **said, "logprobs": logprobs, "finish_reason": end}
    return {**names.head(True), "choices": [one]}


def logprobs_of(names: Names, tokenizer: Any, found: Completion, first: int = 0) -> Any:
    """The logarithms of an answer `found`, from its token `first` on.

    `tokenizer` writes the tokens, `names` say in which form. None if they were not asked for.
    """
    if not found.logprobs:
        return None

    def text(token: int) -> str:
        return tokenizer.decode([token])

    rows = zip(found.tokens, found.logprobs, found.likeliest, strict=True)
    rows = list(rows)[first:]
    if not names.is_chat:
        return {
            "tokens": [text(t) for t, _, _ in rows],
            "token_logprobs": [p for _, p, _ in rows],
            "top_logprobs": [{text(t): p for t, p in most.items()} for *_, most in rows],
        }

    def entry(token: int, logprob: float) -> dict[str, Any]:
        word = text(token)
        return {"token": word, "logprob": logprob, "bytes": list(word.encode())}

    return {
        "content": [
            {**entry(t, p), "top_logprobs": [entry(*x) for x in most.items()]}
            for t, p, most in rows
        ]
    }


def _reason(reason: str) -> str:
    """A reason for the end, in the words of the interface."""
    return "length" if reason == "deadline" else reason
