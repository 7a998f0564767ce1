"""Three opinions of a random program, `cpu`, `reference` and JAX; the smallest that differs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from libraries import OURS, QUICK, THEIRS
from programs import Program, close, reads, tolerance_of

import rlx

DERIVATIVE = 1e-8  # what derivatives of the second order may differ by


def derivatives(lib: Any, top: Any, fn: Any, xs: tuple[Any, ...]) -> Any:
    """For each result its value, its derivative along the inputs and the gradient of its sum.

    And, for all of them together, a derivative of second order.
    """
    np_ = lib.np

    def floats(*xs: Any) -> Any:
        return tuple(y for y in fn(*xs) if np_.issubdtype(y.dtype, np_.floating))

    def loss(*xs: Any) -> Any:
        return sum((np_.sum(np_.sin(y + 0.3)) for y in floats(*xs)), np_.sum(xs[0]) * 0.1)

    tangents = tuple(np_.cos(x) for x in xs)
    results, pull = top.vjp(floats, *xs)
    weights = [np_.cos(y * 1.3 + 0.2) for y in results]
    rows = [
        tuple(w if i == j else w * 0.0 for j, w in enumerate(weights)) for i in range(len(weights))
    ]
    return {
        "value": fn(*xs),
        "derivative": top.jvp(floats, xs, tangents),
        "gradient": [pull(row) for row in rows],
        "second": top.jvp(top.grad(loss, tuple(range(len(xs)))), xs, tangents)[1],
    }


def opinions(program: Program) -> dict[str, Sequence[Any]]:
    """What each computes, as a flat list."""
    inputs = program.inputs
    ours, theirs = flat(program, OURS, rlx), flat(program, THEIRS, jax)
    found = {
        "reference": rlx.jit(ours, device="reference")(*inputs),
        "cpu": rlx.jit(ours, device="cpu")(*inputs),
    }
    if program.kind != "mixed":
        compiled = jax.jit(theirs, compiler_options=QUICK)
        with jax.enable_x64(True), contextlib.suppress(jax.errors.JaxRuntimeError):
            found["jax"] = compiled(*inputs)  # an error of its compiler is no opinion
    return found


def flat(program: Program, library: Any, top: Any) -> Callable[..., list[Any]]:
    """The function to compare: the program, or its derivatives."""
    fn = program.on(library)
    if program.kind != "derivatives":
        return lambda *xs: list(fn(*xs))
    return lambda *xs: rlx.tree.leaves(derivatives(library, top, fn, xs))


def differences(program: Program) -> list[str]:
    """What the opinions differ in; dtypes are those of `reference`, but JAX has its own."""
    found = opinions(program)
    wanted, messages = found.pop("reference"), []
    is_plain = program.kind != "derivatives"
    for name, results in found.items():
        for i, (x, y) in enumerate(zip(results, wanted, strict=True)):
            what = f"{name}, result {i}: {program.results[i] if is_plain else ''}"
            tolerance = program.tolerances[i] if is_plain else DERIVATIVE
            try:
                if name == "cpu":
                    assert x.dtype == y.dtype, f"{what}: {x.dtype}, not {y.dtype}"
                close(np.asarray(x), np.asarray(y), tolerance if tolerance_of(y.dtype) else 0, what)
            except AssertionError as error:
                messages.append(f"{what}\n{error}")
    return messages


def verdict(program: Program) -> str:
    """What is wrong with a program, or nothing."""
    try:
        return "\n".join(differences(program))
    except Exception as error:  # whatever it is, it is to be reported
        return f"{type(error).__name__}: {error}"


# -- shrinking ------------------------------------------------------------------------------------


def smaller(program: Program) -> Iterator[Program]:
    """Programs with less in them: fewer results, then a line less, its readers reading another."""
    if len(program.results) > 1:
        for result in program.results:
            yield with_results(program, [result])
    inputs = program.values[: len(program.inputs)]
    for i in reversed(range(len(program.lines))):
        gone = program.values[len(inputs) + i]
        for other in [*inputs, *program.values[len(inputs) : len(inputs) + i]]:
            if other.shape == gone.shape and other.value.dtype == gone.value.dtype:
                yield without_line(program, gone.name, other.name)


def with_results(program: Program, results: list[str]) -> Program:
    """The lines that some results need."""
    needed = {name for result in results for name in reads(result)}
    kept = []
    for line in reversed(program.lines):
        name, _, expression = line.partition(" = ")
        if name in needed:
            needed |= set(reads(expression))
            kept.append(line)
    return rebuilt(program, kept[::-1], results)


def without_line(program: Program, name: str, other: str) -> Program:
    """A program that reads another value instead of one."""
    lines = [line for line in program.lines if not line.startswith(f"{name} = ")]
    lines = [renamed(line, name, other) for line in lines]
    return rebuilt(program, lines, [renamed(result, name, other) for result in program.results])


def renamed(text: str, name: str, other: str) -> str:
    """A text that reads another value instead of one."""
    return text.replace(f"{name} ", f"{other} ") if f"{name} " in reads_of(text) else text


def reads_of(text: str) -> str:
    """The names that a text reads, each with its space."""
    return "".join(f"{name} " for name in reads(text))


def rebuilt(program: Program, lines: list[str], results: list[str]) -> Program:
    """A program of the same inputs with other lines, whose values are known."""
    made = Program(program.inputs, kind=program.kind)
    made.lines, made.wanted = lines, results
    names = {line.partition(" = ")[0] for line in lines}
    made.values += [v for v in program.values[len(program.inputs) :] if v.name in names]
    return made


def shrunk(program: Program, tries: int = 60) -> Program:
    """A smaller program that still has something wrong."""
    for _ in range(tries):
        for candidate in smaller(program):
            tries -= 1
            if verdict(candidate):
                program = candidate
                break
            if tries <= 0:
                return program
        else:
            return program
    return program
