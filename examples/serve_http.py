"""Serve a model over HTTP: train, export to one file, load it, answer with FastAPI.

    pip install fastapi uvicorn
    python examples/serve_http.py --serve
    curl localhost:8000/predict -H "content-type: application/json" -d '{"images": [[0, 1, ...]]}'

Without --serve it asks the loaded function itself, from several threads, and draws how long that
takes by the size of the batch.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import rlx
from rlx import nn, optim, train

LARGEST, THREADS = 256, 4  # images in a request; threads that ask


def export(path, images, labels, steps):
    """Train a network on digits and write it to a file, with its weights, without its code."""
    model, optimizer = nn.MLP([64, 128, 10], key=rlx.random.key(0)), optim.adam(3e-3)

    @rlx.jit
    def train_step(model, opt_state, images, labels):
        grads = rlx.grad(lambda m: nn.losses.cross_entropy(m(images), labels))(model)
        updates, opt_state = optimizer.update(grads, opt_state, model)
        return optim.apply_updates(model, updates), opt_state

    opt_state = optimizer.init(model)
    data, key = (images, labels), rlx.random.key(1)
    for batch in train.batches(data, 64, key=key, steps=steps, drop_last=True):
        model, opt_state = train_step(model, opt_state, *batch)
    count = rlx.dim("images", min=1, max=LARGEST)  # one program for batches of all sizes
    predict = rlx.export(lambda images: nn.softmax(model(images)), rlx.spec((count, 64)))
    path.parent.mkdir(parents=True, exist_ok=True)
    predict.save(path)


def load(path):
    """The function of a file, ready: the first call compiles, so it is made before any request."""
    predict = rlx.load_exported(path)
    predict(np.zeros((1, 64), "float32"))
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
        predict(images[:size])
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
    export(asked.out / "digits.rlx", images[:1400], labels[:1400], asked.steps)
    predict = load(asked.out / "digits.rlx")
    print(f"accuracy: {train.accuracy(predict(images[-256:]), labels[-256:]):.1%}")
    if asked.serve:
        import uvicorn

        uvicorn.run(application(predict), port=8000)
    else:
        draw(measure(predict, images, calls=200), asked.out / "serve_http.png")
