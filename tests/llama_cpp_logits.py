"""llama.cpp, through llama-cpp-python: logits and tokens of a GGUF file."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")


class LlamaCpp:
    """A model that llama.cpp has opened; with `has_weights=False` only its vocabulary."""

    def __init__(self, path: Path, context: int = 512, has_weights: bool = True) -> None:
        self._silent = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._silent, ctypes.c_void_p(0))
        given = llama_cpp.llama_model_default_params()
        given.vocab_only = not has_weights
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), given)
        self._words = llama_cpp.llama_model_get_vocab(self._model)
        if has_weights:
            given = llama_cpp.llama_context_default_params()
            given.n_ctx = given.n_batch = given.n_ubatch = context
            given.n_threads = given.n_threads_batch = 1
            self._context = llama_cpp.llama_init_from_model(self._model, given)

    def logits(self, ids: list[int]) -> np.ndarray:
        """Logits after each token: f32[tokens, vocabulary]."""
        memory = llama_cpp.llama_get_memory(self._context)
        llama_cpp.llama_memory_clear(memory, True)
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, i, True
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        assert llama_cpp.llama_decode(self._context, batch) == 0
        count = llama_cpp.llama_vocab_n_tokens(self._words)
        found = llama_cpp.llama_get_logits(self._context)
        logits = np.ctypeslib.as_array(found, (len(ids), count)).copy()
        llama_cpp.llama_batch_free(batch)
        return logits

    def encode(
        self, text: str, parse_special: bool = False, add_special: bool = False
    ) -> list[int]:
        """The tokens of a text."""
        data = text.encode()
        room = (llama_cpp.llama_token * (3 * len(data) + 8))()
        count = llama_cpp.llama_tokenize(
            self._words, data, len(data), room, len(room), add_special, parse_special
        )
        return list(room[:count])

    def close(self) -> None:
        """Be done with the model."""
        llama_cpp.llama_model_free(self._model)
