"""rlx and JAX under the same names: what a random program calls `lib`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

import rlx
import rlx.numpy as rnp

# the same names on both sides: rlx's and `jax`'s own, then those of control flow
TOP = "jit vmap grad jvp vjp checkpoint custom_jvp custom_vjp jacfwd jacrev random lax".split()
FLOW = "scan cond switch fori_loop while_loop associative_scan".split()


def with_jvp(top: Any, fn: Callable, rule: Callable) -> Callable:
    """A function with a rule `(primals, tangents) -> (result, tangent)` of the user's."""
    made = top.custom_jvp(fn)
    made.defjvp(rule)
    return made


def with_vjp(top: Any, forward: Callable, backward: Callable) -> Callable:
    """A function with a rule of the user's: `forward(x)` gives the result and what is kept."""
    made = top.custom_vjp(lambda x: forward(x)[0])
    made.defvjp(forward, backward)
    return made


def library(top: Any, flow: Any, np_: Any, nn: Any, special: Any) -> SimpleNamespace:
    """The names that programs use, from one library."""
    found = {name: getattr(top, name) for name in TOP}
    found |= {name: getattr(flow, name) for name in FLOW}
    return SimpleNamespace(
        np=np_,
        nn=nn,
        special=special,
        with_jvp=lambda fn, rule: with_jvp(top, fn, rule),
        with_vjp=lambda forward, backward: with_vjp(top, forward, backward),
        **found,
    )


OURS = library(rlx, rlx, rnp, rlx.nn, rlx.scipy.special)
THEIR_NN = SimpleNamespace(**{n: getattr(jax.nn, n) for n in dir(jax.nn) if n[0] != "_"})
THEIR_NN.logsumexp = jax.scipy.special.logsumexp
THEIRS = library(jax, jax.lax, jnp, THEIR_NN, jax.scipy.special)
QUICK = {  # JAX takes too long to compile in full
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
