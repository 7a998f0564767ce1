"""Compiled programs on disk, so that later processes need not compile them again."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import jax
from jax.experimental import serialize_executable

from ...ir.fingerprint import fingerprint, is_portable
from ...ir.graph import Graph
from ..cpu.llvm.host import host
from ..disk import DiskCache, disk_cache, hashed, sources, tell


def kept_or_made(
    graph: Graph, device: Any, how: tuple[object, ...], make: Callable[[], Any]
) -> Any:
    """What an earlier process compiled for a graph, or else what `make` gives.

    `how` is what compiling depends on besides. The program calls nothing on the host.
    """
    disk = disk_cache()
    key = _key(disk, graph, device, how) if disk and is_portable(graph) else ""
    if disk is None or not key:
        return make()
    known = disk.get(key)
    if known is not None:
        try:
            return serialize_executable.deserialize_and_load(
                *pickle.loads(known), execution_devices=[device]
            )
        except Exception as error:  # whatever JAX does not like, compiling anew is right
            tell(f"a program of XLA could not be loaded: {error}")
            disk.remove(key)
    made = make()
    _keep(disk, key, made)
    return made


def _keep(disk: DiskCache, key: str, made: Any) -> None:
    try:
        content = pickle.dumps(serialize_executable.serialize(made))
    except Exception as error:  # not all of XLA's platforms can do that
        tell(f"a program of XLA is not kept: {error}")
        return
    disk.put(key, content)


def _key(disk: DiskCache, graph: Graph, device: Any, how: tuple[object, ...]) -> str:
    files = sources(disk)
    versions = jax.__version__, version("jaxlib"), device.client.platform_version
    there = device.platform, device.device_kind, device.id, len(device.client.devices())
    machine = host() if device.platform == "cpu" else ""
    flags = os.environ.get("XLA_FLAGS", ""), jax.config.values
    if not files:
        return ""
    return hashed("xla", files, versions, there, machine, flags, how, fingerprint(graph))
