"""A walk through rlx from top to bottom: function, graph, derivatives, loops, machine code.

Run it and read along: every line printed here is made by the step above it. docs/tour.md follows
the same function and names the files that do each step.
"""

import rlx
import rlx.numpy as rnp
from rlx.ir import show
from rlx.ir.graph import OPS


def title(text):
    """Print a heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def loss(w, x):
    """A plain Python function: how far the products are from 1, squared and summed."""
    return rnp.sum((x * w - 1) ** 2)


def pushed(w, x, t):
    """The loss, and how fast it changes as w moves by t."""
    return rlx.jvp(lambda w: loss(w, x), (w,), (t,))


w = rlx.array([0.5, -1.0, 2.0])
x = rlx.array([3.0, 1.0, 0.5])

title("1. An op is defined in one place, with all its rules")
square = OPS["square"]
print(square.name, "of", square.module, "has", ", ".join(vars(square.rules)))

title("2. Called with arrays, a function runs op by op")
print(loss(w, x))

title("3. Called with traced tensors, it is recorded as a typed graph")
print(show(rlx.make_graph(loss)(w, x)))

title("4. jvp pushes a tangent through the graph, beside the values")
print(show(rlx.make_graph(pushed)(w, x, w), sources=False))
print(pushed(w, x, rlx.array([1.0, 0.0, 0.0])))

title("5. grad splits that into known values and linear tangents, and transposes the linear part")
print(show(rlx.make_graph(rlx.grad(loss))(w, x), sources=False))
print(rlx.grad(loss)(w, x))

title("6. vmap gives every node a batch axis")
rows = rnp.stack([x, x + 1])
print(show(rlx.make_graph(rlx.vmap(loss, in_axes=(None, 0)))(w, rows), sources=False))

title("7. The result of a transform is a graph, so transforms nest in any order")
print(rlx.vmap(rlx.hessian(loss), in_axes=(None, 0))(w, rows))

title("8. jit lowers the graph: merged, simplified, expanded, fused into loops")
step = rlx.jit(rlx.value_and_grad(loss))
stages = step.lower(w, x).compile().stages
print(", ".join(stages), stages["lir"], sep="\n")

title("9. The loops are written as LLVM text, and become code of this processor")
print("\n".join(stages["llvm"].splitlines()[-12:]))
print("main:", *stages["assembly"].partition("main:\n")[2].splitlines()[:12], "...", sep="\n")

title("10. And the machine code runs")
print(step(w, x))
