"""`examples/cnn.py` in JAX, Flax, Optax and Orbax."""

import argparse
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

BATCH = 64


def network(rngs):
    """Two blocks of convolution, normalization and pooling, then a linear layer."""

    def block(inputs, outputs):
        conv = nnx.Conv(inputs, outputs, (3, 3), use_bias=False, rngs=rngs)
        pool = partial(nnx.max_pool, window_shape=(2, 2), strides=(2, 2))
        return [conv, nnx.BatchNorm(outputs, momentum=0.9, rngs=rngs), nnx.relu, pool]

    head = [nnx.Dropout(0.3, rngs=rngs), nnx.Linear(2 * 2 * 64, 10, rngs=rngs)]
    return nnx.Sequential(*block(1, 32), *block(32, 64), flat, *head)


def flat(images):
    """One row of numbers for each image."""
    return images.reshape(len(images), -1)


def shifted(key, image):
    """The image, moved to the left or the right by up to one pixel."""
    return jnp.roll(image, jax.random.randint(key, (), -1, 2), axis=1)


@nnx.jit
def train_step(model, optimizer, key, batch):
    """Change the model and the optimizer by a batch; gives the loss."""
    images = jax.vmap(shifted)(jax.random.split(key, BATCH), batch["image"])

    def loss_of(model):
        logits = model(images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    loss, grads = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, grads)
    return loss


def batches(data, start, steps):
    """Shuffled batches from a step on, the same ones each time."""
    rows, count = len(data["label"]), len(data["label"]) // BATCH
    for step in range(start, steps):
        epoch, place = divmod(step, count)
        if step == start or place == 0:
            key = jax.random.fold_in(jax.random.key(2), epoch)
            order = np.asarray(jax.random.permutation(key, rows))
        chosen = order[place * BATCH : (place + 1) * BATCH]
        yield step + 1, {name: x[chosen] for name, x in data.items()}


def fit(data, steps, every, folder):
    """Train from the last checkpoint on, which holds the whole state, and save every few steps."""
    model = network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(2e-3, weight_decay=0.01), wrt=nnx.Param)
    losses = jnp.zeros(steps)
    options = ocp.CheckpointManagerOptions(max_to_keep=3)
    with ocp.CheckpointManager(folder.absolute(), options=options) as checkpoints:
        start = checkpoints.latest_step() or 0
        if start:
            like = {"model": nnx.state(model), "optimizer": nnx.state(optimizer), "losses": losses}
            found = checkpoints.restore(start, args=ocp.args.StandardRestore(like))
            nnx.update(model, found["model"])
            nnx.update(optimizer, found["optimizer"])
            losses = found["losses"]
        loop = track(batches(data, start, steps), "training", total=steps - start)
        for step, batch in loop:
            key = jax.random.fold_in(jax.random.key(1), step)
            losses = losses.at[step - 1].set(train_step(model, optimizer, key, batch))
            if step % every == 0 or step == steps:
                state = {"model": nnx.state(model), "optimizer": nnx.state(optimizer)}
                state["losses"] = losses
                checkpoints.save(step, args=ocp.args.StandardSave(state))
                print(f"step {step:4d}   loss {losses[step - 1]:.4f}", flush=True)
    model.eval()
    return model, losses


def draw(losses, confusion, path):
    """Draw the loss of each step, and how often each digit was taken for which."""
    figure, (curve, matrix) = plt.subplots(1, 2, figsize=(10, 4))
    curve.semilogy(losses)
    curve.set(xlabel="step", ylabel="cross-entropy", title="training loss")
    matrix.imshow(np.log1p(confusion), cmap="Blues")
    matrix.set(xlabel="predicted", ylabel="label", title="digits it has not seen")
    for (row, column), count in np.ndenumerate(confusion):
        color = "white" if count > 9 else "black"
        matrix.text(column, row, count or "", ha="center", va="center", color=color)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600, help="how many batches")
    parser.add_argument(
        "--every", type=int, default=100, help="steps from checkpoint to checkpoint"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    data = (images / 16).astype("float32").reshape(-1, 8, 8, 1), labels.astype("int32")
    images, unseen, labels, wanted = train_test_split(*data, test_size=0.2, random_state=0)
    data = {"image": images, "label": labels}
    model, losses = fit(data, asked.steps, asked.every, asked.out / f"cnn-{asked.steps}-steps")
    found = model(unseen).argmax(-1)
    print(f"accuracy on {len(wanted)} unseen digits: {np.mean(found == wanted):.1%}")
    draw(np.asarray(losses), confusion_matrix(wanted, found), asked.out / "cnn.png")
