"""MiniLM in ONNX Runtime: as PyTorch exports it, with the fusions of ONNX Runtime's own tool."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from onnxruntime.transformers.optimizer import optimize_model
from transformers import AutoModel


class Vectors(torch.nn.Module):
    """The encoder with the mean of its states, of length 1, over texts of equal lengths."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = AutoModel.from_pretrained(folder)

    def forward(self, ids: Any, mask: Any) -> Any:
        """Vectors of i64[rows, tokens]; the mask has ones at tokens."""
        x = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[..., None].to(x.dtype)
        x = (x * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(x)


def fastest(folder: Path, threads: int, ids: np.ndarray) -> Callable[[], np.ndarray]:
    """What turns `ids` into vectors: the file as it is, or fused, whichever is quicker."""
    calls = []
    with tempfile.TemporaryDirectory() as place:
        plain, fused = f"{place}/plain.onnx", f"{place}/fused.onnx"
        _export(folder, plain, ids.shape)
        model = optimize_model(plain, "bert", num_heads=12, hidden_size=384, opt_level=0)
        model.save_model_to_file(fused)
        for path in (plain, fused):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            # else its threads go on spinning after a run, on the cores of who runs next
            options.add_session_config_entry("session.force_spinning_stop", "1")
            session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
            given = {"ids": ids.astype("int64"), "mask": np.ones(ids.shape, "int64")}
            calls.append(lambda s=session, x=given: s.run(None, x)[0])
    return min(calls, key=_taken)


def _export(folder: Path, path: str, shape: tuple[int, ...]) -> None:
    ids = torch.ones(shape, dtype=torch.int64)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Vectors(folder).eval(),
            (ids, ids),
            path,
            input_names=["ids", "mask"],
            opset_version=17,
            dynamo=False,
        )


def _taken(call: Callable[[], Any]) -> float:
    import time

    for _ in range(3):
        call()
    began = time.process_time()
    for _ in range(10):
        call()
    return time.process_time() - began
