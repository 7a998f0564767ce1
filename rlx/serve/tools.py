"""Tools of chats: what callers offer, and what models call.

A chat template describes the tools to its model, and the model calls one in a way that it was
trained for. `Calls` knows three of them by the template: tagged JSON (Hermes, Qwen), plain JSON
(Llama 3), and JSON after a special token (Mistral). What is no call of an offered tool is text.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ..io.template import ChatTemplate
from ..ir.record import record
from ..models.generation import Completion
from .bad_request import BadRequest

MOST_TOOLS = 128
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
BEGIN, END = "<tool_call>", "</tool_call>"  # tagged
MARK = "[TOOL_CALLS]"  # the name of a special token
PYTHON = "<|python_tag|>"  # as Llama 3 has it, whose calls are JSON


@record
class Tools:
    """The tools that a caller offers.

    `given` are as templates take them; `choice` is "auto", "required" or the name of the one to
    call; with `is_parallel` there may be several calls.
    """

    given: Sequence[Mapping[str, Any]]
    choice: str
    is_parallel: bool

    @property
    def is_forced(self) -> bool:
        """Whether the answer must be a call."""
        return self.choice != "auto"

    def parameters(self, name: Any) -> Any:
        """The schema of the arguments of a tool; None if there is no such one."""
        found = [x["function"] for x in self.given if x["function"]["name"] == name]
        return found[0].get("parameters", {"type": "object"}) if found else None

    def schema(self) -> dict[str, Any]:
        """The schema of a call that must be made."""
        names = [x["function"]["name"] for x in self.given]
        chosen = names if self.choice == "required" else [self.choice]
        calls = [
            {
                "type": "object",
                "properties": {"name": {"const": name}, "arguments": self.parameters(name)},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for name in chosen
        ]
        return calls[0] if len(calls) == 1 else {"anyOf": calls}


# -- what is asked for -----------------------------------------------------------------------------


def tools_of(body: Mapping[str, Any]) -> Tools | None:
    """The tools in the `body` of a request, checked; None if there are none to call.

    A wrong field raises a `BadRequest` that names it.
    """
    given, choice = body.get("tools"), body.get("tool_choice")
    parallel = body.get("parallel_tool_calls")
    if not isinstance(parallel, bool | None):
        raise BadRequest("parallel_tool_calls must be true or false", "parallel_tool_calls")
    if given is None or given == []:
        if choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice needs tools", "tool_choice")
        return None
    if not isinstance(given, list) or len(given) > MOST_TOOLS:
        raise BadRequest(f"tools must be a list of up to {MOST_TOOLS}", "tools")
    tools = [_tool(x, f"tools[{i}]") for i, x in enumerate(given)]
    names = [x["function"]["name"] for x in tools]
    if len(set(names)) < len(names):
        raise BadRequest("two tools have the same name", "tools")
    if choice == "none":
        return None
    return Tools(tools, _choice(choice, tools), parallel is not False)


def _tool(given: Any, param: str) -> dict[str, Any]:
    if not isinstance(given, dict) or given.get("type") != "function" or len(given) != 2:
        raise BadRequest(f"{param} must have the type function, and a function", param)
    function, param = given.get("function"), f"{param}.function"
    if not isinstance(function, dict):
        raise BadRequest(f"{param} must be an object", param)
    name = function.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadRequest(
            f"{param}.name must be letters, digits, _ and -, up to 64", f"{param}.name"
        )
    kinds = {"description": str, "parameters": dict, "strict": bool}
    for field, value in function.items():
        if field != "name" and field not in kinds:
            raise BadRequest(
                f"unrecognized field {field[:100]} of {param}", f"{param}.{field[:100]}"
            )
        if field != "name" and not isinstance(value, kinds[field] | None):
            raise BadRequest(f"{param}.{field} has the wrong type", f"{param}.{field}")
    kept = {k: x for k, x in function.items() if x is not None}
    return {"type": "function", "function": kept}


def _choice(given: Any, tools: Sequence[Mapping[str, Any]]) -> str:
    functions = [x["function"] for x in tools]
    if given in (None, "auto"):
        strict = [i for i, x in enumerate(functions) if x.get("strict")]
        if strict:
            what = "strict needs a tool_choice that is required, or that names the function"
            raise BadRequest(what, f"tools[{strict[0]}].function.strict")
        return "auto"
    if given == "required":
        return given
    is_named = isinstance(given, dict) and given.get("type") == "function" and len(given) == 2
    function = given.get("function") if is_named else None
    name = function.get("name") if isinstance(function, dict) and len(function) == 1 else None
    if name not in [x["name"] for x in functions]:
        what = "tool_choice must be none, auto, required, or name a function of tools"
        raise BadRequest(what, "tool_choice")
    return str(name)


# -- what a model calls ----------------------------------------------------------------------------


@record
class Called:
    """A call of a tool: its name, and the JSON of its arguments."""

    id: str
    name: str
    arguments: str

    def body(self) -> dict[str, Any]:
        """The call in an answer."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@record
