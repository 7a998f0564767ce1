"""A convolutional network on handwritten digits, with BatchNorm, dropout and augmentation.

Kill it at any moment and start it again: it goes on at its last checkpoint, and ends with the same
bits as if nothing had happened. Draws the loss and the confusion matrix.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rlx
import rlx.numpy as rnp
from rlx import nn, optim, train

BATCH = 64
optimizer = optim.adamw(2e-3, weight_decay=0.01)


def network(key):
    """Two blocks of convolution, normalization and pooling, then a linear layer."""
    first, second, last = rlx.random.split(key, 3)

    def block(inputs, outputs, key):
        conv = nn.Conv(inputs, outputs, (3, 3), use_bias=False, key=key)
        return [conv, nn.BatchNorm(outputs, momentum=0.9), nn.relu, nn.MaxPool((2, 2))]

    head = [nn.Dropout(0.3), nn.Linear(2 * 2 * 64, 10, key=last)]
    return nn.Sequential([*block(1, 32, first), *block(32, 64, second), flat, *head])


def flat(images):
    """One row of numbers for each image."""
    return images.reshape(len(images), -1)


def shifted(key, image):
    """The image, moved to the left or the right by up to one pixel."""
    return rnp.roll(image, rlx.random.randint(key, (), -1, 2), axis=1)


@rlx.jit
def train_step(state, batch):
    """The state after a batch. All that is drawn at random comes from its key."""
    key, shift, drop = rlx.random.split(state["key"], 3)
    images = rlx.vmap(shifted)(rlx.random.split(shift, BATCH), batch["image"])

    def loss_of(model):
        logits, model = nn.with_state(model)(images, key=drop)
        return nn.losses.cross_entropy(logits, batch["label"]), model

    (loss, model), grads = rlx.value_and_grad(loss_of, has_aux=True)(state["model"])
    updates, opt_state = optimizer.update(grads, state["opt_state"], model)
    return {
        "model": optim.apply_updates(model, updates),
        "opt_state": opt_state,
        "key": key,
        "losses": state["losses"].at[state["step"]].set(loss),
        "step": state["step"] + 1,
    }


def fit(data, steps, every, folder):
    """Train from the last checkpoint on, which holds the whole state, and save every few steps."""
    model = network(rlx.random.key(0))
    state = {"model": model, "opt_state": optimizer.init(model), "key": rlx.random.key(1)}
    state |= {"losses": rnp.zeros(steps), "step": rnp.array(0)}
    with rlx.io.Checkpoints(folder) as checkpoints:
        if checkpoints.latest() is not None:
            state = checkpoints.restore(like=state)
        start = int(state["step"])
        options = {"key": rlx.random.key(2), "drop_last": True, "steps": steps, "start": start}
        loop = train.progress(train.batches(data, BATCH, **options), description="training")
        for step, batch in enumerate(loop, start + 1):
            state = train_step(state, batch)
            if step % every == 0 or step == steps:
                checkpoints.save(step, state)
                print(f"step {step:4d}   loss {state['losses'][step - 1]:.4f}", flush=True)
    return nn.inference(state["model"]), state["losses"]


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
    both = (images / 16).astype("float32").reshape(-1, 8, 8, 1), labels.astype("int32")
    images, unseen, labels, wanted = train_test_split(*both, test_size=0.2, random_state=0)
    data = {"image": images, "label": labels}
    model, losses = fit(data, asked.steps, asked.every, asked.out / f"cnn-{asked.steps}-steps")
    logits = model(unseen)
    print(f"accuracy on {len(wanted)} unseen digits: {train.accuracy(logits, wanted):.1%}")
    confusion = np.asarray(train.confusion_matrix(logits, wanted))
    draw(np.asarray(losses), confusion, asked.out / "cnn.png")
