"""Three opinions of a random program, `cpu`, `reference` and JAX; the smallest that differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from libraries import OURS, QUICK, THEIRS
from programs import Program, close, reads, tolerance_of

import rlx


def opinions(program: Program, with_jax: bool = True) -> dict[str, Sequence[Any]]:
    """What each computes."""
    fn, inputs = program.on(OURS), program.inputs
    found = {
        "reference": rlx.jit(fn, device="reference")(*inputs),
        "cpu": rlx.jit(fn, device="cpu")(*inputs),
    }
    if with_jax:
        with jax.enable_x64(True):
            found["jax"] = jax.jit(program.on(THEIRS), compiler_options=QUICK)(*inputs)
    return found


def differences(program: Program, with_jax: bool = True) -> list[str]:
    """What the opinions differ in; dtypes are those of `reference`, but JAX has its own."""
    found = opinions(program, with_jax)
    wanted, messages = found.pop("reference"), []
    for name, results in found.items():
        for i, (x, y) in enumerate(zip(results, wanted, strict=True)):
            what = f"{name}, result {i}: {program.results[i]}"
            try:
                if name == "cpu":
                    assert x.dtype == y.dtype, f"{what}: {x.dtype}, not {y.dtype}"
                tolerance = program.tolerances[i] if tolerance_of(y.dtype) else 0.0
                close(np.asarray(x), np.asarray(y), tolerance, what)
            except AssertionError as error:
                messages.append(f"{what}\n{error}")
    return messages


def verdict(program: Program, with_jax: bool = True) -> str:
    """What is wrong with a program, or nothing."""
    try:
        return "\n".join(differences(program, with_jax))
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
    made = Program(program.inputs)
    made.lines, made.wanted = lines, results
    names = {line.partition(" = ")[0] for line in lines}
    made.values += [v for v in program.values[len(program.inputs) :] if v.name in names]
    return made


def shrunk(program: Program, with_jax: bool = True, tries: int = 60) -> Program:
    """A smaller program that still has something wrong."""
    for _ in range(tries):
        for candidate in smaller(program):
            tries -= 1
            if verdict(candidate, with_jax):
                program = candidate
                break
            if tries <= 0:
                return program
        else:
            return program
    return program
