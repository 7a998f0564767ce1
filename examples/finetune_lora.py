"""Fine-tune a network by low-rank adapters (LoRA): it reads digits, and learns mirrored ones.

The network stays as it is, bit for bit; only the adapters are trained, a tenth of its numbers, and
merged into its weights at the end. Draws both accuracies while it learns. After Hu et al., 2021,
https://arxiv.org/abs/2106.09685
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rlx
from rlx import nn, optim, train

BATCH, RANK = 64, 8


def loss_of(model, images, labels):
    """The cross-entropy of the labels."""
    return nn.losses.cross_entropy(model(images), labels)


def fit(model, data, steps, rate, unseen=()):
    """Train what is no state; gives the model, and the accuracies on data sets along the way."""
    optimizer = optim.adam(rate)

    @rlx.jit
    def train_step(model, opt_state, images, labels):
        grads = rlx.grad(loss_of)(model, images, labels)
        updates, opt_state = optimizer.update(grads, opt_state, model)
        return optim.apply_updates(model, updates), opt_state

    opt_state, curves = optimizer.init(model), []
    loop = train.batches(data, BATCH, key=rlx.random.key(0), steps=steps, drop_last=True)
    for step, batch in enumerate(loop):
        if step % max(steps // 20, 1) == 0:
            curves.append([train.accuracy(model(images), labels) for images, labels in unseen])
        model, opt_state = train_step(model, opt_state, *batch)
    return model, np.array(curves)


def adapted(model, key):
    """The model with an adapter beside each linear layer; the layers become state."""
    keys = rlx.random.split(key, len(model.layers))
    layers = [nn.LoRA(layer, RANK, key=key) for layer, key in zip(model.layers, keys, strict=True)]
    return nn.tree_at(lambda model: model.layers, model, tuple(layers))


def mirrored(images, labels):
    """The images with left and right exchanged."""
    return images.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64), labels


def numbers_in(model):
    """How many numbers of a model are trained."""
    return sum(x.size for x in rlx.tree.leaves(nn.filter(model, nn.is_parameter)))


def draw(curves, steps, path):
    """Draw the accuracies during the fine-tuning."""
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(np.linspace(0, steps, len(curves)), 100 * curves, "o-")
    axes.legend(["digits as before", "mirrored digits"])
    axes.set(xlabel="step of fine-tuning", ylabel="accuracy in percent", ylim=(0, 102))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600, help="steps of training, and of tuning")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    data = (images / 16).astype("float32"), labels.astype("int32")
    images, unseen, labels, wanted = train_test_split(*data, test_size=0.2, random_state=0)
    tests = [(unseen, wanted), mirrored(unseen, wanted)]

    model = nn.MLP([64, 256, 256, 10], key=rlx.random.key(0))
    model, _ = fit(model, (images, labels), asked.steps, 1e-3)
    tuned = adapted(model, rlx.random.key(1))
    print(f"the adapters have {numbers_in(tuned):,} numbers, the network {numbers_in(model):,}")
    tuned, curves = fit(tuned, mirrored(images, labels), asked.steps, 3e-3, tests)
    assert all(
        rlx.tree.all(rlx.tree.map(np.array_equal, after.layer, before))
        for after, before in zip(tuned.layers, model.layers, strict=True)
    )
    merged = nn.merge(tuned)  # plain layers again
    before, after = (train.accuracy(m(tests[1][0]), wanted) for m in (model, merged))
    print(f"mirrored digits: {before:.1%} are read at first, {after:.1%} after tuning")
    draw(curves, asked.steps, asked.out / "finetune_lora.png")
