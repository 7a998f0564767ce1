"""`examples/serve_http.py` in JAX, Flax and Optax."""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.export
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

LARGEST, THREADS = 256, 4  # images in a request; threads that ask


def export(path, images, labels, steps):
    """Train a network on digits and write it to a file, with its weights, without its code."""
    rngs = nnx.Rngs(0)
    model = nnx.Sequential(nnx.Linear(64, 128, rngs=rngs), nnx.relu, nnx.Linear(128, 10, rngs=rngs))
    optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)

    @nnx.jit
    def train_step(model, optimizer, images, labels):
        def loss_of(model):
            logits = model(images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        optimizer.update(model, nnx.grad(loss_of)(model))

    rows, count = len(labels), len(labels) // 64
    for step in range(steps):
        epoch, place = divmod(step, count)
        if place == 0:
            key = jax.random.fold_in(jax.random.key(1), epoch)
            order = np.asarray(jax.random.permutation(key, rows))
        chosen = order[place * 64 : (place + 1) * 64]
        train_step(model, optimizer, images[chosen], labels[chosen])
    # one program for batches of all sizes
    (size,) = jax.export.symbolic_shape("n", constraints=["n >= 1", f"n <= {LARGEST}"])
    spec = jax.ShapeDtypeStruct((size, 64), np.float32)
    predict = jax.export.export(jax.jit(lambda images: jax.nn.softmax(model(images))))(spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(predict.serialize())


def load(path):
    """The function of a file, ready: the first call compiles, so it is made before any request."""
    predict = jax.jit(jax.export.deserialize(bytearray(path.read_bytes())).call)
    for size in (1, 4, 16, 64, LARGEST):  # each is compiled by itself
        predict(np.zeros((size, 64), "float32"))
    return predict


def application(predict):
    """The routes. Each request runs in a thread of its own; `predict` may be called by many."""
    from fastapi import FastAPI, HTTPException

    app = FastAPI(title="digits")

    @app.get("/health")
    def health():
        return {"status": "ok"}

    @app.post("/predict")
    def answer(query: dict[str, list[list[float]]]):
        images = query.get("images", [])
        if not 1 <= len(images) <= LARGEST or any(len(image) != 64 for image in images):
            raise HTTPException(422, f"give 1 to {LARGEST} images of 64 numbers")
        chances = predict(np.array(images, "float32"))
        return {"digits": chances.argmax(-1).tolist(), "chances": chances.max(-1).tolist()}

    return app


def measure(predict, images, calls):
    """Microseconds of a call by batch size, asked by several threads at once."""

    def one(size):
        start = time.perf_counter()
        predict(images[:size]).block_until_ready()
        return (time.perf_counter() - start) * 1e6

    with ThreadPoolExecutor(THREADS) as threads:
        return {n: list(threads.map(one, [n] * calls)) for n in (1, 4, 16, 64, LARGEST)}


def draw(times, path):
    """Draw the times of calls: a batch costs little more than one image, so join requests."""
    figure, (whole, each) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    whole.boxplot(list(times.values()), tick_labels=list(times), showfliers=False)
    whole.set(xlabel="images in a call", ylabel="microseconds of a call")
    each.loglog(list(times), [np.median(t) / n for n, t in times.items()], "o-")
    each.set(xlabel="images in a call", ylabel="microseconds for each image")
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="steps of training")
    parser.add_argument("--serve", action="store_true", help="answer at port 8000")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the files go")
    asked = parser.parse_args()
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype("float32"), labels.astype("int32")
    export(asked.out / "digits.jax", images[:1400], labels[:1400], asked.steps)
    predict = load(asked.out / "digits.jax")
    found = predict(images[-256:]).argmax(-1)
    print(f"accuracy: {np.mean(found == labels[-256:]):.1%}")
    if asked.serve:
        import uvicorn

        uvicorn.run(application(predict), port=8000)
    else:
        draw(measure(predict, images, calls=200), asked.out / "serve_http.png")
