"""Processes that compute together."""

from __future__ import annotations

import jax

from ...ir.errors import ArgumentError, DeviceFailure


def initialize(address: str | None, count: int | None, number: int | None) -> None:
    """Join the other processes."""
    try:
        jax.distributed.initialize(address, count, number)
    except RuntimeError as error:
        raise DeviceFailure(
            f"the processes cannot be joined: {error}".partition("\n")[0],
            fix="call initialize once, before anything is done on the device xla, and see that "
            "all processes reach the address",
        ) from error
    except ValueError as error:
        raise ArgumentError(
            f"the processes cannot be joined: {error}".partition("\n")[0],
            fix='give all: initialize("host:port", num_processes, process_id)',
        ) from error


def shutdown() -> None:
    """Leave the other processes."""
    jax.distributed.shutdown()


def index() -> int:
    """The number of this process."""
    return jax.process_index()


def count() -> int:
    """How many processes there are."""
    return jax.process_count()