class Calls:
    """Finds the calls of `tools` in what a model writes after a template.

    `kind` is how it calls: "tagged", "json", "marked" by the token `mark`, or "" if unknown.
    """

    tools: Tools
    kind: str
    mark: int | None

    @staticmethod
    def of(tools: Tools, template: ChatTemplate, special: Mapping[str, int]) -> Calls:
        """For `tools` that a `template` describes; `special` tokens by name.

        A template that describes none raises a `BadRequest`.
        """
        source = template.source
        if "tools" not in source:
            raise BadRequest("the chat template of this model takes no tools", "tools")
        kind = "tagged" if BEGIN in source else "marked" if MARK in source else ""
        kind = kind or ("json" if '"parameters"' in source or PYTHON in source else "")
        return Calls(tools, kind, special.get(MARK))

    def sure(self, found: Completion) -> int:
        """How many letters of an unfinished answer are text, whatever follows."""
        text = found.text
        if self.tools.is_forced or (self.kind == "marked" and self._is_marked(found)):
            return 0
        if self.kind == "json":
            return 0 if text.lstrip()[:1] in ("", "{", "[") else len(text)
        if self.kind != "tagged":
            return len(text)
        end = text.find(BEGIN)
        if end < 0:
            begun = (n for n in range(len(BEGIN) - 1, 0, -1) if text.endswith(BEGIN[:n]))
            end = len(text) - next(begun, 0)
        return len(text[:end].rstrip())

    def split(self, found: Completion) -> tuple[str, list[Called]]:
        """The text of a finished answer, and its calls."""
        if self.tools.is_forced or self.kind == "json":
            rest, parts = "", [found.text]
        elif self.kind == "tagged" and BEGIN in found.text:
            before, *others = found.text.split(BEGIN)
            pairs = [part.partition(END) for part in others]
            parts = [inside for inside, _, _ in pairs]
            after = "".join(behind for _, _, behind in pairs).strip()
            rest = before.rstrip() + ("\n" if before.strip() and after else "") + after
        elif self.kind == "marked" and self._is_marked(found):
            rest, parts = "", [found.text]
        else:
            return found.text, []
        called = [self._called(part) for part in parts]
        if not all(called):
            return found.text, []
        calls = [call for some in called for call in some]
        return rest, calls if self.tools.is_parallel else calls[:1]

    def _is_marked(self, found: Completion) -> bool:
        return self.mark is not None and self.mark in found.tokens[:2]

    def _called(self, text: str) -> list[Called]:
        """The calls that a text of JSON is; none if a part of it is no call of a tool."""
        try:
            given = json.loads(text)
            made = [self._made(x) for x in (given if isinstance(given, list) else [given])]
        except (ValueError, RecursionError):  # NaN, too
            return []
        return [x for x in made if x is not None] if all(made) else []

    def _made(self, given: Any) -> Called | None:
        if not isinstance(given, dict):
            return None
        name, arguments = given.get("name"), given.get("arguments", given.get("parameters"))
        if self.tools.parameters(name) is None or not isinstance(arguments, dict):
            return None
        # Mistral's templates take numbers of nine letters alone
        number = (
            secrets.token_hex(5)[:9] if self.kind == "marked" else f"call_{secrets.token_hex(12)}"
        )
        return Called(number, str(name), _text(arguments))


def _text(arguments: Any) -> str:
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    is_plain = text.encode("utf-8", "replace").decode() == text  # no half of a surrogate pair
    return text if is_plain else json.dumps(arguments)
