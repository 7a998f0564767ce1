"""Timestamps that a device writes around passes, by its own clock."""

from __future__ import annotations

from typing import Any

import numpy as np

from .device import Device

PAIRS = 256  # of a set of queries, at most 2048


class Timestamps:
    """The beginnings and ends of the passes of one call."""

    def __init__(self, device: Device) -> None:
        self.device, self.sets, self.used = device, list[Any](), 0

    def take(self) -> tuple[dict[str, Any], int]:
        """What a pass is told, so that it writes when it begins and ends; its number."""
        place = self.used % PAIRS
        if place == 0:
            made = self.device.handle.create_query_set(type="timestamp", count=2 * PAIRS)
            self.sets.append(made)
        self.used += 1
        told = {
            "query_set": self.sets[-1],
            "beginning_of_pass_write_index": 2 * place,
            "end_of_pass_write_index": 2 * place + 1,
        }
        return told, self.used - 1

    def spans(self) -> list[tuple[int, int]]:
        """When each pass began and ended, in nanoseconds; waits until all are done."""
        from wgpu.backends.wgpu_native import lib

        # how long a tick is, which the library itself does not tell
        period = lib.wgpuQueueGetTimestampPeriod(self.device.queue._internal)
        found: list[tuple[int, int]] = []
        for i, queries in enumerate(self.sets):
            count = min(self.used - i * PAIRS, PAIRS)
            ticks = self._read(queries, 2 * count)
            times = ticks.astype(np.int64) if period == 1 else np.int64(np.float64(ticks) * period)
            found += [(begin, end) for begin, end in times.reshape(-1, 2).tolist()]
        return found

    def _read(self, queries: Any, count: int) -> np.ndarray:
        from wgpu import BufferUsage

        usage = BufferUsage.QUERY_RESOLVE | BufferUsage.COPY_SRC
        buffer = self.device.handle.create_buffer(size=8 * count, usage=usage)
        encoder = self.device.handle.create_command_encoder()
        encoder.resolve_query_set(queries, 0, count, buffer, 0)
        self.device.queue.submit([encoder.finish()])
        return np.frombuffer(self.device.queue.read_buffer(buffer), np.uint64)
