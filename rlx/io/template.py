"""Chat templates: messages become a prompt, and what people write stays text.

A model file says in Jinja how messages are written down. Such a template is a stranger's program:
it runs in a sandbox, in a process with little memory and a second of time (`template_worker.py`).
Messages are texts of strangers, too: names of special tokens in them, such as the end of a turn,
must not become these tokens. So contents are rendered as nonces, the text is split at the special
tokens that the template wrote, and contents are put back into the pieces, which are encoded without
special tokens.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..ir.errors import ArgumentError, AttributeValueError
from ..trace.arguments import flag, wrong
from .contents import refuse, shown
from .tokenizer import Tokenizer

WALL = 20.0  # seconds of a busy machine until a process is given up, which ends itself after one
MOST_SOURCE = 1 << 20  # letters of a template
CONTENTS = ("content", "text", "reasoning_content")  # fields with what people and models wrote
NONCE = re.compile("nonce[0-9a-f]{32}")
FIX_TEMPLATE = "use another template: model.template = rlx.io.ChatTemplate(source)"


class ChatTemplate:
    """A chat template, in Jinja as Hugging Face has it.

    `source` is its text, `variables` are texts that it may ask for, as `bos_token`. Raises a
    `FileFormatError` where it is used if it is no template, or takes more than a second or 48 MB.

    >>> source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    >>> ChatTemplate(source).render([{"role": "user", "content": "Hi"}])
    '<|user|>Hi'
    """

    def __init__(self, source: str, variables: Mapping[str, str] | None = None) -> None:
        if not isinstance(source, str):
            raise wrong("ChatTemplate: the source", source, "a text", "give the template")
        if len(source) > MOST_SOURCE:
            refuse(f"the chat template has {len(source)} letters, more than {MOST_SOURCE}")
        self.source, self._variables = source, dict(variables or {})

    def __repr__(self) -> str:
        return f"ChatTemplate({len(self.source)} letters)"

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tools: Sequence[Any] | None = None,
    ) -> str:
        """The text of `messages`, dicts with `role` and `content`.

        `add_generation_prompt` lets the answer begin; `tools` are described to the model. Names of
        special tokens in contents are in it as they are; `encode` tells them apart. Raises an
        `ArgumentError` for messages that the template does not take.
        """
        checked = _checked(messages)
        return self._rendered(checked, add_generation_prompt, tools, time.time())

    def encode(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
    ) -> list[int]:
        """The tokens of `messages` by a `tokenizer`; contents have no special ones.

        `add_generation_prompt` and `tools` are those of `render`. Raises an `ArgumentError` for
        messages that the template does not take, and for names of special tokens where they cannot
        be told apart: in roles and tools, and in contents that the template does not write down as
        they are.
        """
        checked, now = _checked(messages), time.time()
        names = sorted(tokenizer.special, key=len, reverse=True)
        nonces: dict[str, str] = {}
        hidden = [_with_nonces(message, nonces) for message in checked]
        _refuse_special([hidden, tools], names, "a role, a name or a tool")
        options = flag("encode: add_generation_prompt", add_generation_prompt), tools, now
        text = self._rendered(hidden, *options)
        plain = self._rendered(checked, *options)
        for kept in (nonces, {nonce: x.strip() for nonce, x in nonces.items()}):
            if _put_back(text, kept) == plain:
                return list(_ids(tokenizer, text, names, kept))
        _refuse_special(checked, names, "a content, which this template looks into")
        if _special_in(plain, names) != _special_in(text, names):
            raise ArgumentError(
                "the chat template changes a content, and then there are other special tokens",
                fix="leave out of the contents what becomes the name of one",
            )
        return list(_ids(tokenizer, plain, names, {}))

    def _rendered(self, messages: Any, add: bool, tools: Any, now: float) -> str:
        variables = {**self._variables, "messages": messages, "tools": tools, "now": now}
        variables["add_generation_prompt"] = flag("render: add_generation_prompt", add)
        try:
            request = json.dumps({"source": self.source, "variables": variables})
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentError(
                f"the messages or tools are no plain data: {str(error)[:100]}",
                fix="give texts, numbers, lists and dicts",
            ) from None
        answer = _worker.ask(request)
        if "text" in answer:
            return answer["text"]
        if "refused" in answer:
            raise ArgumentError(
                f"the chat template does not take the messages: {answer['refused']}",
                fix="change the order or the roles of the messages",
            )
        if "syntax" in answer:
            refuse(f"the chat template is no Jinja: {answer['syntax'][:200]}", FIX_TEMPLATE)
        if "error" in answer:
            refuse(f"the chat template fails: {answer['error'][:200]}", FIX_TEMPLATE)
        refuse("the chat template takes more than a second, or than 48 MB", FIX_TEMPLATE)


# -- what is text stays text -----------------------------------------------------------------------


def _checked(messages: Any) -> list[dict[str, Any]]:
    fix = 'write [{"role": "user", "content": "Hello"}]'
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise wrong("the messages", messages, "a list of dicts", fix)
    if not messages:
        raise AttributeValueError("there are no messages", fix=fix)
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise wrong(f"message {i}", message, "a dict", fix)
        if not isinstance(message.get("role"), str):
            raise wrong(f'message {i}["role"]', message.get("role"), "a text", fix)
    return [dict(message) for message in messages]


def _with_nonces(x: Any, nonces: dict[str, str], name: str = "") -> Any:
    """A message with a random word in place of each content."""
    if isinstance(x, Mapping):
        return {key: _with_nonces(value, nonces, key) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [_with_nonces(value, nonces, name) for value in x]
    if not isinstance(x, str) or not x.strip() or name not in CONTENTS:
        return x
    nonce = f"nonce{secrets.token_hex(16)}"  # that which `NONCE` finds
    nonces[nonce] = x
    return nonce


def _put_back(text: str, nonces: Mapping[str, str]) -> str:
    return NONCE.sub(lambda found: nonces.get(found[0], found[0]), text)


def _special_in(text: str, names: Sequence[str]) -> list[str]:
    """The names of special tokens in a text, in order."""
    return re.findall("|".join(map(re.escape, names)), text) if names else []


def _ids(
    tokenizer: Tokenizer, text: str, names: Sequence[str], nonces: Mapping[str, str]
) -> Iterator[int]:
    """The tokens of a template's text, with the contents put back."""
    pieces = re.split(f"({'|'.join(map(re.escape, names))})", text) if names else [text]
    for piece in pieces:
        if piece in tokenizer.special:
            yield tokenizer.special[piece]
        elif piece:
            yield from tokenizer.encode(_put_back(piece, nonces))


