"""A chart of the speed-ups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from .libraries import PEERS
from .result import SLOW, Result

matplotlib.use("Agg")  # draws into files, needs no screen
import matplotlib.pyplot as plt

plt.rcParams["svg.fonttype"] = "none"  # letters, not their outlines: a tenth of the bytes

GOOD, EVEN, BAD = "#2a7f4f", "#8aa0a8", "#b5483a"


def color(ratio: float) -> str:
    """Faster, about as fast, or slower."""
    return BAD if ratio < SLOW else EVEN if ratio < 1 / SLOW else GOOD


def draw(results: Sequence[Result], path: Path) -> None:
    """Bars from 1 to the speed-up against the best peer, whose name stands beside."""
    rows = [(r, ratio) for r in results if (ratio := r.speedup()) is not None]
    figure, axes = plt.subplots(figsize=(9, 0.24 * len(rows) + 1.2))
    places = range(len(rows))
    axes.barh(
        places, [ratio - 1 for _, ratio in rows], left=1, color=[color(ratio) for _, ratio in rows]
    )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}x")
    for place, (result, ratio) in zip(places, rows, strict=True):
        peer = PEERS[result.best_peer].title if result.best_peer else ""
        axes.annotate(
            f"{ratio:.2f}x {peer}", (max(ratio, 1.0), place), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=7,
        )  # fmt: skip
    axes.set_yticks(places, [r.case.title for r, _ in rows], fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.2, y=0.01)
    axes.set_xlabel("time of the best peer / time of rlx (right of the line rlx is faster)")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
