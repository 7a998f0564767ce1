"""A GPT that writes Python's manual, character by character.

It learns from the help texts that come with Python; gradients of several batches make one step.
Writing goes through a cache of keys and values, inside `scan`, in compiled code. Draws the loss.
"""

import argparse
from pathlib import Path
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np

import rlx
from rlx import nn, optim, train

LENGTH, BATCH, ACCUMULATED = 64, 16, 2  # characters, texts, batches in a step


class GPT(nn.Module):
    """Blocks of causal attention: `i32[batch, time] → f32[batch, time, characters]`."""

    embedding: nn.Embedding
    blocks: tuple[nn.TransformerEncoderLayer, ...]
    norm: nn.LayerNorm
    head: nn.Linear

    def __init__(self, characters, size, heads, layers, *, key):
        first, last, *keys = rlx.random.split(key, layers + 2)
        kind: dict = {"position": "alibi", "norm_first": True, "activation": nn.gelu, "dropout": 0}
        self.embedding = nn.Embedding(characters, size, key=first)
        self.blocks = tuple(
            nn.TransformerEncoderLayer(size, heads, 4 * size, key=k, **kind) for k in keys
        )
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, characters, key=last)

    def __call__(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.head(self.norm(x))

    def following(self, tokens, caches):
        """The logits of tokens that follow those in the caches, and the new caches."""
        x, after = self.embedding(tokens), []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(x, cache=cache)
            after.append(cache)
        return self.head(self.norm(x)), after


def sample(model, prompt, key, count):
    """Draw so many tokens that continue a prompt, i32[time]; each sees all before it."""
    longest = len(prompt) + count
    caches = [block.attention.initial_cache(1, longest) for block in model.blocks]
    logits, caches = model.following(prompt[None], caches)

    def step(carry, key):
        logits, caches = carry
        token = rlx.random.categorical(key, logits)
        logits, caches = model.following(token[None, None], caches)
        return (logits[0, -1], caches), token

    _, tokens = rlx.scan(step, (logits[0, -1], caches), rlx.random.split(key, count))
    return tokens


def loss_of(model, text):
    """How well each character is foreseen by those before it."""
    return nn.losses.cross_entropy(model(text[:, :-1]), text[:, 1:])


def fit(model, tokens, steps, precision):
    """Train on random pieces of the text; gives the model and the losses."""
    rate = optim.schedules.warmup_cosine(3e-3, steps // 10 + 1, steps)
    adam = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(rate))
    optimizer = optim.multi_steps(adam, ACCUMULATED)

    @rlx.jit(precision=precision)
    def train_step(model, opt_state, text):
        loss, grads = rlx.value_and_grad(loss_of)(model, text)
        updates, opt_state = optimizer.update(grads, opt_state, model)
        return optim.apply_updates(model, updates), opt_state, loss

    pieces = np.lib.stride_tricks.sliding_window_view(tokens, LENGTH + 1)  # no copy
    texts = train.batches(pieces, BATCH, key=rlx.random.key(1), steps=steps * ACCUMULATED)
    opt_state, losses = optimizer.init(model), []
    for text in train.progress(texts, description="training"):
        model, opt_state, loss = train_step(model, opt_state, text)
        losses.append(loss)
    return model, np.array(losses).reshape(steps, ACCUMULATED).mean(1)


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
    parser.add_argument("--precision", help="mixed_bf16, or float32 if not given")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    asked = parser.parse_args()
    text = "\n".join(topics[name] for name in sorted(topics))[:200_000]
    alphabet = sorted(set(text))
    tokens = np.array([alphabet.index(c) for c in text], "int32")
    model = GPT(len(alphabet), 64, 4, 2, key=rlx.random.key(0))
    model, losses = fit(model, tokens, asked.steps, asked.precision)
    print(f"loss {losses[0]:.2f}, after {asked.steps} steps {losses[-1]:.2f}")
    write = rlx.jit(sample, static_argnames="count")
    written = write(model, tokens[:16], rlx.random.key(2), count=400)
    print("".join(alphabet[i] for i in written.tolist()))
    draw(losses, asked.out / "char_gpt.png")
