"""Replicas behind Ray Serve: each an engine with the whole HTTP interface.

Ray starts them on one machine or on many, sends requests to the one that has the fewest, replaces
those that die, and drains those that leave: https://docs.ray.io/en/latest/serve. It needs
`pip install "rlx[ray]"`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from ..ir.errors import ArgumentError
from ..trace.arguments import callable_of, count_of


def replicas(make: Callable[[], Any], count: int = 2, **options: Any) -> Any:
    """An application for `ray.serve.run`: `count` replicas of what `make` makes.

    `make` is called in each replica and returns an ASGI application, as
    `rlx.serve.http.application`. `options` are those of `ray.serve.deployment`, such as
    `ray_actor_options` and `max_ongoing_requests`. Without Ray it is an `ArgumentError`.

    >>> from rlx.serve.ray import replicas
    >>> def make():
    ...     engine = rlx.serve.Engine(rlx.models.load("model.gguf", shared=True))
    ...     return rlx.serve.http.application(engine)
    >>> ray.serve.run(replicas(make, 2))  # doctest: +SKIP
    """
    callable_of("replicas: make", make)
    count = count_of("replicas: count", count, 1)
    if importlib.util.find_spec("ray") is None:
        raise ArgumentError("replicas need the package ray", fix='pip install "rlx[ray]"')
    serve: Any = importlib.import_module("ray.serve")

    options = {"max_ongoing_requests": 1024, **options}
    return serve.deployment(num_replicas=count, **options)(serve.ingress(make)()).bind()
