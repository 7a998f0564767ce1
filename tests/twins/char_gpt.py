"""`examples/char_gpt.py` in JAX, Flax and Optax."""

import argparse
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx
from rich.progress import track

LENGTH, BATCH, ACCUMULATED = 64, 16, 2  # characters, texts, batches in a step


def biases(heads, places, count):
    """Attention with linear biases: each head sees less of what is further away."""
    slopes = 2.0 ** (-8.0 * (jnp.arange(heads) + 1) / heads)
    return slopes[None, :, None, None] * (jnp.arange(count) - places[:, None])


class Block(nnx.Module):
    """Causal attention and two linear layers, each of the normalized input and added to it."""

    def __init__(self, size, heads, rngs):
        self.heads = heads
        self.attention_norm = nnx.LayerNorm(size, rngs=rngs)
        self.query, self.key, self.value, self.out = (
            nnx.Linear(size, size, rngs=rngs) for _ in range(4)
        )
        self.feedforward_norm = nnx.LayerNorm(size, rngs=rngs)
        self.first = nnx.Linear(size, 4 * size, rngs=rngs)
        self.second = nnx.Linear(4 * size, size, rngs=rngs)

    def __call__(self, x, cache=None, start=0):
        y = self.attention_norm(x)
        q, k, v = (
            layer(y).reshape(*y.shape[:2], self.heads, -1)
            for layer in (self.query, self.key, self.value)
        )
        places = start + jnp.arange(x.shape[1])
        if cache is not None:
            k, v = (
                jax.lax.dynamic_update_slice_in_dim(old, new, start, axis=1)
                for old, new in zip(cache, (k, v), strict=True)
            )
        mask = (jnp.arange(k.shape[1]) <= places[:, None])[None, None]
        bias = biases(self.heads, places, k.shape[1])
        y = jax.nn.dot_product_attention(q, k, v, bias, mask)
        x = x + self.out(y.reshape(x.shape))
        return x + self.second(nnx.gelu(self.first(self.feedforward_norm(x)))), (k, v)


class GPT(nnx.Module):
    """Blocks of causal attention: `i32[batch, time] → f32[batch, time, characters]`."""

    def __init__(self, characters, size, heads, layers, rngs):
        self.embedding = nnx.Embed(characters, size, rngs=rngs)
        self.blocks = nnx.List([Block(size, heads, rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(size, rngs=rngs)
        self.head = nnx.Linear(size, characters, rngs=rngs)

    def __call__(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x, _ = block(x)
        return self.head(self.norm(x))

    def following(self, tokens, caches, start):
        """The logits of tokens that follow those in the caches, and the new caches."""
        x, after = self.embedding(tokens), []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(x, cache, start)
            after.append(cache)
        return self.head(self.norm(x)), after


@partial(nnx.jit, static_argnames="count")
def sample(model, prompt, key, count):
    """Draw so many tokens that continue a prompt, i32[time]; each sees all before it."""
    longest, size = len(prompt) + count, model.head.in_features
    heads = model.blocks[0].heads
    zeros = jnp.zeros((1, longest, heads, size // heads))
    logits, caches = model.following(prompt[None], [(zeros, zeros) for _ in model.blocks], 0)

    def step(carry, key):
        logits, caches, start = carry
        token = jax.random.categorical(key, logits)
        logits, caches = model.following(token[None, None], caches, start)
        return (logits[0, -1], caches, start + 1), token

    first = logits[0, -1], caches, len(prompt)
    _, tokens = jax.lax.scan(step, first, jax.random.split(key, count))
    return tokens


def loss_of(model, text):
    """How well each character is foreseen by those before it."""
    logits = model(text[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:]).mean()


def fit(model, tokens, steps):
    """Train on random pieces of the text; gives the losses."""
    rate = optax.warmup_cosine_decay_schedule(0.0, 3e-3, steps // 10 + 1, steps)
    adam = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))
    optimizer = nnx.Optimizer(model, optax.MultiSteps(adam, ACCUMULATED), wrt=nnx.Param)

    @nnx.jit
    def train_step(model, optimizer, text):
        loss, grads = nnx.value_and_grad(loss_of)(model, text)
        optimizer.update(model, grads)
        return loss

    pieces = np.lib.stride_tricks.sliding_window_view(tokens, LENGTH + 1)  # no copy
    order = np.asarray(jax.random.permutation(jax.random.key(1), len(pieces)))
    losses = []
    for i in track(range(steps * ACCUMULATED), "training"):
        text = pieces[np.take(order, range(i * BATCH, (i + 1) * BATCH), mode="wrap")]
        losses.append(train_step(model, optimizer, text))
    return np.array(losses).reshape(steps, ACCUMULATED).mean(1)


def draw(losses, path):
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(losses)
    axes.set(xlabel="step", ylabel="cross-entropy of a character", title="training loss")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="how many steps to train")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    text = "\n".join(topics[name] for name in sorted(topics))[:200_000]
    alphabet = sorted(set(text))
    tokens = np.array([alphabet.index(c) for c in text], "int32")
    model = GPT(len(alphabet), 64, 4, 2, nnx.Rngs(0))
    losses = fit(model, tokens, asked.steps)
    print(f"loss {losses[0]:.2f}, after {asked.steps} steps {losses[-1]:.2f}")
    written = sample(model, tokens[:16], jax.random.key(2), count=400)
    print("".join(alphabet[i] for i in written.tolist()))
    draw(losses, asked.out / "char_gpt.png")
