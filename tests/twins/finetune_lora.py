"""`examples/finetune_lora.py` in JAX, Flax and Optax."""

import argparse
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH, RANK = 64, 8


class MLP(nnx.Module):
    """Linear layers with relu between them, which may have adapters."""

    def __init__(self, sizes, rngs):
        self.layers = nnx.List([nnx.Linear(n, m, rngs=rngs) for n, m in itertools.pairwise(sizes)])

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nnx.relu(layer(x))
        return self.layers[-1](x)


def loss_of(model, images, labels):
    """The cross-entropy of the labels."""
    return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()


def accuracy(model, images, labels):
    """The share of images that are read rightly."""
    return float(jnp.mean(model(images).argmax(-1) == labels))


def fit(model, data, steps, rate, kind, unseen=()):
    """Train variables of a kind; gives the accuracies on data sets along the way."""
    optimizer = nnx.Optimizer(model, optax.adam(rate), wrt=kind)

    @nnx.jit
    def train_step(model, optimizer, images, labels):
        argnums = nnx.DiffState(0, kind)
        optimizer.update(model, nnx.grad(loss_of, argnums=argnums)(model, images, labels))

    rows, count, curves = len(data[1]), len(data[1]) // BATCH, []
    for step in range(steps):
        epoch, place = divmod(step, count)
        if place == 0:
            key = jax.random.fold_in(jax.random.key(0), epoch)
            order = np.asarray(jax.random.permutation(key, rows))
        if step % max(steps // 20, 1) == 0:
            curves.append([accuracy(model, images, labels) for images, labels in unseen])
        chosen = order[place * BATCH : (place + 1) * BATCH]
        train_step(model, optimizer, *(x[chosen] for x in data))
    return np.array(curves)


def adapted(model, rngs):
    """The model with an adapter beside each linear layer."""
    tuned = nnx.clone(model)
    for i, layer in enumerate(tuned.layers):
        sizes = layer.in_features, RANK, layer.out_features
        tuned.layers[i] = nnx.LoRA(*sizes, base_module=layer, rngs=rngs)
    return tuned


def merged(tuned):
    """The model with plain layers, whose weights are the sums of both."""
    model = nnx.clone(tuned)
    for i, layer in enumerate(model.layers):
        plain = layer.base_module
        plain.kernel[...] += layer.lora_a[...] @ layer.lora_b[...]
        model.layers[i] = plain
    return model


def mirrored(images, labels):
    """The images with left and right exchanged."""
    return images.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64), labels


def numbers_in(model, kind):
    """How many numbers of a model are trained."""
    return sum(x.size for x in jax.tree.leaves(nnx.state(model, kind)))


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

    model = MLP([64, 256, 256, 10], nnx.Rngs(0))
    fit(model, (images, labels), asked.steps, 1e-3, nnx.Param)
    tuned = adapted(model, nnx.Rngs(1))
    count = numbers_in(tuned, nnx.LoRAParam), numbers_in(model, nnx.Param)
    print(f"the adapters have {count[0]:,} numbers, the network {count[1]:,}")
    data = mirrored(images, labels)
    curves = fit(tuned, data, asked.steps, 3e-3, nnx.LoRAParam, tests)
    assert all(
        np.array_equal(after.base_module.kernel[...], before.kernel[...])
        and np.array_equal(after.base_module.bias[...], before.bias[...])
        for after, before in zip(tuned.layers, model.layers, strict=True)
    )
    before, after = (accuracy(m, *tests[1]) for m in (model, merged(tuned)))
    print(f"mirrored digits: {before:.1%} are read at first, {after:.1%} after tuning")
    draw(curves, asked.steps, asked.out / "finetune_lora.png")
