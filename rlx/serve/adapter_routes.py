"""Routes that load and unload adapters, with the names that vLLM gave them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ..ir.errors import RlxError
from .adapters import Adapters
from .openai_api import BadRequest

MOST_LETTERS = 1024  # of a name or path


async def load(
    adapters: Adapters | None, folder: Path | None, body: dict[str, Any], taken: str
) -> str:
    """Attach the adapter that a `body` asks for.

    It has `lora_name` and `lora_path`. Only files of the `folder` can be asked for, none without
    one; `taken` is the name of the model. Returns what to say of it. Raises a `BadRequest`.
    """
    name, path = _text(body, "lora_name"), _text(body, "lora_path")
    again = body.get("load_inplace", False)
    if not isinstance(again, bool):
        raise BadRequest("load_inplace must be true or false", "load_inplace")
    adapters, folder = _open(adapters, folder)
    if name == taken or (name in adapters and not again):
        raise BadRequest(f"the name {name!r} is taken already", "lora_name")
    try:
        place = (folder / path).resolve()
        is_inside = place.is_relative_to(folder.resolve()) and place.exists()
    except (OSError, ValueError):  # names that no file can have
        is_inside = False
    if not is_inside:
        raise BadRequest("there is no such adapter in the server's folder", "lora_path", status=404)
    try:
        await asyncio.to_thread(adapters.attach, name, place)
    except RlxError as error:
        raise BadRequest(error.what.replace(str(place), path), "lora_path") from None
    return f"Success: LoRA adapter '{name}' added successfully."


def unload(adapters: Adapters | None, folder: Path | None, body: dict[str, Any]) -> str:
    """Drop the adapter that a `body` names as `lora_name`; returns what to say of it.

    Callers drop none where they may load none. Raises a `BadRequest`.
    """
    name = _text(body, "lora_name")
    adapters, _ = _open(adapters, folder)
    try:
        adapters.drop(name)
    except RlxError as error:
        raise BadRequest(error.what, "lora_name", status=404) from None
    return f"Success: LoRA adapter '{name}' removed successfully."


def _open(adapters: Adapters | None, folder: Path | None) -> tuple[Adapters, Path]:
    """The adapters that callers may change, and the folder they come from."""
    if folder is None or adapters is None:
        raise BadRequest("this server loads no adapters: it has no folder for them", status=403)
    return adapters, folder


def names(body: Any) -> dict[str, Any]:
    """The `body` of a request that names an adapter; others raise a `BadRequest`."""
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def _text(body: dict[str, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or not found:
        raise BadRequest(f"{name} must be a text", name)
    if len(found) > MOST_LETTERS or found.encode("utf-8", "replace").decode() != found:
        raise BadRequest(f"{name} must be plain text of up to {MOST_LETTERS} letters", name)
    return found
