"""Messages of chats, checked, in the form that chat templates take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .bad_request import BadRequest
from .bodies import MOST_DEPTH, MOST_PARTS, depth_of, parts_of

ROLES = ("system", "developer", "user", "assistant", "tool")
FIELDS = {"role", "content", "name"}
# role -> what its messages may have besides
MORE = {"assistant": {"tool_calls"}, "tool": {"tool_call_id"}}
EMPTY = ("refusal", "audio", "function_call", "annotations")  # fields that clients send back empty


def messages_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages in the `body` of a request.

    A wrong field raises a `BadRequest` that names it.
    """
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise BadRequest("messages must be a list with one message at least", "messages")
    made = [_message(x, f"messages[{i}]") for i, x in enumerate(given)]
    functions = [
        (call["function"], f"messages[{i}].tool_calls[{j}].function.arguments")
        for i, message in enumerate(made)
        for j, call in enumerate(message.get("tool_calls", ()))
    ]
    texts = [function["arguments"].encode("utf-8", "replace") for function, _ in functions]
    if sum(map(parts_of, texts)) > MOST_PARTS:
        what = f"the arguments of calls have over {MOST_PARTS} lists and objects"
        raise BadRequest(what, "messages", status=413)
    for function, param in functions:
        function["arguments"] = _object(function["arguments"], param)
    return made


def _message(given: Any, param: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadRequest(f"{param} must be an object", param)
    role = given.get("role")
    if role not in ROLES:
        raise BadRequest(f"{param}.role must be one of {', '.join(ROLES)}", f"{param}.role")
    for field, value in given.items():
        is_known = field in FIELDS or field in MORE.get(role, ())
        if not is_known and not (field in EMPTY and value in (None, [])):
            name = f"{param}.{field[:100]}"
            raise BadRequest(f"unrecognized field of a message: {name}", name)
    calls = given.get("tool_calls")
    content = _content(given.get("content"), f"{param}.content", calls is not None)
    made: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": content}
    if calls is not None:
        made["tool_calls"] = _calls(calls, f"{param}.tool_calls")
    needed = ("tool_call_id",) if role == "tool" else ()
    for field in ("name", *needed):
        value = given.get(field)
        if not isinstance(value, str) and (field in needed or value is not None):
            raise BadRequest(f"{param}.{field} must be a text", f"{param}.{field}")
        if value is not None:
            made[field] = value
    return made


def _content(content: Any, param: str, may_be_missing: bool) -> str:
    if content is None and may_be_missing:
        return ""
    if isinstance(content, list):
        are_texts = [isinstance(x, dict) and x.get("type") == "text" for x in content]
        parts = [x.get("text") for x, is_text in zip(content, are_texts, strict=True) if is_text]
        if not content or not all(are_texts) or not all(isinstance(x, str) for x in parts):
            raise BadRequest(f"{param} may have parts of type text only", param)
        content = "".join(str(x) for x in parts)
    if not isinstance(content, str):
        raise BadRequest(f"{param} must be a text", param)
    return content


def _calls(given: Any, param: str) -> list[dict[str, Any]]:
    """The calls of tools in a message, whose arguments are texts."""
    if not isinstance(given, list) or not given:
        raise BadRequest(f"{param} must be a list of calls", param)
    return [_call(x, f"{param}[{i}]") for i, x in enumerate(given)]


def _call(given: Any, param: str) -> dict[str, Any]:
    is_call = isinstance(given, dict) and given.keys() == {"id", "type", "function"}
    if not is_call or given["type"] != "function" or not isinstance(given["id"], str):
        raise BadRequest(f"{param} must have an id, the type function, and a function", param)
    function = given["function"]
    is_right = isinstance(function, dict) and function.keys() == {"name", "arguments"}
    if not is_right or not all(isinstance(x, str) for x in function.values()):
        raise BadRequest(f"{param}.function must have a name and arguments", f"{param}.function")
    return {"id": given["id"], "type": "function", "function": {**function}}


def _object(text: str, param: str) -> dict[str, Any]:
    """The arguments of a call as templates take them."""
    if depth_of(text.encode("utf-8", "replace")) > MOST_DEPTH:
        what = f"{param} has over {MOST_DEPTH} lists and objects in each other"
        raise BadRequest(what, param)
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadRequest(f"{param} must be the text of a JSON object", param)
    return found
