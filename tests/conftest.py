"""Tests compile what they test: nothing comes from an earlier run, nor goes to the user's cache.

What JAX computes to compare with is run once, so XLA shall compile fast: that was two fifths of
the time of the tests that compare most.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["RLX_CACHE"] = "0"
QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
os.environ.setdefault("XLA_FLAGS", " ".join(QUICK))


@pytest.fixture
def boxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A device that an installed package brings; its memory NumPy cannot read."""
    info = tmp_path / "boxed-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boxed\nVersion: 1.0\n")
    named = [f"{name} = boxed_backend:BoxedBackend" for name in ("boxed", "box:0", "gpu", "cpu")]
    (info / "entry_points.txt").write_text("\n".join(["[rlx.backends]", *named]))
    monkeypatch.syspath_prepend(str(tmp_path))
    from rlx.backends import registry
    from rlx.runtime.session import _session

    caches = (registry._foreign, registry._open, _session)
    for cache in caches:
        cache.cache_clear()
    yield "boxed"
    for cache in caches:
        cache.cache_clear()
