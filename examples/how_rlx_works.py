"""A walk through rlx from top to bottom: function, graph, derivatives, stages, machine code.

Run it and read along: every line printed here is made by the step above it.
"""

import rlx
import rlx.numpy as rnp
from rlx.ir import show


def title(text):
    """Print a heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def loss(w, x):
    """A plain Python function: one neuron and a squared error."""
    y = rnp.tanh(x @ w)
    return rnp.mean((y - 0.5) ** 2)


w = rlx.array([0.5, -1.0, 2.0])
x = rlx.array([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]])

title("1. Called with arrays, it runs op by op")
print(loss(w, x))

title("2. Called with traced tensors, it is recorded as a typed graph")
graph = rlx.make_graph(loss)(w, x)
print(show(graph))

title("3. jvp pushes a tangent through the same graph")
value, slope = rlx.jvp(lambda w: loss(w, x), (w,), (rlx.array([1.0, 0.0, 0.0]),))
print(value, slope)

title("4. grad is jvp, split into known and linear, and the linear part transposed")
print(rlx.grad(loss)(w, x))
print(show(rlx.make_graph(rlx.grad(loss))(w, x)))

title("5. vmap gives every node a batch axis")
print(rlx.vmap(rlx.grad(loss), in_axes=(None, 0))(w, x[:, None, :]))

title("6. Transforms nest in any order")
print(rlx.hessian(loss)(w, x))

title("7. jit lowers the graph: simpler, expanded, fused into loops")
step = rlx.jit(rlx.value_and_grad(loss))
compiled = step.lower(w, x).compile()
stages = compiled.stages
print(stages["lir"])

title("8. The loops become vector code of this machine")
print("\n".join(stages["assembly"].splitlines()[:12]), "\n...")

title("9. And the machine code runs")
print(step(w, x))