def _refuse_special(x: Any, names: Sequence[str], where: str) -> None:
    """Raise an error if a text in some data has the name of a special token, in any case."""
    if isinstance(x, Mapping):
        x = [*x.keys(), *x.values()]
    if isinstance(x, list | tuple):
        for value in x:
            _refuse_special(value, names, where)
    elif isinstance(x, str):
        lower = x.casefold()
        found = next((name for name in names if name.casefold() in lower), None)
        if found is not None:
            raise ArgumentError(
                f"{shown(found)} in {where} would be a special token", fix="leave it out"
            )


# -- the process -----------------------------------------------------------------------------------


class _Worker:
    """A process that renders, begun when it is first needed and after each that died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Any = None
        self._end: Any = None
        self._owner = 0  # of a fork each has its own

    def ask(self, request: str) -> dict[str, Any]:
        """The answer to a request; an empty one if the process ended over it."""
        with self._lock:
            is_mine = self._process is not None and self._owner == os.getpid()
            process: Any = self._process if is_mine else self._begun()
            timer = threading.Timer(WALL, process.kill)
            timer.start()
            line = ""
            try:
                process.stdin.write(request + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = ""
            finally:
                timer.cancel()
                # it ended; or who asked is interrupted, and the next one must not get this answer
                if not line.endswith("\n"):
                    self._end()
                    self._process = None
            return json.loads(line) if line.endswith("\n") else {}

    def _begun(self) -> Any:
        if importlib.util.find_spec("jinja2") is None:
            raise ArgumentError(
                "the library jinja2 is not installed", fix='pip install "rlx[models]"'
            )
        command = [sys.executable, "-I", str(Path(__file__).with_name("template_worker.py"))]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        how: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": none, "text": True}
        # a group of its own: Ctrl-C at a terminal is meant for this process
        self._process = subprocess.Popen(command, cwd=os.sep, process_group=0, **how)
        self._end = weakref.finalize(self, _ended, self._process)
        self._owner = os.getpid()
        return self._process


def _ended(process: Any) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what was not written is lost
            pipe.close()


_worker = _Worker()
