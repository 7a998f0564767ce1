"""A perceptron trained data-parallel, for tests: on four devices, or by two processes.

    python sharded_training.py                          four devices of one process
    python sharded_training.py host:port count number   one device of each process

Prints as JSON the weights and the last loss; of four devices also those without them, and how
arrays lie there.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np

COUNT = 1 if len(sys.argv) > 1 else 4
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={COUNT}"
os.environ["JAX_PLATFORMS"] = "cpu"

import rlx  # noqa: E402
import rlx.numpy as rnp  # noqa: E402

STEPS, RATE = 5, 0.1


def loss(weights, x, y):
    hidden = rnp.tanh(x @ weights["in"])
    return rnp.mean((hidden @ weights["out"] - y) ** 2)


def step(weights, x, y):
    value, slopes = rlx.value_and_grad(loss)(weights, x, y)
    return rlx.tree.map(lambda w, s: w - RATE * s, weights, slopes), value


def problem():
    random = np.random.default_rng(0)
    weights = {"in": random.normal(size=(3, 8)), "out": random.normal(size=(8, 1))}
    x = random.normal(size=(16, 3))
    return weights, x, np.sin(x.sum(1, keepdims=True))


def trained(run, weights, x, y):
    value = None
    for _ in range(STEPS):
        weights, value = run(weights, x, y)
    return {name: np.asarray(w).tolist() for name, w in weights.items()}, value.item()


def alone():
    """Without devices that share the work, on the cpu."""
    return trained(rlx.jit(step, device="cpu"), *problem())


def together(count: int):
    """With the examples parted among devices."""
    mesh = rlx.Mesh((count,), ("data",))
    whole = rlx.NamedSharding(mesh, rlx.P())
    parts = rlx.NamedSharding(mesh, rlx.P("data"))
    run = rlx.jit(step, in_shardings=(whole, parts, parts), out_shardings=whole)
    return trained(run, *problem())


def in_parts():
    """Arrays that lie in parts, functions and ops of them that follow."""
    mesh = rlx.Mesh((2, 2), ("data", "model"))
    x = np.arange(32.0).reshape(4, 8)
    parted = rlx.device_put(x, rlx.NamedSharding(mesh, rlx.P("data", "model")))
    product = rlx.jit(lambda x, y: x @ y.T)(parted, rnp.array(x).to("xla"))
    rows = rlx.jit(lambda x: x + 1, out_shardings=rlx.NamedSharding(mesh, rlx.P(("data", "model"))))
    joined = rlx.distributed.array_from_parts(x, rlx.NamedSharding(mesh, rlx.P("data")))
    shapes = [x._data.addressable_shards[0].data.shape for x in (parted, parted * 2, rows(x))]
    same = [np.array_equal(product, x @ x.T), np.array_equal(parted * 2, x * 2)]
    same += [np.array_equal(rows(x), x + 1), np.array_equal(joined, x)]
    return shapes, [*map(bool, same), is_kept(mesh, x), is_refused(parted, x)]


def is_refused(parted: rlx.Array, x: np.ndarray) -> bool:
    """Whether arrays on different devices are an error."""
    two = rlx.device_put(x, rlx.NamedSharding(rlx.Mesh(2, "data"), rlx.P("data")))
    try:
        return not (parted + two)
    except rlx.DeviceMismatchError as error:
        return "lie on 2 and on 4 devices" in str(error)


def what_is_lost(count: int) -> str:
    """The error of training on after another process has ended."""
    try:
        while True:
            together(count)
    except rlx.DeviceFailure as error:
        return type(error).__name__


def is_kept(mesh: rlx.Mesh, x: np.ndarray) -> bool:
    """Whether an array stays when what was placed of it is given away."""
    whole = rlx.NamedSharding(mesh, rlx.P())
    more = rlx.jit(lambda x: x + 1, in_shardings=whole, out_shardings=whole, donate_argnums=0)
    kept = rnp.array(x).to("xla")
    made = more(rlx.device_put(kept, whole))
    return bool(np.array_equal(made, x + 1) and np.array_equal(kept, x))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        rlx.distributed.initialize(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
        count, index = rlx.distributed.process_count(), rlx.distributed.process_index()
        weights = together(count)
        lost = what_is_lost(count) if index == 0 else ""
        print(json.dumps([index, *weights, lost]), flush=True)
        os._exit(0)  # JAX would wait for the lost process
    else:
        print(json.dumps([*together(COUNT), *alone(), *in_parts()]))
