"""docs/op_matrix.md: for each op which derivatives and batches it has, as its laws show.

    python tests/op_matrix.py        write it anew (make pages)

A ✓ stands where a law of `tests/test_every_op.py` speaks of at least one sample of the op; where
none does, a reason stands.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

if __name__ == "__main__":  # run as a script, from anywhere
    sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]

from claims import cases_of, laws_of
from laws_of_change import FORWARD_ONLY, REVERSE_ONLY, pulled, pushed

from rlx.ir.errors import GradientError
from rlx.ir.graph import OPS
from rlx.ir.op import Op

PAGE = Path(__file__).parent.parent / "docs" / "op_matrix.md"
YES = "✓"
COLUMNS = {  # column -> the law that is the evidence
    "jvp": "jvp_is_the_slope",
    "transpose": "transpose_is_adjoint",
    "second order": "second_derivatives_are_slopes",
    "vmap": "batch_is_a_loop",
    "vmap of jvp": "batch_goes_with_jvp",
}
ROUNDED = "by its rule, as if nothing were rounded: tests/test_quantize.py"
OF_PYTHON = "refused: nothing is known of a Python function; custom_jvp and custom_vjp say it"
REASONS = {  # what no law can measure, and why
    "fake_quantize": ROUNDED,
    "reduce_precision": ROUNDED,
    "dequantize": "of float32 alone: tests/test_quantize.py",
    "gamma_sample": "through the distribution, not the sampler: tests/test_random_distributions.py",
    "pure_callback": OF_PYTHON,
    "io_callback": OF_PYTHON,
    "custom_pullback": "the derivative of custom_vjp_call, whose laws use it",
    **dict.fromkeys(REVERSE_ONLY, "refused: the user gave reverse mode alone"),
}
HEAD = """# What each op can do

Made by `make pages` from the rooms of the ops; do not edit. ✓: a law of `tests/test_every_op.py`
holds it to that, on samples. **jvp**: tangents are slopes. **transpose**: reverse mode is the
adjoint of forward mode. **second order**: forward over forward and forward over reverse; higher
orders use the same rules again. **vmap**: a batch is a loop, for every choice of batched
arguments; any axis is moved to the front first. **vmap of jvp**: both orders agree.
"""


def ours() -> dict[str, Op]:
    """The ops of the house, in the order of their files and names."""
    # other tests define ops as users do
    rows = [op for op in OPS.values() if not op.rules.of_user]
    return {op.name: op for op in sorted(rows, key=lambda op: (op.module, op.name))}


@functools.cache
def _laws_of(op: Op) -> tuple[str, ...]:
    return laws_of(op)


@functools.cache
def _refusal(op: Op, column: str) -> str:
    """What an op says that refuses a derivative, which the laws hold it to."""
    for case in cases_of(op):
        floats = [p.type.is_inexact for p in case.graph.params]
        active = case.active if any(case.active) else floats
        try:
            (pulled if column == "transpose" else pushed)(case.graph, active)
        except GradientError as error:
            return f"refused: {error.what.removeprefix(op.name).lstrip(': ')}"
    return ""


def cell(op: Op, column: str) -> str:
    """What stands in the table: ✓, or why not."""
    law = COLUMNS[column]
    # where a derivative is refused the law of the adjoint is that it is
    is_refused = column == "transpose" and op.name in FORWARD_ONLY
    if law in _laws_of(op) and not is_refused:
        return YES
    if column == "vmap":
        has_operands = any(sample.args for sample in op.sample_list)
        return REASONS.get(op.name, "") if has_operands or op.is_variadic else "no operands"
    if op.rules.nondifferentiable is not None:
        return f"not differentiable: {op.rules.nondifferentiable}"
    return _refusal(op, column) or REASONS.get(op.name, "")


def page() -> str:
    """The text of the document."""
    lines = [HEAD]
    file = ""
    for op in ours().values():
        if op.module != file:
            file = op.module
            name = file.removeprefix("rlx.ir.ops.")
            lines += [f"\n## {name}\n", "| op | " + " | ".join(COLUMNS) + " |"]
            lines += ["|" + " --- |" * (len(COLUMNS) + 1)]
        cells = [cell(op, column) for column in COLUMNS]
        # one reason is said once
        shown = [c if c == YES or c not in cells[:i] else '"' for i, c in enumerate(cells)]
        lines.append(f"| {op.name} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
