"""Train a network on handwritten digits; writes a loss curve and a picture of predictions."""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rlx
from rlx import nn, optim

BATCH = 64


def train(images, labels, epochs, device):
    """Give a trained model and the loss of each step."""
    key = rlx.random.key(0)
    model = nn.MLP([64, 256, 128, 10], key=key)
    batches = len(images) // BATCH
    rate = optim.schedules.warmup_cosine(4e-3, 2 * batches, epochs * batches)
    optimizer = optim.adamw(rate, weight_decay=0.1)
    state, losses = optimizer.init(model), []

    def loss_of(model, images, labels):
        return nn.losses.cross_entropy(model(images), labels)

    @rlx.jit(device=device)
    def step(model, state, images, labels):
        loss, grads = rlx.value_and_grad(loss_of)(model, images, labels)
        updates, state = optimizer.update(grads, state, model)
        return optim.apply_updates(model, updates), state, loss

    for epoch in track(range(epochs), description="training"):
        order = np.asarray(rlx.random.permutation(rlx.random.fold_in(key, epoch), len(images)))
        for rows in order[: batches * BATCH].reshape(batches, BATCH):
            model, state, loss = step(model, state, images[rows], labels[rows])
            losses.append(float(loss))
    return model, losses


def draw(losses, images, labels, predicted, folder):
    """Draw the loss, and the digits: first those taken for others, in red."""
    folder.mkdir(parents=True, exist_ok=True)
    curve, axes = plt.subplots(figsize=(6, 4))
    axes.semilogy(losses)
    axes.set(xlabel="step", ylabel="cross-entropy", title="training loss")
    digits, grid = plt.subplots(4, 8, figsize=(8, 5))
    order = np.argsort(predicted == labels, kind="stable")
    for axes, i in zip(grid.flat, order, strict=False):
        axes.imshow(images[i].reshape(8, 8), cmap="gray_r")
        axes.set_title(predicted[i], color="black" if predicted[i] == labels[i] else "red")
        axes.axis("off")
    for figure, name in ((curve, "digits_loss.png"), (digits, "digits_predictions.png")):
        figure.savefig(folder / name, dpi=120)
        print(f"wrote {folder / name}")
    if plt.get_backend().lower() != "agg":  # there is a screen to show them on
        plt.show()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="where to train (default: cpu)")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training images")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the pictures go")
    asked = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    data = (images / 16).astype(np.float32), labels.astype(np.int32)
    images, unseen, labels, wanted = train_test_split(*data, test_size=0.2, random_state=0)
    model, losses = train(images, labels, asked.epochs, asked.device)
    predicted = np.argmax(model(unseen), axis=-1)
    print(f"accuracy on {len(wanted)} digits it has not seen: {np.mean(predicted == wanted):.1%}")
    draw(losses, unseen, wanted, predicted, asked.out)
